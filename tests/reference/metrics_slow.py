"""Slow, obvious twins of the metrics that count points and events, which `patchad.metrics` must equal.

Each follows its definition with plain loops. Nothing is shared with the package.
"""

from __future__ import annotations

import itertools
import math

import numpy as np


def events_of(mask):
    """Return the half-open runs of true values."""
    runs, start = [], None
    for row, value in enumerate([*mask, False]):
        if value and start is None:
            start = row
        elif not value and start is not None:
            runs.append((start, row))
            start = None
    return runs


def harmonic(precision, recall):
    return 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)


def count(labels, alarms):
    pairs = list(zip(labels, alarms, strict=True))
    tp, fp = pairs.count((True, True)), pairs.count((False, True))
    return tp, fp, pairs.count((True, False)), pairs.count((False, False))


def precision(labels, alarms):
    tp, fp, _, _ = count(labels, alarms)
    return tp / (tp + fp) if tp else 0.0


def recall(labels, alarms):
    tp, _, fn, _ = count(labels, alarms)
    return tp / (tp + fn) if tp else 0.0


def f1(labels, alarms):
    return harmonic(precision(labels, alarms), recall(labels, alarms))


def accuracy(labels, alarms):
    return sum(y == a for y, a in zip(labels, alarms, strict=True)) / len(labels)


def mcc(labels, alarms):
    if len(set(labels)) == 1 or len(set(alarms)) == 1:
        return 0.0
    return float(np.corrcoef(np.array(labels, float), np.array(alarms, float))[0, 1])


def roc_auc(labels, scores):
    anomalous = [s for s, y in zip(scores, labels, strict=True) if y]
    normal = [s for s, y in zip(scores, labels, strict=True) if not y]
    wins = sum((a > n) + 0.5 * (a == n) for a in anomalous for n in normal)
    return wins / (len(anomalous) * len(normal))


def pr_auc(labels, scores):
    area, before = 0.0, 0.0
    for level in sorted(set(scores), reverse=True):
        alarms = [s >= level for s in scores]
        area += (recall(labels, alarms) - before) * precision(labels, alarms)
        before = recall(labels, alarms)
    return area


def oracle_f1(labels, scores):
    return max(f1(labels, [s >= level for s in scores]) for level in scores)


def point_adjust(labels, alarms, k=0.0):
    adjusted = list(alarms)
    for start, stop in events_of(labels):
        if sum(alarms[start:stop]) > k / 100 * (stop - start):
            adjusted[start:stop] = [True] * (stop - start)
    return adjusted


def pa_k_f1(labels, alarms, k):
    return f1(labels, point_adjust(labels, alarms, k))


def oracle_pa_f1(labels, scores):
    return max(pa_k_f1(labels, [s > level for s in scores], 0.0) for level in scores)


def affiliation(labels, alarms):
    """Sample the middle of cells of width 1/4, which is exact: within a cell, everything is linear in time.

    Events start and stop at integers, zones at halves, and nearest predictions change at quarters.
    """
    events, runs = events_of(labels), events_of(alarms)
    borders = [0.0, *((a[1] + b[0]) / 2 for a, b in itertools.pairwise(events)), float(len(labels))]
    precisions, recalls = [], []
    for (start, stop), (low, high) in zip(events, itertools.pairwise(borders), strict=True):
        pieces = [(max(a, low), min(b, high)) for a, b in runs if max(a, low) < min(b, high)]
        times = [low + (cell + 0.5) / 4 for cell in range(round(4 * (high - low)))]
        predicted = [t for t in times if any(a < t < b for a, b in pieces)]
        if not predicted:
            recalls.append(0.0)
            continue
        hits = [_probability_farther(_distance(t, start, stop), start, stop, low, high) for t in predicted]
        precisions.append(sum(hits) / len(hits))
        nearest = [(t, min(_distance(t, a, b) for a, b in pieces)) for t in times if start < t < stop]
        recalls.append(sum(_probability_farther(d, t, t, low, high) for t, d in nearest) / len(nearest))
    mean_precision = sum(precisions) / len(precisions) if precisions else math.nan
    mean_recall = sum(recalls) / len(recalls)
    return mean_precision, mean_recall, harmonic(mean_precision, mean_recall) if precisions else 0.0


def _distance(time, start, stop):
    return max(start - time, time - stop, 0.0)


def _probability_farther(distance, start, stop, low, high):
    """Return the probability that a random time between low and high is farther than this from [start, stop]."""
    if distance == 0:
        return 1.0
    return (max(start - distance - low, 0.0) + max(high - stop - distance, 0.0)) / (high - low)


def oracle_affiliation_f1(labels, scores, thresholds=100):
    levels = np.linspace(min(scores), max(scores), thresholds)
    return max(affiliation(labels, [s > level for s in scores])[2] for level in levels)


def overlap(a, b):
    return max(min(a[1], b[1]) - max(a[0], b[0]), 0)


def event_f1(labels, alarms):
    events, runs = events_of(labels), events_of(alarms)
    detected = sum(any(overlap(e, r) for r in runs) for e in events)
    false_runs = sum(not any(overlap(e, r) for e in events) for r in runs)
    if not detected:
        return 0.0
    _, fp, _, tn = count(labels, alarms)
    false_rate = fp / (fp + tn) if fp + tn else 0.0
    return harmonic(detected / (detected + false_runs) * (1 - false_rate), detected / len(events))


def composite_f1(labels, alarms):
    events = events_of(labels)
    detected = sum(any(alarms[a:b]) for a, b in events)
    return harmonic(precision(labels, alarms), detected / len(events)) if events else 0.0


def detection_delay(labels, alarms):
    delays = [list(alarms[a:b]).index(True) for a, b in events_of(labels) if any(alarms[a:b])]
    missed = len(events_of(labels)) - len(delays)
    if not delays:
        return math.nan, math.nan, 0, missed
    return float(np.mean(delays)), float(np.median(delays)), len(delays), missed


def range_based(labels, alarms, alpha=0.2):
    def mean_reward(intervals, others, bonus):
        rewards = []
        for one in intervals:
            shared = [overlap(one, other) for other in others if overlap(one, other)]
            share = sum(shared) / (one[1] - one[0]) / max(len(shared), 1)
            rewards.append(bonus * bool(shared) + (1 - bonus) * share)
        return sum(rewards) / len(rewards)

    events, runs = events_of(labels), events_of(alarms)
    if not runs:
        return 0.0, 0.0, 0.0
    values = mean_reward(runs, events, 0.0), mean_reward(events, runs, alpha)
    return *values, harmonic(*values)


def etapr(labels, alarms, theta_p=0.5, theta_r=0.1):
    events, runs = events_of(labels), events_of(alarms)
    if not runs:
        return 0.0, 0.0, 0.0
    shared = np.array([[overlap(e, r) for r in runs] for e in events], float)
    event_sizes, run_sizes = np.array([b - a for a, b in events]), np.array([b - a for a, b in runs])
    while True:
        before = shared.copy()
        shared[shared.sum(axis=1) / event_sizes < theta_r, :] = 0
        shared[:, shared.sum(axis=0) / run_sizes < theta_p] = 0
        if np.array_equal(before, shared):
            break
    covered, right = shared.sum(axis=1) / event_sizes, shared.sum(axis=0) / run_sizes
    value_r = np.mean((covered >= theta_r) * (1 + covered) / 2)
    value_p = np.average((right >= theta_p) * (1 + right) / 2, weights=np.sqrt(run_sizes))
    return value_p, value_r, harmonic(value_p, value_r)
