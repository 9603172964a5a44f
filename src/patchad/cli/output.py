"""What `patchad detect` and `patchad scan` print and write: a table of events, and files of scores and events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patchad.cli.console import notify, stoppable
from patchad.data.names import plain_cell, visible
from patchad.errors import InputError

if TYPE_CHECKING:
    from patchad.data.table import FloatArray, Table
    from patchad.report.page import Chapter
    from patchad.results.detection import Detection, Event

HEADINGS = ("series", "start", "stop", "time", "until", "rows", "kind", "severity", "repeats", "blamed, most first")


MOST_REFUSALS = 5
"""Inputs of which an error says what is wrong; the others are counted."""


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


def results_of(
    tables: Sequence[tuple[str, Table]],
    labels: str | None,
    refused: list[tuple[str, InputError]],
    detect: Callable[[Table], Detection],
) -> tuple[list[Chapter], list[FloatArray]]:
    """Detect on every table; return the results and the labels. Tables that cannot be used are added to `refused`."""
    from patchad.report.page import Chapter

    found: list[Chapter] = []
    truths: list[FloatArray] = []
    for name, table in tables:
        try:
            channels, truth = (table, None) if labels is None else table.without(labels)
            found.append(Chapter.of(name, detect(channels), truth))
        except InputError as error:
            refused.append((name, InputError(f"{name}: {error}")))
            continue
        truths.extend([] if truth is None else [truth])
    if not found:
        raise refusal(refused)
    return found, truths


def result_notes(found: Sequence[Chapter]) -> Iterator[str]:
    """Say what was filled, dropped or ignored, and how the events compare with labels."""
    for one in found:
        yield from (f"note: {one.name}: {note}" for note in one.detection.notes)
        if one.comparison is not None:
            yield f"{one.name}: {one.comparison.summary}"


def deliver(found: Sequence[Chapter], contents: Mapping[Path, bytes]) -> None:
    """Write the files, then print the events and what there is to say about them."""
    from patchad.data.files import write_whole

    write_whole(contents)
    with stoppable("the outputs are complete" if contents else "nothing was written"):
        print_events(found)
    for note in result_notes(found):
        notify(note)


def result_files(
    found: Sequence[Chapter],
    labels: Sequence[FloatArray],
    *,
    scores: Path | None,
    events: Path | None,
    report: Path | None,
) -> dict[Path, bytes]:
    """Return the contents of the files that were asked for."""
    from patchad.report.page import render_page

    contents: dict[Path, bytes] = {}
    if scores is not None:
        contents[scores] = scores_csv(found, labels)
    if events is not None:
        contents[events] = events_json(found)
    if report is not None:
        contents[report] = render_page(found)
    return contents


def events_json(found: Sequence[Chapter]) -> bytes:
    """Return all events as a JSON list, each with its series."""
    listing = [{"series": one.name} | event.to_dict() for one in found for event in one.detection.events]
    return json.dumps(listing, indent=1).encode()


def scores_csv(found: Sequence[Chapter], labels: Sequence[FloatArray] = ()) -> bytes:
    """Return score, level and alarm of every row as csv, and its label where there are labels of all series."""
    import pandas as pd

    frames = [
        pd.DataFrame(
            {
                "series": plain_cell(one.name),
                "row": range(len(one.detection.scores)),
                "time": None if one.detection.index is None else one.detection.index,
                "score": one.detection.scores,
                "level": one.detection.levels,
                "alarm": one.detection.alarms.astype(int),
            }
        )
        for one in found
    ]
    for frame, own in zip(frames, labels, strict=False):
        frame["label"] = own.astype(int)
    return str(pd.concat(frames).to_csv(index=False)).encode()


def refusal(refused: Sequence[tuple[str, InputError]], done: int = 0) -> InputError:
    """Return the error of inputs that cannot be used, beside others whose results are done.

    Examples
    --------
    >>> print(refusal([("a", InputError("a.csv: it is empty")), ("b", InputError("there is no file 'b'"))], done=3))
    2 inputs were refused: a.csv: it is empty | there is no file 'b' | the results of the 3 other series are complete
    """
    messages = [str(error) for _, error in refused[:MOST_REFUSALS]]
    if len(refused) > MOST_REFUSALS:
        messages.append(f"and {len(refused) - MOST_REFUSALS} more")
    if done:
        messages.append(f"the results of the {'other' if done == 1 else f'{done} other'} series are complete")
    if len(refused) == 1:
        return InputError("; ".join(messages))
    return InputError(f"{len(refused)} inputs were refused: {' | '.join(messages)}")
