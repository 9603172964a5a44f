"""A call of the command line, and what most of them need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CHANNELS = ("a", "b", "c")
QUICK = ("window=12", "max_steps=1", "d_model=2", "layers=1", "patch_sizes=2,3", "memory=200", "verbose=False")


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments of `patchad`, and what was made for it."""

    kind: str
    arguments: list[str]
    what: str
    outputs: tuple[Path, ...] = ()
    """Files that all appear, or none."""
    inputs: tuple[Path, ...] = ()
    """Files that stay as they are."""
    sent: bytes = b""
    """What comes on standard input."""


def set_options(settings: Sequence[str]) -> list[str]:
    """Give each setting to `--set`."""
    return [text for one in settings for text in ("--set", one)]
