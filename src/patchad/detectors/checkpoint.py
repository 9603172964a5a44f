"""One safetensors file per model: arrays, a JSON header, a format number and a checksum. Nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchad import __version__
from patchad.data.files import write_whole
from patchad.errors import ModelFileError

FORMAT = 4
"""Raised when an older version could no longer read the file, or this one the older files."""
_NO_CHECKSUM = "0" * 64


def write(path: Path, header: dict[str, Any], arrays: dict[str, NDArray[np.generic]]) -> None:
    """Write a model file, whole or not at all.

    The checksum is the SHA-256 of the file itself with zeros in the checksum's place, so it covers every byte.
    """
    from safetensors.numpy import save

    metadata = {
        "format": str(FORMAT),
        "patchad_version": __version__,
        "checksum": _NO_CHECKSUM,
        "header": json.dumps(header),
    }
    content = save({name: np.asarray(array, order="C") for name, array in arrays.items()}, metadata)
    checksum = hashlib.sha256(content).hexdigest()
    write_whole({path: content.replace(_NO_CHECKSUM.encode(), checksum.encode(), 1)})


def read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a model file; `header` also has `format`, `patchad_version` and `checksum`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"there is no model file {str(path)!r}; `patchad fit DATA -o MODEL` makes one") from None
    except OSError as error:
        raise ModelFileError(f"cannot read model file {str(path)!r}: {error.strerror}") from None
    metadata = _metadata(path, content)
    needed = {"checksum", "header", "patchad_version"}
    if not re.fullmatch("[0-9]{1,9}", metadata.get("format", "")) or not needed <= metadata.keys():
        raise ModelFileError(
            f"{str(path)!r} is a safetensors file, but not a PatchAD model; fit one with `patchad fit`"
        )
    if int(metadata["format"]) != FORMAT:
        remedy = "upgrade patchad" if int(metadata["format"]) > FORMAT else "fit it again"
        raise ModelFileError(
            f"{str(path)!r} has format {metadata['format']} (written by patchad {metadata['patchad_version']}), "
            f"this version reads format {FORMAT}; {remedy}"
        )
    blank = content.replace(metadata["checksum"].encode(errors="replace"), _NO_CHECKSUM.encode(), 1)
    if hashlib.sha256(blank).hexdigest() != metadata["checksum"]:
        raise ModelFileError(
            f"{str(path)!r} was altered or damaged (its checksum does not match); copy or fit it again"
        )
    try:
        arrays = load(content)
    except (SafetensorError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(f"{str(path)!r} is damaged ({error}); copy or fit it again") from None
    try:
        header = json.loads(metadata["header"])
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ModelFileError(f"{str(path)!r} has a header that is no JSON object; fit it again")
    return header | {name: metadata[name] for name in ("format", "patchad_version", "checksum")}, arrays


def _metadata(path: Path, content: bytes) -> dict[str, str]:
    """Read the metadata of a safetensors file: a length, then that much JSON."""
    foreign = ModelFileError(f"{str(path)!r} is not a PatchAD model, or it is cut off; copy it again, or fit a new one")
    if len(content) < 8:
        raise foreign
    (length,) = struct.unpack("<Q", content[:8])
    if length > len(content) - 8:
        raise foreign
    try:
        found = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    except (ValueError, AttributeError, RecursionError):
        raise foreign from None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise foreign
    return found
