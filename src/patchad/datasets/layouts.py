"""File layouts of datasets, and those that many datasets share.

A layout describes the files it looks for and reads them. Absent files yield no entities; malformed ones raise
`InputError`.
"""

from __future__ import annotations

import io
import pickle
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad.datasets.entity import Entity
from patchad.errors import InputError

_BROKEN = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, pickle.UnpicklingError)


@dataclass(frozen=True, slots=True)
class Layout:
    """One way in which the files of a dataset are arranged in a folder."""

    files: str
    """The files it looks for, relative to the folder, in words."""
    read: Callable[[Path], list[Entity]]
    """Folder to entities; an empty list if the files are absent."""
    named: bool = False
    """Whether the file names identify the dataset, so that any folder may hold them."""


def npz_file(file: str, name: str) -> Layout:
    """Return the layout of one npz file with the arrays ``train``, ``test`` and ``test_label``."""

    def read(folder: Path) -> list[Entity]:
        path = folder / file
        return [read_npz(path, name)] if path.is_file() else []

    return Layout(file, read, named=True)


def npz_folder(pattern: str, *, named: bool = False) -> Layout:
    """Return the layout of one npz file per entity, named after the entity."""

    def read(folder: Path) -> list[Entity]:
        return [read_npz(path, path.stem) for path in folder.glob(pattern)]

    return Layout(pattern, read, named=named)


def triples(*prefixes: str, name: str | None = None) -> Layout:
    """Return the layout of benchmark repositories: ``X_train``, ``X_test`` and ``X_test_label``, npy or pkl.

    Parameters
    ----------
    prefixes
        Regular expressions for X; case is ignored.
    name
        Name of the entity; X by default.
    """
    train = re.compile(rf"({'|'.join(prefixes)})_train\.(npy|pkl)", re.IGNORECASE)

    def read(folder: Path) -> list[Entity]:
        found: dict[str, Entity] = {}
        for path in folder.iterdir() if folder.is_dir() else ():
            match = train.fullmatch(path.name)
            if match:
                prefix, suffix = match.groups()
                if prefix not in found:
                    found[prefix] = _read_triple(folder, prefix, suffix, name or prefix)
        return list(found.values())

    words = " or ".join(prefix.replace(r"\d+", "N") for prefix in prefixes)
    return Layout(f"{words} with _train.npy, _test.npy and _test_label.npy (or .pkl)", read, named=True)


def read_npz(path: Path, name: str) -> Entity:
    """Read the arrays ``train``, ``test`` and ``test_label`` of one npz file."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            missing = sorted({"train", "test", "test_label"} - set(arrays.files))
            if missing:
                raise InputError(f"{path} lacks the arrays {missing}; it has {sorted(arrays.files)}")
            return Entity(name, arrays["train"], arrays["test"], _flat(arrays["test_label"]))
    except _BROKEN as error:
        raise _unreadable(path, error) from error


def read_array(path: Path) -> NDArray[Any]:
    """Read an array from an npy file, or from a pickle that contains nothing else."""
    try:
        if path.suffix == ".npy":
            loaded = np.load(path, allow_pickle=False)
        else:
            loaded = _ArrayUnpickler(io.BytesIO(path.read_bytes())).load()
    except _BROKEN as error:
        raise _unreadable(path, error) from error
    return np.asarray(loaded)


def matching_files(folder: Path, subfolders: tuple[str, ...], suffix: str) -> Iterator[tuple[str, tuple[Path, ...]]]:
    """Yield stem and paths of every file of the first subfolder; the others must have it too."""
    first, *others = subfolders
    for path in (folder / first).glob(f"*{suffix}"):
        paths = (path, *(folder / other / path.name for other in others))
        for other in paths:
            if not other.is_file():
                raise InputError(f"{path} exists but {other} does not; both are needed")
        yield path.stem, paths


def _read_triple(folder: Path, prefix: str, suffix: str, name: str) -> Entity:
    train, test, label = (folder / f"{prefix}_{split}.{suffix}" for split in ("train", "test", "test_label"))
    for path in (test, label):
        if not path.is_file():
            raise InputError(f"{train} exists but {path} does not; all three files are needed")
    return Entity(name, _columns(read_array(train)), _columns(read_array(test)), _flat(read_array(label)))


def _columns(values: NDArray[Any]) -> NDArray[Any]:
    return values[:, None] if values.ndim == 1 else values


def _flat(labels: NDArray[Any]) -> NDArray[Any]:
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def _unreadable(path: Path, error: Exception) -> InputError:
    if isinstance(error, InputError):
        return error
    return InputError(f"{path} cannot be read: {error}; copy or download it again")


class _ArrayUnpickler(pickle.Unpickler):
    """Builds numpy arrays and refuses everything else, because a pickle could run any code."""

    _allowed = frozenset(
        {
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("_codecs", "encode"),
            *((f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")),
            *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._allowed:
            raise pickle.UnpicklingError(f"it contains {module}.{name}, but only arrays are accepted")
        return super().find_class(module.replace("numpy.core.", "numpy._core."), name)
