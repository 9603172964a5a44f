"""Figures from records: sensitivity to six parameters, sizes and latencies, and training time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from patchad.bench.cells import EVENT_PARAMETERS, parameters_of
from patchad.bench.figures.base import FigureOptions, Frame, MissingSourceError
from patchad.bench.figures.drawing import COLOURS, INK, STYLES, panels, sizes_text
from patchad.bench.paper import published_rows
from patchad.bench.records import Record
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
"""Quantities that the time of an epoch is plotted against, and the parameters that change with each."""
COST_STRIDE = 35
"""The stride at which window and width are varied."""
SIZES = {"n_parameters": "parameters", "flops": "FLOPs of a window", "latency_ms": "latency of a window (ms)"}


def suite_records(records: Sequence[Record], suite: str) -> list[Record]:
    """Select the records of a suite that have metrics; `MissingSourceError` says how to make some."""
    found = [record for record in records if record["suite"] == suite and "skipped" not in record["metrics"]]
    if not found:
        raise MissingSourceError(
            f"it needs records of {suite}; make them with `patchad bench run {suite} -o FILE`, pass them by `--records`"
        )
    return found


def changed_parameters(record: Record, base: dict[str, Any]) -> set[str]:
    """Name the parameters in which a record differs from a base; `max_steps` and those of events do not count."""
    own, free = record["parameters"], ("max_steps", *EVENT_PARAMETERS)
    return {name for name, value in base.items() if name not in free and own.get(name, value) != value}


def axis_value(name: str, value: Any) -> float | str:
    """Return a parameter as a position on an axis: a number, or text for patch sizes.

    Examples
    --------
    >>> axis_value("threshold", "ratio:0.5"), axis_value("patch_sizes", [3, 5]), axis_value("layers", 3)
    (0.5, '3,5', 3.0)
    """
    if name == "patch_sizes":
        return sizes_text(value)
    return float(str(value).removeprefix("ratio:"))


def sensitivity(options: FigureOptions) -> Frame:
    """Collect our, the paper's and random scores' results against each of the six parameters."""
    records = suite_records(options.records, "paper-sensitivity")
    base = parameters_of(PAPER, "paper", None)
    rows: list[dict[str, Any]] = []
    for record in records:
        ours = record["detector"] == "patchad"
        about = {"dataset": record["dataset"], "source": "ours" if ours else record["detector"], "seed": record["seed"]}
        results = {name: record["metrics"].get(name) for name in QUALITIES}
        differing = changed_parameters(record, base) if ours else set()
        for name in SENSITIVITIES:
            allowed = {name, "hop"} if name == "window" else {name}
            if ours and differing <= allowed:
                position = axis_value(name, record["parameters"][name])
                short = record["parameters"].get("max_steps") is not None
                rows.append(about | {"parameter": name, "value": position, "short": short} | results)
            elif record["detector"] == "random":
                rows.append(about | {"parameter": name, "value": "any"} | results)
    if not any(row["source"] == "ours" for row in rows):
        raise MissingSourceError(
            "it needs records of paper-sensitivity with the paper's net; these have other variants only"
        )
    rows = _alike(rows)
    return pd.DataFrame(rows + _published_sensitivity({record["dataset"] for record in records}))


def _alike(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out short trainings where all values of a parameter have a whole one, else whole ones: none are mixed."""
    values: dict[tuple[str, str, bool], set[Any]] = {}
    for row in rows:
        if "short" in row:
            values.setdefault((row["dataset"], row["parameter"], row["short"]), set()).add(row["value"])

    def counts(row: dict[str, Any]) -> bool:
        if "short" not in row:
            return True
        short, whole = (values.get((row["dataset"], row["parameter"], kind), set()) for kind in (True, False))
        return bool(row["short"]) == (not short <= whole)

    return [{name: value for name, value in row.items() if name != "short"} for row in rows if counts(row)]


def _published_sensitivity(datasets: set[str]) -> list[dict[str, Any]]:
    rows = []
    for published in published_rows():
        name, _, value = published["variant"].partition("=")
        if published["suite"] == "paper-sensitivity" and published["dataset"] in datasets and name in SENSITIVITIES:
            about = {"dataset": published["dataset"], "source": "the paper", "seed": -1, "parameter": name}
            position = axis_value(name, value.split(",")) if name == "patch_sizes" else axis_value(name, value)
            rows.append(about | {"value": position, "pa_f1": published["values"]["pa_f1"] / 100})
    return rows


def draw_sensitivity(frame: Frame) -> Canvas:
    """Draw point-adjusted F1, as the paper does, and below it ROC-AUC, one column per parameter."""
    canvas, axes = panels(len(QUALITIES), len(SENSITIVITIES), width=2.3, height=2.1, sharey="row", sharex="col")
    datasets = sorted(set(frame["dataset"]))  # every record of the paper's own setting is in all six panels
    for column, (name, title) in enumerate(SENSITIVITIES.items()):
        subset = frame[frame["parameter"] == name]
        positions = _positions(name, subset)
        for row, (quality, heading) in enumerate(QUALITIES.items()):
            ax = axes[row, column]
            for number, dataset in enumerate(datasets):
                _sensitivity_lines(
                    ax, subset[subset["dataset"] == dataset], quality, positions, COLOURS[number], dataset
                )
            axes[row, 0].set_ylabel(heading)
        if name == "patch_sizes":
            axes[-1, column].set_xticks(list(positions.values()), list(positions), rotation=90)
        axes[-1, column].set_xlabel(title)
    canvas.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3 * len(datasets))
    return canvas


def _positions(name: str, subset: Frame) -> dict[Any, float]:
    values = [value for value in dict.fromkeys(subset["value"]) if value != "any"]
    if name == "patch_sizes":
        ordered = sorted(values, key=lambda text: (text.count(","), text))
        return {value: float(position) for position, value in enumerate(ordered)}
    return {value: float(value) for value in sorted(values)}


def _sensitivity_lines(
    ax: Any, subset: Frame, quality: str, positions: dict[Any, float], colour: str, dataset: str
) -> None:
    for source, style, mark in (("ours", "-", "o"), ("the paper", "--", "x")):
        known = subset[(subset["source"] == source) & subset[quality].notna()]
        if len(known):
            mean = known.assign(position=known["value"].map(positions)).groupby("position")[quality].mean()
            label = f"{dataset}, {source}"
            ax.plot(mean.index, mean, style, marker=mark, markersize=3, color=colour, label=label)
    chance = subset[subset["source"] == "random"][quality]
    if len(chance):
        ax.axhline(chance.mean(), color=colour, linestyle=":", linewidth=0.9, label=f"{dataset}, random scores")


# -- cost ------------------------------------------------------------------------------------------------------------


def cost_against(options: FigureOptions) -> Frame:
    """Collect the time of a training epoch against stride, window and width for each measured method."""
    records = suite_records(options.records, "paper-cost")
    base = parameters_of(PAPER, "paper", None)
    rows = []
    for record in records:
        own, name = record["parameters"], record["detector"]
        about = {"dataset": record["dataset"], "method": name, "seed": record["seed"]}
        about |= {key: record["metrics"][key] for key in ("step_ms", "epoch_seconds")}
        for against, free in COSTS.items():
            if name == "patchad":
                allowed = {*free, "stride"} | ({"patch_sizes"} if against == "window" else set())
                # Strides are varied alone; the others at one stride, and all windows with the patches of the shortest.
                fits = changed_parameters(record, base) <= allowed and (
                    against == "stride" or own["stride"] == COST_STRIDE
                )
                fits &= against != "window" or own["patch_sizes"] != base["patch_sizes"]
            else:
                fits = against == "stride" and name == "dcdetector"
            if fits:
                rows.append(about | {"against": against, "value": own[against]})
    if not rows:
        raise MissingSourceError("it needs records of paper-cost with the paper's net; these have other variants only")
    return pd.DataFrame(rows)


def draw_cost_against(frame: Frame) -> Canvas:
    """Draw the time of an epoch, one panel per quantity, one mark per seed and a line through their means."""
    shown = [against for against in COSTS if against in set(frame["against"])]
    canvas, axes = panels(1, len(shown), width=3.4, height=2.5)
    for ax, against in zip(axes[0], shown, strict=True):
        subset = frame[frame["against"] == against]
        for number, (method, some) in enumerate(subset.groupby("method", sort=False)):
            mean = some.groupby("value")["epoch_seconds"].mean()
            ax.plot(mean.index, mean, linestyle=STYLES[number], color=COLOURS[number], label=method)
            ax.plot(some["value"], some["epoch_seconds"], "os"[number], color=COLOURS[number], markersize=3)
        if against == "stride":
            ax.set(xscale="log", yscale="log")
            ax.legend()
        else:
            ax.set_ylim(bottom=0)
        values = sorted(set(subset["value"]))
        ax.set_xticks(values, [str(value) for value in values])
        ax.minorticks_off()
        fixed = "" if against == "stride" else f" (stride {COST_STRIDE})"
        ax.set(xlabel=against + fixed, ylabel="seconds of an epoch")
    return canvas


def sizes(options: FigureOptions) -> Frame:
    """Collect parameters, operations and latency of every method, and those that the paper states for PatchAD."""
    records = suite_records(options.records, "paper-cost")
    paper, default = (parameters_of(variant, "paper", None) for variant in (PAPER, DEFAULT))
    rows = []
    for record in records:
        name = record["detector"]
        if name == "patchad":
            label = next(
                (
                    text
                    for text, base in (("PatchAD.paper()", paper), ("PatchAD()", default))
                    if not changed_parameters(record, base)
                ),
                "",
            )
        else:
            label = name if record["parameters"].get("stride", 1) == 1 else ""
        if label:
            results = {key: record["metrics"][key] for key in SIZES}
            rows.append({"method": label, "source": "measured", "seed": record["seed"]} | results)
    stated = [published["values"] for published in published_rows() if published["suite"] == "paper-cost"]
    rows += [{"method": "the paper's PatchAD", "source": "stated", "seed": -1} | values for values in stated]
    return pd.DataFrame(rows)


def draw_sizes(frame: Frame) -> Canvas:
    """Draw one bar per method, the median over seeds."""
    canvas, axes = panels(1, len(SIZES), width=3.1, height=2.4, sharey=True)
    methods = list(dict.fromkeys(frame["method"]))[::-1]
    for ax, (name, title) in zip(axes[0], SIZES.items(), strict=True):
        middle = frame.groupby("method")[name].median()
        stated = set(frame[frame["source"] == "stated"]["method"])
        for position, method in enumerate(methods):
            fill = "none" if method in stated else COLOURS[0]
            ax.barh(position, middle[method], color=fill, edgecolor=INK if method in stated else COLOURS[0], height=0.6)
            ax.text(middle[method], position, f" {_short(middle[method])}", va="center", fontsize=7)
        ax.set(xscale="log", xlabel=title, xlim=(middle.min() / 3, middle.max() * 12))
        ax.set_yticks(range(len(methods)), methods)
    return canvas


def _short(value: float) -> str:
    """Abbreviate thousands, millions and billions.

    Examples
    --------
    >>> _short(403_000.0), _short(5.2e8), _short(7.67)
    ('403k', '520M', '7.67')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
