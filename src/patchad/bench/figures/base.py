"""What a figure is: data that are computed, and a drawing of them."""

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


class MissingSourceError(InputError):
    """The datasets or records that a figure is made from are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureOptions:
    """What figures are made from."""

    data: Path = Path("data")
    """Folder with the datasets."""
    records: tuple[Record, ...] = ()
    """Records of suites, for the figures that show them."""
    quick: bool = False
    """Train for a few steps only: a check that everything works, with meaningless results."""

    def pick(self, full: Value, quick: Value) -> Value:
        """Return the first value, or the second for a quick run."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Figure:
    """The data of a figure, and how they are drawn."""

    about: str
    compute: Callable[[FigureOptions], Frame]
    """Computes the data, tidy: one row per observation. Raises `MissingSourceError`."""
    draw: Callable[[Frame], Canvas]
