"""Lines to a file, each exactly once."""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from patchad.errors import InputError
from patchad.live.address import Address
from patchad.live.sinks.base import EVERYTHING
from patchad.live.store import LineKind

logger = logging.getLogger(__name__)


class FileSink:
    """A file that lines are added to. After a kill it is cut to the length that is known to be right, and goes on."""

    def __init__(self, address: Address, kinds: Sequence[LineKind] = EVERYTHING) -> None:
        self.kinds = kinds
        address.check_options()
        if not address.place:
            raise InputError(f"{address.text!r} names no file; write file:PATH")
        self.path: Path = Path(address.place)
        self.name = f"file:{self.path.resolve()}"

    def open(self, mark: int | None) -> int:
        """Open the file; cut off what was written after the mark."""
        if self.path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(self.path))
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        found = os.fstat(self._file)
        self._plain = stat.S_ISREG(found.st_mode)
        if mark is not None and self._plain and found.st_size != mark:
            if found.st_size > mark:
                os.ftruncate(self._file, mark)
            else:
                logger.warning("%s is shorter than it was; lines are added to what is there", self.path)
        return self._mark()

    def write(self, lines: Sequence[str]) -> int:
        """Add lines; return the length of the file."""
        data = memoryview("".join(f"{line}\n" for line in lines).encode())
        while data:
            try:
                data = data[os.write(self._file, data) :]
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self.path)) from None
        return self._mark()

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _mark(self) -> int:
        return os.fstat(self._file).st_size if self._plain else 0
