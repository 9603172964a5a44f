"""How to read data files: what a user says about columns, times, layout and order."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from patchad.errors import InputError, listed

Dedupe = Literal["first", "last", "mean"]
Aggregate = Literal["last", "mean", "max"]

UNITS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86_400 * 10**9,
}
"""Units of an interval, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Regular times to bring a table to: an interval and what stands for the values in it."""

    interval: float
    """In `unit`."""
    unit: str = ""
    """One of `UNITS`; empty for times that are plain numbers."""
    aggregate: Aggregate = "last"

    @classmethod
    def parse(cls, text: str) -> Grid:
        """Read an interval as a user writes it.

        Examples
        --------
        >>> Grid.parse("1min"), Grid.parse("0.5s:mean"), Grid.parse("10")
        (Grid(interval=1.0, unit='min', aggregate='last'), \
Grid(interval=0.5, unit='s', aggregate='mean'), Grid(interval=10.0, unit='', aggregate='last'))
        """
        found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*([a-z]*)\s*(?::(\w+))?\s*", text.lower())
        if found is None or (found[2] and found[2] not in UNITS) or float(found[1]) == 0:
            raise InputError(
                f"--every {text!r} is no interval; write a number and a unit ({', '.join(UNITS)}), as in 1min, 30s or "
                "1h:mean"
            )
        named: dict[str, Aggregate] = {name: name for name in get_args(Aggregate)}
        aggregate = named.get(found[3] or "last")
        if aggregate is None:
            raise InputError(
                f"--every {text!r}: {found[3]!r} is unknown; what stands for an interval is its last value, mean or "
                "max, as in 1min:mean"
            )
        grid = cls(float(found[1]), found[2], aggregate)
        if grid.unit and not 1 <= grid.nanoseconds <= 10**18:
            raise InputError(f"--every {text!r} is out of range; use an interval from 1ns to 10,000d")
        return grid

    @property
    def nanoseconds(self) -> int:
        """The interval, where it has a unit."""
        return round(self.interval * UNITS[self.unit])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The reading options of every command that takes data.

    Examples
    --------
    >>> Reading(columns=("flow",), sort=True).sort
    True
    """

    time: str | None = None
    """The column that holds the times; by default found by name or content."""
    time_format: str | None = None
    """How the times are written, as in `%d/%m/%Y %H:%M`."""
    columns: tuple[str, ...] = ()
    """The channels to read; empty: all."""
    exclude: tuple[str, ...] = ()
    """Columns to leave out."""
    unread: tuple[str, ...] = ()
    """Columns whose values are not wanted, whatever they hold."""
    every: Grid | None = None
    """Regular times to bring the rows to."""
    long: tuple[str, str, str] | None = None
    """The columns of time, channel name and value, where every row of the file holds one value."""
    sort: bool = False
    """Whether to put rows in the order of their times."""
    dedupe: Dedupe | None = None
    """What stands for rows of the same time."""
    join: bool = True
    """Whether files that follow each other in time are one series."""
    labels: str | None = None
    """The column of labels, which is read beside the channels."""
    member: str = "train"
    """What to take from a file that holds several tables: the array of an npz, the sheet of a workbook."""


def parse_names(texts: Sequence[str], option: str) -> tuple[str, ...]:
    """Read names separated by commas; a name that has a comma stands in double quotes.

    Examples
    --------
    >>> parse_names(["flow,heat", '"a,b"'], "--columns")
    ('flow', 'heat', 'a,b')
    """
    try:
        names = [name.strip() for row in csv.reader(texts, skipinitialspace=True) for name in row]
    except csv.Error as error:  # a line break outside of quotes, or a name of over 100,000 characters
        raise InputError(f"{option} cannot be read ({error}); write names separated by commas") from None
    if texts and not all(names):
        raise InputError(f"{option} has an empty name; write names separated by commas, as in {option} flow,heat")
    return tuple(dict.fromkeys(names))


def parse_long(text: str) -> tuple[str, str, str]:
    """Read the three columns of a long layout.

    Examples
    --------
    >>> parse_long("time,sensor,value")
    ('time', 'sensor', 'value')
    """
    names = parse_names([text], "--long")
    if len(names) != 3:
        raise InputError(
            f"--long needs three different columns, of time, name and value, got {listed(names)}; "
            "write them as in --long time,name,value"
        )
    return names[0], names[1], names[2]
