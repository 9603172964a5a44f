"""What each view adds to the reconstruction: the features of the inter and intra mixers, "Rec 1" and "Rec 2"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from patchad.bench.figures.drawing import COLOURS, INK, panels, shade, text_of
from patchad.bench.figures.entropy import SEEDS, trained
from patchad.bench.figures.nets import CASE_PATCHES, OBJECTIVES, PATCH_SETS, ROWS, WINDOW, halves
from patchad.bench.figures.plan import Frame, Options
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
"""The paper's five: patch sizes 1, 2, 5 in the first, 1 in the others. It does not say what its series are; these are
simulated, and the first two share one, as there."""
DETAIL = 10
"""Rows: what has a shorter period is detail. The wave of the series has a period of 25."""
LINES = {"original": INK, "rec_1": COLOURS[1], "rec_2": COLOURS[0]}
NAMES = {"original": "original", "rec_1": "Rec 1 (inter)", "rec_2": "Rec 2 (intra)"}


def _one_window(case: str, kind: str, sizes: tuple[int, ...], quick: bool) -> Frame:
    """Give original and both halves of the window of test that has the first anomaly in its middle."""
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
            "patch_sizes": text_of(sizes),
            "row": np.arange(WINDOW),
            "label": entity.labels[rows].astype(int),
            "original": detector.scaler_(window)[0, :, 0],
            "rec_1": inter[0, :, 0],
            "rec_2": intra[0, :, 0],
        }
    )


def cases(options: Options) -> Frame:
    """Give the paper's five cases."""
    parts = [_one_window(case, kind, sizes, options.quick) for case, kind, sizes in CASES]
    return pd.concat(parts, ignore_index=True)


def patch_sets(options: Options) -> Frame:
    """Give the first case for other patch sizes."""
    parts = [_one_window(f"patches {text_of(sizes)}", "trend", sizes, options.quick) for sizes in PATCH_SETS]
    return pd.concat(parts, ignore_index=True)


def draw_windows(table: Frame) -> Canvas:
    """Draw each case in a column: the original above, the two halves under it."""
    names = list(dict.fromkeys(table["case"]))
    canvas, axes = panels(len(LINES), len(names), width=2.4, height=1.3, sharex=True)
    for column, name in enumerate(names):
        part = table[table["case"] == name]
        heading = f"{name}: {part['kind'].iloc[0]}\npatches {part['patch_sizes'].iloc[0]}"
        axes[0, column].set_title(heading if "patches" not in name else name)
        for row, (line, colour) in enumerate(LINES.items()):
            axes[row, column].plot(part["row"], part[line], color=colour)
            shade(axes[row, column], part["label"])
            axes[row, 0].set_ylabel(NAMES[line])
        axes[-1, column].set_xlabel("row of the window")
    return canvas


def detail_share(windows: FloatArray) -> float:
    """Give the share of the variance of `(b, t)` windows that has periods under `DETAIL` rows.

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


def detail(options: Options) -> Frame:
    """Give how much detail original and halves have, over test windows of the first case."""
    rows = []
    for objective in OBJECTIVES:
        for sizes in options.amount(PATCH_SETS, PATCH_SETS[:2]):
            for seed in range(options.amount(SEEDS, 1)):
                detector, _ = trained("trend", sizes, objective, seed, options.quick)
                windows = views(one_channel("trend", rows=ROWS, seed=seed).test, WINDOW)[::10]
                inter, intra = halves(detector, windows)
                found = {"original": detector.scaler_(windows), "rec_1": inter, "rec_2": intra}
                for name, values in found.items():
                    row = {"objective": objective, "patch_sizes": text_of(sizes), "seed": seed, "curve": name}
                    flat = values[..., 0]
                    row |= {"detail_share": detail_share(flat), "variance": float(flat.var())}
                    row["correlation"] = float(np.corrcoef(flat.ravel(), found["original"].ravel())[0, 1])
                    rows.append(row)
    return pd.DataFrame(rows)


def draw_detail(table: Frame) -> Canvas:
    """Draw detail and size of the halves for every set of patch sizes, a dot a seed."""
    canvas, axes = panels(2, len(OBJECTIVES), width=4.2, height=2.2, sharex=True, sharey="row")
    sets = list(dict.fromkeys(table["patch_sizes"]))
    shown = (
        ("detail_share", f"share of variance at\nperiods under {DETAIL} rows"),
        ("correlation", "correlation with\nthe original"),
    )
    for column, objective in enumerate(OBJECTIVES):
        axes[0, column].set_title(f"objective: {objective}")
        for row, (value, title) in enumerate(shown):
            for number, (line, colour) in enumerate(LINES.items()):
                part = table[(table["objective"] == objective) & (table["curve"] == line)]
                if value == "correlation" and line == "original":
                    continue
                x = part["patch_sizes"].map(sets.index) + 0.18 * (number - 1)
                axes[row, column].plot(x, part[value], "osD"[number], color=colour, markersize=4, label=NAMES[line])
            axes[row, column].set_xticks(range(len(sets)), sets)
            axes[row, 0].set_ylabel(title)
        axes[-1, column].set_xlabel("patch sizes")
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return canvas
