"""Expected values around the most severe events: a few rows of a few channels, never the whole series."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import overload

import numpy as np

from patchad.data.series import Prepared, Series
from patchad.data.table import FloatArray
from patchad.results.detection import Event, Expectation, by_severity, surroundings

MAX_EVENTS = 30
"""Most events, the most severe ones, that have expected values."""
MAX_CHANNELS = 3
"""Most channels of an event, those most to blame, that have them."""

Expect = Callable[[Series, slice], tuple[FloatArray, FloatArray] | None]
"""From some rows of a series to their expected values and the reach of normal deviations, or None."""


class Expectations(Sequence[Expectation]):
    """The expected values around each of the most severe events, computed when they are first asked for.

    They cost more than the detection itself, and only a report shows them. A pickle holds the values.
    """

    def __init__(self, expect: Expect, prepared: Prepared, events: Sequence[Event]) -> None:
        self._expect, self._prepared, self._events = expect, prepared, events

    @cached_property
    def _found(self) -> tuple[Expectation, ...]:
        worst = by_severity(self._events)[:MAX_EVENTS]
        found = (_around(number, self._events[number], self._expect, self._prepared) for number in worst)
        return tuple(one for one in found if one is not None)

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, number: int) -> Expectation: ...

    @overload
    def __getitem__(self, number: slice) -> tuple[Expectation, ...]: ...

    def __getitem__(self, number: int | slice) -> Expectation | tuple[Expectation, ...]:
        return self._found[number]

    def __reduce__(self) -> tuple[type[tuple[Expectation, ...]], tuple[tuple[Expectation, ...]]]:
        return tuple, (self._found,)


def _around(number: int, event: Event, expect: Expect, prepared: Prepared) -> Expectation | None:
    shown = surroundings(event, prepared.length)
    names = tuple(name for name, _ in event.channels[:MAX_CHANNELS])
    columns = [prepared.segments[0].channels.index(name) for name in names]
    values, reach = (np.full((shown.stop - shown.start, len(columns)), np.nan) for _ in range(2))
    for segment, rows in zip(prepared.segments, prepared.rows, strict=True):
        first, last = np.searchsorted(rows, [shown.start, shown.stop])
        told = expect(segment, slice(int(first), int(last))) if first < last else None
        if told is not None:
            where = rows[first:last] - shown.start
            values[where], reach[where] = (part[:, columns] for part in told)
    if not columns or np.isnan(values).all():
        return None
    return Expectation(number, shown.start, names, values, reach)
