"""How a file is read, by its suffix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from patchad.data.readers.arrays import read_npy, read_npz
from patchad.data.readers.arrow import read_arrow, read_parquet
from patchad.data.readers.delimited import read_delimited
from patchad.data.readers.excel import read_xlsx
from patchad.data.readers.json_lines import read_json_lines

READERS: Mapping[str, Callable[[Path], Any]] = {
    ".csv": read_delimited,
    ".csv.gz": read_delimited,
    ".tsv": read_delimited,
    ".tsv.gz": read_delimited,
    ".txt": read_delimited,
    ".txt.gz": read_delimited,
    ".parquet": read_parquet,
    ".feather": read_arrow,
    ".arrow": read_arrow,
    ".xlsx": read_xlsx,
    ".jsonl": read_json_lines,
    ".jsonl.gz": read_json_lines,
    ".ndjson": read_json_lines,
    ".ndjson.gz": read_json_lines,
    ".npy": read_npy,
    ".npz": read_npz,
}
"""From a path to a pandas frame or an array, or to `Members` where a file may hold several."""

FOLDER_KINDS = tuple(kind for kind in READERS if not kind.startswith(".txt"))
"""What is taken from a folder: a txt file there is as likely a note."""


def kind_of(path: Path) -> str | None:
    """Return the suffix that says how a file is read, in lower case; None where it is unknown.

    Examples
    --------
    >>> kind_of(Path("pump.CSV")), kind_of(Path("notes.pdf"))
    ('.csv', None)
    """
    name = path.name.lower()
    return max((kind for kind in READERS if name.endswith(kind)), key=len, default=None)
