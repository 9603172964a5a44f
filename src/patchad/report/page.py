"""Detections to one self-contained HTML page: a verdict, a timeline, and a list and a card for every event.

The page carries plotly's JavaScript from the installed package and asks no network for anything. Names of channels and
series come from strangers: they are escaped, and the page's policy lets no script run but the two written here.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from patchad.report.payload import LANES, Axis, Budget, bands, card, timeline
from patchad.report.truth import GRACE, Comparison, compare
from patchad.results.detection import Detection, Event, by_severity, time_text

MOST_SENSORS = 6
"""Channels that a card names."""
CHIEF_METRICS = ("precision", "recall", "f1", "event_f1", "affiliation_f1", "roc_auc", "pr_auc", "vus_pr_opt")
"""Metrics that are seen at once; the others are folded away."""


@dataclass(frozen=True, slots=True, eq=False)
class Chapter:
    """One series of a page."""

    name: str
    """What to call it; empty where it is the only one."""
    detection: Detection
    truth: Comparison | None = None
    """How the events compare with labels, where there are any."""

    @classmethod
    def of(cls, name: str, detection: Detection, labels: ArrayLike | None = None) -> Chapter:
        """Make a chapter; labels are 1 or True where a row is anomalous."""
        return cls(name, detection, None if labels is None else compare(detection, labels))


def render_page(chapters: Sequence[Chapter], title: str = "PatchAD report") -> bytes:
    """Make one page for one or several series."""
    from plotly.offline import get_plotlyjs

    budget = Budget().shared_by(len(chapters)) if len(chapters) > 1 else Budget()
    body = [*_contents(chapters)] if len(chapters) > 1 else []
    for number, chapter in enumerate(chapters):
        body.extend(_Section(number, chapter, budget).html())
    plotly, script = str(get_plotlyjs()), _beside("page.js")
    page = Template(_beside("page.html")).substitute(
        policy=_policy(plotly, script),
        title=escape(title),
        style=_beside("page.css"),
        body="\n".join(body),
        plotly=plotly,
        script=script,
    )
    return page.encode()


def verdict(detection: Detection) -> str:
    """Say in one sentence what was found."""
    rows, channels = len(detection.scores), len(detection.channels)
    base = f"{rows:,} rows of {channels} channel{'' if channels == 1 else 's'}"
    if not detection.events:
        return f"Nothing unusual in {base}."
    worst = max(detection.events, key=lambda event: (event.severity, event.peak_score))
    count = len(detection.events)
    guilty = worst.channels[0][0] if worst.channels else "no single channel"
    return (
        f"{count:,} event{'' if count == 1 else 's'} in {base}; the worst, severity {worst.severity:.0f} of 100, at "
        f"{_when(worst.start_time, worst.start)}, mostly {guilty}."
    )


def _beside(name: str) -> str:
    return files("patchad.report").joinpath("templates", name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    """Allow these scripts and the page's own style; no other script, and no network at all."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"


def _contents(chapters: Sequence[Chapter]) -> Iterator[str]:
    yield "<nav aria-label='Series'><ul>"
    for number, chapter in enumerate(chapters):
        yield f"<li><a href='#series-{number}'>{escape(chapter.name)}</a>: {escape(verdict(chapter.detection))}</li>"
    yield "</ul></nav>"


class _Section:
    """The HTML of one series; `number` makes its ids unique on the page."""

    def __init__(self, number: int, chapter: Chapter, budget: Budget) -> None:
        self.number, self.name, self.detection, self.budget = number, chapter.name, chapter.detection, budget
        self.axis = Axis.of(self.detection.index, len(self.detection.scores))
        self.listed = by_severity(self.detection.events)[: budget.events]
        self.truth = chapter.truth

    def html(self) -> Iterator[str]:
        yield f"<section class='chapter' id='series-{self.number}'>"
        if self.name:
            yield f"<h2>{escape(self.name)}</h2>"
        yield f"<p class='verdict'><strong>{escape(verdict(self.detection))}</strong></p>"
        yield from self._facts()
        yield from self._timeline()
        if self.listed:
            yield from self._list()
            yield from self._cards()
        if self.truth is not None:
            yield from self._truth(self.truth)
        yield f"<script type='application/json'>{_json(self._data())}</script></section>"

    def _data(self) -> dict[str, Any]:
        data = timeline(self.detection, self.axis, self.listed, self.budget)
        data["cards"] = [card(self.detection, self.axis, i) for i in self.listed[: self.budget.curves]]
        if self.truth is not None:
            data["labels"] = bands(self.truth.runs, self.axis, self.budget.bands)
        return data

    def _facts(self) -> Iterator[str]:
        found = self.detection
        rows = len(found.scores)
        facts = [("Analysed", f"{rows:,} rows, {_channels(found.channels)}")]
        if found.index is not None and rows > 1:
            first, last = (_when(found.index[row], row) for row in (0, -1))
            facts.append(
                ("Time", f"{first} to {last}, usually {_lasting(self.axis.step, self.axis.kind)} between rows")
            )
        raised = int(found.alarms.sum())
        facts.append(("Alarms", f"{raised:,} rows over the level ({raised / max(rows, 1):.2%})"))
        yield "<dl class='facts'>"
        yield from (f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts)
        unscored = int(np.isnan(found.scores).sum())
        notes = [*found.notes, *([f"{unscored:,} rows have no score"] if unscored else [])]
        quality = "".join(f"<li>{escape(note)}</li>" for note in notes)
        yield "<dt>Data quality</dt><dd>"
        yield f"<ul>{quality}</ul></dd>" if notes else "nothing was filled, dropped or left out</dd>"
        if self.truth is not None:
            yield f"<dt>Labels</dt><dd>{escape(self.truth.sentence)} <a href='#truth-{self.number}'>Metrics</a></dd>"
        yield "</dl>"

    # -- labels ----------------------------------------------------------------------------------------------------

    def _truth(self, truth: Comparison) -> Iterator[str]:
        yield f"<h3 id='truth-{self.number}'>Against the labels</h3><p>{escape(truth.sentence)}"
        yield f" An event that begins at most {GRACE} rows after a labelled anomaly counts for it.</p>"
        missed = [run for run, found in zip(truth.runs, truth.found, strict=True) if not found]
        if missed:
            yield "<p>Missed: "
            yield " ".join(
                f"<button type='button' data-view='{json.dumps(self._around(start, stop))}'>"
                f"{escape(self._time(start))}, {stop - start:,} rows</button>"
                for start, stop in missed[: self.budget.events]
            )
            yield "</p>"
        if not truth.values:
            yield "<p class='soft'>Every row has the same label, so the metrics have no value.</p>"
            return
        chief = [name for name in CHIEF_METRICS if name in truth.values]
        yield from _metrics(truth, chief)
        yield "<details><summary>Every metric</summary>"
        yield from _metrics(truth, [name for name in truth.values if name not in chief])
        yield "</details>"
        if truth.unscored:
            yield f"<p class='soft'>The metrics leave out {truth.unscored:,} rows without a score.</p>"

    def _tag(self, number: int) -> str:
        if self.truth is None:
            return ""
        hit = self.truth.true_events[number]
        return f"<span class='tag {'hit' if hit else 'false'}'>{'hit' if hit else 'false alarm'}</span>"

    # -- timeline --------------------------------------------------------------------------------------------------

    def _timeline(self) -> Iterator[str]:
        buttons = {"in": "Zoom in", "out": "Zoom out", "back": "Earlier", "on": "Later", "all": "Whole series"}
        yield "<h3>Timeline</h3><div class='toolbar' role='toolbar' aria-label='Timeline'>"
        yield from (f"<button type='button' data-move='{move}'>{text}</button>" for move, text in buttons.items())
        yield "<button type='button' data-move='pan' aria-pressed='false'>Drag to pan</button></div><figure>"
        label = "Scores, level and events over time, and each channel's share of the blame. Arrow keys move, plus and "
        label += "minus zoom, Escape shows the whole series."
        yield f"<div class='timeline' role='group' tabindex='0' aria-label=\"{label}\"></div>"
        yield "<figcaption><div class='key'><span class='line'>score</span><span class='dashed'>level</span>"
        if self.listed:
            yield "<span class='event'>event</span><span class='flag'>event, click for its card</span>"
            yield "<span class='share'>share of the blame, 0 to 100 %</span>"
        yield "<span class='label'>labelled anomaly</span>" if self.truth is not None else ""
        yield "</div>Drag to zoom, double-click for the whole series; there, scores far over the level are cut off."
        if self.listed and len(self.detection.channels) > LANES:
            yield f" Lanes: the {LANES} channels blamed most, of {len(self.detection.channels):,}."
        yield "</figcaption></figure>"

    # -- events ----------------------------------------------------------------------------------------------------

    def _list(self) -> Iterator[str]:
        yield "<h3>Events, most severe first</h3><table class='list'><thead><tr><th>when (zooms the timeline)</th>"
        yield "<th>how long</th><th>severity</th><th>most to blame</th><th>more</th></tr></thead><tbody>"
        for place, number in enumerate(self.listed):
            event = self.detection.events[number]
            blamed = ", ".join(f"{escape(name)} {share:.0%}" for name, share in event.channels[:3])
            yield (
                f"<tr id='row-{self.number}-{place}'><td class='wide'><button type='button' data-zoom='{place}'>"
                f"{place + 1}. {escape(_when(event.start_time, event.start))}</button> {self._tag(number)}</td>"
                f"<td class='short'>{escape(self._duration(event))}</td><td>{_meter(event.severity)}</td>"
                f"<td class='wide'>{blamed}</td><td><a href='#event-{self.number}-{place}'>card</a></td></tr>"
            )
        yield "</tbody></table>"
        more = len(self.detection.events) - len(self.listed)
        if more:
            yield f"<p class='soft'>and {more:,} less severe events: the timeline shows them, but they have no card</p>"

    def _cards(self) -> Iterator[str]:
        expected = bool(self.detection.expected)
        yield "<h3>What happened</h3><div class='key'><span class='line'>observed</span>"
        if expected:
            yield "<span class='dashed'>expected</span><span class='band'>normal band</span>"
        yield "<span class='event'>event</span></div>"
        for place, number in enumerate(self.listed):
            yield from self._card(place, number)

    def _card(self, place: int, number: int) -> Iterator[str]:
        event, here = self.detection.events[number], f"{self.number}-{place}"
        yield f"<article class='card' id='event-{here}' tabindex='-1' aria-labelledby='title-{here}'><header>"
        yield f"<h4 id='title-{here}'>{place + 1}. {escape(_when(event.start_time, event.start))}</h4>"
        yield f"{_meter(event.severity)}{self._tag(number)}"
        yield f"<button type='button' data-zoom='{place}'>Show in the timeline</button>"
        yield f"<nav><a href='#row-{here}'>Back to the list</a></nav></header><div class='inside'><div>"
        level = self.detection.levels[event.peak]
        facts = {
            "From": _when(event.start_time, event.start),
            "To": _when(event.stop_time, event.stop - 1),
            "Lasted": self._duration(event),
            "Peak": f"{self._time(event.peak)}, score {event.peak_score:.3g}, level {level:.3g}",
        }
        yield "<dl class='facts'>"
        yield from (f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts.items())
        yield "</dl><ul class='sensors' aria-label='Shares of the blame'>"
        for name, share in event.channels[:MOST_SENSORS]:
            yield _sensor(escape(name), share)
        others = event.channels[MOST_SENSORS:]
        if others:
            yield _sensor(f"{len(others)} other{'' if len(others) == 1 else 's'}", sum(share for _, share in others))
        yield "</ul></div>"
        if place < self.budget.curves and self.detection.observed is not None and event.channels:
            label = f"Observed and expected values of {', '.join(name for name, _ in event.channels[:3])}"
            yield f"<div class='curves' data-card='{place}' role='img' aria-label=\"{escape(label)}\"></div>"
        yield "</div></article>"

    def _duration(self, event: Event) -> str:
        rows = f"{len(event):,} row{'' if len(event) == 1 else 's'}"
        if self.axis.kind not in ("date", "seconds"):
            return rows
        start, stop = self.axis.span(event.start, event.stop)
        return f"{_lasting(stop - start, self.axis.kind)} ({rows})"

    def _time(self, row: int) -> str:
        return _when(None if self.detection.index is None else self.detection.index[row], row)

    def _around(self, start: int, stop: int) -> tuple[float, float]:
        first, last = max(start - 100, 0), min(stop + 100, len(self.detection.scores))
        return self.axis.span(first, last)


def _metrics(truth: Comparison, names: Sequence[str]) -> Iterator[str]:
    yield "<table class='metrics'><thead><tr><th>metric</th><th class='number'>here</th>"
    yield "<th class='number'>random scores</th></tr></thead><tbody>"
    for name in names:
        cells = "".join(f"<td class='number'>{values[name]:.4f}</td>" for values in (truth.values, truth.random))
        yield f"<tr><td>{escape(name)}</td>{cells}</tr>"
    yield "</tbody></table>"


def _meter(severity: float) -> str:
    return (
        f"<span class='meter'><i aria-hidden='true'><b style='width:{severity:.0f}%'></b></i>"
        f"severity {severity:.0f}</span>"
    )


def _sensor(name: str, share: float) -> str:
    bar = f"<i aria-hidden='true'><b style='width:{100 * share:.0f}%'></b></i>"
    return f"<li><span>{name}</span>{bar}<span>{share:.0%}</span></li>"


def _json(data: dict[str, Any]) -> str:
    """Write JSON that can stand inside a script element: no tag can begin or end in it."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _channels(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    more = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    return f"{len(names):,} channel{'' if len(names) == 1 else 's'} ({shown}{more})"


def _lasting(amount: float, kind: str) -> str:
    """Write a duration, in its two largest units.

    >>> _lasting(8_100_000, "date"), _lasting(0.25, "seconds"), _lasting(3, "number")
    ('2 h 15 min', '250 ms', '3')
    """
    if kind not in ("date", "seconds"):
        return f"{amount:g}"
    seconds = amount / 1e3 if kind == "date" else amount
    if seconds < 1:
        return f"{1e3 * seconds:.3g} ms"
    parts, left = [], round(seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def _when(time: Any, row: int) -> str:
    text = time_text(time)
    return f"row {row:,}" if text is None else text.replace("T", " ") if isinstance(text, str) else f"{text:.12g}"
