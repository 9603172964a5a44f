"""Lines: bytes as they come to whole lines, with bounded memory."""

from __future__ import annotations

LONGEST_LINE = 2**24
"""Bytes of one row."""


class Splitter:
    r"""Cut bytes into lines; what follows the last line break waits for the rest.

    Examples
    --------
    >>> splitter = Splitter()
    >>> splitter.push(b"a\nb"), splitter.push(b"c\n"), splitter.pending
    ([b'a'], [b'bc'], 0)
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._rest = b""
        self._dropped = 0
        """Bytes of a line that is too long, which are not kept."""

    @property
    def pending(self) -> int:
        """Bytes after the last line break."""
        return self._dropped + len(self._rest)

    def push(self, data: bytes) -> list[bytes]:
        """Take bytes; return the lines that are whole. Of a line that is too long only the beginning is returned."""
        *lines, rest = (self._rest + data).split(b"\n")
        if lines and self._dropped:
            self._dropped = 0  # its beginning was returned when it became too long
            del lines[0]
        self._rest = rest
        if self._dropped or len(rest) > self._longest:
            if not self._dropped:
                lines.append(rest[: self._longest + 1])
            self._dropped += len(rest)
            self._rest = b""
        return lines

    def flush(self) -> list[bytes]:
        """Return what is left when nothing follows."""
        rest, self._rest, self._dropped = self._rest, b"", 0
        return [rest] if rest else []
