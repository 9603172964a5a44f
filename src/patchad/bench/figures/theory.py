"""The paper's theory of entropy, compared with a simulation of its assumptions.

The theory takes normal points as N(0, s1) and anomalous ones as N(0, s2), with variances s2 > s1, and both mixers as
linear maps whose rows have mean zero and the same size, lambda. In a window of N patches with P points each, k patches
are anomalous, with m anomalous points each. Its formulas for the variance of the mixers' outputs are

    inter   lambda (s1 + k/N (s2 - s1))
    intra   lambda (s1 + m/P (s2 - s1)), in an anomalous patch

and the entropy is that of a Gaussian. The two count anomalies differently: in the first, all points of an anomalous
patch have the variance s2; in the second, m of P do. If the same m points are anomalous in both, the first becomes

    inter   lambda (s1 + k m / (N P) (s2 - s1))

which `formulas` returns as `inter_same_points`. It never exceeds the second, since k <= N.

"Var(W x + b) = |W|^2 Var(x)" with the Frobenius norm is the sum over all outputs. Here lambda is the squared norm of a
row, so that the formulas hold for one output; a mixer with more outputs has no more entropy in each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from scipy.stats import differential_entropy

from patchad.bench.figures.base import FigureOptions, Frame
from patchad.bench.figures.drawing import COLOURS, panels
from patchad.bench.figures.entropy import gaussian_entropy
from patchad.data.table import BoolArray, FloatArray
from patchad.model.net import ACTIVATIONS, Mixer

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

NORMAL, ANOMALOUS = 1.0, 9.0
"""Variances of a point."""
GAIN = 2.0
"""Squared norm of a row of the weights: the average of He's initialisation."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How a window is cut into patches, and how much of it is anomalous."""

    patches: int
    points: int
    """Points per patch."""
    anomalous_patches: int
    anomalous_points: int
    """Anomalous points per anomalous patch."""


EXAMPLE = (4, 32)
"""Number of patches and points per patch in the paper's example, a window of 128."""
SWEEPS: dict[str, tuple[Setting, ...]] = {
    "anomalous patches, 1 of 32 points in each": tuple(Setting(*EXAMPLE, k, min(k, 1)) for k in range(5)),
    "anomalous patches, all points in each": tuple(Setting(*EXAMPLE, k, 32 if k else 0) for k in range(5)),
    "anomalous points of one patch of four": tuple(
        Setting(*EXAMPLE, int(m > 0), m) for m in (0, 1, 2, 4, 8, 16, 24, 32)
    ),
    "anomalous points of every patch": tuple(Setting(*EXAMPLE, 4 if m else 0, m) for m in (0, 1, 2, 4, 8, 16, 24, 32)),
}
"""What is varied, one panel each."""


def formulas(setting: Setting) -> dict[str, float]:
    """Return the entropies by the paper's formulas, and that of the inter mixer for the same points.

    Examples
    --------
    >>> found = formulas(Setting(4, 32, 1, 1))
    >>> found["inter_paper"] > found["intra_paper"] > found["inter_same_points"]
    True
    """
    k, m = setting.anomalous_patches / setting.patches, setting.anomalous_points / setting.points
    shares = {"inter_paper": k, "intra_paper": m, "inter_same_points": k * m}
    return {name: gaussian_entropy(GAIN * (NORMAL + share * (ANOMALOUS - NORMAL))) for name, share in shares.items()}


def sample_windows(setting: Setting, windows: int, random: np.random.Generator) -> tuple[FloatArray, BoolArray]:
    """Sample windows, `(window, patch, point)`; return also which patches are anomalous, `(window, patch)`."""
    shape = (windows, setting.patches, setting.points)
    anomalous_patch = random.random(shape[:2]).argsort(axis=1) < setting.anomalous_patches
    anomalous_point = random.random(shape).argsort(axis=2) < setting.anomalous_points
    deviation = np.where(anomalous_patch[..., None] & anomalous_point, np.sqrt(ANOMALOUS), np.sqrt(NORMAL))
    return np.asarray(deviation * random.standard_normal(shape)), np.asarray(anomalous_patch)


def linear_mixer(size: int, random: np.random.Generator) -> FloatArray:
    """Return `(output, input)` weights with rows of mean zero and squared norm `GAIN`."""
    weights = random.standard_normal((size, size))
    weights -= weights.mean(axis=1, keepdims=True)
    return np.asarray(weights * np.sqrt(GAIN / (weights**2).sum(axis=1, keepdims=True)))


def _net_mixer(columns: FloatArray) -> FloatArray:
    """Pass `(column, position)` through an untrained mixer of the net: norm, two layers, residual connection."""
    size = columns.shape[1]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        mixer, values = Mixer(size, round(1.2 * size)), torch.from_numpy(columns.astype(np.float32))
        found = mixer.narrow(ACTIVATIONS["gelu"]()(mixer.widen(mixer.norm(values)))) + values
    return np.asarray(found.numpy(), dtype=np.float64)


def simulate_entropies(setting: Setting, windows: int, seed: int) -> dict[str, float]:
    """Estimate the entropies of the mixers' outputs from samples, without assuming a distribution.

    `intra` is that of the anomalous patches, as in the paper's formula, or of all patches if none is anomalous;
    `intra_all` is that of all patches. `net_inter` and `net_intra` are those of the net's own mixers, untrained.
    """
    random = np.random.default_rng(seed)
    values, anomalous = sample_windows(setting, windows, random)
    across, within = values.swapaxes(1, 2).reshape(-1, setting.patches), values.reshape(-1, setting.points)
    inside = within[anomalous.ravel()] if anomalous.any() else within
    inter_weights, intra_weights = linear_mixer(setting.patches, random), linear_mixer(setting.points, random)
    outputs = {
        "inter": across @ inter_weights.T,
        "intra": inside @ intra_weights.T,
        "intra_all": within @ intra_weights.T,
        "net_inter": _net_mixer(across),
        "net_intra": _net_mixer(inside),
    }
    return {name: float(differential_entropy(sample.ravel())) for name, sample in outputs.items()}


def compute(options: FigureOptions) -> Frame:
    """Compute the entropies of every setting by formula and by simulation, one row each."""
    rows = []
    for sweep, settings in SWEEPS.items():
        for setting in settings:
            share = setting.anomalous_patches / setting.patches
            if "points" in sweep.split(",")[0]:
                share = setting.anomalous_points / setting.points
            found = formulas(setting) | simulate_entropies(setting, options.pick(4000, 100), seed=0)
            about = {"sweep": sweep, "share": share, "k": setting.anomalous_patches, "m": setting.anomalous_points}
            rows += [about | {"curve": name, "entropy": value} for name, value in found.items()]
    return pd.DataFrame(rows)


CURVES = {
    "inter_paper": ("inter, the paper's formula", COLOURS[1], "-", None),
    "inter_same_points": ("inter, formula for the same points", COLOURS[1], "--", None),
    "inter": ("inter, simulated", COLOURS[1], "none", "o"),
    "intra_paper": ("intra, the paper's formula", COLOURS[0], "-", None),
    "intra": ("intra, simulated, anomalous patches", COLOURS[0], "none", "s"),
    "intra_all": ("intra, simulated, all patches", COLOURS[0], "none", "x"),
    "net_inter": ("inter, the net's mixer", COLOURS[4], ":", None),
    "net_intra": ("intra, the net's mixer", COLOURS[2], ":", None),
}


def draw(frame: Frame) -> Canvas:
    """Draw formulas as lines and simulations as marks, one panel per sweep."""
    canvas, axes = panels(2, 2, width=4.2, height=2.5, sharey=True)
    for ax, (sweep, subset) in zip(axes.flat, frame.groupby("sweep", sort=False), strict=True):
        for name, (label, colour, line, mark) in CURVES.items():
            one = subset[subset["curve"] == name]
            ax.plot(one["share"], one["entropy"], color=colour, linestyle=line, marker=mark, markersize=5, label=label)
        ax.set(title=sweep, xlabel=f"share of {sweep.split(',')[0]}", ylabel="entropy (nats)")
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return canvas
