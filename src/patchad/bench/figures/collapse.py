"""Do the views collapse? How much of them is their centre, and their entropy as the paper's code computes it.

The paper writes a view as centre plus radius, and calls it collapsed where the centre dominates. Its code's entropy
takes the sigmoid of the features, divides by the sum over the whole batch, and uses logarithms to base two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import expit

from patchad.bench.figures.base import FigureOptions, Frame
from patchad.bench.figures.drawing import COLOURS, panels
from patchad.bench.figures.losses import CHANNELS
from patchad.bench.figures.nets import OBJECTIVES, paper_net, run_net
from patchad.data.table import FloatArray
from patchad.data.windows import views
from patchad.datasets.synthetic import generate
from patchad.model.training import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from patchad.detectors.patchad import PatchAD

STEPS = 100
CONSTRAINTS = (0.0, 0.2)
SHOWN = {"centre": "centre's share of\nthe squared length", "entropy": "entropy as in the\ncode (bits)"}


def centre_share(view: FloatArray) -> float:
    """Return which share of the mean squared length of `(c, n or p, b, d)` features is that of their mean.

    Examples
    --------
    >>> centre_share(np.ones((1, 2, 3, 4))), round(centre_share(np.array([1.0, -1.0]).reshape(1, 1, 2, 1)), 3)
    (1.0, 0.0)
    """
    points = np.asarray(view, dtype=np.float64).reshape(-1, view.shape[-1])
    return float(np.square(points.mean(axis=0)).sum() / np.square(points).sum(axis=1).mean())


def code_entropy(view: FloatArray) -> float:
    """Return the mean over windows of the entropy of `(c, n or p, b, d)` features, as the paper's code has it.

    Examples
    --------
    >>> round(code_entropy(np.zeros((1, 2, 1, 4))), 6)
    3.0
    """
    shares = expit(np.asarray(view, dtype=np.float64))
    shares /= shares.sum() + 1e-7
    return float(-(shares * np.log2(shares)).sum(axis=(0, 1, 3)).mean())


def compute(options: FigureOptions) -> Frame:
    """Compute both on held-out windows of the simulated plant, every ten steps of training."""
    values = generate("plant")[0].train[:, :CHANNELS]
    train, held_out = values[: options.pick(3000, 300)], views(values[3000:], 105)[::30]
    rows: list[dict[str, Any]] = []
    for objective in OBJECTIVES:
        for constraint in CONSTRAINTS:
            detector = paper_net(STEPS, 0, options.quick, objective=objective, constraint=constraint, batch_size=16)
            about = {"objective": objective, "constraint": constraint}

            def watch(progress: Progress, detector: PatchAD = detector, about: Any = about) -> None:
                if progress.step == 1 or progress.step % 10 == 0:
                    outputs = run_net(detector, held_out)
                    for name in ("inter", "intra"):
                        found = [getattr(out, name).cpu().numpy() for out in outputs]
                        measured = {
                            "centre": float(np.mean([centre_share(view) for view in found])),
                            "entropy": float(np.mean([code_entropy(view) for view in found])),
                        }
                        rows.append(about | {"step": progress.step, "view": name} | measured)

            detector.observe(watch).fit(train)
    return pd.DataFrame(rows)


def draw(frame: Frame) -> Canvas:
    """Draw both against the steps, one row per objective; the intra view is dashed."""
    canvas, axes = panels(len(OBJECTIVES), len(SHOWN), width=3.6, height=2.2, sharex=True)
    for row, objective in enumerate(OBJECTIVES):
        for ax, (column, title) in zip(axes[row], SHOWN.items(), strict=True):
            subset = frame[frame["objective"] == objective]
            for number, constraint in enumerate(CONSTRAINTS):
                for name, style in (("inter", "-"), ("intra", "--")):
                    line = subset[(subset["constraint"] == constraint) & (subset["view"] == name)]
                    label = f"{name}, constraint {constraint:g}"
                    ax.plot(line["step"], line[column], style, color=COLOURS[number], label=label)
            ax.set_title(objective)
            ax.set(xlabel="training step", ylabel=title)
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return canvas
