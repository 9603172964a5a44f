"""What could be found of the grid of plain faults at all: by matched filters that know the process and the shapes.

    python -m benchmarks.ceiling GRID.jsonl

No detector that learns from 6,000 rows can know what is known here: the pattern of every row, the covariance of the
noise, and the shape and the length of every kind of fault. What is left is chance: each filter says how far a row is
from calm, in standard deviations, the furthest of all filters and channels counts, and its level gives one false event
per 10,000 calm rows of the same process. GRID.jsonl has the records of `python -m benchmarks.alarms grid`, for
comparison. Faults that change no mean (noisy) have no filter, and are left out, as are those without an amplitude.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from benchmarks.alarms import CALM_ROWS, CHANNELS, GRACE
from numpy.typing import NDArray
from scipy.signal import fftconvolve, lfilter

from patchad.datasets.backgrounds import BACKGROUNDS, WANDER, WANDER_TO_NOISE, simulate
from patchad.datasets.faults import DURATIONS, FAULT_KINDS, fault_grid

FloatArray = NDArray[np.float64]
PAUSE = 120
"""Rows up to which two excursions are one event, as for the default window."""
PROMISE = 1e-4
LENGTHS = {"": (1, 1500), ", one row": (1, 1), ", 10 to 30 rows": (10, 30), ", longer": (100, 1500)}
KINDS = ("level", "offset", "spike", "dip", "large", "drift")


def shapes() -> Iterator[FloatArray]:
    """Yield the shapes of all faults but those of the pattern."""
    for rows in DURATIONS:
        yield np.ones(rows)
        if rows >= FAULT_KINDS["drift"].shortest:
            yield np.arange(1, rows + 1) / rows
        if 1 < rows <= FAULT_KINDS["spike"].longest:
            yield np.sin(np.pi * (np.arange(rows) + 0.5) / rows)


def whitened(values: FloatArray, background: str) -> FloatArray:
    """Return what cannot be forecast of each row, with a variance of one where nothing is wrong."""
    if background != "wander":
        return values
    slow, noise = WANDER_TO_NOISE**2 * (1 - WANDER**2), 1.0
    # AR(1) and noise are an ARMA(1, 1): y[t] - a y[t-1] = e[t] - b e[t-1]
    half = (slow + noise * (1 + WANDER**2)) / (2 * WANDER * noise)
    b = half - np.sqrt(half**2 - 1)
    return np.asarray(lfilter([1.0, -WANDER], [1.0, -b], values, axis=0))


def furthest(values: FloatArray, pattern: FloatArray, background: str) -> FloatArray:
    """Return the largest size of all filters that end at a row, over all channels, `(time,)`."""
    white = whitened(values, background)
    found = np.zeros(len(values))
    for shape in shapes():
        flat = whitened(shape[:, None], background)[:, 0]
        filtered = fftconvolve(white, flat[::-1, None], axes=0)[: len(values)]
        found = np.maximum(found, np.abs(filtered).max(axis=1) / np.linalg.norm(flat))
    if pattern.any():
        for rows in DURATIONS:
            ones = np.ones((rows, 1))
            product, square = (fftconvolve(one, ones, axes=0)[: len(values)] for one in (white * pattern, pattern**2))
            found = np.maximum(found, np.abs(product / np.sqrt(np.maximum(square, 1e-9))).max(axis=1))
    return found


def known(background: str, channels: int, rows: int, stream: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return values of calm rows, their pattern as far as it repeats, and their deviation."""
    signal = simulate(background, rows, channels, 0, stream)
    repeats = background not in ("noise", "wander")
    pattern = signal.pattern if repeats else np.zeros_like(signal.pattern)
    return signal.values, signal.base + pattern, signal.deviation


def level(background: str, channels: int) -> float:
    """Return what is exceeded once in 10,000 calm rows."""
    values, expected, deviation = known(background, channels, CALM_ROWS, 1_000)
    pattern = (expected - expected.mean(0)) / deviation if background not in ("noise", "wander") else 0 * expected
    found = furthest((values - expected) / deviation, pattern, background)
    highest: list[float] = []
    while len(highest) <= PROMISE * len(found):
        row = int(found.argmax())
        highest.append(float(found[row]))
        found[max(row - PAUSE, 0) : row + PAUSE + 1] = 0
    return highest[-1]


def main() -> None:
    """Print how many faults could be found, and how many were."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, help="records of the grid")
    records = [json.loads(line) for line in parser.parse_args().records.read_text().splitlines()]
    measured = {(r["background"], r["channels"], r["kind"], r["rows"], r["amplitude"]): r["found"] for r in records}
    could: list[tuple[float, bool, bool, int]] = []
    for background in BACKGROUNDS:
        for channels in CHANNELS:
            limit = level(background, channels)
            for number, series in enumerate(
                (one for one in fault_grid(channels=(channels,)) if one.background == background), start=1
            ):
                _, expected, deviation = known(background, channels, len(series.test), number)
                flat = background in ("noise", "wander")
                pattern = 0 * expected if flat else (expected - expected.mean(0)) / deviation
                found = furthest((series.test - expected) / deviation, pattern, background)
                for fault in series.faults:
                    if fault.kind in KINDS and fault.amplitude:
                        hit = bool(found[fault.start : fault.stop + GRACE].max() > limit)
                        rows = fault.stop - fault.start
                        ours = measured[background, channels, fault.kind, rows, fault.amplitude]
                        could.append((fault.amplitude, hit, ours, rows))
            print(f"{background}, {channels} channels: {limit:.2f} deviations", flush=True)
    print("\n| faults | could be found | were found | of |\n| --- | ---: | ---: | ---: |")
    for amplitude in (8.0, 4.0):
        for title, (least, most) in LENGTHS.items():
            own = [one for one in could if one[0] == amplitude and least <= one[3] <= most]
            cells = (sum(one[1] for one in own), sum(one[2] for one in own), len(own))
            print(f"| of {amplitude:g} deviations{title} | {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
