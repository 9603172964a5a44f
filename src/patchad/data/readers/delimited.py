"""csv and its kin: separators, decimal commas, headers or none, as programs of all countries write them."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from patchad.data.readers.layout import Layout, layout_of
from patchad.data.readers.numerals import as_numbers
from patchad.data.readers.text import read_text
from patchad.errors import InputError

logger = logging.getLogger(__name__)

MISSING = ("-", "--", "?", "NIL", "nil", "#DIV/0!", "#VALUE!", "#REF!", "#NUM!", "#NAME?", "Bad", "BAD")
"""Cells that stand for a missing value, beside pandas' own (empty, NA, N/A, NaN, null and the like)."""


def read_delimited(path: Path, texts: Collection[str] = ()) -> Any:
    """Read a table of text: csv, tsv, txt, packed or not; the cells of `texts` as they are written."""
    content = read_text(path)
    layout = layout_of(content)
    if layout.skipped:
        logger.warning("%s: lines above the table that were left out: %d", path, layout.skipped)
    table = _without_comments(content[layout.start :])
    if layout.header and not re.search(rb"[\r\n][^\r\n]", table):
        raise InputError("there is no row of values under the header; at least one row of numbers is needed")
    frame = _parsed(table, layout, texts)
    frame = frame.rename(columns=lambda name: name.strip() if isinstance(name, str) else name)
    return as_numbers(_without_row_numbers(_without_empty(frame), path), texts)


def _without_comments(content: bytes) -> bytes:
    return re.sub(rb"(?m)^#[^\r\n]*", b"", content) if b"\n#" in content or b"\r#" in content else content


def _parsed(content: bytes, layout: Layout, texts: Collection[str]) -> Any:
    import pandas as pd

    names: dict[str, Any] = {} if layout.names is None else {"names": list(layout.names)}
    try:
        frame = pd.read_csv(
            io.BytesIO(content),
            sep=layout.separator,
            header=0 if layout.header else None,
            decimal=layout.decimal,
            skipinitialspace=layout.separator != r"\s+",
            na_values=list(MISSING),
            low_memory=False,
            encoding="utf-8",
            converters=dict.fromkeys(texts, _marked),
            **names,
        )
    except (pd.errors.ParserError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"not a well-formed CSV ({reason}); every row needs as many cells as the header") from None
    if not isinstance(frame.index, pd.RangeIndex):  # pandas took what is too much for an index
        raise InputError("not a well-formed CSV (rows have more cells than the header); every row needs as many")
    for name in frame.columns.intersection(list(texts)):
        frame[name] = frame[name].str[1:]
    return frame


def _marked(cell: str) -> str:
    """Put something before a cell, so that none is taken for a missing value."""
    return "=" + cell.strip()


def _without_empty(frame: Any) -> Any:
    """Leave out columns with neither name nor value, which separators at the end of lines make."""
    unnamed = [i for i, name in enumerate(frame.columns) if not isinstance(name, str) or name.startswith("Unnamed")]
    if not unnamed or not len(frame):
        return frame
    empty = frame.iloc[:, unnamed].isna().all()
    return frame.drop(columns=empty.index[empty])


def _without_row_numbers(frame: Any, path: Path) -> Any:
    first = frame.columns[0] if len(frame.columns) else None
    if not isinstance(first, str) or not first.startswith("Unnamed") or not len(frame):
        return frame
    if not np.array_equal(frame[first], np.arange(len(frame))):
        return frame
    logger.warning("%s: left out the first column, which has no name and only counts the rows", path)
    return frame.drop(columns=first)
