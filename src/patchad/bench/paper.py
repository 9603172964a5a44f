"""What the paper says: its figures, each with the detector here that it is to be held against."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

Figure = Mapping[str, Any]

ABSENT: Mapping[str, str] = {
    "adamembls": "neither its text nor its code was at hand, and a guess at it would be no comparison",
}
"""Why a method of the paper, by the name it would have in the registry, is not there."""


@cache
def paper_figures() -> tuple[Figure, ...]:
    """Give the figures of the paper, each with its table and line."""
    text = files("patchad.bench").joinpath("paper_results.json").read_text(encoding="utf-8")
    return tuple(json.loads(text)["figures"])


def figures_of(suite: str, dataset: str, row: str) -> list[Figure]:
    """Give what the paper says of a row on a dataset: the suite's own table first, then others."""
    about = [figure for figure in paper_figures() if (figure["dataset"], figure["variant"]) == (dataset, row)]
    return sorted(about, key=lambda figure: bool(figure["suite"] != suite))


def without_row(suite: str, dataset: str, shown: Collection[str], known: Collection[str]) -> list[str]:
    """Say which methods of the paper's table have no row of ours, and why.

    Parameters
    ----------
    suite, dataset
        Which table.
    shown
        Rows that are there.
    known
        Names of the registry.

    Examples
    --------
    >>> without_row("paper-ucr", "UCR", ["patchad-paper", "dcdetector"], ["patchad", "dcdetector"])
    ['No row of ours for AnomalyTrans: there is no detector anomaly_transformer.']
    """
    lacking = {
        figure["variant"]: figure
        for figure in paper_figures()
        if (figure["suite"], figure["dataset"]) == (suite, dataset) and figure["variant"] not in shown
    }
    notes = []
    for figure in lacking.values():
        name = figure["detector"]
        if name not in known:
            notes.append(f"No row of ours for {figure['method']}: {ABSENT.get(name, f'there is no detector {name}')}.")
    left = [row for row, figure in lacking.items() if figure["detector"] in known]
    if left:
        notes.append(f"Rows of the paper that these records lack: {', '.join(left)}; `--detectors all` runs them.")
    return notes
