"""What the command line says and how it ends: messages, closed pipes, Ctrl-C."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from patchad.data.names import visible

STOPPED = 130
"""Exit code after Ctrl-C."""
LONGEST_ERROR = 1000
"""Characters of an error."""


class StoppedError(Exception):
    """Ctrl-C, after something was written; the message says what."""


def notify(message: str) -> None:
    """Print a message to stderr."""
    print("\n".join(visible(line) for line in message.split("\n")), file=sys.stderr, flush=True)


def fail(message: str, code: int) -> int:
    """Print an error in one line and return its exit code."""
    line = " ".join(message.split())
    if len(line) > LONGEST_ERROR:  # a value that it quotes may be of any length
        line = f"{line[: LONGEST_ERROR // 2]} ... {line[-LONGEST_ERROR // 2 :]}"
    notify(f"error: {line}")
    return code


@contextlib.contextmanager
def stoppable(written: str) -> Iterator[None]:
    """Let Ctrl-C say what was written before it."""
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError(f"stopped; {written}") from None


class Notes(logging.Formatter):
    """What the log says, as notes."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line without characters that a terminal obeys."""
        return f"note: {visible(record.getMessage())}"


class _Stream:
    """An output stream that goes on in silence when its reader has gone, as in `patchad detect ... | head`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._muted_by_errors():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._muted_by_errors():
            self._stream.flush()

    @contextlib.contextmanager
    def _muted_by_errors(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self.mute()
        except OSError as error:
            self.mute()
            raise OSError(error.errno, error.strerror, self._stream.name) from None

    def mute(self) -> None:
        """Send all that is still to come, and what could not be written, nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def prepare() -> None:
    """Set up the streams and the log of a process that is the command line."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it is closed, as where a service starts the command; nobody reads it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - as long as the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a name
    sys.stdout, sys.stderr = (cast("TextIO", _Stream(stream)) for stream in (sys.stdout, sys.stderr))
    notes = logging.StreamHandler(sys.stderr)
    notes.setFormatter(Notes())
    logging.basicConfig(level=logging.WARNING, handlers=[notes])
