"""What a figure is: a table that is worked out, and a drawing of that table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from patchad.bench.records import Record
from patchad.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Frame = Any
"""A pandas DataFrame; pandas has no types of its own."""
Value = TypeVar("Value")


class LackingError(InputError):
    """What a figure is made from is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What figures are made from."""

    data: Path = Path("data")
    """Folder that holds the datasets."""
    records: tuple[Record, ...] = ()
    """Of suites, for the figures that show them."""
    quick: bool = False
    """Whether to train next to nothing: to see that everything works, not what comes out."""

    def amount(self, full: Value, quick: Value) -> Value:
        """Give the first, or the second where it has to be quick."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Figure:
    """A table, and how it is drawn."""

    about: str
    table: Callable[[Options], Frame]
    """Works out what is drawn, tidy: a row an observation. Raises `LackingError`."""
    draw: Callable[[Frame], Canvas]
