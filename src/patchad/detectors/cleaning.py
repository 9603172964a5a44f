"""Unclean train: leave out the rows that are foreign to the rest of it, for every detector alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from patchad.alarms.sensors import SensorRules, SensorStage
from patchad.data.screening import foreign_rows
from patchad.data.series import Prepared, Series
from patchad.data.table import BoolArray, FloatArray
from patchad.errors import InputError

MOST_CONTAMINATION = 0.25
"""Largest share of train that can be called faulty: more leaves too little to learn from."""
LEAST_LEFT = 0.7
"""Share of train that has to be left in usable pieces; else nothing is left out."""


@dataclass(frozen=True, slots=True, eq=False)
class CleanTrain:
    """What is left of train, in pieces."""

    segments: list[Series]
    values: list[FloatArray]
    """(time, channel) each, as they were measured, NaN where they are missing."""
    notes: tuple[str, ...] = ()


def check_contamination(contamination: float | None) -> None:
    """Refuse a share that is none."""
    if contamination is not None and not 0 <= contamination <= MOST_CONTAMINATION:
        raise InputError(
            f"contamination={contamination} is out of range; it is the share of faulty rows of train, from 0 to "
            f"{MOST_CONTAMINATION:g}, or None where it is not known"
        )


def clean_train(
    prepared: Sequence[Prepared], values: Sequence[FloatArray], *, contamination: float | None, window: int
) -> CleanTrain:
    """Leave out the rows that are foreign to train.

    Parameters
    ----------
    prepared
        The tables of train, cut into segments.
    values
        The same as they were measured.
    contamination
        Share of the rows that is left out, the strangest; None: those that are clearly foreign, often none. Rows in
        which a sensor is stuck, or far out of range, are always among them.
    window
        Rows below which a piece is of no use.
    """
    segments = [segment for one in prepared for segment in one.segments]
    if contamination == 0:
        return CleanTrain(segments, list(values))
    marks = foreign_rows([one.values for one in segments], contamination, _broken(prepared, values))
    before = sum(map(len, segments))
    pieces = [
        segment[run]
        for segment, mark in zip(segments, marks, strict=True)
        for run in ([slice(0, len(mark))] if not mark.any() else _runs(~mark))
        if not mark.any() or run.stop - run.start >= window
    ]
    out, after = sum(int(mark.sum()) for mark in marks), sum(map(len, pieces))
    if after < LEAST_LEFT * before:
        note = f"{out:,} rows of train are far from the rest and kept: without them the pieces left would be too short"
        return CleanTrain(segments, list(values), (note,))
    if out == 0:
        return CleanTrain(segments, list(values))
    note = f"left out {out:,} rows of train ({out / before:.1%}) that are far from the rest; contamination=0 keeps them"
    return CleanTrain(pieces, _kept_values(prepared, values, marks), (note,))


def _broken(prepared: Sequence[Prepared], values: Sequence[FloatArray]) -> list[BoolArray]:
    """Mark the rows of each segment in which a channel is stuck or out of range, by what is normal in train."""
    rules = SensorRules.fit(values)
    marks = []
    for one, table in zip(prepared, values, strict=True):
        stage = SensorStage(rules)
        broken = np.zeros(one.length, dtype=bool)
        for found in stage.push(table) + stage.flush():
            broken[found.start : found.stop] |= found.kind != "missing"
        marks += [broken[rows] for rows in one.rows]
    return marks


def _kept_values(
    prepared: Sequence[Prepared], values: Sequence[FloatArray], marks: Sequence[BoolArray]
) -> list[FloatArray]:
    """Cut the marked rows of the segments out of the tables."""
    kept, number = [], 0
    for one, table in zip(prepared, values, strict=True):
        stays = np.ones(one.length, dtype=bool)
        for rows in one.rows:
            stays[rows] = ~marks[number]
            number += 1
        kept += [table[run] for run in _runs(stays)]
    return kept


def _runs(mask: BoolArray) -> list[slice]:
    """Return the runs of True."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return [slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
