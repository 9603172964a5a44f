"""How much better a row of a table is than the others, entity by entity, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from patchad.bench.records import Record
from patchad.bench.statistics import Estimate, estimate_difference
from patchad.bench.tables import grouped, labelled
from patchad.errors import InputError, listed

COMPARED: Mapping[str, Mapping[str, str]] = {
    "open": {"vus_pr_opt": "VUS-PR", "event_f1": "event F1", "peak_hit": "highest peak hits"},
    "tsb-ad": {"vus_pr_period": "VUS-PR"},
}
"""By protocol, the metrics that are compared: those of joined datasets, one entity each, tell no difference."""


def render_differences(records: Sequence[Record], row: str) -> str:
    """Write, as Markdown, what a row has more than each other one, for each dataset and for several together.

    Parameters
    ----------
    records
        Of suites with the protocol `open` or `tsb-ad`; others are left out.
    row
        A row by its label in the tables of these records.
    """
    parts, known = [], dict.fromkeys("")
    for suite, protocol, name, group in grouped(records):
        rows = {label: _judged(own) for label, _, own in labelled(suite, protocol, group)}
        known |= dict.fromkeys(rows)
        if protocol in COMPARED and row in rows:
            parts.append(_part(f"## {suite}: {name}, {row} minus each other row", rows, row, COMPARED[protocol]))
    if not parts:
        protocols, rows_are = listed(tuple(COMPARED)), listed(tuple(known), 100)
        raise InputError(f"no table of the protocols {protocols} has a row {row!r}; rows are {rows_are}")
    legend = "`a [b, c]`: mean difference over the entities that both rows have, with a 95 % bootstrap interval."
    return "\n\n".join([*parts, legend]) + "\n"


def _judged(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if "skipped" not in record["metrics"]]


def _part(title: str, rows: Mapping[str, Sequence[Record]], row: str, metrics: Mapping[str, str]) -> str:
    shown = {key: heading for key, heading in metrics.items() if any(key in one["metrics"] for one in rows[row])}
    lines = [f"| other row | entities | {' | '.join(shown.values())} |", "| --- | ---: |" + " ---: |" * len(shown)]
    for label, group in rows.items():
        found = [estimate_difference(rows[row], group, key) for key in shown]
        if label != row and found and found[0] is not None:
            lines.append(f"| {label} | {found[0].count} | {' | '.join(map(_cell, found))} |")
    return "\n".join([title, "", *lines])


def _cell(found: Estimate | None) -> str:
    return "" if found is None else f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
