"""The layout of a table of text, found from its first lines: separator, decimal mark, header."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from patchad.data.readers.numerals import is_number
from patchad.errors import InputError

SAMPLE_BYTES = 2**20
"""Bytes that hold the first lines; no line may be longer."""
SAMPLE_LINES = 50
SEPARATORS = (";", "\t", "|", ",")
"""Those that never stand inside a number first."""
TIME = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T].*)?|\d{1,2}:\d{2}.*|\d{8}T?\d{4,}.*|\d{4}-\d{2}")


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table of text is laid out."""

    separator: str
    decimal: str
    header: bool
    """Whether the first row holds names."""
    start: int
    """Byte at which the table begins."""
    skipped: int = 0
    """Lines above it that are neither blank nor comments."""
    names: tuple[str, ...] | None = None
    """Names to use instead of the header."""


def layout_of(content: bytes) -> Layout:
    """Find the layout of a table of text in UTF-8."""
    lines = _first_lines(content)
    declared = next((line[4:].strip("\r\n") for line in lines[:1] if re.fullmatch(r"sep=.\s*", line, re.I)), None)
    first = 0 if declared is None else 1
    rows = [i for i in range(first, len(lines)) if lines[i].strip() and not lines[i].startswith("#")]
    if not rows:
        raise InputError("the file is empty; a header and rows of numbers are needed")
    separator = (declared or "")[:1] or _separator([lines[i] for i in rows])
    cells = [_cells(lines[i], separator) for i in rows]
    usual = Counter(map(len, cells)).most_common(1)[0][0]
    titles = next((k for k, row in enumerate(cells) if len(row) > 1), 0) if usual > 1 else 0
    if any(lines[i].count('"') % 2 for i in rows[:titles]):
        raise InputError("not a well-formed CSV (a quotation mark of the first line is never closed); close or drop it")
    table, body = cells[titles], cells[titles + 1 :]
    header = is_header(table, body)
    return Layout(
        separator=separator,
        decimal="," if separator != "," and _has_decimal_commas(body or [table]) else ".",
        header=header,
        start=len("".join(lines[: rows[titles]]).encode()),
        skipped=titles,
        names=_names(table, body) if header else _commented(lines[first : rows[titles]], separator, len(table)),
    )


def _first_lines(content: bytes) -> list[str]:
    """Return the first lines with their ends, as many as lie whole in the sample."""
    _check_lines(content)
    sample = content[:SAMPLE_BYTES]
    whole = len(content) <= SAMPLE_BYTES
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", sample.decode(errors="ignore"))
    return lines[:SAMPLE_LINES] if whole or len(lines) > SAMPLE_LINES else lines[:-1]


def _check_lines(content: bytes) -> None:
    """Refuse lines that no table has: parsing millions of cells in one would take minutes and all RAM."""
    start = 0
    while len(content) - start > SAMPLE_BYTES:
        end = start + SAMPLE_BYTES
        found = max(content.rfind(b"\n", start, end), content.rfind(b"\r", start, end))
        if found < 0:
            line = content.count(b"\n", 0, start) + 1
            raise InputError(f"line {line} is over {SAMPLE_BYTES:,} bytes long; a line for each row is needed")
        start = found + 1


def _cells(line: str, separator: str) -> list[str]:
    if separator == r"\s+":
        return line.split()
    try:
        rows = list(csv.reader([line.rstrip("\r\n")], delimiter=separator, skipinitialspace=True))
    except csv.Error as error:
        raise InputError(f"not a well-formed CSV ({error}); every row needs as many cells as the header") from None
    return [cell.strip() for cell in rows[0]] if rows else []


def _separator(lines: Sequence[str]) -> str:
    """Choose the separator that cuts most lines, the last of them among these, into the same number of cells."""
    best, share = ",", 0.0
    for separator in SEPARATORS:
        counts = Counter(len(_cells(line, separator)) for line in lines)
        cells, lines_so = counts.most_common(1)[0]
        if cells > 1 and lines_so / len(lines) > share + 0.05:
            best, share = separator, lines_so / len(lines)
    if share == 0:
        widths = {len(line.split()) for line in lines[1:] or lines}
        numbers = all(is_number(cell) for line in lines[1:] or lines for cell in line.split())
        if len(widths) == 1 and widths.pop() > 1 and numbers:
            return r"\s+"
    return best


def is_header(first: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row holds names: words where the rows below hold numbers or times, or words only."""
    kinds = [_kind(cell) for cell in first]
    for row in body[:5]:
        below = [_kind(cell) for cell in row]
        if any(one == "word" and two in ("number", "time") for one, two in zip(kinds, below, strict=False)):
            return True
    return all(kind in ("word", "empty") for kind in kinds)


def _kind(cell: str) -> str:
    if not cell:
        return "empty"
    if is_number(cell):
        return "number"
    return "time" if TIME.fullmatch(cell) else "word"


def _has_decimal_commas(rows: Sequence[Sequence[str]]) -> bool:
    cells = [cell for row in rows for cell in row]
    commas = any(re.fullmatch(r"[+-]?\d+,\d+([eE][+-]?\d+)?|[+-]?\d{1,3}(\.\d{3})+,\d+", cell) for cell in cells)
    points = any(re.fullmatch(r"[+-]?\d+\.\d{1,2}|[+-]?\d+\.\d{4,}|[+-]?\d{1,3}(,\d{3})+\.\d+", cell) for cell in cells)
    return commas and not points


def _commented(above: Sequence[str], separator: str, width: int) -> tuple[str, ...] | None:
    """Return the names in the last comment above a table, as `numpy.savetxt` writes them; None where it has others."""
    comment = next((line for line in reversed(above) if line.startswith("#")), "")
    names = _cells(comment.lstrip("#").lstrip(), separator)
    words = len(names) == width > 1 and all(_kind(name) == "word" for name in names)
    return tuple(names) if words and len(set(names)) == width else None


def _names(header: Sequence[str], body: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """Return names for rows that have one cell more than the header: nothing after the last separator, or row names."""
    longer = [row for row in body if len(row) == len(header) + 1]
    if not longer or len(longer) < len(body) or len(set(header)) < len(header):
        return None
    if all(not row[-1] for row in longer):
        return (*header, f"Unnamed: {len(header)}")
    return ("Unnamed: 0", *header)
