"""Validation of the inputs of all metrics.

Labels and alarms are masks (bool, or integers that are 0 or 1); scores are floats. The types are kept apart on
purpose: swapped arguments are the most common mistake in published evaluation code, where they raise no error.
"""

from __future__ import annotations

import operator
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patchad.errors import MetricError

BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.signedinteger]


def labels_and_alarms(labels: ArrayLike, alarms: ArrayLike) -> tuple[BoolArray, BoolArray]:
    """Return both masks as bool arrays of equal length."""
    checked = as_mask(labels, "labels"), as_mask(alarms, "alarms")
    _same_length(checked[0], checked[1], "alarms")
    return checked


def labels_and_scores(labels: ArrayLike, scores: ArrayLike) -> tuple[BoolArray, FloatArray]:
    """Return labels as bool and scores as finite float64, of equal length."""
    checked = as_mask(labels, "labels"), as_scores(scores)
    _same_length(checked[0], checked[1], "scores")
    return checked


def as_mask(values: ArrayLike, name: str) -> BoolArray:
    """Return bools or 0/1 integers as a bool array ``(time,)``; no copy if the input already is one."""
    array = _one_dimensional(values, name)
    if array.dtype.kind == "b":
        return array.astype(np.bool_, copy=False)
    if array.dtype.kind not in "iu":
        remedy = (
            "pass scores as scores="
            if name == "labels"
            else "compare the scores with a level first, as in scores > level"
        )
        raise MetricError(
            f"{name} must be bool or 0/1 integers, got {array.dtype}; {remedy}, 0.0/1.0 floats need astype(bool)"
        )
    if array.min() < 0 or array.max() > 1:
        raise MetricError(
            f"{name} must contain only 0 and 1, got integers from {array.min()} to {array.max()}; "
            f"compare with the anomalous value, as in {name} == {array.max()}"
        )
    return array.astype(np.bool_)


def as_scores(values: ArrayLike) -> FloatArray:
    """Return a finite float64 array ``(time,)``; no copy if the input already is one."""
    array = _one_dimensional(values, "scores")
    if array.dtype.kind == "b" or (array.dtype.kind in "iu" and array.min() >= 0 and array.max() <= 1):
        raise MetricError(
            f"scores must be floats, got {array.dtype} with only 0 and 1, which looks like labels or alarms; "
            "pass the detector's scores before any threshold"
        )
    if array.dtype.kind not in "fiu":
        raise MetricError(f"scores must be floats, got {array.dtype}; convert them with astype(float)")
    with np.errstate(over="ignore"):
        scores: FloatArray = array.astype(np.float64, copy=False)
    finite = np.isfinite(scores)
    if not finite.all():
        bad = np.flatnonzero(~finite)
        raise MetricError(
            f"scores must be finite, got {bad.size} NaN or infinite values, the first ({scores[bad[0]]}) "
            f"at row {bad[0]}; drop those rows from labels and scores, or give them a finite score"
        )
    return scores


def need_anomaly(labels: BoolArray, metric: str) -> None:
    """Refuse labels without an anomaly, for which the metric is undefined."""
    if not labels.any():
        raise MetricError(
            f"labels must mark at least one anomaly for {metric}, got {labels.size} normal points; "
            "leave this series out"
        )


def need_both_classes(labels: BoolArray, metric: str) -> None:
    """Refuse all-normal and all-anomalous labels, for which the metric is undefined."""
    need_anomaly(labels, metric)
    if labels.all():
        raise MetricError(
            f"labels must mark at least one normal point for {metric}, got {labels.size} anomalous points; "
            "leave this series out"
        )


def whole_number(value: int, name: str, least: int) -> int:
    """Return an integer parameter, checked to be at least ``least``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise MetricError(f"{name} must be an integer, got {value!r}; pass {name}={least} or more") from None
    if isinstance(value, (bool, np.bool_)) or number < least:
        raise MetricError(f"{name} must be an integer of at least {least}, got {value!r}; pass {name}={least} or more")
    return number


def share(value: float, name: str, most: float = 1.0) -> float:
    """Return a real parameter, checked to lie between 0 and ``most``."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0.0 <= number <= most:
        raise MetricError(f"{name} must lie between 0 and {most:g}, got {value!r}; pass a number in that range")
    return number


def with_headroom(scores: FloatArray) -> FloatArray:
    """Return scores whose differences cannot overflow: divided by 4 if they are near the largest float."""
    if max(-scores.min(), scores.max()) > np.finfo(np.float64).max / 4:
        return scores / 4
    return scores


def _one_dimensional(values: ArrayLike, name: str) -> NDArray[np.generic]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise MetricError(
            f"{name} must be a sequence of numbers, got {type(values).__name__}: {error}; pass a 1-D array"
        ) from None
    if array.ndim != 1:
        raise MetricError(
            f"{name} must have shape (time,), got {array.shape}; pass one series at a time, as in {name}[:, 0]"
        )
    if array.size == 0:
        raise MetricError(f"{name} must have at least one point, got none; leave this series out")
    return array


def _same_length(labels: BoolArray, other: NDArray[np.generic], name: str) -> None:
    if labels.size != other.size:
        raise MetricError(
            f"labels and {name} must have equal length, got {labels.size} and {other.size}; "
            f"pass the {name} of exactly the labelled rows"
        )
