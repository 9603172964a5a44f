"""Text files: unpacked where they are packed, and in UTF-8 whatever they were written in."""

from __future__ import annotations

import codecs
import gzip
import zlib
from pathlib import Path

from patchad.data.readers.packed import check_unpacked, most_bytes
from patchad.errors import InputError

_CHUNK = 2**20
_SAMPLE = 4096


def read_text(path: Path) -> bytes:
    """Read a text file as bytes in UTF-8, without a byte order mark."""
    content = _unpacked(path) if path.suffix.lower() == ".gz" else path.read_bytes()
    if content.startswith(codecs.BOM_UTF8):
        content = content[len(codecs.BOM_UTF8) :]
    encoding = _utf16(content)
    if encoding is not None:
        try:
            content = content.decode(encoding).encode()
        except UnicodeError:
            raise InputError("the file looks like UTF-16 and is damaged; save it again in UTF-8") from None
    nul = content.find(b"\0")
    if nul >= 0:
        line = content.count(b"\n", 0, nul) + 1
        raise InputError(f"line {line} holds a NUL byte, so the file is damaged or no text; save it again in UTF-8")
    return content if _is_utf8(content) else _from_windows(content)


def _unpacked(path: Path) -> bytes:
    most = most_bytes(path)
    parts: list[bytes] = []
    size = 0
    try:
        with gzip.open(path) as file:
            while part := file.read(_CHUNK):
                size += len(part)
                check_unpacked(size, path) if size > most else None
                parts.append(part)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"not a whole gzip file ({error}); copy or pack it again") from None
    return b"".join(parts)


def _utf16(content: bytes) -> str | None:
    """Return the variant of UTF-16, told by its mark or by where zeros are; None for anything else."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    sample = content[:_SAMPLE]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if max(even, odd) < 0.3 * len(sample) or min(even, odd) > 0.01 * len(sample):
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _is_utf8(content: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(content), _CHUNK):
            decoder.decode(content[start : start + _CHUNK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _from_windows(content: bytes) -> bytes:
    """Read Windows-1252, which is latin-1 with more signs."""
    try:
        return content.decode("cp1252").encode()
    except UnicodeDecodeError:
        raise InputError("the file is not text in UTF-8, UTF-16 or Windows-1252; save it as CSV in UTF-8") from None
