"""What each view adds to the reconstruction: "Rec 1" of the inter mixer and "Rec 2" of the intra mixer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from patchad.bench.figures.base import FigureOptions, Frame
from patchad.bench.figures.drawing import COLOURS, INK, panels, shade, sizes_text
from patchad.bench.figures.entropy import SEEDS, trained
from patchad.bench.figures.nets import CASE_PATCHES, OBJECTIVES, PATCH_SETS, ROWS, WINDOW, halves
from patchad.data.table import FloatArray
from patchad.data.windows import views
from patchad.datasets.synthetic import one_channel
from patchad.results.detection import alarm_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

CASES: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("case 1", "trend", CASE_PATCHES),
    ("case 2", "trend", (1,)),
    ("case 3", "seasonal", (1,)),
    ("case 4", "group", (1,)),
    ("case 5", "contextual point", (1,)),
)
"""The paper's five cases: patch sizes 1, 2, 5 in the first, 1 in the others. The paper does not describe its series;
these are simulated, and the first two cases share one, as in the paper."""
DETAIL = 10
"""Shorter periods, in rows, count as detail. The wave of the series has a period of 25."""
LINES = {"original": INK, "rec_1": COLOURS[1], "rec_2": COLOURS[0]}
NAMES = {"original": "original", "rec_1": "Rec 1 (inter)", "rec_2": "Rec 2 (intra)"}


def _one_window(case: str, kind: str, sizes: tuple[int, ...], quick: bool) -> Frame:
    """Return the original and both halves of the test window centred on the first anomaly."""
    entity = one_channel(kind, rows=ROWS, seed=0)
    detector, _ = trained(kind, sizes, "adversarial", 0, quick)
    start, stop = alarm_runs(entity.labels)[0]
    first = min(max((start + stop) // 2 - WINDOW // 2, 0), ROWS - WINDOW)
    rows = slice(first, first + WINDOW)
    window = entity.test[rows][None]
    inter, intra = halves(detector, window)
    return pd.DataFrame(
        {
            "case": case,
            "kind": kind,
            "patch_sizes": sizes_text(sizes),
            "row": np.arange(WINDOW),
            "label": entity.labels[rows].astype(int),
            "original": detector.scaler_(window)[0, :, 0],
            "rec_1": inter[0, :, 0],
            "rec_2": intra[0, :, 0],
        }
    )


def cases(options: FigureOptions) -> Frame:
    """Compute the paper's five cases."""
    frames = [_one_window(case, kind, sizes, options.quick) for case, kind, sizes in CASES]
    return pd.concat(frames, ignore_index=True)


def patch_sets(options: FigureOptions) -> Frame:
    """Compute the first case for other patch sizes."""
    frames = [_one_window(f"patches {sizes_text(sizes)}", "trend", sizes, options.quick) for sizes in PATCH_SETS]
    return pd.concat(frames, ignore_index=True)


def draw_windows(frame: Frame) -> Canvas:
    """Draw each case in a column: the original, then the two halves."""
    names = list(dict.fromkeys(frame["case"]))
    canvas, axes = panels(len(LINES), len(names), width=2.4, height=1.3, sharex=True)
    for column, name in enumerate(names):
        subset = frame[frame["case"] == name]
        heading = f"{name}: {subset['kind'].iloc[0]}\npatches {subset['patch_sizes'].iloc[0]}"
        axes[0, column].set_title(heading if "patches" not in name else name)
        for row, (line, colour) in enumerate(LINES.items()):
            axes[row, column].plot(subset["row"], subset[line], color=colour)
            shade(axes[row, column], subset["label"])
            axes[row, 0].set_ylabel(NAMES[line])
        axes[-1, column].set_xlabel("row of the window")
    return canvas


def detail_share(windows: FloatArray) -> float:
    """Return the share of the variance of `(b, t)` windows at periods under `DETAIL` rows.

    Examples
    --------
    >>> t = np.arange(100)[None]
    >>> slow, fast = np.sin(2 * np.pi * t / 25), np.sin(2 * np.pi * t / 5)
    >>> round(detail_share(slow), 6), round(detail_share(fast), 6), round(detail_share(slow + fast), 6)
    (0.0, 1.0, 0.5)
    """
    power = np.abs(np.fft.rfft(windows - windows.mean(axis=1, keepdims=True), axis=1)) ** 2
    fast = np.fft.rfftfreq(windows.shape[1]) > 1 / DETAIL
    return float(power[:, fast].sum() / power.sum())


def detail(options: FigureOptions) -> Frame:
    """Measure the detail of original and halves over the test windows of the first case."""
    rows = []
    for objective in OBJECTIVES:
        for sizes in options.pick(PATCH_SETS, PATCH_SETS[:2]):
            for seed in range(options.pick(SEEDS, 1)):
                detector, _ = trained("trend", sizes, objective, seed, options.quick)
                windows = views(one_channel("trend", rows=ROWS, seed=seed).test, WINDOW)[::10]
                inter, intra = halves(detector, windows)
                found = {"original": detector.scaler_(windows), "rec_1": inter, "rec_2": intra}
                for name, values in found.items():
                    row = {"objective": objective, "patch_sizes": sizes_text(sizes), "seed": seed, "curve": name}
                    flat = values[..., 0]
                    row |= {"detail_share": detail_share(flat), "variance": float(flat.var())}
                    row["correlation"] = float(np.corrcoef(flat.ravel(), found["original"].ravel())[0, 1])
                    rows.append(row)
    return pd.DataFrame(rows)


def draw_detail(frame: Frame) -> Canvas:
    """Draw the detail of the halves and their correlation with the original for each patch set, one dot per seed."""
    canvas, axes = panels(2, len(OBJECTIVES), width=4.2, height=2.2, sharex=True, sharey="row")
    sets = list(dict.fromkeys(frame["patch_sizes"]))
    shown = (
        ("detail_share", f"share of variance at\nperiods under {DETAIL} rows"),
        ("correlation", "correlation with\nthe original"),
    )
    for column, objective in enumerate(OBJECTIVES):
        axes[0, column].set_title(f"objective: {objective}")
        for row, (value, title) in enumerate(shown):
            for number, (line, colour) in enumerate(LINES.items()):
                subset = frame[(frame["objective"] == objective) & (frame["curve"] == line)]
                if value == "correlation" and line == "original":
                    continue
                x = subset["patch_sizes"].map(sets.index) + 0.18 * (number - 1)
                axes[row, column].plot(x, subset[value], "osD"[number], color=colour, markersize=4, label=NAMES[line])
            axes[row, column].set_xticks(range(len(sets)), sets)
            axes[row, 0].set_ylabel(title)
        axes[-1, column].set_xlabel("patch sizes")
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return canvas
