"""Names of channels, series and files as people may see them: what hides or deceives is written out."""

from __future__ import annotations

import re
import unicodedata

HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories that print nothing, or change how their neighbours are printed: controls, marks of direction,
lone surrogates, separators of lines."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet runs as a formula."""


def visible(text: str) -> str:
    r"""Write out the characters that a terminal or a browser obeys instead of showing them.

    Examples
    --------
    >>> print(visible("pump\x1b[2J"), visible("ab\u202edc"))
    pump\x1b[2J ab\u202edc
    >>> visible("Zulauf-Höhe (m³)")
    'Zulauf-Höhe (m³)'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_written_out(one) if unicodedata.category(one) in HIDDEN else one for one in text)


def _written_out(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def plain_cell(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would run as a formula.

    Examples
    --------
    >>> plain_cell("=1+1"), plain_cell("-7"), plain_cell("pump")
    ("'=1+1", '-7', 'pump')
    """
    if not text.startswith(FORMULA) or re.fullmatch(r"[+-]?\d+(\.\d+)?", text):
        return text
    return f"'{text}"
