"""Training with and without the projection constraint: the loss and its terms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from torch.nn import functional

from patchad.bench.figures.base import FigureOptions, Frame
from patchad.bench.figures.drawing import line_with_range, panels
from patchad.bench.figures.entropy import softmax_entropy
from patchad.bench.figures.nets import OBJECTIVES, paper_net, run_net
from patchad.data.windows import views
from patchad.datasets.synthetic import generate
from patchad.model.distances import DISTANCES
from patchad.model.loss import ObjectiveConfig, loss
from patchad.model.training import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from patchad.detectors.patchad import PatchAD

STEPS, CHANNELS = 300, 5
CONSTRAINTS = (0.0, 0.2, 0.8)
"""No constraint, the paper's, and a strong one."""
SHOWN = {
    "loss": "loss",
    "reconstruction": "mean squared error of\nthe reconstruction",
    "distance": "distance of the views",
    "flatness": "entropy of the views\nas a share of the most",
}


def loss_terms(detector: PatchAD, windows: Any) -> dict[str, float]:
    """Return the loss of windows `(b, t, c)` of the series and its terms, summed over scales.

    `flatness`, the entropy of the views' softmax as a share of its maximum, is 1 if both views are uniform: then they
    agree without having learned anything, the trivial solution.
    """
    outputs = run_net(detector, windows)
    target = outputs[0].reconstruction.new_tensor(np.asarray(detector.scaler_(windows), dtype=np.float32))
    config = ObjectiveConfig(objective=detector.objective, distance="kl", constraint=detector.constraint)
    distance = DISTANCES["kl"]
    apart = sum(float(distance.mean(distance.summary(out.inter), distance.summary(out.intra))) for out in outputs)
    entropies = [softmax_entropy(view.cpu().numpy()) for out in outputs for view in (out.inter, out.intra)]
    return {
        "loss": float(loss(outputs, target, config)),
        "reconstruction": sum(float(functional.mse_loss(out.reconstruction, target)) for out in outputs),
        "distance": apart,
        "flatness": float(np.mean(entropies)) / math.log(detector.d_model),
    }


def compute(options: FigureOptions) -> Frame:
    """Compute the terms of the loss on held-out windows of the simulated plant, every ten steps of training."""
    entity = generate("plant")[0]
    values = entity.train[:, :CHANNELS]
    train, held_out = values[: options.pick(3000, 300)], views(values[3000:], 105)[::30]
    rows: list[dict[str, Any]] = []
    for objective in OBJECTIVES:
        for constraint in CONSTRAINTS:
            for seed in range(options.pick(2, 1)):
                detector = paper_net(
                    STEPS, seed, options.quick, objective=objective, constraint=constraint, batch_size=16
                )
                about = {"objective": objective, "constraint": constraint, "seed": seed}

                def watch(progress: Progress, detector: PatchAD = detector, about: Any = about) -> None:
                    if progress.step == 1 or progress.step % 10 == 0:
                        rows.append(about | {"step": progress.step} | loss_terms(detector, held_out))

                detector.observe(watch).fit(train)
    return pd.DataFrame(rows)


def draw(frame: Frame) -> Canvas:
    """Draw the loss and its terms, one row per objective."""
    canvas, axes = panels(len(OBJECTIVES), len(SHOWN), width=2.9, height=2.2, sharex=True)
    for row, objective in enumerate(OBJECTIVES):
        for ax, (column, title) in zip(axes[row], SHOWN.items(), strict=True):
            for number, (constraint, subset) in enumerate(frame[frame["objective"] == objective].groupby("constraint")):
                line_with_range(ax, subset, "step", column, number, f"constraint {constraint:g}")
            ax.set_title(objective)
            ax.set(xlabel="training step", ylabel=title)
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(CONSTRAINTS))
    return canvas
