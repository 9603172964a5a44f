"""Detections to one self-contained HTML page: a verdict, the scores with their level, and the events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from patchad.containers import FloatArray, Table
from patchad.detection import Detection, Event, alarm_runs, time_text
from patchad.errors import InputError

WIDTH, HEIGHT, LANE = 1000, 220, 70
"""Of the plot of the scores, and the height of the plot of one channel, in pixels."""
MOST_LANES = 6
"""Channels that are drawn: those blamed most."""
MOST_ROWS = 200
"""Events in the table: the most severe ones."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6673; --line: #d5dae1; --paper: #fff; --score: #0b62a3;
  --level: #b24c00; --event: #e8590c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #9aa6b2; --line: #38414b; --paper: #14181d;
  --score: #58a9e6; --level: #ff9e57; --event: #ff7a33; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 66rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
.soft, figcaption { color: var(--soft); } figure { margin: 1rem 0; } svg { width: 100%; height: auto; display: block; }
.score { fill: none; stroke: var(--score); } .level { fill: none; stroke: var(--level); stroke-dasharray: 6 4; }
.event { fill: var(--event); opacity: .25; } .axis { stroke: var(--line); } text { fill: var(--soft); font-size: 12px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
"""


def render_page(found: Sequence[tuple[str, Detection, Table | None]], title: str = "PatchAD report") -> bytes:
    """Make one page for several series: name, detection and, to draw the channels blamed most, the data of each."""
    body = [part for name, detection, table in found for part in _section(name, detection, table)]
    page = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><h1>{escape(title)}</h1>",
        *body,
        "</body></html>",
    ]
    return "\n".join(page).encode()


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
        f"{count} event{'' if count == 1 else 's'} in {base}; the worst, severity {worst.severity:.0f} of 100, at "
        f"{_when(worst.start_time, worst.start)}, mostly {guilty}."
    )


def _section(name: str, detection: Detection, table: Table | None) -> Iterator[str]:
    if name:
        yield f"<h2>{escape(name)}</h2>"
    yield f"<p><strong>{escape(verdict(detection))}</strong></p>"
    if detection.notes:
        yield "<ul class='soft'>" + "".join(f"<li>{escape(note)}</li>" for note in detection.notes) + "</ul>"
    yield from _score_figure(detection)
    if table is not None:
        yield from _channel_figures(detection, table)
    if detection.events:
        yield from _event_table(detection.events)


def _score_figure(detection: Detection) -> Iterator[str]:
    scores, levels = detection.scores, detection.levels
    seen = np.concatenate([scores[np.isfinite(scores)], levels[np.isfinite(levels)], [0.0]])
    low, level = float(seen.min()), float(np.nanmax(levels)) if np.isfinite(levels).any() else 0.0
    high = max(
        min(float(seen.max()), low + 6 * (level - low)), level * 1.2, low + 1e-9
    )  # one huge score hides no other
    yield "<figure>"
    yield f"<svg viewBox='0 0 {WIDTH} {HEIGHT + 20}' role='img' aria-label='Scores, level and events over time'>"
    yield from _bands(detection, HEIGHT)
    yield _curve(scores, low, high, HEIGHT, "score")
    yield _curve(levels, low, high, HEIGHT, "level")
    yield from _axis(detection)
    yield "</svg>"
    yield "<figcaption>Score of every row (line), the level it is held to (dashed), and events (shaded); "
    yield "scores far over the level are cut at the top.</figcaption></figure>"


def _channel_figures(detection: Detection, table: Table) -> Iterator[str]:
    """Draw the channels that the events blame most."""
    if len(table.values) != len(detection.scores):
        raise InputError(
            f"X has {len(table.values)} rows, the detection {len(detection.scores)}; pass the data it was made from"
        )
    blame: dict[str, float] = {}
    for event in detection.events:
        for channel, share in event.channels:
            blame[channel] = blame.get(channel, 0.0) + share
    names = table.channels if table.channels is not None else detection.channels
    for channel in sorted(blame, key=lambda name: -blame[name])[:MOST_LANES]:
        if channel not in names:
            continue
        values = table.values[:, names.index(channel)]
        if np.isnan(values).all():
            continue
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        label = escape(f"{channel} over time", quote=True)
        yield f"<figure><svg viewBox='0 0 {WIDTH} {LANE}' role='img' aria-label='{label}'>"
        guilty = [event for event in detection.events if event.channels and channel in _foremost(event)]
        yield from (_band(event.start, event.stop, len(values), LANE) for event in guilty)
        yield _curve(values, low, high, LANE, "score")
        yield f"</svg><figcaption><strong>{escape(channel)}</strong>, {low:.4g} to {high:.4g}; "
        yield "shaded where it is among the first three to blame</figcaption></figure>"


def _foremost(event: Event) -> list[str]:
    return [name for name, _ in event.channels[:3]]


def _curve(values: FloatArray, low: float, high: float, height: int, kind: str) -> str:
    """Draw a series; of many rows to a pixel the lowest and the highest are kept, so that no spike disappears."""
    rows = np.flatnonzero(np.isfinite(values))
    if len(values) > 2 * WIDTH and len(rows):
        column = rows * WIDTH // len(values)
        first = np.flatnonzero(np.diff(column, prepend=-1))
        order = np.lexsort((values[rows], column))
        last = np.append(first[1:], len(rows)) - 1
        rows = np.unique(np.concatenate([rows[order[first]], rows[order[last]]]))
    x = rows * (WIDTH / max(len(values) - 1, 1))
    y = height - (np.clip(values[rows], low, high) - low) / max(high - low, 1e-12) * (height - 4) - 2
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return f"<polyline class='{kind}' points='{points}'/>"


def _bands(detection: Detection, height: int) -> Iterator[str]:
    # Drawn from the alarms at the resolution of the page: a million events still make a small file.
    rows = len(detection.alarms)
    covered = np.zeros(min(rows, WIDTH), dtype=bool)
    for event in detection.events:
        covered[event.start * len(covered) // rows : (event.stop - 1) * len(covered) // rows + 1] = True
    for start, stop in alarm_runs(covered):
        yield _band(start, stop, len(covered), height)


def _band(start: int, stop: int, rows: int, height: int) -> str:
    x, width = start * WIDTH / rows, max((stop - start) * WIDTH / rows, 1.5)
    return f"<rect class='event' x='{x:.1f}' width='{width:.1f}' y='0' height='{height}'/>"


def _axis(detection: Detection) -> Iterator[str]:
    rows = len(detection.scores)
    yield f"<line class='axis' x1='0' x2='{WIDTH}' y1='{HEIGHT}' y2='{HEIGHT}'/>"
    for share, anchor in ((0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1, "end")):
        row = round(share * (rows - 1))
        text = _when(None if detection.index is None else detection.index[row], row)
        yield f"<text x='{share * WIDTH}' y='{HEIGHT + 15}' text-anchor='{anchor}'>{escape(text)}</text>"


def _event_table(events: Sequence[Event]) -> Iterator[str]:
    ranked = sorted(events, key=lambda event: (-event.severity, -event.peak_score))[:MOST_ROWS]
    yield "<h2>Events, most severe first</h2><div class='scroll'><table><thead><tr><th>from</th><th>to</th>"
    yield "<th class='number'>rows</th><th class='number'>severity</th><th>most to blame</th></tr></thead><tbody>"
    for event in ranked:
        blamed = ", ".join(f"{escape(name)} {share:.0%}" for name, share in event.channels[:3])
        yield (
            f"<tr><td>{_when(event.start_time, event.start)}</td><td>{_when(event.stop_time, event.stop - 1)}</td>"
            f"<td class='number'>{len(event):,}</td><td class='number'>{event.severity:.0f}</td><td>{blamed}</td></tr>"
        )
    yield "</tbody></table></div>"
    if len(events) > MOST_ROWS:
        yield f"<p class='soft'>and {len(events) - MOST_ROWS:,} less severe events</p>"


def _when(time: Any, row: int) -> str:
    text = time_text(time)
    return f"row {row:,}" if text is None else text.replace("T", " ") if isinstance(text, str) else f"{text:g}"
