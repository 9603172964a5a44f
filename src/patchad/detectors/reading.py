"""A table as a fitted detector reads it: its channels, its segments, who bears no blame, and notes for people."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from patchad.data.series import Matched, Prepared, first_values, match_channels, prepare
from patchad.data.table import FloatArray, Table, to_table
from patchad.detectors.operator import knowledge_of
from patchad.errors import InputError, listed

if TYPE_CHECKING:
    from patchad.detectors.base import Detector


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A table as a detector reads it."""

    table: Table
    """With switches for columns of text."""
    prepared: Prepared
    matched: Matched
    """The channels as they were measured."""
    since: NDArray[np.intp]
    """(channel,), the first row in which a channel may bear blame: it has a value, and is not ignored."""


def read(detector: Detector, X: Any) -> Read:
    """Read a series to be scored."""
    check_is_fitted(detector, "threshold_")
    ignored = knowledge_of(detector).ignored
    table = read_table(detector, X)
    matched = match(detector, table)
    values = matched.values
    if matched.absent:  # held at the median of train: nothing is known of it, in any row
        lacking = [detector.channels_.index(name) for name in matched.absent]
        values = values.copy()
        values[:, lacking] = detector.initial_[lacking]
    if all(ignored[detector.channels_.index(name)] or name in matched.absent for name in detector.channels_):
        raise InputError(f"the data has none of the channels {listed(detector.channels_)} that are not ignored")
    since = np.where(ignored, len(values), first_values(matched.values))
    return Read(table, cut(detector, table, values), matched, since)


def read_table(detector: Detector, X: Any) -> Table:
    """Read a container, with a switch for each state of a column of text."""
    return detector.switches_.encode(to_table(X, only=detector.columns_))


def match(detector: Detector, table: Table, *, complete: bool = False) -> Matched:
    """Pick a detector's channels from a table; in a fit they have to be complete."""
    return match_channels(
        table,
        detector.channels_,
        named=detector.named_,
        columns=detector.fit_columns_,
        detector=type(detector).__name__,
        complete=complete,
    )


def cut(detector: Detector, table: Table, values: FloatArray) -> Prepared:
    """Cut the values of a detector's channels, `(time, channel)`, into series without gaps."""
    found = prepare(
        values,
        detector.channels_,
        table.index,
        missing=detector.missing,
        max_gap=detector.max_gap,
        initial=detector.initial_,
        zone=table.zone,
    )
    return replace(found, notes=(*table.notes, *found.notes))


def notes_of(detector: Detector, found: Read) -> tuple[str, ...]:
    """Say what was done to a series before it was scored, and to those of the fit."""
    prepared, matched = found.prepared, found.matched
    notes = [*(f"in fit: {note}" for note in detector.fit_notes_), *prepared.notes]
    padded = sum(len(rows) for rows in prepared.rows if len(rows) < detector._window())
    if padded:
        notes.append(f"{padded:,} rows stand in pieces shorter than the window; they are padded, and no score alarms")
    if matched.ignored:
        notes.append(f"ignored columns that were not in the fit: {listed(matched.ignored)}")
    ignored = [name for name in detector.switches_.expand(detector.ignore) if name in detector.channels_]
    if ignored:
        notes.append(f"ignored as asked: {listed(ignored)}")
    absent = [name for name in matched.absent if name not in ignored]
    if absent:
        notes.append(f"channels of the fit are missing, and the others are scored without: {listed(absent)}")
    return tuple(notes)
