"""Files that follow each other in time are one series."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from patchad.data.columns import States
from patchad.data.table import Table
from patchad.data.times import zone_name

MAX_STEPS = 10.0
"""Steps of the first table that may lie between the end of one and the start of the next."""


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
    timed = [(name, table) for name, table in named if table.index is not None and len(table.values) > 1]
    if len(timed) < len(named) or len({table.index.dtype.kind for _, table in timed if table.index is not None}) != 1:
        return list(named)
    joined: list[tuple[str, list[Table]]] = []
    for name, table in sorted(timed, key=lambda item: item[1].index[0]):  # type: ignore[index]
        if joined and _follows(joined[-1][1][-1], table):
            joined[-1][1].append(table)
        else:
            joined.append((name, [table]))
    if len(joined) == len(named):
        return list(named)
    return [(name, _concatenated(tables)) for name, tables in joined]


def _follows(one: Table, other: Table) -> bool:
    if one.index is None or other.index is None or one.channels != other.channels or [*one.texts] != [*other.texts]:
        return False
    if (one.zone is None) != (other.zone is None):
        return False
    step = np.median(np.diff(one.index))
    gap = other.index[0] - one.index[-1]
    return bool(np.zeros(1, gap.dtype)[0] < gap <= MAX_STEPS * step)


def _concatenated(tables: Sequence[Table]) -> Table:
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
