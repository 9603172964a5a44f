"""What was measured, for the checklist of the paper: values of records, and of the data of figures."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from patchad.bench.paper import SEARCHED
from patchad.bench.records import Record
from patchad.bench.tables import PLAIN, ResultRow, make_tables

NOT_RUN = "not run"
METRICS = {
    "pa_f1": "PA-F1",
    "roc_auc": "AUC",
    "f1": "F1-cls",
    "affiliation_f1": "Aff-F1",
    "vus_roc_legacy": "V-ROC",
    "vus_pr_legacy": "V-PR",
}
"""Metrics of the paper's tables, with its names."""
NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


class Measured:
    """Our values, by suite, dataset and variant."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._rows: dict[tuple[str, str, str, str], ResultRow] = {}
        bounded: dict[tuple[str, str, str, str], ResultRow] = {}
        for table in make_tables([record for record in records if str(record["suite"]).startswith("paper-")]):
            for row in table.rows:
                if row.source == "ours":
                    name = row.label.split(" (")[0]
                    rows = self._rows if _bound(row) is None else bounded
                    for key in (name, name.removeprefix("patchad ")):
                        rows.setdefault((table.suite, table.protocol, table.dataset, key), row)
        self._bounded = bounded
        self._rows = bounded | self._rows  # a whole training counts before a short one

    def value(self, suite: str, dataset: str, variant: str, metric: str, protocol: str = "paper") -> float | None:
        """Return the mean over entities and seeds, shares in percent; None where it was not run."""
        row = self._rows.get((suite, protocol, dataset, variant))
        found = None if row is None else row.values.get(metric)
        if found is None:
            return None
        return found.mean if metric in PLAIN else 100 * found.mean

    def text(self, suite: str, dataset: str, variant: str, metric: str, protocol: str = "paper") -> str:
        """Return the value for a cell of a table, with the steps of a training that was cut short."""
        found = self.value(suite, dataset, variant, metric, protocol)
        if found is None:
            return NOT_RUN
        steps = _bound(self._rows[suite, protocol, dataset, variant])
        return f"{found:.2f}" if steps is None else f"{found:.2f} ({steps} steps)"

    def spread(self, suite: str, dataset: str, variants: Sequence[str], metric: str) -> tuple[int, str]:
        """Return how many of these variants were run, and from where to where their values lie.

        Trainings that were cut short are compared with each other, where not all of the variants have a whole one.
        """
        found = {
            (suite, "paper", dataset, variant): self.value(suite, dataset, variant, metric) for variant in variants
        }
        known = {key: value for key, value in found.items() if value is not None}
        if not known:
            return 0, NOT_RUN
        short = {_bound(self._rows[key]) for key in known} - {None}
        if short:
            rows = (self._bounded.get(key, self._rows[key]).values[metric] for key in known)
            values = [row.mean if metric in PLAIN else 100 * row.mean for row in rows]
        else:
            values = list(known.values())
        steps = "".join(f" ({number} steps)" for number in sorted(short, key=str))
        return len(known), f"{min(values):.2f} to {max(values):.2f}{steps}"

    def both(self, suite: str, dataset: str, variant: str, metric: str) -> str:
        """Return the value and, after a stroke, that of the same scores as the paper's code measures them."""
        searched = self.text(suite, dataset, variant, SEARCHED + metric, "code")
        plain = self.text(suite, dataset, variant, metric)
        return plain if searched == NOT_RUN else f"{plain} / {searched}"

    def datasets(self, suite: str, variant: str = "patchad-paper") -> list[str]:
        """Name the datasets that a variant was run on."""
        return [key[2] for key in self._rows if key[0] == suite and key[1] == "paper" and key[3] == variant]

    def seeds(self, suite: str) -> str:
        """Say with how many seeds a suite was run: the fewest and the most of its rows of PatchAD."""
        found = {row.seeds for key, row in self._rows.items() if key[0] == suite and row.label.startswith("patchad")}
        if not found:
            return NOT_RUN
        fewest, most = (NUMBERS.get(number, f"{number}") for number in (min(found), max(found)))
        return f"{fewest} seed{'' if max(found) == 1 else 's'}" if fewest == most else f"{fewest} to {most} seeds"


def _bound(row: ResultRow) -> int | None:
    """Return the number of steps that a training was bounded to for want of a GPU."""
    found = re.search(r"\(max_steps=(\d+)\)", row.label)
    return int(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class FigureData:
    """The data of figures, as `patchad bench figures` writes them."""

    folder: Path | None = None
    """Where the CSV files are."""
    _read: dict[str, list[dict[str, str]]] = field(default_factory=dict, repr=False)

    def rows(self, figure: str, **where: float | str) -> list[dict[str, str]]:
        """Return the rows of a figure in which columns have these values; none where there is no file."""
        if figure not in self._read:
            path = None if self.folder is None else self.folder / f"{figure}.csv"
            known = path is not None and path.exists()
            text = path.read_text(encoding="utf-8").splitlines() if path is not None and known else []
            self._read[figure] = list(csv.DictReader(text))
        return [row for row in self._read[figure] if all(_same(row[name], value) for name, value in where.items())]

    def values(self, figure: str, column: str, **where: float | str) -> list[float]:
        """Return a column of those rows, without empty cells."""
        return [float(row[column]) for row in self.rows(figure, **where) if row[column]]

    def last(self, figure: str, column: str, **where: float | str) -> list[float]:
        """Return a column of those rows at the last step of a training."""
        steps = self.values(figure, "step", **where)
        return self.values(figure, column, step=max(steps), **where) if steps else []


@cache
def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _same(text: str, value: float | str) -> bool:
    return text == value if isinstance(value, str) else _number(text) == value


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None of nothing.

    Examples
    --------
    >>> mean([1.0, 2.0]), mean([])
    (1.5, None)
    """
    return sum(values) / len(values) if values else None


def filled(text: str, values: Mapping[str, float | None]) -> str:
    """Fill values into a text; `NOT_RUN` where one is missing.

    Examples
    --------
    >>> filled("{a:.1f} M", {"a": 2.0}), filled("{a:.1f} M", {"a": None})
    ('2.0 M', 'not run')
    """
    return NOT_RUN if None in values.values() else text.format(**values)
