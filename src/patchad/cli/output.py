"""What `patchad detect` prints and writes: a table of events, and files of scores and events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from patchad.data.names import visible

if TYPE_CHECKING:
    from patchad.report.page import Chapter
    from patchad.results.detection import Event

HEADINGS = ("series", "start", "stop", "time", "until", "rows", "kind", "severity", "repeats", "blamed, most first")


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet runs as a formula."""


def blamed(event: Event) -> str:
    """Return the channels most to blame, with their shares."""
    return ", ".join(f"{visible(name)} {share:.0%}" for name, share in event.channels[:3])


def print_events(found: Sequence[Chapter]) -> None:
    """Print all events, most severe first."""
    from patchad.results.detection import time_text

    listed = [(one.name, event) for one in found for event in one.detection.events]
    listed.sort(key=lambda item: -item[1].severity)
    rows = [HEADINGS]
    for name, event in listed:
        since, until = ("" if t is None else str(time_text(t)) for t in (event.start_time, event.stop_time))
        numbers = (str(event.start), str(event.stop), since, until, f"{len(event):,}")
        rows.append(
            (visible(name), *numbers, event.kind, f"{event.severity:.0f}", str(event.repeats or ""), blamed(event))
        )
    if len(rows) == 1:
        return
    shown = [i for i in range(len(HEADINGS)) if any(row[i] for row in rows[1:])]
    widths = {i: max(len(row[i]) for row in rows) for i in shown}
    for row in rows:
        print("  ".join(row[i].ljust(widths[i]) for i in shown).rstrip())


def events_json(found: Sequence[Chapter]) -> bytes:
    """Return all events as a JSON list, each with its series."""
    listing = [{"series": one.name} | event.to_dict() for one in found for event in one.detection.events]
    return json.dumps(listing, indent=1).encode()


def scores_csv(found: Sequence[Chapter]) -> bytes:
    """Return score, level and alarm of every row as csv."""
    import pandas as pd

    frames = [
        pd.DataFrame(
            {
                "series": _plain_cell(one.name),
                "row": range(len(one.detection.scores)),
                "time": None if one.detection.index is None else one.detection.index,
                "score": one.detection.scores,
                "level": one.detection.levels,
                "alarm": one.detection.alarms.astype(int),
            }
        )
        for one in found
    ]
    return str(pd.concat(frames).to_csv(index=False)).encode()


def _plain_cell(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would run as a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text
