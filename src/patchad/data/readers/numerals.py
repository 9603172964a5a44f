"""Numbers as people write them: decimal commas and separators of thousands."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

GROUPED_BY_COMMA = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?|[+-]?\d+(\.\d+)?")  # 1,234.5
GROUPED_BY_POINT = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?|[+-]?\d+(,\d+)?")  # 1.234,5
GROUPED_BY_SPACE = re.compile(r"[+-]?\d{1,3}([ \u00a0\u202f']\d{3})+([.,]\d+)?|[+-]?\d+([.,]\d+)?")  # 1 234,5
DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?([eE][+-]?\d+)?")  # 1,5


def is_number(text: str) -> bool:
    """Return whether a cell is a number, whatever stands between its digits.

    Examples
    --------
    >>> [is_number(text) for text in ("1.5", "1,5", "1.234,5", "1e-3", "2024-01-01", "ON")]
    [True, True, True, True, False, False]
    """
    try:
        float(text)
    except ValueError:
        patterns = (GROUPED_BY_COMMA, GROUPED_BY_POINT, GROUPED_BY_SPACE, DECIMAL_COMMA)
        return len(text) < 64 and any(pattern.fullmatch(text) for pattern in patterns)
    return True


def as_numbers(frame: Any, texts: Collection[str] = ()) -> Any:
    """Turn the columns of a frame that hold numbers written as text into numbers; the rest, and `texts`, stay.

    Examples
    --------
    >>> import pandas as pd
    >>> as_numbers(pd.DataFrame({"a": ["1.234,5", "7,0"], "b": ["1,234", "5"], "c": ["ON", "OFF"]})).values.tolist()
    [[1234.5, 1234.0, 'ON'], [7.0, 5.0, 'OFF']]
    """
    changed = {}
    for i, dtype in enumerate(frame.dtypes if len(frame) else ()):
        if getattr(dtype, "kind", "O") == "O" and frame.columns[i] not in texts:
            numbers = _numbers(frame.iloc[:, i])
            if numbers is not None:
                changed[i] = numbers
    if not changed:
        return frame
    import pandas as pd

    columns = [changed.get(i, frame.iloc[:, i]) for i in range(frame.shape[1])]
    return pd.concat(columns, axis=1, keys=list(frame.columns)) if columns else frame


def _numbers(column: Any) -> Any:
    """Read a column of text as numbers; None where a cell is none."""
    known = column.dropna()
    if len(known) == 0 or not isinstance(known.iloc[0], str) or not is_number(known.iloc[0].strip()):
        return None
    text = known.str.strip()
    for pattern, group, point in (
        (GROUPED_BY_COMMA, ",", "."),
        (GROUPED_BY_POINT, r"\.", ","),
        (DECIMAL_COMMA, "", ","),
        (GROUPED_BY_SPACE, "[ \u00a0\u202f']", ","),
    ):
        if text.str.fullmatch(pattern).all():
            plain = text.str.replace(group, "", regex=True) if group else text
            return plain.str.replace(point, ".", regex=False).astype("float64").reindex(column.index)
    return None
