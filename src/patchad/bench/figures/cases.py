"""Real entities: input, reconstruction and scores; and the rows in the latent space of the views."""

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
from patchad.bench.figures.base import FigureOptions, Frame, MissingSourceError
from patchad.bench.figures.drawing import COLOURS, INK, panels, shade
from patchad.bench.figures.nets import light_net, paper_net, run_net
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
"""A rig of pumps and valves, and a server; the paper's SWaT and WADI are available only on request."""
MAPPED = CASES[1]
NETS = {"paper": "the paper's equations", "agreement": "trained to agree", "fused": "agreeing, with residual"}
IntArray = NDArray[np.int_]
NEIGHBOURS = 5
"""Nearest rows of train that a row is compared with in a view."""


@cache
def find_entity(dataset: str, name: str, root: Path) -> Entity:
    """Load an entity; `MissingSourceError` says what is missing."""
    try:
        entities = {entity.name: entity for entity in load(dataset, root)}
    except InputError as error:
        raise MissingSourceError(f"it needs {dataset}: {error}") from None
    if name not in entities:
        raise MissingSourceError(f"it needs {name!r} of {dataset}; in {str(root)!r} are only {listed(tuple(entities))}")
    return entities[name]


@cache
def _fitted(dataset: str, name: str, root: Path, which: str, quick: bool) -> PatchAD:
    objective = "adversarial" if which == "paper" else "agreement"
    detector = light_net(400, 0, quick) if which == "fused" else paper_net(100, 0, quick, objective=objective)
    return detector.fit(find_entity(dataset, name, root).train)


def tiles(length: int, window: int) -> IntArray:
    """Return the first rows of adjacent windows that cover all rows; the last one ends with the last row.

    Examples
    --------
    >>> tiles(10, 4).tolist()
    [0, 4, 6]
    """
    starts = np.arange(0, length - window + 1, window)
    return starts if starts[-1] + window == length else np.append(starts, length - window)


def _over_rows(detector: PatchAD, values: FloatArray) -> list[tuple[tuple[ScaleOutput, ...], IntArray]]:
    """Run the net on adjacent windows, a few at a time; return its outputs with the first row of each window."""
    starts = tiles(len(values), detector.window_)
    batches = [starts[i : i + 16] for i in range(0, len(starts), 16)]
    return [
        (run_net(detector, np.stack([values[s : s + detector.window_] for s in batch])), batch) for batch in batches
    ]


def reconstruction(detector: PatchAD, values: FloatArray) -> FloatArray:
    """Return the net's reconstruction, `(time, channel)`, in the units of the series."""
    found = np.empty_like(values)
    for outputs, starts in _over_rows(detector, values):
        mean = np.mean([out.reconstruction.cpu().numpy() for out in outputs], axis=0)
        for start, window in zip(starts, mean, strict=True):
            found[start : start + detector.window_] = window
    return found * detector.scaler_.spread + detector.scaler_.mean


def studies(options: FigureOptions) -> Frame:
    """Compute input and reconstruction of one channel, and the scores, of each entity.

    The channel is the one with the largest attribution in the labelled rows.
    """
    frames = []
    for dataset, name in CASES:
        entity = find_entity(dataset, name, options.data)
        fitted = {which: _fitted(dataset, name, options.data, which, options.quick) for which in NETS}
        attribution = np.asarray(fitted["fused"].explain(entity.test))
        channel = int(attribution[entity.labels].sum(axis=0).argmax())
        columns = {"entity": f"{dataset} {name}", "channel": channel, "row": np.arange(len(entity.test))}
        columns |= {"label": entity.labels.astype(int), "value": entity.test[:, channel]}
        columns["reconstruction"] = reconstruction(fitted["fused"], entity.test)[:, channel]
        for which, detector in fitted.items():
            scores = np.asarray(detector.set_threshold("ratio:1").decision_function(entity.test), dtype=np.float64)
            columns |= {which: scores, f"{which}_level": detector.threshold_.levels(scores)}
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)


def events_found(subset: Frame, which: str) -> tuple[int, int]:
    """Count the labelled events of one entity that the alarms of one score overlap, and all labelled events."""
    alarms = (subset[which] > subset[f"{which}_level"]).to_numpy()
    runs = alarm_runs(subset["label"].to_numpy(dtype=bool))
    return sum(bool(alarms[start:stop].any()) for start, stop in runs), len(runs)


def draw_studies(frame: Frame) -> Canvas:
    """Draw each entity in a column: input and reconstruction, then the scores with their levels."""
    canvas, axes = panels(1 + len(NETS), len(CASES), width=5.2, height=1.4, sharex="col")
    for column, (name, subset) in enumerate(frame.groupby("entity", sort=False)):
        top = axes[0, column]
        top.plot(subset["row"], subset["value"], color=INK, linewidth=0.6, label="input")
        top.plot(subset["row"], subset["reconstruction"], color=COLOURS[1], linewidth=0.6, label="reconstruction")
        top.set_title(f"{name}, channel {subset['channel'].iloc[0]}")
        for row, (which, title) in enumerate(NETS.items(), 1):
            ax = axes[row, column]
            ax.plot(subset["row"], subset[which], color=COLOURS[0], linewidth=0.6)
            ax.plot(subset["row"], subset[f"{which}_level"], color=INK, linestyle=":", linewidth=0.8)
            found, events = events_found(subset, which)
            auc = metrics.roc_auc(
                labels=subset["label"].to_numpy(dtype=bool), scores=subset[which].to_numpy(dtype=float)
            )
            ax.set_title(f"{title}: {found} of {events} events, ROC-AUC {auc:.2f}")
            axes[row, 0].set_ylabel("score")
        for ax in axes[:, column]:
            shade(ax, subset["label"])
        axes[-1, column].set_xlabel("row")
    axes[0, 0].set_ylabel("value")
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return canvas


# -- the latent views ------------------------------------------------------------------------------------------------


def row_features(detector: PatchAD, values: FloatArray) -> dict[str, FloatArray]:
    """Return the features of every row: its z-scored channels, and those of the inter and of the intra view.

    Row t of a window lies in patch t // P at position t % P. Scales are concatenated, channels averaged.
    """
    window = detector.window_
    found: dict[str, FloatArray] = {"input": np.asarray(detector.scaler_(values))}
    for name in ("inter", "intra"):
        features = np.empty((len(values), detector.d_model * len(detector.patch_sizes_)))
        for outputs, starts in _over_rows(detector, values):
            by_scale = [_by_row(getattr(out, name).mean(0).cpu().numpy(), name, window) for out in outputs]
            for start, rows in zip(starts, np.concatenate(by_scale, axis=-1), strict=True):  # b t d
                features[start : start + window] = rows
        found[name] = features
    return found


def _by_row(view: FloatArray, name: str, window: int) -> FloatArray:
    """Turn `(n or p, b, d)` into `(b, t, d)`."""
    positions = view.shape[0]
    step = np.arange(window)
    index = step // (window // positions) if name == "inter" else step % positions
    return np.asarray(view[index].swapaxes(0, 1))


def latent(options: FigureOptions) -> Frame:
    """Compute a t-SNE map of rows in each view, and the distance of each row to those of train."""
    dataset, name = MAPPED
    entity = find_entity(dataset, name, options.data)
    chosen = _chosen(entity.labels, options.pick(300, 30))
    frames = []
    for which in ("paper", "agreement"):
        detector = _fitted(dataset, name, options.data, which, options.quick)
        known, seen = row_features(detector, entity.train), row_features(detector, entity.test)
        for view, features in seen.items():
            base = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(known[view][:: options.pick(2, 20)])
            far = base.kneighbors(features)[0].mean(axis=1)
            points = TSNE(perplexity=options.pick(30, 5), init="pca", random_state=0).fit_transform(features[chosen])
            auc = metrics.roc_auc(labels=entity.labels, scores=far)
            columns: dict[str, Any] = {
                "objective": detector.objective,
                "view": view,
                "row": chosen,
                "label": entity.labels[chosen].astype(int),
            }
            columns |= {"x": points[:, 0], "y": points[:, 1], "distance_to_train": far[chosen], "roc_auc": auc}
            frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)


def _chosen(labels: BoolArray, most: int) -> IntArray:
    """Choose evenly spaced rows, at most this many of each label."""
    kinds = [np.flatnonzero(labels == kind) for kind in (False, True)]
    return np.concatenate([rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int)] for rows in kinds])


def draw_latent(frame: Frame) -> Canvas:
    """Draw the maps, labelled rows in another colour and shape."""
    rows, columns = list(dict.fromkeys(frame["objective"])), list(dict.fromkeys(frame["view"]))
    canvas, axes = panels(len(rows), len(columns), width=3, height=2.6)
    for (objective, view), subset in frame.groupby(["objective", "view"], sort=False):
        ax = axes[rows.index(objective), columns.index(view)]
        for label, sign, name in ((0, "o", "normal"), (1, "^", "labelled")):
            some = subset[subset["label"] == label]
            ax.plot(some["x"], some["y"], sign, color=COLOURS[label], markersize=2.5, alpha=0.6, label=name)
        ax.set_title(f"{view}, {objective}: ROC-AUC {subset['roc_auc'].iloc[0]:.2f}")
        ax.set_xticks([])
        ax.set_yticks([])
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return canvas
