"""Names of series as names of files: readable where that is possible, and never the same for two series."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

from patchad.data.names import HIDDEN

LONGEST = 180
"""Bytes of a file's name, without its suffix."""
_UNSAFE = frozenset('%/\\:*?"<>|~')
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


def file_names(series: Iterable[str]) -> dict[str, str]:
    """Return a name for the files of each series, without a suffix.

    What a file's name cannot hold is written as in URLs. Names that some file systems cannot tell apart, and those cut
    because they are too long, end with a hash of the whole name.

    Examples
    --------
    >>> file_names(["pump 1", "site/pump", "Höhe"])
    {'pump 1': 'pump 1', 'site/pump': 'site%2Fpump', 'Höhe': 'Höhe'}
    >>> sorted(name[:5] for name in file_names(["Pump", "pump"]).values())
    ['Pump~', 'pump~']
    """
    safe = {name: _safe(name) for name in series}
    alike = Counter(_folded(name) for name in safe.values())
    return {name: one if alike[_folded(one)] == 1 else f"{one}~{_digest(name)}" for name, one in safe.items()}


def _safe(name: str) -> str:
    written = "".join(_written(one) if _is_unsafe(one) else one for one in name)
    if written[:1] in (".", " ") or _RESERVED.fullmatch(written):
        written = _written(written[0]) + written[1:]
    if written[-1:] in (".", " "):
        written = written[:-1] + _written(written[-1])
    if len(written.encode()) > LONGEST:
        cut = written.encode()[:LONGEST].decode(errors="ignore")
        written = re.sub("%.?$", "", cut) + f"~{_digest(name)}"
    return written or f"~{_digest(name)}"


def _is_unsafe(character: str) -> bool:
    return character in _UNSAFE or unicodedata.category(character) in HIDDEN


def _written(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogatepass"))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:8]
