"""The mean of each metric over datasets, of every method of the paper's comparison: as published, and ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from patchad.bench.figures.base import FigureOptions, Frame
from patchad.bench.figures.drawing import COLOURS, panels
from patchad.bench.figures.from_records import suite_records
from patchad.bench.measured import METRICS, Measured
from patchad.bench.paper import published_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

TABLE = "tab:comparison_wo_pa"
SHOWN = tuple(name for name in METRICS if name != "pa_f1")
"""The metrics of the paper's figure."""


def means(options: FigureOptions) -> Frame:
    """Collect the means: of the paper over all its datasets and over those that we have, and ours over the latter."""
    measured = Measured(suite_records(options.records, "paper-classic"))
    rows: list[dict[str, Any]] = []
    for row in published_rows():
        if row["table"] != TABLE:
            continue
        for metric in SHOWN:
            about = {"method": row["variant"], "dataset": row["dataset"], "metric": metric}
            rows.append(about | {"source": "the paper", "value": row["values"][metric]})
            ours = measured.value("paper-classic", row["dataset"], row["variant"], metric)
            if ours is not None:
                rows.append(about | {"source": "the paper, our datasets", "value": row["values"][metric]})
                rows.append(about | {"source": "ours", "value": ours})
    frame = pd.DataFrame(rows).groupby(["method", "metric", "source"], sort=False)["value"].agg(["mean", "size"])
    return frame.reset_index().rename(columns={"mean": "value", "size": "datasets"})


def draw_means(frame: Frame) -> Canvas:
    """Draw a panel per metric, the methods in the order of the paper's mean."""
    canvas, axes = panels(1, len(SHOWN), width=2.4, height=4.2, sharey=False)
    for ax, metric in zip(axes[0], SHOWN, strict=True):
        subset = frame[frame["metric"] == metric]
        order = subset[subset["source"] == "the paper"].sort_values("value")["method"].tolist()
        for number, source in enumerate(dict.fromkeys(frame["source"])):
            known = subset[subset["source"] == source]
            positions = [order.index(name) for name in known["method"]]
            ax.plot(known["value"], positions, "ox+"[number], color=COLOURS[number], markersize=4, label=source)
        ax.set_yticks(range(len(order)), order)
        ax.set_title(METRICS[metric])
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return canvas
