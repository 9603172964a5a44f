"""Files that follow each other in time are one series."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from patchad.data.columns import States
from patchad.data.table import Table
from patchad.data.times import zone_name

MAX_STEPS = 10.0
"""Steps of the first table that may lie between the end of one and the start of the next."""


@dataclass(frozen=True, slots=True)
class Span:
    """What decides whether a table follows another: its times, and what it holds."""

    first: Any
    last: Any
    step: Any
    """The usual one, the median; None where there is one row."""
    channels: tuple[str, ...] | None
    texts: tuple[str, ...]
    zoned: bool

    @classmethod
    def of(cls, table: Table) -> Span | None:
        """Return the span of a table; None where times are missing or infinite, or there is no row."""
        index = table.index
        if index is None or len(index) == 0 or not np.isfinite(index).all():
            return None
        step = np.median(np.diff(index)) if len(index) > 1 else None
        return cls(index[0], index[-1], step, table.channels, tuple(table.texts), table.zone is not None)

    def precedes(self, other: Span) -> bool:
        """Return whether the other begins after the end of this one, at most ten usual steps later."""
        if (self.channels, self.texts, self.zoned) != (other.channels, other.texts, other.zoned):
            return False
        gap = other.first - self.last
        return bool(np.zeros(1, gap.dtype)[0] < gap <= MAX_STEPS * self.step)


def join_tables(named: Sequence[tuple[str, Table]]) -> list[tuple[str, Table]]:
    """Join tables with the same channels whose times follow each other, in the order of their times.

    A table joins the one before it where it begins after its end, at most ten usual steps later. The joined series has
    the name of its first table.

    Examples
    --------
    >>> times = np.arange(6).astype("datetime64[m]")
    >>> parts = [("b", Table(np.ones((3, 1)), ("x",), times[3:])), ("a", Table(np.ones((3, 1)), ("x",), times[:3]))]
    >>> [(name, len(table.values)) for name, table in join_tables(parts)]
    [('a', 6)]
    """
    chains = chains_of([Span.of(table) for _, table in named])
    return [(named[chain[0]][0], concatenated([named[number][1] for number in chain])) for chain in chains]


def chains_of(spans: Sequence[Span | None]) -> list[list[int]]:
    """Return which spans follow each other, as lists of their numbers; in the order given where none does.

    All are left as they are where one of them has no times, or times of another kind, or none has two rows. One of a
    single row has the usual step of the others.
    """
    alone = [[number] for number in range(len(spans))]
    timed = [(number, span) for number, span in enumerate(spans) if span is not None]
    steps = [span.step for _, span in timed if span.step is not None]
    if len(timed) < len(spans) or not steps or len({np.asarray(span.first).dtype.kind for _, span in timed}) != 1:
        return alone
    usual = np.median(steps)
    timed = [(number, replace(span, step=usual) if span.step is None else span) for number, span in timed]
    chains: list[list[tuple[int, Span]]] = []
    for number, span in sorted(timed, key=lambda item: item[1].first):
        if chains and chains[-1][-1][1].precedes(span):
            chains[-1].append((number, span))
        else:
            chains.append([(number, span)])
    return alone if len(chains) == len(spans) else [[number for number, _ in chain] for chain in chains]


def concatenated(tables: Sequence[Table]) -> Table:
    """Make one table of tables with the same channels, in the order given."""
    if len(tables) == 1:
        return tables[0]
    zones = {zone_name(table.zone): table.zone for table in tables}
    notes = list(dict.fromkeys(note for table in tables for note in table.notes))
    if len(zones) > 1:
        notes.append(f"the files have several time zones ({', '.join(sorted(map(str, zones)))}), joined in UTC")
    return replace(
        tables[0],
        name=f"{tables[0].name} to {tables[-1].name}",
        values=np.concatenate([table.values for table in tables]),
        index=np.concatenate([table.index for table in tables if table.index is not None]),
        native_index=None,
        kind="numpy",
        zone=tables[0].zone if len(zones) == 1 else dt.UTC,
        texts={name: States.join([table.texts[name] for table in tables]) for name in tables[0].texts},
        notes=tuple(notes),
    )
