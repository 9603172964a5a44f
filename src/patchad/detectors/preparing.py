"""From what `fit` is given to what it learns from: channels, clean segments, and the rows that are held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchad.data.holdout import held_out_blocks
from patchad.data.series import Prepared, Series, check_observed, medians_of, of_each
from patchad.data.switches import Switches
from patchad.data.table import FloatArray, is_list_of_series, to_table
from patchad.detectors.cleaning import clean_train
from patchad.detectors.reading import cut, match
from patchad.errors import InputError, listed

if TYPE_CHECKING:
    from patchad.detectors.base import Detector

MIN_ROWS = 32
"""Rows of train below which nothing can be learned."""


@dataclass(frozen=True, slots=True, eq=False)
class Train:
    """What a fit learns from."""

    segments: Sequence[Series]
    blocks: Sequence[Sequence[slice]]
    """The rows of each segment that are held out."""
    judged: Sequence[Sequence[slice]]
    """The rows whose scores calibrate the threshold: those, or all rows where none are held out."""
    values: Sequence[FloatArray]
    """All rows that are left, missing ones included."""


def read_train(detector: Detector, X: Any) -> tuple[list[Prepared], list[FloatArray], tuple[str, ...]]:
    """Read train and let the detector learn its channels; return clean pieces, all values, and notes."""
    raw = [to_table(item, unread=detector.ignore) for item in (X if is_list_of_series(X) else [X])]
    detector.switches_, notes = Switches.learn(raw)
    tables, joined = detector._with_new_channels([detector.switches_.encode(table) for table in raw])
    detector._learn_channels(tables[0])
    values = of_each(tables, lambda table: match(detector, table, complete=True).values)
    of_each(tables, lambda _, v: check_observed(v, detector.channels_), values)
    detector.initial_ = medians_of(values)
    prepared = of_each(tables, lambda table, v: cut(detector, table, v), values)
    return prepared, values, (*notes, *joined)


def check_rows(segments: Sequence[Series]) -> None:
    """Refuse train without a piece that is long enough to learn from."""
    rows = max((len(segment) for segment in segments), default=0)
    if rows < MIN_ROWS:
        raise InputError(
            f"train has {rows} row{'' if rows == 1 else 's'} in one piece (n_samples = {rows}), "
            f"at least {MIN_ROWS} are needed; pass more rows, or raise max_gap if gaps cut them"
        )


def prepare_train(detector: Detector, X: Any) -> Train:
    """Read and clean train, let the detector learn its channels, and choose the rows to hold out."""
    prepared, values, notes = read_train(detector, X)
    window = max(detector._window(), MIN_ROWS)
    cleaned = clean_train(prepared, values, contamination=detector.contamination, window=window)
    segments = cleaned.segments
    check_rows(segments)
    left_out = [f"left out as asked: {listed(detector.ignore)}"] if detector.ignore else []
    more = (note for p in prepared for note in p.notes)
    detector.fit_notes_ = (*left_out, *notes, *more, *cleaned.notes)
    share = detector._plan([len(segment) for segment in segments])
    blocks = [held_out_blocks(len(segment), share, detector._window()) for segment in segments]
    judged = blocks if any(blocks) else [[slice(0, len(segment))] for segment in segments]
    return Train(segments, blocks, judged, cleaned.values)
