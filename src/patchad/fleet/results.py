"""What a fleet run knows of each series, and the files that hold it.

The scores of a series are one parquet file, which also holds its events and the key of what it was made from. So a
series is finished exactly if its file is there with the right key, however the run before ended.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from patchad.data.files import write_whole
from patchad.data.names import plain_cell
from patchad.data.table import BoolArray, FloatArray
from patchad.errors import InputError, MissingExtraError
from patchad.results.detection import Detection, time_text

COLUMNS = ("series", "rows", "events", "worst_severity", "seconds", "error")
"""Of the manifest of `detect`."""
FIT_COLUMNS = ("series", "rows", "channels", "seconds", "error")
"""Of the manifest of `fit`."""
OUTLINE = 96
"""Stretches of a series whose highest scores are kept for the fleet's page."""
KEY = b"patchad_fleet"
"""Where a parquet file holds what is known of a series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a series."""

    series: str
    rows: int = 0
    events: Sequence[Mapping[str, Any]] = ()
    """Fields of each event, as in `events.json`."""
    seconds: float = 0.0
    error: str = ""
    key: str = ""
    """Hash of what the result was made from."""
    notes: Sequence[str] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    """What the series belongs to: columns that have one value in it."""
    outline: Sequence[float] = ()
    """Highest score of each of a few stretches, in levels."""
    first_time: str | float | None = None
    last_time: str | float | None = None

    @property
    def worst_severity(self) -> float | None:
        """Severity of the worst event; None where there is none."""
        return max((float(event["severity"]) for event in self.events), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What became of the fit of a series."""

    series: str
    rows: int = 0
    channels: int = 0
    seconds: float = 0.0
    error: str = ""
    key: str = ""
    """Hash of what the model was made from."""
    checksum: str = ""
    """Of the model file."""
    notes: Sequence[str] = ()


Each = TypeVar("Each", Result, Fitted)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Each]):
    """What became of a fleet."""

    results: tuple[Each, ...]
    """In the order of the series; then what cannot be read."""
    resumed: int
    """Series that were finished before."""
    notes: tuple[str, ...]

    @property
    def failed(self) -> list[tuple[str, InputError]]:
        """Names of series and files that nothing was made of, with the reasons."""
        return [(one.series, InputError(one.error)) for one in self.results if one.error]


def result_of(
    series: str, detection: Detection, *, key: str, seconds: float, groups: Mapping[str, str] | None = None
) -> Result:
    """Collect what the fleet has to know of a detection."""
    index = detection.index
    return Result(
        series=series,
        rows=len(detection.scores),
        events=tuple({"series": series} | event.to_dict() for event in detection.events),
        seconds=seconds,
        key=key,
        notes=detection.notes,
        groups=groups or {},
        outline=tuple(outline(detection.scores, detection.levels)),
        first_time=None if index is None else time_text(index[0]),
        last_time=None if index is None else time_text(index[-1]),
    )


def outline(scores: FloatArray, levels: FloatArray) -> list[float]:
    """Return the highest score of each of a few stretches, in levels.

    Examples
    --------
    >>> outline(np.array([0.5, 3.0, np.nan]), np.array([2.0, 2.0, 2.0]))
    [0.25, 1.5, 0.0]
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        heights = np.nan_to_num(scores / np.where(levels > 0, levels, np.nan), nan=0.0, posinf=0.0, neginf=0.0)
    if not len(heights):
        return []
    starts = np.unique(np.linspace(0, len(heights), min(OUTLINE, len(heights)), endpoint=False).astype(np.intp))
    return [round(float(one), 3) for one in np.maximum.reduceat(heights, starts)]


# -- scores -----------------------------------------------------------------------------------------------------------


def write_scores(path: Path, result: Result, detection: Detection, labels: FloatArray | None = None) -> None:
    """Write score, level and alarm of every row as parquet, the columns of `scores.csv`, whole or not at all."""
    from pyarrow import parquet

    table = score_columns(result.series, 0, detection.index, detection.scores, detection.levels, detection.alarms)
    if labels is not None:
        table = table.append_column("label", [labels.astype(np.int64)])
    table = table.replace_schema_metadata({KEY: metadata_of(asdict(result))})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    write_whole({path: buffer.getvalue()})


def score_columns(
    series: str, first: int, index: Any, scores: FloatArray, levels: FloatArray, alarms: BoolArray
) -> Any:
    """Return rows as an arrow table, numbered from `first` on."""
    pa = pyarrow()
    rows = len(scores)
    columns = {
        "series": pa.array([series] * rows, pa.string()),
        "row": pa.array(np.arange(first, first + rows)),
        "time": times_column(index, rows),
        "score": pa.array(np.asarray(scores, dtype=np.float64)),
        "level": pa.array(np.asarray(levels, dtype=np.float64)),
        "alarm": pa.array(alarms.astype(np.int64)),
    }
    return pa.table(columns)


def metadata_of(fields: Mapping[str, Any]) -> str:
    """Write what is known of a series as a parquet file holds it."""
    return json.dumps(fields)


def times_column(index: Any, rows: int) -> Any:
    """Return times as an arrow array, with their zone where they have one; nulls where there are none."""
    pa = pyarrow()
    if index is None:
        return pa.nulls(rows)
    return pa.array(index) if isinstance(index, np.ndarray) else pa.Array.from_pandas(index)


def read_result(path: Path) -> Result | None:
    """Return what a file of scores knows of its series; None where it is no such file, or not whole."""
    pa = pyarrow()
    from pyarrow import parquet

    try:
        metadata = parquet.read_metadata(path).metadata or {}
        return Result(**json.loads(metadata[KEY]))
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError):
        return None


def pyarrow() -> Any:
    """Import pyarrow; name the extra where it is not installed."""
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("pyarrow", "fleet") from None
    return pa


# -- of all series ----------------------------------------------------------------------------------------------------


def manifest_csv(results: Sequence[Result]) -> bytes:
    """Return a line for each series.

    Examples
    --------
    >>> print(manifest_csv([Result(series="pump", rows=9, seconds=1.2345)]).decode().rstrip())
    series,rows,events,worst_severity,seconds,error
    pump,9,0,,1.234,
    """
    worst = ["" if one.worst_severity is None else repr(one.worst_severity) for one in results]
    cells = [(one.rows, len(one.events), severity) for one, severity in zip(results, worst, strict=True)]
    return _csv(COLUMNS, results, cells)


def fit_manifest_csv(results: Sequence[Fitted]) -> bytes:
    """Return a line for each series that was fitted."""
    return _csv(FIT_COLUMNS, results, [(one.rows, one.channels) for one in results])


def _csv(columns: Sequence[str], results: Sequence[Result | Fitted], cells: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for one, own in zip(results, cells, strict=True):
        error = plain_cell(" ".join(one.error.split()))
        writer.writerow((plain_cell(one.series), *own, f"{one.seconds:.3f}", error))
    return text.getvalue().encode(errors="backslashreplace")


def events_json(results: Sequence[Result]) -> bytes:
    """Return all events as a JSON list, each with its series."""
    return json.dumps([event for one in results for event in one.events], indent=1).encode()
