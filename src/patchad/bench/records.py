"""Benchmark records: one JSON line per cell, appended, never changed.

A killed run leaves at most one torn line, the last; it is dropped when the file is next opened.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from patchad.errors import InputError, listed

logger = logging.getLogger(__name__)

IDENTITY = ("suite", "protocol", "dataset", "entity", "detector", "parameters", "seed")
"""The fields that identify the cell of a record."""
KEYS = (
    *IDENTITY,
    "metrics",
    "fit_seconds",
    "score_seconds",
    "peak_memory",
    "n_parameters",
    "data_sha256",
    "versions",
    "hardware",
)

HEADLINES = ("vus_pr_opt", "vus_pr_period", "roc_auc")
"""Metrics for a line of progress: the first of these that a record has."""

Record = dict[str, Any]


def identity(record: Mapping[str, Any]) -> str:
    """Return a text that two records share if, and only if, they are of the same cell.

    Examples
    --------
    >>> cell = dict.fromkeys(IDENTITY, "x") | {"parameters": {"b": (3, 5), "a": 1}, "seed": 0}
    >>> identity(cell)
    '["x", "x", "x", "x", "x", {"a": 1, "b": [3, 5]}, 0]'
    """
    return json.dumps([record[name] for name in IDENTITY], sort_keys=True)


def measurement_key(record: Mapping[str, Any]) -> str:
    """Return a text that two records of the same measurement share, whatever their suites and parameters."""
    return json.dumps([record[name] for name in IDENTITY if name not in ("suite", "parameters")])


def summary_line(record: Record) -> str:
    """Summarise for people what was measured, and how long it took."""
    metrics = record["metrics"]
    name = next((name for name in HEADLINES if name in metrics), next(iter(metrics)))
    value = metrics[name]
    result = f"skipped, {value}" if name == "skipped" else f"{name} {math.nan if value is None else value:.4g}"
    spent = (record["fit_seconds"] or 0) + (record["score_seconds"] or 0)
    where = f"{record['dataset']} {record['entity']} {record['detector']} {record['protocol']} seed {record['seed']}"
    return f"{where}: {result}, {spent:.1f} s"


def read_records(path: Path) -> list[Record]:
    """Read a file of records, dropping a torn last line and repeated records.

    Raises
    ------
    InputError
        The file cannot be read, or contains something other than records.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read {str(path)!r}: {error.strerror}; give a file that `patchad bench run` wrote"
        ) from None
    records, _ = parse_records(content, str(path))
    return records


def parse_records(content: bytes, name: str) -> tuple[list[Record], int]:
    """Parse the content of a file; return the records and the number of bytes that they take.

    Examples
    --------
    >>> line = json.dumps(dict.fromkeys(IDENTITY, "x") | {"parameters": {}, "metrics": {}})
    >>> records, taken = parse_records(os.linesep.join([line, line[:30]]).encode(), "records.jsonl")
    >>> len(records), taken == len(line) + 1
    (1, True)
    """
    found: dict[str, Record] = {}
    lines = content.splitlines(keepends=True)
    taken = repeated = 0
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                record = _parse_line(line)
            except ValueError as error:
                if number == len(lines) and line.startswith(b"{") and isinstance(error, json.JSONDecodeError):
                    logger.warning("%s: line %d is torn; it is dropped", name, number)
                    break
                raise InputError(
                    f"{name}: line {number} is not a record ({error}); give a file that `patchad bench run` wrote"
                ) from None
            repeated += identity(record) in found
            found.setdefault(identity(record), record)
        taken += len(line)
    if repeated:
        logger.warning("%s: %d records repeat earlier ones and are dropped", name, repeated)
    return list(found.values()), taken


def _parse_line(line: bytes) -> Record:
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - as json's own errors
    missing = [key for key in (*IDENTITY, "metrics") if key not in record]
    if missing:
        raise ValueError(f"it lacks {listed(missing, 10)}")
    if not isinstance(record["metrics"], dict) or not isinstance(record["parameters"], dict):
        raise ValueError("metrics and parameters must be objects")  # noqa: TRY004
    return record


class RecordFile:
    """A file of records, open for appending by this process and no other.

    Parameters
    ----------
    path
        Created if it does not exist. A torn last line is cut off.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "records.jsonl"
    >>> record = dict.fromkeys(IDENTITY, "x") | {"parameters": {}, "metrics": {"f1": 0.5}}
    >>> with RecordFile(path) as file:
    ...     file.append([record])
    >>> with RecordFile(path) as file:
    ...     identity(record) in file.done
    True
    """

    def __init__(self, path: Path) -> None:
        if path.is_dir():
            raise InputError(f"{str(path)!r} is a folder; give the path of a file, as in -o records.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        try:
            _lock(self._file.fileno(), path)
            self._file.seek(0)
            content = self._file.read()
            records, taken = parse_records(content, str(path))
            self._file.truncate(taken)
            if taken and not content[:taken].endswith(b"\n"):
                self._file.write(b"\n")
        except BaseException:
            self._file.close()
            raise
        self.done = {identity(record) for record in records}
        """The `identity` of each record in the file."""
        self.measured: dict[str, list[Record]] = {}
        """The records that the file held when it was opened, by `measurement_key`: some of other parameters."""
        for record in records:
            self.measured.setdefault(measurement_key(record), []).append(record)

    def append(self, records: Iterable[Record]) -> None:
        """Append records, one line each, and flush them to disk."""
        for record in records:
            self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
            self.done.add(identity(record))
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _lock(handle: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"{str(path)!r} is being written by another run; wait for it, or give another file with -o"
        ) from None
