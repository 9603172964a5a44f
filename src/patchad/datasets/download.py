"""Download openly available datasets into a layout that `patchad.datasets.load` reads.

The hashes of these files are unknown, so none is verified; the URL of a Git repository names a commit, which fixes the
content, except for PSM. The sha256 of every downloaded file is returned and logged.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from patchad.datasets.catalogue import DATASETS, lookup
from patchad.datasets.dataset import Dataset, Recipe, Source
from patchad.errors import InputError, MissingExtraError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Download:
    """The result of `get`."""

    name: str
    folder: Path
    files: int
    fetched: bool
    """False if the folder already existed and nothing was downloaded."""
    sha256: Mapping[str, str]
    """By name of the downloaded file."""


def get(name: str, root: str | os.PathLike[str], base_url: str | None = None, *, progress: bool = False) -> Download:
    """Download a dataset into a folder below ``root``, completely or not at all.

    If the folder already exists, it is left alone and nothing is downloaded; remove it to download again.

    Parameters
    ----------
    name
        A name of `patchad.datasets.DATASETS`.
    root
        The folder that holds the dataset folders; created if missing.
    base_url
        A mirror that holds the files of the dataset's recipe under their names, used instead of the public URLs.
    progress
        Show a progress bar on stderr.

    Raises
    ------
    InputError
        The dataset cannot be downloaded (the message says how to get it), or a download fails.
    MissingExtraError
        pooch is not installed.

    Examples
    --------
    >>> get("WADI", "data")
    Traceback (most recent call last):
    patchad.errors.InputError: WADI cannot be downloaded; request access at ...
    """
    dataset = lookup(name)
    recipe = _recipe(dataset)
    folder = Path(root) / recipe.folder
    if folder.is_dir() and any(folder.iterdir()):
        _log.info("%s is already in %s; remove the folder to download it again", dataset.name, folder)
        return Download(dataset.name, folder, _count(folder), fetched=False, sha256={})
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".patchad-get-", dir=folder.parent) as scratch:
        stage = Path(scratch) / "stage"
        sums = {}
        for source in recipe.sources:
            path = _fetch(source, base_url, Path(scratch), progress=progress)
            with path.open("rb") as file:
                sums[source.file] = hashlib.file_digest(file, "sha256").hexdigest()
            _log.info("%s: %s has sha256 %s", dataset.name, source.file, sums[source.file])
            _unpack(source, path, stage)
        if folder.is_dir():
            folder.rmdir()  # empty, as checked above
        stage.replace(folder)
    return Download(dataset.name, folder, _count(folder), fetched=True, sha256=sums)


def _recipe(dataset: Dataset) -> Recipe:
    if dataset.recipe is not None:
        return dataset.recipe
    others = ", ".join(name for name, other in DATASETS.items() if other.recipe is not None)
    raise InputError(f"{dataset.name} cannot be downloaded; {dataset.how_to_get}. These can be downloaded: {others}")


def _count(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def _fetch(source: Source, base_url: str | None, folder: Path, *, progress: bool) -> Path:
    try:
        import pooch
    except ImportError as error:
        raise MissingExtraError("pooch", "data") from error
    import requests

    url = source.url if base_url is None else f"{base_url.rstrip('/')}/{source.file}"
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)  # by default it writes to stderr
    downloader = pooch.HTTPDownloader(progressbar=_Bar(source.file) if progress else False, timeout=60)
    try:
        return Path(pooch.retrieve(url, source.sha256, fname=source.file, path=folder, downloader=downloader))
    except (requests.RequestException, ValueError, OSError) as error:
        raise InputError(f"{url} could not be downloaded: {error}; try again later, or name a mirror") from error
    finally:
        logger.setLevel(level)


def _unpack(source: Source, path: Path, stage: Path) -> None:
    if source.members is None:
        stage.mkdir(exist_ok=True)
        path.replace(stage / source.file)
        return
    try:
        with path.open("rb") as file:
            kept = _extract(file, re.compile(source.members), stage, Limit())
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{source.file} is not a usable zip archive: {error}; download it again") from error
    path.unlink()
    if not kept:
        raise InputError(f"{source.file} holds no file like {source.members}; it may have changed: check {source.url}")


def _extract(file: IO[bytes], members: re.Pattern[str], stage: Path, limit: Limit, *, inner: bool = False) -> int:
    kept = 0
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".zip") and not inner:  # the UCR archive was once a zip inside a zip
                with tempfile.TemporaryFile(dir=stage.parent) as unpacked:
                    limit.copy(archive, member, unpacked)
                    kept += _extract(unpacked, members, stage, limit, inner=True)
            match = members.fullmatch(member.filename)
            if match and not member.is_dir() and _stays_inside(match[1]):
                target = stage / match[1]
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as written:
                    limit.copy(archive, member, written)
                kept += 1
    return kept


def _stays_inside(name: str) -> bool:
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts


@dataclass(slots=True)
class Limit:
    """How much may come out of an archive: a few bytes can stand for a full disk."""

    size: int = 16 * 2**30
    """Bytes of all files together; the largest dataset has about two GiB."""
    ratio: int = 200
    """Bytes of a file for each byte that it takes in the archive; tables of numbers stay under 50."""
    free: int = 64 * 2**20
    """Bytes of a file to which the ratio does not apply."""
    taken: int = 0
    """Bytes that came out so far."""

    def copy(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: IO[bytes]) -> None:
        """Unpack one file, as far as it stays within the limits; what the archive says of its size is not trusted."""
        size = 0
        with archive.open(member) as source:
            while block := source.read(2**20):
                size, self.taken = size + len(block), self.taken + len(block)
                if self.taken > self.size or size > max(self.free, self.ratio * member.compress_size):
                    raise InputError(
                        f"{member.filename!r} unpacks to more than {size:,} bytes from {member.compress_size:,}, which "
                        "no dataset does; the archive is damaged or hostile: do not use it"
                    )
                target.write(block)


class _Bar:
    """A progress bar on stderr with the interface that pooch expects."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._progress: Any = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task(title, total=None)
        self._total = 0

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, value: int) -> None:
        self._total = value
        self._progress.update(self._task, total=value or None)
        self._progress.start()

    def update(self, size: int) -> None:
        self._progress.advance(self._task, size)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        self._progress.stop()
