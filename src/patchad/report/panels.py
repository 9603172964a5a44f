"""The panels of a page: for each, one function that returns the data of its template.

A new panel is one template, one function here and one line in `PANELS`. A function returns None where its panel has
nothing to show. A template finds the data as `panel` and the number that makes its ids unique as `section.number`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from patchad.report.payload import CARD_CHANNELS
from patchad.report.section import Section
from patchad.report.truth import GRACE, LabelComparison
from patchad.report.wording import counted, duration, headline, zone_text
from patchad.results.detection import Event

FIRST_NAMES = 4
"""Channels that the summary names; the others are counted."""
LISTED_CHANNELS = 3
"""Most channels that the title of a card names."""
LISTED_SHARE = 0.25
"""Least share of the blame, in shares of the channel that leads, of the others named there."""
CARD_SHARES = 6
"""Channels whose shares a card lists; the others are summed up."""
CHIEF_METRICS = ("precision", "recall", "f1", "event_f1", "affiliation_f1", "roc_auc", "pr_auc", "vus_pr_opt")
"""Metrics shown at once; the others are collapsed."""
MISS_MARGIN = 100
"""Rows in view before and after a missed anomaly."""

PanelData = dict[str, Any]


def contents(sections: Sequence[Section]) -> list[PanelData]:
    """Return the table of contents; empty for a single series."""
    if len(sections) == 1:
        return []
    return [{"number": one.number, "name": one.name, "headline": _headline(one)} for one in sections]


def summary(section: Section) -> PanelData:
    """Return the headline, what was analysed, and the notes on data quality."""
    found, index = section.detection, section.detection.index
    rows, alarms, unscored = len(found.scores), int(found.alarms.sum()), int(np.isnan(found.scores).sum())
    return {
        "headline": _headline(section),
        "rows": rows,
        "channels": len(found.channels),
        "names": found.channels[:FIRST_NAMES],
        "zone": _zone(section),
        "ends": None if index is None or rows < 2 else [section.moment(row) for row in (0, rows - 1)],
        "step": duration(section.axis.step, section.axis.kind),
        "alarms": alarms,
        "alarm_share": alarms / max(rows, 1),
        "notes": found.notes,
        "unscored": unscored,
        "comparison": None if section.comparison is None else section.comparison.summary,
    }


def timeline(section: Section) -> PanelData:
    """Return what the legend of the timeline explains; the numbers it draws are in the payload."""
    return {
        "events": bool(section.listed),
        "labels": section.comparison is not None,
        "raw": section.detection.observed is not None,
        "zone": _zone(section),
    }


def events(section: Section) -> PanelData | None:
    """Return one card for each listed event, and how many more there are."""
    if not section.listed:
        return None
    cards = [_card(section, rank, number) for rank, number in enumerate(section.listed)]
    return {
        "cards": cards,
        "widest": max(len(card["start"]) for card in cards) + len(f"{len(cards)}. "),
        "expected": bool(section.detection.expected),
        "unlisted": len(section.detection.events) - len(section.listed),
    }


def label_comparison(section: Section) -> PanelData | None:
    """Return the missed anomalies and the metrics, where there are labels."""
    comparison = section.comparison
    if comparison is None:
        return None
    chief = [name for name in CHIEF_METRICS if name in comparison.metrics]
    return {
        "summary": comparison.summary,
        "grace": GRACE,
        "missed": [_missed(section, *run) for run in comparison.missed[: section.budget.events]],
        "chief_metrics": _metrics(comparison, chief),
        "other_metrics": _metrics(comparison, [name for name in comparison.metrics if name not in chief]),
        "unscored": comparison.unscored,
    }


KINDS = {
    "anomaly": ("", ""),
    "stuck": ("stuck", "The value does not change."),
    "missing": ("missing", "There are no values."),
    "range": ("out of range", "The value is far outside the range of train."),
    "regime": ("new regime", "It lasts and has become steady: what is normal has changed. If it should, fit again."),
}
"""What the page says of the kind of an event: a tag, and a sentence."""

PANELS: tuple[tuple[str, Callable[[Section], PanelData | None]], ...] = (
    ("summary.html", summary),
    ("timeline.html", timeline),
    ("events.html", events),
    ("label_comparison.html", label_comparison),
)
"""Template and function of every panel of a series, in the order of the page."""


def _card(section: Section, rank: int, number: int) -> PanelData:
    """Return the title and the inside of a card; `hit` is None without labels."""
    detection, event = section.detection, section.detection.events[number]
    named = [(name, share) for name, share in event.channels if share >= LISTED_SHARE * event.channels[0][1]]
    others = event.channels[CARD_SHARES:]
    drawn = [name for name, _ in event.channels[:CARD_CHANNELS] if section.raw_values(name) is not None]
    tag, told = KINDS[event.kind]
    return {
        "start": section.moment(event.start),
        "stop": section.moment(event.stop - 1),
        "duration": _duration(section, event),
        "severity": event.severity,
        "blamed": named[:LISTED_CHANNELS],
        "hit": None if section.comparison is None else section.comparison.true_events[number],
        "kind": tag,
        "told": told,
        "repeats": event.repeats,
        "peak": section.moment(event.peak),
        "score": event.peak_score,
        "level": detection.levels[event.peak],
        "channels": event.channels[:CARD_SHARES],
        "others": len(others),
        "others_share": sum(share for _, share in others),
        "curves": drawn if rank < section.budget.curves else [],
    }


def _missed(section: Section, start: int, stop: int) -> PanelData:
    first, last = max(start - MISS_MARGIN, 0), min(stop + MISS_MARGIN, len(section.detection.scores))
    return {"start": section.moment(start), "rows": stop - start, "view": section.axis.span(first, last)}


def _metrics(comparison: LabelComparison, names: Sequence[str]) -> list[tuple[str, float, float]]:
    return [(name, comparison.metrics[name], comparison.random_metrics[name]) for name in names]


def _duration(section: Section, event: Event) -> str:
    rows, kind = counted(len(event), "row"), section.axis.kind
    if kind not in ("date", "seconds"):
        return rows
    start, stop = section.axis.span(event.start, event.stop)
    return f"{duration(stop - start, kind)} ({rows})"


def _headline(section: Section) -> tuple[str, str | None]:
    return headline(section.detection, section.moment)


def _zone(section: Section) -> str | None:
    axis = section.axis
    return None if axis.zone is None else zone_text(axis.zone, axis.offsets)
