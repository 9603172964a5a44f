"""The page of a fleet: incidents, and a small chart of every series, worst first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import PackageLoader

from patchad.fleet.incidents import Incident
from patchad.fleet.results import Result
from patchad.report.page import TEMPLATES, asset, policy_of

PACKAGE = "patchad.fleet"
"""Where the page's templates are."""
MOST_SERIES = 2_000
"""Series on the page."""
MOST_INCIDENTS = 100
MOST_NAMES = 8
"""Series that are named of an incident."""
HEIGHT = 24.0
"""Of a chart."""


def render_fleet(results: Sequence[Result], incidents: Sequence[Incident], reports: Mapping[str, str]) -> bytes:
    """Return the page of a fleet.

    Parameters
    ----------
    results
        Of all series.
    incidents
        Of all series, too; those of several series are shown.
    reports
        Addresses of the reports that there are, by series.
    """
    script = asset("fleet.js", PACKAGE)
    worst = sorted(results, key=lambda one: (-(one.worst_severity or (0.5 if one.error else 0)), one.series))
    shared = [one for one in incidents if len(one.series) > 1]
    return (
        TEMPLATES.overlay(loader=PackageLoader(PACKAGE))
        .get_template("fleet.html")
        .render(
            title="PatchAD fleet",
            policy=policy_of([script]),
            style=asset("page.css") + asset("fleet.css", PACKAGE),
            summary=_summary(results, shared),
            incidents=[_incident(one) for one in shared[:MOST_INCIDENTS]],
            series=[_series(one, reports.get(one.series, "")) for one in worst[:MOST_SERIES]],
            left_out=max(len(worst) - MOST_SERIES, 0),
            script=script,
        )
        .encode()
    )


def _summary(results: Sequence[Result], shared: Sequence[Incident]) -> str:
    done = [one for one in results if not one.error]
    events, eventful = sum(len(one.events) for one in done), sum(bool(one.events) for one in done)
    text = (
        f"{_counted(events, 'event')} in {eventful:,} of {len(done):,} series, {sum(one.rows for one in done):,} rows"
    )
    unlikely = sum(one.unlikely for one in shared)
    text += f"; {_counted(len(shared), 'incident')} of several series"
    text += f", {unlikely:,} of them more than chance" if shared else ""
    failed = len(results) - len(done)
    return text + (f"; {failed:,} could not be judged" if failed else "") + "."


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _incident(one: Incident) -> dict[str, Any]:
    told = [f"{name} {value}" for name, value in one.shared.items()]
    told += [f"{name} leads in {count}" for name, count in one.channels if count > 1]
    return {
        "start": str(one.start).replace("T", " "),
        "stop": str(one.stop).replace("T", " "),
        "count": len(one.series),
        "names": ", ".join(one.series[:MOST_NAMES]),
        "more": max(len(one.series) - MOST_NAMES, 0),
        "severity": f"{one.severity:.0f}",
        "shared": ", ".join([*told, *([] if one.unlikely else ["perhaps nothing: it may be chance"])]),
    }


def _series(one: Result, report: str) -> dict[str, Any]:
    groups = ", ".join(f"{name} {value}" for name, value in one.groups.items())
    count = len(one.events)
    told = _counted(count, "event") if count else "no event"
    told += f", worst {one.worst_severity:.0f}" if one.worst_severity is not None else ""
    top = max(max(one.outline, default=0.0), 1.2)
    wide = 96 / max(len(one.outline) - 1, 1)
    heights = [HEIGHT * (1 - min(max(value, 0.0) / top, 1.0)) for value in one.outline]
    return {
        "name": one.series,
        "text": f"{one.series} {groups}",
        "events": count,
        "report": report,
        "error": one.error,
        "groups": groups,
        "told": f"{told}; {one.rows:,} rows",
        "label": f"highest scores of {one.series}; the line is the level",
        "level": f"{HEIGHT * (1 - 1 / top):.1f}",
        "points": " ".join(f"{number * wide:.1f},{height:.1f}" for number, height in enumerate(heights)),
    }
