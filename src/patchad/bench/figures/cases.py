"""Real entities: what came in, what the net reconstructs, its scores; and where its views put the rows."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors

from patchad import metrics
from patchad.bench.figures.drawing import COLOURS, INK, panels, shade
from patchad.bench.figures.nets import light_net, look, paper_net
from patchad.bench.figures.plan import Frame, LackingError, Options
from patchad.data.table import BoolArray, FloatArray
from patchad.datasets.entity import Entity
from patchad.datasets.loading import load
from patchad.detectors.patchad import PatchAD
from patchad.errors import InputError, listed
from patchad.model.net import ScaleOutput
from patchad.results.detection import alarm_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

CASES = (("SKAB", "valve1_1"), ("ASD", "omi-2"))
"""A rig of pumps and valves, and a server; the paper's SWaT and WADI are given out on request only."""
MAPPED = CASES[1]
NETS = {"paper": "the paper's equations", "agreement": "trained to agree", "fused": "agreeing, with residual"}
IntArray = NDArray[np.int_]
NEIGHBOURS = 5
"""Rows of train that a row is held against in a view."""


@cache
def entity_of(dataset: str, name: str, root: Path) -> Entity:
    """Find an entity in the folder of the data; `LackingError` says what is not there."""
    try:
        entities = {entity.name: entity for entity in load(dataset, root)}
    except InputError as error:
        raise LackingError(f"it needs {dataset}: {error}") from None
    if name not in entities:
        raise LackingError(f"it needs {name!r} of {dataset}; in {str(root)!r} are only {listed(tuple(entities))}")
    return entities[name]


@cache
def _fitted(dataset: str, name: str, root: Path, which: str, quick: bool) -> PatchAD:
    objective = "adversarial" if which == "paper" else "agreement"
    detector = light_net(400, 0, quick) if which == "fused" else paper_net(100, 0, quick, objective=objective)
    return detector.fit(entity_of(dataset, name, root).train)


def tiles(length: int, window: int) -> IntArray:
    """Give the first rows of windows that cover all rows, side by side; the last one ends with the last row.

    Examples
    --------
    >>> tiles(10, 4).tolist()
    [0, 4, 6]
    """
    starts = np.arange(0, length - window + 1, window)
    return starts if starts[-1] + window == length else np.append(starts, length - window)


def _over_rows(detector: PatchAD, values: FloatArray) -> list[tuple[tuple[ScaleOutput, ...], IntArray]]:
    """Run the net on windows side by side, a few at a time; give what it says with the first row of each."""
    starts = tiles(len(values), detector.window_)
    parts = [starts[i : i + 16] for i in range(0, len(starts), 16)]
    return [(look(detector, np.stack([values[s : s + detector.window_] for s in part])), part) for part in parts]


def reconstruction(detector: PatchAD, values: FloatArray) -> FloatArray:
    """Give `(time, channel)` as the net reconstructs it, in the units of the series."""
    found = np.empty_like(values)
    for outputs, starts in _over_rows(detector, values):
        said = np.mean([out.reconstruction.cpu().numpy() for out in outputs], axis=0)
        for start, window in zip(starts, said, strict=True):
            found[start : start + detector.window_] = window
    return found * detector.scaler_.spread + detector.scaler_.mean


def studies(options: Options) -> Frame:
    """Give input and reconstruction of one channel, and the scores, of each entity.

    The channel is the one that is blamed most in the labelled rows.
    """
    parts = []
    for dataset, name in CASES:
        entity = entity_of(dataset, name, options.data)
        fitted = {which: _fitted(dataset, name, options.data, which, options.quick) for which in NETS}
        blame = np.asarray(fitted["fused"].explain(entity.test))
        channel = int(blame[entity.labels].sum(axis=0).argmax())
        columns = {"entity": f"{dataset} {name}", "channel": channel, "row": np.arange(len(entity.test))}
        columns |= {"label": entity.labels.astype(int), "value": entity.test[:, channel]}
        columns["reconstruction"] = reconstruction(fitted["fused"], entity.test)[:, channel]
        for which, detector in fitted.items():
            scores = np.asarray(detector.set_threshold("ratio:1").decision_function(entity.test), dtype=np.float64)
            columns |= {which: scores, f"{which}_level": detector.threshold_.levels(scores)}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def events_found(part: Frame, which: str) -> tuple[int, int]:
    """Count the labelled events of one entity that the alarms of one score meet, and all of them."""
    alarms = (part[which] > part[f"{which}_level"]).to_numpy()
    runs = alarm_runs(part["label"].to_numpy(dtype=bool))
    return sum(bool(alarms[start:stop].any()) for start, stop in runs), len(runs)


def draw_studies(table: Frame) -> Canvas:
    """Draw each entity in a column: input and reconstruction, then the scores with their levels."""
    canvas, axes = panels(1 + len(NETS), len(CASES), width=5.2, height=1.4, sharex="col")
    for column, (name, part) in enumerate(table.groupby("entity", sort=False)):
        top = axes[0, column]
        top.plot(part["row"], part["value"], color=INK, linewidth=0.6, label="input")
        top.plot(part["row"], part["reconstruction"], color=COLOURS[1], linewidth=0.6, label="reconstruction")
        top.set_title(f"{name}, channel {part['channel'].iloc[0]}")
        for row, (which, title) in enumerate(NETS.items(), 1):
            ax = axes[row, column]
            ax.plot(part["row"], part[which], color=COLOURS[0], linewidth=0.6)
            ax.plot(part["row"], part[f"{which}_level"], color=INK, linestyle=":", linewidth=0.8)
            found, events = events_found(part, which)
            auc = metrics.roc_auc(labels=part["label"].to_numpy(dtype=bool), scores=part[which].to_numpy(dtype=float))
            ax.set_title(f"{title}: {found} of {events} events, ROC-AUC {auc:.2f}")
            axes[row, 0].set_ylabel("score")
        for ax in axes[:, column]:
            shade(ax, part["label"])
        axes[-1, column].set_xlabel("row")
    axes[0, 0].set_ylabel("value")
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return canvas


# -- the latent views ------------------------------------------------------------------------------------------------


def row_features(detector: PatchAD, values: FloatArray) -> dict[str, FloatArray]:
    """Give every row as the net sees it: its z-scored channels, its place in the inter view, and in the intra view.

    Row t of a window lies in patch t // P at position t % P. Scales are put side by side, channels averaged.
    """
    window = detector.window_
    found: dict[str, FloatArray] = {"input": np.asarray(detector.scaler_(values))}
    for name in ("inter", "intra"):
        table = np.empty((len(values), detector.d_model * len(detector.patch_sizes_)))
        for outputs, starts in _over_rows(detector, values):
            spread = [_by_row(getattr(out, name).mean(0).cpu().numpy(), name, window) for out in outputs]
            said = np.concatenate(spread, axis=-1)  # b t d
            for start, rows in zip(starts, said, strict=True):
                table[start : start + window] = rows
        found[name] = table
    return found


def _by_row(view: FloatArray, name: str, window: int) -> FloatArray:
    """Turn `(n or p, b, d)` into `(b, t, d)`."""
    places = view.shape[0]
    step = np.arange(window)
    index = step // (window // places) if name == "inter" else step % places
    return np.asarray(view[index].swapaxes(0, 1))


def latent(options: Options) -> Frame:
    """Give a map of rows by t-SNE in each view, and how far each row is from those of train."""
    dataset, name = MAPPED
    entity = entity_of(dataset, name, options.data)
    chosen = _chosen(entity.labels, options.amount(300, 30))
    parts = []
    for which in ("paper", "agreement"):
        detector = _fitted(dataset, name, options.data, which, options.quick)
        known, seen = row_features(detector, entity.train), row_features(detector, entity.test)
        for view, features in seen.items():
            base = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(known[view][:: options.amount(2, 20)])
            far = base.kneighbors(features)[0].mean(axis=1)
            places = TSNE(perplexity=options.amount(30, 5), init="pca", random_state=0).fit_transform(features[chosen])
            auc = metrics.roc_auc(labels=entity.labels, scores=far)
            columns: dict[str, Any] = {
                "objective": detector.objective,
                "view": view,
                "row": chosen,
                "label": entity.labels[chosen].astype(int),
            }
            columns |= {"x": places[:, 0], "y": places[:, 1], "distance_to_train": far[chosen], "roc_auc": auc}
            parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def _chosen(labels: BoolArray, most: int) -> IntArray:
    """Take rows evenly, at most so many of each label."""
    kinds = [np.flatnonzero(labels == kind) for kind in (False, True)]
    return np.concatenate([rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int)] for rows in kinds])


def draw_latent(table: Frame) -> Canvas:
    """Draw the maps, labelled rows in another colour and shape."""
    rows, columns = list(dict.fromkeys(table["objective"])), list(dict.fromkeys(table["view"]))
    canvas, axes = panels(len(rows), len(columns), width=3, height=2.6)
    for (objective, view), part in table.groupby(["objective", "view"], sort=False):
        ax = axes[rows.index(objective), columns.index(view)]
        for label, sign, name in ((0, "o", "normal"), (1, "^", "labelled")):
            some = part[part["label"] == label]
            ax.plot(some["x"], some["y"], sign, color=COLOURS[label], markersize=2.5, alpha=0.6, label=name)
        ax.set_title(f"{view}, {objective}: ROC-AUC {part['roc_auc'].iloc[0]:.2f}")
        ax.set_xticks([])
        ax.set_yticks([])
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return canvas
