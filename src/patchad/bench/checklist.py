"""The checklist of the paper: every table, figure, equation, setting and claim, beside what is measured here.

Numbers come from records, the data of figures, the paper's published values and the code; prose from
`patchad.bench.pieces` and `patchad.bench.claims`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from patchad.bench.claims import HEADINGS as CLAIMS
from patchad.bench.claims import claims
from patchad.bench.measured import METRICS, FigureData, Measured
from patchad.bench.paper import published_in, published_rows
from patchad.bench.pieces import EQUATIONS, FIGURES, NOT_PUBLIC, REASONS, SETTINGS, Equation
from patchad.bench.records import Record
from patchad.bench.suites import SUITES
from patchad.datasets.catalogue import DATASETS
from patchad.detectors.patchad import PatchAD

MAIN = ("tab:comparison", "tab:comparison_wo_pa", "tab:comparison_nips_ts", "tab:comparison_ucr")
"""Tables that compare PatchAD with other methods; the others vary PatchAD itself."""
RUN = "patchad bench run {suite} --data DATA --datasets {dataset}"
HEADINGS = ("table", "dataset", "metric", "rows run", "the paper", "ours", "code 1", "code 2", "random", "command")


def render_checklist(records: Sequence[Record], figures: Path | None = None) -> str:
    """Return the page `docs/paper.md`.

    Parameters
    ----------
    records
        What was measured.
    figures
        Folder with the data of figures.

    Examples
    --------
    >>> page = render_checklist([])
    >>> page.splitlines()[0], "not run" in page
    ('# The paper, piece by piece', True)
    """
    measured = Measured(records)
    return "\n".join(
        [
            *INTRODUCTION,
            *("## Tables", "", *_tables(measured), *_studies(measured), *_reasons(measured), *_datasets(), ""),
            *("## Figures", "", *_figures(), ""),
            *("## Equations", "", *_equations(), ""),
            *("## Settings", "", *_settings(), ""),
            *("## Claims", "", *_table(CLAIMS, claims(measured, FigureData(figures))), ""),
        ]
    )


INTRODUCTION = (
    "# The paper, piece by piece",
    "",
    "Every table, figure, equation, setting and claim of the paper and its appendix, with the command that makes ours,",
    "our value beside the paper's, and why they differ as far as it is known. `DATA` is the folder with the datasets.",
    "Made by",
    "",
    "```console",
    "$ patchad bench checklist docs/results/records > docs/paper.md",
    "```",
    "",
    'from the records in [results/records](results/records); "ours" is `PatchAD.paper()`, "code 1" and "code 2" are',
    "`PatchAD.code(1)` and `PatchAD.code(2)`, what the paper's [public code](method.md) computes. Lines are those of",
    "the paper's source. Values are in percent. A value after a stroke is of the same scores, measured as that code",
    "measures (protocol `code`).",
    "",
)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return [*(f"| {' | '.join(row)} |" for row in lines), ""]


def _tables(measured: Measured) -> list[str]:
    """List the comparisons: for each table, dataset and metric the row of PatchAD."""
    rows = []
    for (table, suite, dataset), group in published_in(MAIN).items():
        own = next(row for row in group if row["variant"] == "patchad-paper")
        run = sum(measured.value(suite, dataset, row["variant"], "pa_f1") is not None for row in group)
        for metric in (name for name in METRICS if name in own["values"]):
            ours = [
                measured.both(suite, dataset, variant, metric)
                for variant in ("patchad-paper", "patchad-code1", "patchad-code2", "random")
            ]
            where = f"{table}, {own['lines'][0]}"
            paper = f"{own['values'][metric]:.2f}"
            if dataset in NOT_PUBLIC:
                ours = ["data not public", "", "", ""]
            count = f"{run} of {len(group)}"
            rows.append([where, dataset, METRICS[metric], count, paper, *ours, f"`{_command(suite, dataset)}`"])
    return _table(HEADINGS, rows)


def _studies(measured: Measured) -> list[str]:
    """List the ablations and sensitivities: the range over their rows."""
    others = tuple(dict.fromkeys(row["table"] for row in published_rows() if row["table"].startswith("tab:")))
    rows = []
    for (table, suite, dataset), group in published_in([name for name in others if name not in MAIN]).items():
        for metric in ("pa_f1", "roc_auc"):
            paper = [row["values"][metric] for row in group if metric in row["values"]]
            if not paper:
                continue
            run, text = measured.spread(suite, dataset, [row["variant"] for row in group], metric)
            if dataset in NOT_PUBLIC:
                text = "data not public"
            count = f"{run} of {len(group)}"
            spread = f"{min(paper):.2f} to {max(paper):.2f}"
            where = f"{table}, {group[0]['lines'][0]}"
            rows.append([where, dataset, METRICS[metric], count, spread, text, f"`{_command(suite, dataset)}`"])
    headings = ("table", "dataset", "metric", "rows run", "the paper's range", "our range", "command")
    return _table(headings, rows)


def _reasons(measured: Measured) -> list[str]:
    reasons = {
        **{name: why.format(seeds=measured.seeds("paper-ablation")) for name, why in REASONS.items()},
        "tab:addlabel1 to 6": measured.seeds("paper-sensitivity") + ", and where steps are named, not three epochs",
        ", ".join(NOT_PUBLIC): "given out on request only",
    }
    known = {dataset for suite in SUITES for dataset in measured.datasets(suite)}
    absent = [name for name in SIZES if name not in (*known, *NOT_PUBLIC)]
    if absent:
        why = f"public (`patchad data get {absent[0]}`), but not on the machines that the records come from"
        reasons[", ".join(absent)] = why
    bullets = (f"- {name}: {why}." for name, why in reasons.items())
    wrapped = (textwrap.fill(bullet, 118, subsequent_indent="  ") for bullet in bullets)
    return ["Why they differ:", "", *wrapped, ""]


def _command(suite: str, dataset: str) -> str:
    return RUN.format(suite=suite, dataset=dataset)


SIZES = {
    "MSL": (58317, 73729, 55, 10.5),
    "SMAP": (135183, 427617, 25, 12.8),
    "PSM": (132481, 87841, 25, 27.8),
    "SWaT": (99000, 89984, 26, 12.2),
    "WADI": (241921, 34561, 123, 5.74),
    "SWAN": (60000, 60000, 38, 32.6),
    "GECCO": (69260, 69261, 9, 1.1),
}
"""The paper's table of datasets: rows of train and test, channels, percent of anomalies."""


def _datasets() -> list[str]:
    rows = []
    for name, paper in SIZES.items():
        size = DATASETS[name].size
        ours = (size.train, size.test, size.channels, size.ratio)
        why = "every fifth row of the native files" if name in NOT_PUBLIC else ""
        if name == "SWaT":
            why += "; which 26 of the 51 channels, the paper does not say"
        rows.append([name, *(f"{a} / {b}" for a, b in zip(paper, ours, strict=True)), why])
    headings = ("dataset", "train: paper / published", "test", "channels", "anomalies (%)", "why they differ")
    return ["tab:data_set, line 1063; `patchad data check DATA` compares what is there:", "", *_table(headings, rows)]


def _figures() -> list[str]:
    rows = []
    for figure in FIGURES:
        names = " ".join(figure.figures)
        command = f"`patchad bench figures {names} --data DATA --records docs/results/records`" if names else ""
        rows.append([f"{figure.label}, {figure.line}", figure.about, command, figure.verdict])
    return [
        *_table(("figure", "shows", "command", "what came of it"), rows),
        "[analysis.md](analysis.md) has them all.",
    ]


def _equations() -> list[str]:
    return _table(
        ("line", "equation", "computed in", "held by", "note"),
        [[str(one.line), one.about, f"`{one.code}`", _held(one), one.note] for one in EQUATIONS],
    )


def _held(equation: Equation) -> str:
    if equation.test:
        return f"`{equation.test}`"
    return f"`patchad bench figures {equation.figure}`" if equation.figure else ""


def _settings() -> list[str]:
    paper = PatchAD.paper()
    rows = [
        [f"`{name}`", about, f"{value}", f"{getattr(paper, name)}", f"`PatchAD.paper().{name}`"]
        for name, (about, value) in SETTINGS.items()
    ]
    rows.append(["", "one NVIDIA GTX 1080 Ti", "", "the record's `hardware`", ""])
    rows.append(
        ["`stride`", "rows between training windows", "not stated", f"{paper.stride}", "`PatchAD.paper().stride`"]
    )
    return _table(("parameter", "setting (line 1123)", "the paper", "ours", "where"), rows)
