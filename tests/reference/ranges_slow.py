"""Slow, obvious twins of range-AUC, VUS and PATE, with explicit soft labels for every point and threshold.

They follow the public implementations named in the docstrings step by step, in code of their own.
"""

from __future__ import annotations

import itertools

import numpy as np

from tests.reference.metrics_slow import events_of


def soft_labels(labels, window, *, short_right):
    """Return 1 in events, decaying as sqrt(1 - d / window) beside them, summed and clipped at 1."""
    soft = np.array(labels, float)
    for start, stop in events_of(labels):
        for distance in range(1, window // 2 + 1):
            slope = np.sqrt(1 - distance / window)
            if start - distance >= 0:
                soft[start - distance] += slope
            if stop - 1 + distance < len(labels) and not (short_right and distance == window // 2):
                soft[stop - 1 + distance] += slope
    return np.minimum(soft, 1.0)


def widened_events(labels, window):
    """Return the events widened by half a window, merged where they share a point."""
    joined = []
    for start, stop in events_of(labels):
        wide = (start - window // 2, stop + window // 2)
        if joined and wide[0] < joined[-1][1]:
            wide = (joined.pop()[0], wide[1])
        joined.append(wide)
    return [(max(a, 0), min(b, len(labels))) for a, b in joined]


def levels_of(scores, thresholds):
    return np.sort(scores)[::-1][np.linspace(0, len(scores) - 1, thresholds).astype(int)]


def _areas(points, *, trapezoid):
    tpr, fpr, prec = (np.array(column) for column in zip(*points, strict=True))
    before = np.concatenate([[1.0], prec[:-1]])
    heights = (prec + before) / 2 if trapezoid else prec
    pr = np.sum(np.diff(tpr, prepend=0.0) * heights)
    tpr, fpr = np.concatenate([[0], tpr, [1]]), np.concatenate([[0], fpr, [1]])
    return np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2), pr


def opt_slice(labels, scores, window, thresholds):
    """Return one window of the volume that TSB-AD and the ``vus`` package call ``opt``."""
    labels = np.asarray(labels, bool)
    soft, widened = soft_labels(labels, window, short_right=False), widened_events(labels, window)
    points = []
    for level in levels_of(scores, thresholds):
        alarms = scores >= level
        hits = np.sum(soft * alarms)
        positives = (labels.sum() + np.sum(np.where(labels, 1.0, soft * alarms))) / 2
        found = np.mean([alarms[a:b].any() for a, b in widened])
        rates = min(hits / positives, 1) * found, (alarms.sum() - hits) / (len(labels) - positives)
        points.append((*rates, hits / alarms.sum()))
    return _areas(points, trapezoid=False)


def run_slice(labels, scores, window, thresholds, *, short_right):
    """Return range-AUC of the ``vus`` package or, with the short right slope, of the code of 2022."""
    labels = np.asarray(labels, bool)
    soft = soft_labels(labels, window, short_right=short_right)
    positives, runs = (labels.sum() + soft.sum()) / 2, events_of(soft > 0)
    points = []
    for level in levels_of(scores, thresholds):
        alarms = scores >= level
        hits = np.sum(soft * alarms)
        found = np.mean([alarms[a:b].any() for a, b in runs])
        rates = min(hits / positives, 1) * found, (alarms.sum() - hits) / (len(labels) - positives)
        points.append((*rates, hits / alarms.sum()))
    return _areas(points, trapezoid=True)


def vus(labels, scores, window=100, thresholds=250, family="opt"):
    scores = np.asarray(scores, float)
    slices = [
        opt_slice(labels, scores, width, thresholds)
        if family == "opt"
        else run_slice(labels, scores, width, thresholds, short_right=True)
        for width in range(window + 1)
    ]
    return tuple(np.mean(slices, axis=0))


def range_auc(labels, scores, window=100, thresholds=250, family="opt"):
    return run_slice(labels, np.asarray(scores, float), window, thresholds, short_right=family == "legacy")


def pate(labels, scores, window=100, thresholds=250):
    """Return PATE of the ``PATE`` package: buffers of 0 and ``window`` on either side, percentiles of useful scores."""
    labels, scores = np.asarray(labels, bool), np.asarray(scores, float)
    if not labels.any():
        return 0.0
    levels = np.percentile(_useful(labels, scores), np.linspace(100, 0, thresholds))
    areas = [
        _pate_area([_pate_point(labels, scores >= level, early, late) for level in levels])
        for early in (0, window)
        for late in (0, window)
    ]
    return float(np.mean(areas))


def _useful(labels, scores):
    """Return the distinct scores at or right below which hits are gained, and the two extremes."""
    distinct = sorted(set(scores), reverse=True)
    gains = [np.any(labels & (scores == level)) for level in distinct]
    last = len(distinct) - 1
    return [level for i, level in enumerate(distinct) if i in (0, last) or gains[i] or (i < last and gains[i + 1])]


def _pate_point(labels, alarms, early, late):
    hits = misses = 0.0
    events, previous_end = events_of(labels), 0
    for number, (start, stop) in enumerate(events):
        following = events[number + 1][0] if number + 1 < len(events) else len(labels)
        end = min(stop + late, following)
        begin = max(start - early, previous_end, 0)
        inside = list(range(start, stop))
        found = alarms[start:stop].any()
        hits += alarms[start:stop].sum()
        for row in range(stop, end):
            hits += alarms[row] * (1 - _total(row, inside) / _total(end - 1, inside))
        for row in range(begin, start):
            hits += alarms[row] * found * (1 - _total(row, inside) / _total(begin, inside))
        misses += _pate_misses(alarms[start:stop])
        previous_end = end
    precision = hits / alarms.sum() if alarms.any() else 0.0
    return precision, hits / (hits + misses) if hits + misses > 0 else 0.0


def _total(row, rows):
    return sum(abs(row - other) for other in rows)


def _pate_misses(alarms):
    runs = events_of(alarms)
    if not runs:
        return len(alarms)
    reach = runs[0][1] - runs[0][0]
    scale = _total(len(alarms) - 1, range(len(alarms)))
    missed = [row for row, alarm in enumerate(alarms) if not alarm]
    return sum(1 if row <= reach else 1 - _total(row, range(reach + 1)) / scale for row in missed)


def _pate_area(points):
    kept = [(1.0, 0.0)]
    for precision, recall in points:
        if recall >= kept[-1][1] - 1e-12:
            kept.append((precision, recall))
    return sum((r1 - r0) * (p1 + p0) / 2 for (p0, r0), (p1, r1) in itertools.pairwise(kept))
