"""Bounds for packed files: what unpacks to far more than it is does not fill the RAM."""

from __future__ import annotations

from pathlib import Path

from patchad.errors import InputError

HARMLESS_BYTES = 2**30
"""What any file may unpack to."""
LARGEST_RATIO = 100
"""How many times its size a file may unpack to, above that."""


def most_bytes(path: Path, ratio: float = LARGEST_RATIO) -> int:
    """Return how many bytes this file may unpack to."""
    return max(HARMLESS_BYTES, int(ratio * path.stat().st_size))


def check_unpacked(size: int, path: Path, ratio: float = LARGEST_RATIO) -> None:
    """Refuse a file that says it unpacks to more than is sensible."""
    if size > most_bytes(path, ratio):
        raise InputError(
            f"the file is {path.stat().st_size:,} bytes and unpacks to {size:,}, which looks like a zip bomb; "
            "if it is none, unpack or split it first"
        )
