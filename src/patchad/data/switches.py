"""Switches: columns of text, such as ON and OFF, become channels of 0 and 1; which states there are is learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from patchad.data.columns import States
from patchad.data.table import BoolArray, FloatArray, Table
from patchad.errors import InputError, listed

MAX_STATES = 20
"""Most states of a column that become switches; a column with more is a comment or a name, and is ignored."""
UNSEEN = 2.0
"""Value of the switches of a column in a state that train did not have: out of range for each of them."""
SWITCH_RANGE = (-0.5, 1.5)
"""Values outside of these are no switch's."""


@dataclass(frozen=True, slots=True)
class Switches:
    """Which columns of text there are, and their states.

    A column of up to two states is one channel with the column's name, 0 in the first and 1 in the second state by
    alphabet. One of more states is a channel for each, named `column=state`, that is 1 in that state: no order is made
    up between states, and the blame names the state.
    """

    columns: tuple[str, ...] = ()
    states: tuple[tuple[str, ...], ...] = ()
    """For each column its states, by alphabet."""

    @classmethod
    def learn(cls, tables: Sequence[Table]) -> tuple[Self, tuple[str, ...]]:
        """Collect the states of all tables; also return notes on the columns that are left out.

        Examples
        --------
        >>> valve = States(np.array([0, 1, 0]), ("shut", "open"))
        >>> switches, notes = Switches.learn([Table(np.ones((3, 1)), ("flow",), texts={"valve": valve})])
        >>> table = switches.encode(Table(np.ones((3, 1)), ("flow",), texts={"valve": valve}))
        >>> table.channels, table.values[:, 1].tolist(), notes
        (('flow', 'valve'), [1.0, 0.0, 1.0], ())
        """
        found = {name: {s for t in tables if name in t.texts for s in t.texts[name].names} for name in tables[0].texts}
        many = [name for name, states in found.items() if len(states) > MAX_STATES]
        kept = {name: tuple(sorted(states)) for name, states in found.items() if name not in many}
        notes = (f"ignored text columns of over {MAX_STATES} states: {listed(many)}",) if many else ()
        return cls(tuple(kept), tuple(kept.values())), notes

    def channels(self, column: str) -> tuple[str, ...]:
        """Return the channels that a column becomes."""
        states = self.states[self.columns.index(column)]
        return (column,) if len(states) <= 2 else tuple(f"{column}={state}" for state in states)

    def sources(self, channels: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that these channels come from.

        Examples
        --------
        >>> Switches(("mode",), (("auto", "off", "on"),)).sources(["flow", "mode=auto", "mode=off", "mode=on"])
        ('flow', 'mode')
        """
        return tuple(dict.fromkeys(map(self.source, channels)))

    def source(self, channel: str) -> str:
        """Return the column that a channel comes from."""
        return next((column for column in self.columns if channel in self.channels(column)), channel)

    def expand(self, names: Sequence[str]) -> tuple[str, ...]:
        """Put the channels of a column of text in the place of its name.

        Examples
        --------
        >>> Switches(("mode",), (("auto", "off", "on"),)).expand(["flow", "mode"])
        ('flow', 'mode=auto', 'mode=off', 'mode=on')
        """
        return tuple(
            channel for name in names for channel in (self.channels(name) if name in self.columns else (name,))
        )

    def mask(self, channels: Sequence[str]) -> BoolArray:
        """Mark the channels that are switches."""
        own = {channel for column in self.columns for channel in self.channels(column)}
        return np.array([channel in own for channel in channels], dtype=bool)

    def encode(self, table: Table) -> Table:
        """Return the table with its columns of text as channels; a state that was not learned is noted."""
        if table.channels is None or not (self.columns or table.texts):
            return table
        values, names, notes = [table.values], list(table.channels), list(table.notes)
        for column in self.columns:
            states = table.texts.get(column)
            if states is None:
                if column not in table.channels:
                    continue
                at = names.index(column)  # its text is all missing, or looks like numbers
                states = _states_of_numbers(values[0][:, at])
                values[0] = np.delete(values[0], at, axis=1)
                names.remove(column)
            values.append(self._switches(column, states))
            names += self.channels(column)
            notes += self._unseen(column, states)
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InputError(f"column {twice[0]!r} has the name of a state's channel; rename it")
        ignored = (*table.ignored, *(name for name in table.texts if name not in self.columns))
        joined = np.concatenate(values, axis=1) if len(values) > 1 else values[0]
        return replace(table, values=joined, channels=tuple(names), ignored=ignored, texts={}, notes=tuple(notes))

    def _switches(self, column: str, states: States) -> FloatArray:
        """Return `(time, channel)` of 0 and 1; NaN where the state is missing."""
        known = self.states[self.columns.index(column)]
        rows = np.eye(len(known), dtype=np.float32) if len(known) > 2 else np.array([[0.0], [1.0]], np.float32)
        place = {state: number for number, state in enumerate(known)}
        unseen, missing = np.full_like(rows[:1], UNSEEN), np.full_like(rows[:1], np.nan)
        each = [rows[[place[name]]] if name in place else unseen for name in states.names]
        return np.concatenate([*each, missing])[states.codes]

    def _unseen(self, column: str, states: States) -> list[str]:
        known = self.states[self.columns.index(column)]
        new = [name for name in states.names if name not in known]
        if not new:
            return []
        rows = np.isin(states.codes, [states.names.index(name) for name in new])
        where = f"rows: {int(rows.sum()):,}, the first: {int(rows.argmax())}"
        return [f"column {column!r} is in a state that was not in the fit: {listed(new)} ({where})"]


def _states_of_numbers(values: FloatArray) -> States:
    known = np.unique(values[~np.isnan(values)])
    codes = np.where(np.isnan(values), -1, np.searchsorted(known, values))
    return States(codes, tuple(f"{value:g}" for value in known))
