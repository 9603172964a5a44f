"""The values that the paper published, each with the suite and the variant that reproduce it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

PublishedRow = Mapping[str, Any]
"""A row of a table of the paper for one dataset, as in `paper_results.json`."""

READINGS: Mapping[str, str] = {
    "u_time": "the paper does not say how a supervised segmentation net is used without labels",
    "itad": "written from its abstract and from descriptions by others",
    "adamembls": "written from public descriptions, and all sizes are guesses",
}
"""Detectors that are our reading of a method that the paper names, and why."""

SEARCHED = "searched_"
"""What the names of the metrics of the protocol `code` begin with."""


@cache
def published_rows() -> tuple[PublishedRow, ...]:
    """Return the values of the paper, each row with its table and lines."""
    text = files("patchad.bench").joinpath("paper_results.json").read_text(encoding="utf-8")
    return tuple(json.loads(text)["rows"])


def published_for(suite: str, dataset: str, variant: str) -> list[PublishedRow]:
    """Return what the paper published for a variant on a dataset: the suite's own table first, then others."""
    about = [row for row in published_rows() if (row["dataset"], row["variant"]) == (dataset, variant)]
    return sorted(about, key=lambda row: bool(row["suite"] != suite))


def published_in(tables: Collection[str]) -> dict[tuple[str, str, str], list[PublishedRow]]:
    """Group the rows of some of the paper's tables by table, suite and dataset."""
    groups: dict[tuple[str, str, str], list[PublishedRow]] = {}
    for row in published_rows():
        if row["table"] in tables:
            groups.setdefault((row["table"], row["suite"], row["dataset"]), []).append(row)
    return groups


def not_reproduced(suite: str, dataset: str, shown: Collection[str], known: Collection[str]) -> list[str]:
    """List the methods of the paper's table that a result table lacks, with the reasons.

    Parameters
    ----------
    suite, dataset
        Which table.
    shown
        Variants that the table shows.
    known
        Names of the registry.

    Examples
    --------
    >>> not_reproduced("paper-ucr", "UCR", ["patchad-paper", "dcdetector"], ["patchad", "dcdetector"])
    ['Not implemented: AnomalyTrans; there is no detector anomaly_transformer.']
    """
    lacking = {
        row["variant"]: row
        for row in published_rows()
        if (row["suite"], row["dataset"]) == (suite, dataset) and row["variant"] not in shown
    }
    notes = []
    for row in lacking.values():
        name = row["detector"]
        if name not in known:
            notes.append(f"Not implemented: {row['method']}; there is no detector {name}.")
    left = [variant for variant, row in lacking.items() if row["detector"] in known]
    if left:
        notes.append(f"Not in these records: {', '.join(left)}; `--detectors all` runs them.")
    return notes
