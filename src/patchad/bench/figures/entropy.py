"""Entropy of the inter and intra mixers' outputs during training.

The paper does not say which entropy of the features it shows, so two are computed. `softmax_entropy` is the entropy of
the distribution that the loss compares, the softmax over the features of a patch or a position: it lies between 0 and
ln d_model, so that a ratio makes sense. `gaussian_entropy` is the formula of the paper's theory for the variance of all
features: it can be negative, so that only a difference makes sense.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import log_softmax

from patchad.bench.figures.base import FigureOptions, Frame
from patchad.bench.figures.drawing import line_with_range, panels, sizes_text
from patchad.bench.figures.nets import OBJECTIVES, PATCH_SETS, ROWS, WINDOW, paper_net, run_net
from patchad.data.table import FloatArray
from patchad.data.windows import views
from patchad.datasets.synthetic import one_channel
from patchad.detectors.patchad import PatchAD
from patchad.model.net import ScaleOutput
from patchad.model.training import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

STEPS, SEEDS = 200, 2


def softmax_entropy(view: FloatArray) -> float:
    """Return the mean entropy, in nats, of the softmax over the last axis.

    Examples
    --------
    >>> bool(np.isclose(softmax_entropy(np.zeros((3, 8))), np.log(8)))
    True
    """
    logs = log_softmax(np.asarray(view, dtype=np.float64), axis=-1)
    return float(-(np.exp(logs) * logs).sum(axis=-1).mean())


def gaussian_entropy(variance: float) -> float:
    """Return the differential entropy of a Gaussian, in nats: ln(2 pi e variance) / 2.

    Examples
    --------
    >>> round(gaussian_entropy(1.0), 4)
    1.4189
    """
    return 0.5 * math.log(2 * math.pi * math.e * variance)


def view_entropies(outputs: tuple[ScaleOutput, ...]) -> dict[str, float]:
    """Compute both entropies of both views, as means over the scales."""
    found: dict[str, float] = {}
    for name in ("inter", "intra"):
        views_of_scales = [getattr(out, name).cpu().numpy() for out in outputs]
        found[f"{name}_softmax"] = float(np.mean([softmax_entropy(view) for view in views_of_scales]))
        found[f"{name}_gaussian"] = float(np.mean([gaussian_entropy(float(view.var())) for view in views_of_scales]))
    return found


@cache
def trained(kind: str, sizes: tuple[int, ...], objective: str, seed: int, quick: bool) -> tuple[PatchAD, Frame]:
    """Fit the paper's net to a simulated series; return also the entropies on test windows, every ten steps."""
    entity = one_channel(kind, rows=ROWS, seed=seed)
    windows = views(entity.test, WINDOW)[::15]
    rows: list[dict[str, Any]] = []
    detector = paper_net(STEPS, seed, quick, window=WINDOW, patch_sizes=sizes, objective=objective)

    def watch(progress: Progress) -> None:
        if progress.step == 1 or progress.step % 10 == 0:
            rows.append({"step": progress.step} | view_entropies(run_net(detector, windows)))

    detector.observe(watch).fit(entity.train)
    return detector, pd.DataFrame(rows).assign(objective=objective, patch_sizes=sizes_text(sizes), seed=seed)


def compute(options: FigureOptions) -> Frame:
    """Compute the entropies on test windows, every ten steps of training."""
    seeds = range(options.pick(SEEDS, 1))
    sets = options.pick(PATCH_SETS, PATCH_SETS[:2])
    fits = [
        trained("trend", sizes, name, seed, options.quick) for name in OBJECTIVES for sizes in sets for seed in seeds
    ]
    found = pd.concat([frame for _, frame in fits], ignore_index=True)
    found["softmax_ratio"] = found["intra_softmax"] / found["inter_softmax"]
    found["gaussian_difference"] = found["intra_gaussian"] - found["inter_gaussian"]
    return found


def draw_softmax(frame: Frame) -> Canvas:
    """Draw the softmax entropy of both views and their ratio."""
    return _draw(frame, "softmax", "softmax_ratio", "intra / inter")


def draw_gaussian(frame: Frame) -> Canvas:
    """Draw the entropy by the paper's formula for both views, and their difference."""
    return _draw(frame, "gaussian", "gaussian_difference", "intra - inter (nats)")


def _draw(frame: Frame, kind: str, last: str, title: str) -> Canvas:
    columns = {f"inter_{kind}": "inter mixer (nats)", f"intra_{kind}": "intra mixer (nats)", last: title}
    canvas, axes = panels(len(OBJECTIVES), 3, width=3.4, height=2.3, sharex=True)
    for row, objective in enumerate(OBJECTIVES):
        for ax, (column, heading) in zip(axes[row], columns.items(), strict=True):
            for number, (sizes, subset) in enumerate(
                frame[frame["objective"] == objective].groupby("patch_sizes", sort=False)
            ):
                line_with_range(ax, subset, "step", column, number, f"patches {sizes}")
            ax.set_title(f"{heading}, {objective}")
            ax.set_xlabel("training step")
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return canvas
