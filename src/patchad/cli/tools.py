"""What an assistant can do: the tools of `patchad mcp`, each a method with plain arguments and a JSON answer.

An assistant reads the docstrings. Paths are kept inside the folders that were named at start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from patchad.cli.explaining import explain_event, spread, summarize
from patchad.cli.folders import Folders
from patchad.data.names import visible
from patchad.data.reading import Grid, Reading
from patchad.errors import InputError, listed
from patchad.report.panels import KINDS

if TYPE_CHECKING:
    from patchad.data.table import Table
    from patchad.results.detection import Detection

KEPT_RESULTS = 4
"""Results of `detect` and `scan` that can be asked about; the oldest is forgotten."""
MOST_FILES = 200
"""Files that are listed."""
MOST_EVENTS = 100
"""Events in one answer."""
MOST_CHANNELS = 100
"""Channels that are described."""
MODEL = ".safetensors"

Answer = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """How to read the data, where the defaults do not fit."""

    __pydantic_config__: ClassVar[Answer] = {"extra": "forbid"}
    """An option that there is none of is refused: the assistant would believe that it counts."""

    time: str | None = None
    """The column of times; by default found by name or content."""
    columns: tuple[str, ...] = ()
    """The channels to read; empty: all."""
    exclude: tuple[str, ...] = ()
    """Columns to leave out, as labels."""
    every: str | None = None
    """Bring rows to regular times, as 1min or 1h:mean."""
    sort: bool = False
    """Sort rows by time."""

    def reading(self, member: str) -> Reading:
        """Return them as the readers know them."""
        every = None if self.every is None else Grid.parse(self.every)
        return Reading(
            time=self.time, columns=self.columns, exclude=self.exclude, every=every, sort=self.sort, member=member
        )


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What a call found, by series, for the questions that follow."""

    name: str
    found: Mapping[str, Detection]

    def event(self, event: str, series: str | None) -> tuple[Detection, int]:
        """Return the detection that has an event, and the event's number there."""
        places = [
            (detection, number)
            for name, detection in self.found.items()
            if series in (None, name)
            for number, one in enumerate(detection.events)
            if one.id == event
        ]
        if not places:
            raise InputError(f"result {self.name!r} has no event {event!r}; list_events lists its events")
        if len(places) > 1:
            raise InputError(f"{len(places)} series have an event {event!r}; name the series, too")
        return places[0]


class Tools:
    """The tools, and the results that they remember."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self._results: dict[str, Result] = {}
        self._count = 0

    def listed(self) -> Iterator[tuple[Callable[..., Answer], bool]]:
        """Return the tools that are offered, and whether each only reads."""
        reading = (self.list_files, self.describe_data, self.inspect_model, self.detect, self.scan, self.list_events)
        yield from ((tool, True) for tool in (*reading, self.explain_event))
        if self.folders.writable:
            yield from ((tool, False) for tool in (self.fit, self.write_report, self.accept_event))

    # -- reading ---------------------------------------------------------------------------------------------------

    def list_files(self, folder: str | None = None) -> Answer:
        """List the data files and model files that may be read.

        Parameters
        ----------
        folder
            A folder; by default all that were allowed at start. Folders inside are listed, not entered.
        """
        from patchad.data.readers.registry import kind_of

        places = self.folders.roots if folder is None else [self.folders.existing(folder)]
        found: list[Answer] = []
        for place in places:
            for path in sorted(place.iterdir() if place.is_dir() else [place]):
                kind = (
                    "folder" if path.is_dir() else "model" if path.suffix == MODEL else "data" if kind_of(path) else ""
                )
                if kind and self._inside(path):
                    found.append({"path": str(path), "kind": kind, "bytes": path.stat().st_size})
        return {"files": found[:MOST_FILES], "more": max(len(found) - MOST_FILES, 0), "writable": self.folders.writable}

    def describe_data(self, data: list[str], options: Options | None = None) -> Answer:
        """Say what data files hold: rows, times, and each channel's range and missing values.

        Parameters
        ----------
        data
            Paths of data files (csv, xlsx, parquet, feather, jsonl, npy, npz) or of folders of them.
        options
            How to read them, where the defaults do not fit.
        """
        return {"series": [_described(name, table) for name, table in self._read(data, options, "test")[0]]}

    def inspect_model(self, model: str) -> Answer:
        """Say what a model file holds: channels, window, threshold and its promise, settings, feedback, notes.

        Parameters
        ----------
        model
            Path of a model file, written by `patchad fit`.
        """
        from patchad.detectors.describing import describe_model

        return describe_model(self.folders.existing(model), MOST_CHANNELS)

    def detect(
        self, model: str, data: list[str], options: Options | None = None, false_alarms: float | None = None
    ) -> Answer:
        """Find the events of data files with a model that was fitted on normal operation.

        Answers the events, most severe first, and the name of the result, for list_events and explain_event.

        Parameters
        ----------
        model
            Path of a model file.
        data
            Paths of data files, or of folders of them.
        options
            How to read them, where the defaults do not fit.
        false_alarms
            Expected false events per 10,000 normal rows, instead of the model's own; fewer means a higher level.
        """
        from patchad.detectors.registry import load

        detector = load(self.folders.existing(model))
        if false_alarms is not None:
            detector.set_false_alarms(false_alarms)
        tables, refused = self._read(data, options, "test", only=detector.columns_)
        return self._keep(tables, refused, detector.detect)

    def scan(self, data: list[str], options: Options | None = None, severity: float = 30.0) -> Answer:
        """Find the strangest events of data of which nothing is known to be normal; no model is needed.

        Learns from parts of the data to judge the others.

        Parameters
        ----------
        data
            Paths of data files, or of folders of them.
        options
            How to read them, where the defaults do not fit.
        severity
            Least severity of events that are listed, 0 to 100.
        """
        from patchad.detectors.scan import scan as scan_series

        def severe(table: Table) -> Detection:
            found: Detection = scan_series(table)
            return found.severe(severity)

        return self._keep(*self._read(data, options, "train"), severe)

    def list_events(
        self,
        result: str,
        severity: float = 0.0,
        channel: str | None = None,
        kind: str | None = None,
        first: int = 0,
        most: int = 20,
    ) -> Answer:
        """List events of a result of detect or scan, most severe first.

        Parameters
        ----------
        result
            The name of the result.
        severity
            Least severity, 0 to 100.
        channel
            Only events for which this channel is most to blame.
        kind
            Only events of this kind: anomaly, stuck, missing, range or regime.
        first, most
            Which of them: so many, from this one on.
        """
        if kind is not None and kind not in KINDS:
            raise InputError(f"kind={kind!r} is unknown; use one of {listed(tuple(KINDS))}")
        events = [
            {"series": name, "summary": summarize(detection, event), **event.to_dict()}
            for name, detection in self._result(result).found.items()
            for event in detection.events
            if event.severity >= severity
            and kind in (None, event.kind)
            and (channel is None or (event.channels and event.channels[0][0] == channel))
        ]
        events.sort(key=lambda event: -event["severity"])
        shown = events[max(first, 0) :][: min(max(most, 0), MOST_EVENTS)]
        return {"events": shown, "total": len(events)}

    def explain_event(self, result: str, event: str, series: str | None = None) -> Answer:
        """Explain an event: the channels to blame, their values before and in it, and what was expected.

        Parameters
        ----------
        result
            The name of the result that has it.
        event
            The event's id.
        series
            The event's series, where several have an event of this id.
        """
        return explain_event(*self._result(result).event(event, series))

    # -- writing ---------------------------------------------------------------------------------------------------

    def fit(self, data: list[str], output: str, options: Options | None = None) -> Answer:
        """Train a model on data of normal operation and write it to a new file; takes up to some minutes.

        Parameters
        ----------
        data
            Paths of data files, or of folders of them.
        output
            Path of the model file to write; it must not be there yet.
        options
            How to read the data, where the defaults do not fit.
        """
        from patchad.detectors.patchad import PatchAD

        path = self.folders.new(output)
        tables, refused = self._read(data, options, "train")
        if refused:
            raise refused[0]
        detector = PatchAD().fit([table for _, table in tables])
        detector.save(path)
        return {"model": str(path), "channels": list(detector.channels_), "notes": list(detector.fit_notes_)}

    def write_report(self, result: str, output: str) -> Answer:
        """Write a result as an HTML page for people to a new file.

        Parameters
        ----------
        result
            The name of the result.
        output
            Path of the file to write; it must not be there yet.
        """
        from patchad.data.files import write_whole
        from patchad.report.page import Chapter, render_page

        path = self.folders.new(output)
        chapters = [Chapter.of(name, detection, None) for name, detection in self._result(result).found.items()]
        write_whole({path: render_page(chapters)})
        return {"report": str(path)}

    def accept_event(self, model: str, result: str, event: str, output: str, series: str | None = None) -> Answer:
        """Take the rows of an event as normal from now on, in a new model file. Only if a person said that they are.

        Parameters
        ----------
        model
            Path of the model file that found the event; it is not changed.
        result
            The name of the result that has it.
        event
            The event's id.
        output
            Path of the model file to write; it must not be there yet.
        series
            The event's series, where several have an event of this id.
        """
        from patchad.detectors.registry import load

        path = self.folders.new(output)
        detection, number = self._result(result).event(event, series)
        found = detection.events[number]
        detector = load(self.folders.existing(model))
        detector.accept(detection.observed, start=found.start, stop=found.stop)
        detector.save(path)
        return {"model": str(path), "feedback": [str(one) for one in detector.feedback_]}

    # -- inside ----------------------------------------------------------------------------------------------------

    def _inside(self, path: Path) -> bool:
        try:
            self.folders.check(path)
        except InputError:
            return False
        return path.exists()

    def _read(
        self, data: list[str], options: Options | None, member: str, only: tuple[str, ...] = ()
    ) -> tuple[list[tuple[str, Table]], list[InputError]]:
        """Read data files; return their tables by name, and what is wrong with the others."""
        from patchad.data.inputs import find_files, read_all

        if not data:
            raise InputError("no data was named; give the paths of one or more data files")
        files, refused = find_files([self.folders.existing(text) for text in data])
        if refused:
            raise refused[0][1]
        reading = (options or Options()).reading(member)
        tables, unread = read_all([self.folders.check(path) for _, path in files], reading, only=only)
        errors = [error for _, error in unread]
        if not tables:
            raise errors[0]
        return tables, errors

    def _keep(
        self, tables: list[tuple[str, Table]], refused: list[InputError], find: Callable[[Table], Detection]
    ) -> Answer:
        """Remember what was found in every table, and answer it."""
        found: dict[str, Detection] = {}
        for name, table in tables:
            try:
                found[name] = find(table)
            except InputError as error:
                refused.append(InputError(f"{name}: {error}"))
        if not found:
            raise refused[0]
        self._count += 1
        result = Result(f"result-{self._count}", found)
        self._results[result.name] = result
        for oldest in list(self._results)[:-KEPT_RESULTS]:
            del self._results[oldest]
        series = [
            {"series": name, "rows": len(one.scores), "events": len(one.events), "notes": list(one.notes)}
            for name, one in found.items()
        ]
        answer = {"result": result.name, "series": series, "refused": [str(error) for error in refused]}
        return answer | self.list_events(result.name)

    def _result(self, name: str) -> Result:
        if name not in self._results:
            known = listed(tuple(self._results)) or "none; call detect or scan first"
            raise InputError(f"there is no result {name!r}; the results at hand are {known}")
        return self._results[name]


def _described(name: str, table: Table) -> Answer:
    from patchad.results.detection import time_text

    names = table.channels or tuple(f"channel_{i}" for i in range(table.values.shape[1]))
    channels = [
        {"channel": visible(one), "missing": int(np.isnan(table.values[:, i]).sum()), **spread(table.values[:, i])}
        for i, one in enumerate(names[:MOST_CHANNELS])
    ]
    ends = None if table.times is None else [time_text(table.times[row]) for row in (0, -1)]
    return {
        "series": name,
        "rows": len(table.values),
        "from_to": ends,
        "channels": channels,
        "more_channels": max(len(names) - MOST_CHANNELS, 0),
        "text_columns": [visible(one) for one in table.texts],
        "notes": list(table.notes),
    }
