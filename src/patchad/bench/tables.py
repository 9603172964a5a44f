"""Result tables as Markdown, CSV or LaTeX, made from records and the paper's published values only."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from patchad.bench.cells import all_variants, parameters_of, same_parameters
from patchad.bench.paper import READINGS, SEARCHED, PublishedRow, not_reproduced, published_for
from patchad.bench.records import Record
from patchad.bench.statistics import Estimate, estimate_mean
from patchad.bench.suites import SUITES, Variant
from patchad.datasets.catalogue import DATASETS
from patchad.datasets.tsb_ad import family_of
from patchad.detectors.patchad import PatchAD
from patchad.detectors.pretrained import pretrained_origin
from patchad.detectors.registry import DETECTORS
from patchad.errors import InputError
from patchad.model.pretrained import SHIPPED, WITHOUT, seen_families

Format = Literal["markdown", "csv", "latex"]

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "open": {
        "vus_pr_opt": "VUS-PR",
        "pr_auc": "PR-AUC",
        "roc_auc": "ROC-AUC",
        "f1": "F1",
        "affiliation_f1": "Aff-F1",
        "event_f1": "event F1",
        "delay_median": "delay (rows)",
        "false_events_per_10k": "false events / 10k",
        "peak_hit": "highest peak hits",
    },
    "tsb-ad": {
        "vus_pr_period": "VUS-PR",
        "vus_roc_period": "VUS-ROC",
        "pr_auc": "PR-AUC",
        "roc_auc": "ROC-AUC",
        "oracle_f1": "oracle F1",
        "oracle_pa_f1": "oracle PA-F1",
        "oracle_affiliation_f1": "oracle Aff-F1",
    },
    "paper": {
        "pa_accuracy": "PA-Acc",
        "pa_precision": "PA-P",
        "pa_recall": "PA-R",
        "pa_f1": "PA-F1",
        "oracle_pa_f1": "oracle PA-F1",
        "roc_auc": "AUC",
        "f1": "F1-cls",
        "oracle_f1": "oracle F1",
        "affiliation_f1": "Aff-F1",
        "vus_roc_legacy": "V-ROC",
        "vus_pr_legacy": "V-PR",
    },
    "code": {
        "searched_share": "alarms",
        "searched_pa_accuracy": "PA-Acc",
        "searched_pa_precision": "PA-P",
        "searched_pa_recall": "PA-R",
        "searched_pa_f1": "PA-F1",
        "searched_roc_auc": "AUC (0/1)",
        "searched_f1": "F1-cls",
        "searched_affiliation_f1": "Aff-F1 (swapped)",
        "searched_vus_roc_legacy": "V-ROC (0/1)",
        "searched_vus_pr_legacy": "V-PR (0/1)",
    },
    "cost": {
        "n_parameters": "parameters",
        "flops": "FLOPs",
        "latency_ms": "latency (ms)",
        "step_ms": "step (ms)",
        "epoch_seconds": "epoch (s)",
    },
}
"""Metrics that a table shows, in this order, with their headings."""
RESOURCES = {
    "fit_seconds": "fit (s)",
    "score_seconds": "score (s)",
    "n_parameters": "parameters",
    "peak_memory": "peak memory (MB)",
}
"""Measured fields of a record besides its metrics; tables of the protocols `open` and `tsb-ad` show them, too."""
ORDER = {"open": "vus_pr_opt", "tsb-ad": "vus_pr_period"}
"""By protocol, the metric that sorts its tables, best first."""
PLAIN = {"delay_median", "delay_mean", "false_events_per_10k", *COLUMNS["cost"], *RESOURCES}
"""Metrics that are not shares and are never shown in percent."""
WHOLE = {"n_parameters", "peak_memory"}
"""Metrics shown without decimals."""
UNITS = {
    "open": "between 0 and 1; delays in rows",
    "tsb-ad": "between 0 and 1",
    "paper": "in percent",
    "code": "in percent, measured as the paper's public code does: alarms of a threshold searched against the labels",
}
PERCENT = ("paper", "code")
"""Protocols whose tables are in percent and show what the paper published."""
LEGEND = (
    "`a [b, c]`: mean over entities with a 95 % bootstrap interval, seeds averaged first. "
    "`a ± b`: mean and standard deviation over the seeds of one entity."
)


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A row of a table: our values, or the paper's."""

    label: str
    source: Literal["ours", "paper"]
    entities: int
    seeds: int
    values: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class ResultTable:
    """The results of one suite and protocol on one dataset, or on several together."""

    suite: str
    protocol: str
    dataset: str
    columns: Mapping[str, str]
    rows: tuple[ResultRow, ...]
    notes: tuple[str, ...]


def render(records: Sequence[Record], format: Format = "markdown") -> str:  # noqa: A002 - the option's name
    """Render all tables of these records.

    Examples
    --------
    >>> cell = {"suite": "s", "protocol": "open", "dataset": "d", "entity": "e", "parameters": {}, "seed": 0}
    >>> print(render([cell | {"detector": "lof", "metrics": {"vus_pr_opt": 0.5}}], "csv").splitlines()[1])
    s,open,d,lof,ours,vus_pr_opt,0.5,0.5,0.5,seeds,1,1
    """
    if not records:
        raise InputError("there are no records to tabulate; run `patchad bench run` first")
    writers = {"markdown": _markdown, "csv": _csv, "latex": _latex}
    if format not in writers:
        raise InputError(f"there is no format {format!r}; use markdown, csv or latex")
    return writers[format](make_tables(records), records)


def make_tables(records: Sequence[Record]) -> list[ResultTable]:
    """Make one table of each group of records."""
    return [_table(suite, protocol, name, group) for suite, protocol, name, group in grouped(records)]


def grouped(records: Sequence[Record]) -> Iterator[tuple[str, str, str, list[Record]]]:
    """Yield suite, protocol, name and records of each dataset; for `open`, several datasets together come first."""
    groups: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for record in records:
        by_dataset = groups.setdefault((str(record["suite"]), str(record["protocol"])), {})
        by_dataset.setdefault(str(record["dataset"]), []).append(record)
    for (suite, protocol), by_dataset in groups.items():
        if protocol == "open" and len(by_dataset) > 1:
            for name, datasets in _groups(tuple(by_dataset)).items():
                yield suite, protocol, name, [record for dataset in datasets for record in by_dataset[dataset]]
        for dataset, group in by_dataset.items():
            yield suite, protocol, dataset, group


def _groups(datasets: Sequence[str]) -> dict[str, list[str]]:
    """Group datasets to average over: all; and, if there are both, those with many channels and with one."""
    one = [name for name in datasets if name in DATASETS and DATASETS[name].size.channels == 1]
    many = [name for name in datasets if name in DATASETS and DATASETS[name].size.channels > 1]
    by_width = {"datasets with many channels": many, "datasets with one channel": one} if one and many else {}
    return {"all datasets": list(datasets), **by_width}


def _table(suite: str, protocol: str, dataset: str, records: Sequence[Record]) -> ResultTable:
    used = [record for record in records if "skipped" not in record["metrics"]]
    columns = _columns(suite, protocol, used)
    rows: list[ResultRow] = []
    rows_of = labelled(suite, protocol, records)
    for label, variant, group in rows_of:
        known = {row.label for row in rows}
        if protocol in PERCENT:  # published values mean nothing under another
            rows += [row for row in _paper_rows(suite, dataset, variant, columns) if row.label not in known]
        rows.append(_row(label, [record for record in group if "skipped" not in record["metrics"]]))
    order = ORDER.get(protocol)
    if order is not None:
        rows.sort(key=lambda row: -row.values[order].mean if order in row.values else 1.0)
    notes = sorted(
        {f"{r['dataset']} {r['entity']} left out: {r['metrics']['skipped']}" for r in records if r not in used}
    )
    if not any(record["detector"] == "random" for record in records) and not _is_cost(suite):
        notes.append("No random-score row: these records have none; run the suite with `--detectors random` as well.")
    if protocol in PERCENT:
        notes += not_reproduced(suite, dataset, {variant.name for _, variant, _ in rows_of if variant}, DETECTORS)
    shown = {str(record["detector"]) for record in records}
    notes += [f"{name} is our reading of the method: {why}." for name, why in READINGS.items() if name in shown]
    saw = dict.fromkeys(_family(record) for record in used if _saw(record))
    notes += [f"{name}: the weights of `PatchAD()` saw its train part; `--weights` names others." for name in saw]
    return ResultTable(suite, protocol, dataset, columns, tuple(rows), tuple(notes))


def _family(record: Record) -> str:
    return family_of(str(record["dataset"]), str(record["entity"]))


def _saw(record: Record) -> bool:
    """Return whether a net was pretrained on the family that it is judged by."""
    given = record["parameters"]
    if record["detector"] != "patchad" or given.get("weights") != SHIPPED or _family(record) not in seen_families():
        return False
    changed: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in given.items()}
    return pretrained_origin(PatchAD(**changed)) is not None


def _columns(suite: str, protocol: str, records: Sequence[Record]) -> dict[str, str]:
    present = dict.fromkeys(name for record in records for name in record["metrics"])
    known = COLUMNS["cost"] if _is_cost(suite) else COLUMNS.get(protocol, {})
    if protocol in ORDER:
        known = {**known, **RESOURCES}
        present |= {name: None for name in RESOURCES if any(record.get(name) is not None for record in records)}
    shown = {name: heading for name, heading in known.items() if name in present}
    return shown or {name: name for name in present}


def _is_cost(suite: str) -> bool:
    return suite in SUITES and SUITES[suite].cost


def labelled(suite: str, protocol: str, records: Sequence[Record]) -> list[tuple[str, Variant | None, list[Record]]]:
    """Group records into rows with labels: the suite's variants in order, other detectors, then unknown parameters."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        key = json.dumps([record["detector"], record["parameters"]], sort_keys=True)
        groups.setdefault(key, []).append(record)
    found: list[tuple[str, Variant | None, list[Record]]] = []
    named: set[str] = set()
    for variant in all_variants(SUITES[suite]) if suite in SUITES else ():
        wanted = [_known_parameters(variant, protocol, many=many) for many in (False, True)]
        rows: dict[str, list[Record]] = {}
        for key, group in groups.items():
            if group[0]["detector"] == variant.detector and any(_same(group[0], one) for one in wanted):
                named.add(key)
                rows.setdefault(_label(variant, group[0]["parameters"], wanted[0]), []).extend(group)
        found += [(label, variant, group) for label, group in rows.items()]
    for key, group in groups.items():
        if key not in named:
            found.append((_plain_label(group[0], groups), None, group))
    return found


def _known_parameters(variant: Variant, protocol: str, *, many: bool) -> dict[str, Any]:
    try:
        return parameters_of(variant, protocol, None, many=many)
    except KeyError:  # records of a protocol unknown here
        return {}


def _same(record: Record, wanted: Mapping[str, Any]) -> bool:
    """Compare parameters, ignoring a training bound that was only set for want of a GPU."""
    given = dict(record["parameters"] or _defaults(record["detector"]))
    if str(given.get("weights")).startswith(WITHOUT):  # another file for each family, made in the same way
        given["weights"] = SHIPPED
    return same_parameters(given, wanted, ("max_steps",) if wanted.get("max_steps", 0) is None else ())


@cache
def _defaults(detector: str) -> dict[str, Any]:
    """Return the constructor's defaults, for parameters that a record does not name."""
    return parameters_of(Variant(detector, detector), "open", None) if detector in DETECTORS else {}


def _label(variant: Variant, parameters: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    name = variant.name if variant.name.startswith(variant.detector) else f"{variant.detector} {variant.name}"
    name = _read(name)
    bound = parameters.get("max_steps")
    return f"{name} (max_steps={bound})" if bound is not None and wanted.get("max_steps", 0) is None else name


def _read(name: str) -> str:
    return f"{name} (our reading)" if name in READINGS else name


def _plain_label(record: Record, groups: Mapping[str, Sequence[Record]]) -> str:
    """Name a row by its detector and, if that has several rows, by the parameters that differ from the defaults."""
    name = _read(str(record["detector"]))
    if sum(group[0]["detector"] == record["detector"] for group in groups.values()) == 1:
        return name
    defaults = _defaults(record["detector"])
    changed = {
        key: value for key, value in record["parameters"].items() if key not in defaults or defaults[key] != value
    }
    return f"{name} ({', '.join(f'{key}={value}' for key, value in changed.items()) or 'default'})"


# -- rows ------------------------------------------------------------------------------------------------------------


def _row(label: str, records: Sequence[Record]) -> ResultRow:
    names = dict.fromkeys([*(name for record in records for name in record["metrics"]), *RESOURCES])
    entities = {(record["dataset"], record["entity"]) for record in records}
    values = {name: found for name in names if (found := estimate_mean(records, name)) is not None}
    return ResultRow(label, "ours", len(entities), len({record["seed"] for record in records}), values)


def _paper_rows(suite: str, dataset: str, variant: Variant | None, columns: Mapping[str, str]) -> list[ResultRow]:
    """Return the published rows of a variant: the suite's own table first, then what others add or contradict."""
    rows: list[ResultRow] = []
    shown: set[tuple[str, float]] = set()
    for published in published_for(suite, dataset, variant.name) if variant else ():
        named = {_named(name, columns): value for name, value in published["values"].items()}
        fresh = {n: v for n, v in named.items() if n in columns and (n, v) not in shown}
        if fresh:
            shown.update(fresh.items())
            rows.append(_paper_row(published, fresh))
    return rows


def _named(name: str, columns: Mapping[str, str]) -> str:
    """Return the column that a published value stands in."""
    return name if name in columns else SEARCHED + name


def _paper_row(published: PublishedRow, values: Mapping[str, float]) -> ResultRow:
    shares = {name: value if name in PLAIN else value / 100 for name, value in values.items()}
    label = f"the paper: {published['method']} ({published['table']}, line {published['lines'][0]})"
    return ResultRow(label, "paper", 0, 0, {n: Estimate(v, v, v, 0, "seeds") for n, v in shares.items()})


# -- formats ---------------------------------------------------------------------------------------------------------


def _cell(name: str, row: ResultRow, protocol: str, plus_minus: str = "±") -> str:
    found = row.values.get(name)
    if found is None:
        return ""
    scale, decimals = (100.0, 2) if protocol in PERCENT and name not in PLAIN else (1.0, 3)
    if name in PLAIN:
        scale = 1e-6 if name == "peak_memory" else 1.0
        decimals = 0 if name in WHOLE or abs(found.mean) >= 1000 else 2

    def number(value: float) -> str:
        return f"{scale * value:,.{decimals}f}"

    if row.source == "paper" or found.count < 2 or name in RESOURCES:
        return number(found.mean)
    if found.over == "seeds":
        return f"{number(found.mean)} {plus_minus} {number(found.high - found.mean)}"
    return f"{number(found.mean)} [{number(found.low)}, {number(found.high)}]"


def _markdown(tables: Sequence[ResultTable], records: Sequence[Record]) -> str:
    lines: list[str] = []
    for table in tables:
        unit = "as measured" if _is_cost(table.suite) else UNITS.get(table.protocol, "as recorded")
        lines += [f"## {table.suite}: {table.dataset}, protocol {table.protocol}", "", f"Values {unit}.", ""]
        lines.append(f"| detector | entities | seeds | {' | '.join(table.columns.values())} |")
        lines.append("| --- | ---: | ---: |" + " ---: |" * len(table.columns))
        for row in table.rows:
            counts = [str(row.entities), str(row.seeds)] if row.source == "ours" else ["", ""]
            cells = [_cell(name, row, table.protocol) for name in table.columns]
            lines.append("| " + " | ".join([row.label, *counts, *cells]) + " |")
        lines += ["", *(f"- {note}" for note in table.notes), *([""] if table.notes else [])]
    lines += [LEGEND, "", *_provenance(records)]
    return "\n".join(lines) + "\n"


def _provenance(records: Sequence[Record]) -> list[str]:
    machines = dict.fromkeys(str(record.get("hardware", "unknown")) for record in records)
    libraries = dict.fromkeys(
        ", ".join(f"{name} {number}" for name, number in sorted((record.get("versions") or {}).items()))
        for record in records
    )
    fits = {(r.get("fit_seconds") or 0.0, r.get("score_seconds") or 0.0) for r in records}  # some records share a fit
    seconds = sum(fit + score for fit, score in fits)
    return [
        f"Made from {len(records)} records; fit and score took {seconds / 60:.1f} minutes in all.",
        f"Hardware: {'; '.join(machines)}. Versions: {'; '.join(libraries) or 'unknown'}.",
    ]


def _csv(tables: Sequence[ResultTable], records: Sequence[Record]) -> str:  # noqa: ARG001 - the tables are enough
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heading = "suite,protocol,dataset,detector,source,metric,mean,low,high,spread_over,entities,seeds"
    writer.writerow(heading.split(","))
    for table in tables:
        for row in table.rows:
            for name, found in row.values.items():
                values = [f"{value:.10g}" for value in (found.mean, found.low, found.high)]
                where = (table.suite, table.protocol, table.dataset, row.label, row.source, name)
                writer.writerow([*where, *values, found.over, row.entities, row.seeds])
    return text.getvalue()


def _latex(tables: Sequence[ResultTable], records: Sequence[Record]) -> str:  # noqa: ARG001
    lines: list[str] = []
    for table in tables:
        lines += [r"\begin{table}", r"\centering", rf"\caption{{{_tex(f'{table.suite}: {table.dataset}')}}}"]
        lines += [rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}", r"\toprule"]
        lines.append(" & ".join(map(_tex, ["detector", *table.columns.values()])) + r" \\")
        lines.append(r"\midrule")
        for row in table.rows:
            cells = [_cell(name, row, table.protocol, r"$\pm$") for name in table.columns]
            lines.append(" & ".join([_tex(row.label), *cells]) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join(lines)


def _tex(text: str) -> str:
    for sign in "&%$#_{}":
        text = text.replace(sign, "\\" + sign)
    return text
