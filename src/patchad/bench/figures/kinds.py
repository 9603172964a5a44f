"""Five kinds of anomaly in one channel, scored by PatchAD and by other methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from patchad import metrics
from patchad.bench.figures.base import FigureOptions, Frame
from patchad.bench.figures.drawing import COLOURS, INK, panels, shade
from patchad.bench.figures.nets import ROWS, light_net, paper_net
from patchad.data.table import FloatArray
from patchad.datasets.entity import Entity
from patchad.datasets.synthetic import KINDS, one_channel
from patchad.detectors.base import Detector
from patchad.detectors.registry import make
from patchad.results.detection import alarm_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

STEPS = 200
SEEDS = 5
SCORERS: Mapping[str, Callable[[int, bool], Detector]] = {
    "paper": lambda seed, quick: paper_net(STEPS, seed, quick),
    "agreement": lambda seed, quick: paper_net(STEPS, seed, quick, objective="agreement"),
    "fused": lambda seed, quick: light_net(STEPS, seed, quick),
    "tcn_ed": lambda seed, quick: make("tcn_ed", max_steps=3 if quick else STEPS, random_state=seed),
    "timesnet": lambda seed, quick: make("timesnet", max_steps=3 if quick else STEPS, random_state=seed),
}
"""Detectors by name, made from a seed and the option `quick`.

`paper`: its net, objective and settings, with the orientation that the objective trains; `agreement`: the same net
trained to make the views agree; `fused`: a lighter net whose score adds the residual.
"""
OURS = ("paper", "agreement", "fused")
TITLES = {
    "paper": "PatchAD, the paper's\nequations",
    "agreement": "PatchAD, trained\nto agree",
    "fused": "PatchAD, agreeing,\nwith residual",
    "tcn_ed": "TCN-ED",
    "timesnet": "TimesNet",
}
OTHERS = (("contextual point", "tcn_ed"), ("seasonal", "tcn_ed"), ("group", "timesnet"))
"""Kinds and other methods that the paper's appendix shows."""


@cache
def scored(kind: str, name: str, seed: int, quick: bool) -> tuple[Entity, FloatArray, float]:
    """Fit a scorer to the train half of a simulated series; return the series, the test scores and the level.

    The level is the paper's: the 99th percentile of train and test scores. The seed is that of data and net.
    """
    entity = one_channel(kind, rows=ROWS, seed=seed)
    detector = SCORERS[name](seed, quick).fit(entity.train).set_threshold("ratio:1")
    scores = np.asarray(detector.decision_function(entity.test), dtype=np.float64)
    return entity, scores, float(detector.threshold_.levels(scores)[0])


def curves(options: FigureOptions) -> Frame:
    """Compute values, labels, scores and levels of one series of each kind."""
    frames = []
    for kind in KINDS:
        found = {name: scored(kind, name, 0, options.quick) for name in OURS}
        entity = found[OURS[0]][0]
        columns: dict[str, Any] = {"kind": kind, "row": np.arange(ROWS)}
        columns |= {"value": entity.test[:, 0], "label": entity.labels.astype(int)}
        for name, (_, scores, level) in found.items():
            columns |= {name: scores, f"{name}_level": level}
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)


def draw_curves(frame: Frame) -> Canvas:
    """Draw each kind in a column: the series, then the score of each scorer with its level."""
    canvas, axes = panels(1 + len(OURS), len(KINDS), width=2.7, height=1.25, sharex=True)
    for column, (kind, subset) in enumerate(frame.groupby("kind", sort=False)):
        axes[0, column].set_title(kind)
        axes[0, column].plot(subset["row"], subset["value"], color=INK, linewidth=0.6)
        for row, name in enumerate(OURS, 1):
            axes[row, column].plot(subset["row"], subset[name], color=COLOURS[row - 1], linewidth=0.8)
            axes[row, column].axhline(subset[f"{name}_level"].iloc[0], color=INK, linestyle=":", linewidth=0.8)
        for ax in axes[:, column]:
            shade(ax, subset["label"])
        axes[-1, column].set_xlabel("row")
    axes[0, 0].set_ylabel("value")
    for row, name in enumerate(OURS, 1):
        axes[row, 0].set_ylabel(TITLES[name], fontsize=7)
    return canvas


def quality(options: FigureOptions) -> Frame:
    """Judge each scorer for every seed: PatchAD on all kinds, the others on those of the appendix."""
    rows = []
    for kind in KINDS:
        for name in (*OURS, *(other for shown, other in OTHERS if shown == kind)):
            for seed in range(options.pick(SEEDS, 1)):
                entity, scores, level = scored(kind, name, seed, options.quick)
                alarms, runs = scores > level, alarm_runs(entity.labels)
                row = {"kind": kind, "scorer": name, "seed": seed}
                row["roc_auc"] = metrics.roc_auc(labels=entity.labels, scores=scores)
                row["events"] = len(runs)
                row["events_found"] = sum(bool(alarms[start:stop].any()) for start, stop in runs)
                row["false_alarm_share"] = float(alarms[~entity.labels].mean())
                rows.append(row)
    return pd.DataFrame(rows)


def draw_quality(frame: Frame) -> Canvas:
    """Draw ROC-AUC and events found, one dot per seed."""
    canvas, axes = panels(2, 1, width=8, height=2.3, sharex=True)
    kinds = list(dict.fromkeys(frame["kind"]))
    frame = frame.assign(found=frame["events_found"] / frame["events"])
    for ax, (column, title) in zip(
        axes[:, 0], (("roc_auc", "ROC-AUC"), ("found", "share of events found")), strict=True
    ):
        for number, name in enumerate(SCORERS):
            subset = frame[frame["scorer"] == name]
            x = subset["kind"].map(kinds.index) + 0.15 * (number - 2) + 0.012 * (subset["seed"] - 2)
            ax.plot(
                x,
                subset[column],
                "osD^v"[number],
                color=COLOURS[number],
                markersize=3.5,
                label=TITLES[name].replace("\n", " "),
            )
        ax.set_xticks(range(len(kinds)), kinds)
        ax.set(ylabel=title, ylim=(-0.05, 1.05))
    axes[0, 0].axhline(0.5, color=INK, linestyle=":", linewidth=0.8)
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SCORERS))
    return canvas


def others(options: FigureOptions) -> Frame:
    """Compute the scores of the appendix's methods on its kinds, for every seed."""
    frames = []
    for kind, name in OTHERS:
        for seed in range(options.pick(SEEDS, 1)):
            entity, scores, level = scored(kind, name, seed, options.quick)
            columns = {"kind": kind, "scorer": name, "seed": seed, "row": np.arange(ROWS)}
            columns |= {"value": entity.test[:, 0], "label": entity.labels.astype(int), "score": scores, "level": level}
            frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)


def draw_others(frame: Frame) -> Canvas:
    """Draw each kind in a column: the series of the first seed, then the score for every seed."""
    seeds = sorted(set(frame["seed"]))
    canvas, axes = panels(1 + len(seeds), len(OTHERS), width=3.6, height=1.05, sharex=True)
    for column, (kind, name) in enumerate(OTHERS):
        subset = frame[(frame["kind"] == kind) & (frame["scorer"] == name)]
        first = subset[subset["seed"] == seeds[0]]
        axes[0, column].set_title(f"{kind}: {TITLES[name]}")
        axes[0, column].plot(first["row"], first["value"], color=INK, linewidth=0.6)
        shade(axes[0, column], first["label"])
        for row, seed in enumerate(seeds, 1):
            one = subset[subset["seed"] == seed]
            axes[row, column].plot(one["row"], one["score"], color=COLOURS[0], linewidth=0.8)
            axes[row, column].axhline(one["level"].iloc[0], color=INK, linestyle=":", linewidth=0.8)
            shade(axes[row, column], one["label"])
            axes[row, 0].set_ylabel(f"score, seed {seed}", fontsize=7)
        axes[-1, column].set_xlabel("row")
    axes[0, 0].set_ylabel(f"value, seed {seeds[0]}", fontsize=7)
    return canvas
