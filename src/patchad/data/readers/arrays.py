"""npy and npz: arrays of numpy, whose claims are checked before RAM is taken."""

from __future__ import annotations

import warnings
import zipfile
import zlib
from functools import partial
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from patchad.data.readers.members import Members
from patchad.data.readers.packed import check_unpacked
from patchad.errors import InputError, reason_of

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

_BROKEN_HEADER = (ValueError, TypeError, EOFError, SyntaxError, TokenError, RecursionError, OverflowError)


def read_npy(path: Path) -> Any:
    """Read the array of an npy file."""
    with path.open("rb") as file:
        return _read_array(file, path.stat().st_size)


def read_npz(path: Path) -> Members:
    """List the arrays of an npz file."""
    try:
        with zipfile.ZipFile(path) as file:
            infos = [info for info in file.infolist() if info.filename.endswith(".npy")]
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise InputError(
            f"not a file of arrays of numbers ({reason_of(error)}); save it again with numpy.savez"
        ) from None
    return Members("array", {info.filename.removesuffix(".npy"): partial(_member, path, info) for info in infos})


def _member(path: Path, info: zipfile.ZipInfo) -> Any:
    check_unpacked(info.file_size, path)
    try:
        with zipfile.ZipFile(path) as archive, archive.open(info) as file:
            return _read_array(file, info.file_size)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise InputError(
            f"not a file of arrays of numbers ({reason_of(error)}); save it again with numpy.savez"
        ) from None


def _read_array(file: IO[bytes], size: int) -> Any:
    """Read one array of a file of `size` bytes."""
    try:
        read_header = _HEADERS[npy.read_magic(file)]
        with warnings.catch_warnings(action="ignore"):  # that Python 2 wrote it need not concern anyone
            shape, fortran, dtype = read_header(file, max_header_size=10_000)
    except KeyError as error:
        raise InputError(f"npy files of version {error} are not read; save it again with numpy.save") from None
    except _BROKEN_HEADER as error:
        raise InputError(f"not a file of one array of numbers ({reason_of(error)})") from None
    if dtype.hasobject:
        raise InputError("not a file of one array of numbers (it holds Python objects); save numbers with numpy.save")
    claimed = dtype.itemsize
    for length in shape:
        claimed *= int(length)  # Python's integers, which cannot overflow
    if claimed > size or any(length < 0 for length in shape):
        raise InputError(
            f"not a file of one array of numbers (its header claims shape {shape} of {dtype}, {claimed:,} bytes, and "
            f"the file has {size:,}); copy or save it again"
        )
    content = file.read(claimed)
    if len(content) < claimed:
        raise InputError(
            f"not a file of one array of numbers (it ends after {len(content):,} of {claimed:,} bytes); "
            "copy or save it again"
        )
    array = np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if fortran else "C")
    if dtype.names is None:
        return array
    if array.ndim != 1:
        raise InputError(f"an array of records has shape {shape}; one record for each row is needed, as (rows,)")
    import pandas as pd

    return pd.DataFrame({name: array[name] for name in dtype.names})
