"""What suites measured: sensitivity to six parameters, sizes and latencies, and the time that training takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from patchad.bench.figures.drawing import COLOURS, INK, STYLES, panels, text_of
from patchad.bench.figures.plan import Frame, LackingError, Options
from patchad.bench.paper import paper_figures
from patchad.bench.records import Record
from patchad.bench.runner import parameters_of
from patchad.bench.suites import DEFAULT, PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

SENSITIVITIES = {
    "constraint": "weight of the constraint",
    "threshold": "share of alarms (%)",
    "d_model": "d_model",
    "layers": "layers",
    "window": "window",
    "patch_sizes": "patch sizes",
}
"""The six panels of the paper's figure, in its order."""
QUALITIES = {"pa_f1": "point-adjusted F1", "roc_auc": "ROC-AUC"}
COSTS = {"stride": ("stride",), "window": ("window", "hop"), "d_model": ("d_model",)}
"""What the time of an epoch is shown against, and the parameters that change with it."""
COST_STRIDE = 35
"""The stride at which window and width are varied."""
SIZES = {"n_parameters": "parameters", "flops": "FLOPs of a window", "latency_ms": "latency of a window (ms)"}


def of_suite(records: Sequence[Record], suite: str) -> list[Record]:
    """Give the records of a suite that have figures; `LackingError` says how to get some."""
    found = [record for record in records if record["suite"] == suite and "skipped" not in record["metrics"]]
    if not found:
        raise LackingError(
            f"it needs records of {suite}; `patchad bench run {suite} -o FILE` makes them, `--records FILE` names them"
        )
    return found


def changed(record: Record, base: dict[str, Any]) -> set[str]:
    """Name the parameters in which a record's detector differs from a base; a bound on training does not count."""
    own = record["parameters"]
    return {name for name, value in base.items() if name != "max_steps" and own.get(name, value) != value}


def number_of(name: str, value: Any) -> float | str:
    """Give a parameter as a place on an axis: a number, or text for patch sizes.

    Examples
    --------
    >>> number_of("threshold", "ratio:0.5"), number_of("patch_sizes", [3, 5]), number_of("layers", 3)
    (0.5, '3,5', 3.0)
    """
    if name == "patch_sizes":
        return text_of(value)
    return float(str(value).removeprefix("ratio:"))


def sensitivity(options: Options) -> Frame:
    """Give ours, the paper's and random scores' figures against each of the six parameters."""
    records = of_suite(options.records, "paper-sensitivity")
    base = parameters_of(PAPER, "paper", None)
    rows: list[dict[str, Any]] = []
    for record in records:
        ours = record["detector"] == "patchad"
        about = {"dataset": record["dataset"], "source": "ours" if ours else record["detector"], "seed": record["seed"]}
        figures = {name: record["metrics"].get(name) for name in QUALITIES}
        differing = changed(record, base) if ours else set()
        for name in SENSITIVITIES:
            allowed = {name, "hop"} if name == "window" else {name}
            if ours and differing <= allowed:
                place = number_of(name, record["parameters"][name])
                rows.append(about | {"parameter": name, "value": place} | figures)
            elif record["detector"] == "random":
                rows.append(about | {"parameter": name, "value": "any"} | figures)
    if not any(row["source"] == "ours" for row in rows):
        raise LackingError("it needs records of paper-sensitivity with the paper's net; these are of other rows only")
    return pd.DataFrame(rows + _of_the_paper({record["dataset"] for record in records}))


def _of_the_paper(datasets: set[str]) -> list[dict[str, Any]]:
    rows = []
    for figure in paper_figures():
        name, _, value = figure["variant"].partition("=")
        if figure["suite"] == "paper-sensitivity" and figure["dataset"] in datasets and name in SENSITIVITIES:
            about = {"dataset": figure["dataset"], "source": "the paper", "seed": -1, "parameter": name}
            place = number_of(name, value.split(",")) if name == "patch_sizes" else number_of(name, value)
            rows.append(about | {"value": place, "pa_f1": figure["figures"]["pa_f1"] / 100})
    return rows


def draw_sensitivity(table: Frame) -> Canvas:
    """Draw point-adjusted F1, as the paper does, and under it ROC-AUC, a column a parameter."""
    canvas, axes = panels(len(QUALITIES), len(SENSITIVITIES), width=2.3, height=2.1, sharey="row", sharex="col")
    datasets = sorted(set(table["dataset"]))  # every record of the paper's own setting is in all six panels
    for column, (name, title) in enumerate(SENSITIVITIES.items()):
        part = table[table["parameter"] == name]
        places = _places(name, part)
        for row, (quality, heading) in enumerate(QUALITIES.items()):
            ax = axes[row, column]
            for number, dataset in enumerate(datasets):
                _sensitivity_lines(ax, part[part["dataset"] == dataset], quality, places, COLOURS[number], dataset)
            axes[row, 0].set_ylabel(heading)
        if name == "patch_sizes":
            axes[-1, column].set_xticks(list(places.values()), list(places), rotation=90)
        axes[-1, column].set_xlabel(title)
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3 * len(datasets))
    return canvas


def _places(name: str, part: Frame) -> dict[Any, float]:
    values = [value for value in dict.fromkeys(part["value"]) if value != "any"]
    if name == "patch_sizes":
        ordered = sorted(values, key=lambda text: (text.count(","), text))
        return {value: float(place) for place, value in enumerate(ordered)}
    return {value: float(value) for value in sorted(values)}


def _sensitivity_lines(ax: Any, part: Frame, quality: str, places: dict[Any, float], colour: str, dataset: str) -> None:
    for source, style, mark in (("ours", "-", "o"), ("the paper", "--", "x")):
        known = part[(part["source"] == source) & part[quality].notna()]
        if len(known):
            mean = known.assign(place=known["value"].map(places)).groupby("place")[quality].mean()
            label = f"{dataset}, {source}"
            ax.plot(mean.index, mean, style, marker=mark, markersize=3, color=colour, label=label)
    chance = part[part["source"] == "random"][quality]
    if len(chance):
        ax.axhline(chance.mean(), color=colour, linestyle=":", linewidth=0.9, label=f"{dataset}, random scores")


# -- cost ------------------------------------------------------------------------------------------------------------


def cost_against(options: Options) -> Frame:
    """Give the time of a training epoch against stride, window and width, of each method that was measured."""
    records = of_suite(options.records, "paper-cost")
    base = parameters_of(PAPER, "paper", None)
    rows = []
    for record in records:
        own, name = record["parameters"], record["detector"]
        about = {"dataset": record["dataset"], "method": name, "seed": record["seed"]}
        about |= {key: record["metrics"][key] for key in ("step_ms", "epoch_seconds")}
        for against, free in COSTS.items():
            if name == "patchad":
                allowed = {*free, "stride"} | ({"patch_sizes"} if against == "window" else set())
                # Strides are shown alone; the others at one stride, and all windows with the patches of the shortest.
                fits = changed(record, base) <= allowed and (against == "stride" or own["stride"] == COST_STRIDE)
                fits &= against != "window" or own["patch_sizes"] != base["patch_sizes"]
            else:
                fits = against == "stride" and name == "dcdetector"
            if fits:
                rows.append(about | {"against": against, "value": own[against]})
    if not rows:
        raise LackingError("it needs records of paper-cost with the paper's net; these are of other rows only")
    return pd.DataFrame(rows)


def draw_cost_against(table: Frame) -> Canvas:
    """Draw the time of an epoch, a panel a quantity, a mark a seed and a line through their means."""
    shown = [against for against in COSTS if against in set(table["against"])]
    canvas, axes = panels(1, len(shown), width=3.4, height=2.5)
    for ax, against in zip(axes[0], shown, strict=True):
        part = table[table["against"] == against]
        for number, (method, some) in enumerate(part.groupby("method", sort=False)):
            mean = some.groupby("value")["epoch_seconds"].mean()
            ax.plot(mean.index, mean, linestyle=STYLES[number], color=COLOURS[number], label=method)
            ax.plot(some["value"], some["epoch_seconds"], "os"[number], color=COLOURS[number], markersize=3)
        if against == "stride":
            ax.set(xscale="log", yscale="log")
            ax.legend()
        else:
            ax.set_ylim(bottom=0)
        values = sorted(set(part["value"]))
        ax.set_xticks(values, [str(value) for value in values])
        ax.minorticks_off()
        fixed = "" if against == "stride" else f" (stride {COST_STRIDE})"
        ax.set(xlabel=against + fixed, ylabel="seconds of an epoch")
    return canvas


def sizes(options: Options) -> Frame:
    """Give parameters, operations and latency of every method, and what the paper says of PatchAD's."""
    records = of_suite(options.records, "paper-cost")
    paper, default = (parameters_of(variant, "paper", None) for variant in (PAPER, DEFAULT))
    rows = []
    for record in records:
        name = record["detector"]
        if name == "patchad":
            label = next(
                (
                    text
                    for text, base in (("PatchAD.paper()", paper), ("PatchAD()", default))
                    if not changed(record, base)
                ),
                "",
            )
        else:
            label = name if record["parameters"].get("stride", 1) == 1 else ""
        if label:
            figures = {key: record["metrics"][key] for key in SIZES}
            rows.append({"method": label, "source": "measured", "seed": record["seed"]} | figures)
    stated = [figure["figures"] for figure in paper_figures() if figure["suite"] == "paper-cost"]
    rows += [{"method": "the paper's PatchAD", "source": "stated", "seed": -1} | figures for figures in stated]
    return pd.DataFrame(rows)


def draw_sizes(table: Frame) -> Canvas:
    """Draw a bar a method, the median over seeds."""
    canvas, axes = panels(1, len(SIZES), width=3.1, height=2.4, sharey=True)
    methods = list(dict.fromkeys(table["method"]))[::-1]
    for ax, (name, title) in zip(axes[0], SIZES.items(), strict=True):
        middle = table.groupby("method")[name].median()
        stated = set(table[table["source"] == "stated"]["method"])
        for place, method in enumerate(methods):
            fill = "none" if method in stated else COLOURS[0]
            ax.barh(place, middle[method], color=fill, edgecolor=INK if method in stated else COLOURS[0], height=0.6)
            ax.text(middle[method], place, f" {_short(middle[method])}", va="center", fontsize=7)
        ax.set(xscale="log", xlabel=title, xlim=(middle.min() / 3, middle.max() * 12))
        ax.set_yticks(range(len(methods)), methods)
    return canvas


def _short(value: float) -> str:
    """Write a number with its thousands as letters.

    Examples
    --------
    >>> _short(403_000.0), _short(5.2e8), _short(7.67)
    ('403k', '520M', '7.67')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
