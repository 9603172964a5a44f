"""Downloads of the openly available datasets into the layout that `patchad.datasets.load` reads.

The hashes of these files are not known here, so that none is checked; where a home is a Git repository the address
names a commit, which fixes the content, but for PSM. The sha256 of what came is returned and logged.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from patchad.datasets.catalogue import DATASETS, Dataset, lookup
from patchad.errors import InputError, MissingExtraError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Source:
    """One file to download, and what to keep of it."""

    file: str
    """Its name, also below a mirror's address."""
    url: str
    pick: str | None = None
    """For a zip archive: a regular expression of the members to keep, whose group 1 is the path to keep them under."""
    sha256: str | None = None
    """Checked where it is known."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to fill one folder below the root."""

    folder: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Download:
    """What `get` did."""

    name: str
    folder: Path
    files: int
    fetched: bool
    """False where the folder was there already and nothing was downloaded."""
    sha256: Mapping[str, str]
    """Of every downloaded file."""


def _github(repository: str, commit: str, pick: str) -> tuple[Source, ...]:
    file = repository.split("/")[1] + ".zip"
    return (Source(file, f"https://github.com/{repository}/archive/{commit}.zip", pick),)


def _tsb_ad(dataset: str) -> Recipe:
    url = "https://www.thedatum.org/datasets/TSB-AD-U.zip"
    pick = rf"(?:.*/)?(\d+_{dataset}_id_[^/]+\.csv)"
    return Recipe(f"TSB-AD-U/{dataset}", (Source("TSB-AD-U.zip", url, pick),))


# The archive that telemanom used to offer is closed and it now points to a site that wants an account; this repository
# carries copies of the arrays and of the label file.
_NASA = Recipe(
    "telemanom",
    _github(
        "imperial-qore/TranAD",
        "7ffb98d0c18189cc3d9ab732b4cb0278200a0af0",
        r"[^/]+/data/SMAP_MSL/((?:train|test)/[^/]+\.npy|labeled_anomalies\.csv)",
    ),
)
_PSM = "https://raw.githubusercontent.com/eBay/RANSynCoders/main/data"

RECIPES: Mapping[str, Recipe] = {
    "MSL": _NASA,
    "SMAP": _NASA,
    "PSM": Recipe("PSM", tuple(Source(file, f"{_PSM}/{file}") for file in ("train.csv", "test.csv", "test_label.csv"))),
    "SWAN": Recipe(
        "SWAN",
        (
            Source(
                "petdataset_01.zip",
                "https://bitbucket.org/gsudmlab/mvtsdata_toolkit/downloads/petdataset_01.zip",
                r"(?:.*/)?(petdataset_01/[^/]+\.csv)",
            ),
        ),
    ),
    "GECCO": Recipe(
        "GECCO",
        (
            Source(
                "1_gecco2018_water_quality.csv",
                "https://zenodo.org/records/3884398/files/1_gecco2018_water_quality.csv?download=1",
            ),
        ),
    ),
    "UCR": Recipe(
        "UCR",
        (
            Source(
                "UCR_TimeSeriesAnomalyDatasets2021.zip",
                "https://www.cs.ucr.edu/~eamonn/time_series_data_2018/UCR_TimeSeriesAnomalyDatasets2021.zip",
                r"(?!__MACOSX)(?:.*/)?(\d{3}_UCR_Anomaly_[^/]+\.txt)",
            ),
        ),
    ),
    "SMD": Recipe(
        "SMD",
        _github(
            "NetManAIOps/OmniAnomaly",
            "7fb0e0acf89ea49908896bcc9f9e80fcfff6baf4",
            r"[^/]+/ServerMachineDataset/((?:train|test|test_label)/machine-[^/]+\.txt)",
        ),
    ),
    "ASD": Recipe(
        "ASD",
        _github(
            "zhhlee/InterFusion",
            "8c85d511c1f070669ba8c5cf097b8fa4a202d15b",
            r"[^/]+/data/processed/(omi-[^/]+\.pkl)",
        ),
    ),
    "SKAB": Recipe(
        "SKAB",
        _github(
            "waico/SKAB",
            "b2c0d46c2971dcbfe71e26087b6d231998bb91c2",
            r"[^/]+/data/((?:valve1|valve2|other|anomaly-free)/[^/]+\.csv)",
        ),
    ),
    "NAB": Recipe(
        "NAB",
        _github(
            "numenta/NAB",
            "ea702d75cc2258d9d7dd35ca8e5e2539d71f3140",
            r"[^/]+/(data/real[^/]+/[^/]+\.csv|labels/combined_windows\.json)",
        ),
    ),
    "Exathlon": _tsb_ad("Exathlon"),
    "IOPS": _tsb_ad("IOPS"),
}
"""The datasets that can be downloaded."""


def get(name: str, root: str | os.PathLike[str], base_url: str | None = None, *, progress: bool = False) -> Download:
    """Download a dataset into a folder below ``root``, whole or not at all.

    A folder that is already there is left as it is, and nothing is downloaded; remove it to download again.

    Parameters
    ----------
    name
        A name of `patchad.datasets.DATASETS`.
    root
        The folder that holds the datasets' folders; it is made where it is not there.
    base_url
        A mirror that holds the files of `RECIPES` under their names, instead of the public homes.
    progress
        Show a progress bar on stderr.

    Raises
    ------
    InputError
        The dataset is given out on request only (the message says where), or a download fails.
    MissingExtraError
        The library pooch is not installed.

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
            folder.rmdir()  # empty, as seen above
        stage.replace(folder)
    return Download(dataset.name, folder, _count(folder), fetched=True, sha256=sums)


def _recipe(dataset: Dataset) -> Recipe:
    if dataset.name in RECIPES:
        return RECIPES[dataset.name]
    others = ", ".join(name for name in DATASETS if name in RECIPES)
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
    talk = pooch.get_logger()
    level = talk.level
    talk.setLevel(logging.WARNING)  # it would write to stderr on its own
    downloader = pooch.HTTPDownloader(progressbar=_Bar(source.file) if progress else False, timeout=60)
    try:
        return Path(pooch.retrieve(url, source.sha256, fname=source.file, path=folder, downloader=downloader))
    except (requests.RequestException, ValueError, OSError) as error:
        raise InputError(f"{url} could not be downloaded: {error}; try again later, or give a mirror") from error
    finally:
        talk.setLevel(level)


def _unpack(source: Source, path: Path, stage: Path) -> None:
    if source.pick is None:
        stage.mkdir(exist_ok=True)
        path.replace(stage / source.file)
        return
    try:
        with path.open("rb") as file:
            kept = _extract(file, re.compile(source.pick), stage)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{source.file} is not a usable zip archive: {error}; download it again") from error
    path.unlink()
    if not kept:
        raise InputError(f"{source.file} holds no file like {source.pick}; its home may have changed: {source.url}")


def _extract(file: IO[bytes], pick: re.Pattern[str], stage: Path) -> int:
    kept = 0
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".zip"):  # UCR's archive has been given out with one zip inside another
                with archive.open(member) as inner:
                    kept += _extract(inner, pick, stage)
            match = pick.fullmatch(member.filename)
            if match and not member.is_dir() and ".." not in Path(match[1]).parts:
                target = stage / match[1]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(member))
                kept += 1
    return kept


class _Bar:
    """A bar on stderr with the four names that pooch calls."""

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
