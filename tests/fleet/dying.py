"""Tasks whose worker is killed; workers import this, so it imports little."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def die_once(given: tuple[int, str]) -> int:
    """Square a number; the first worker that gets a 3 is killed."""
    number, folder = given
    mark = Path(folder) / "died"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def die(_: int) -> None:
    """Be killed."""
    os.kill(os.getpid(), signal.SIGKILL)
