"""`Dataset`: everything the package knows about one public dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from patchad.datasets.layouts import Layout


@dataclass(frozen=True, slots=True)
class Size:
    """Rows, channels and anomaly ratio; None where no reliable figure is published."""

    train: int | None
    test: int | None
    channels: int
    ratio: float | None
    """Anomalous test rows in percent, pooled over the entities."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file to download, and which of its members to keep."""

    file: str
    """File name, also on a mirror."""
    url: str
    members: str | None = None
    """For a zip archive: pattern of the members to keep; group 1 is the path they are stored under."""
    sha256: str | None = None
    """Verified where known."""

    @classmethod
    def github(cls, repository: str, commit: str, members: str) -> Self:
        """Return the archive of a GitHub repository at a commit, which fixes its content."""
        name = repository.split("/")[1]
        return cls(f"{name}.zip", f"https://github.com/{repository}/archive/{commit}.zip", members)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The files to download into one folder below the root."""

    folder: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A public dataset: facts, file layouts, download recipe and benchmark sample.

    Adding one takes a module that defines it and a line in `patchad.datasets.catalogue.DATASETS`.
    """

    name: str
    about: str
    size: Size
    """Size of the complete dataset as the readers return it."""
    entities: int = 1
    paper: Size | None = None
    """Size stated by the PatchAD paper, if any."""
    licence: str
    home: str
    note: str = ""
    aliases: tuple[str, ...] = ()
    """Other names it is published under."""
    folders: tuple[str, ...] = ()
    """Folders below the root that may hold it, besides one of its own name."""
    layouts: tuple[Layout, ...]
    """Supported file layouts, preferred first."""
    recipe: Recipe | None = None
    """How to download it; None if that is impossible."""
    manual: str = ""
    """Without a recipe: how to obtain it by hand."""
    sample: tuple[str, ...] = ()
    """Entities in the fixed sample of the benchmark suite `open`, the most different first; empty: not part of it."""

    @property
    def how_to_get(self) -> str:
        """Instructions for obtaining the files."""
        if self.recipe is None:
            return self.manual
        return f"run `patchad data get {self.name}`, or download it from {self.home}"
