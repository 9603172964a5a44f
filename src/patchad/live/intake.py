"""Intake: the sources of a run, opened where they were, and their lines as rows of streams."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from patchad.data.names import visible
from patchad.errors import InputError, listed
from patchad.live.history import axis
from patchad.live.messages import Message
from patchad.live.rows import HeaderError, Key, Row
from patchad.live.sources.base import Reader, Source
from patchad.live.store import Line, Store
from patchad.live.streams import Batch, LiveStreams

logger = logging.getLogger(__name__)

SHOWN = 200
"""Characters of a refused row that a message shows."""


@dataclass(slots=True)
class Counts:
    """What came and what was said, in this run."""

    rows: int = 0
    verdicts: int = 0
    refused: int = 0
    redelivered: int = 0
    """Rows that were stored before the restart and came again."""


class Intake:
    """Reads rows from sources, and pushes them to streams.

    Parameters
    ----------
    sources
        Where rows come from; opened and closed here.
    store
        Has the positions of the sources.
    keys
        The only streams that there are; None: any.
    counts
        Go on; None: from nothing.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        store: Store,
        keys: Sequence[Key] | None = None,
        counts: Counts | None = None,
    ) -> None:
        self.counts = Counts() if counts is None else counts
        self._sources, self._store, self._keys = sources, store, keys
        self._opened: list[Source] = []
        self._readers: dict[str, Reader] = {}

    def open(self, streams: LiveStreams) -> None:
        """Open the sources where they were."""
        owner = self._store.id if self._store.durable else None
        for source in self._sources:
            position, reader = self._place(source)
            source.open(position)
            self._opened.append(source)
            self._readers[source.name] = source.reader(streams.columns, reader)
            source.connect(owner)

    def close(self) -> None:
        """Close the sources."""
        while self._opened:
            self._opened.pop().close()

    @property
    def ended(self) -> bool:
        """Whether no line will follow."""
        return all(source.ended for source in self._sources)

    def poll(self) -> Iterator[tuple[Source, Sequence[bytes]]]:
        """Return the sources that have something, with it."""
        for source in self._sources:
            if lines := source.poll():
                yield source, lines

    def take(self, source: Source, lines: Iterable[bytes], streams: LiveStreams, batch: Batch) -> dict[str, Any]:
        """Push the rows of these lines; what is refused is a dead letter.

        Rows of a stream are pushed one by one, so that what is told does not depend on how they came.

        Returns
        -------
        The position of the source after them, to be stored with the batch.
        """
        rows: dict[Key, list[tuple[Row, bytes]]] = {}
        reader = self._readers[source.name]
        for line in lines:
            try:
                row = reader.read(line)
                if row is not None:
                    check_key(row.key, self._keys)
                    rows.setdefault(row.key, []).append((row, line))
            except HeaderError as error:
                raise InputError(f"{source.name}: {error}") from None
            except InputError as error:
                self._refuse(source, line, error, batch)
        for turn in range(max(map(len, rows.values()), default=0)):
            following = {key: own[turn] for key, own in rows.items() if turn < len(own)}
            due = {key: one for key, one in following.items() if not self._came_before(*one, source, streams, batch)}
            found, refused = streams.push({key: [row] for key, (row, _) in due.items()}, batch)
            for key, reason in refused.items():
                self._refuse(source, due[key][1], reason, batch)
            self.counts.rows += len(found)
            self.counts.verdicts += sum(map(len, found.values()))
        return {source.name: {"source": source.position, "reader": reader.state}}

    def _place(self, source: Source) -> tuple[Any, Any]:
        """Return where a source and its reader were; None and None where it was never read."""
        found = self._store.position(source.name)
        if found is None:
            return None, None
        if not isinstance(found, dict) or not {"source", "reader"} <= set(found):
            raise InputError(
                f"the state {str(self._store.path)!r} is damaged (it does not say where {source.name} was); use a copy "
                "of it, or name another file"
            )
        return found["source"], found["reader"]

    def _came_before(self, row: Row, line: bytes, source: Source, streams: LiveStreams, batch: Batch) -> bool:
        """Return whether a row was stored; one that a broker may have sent again may also be late, and is new then."""
        again = isinstance(line, Message) and line.again
        came = not source.resumed and streams.came_before(row, again=again)
        if came and again:
            at = axis(row.moment)
            held = batch.holds(row.key, at)
            held = self._store.holds(row.key, at) if held is None else held
            came = held is not False
        self.counts.redelivered += came
        return came

    def _refuse(self, source: Source, line: bytes, error: InputError, batch: Batch) -> None:
        text = line.decode(errors="backslashreplace").strip()
        self.counts.refused += 1
        logger.warning("%s: a row is refused: %s; the row: %s", source.name, error, visible(text[:SHOWN]))
        letter = {"source": source.name, "error": str(error), "row": text}
        batch.lines.append(Line("dead", json.dumps(letter)))


def check_key(key: Key, keys: Sequence[Key] | None) -> None:
    """Refuse a stream that is none of those that there are.

    Examples
    --------
    >>> check_key("pump", None), check_key("pump", ("pump", 7))
    (None, None)
    """
    if keys is not None and key not in keys:
        raise InputError(f"the key is {key!r}, and the configuration names {listed(keys)} only; add it there")
