"""Warming up: where there is no model, the first rows that come are learned from, and judging begins after them."""

from __future__ import annotations

import logging
import time as clock
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from patchad.data.periods import Period
from patchad.detectors.scan import WARM_UP
from patchad.errors import InputError, PatchADError
from patchad.live.config import Configuration
from patchad.live.refit import refit
from patchad.live.rows import Columns, HeaderError, Key, Row, comparable
from patchad.live.sources.base import Position, Reader, Source
from patchad.live.store import Store
from patchad.live.takeover import try_model
from patchad.live.watch import IDLE

if TYPE_CHECKING:
    from patchad.detectors.base import Detector
    from patchad.live.intake import Counts

logger = logging.getLogger(__name__)

RELEARNED = 64 * WARM_UP
"""Rows up to which a model is fitted again whenever their number has doubled."""
LEAST = 32
"""Rows of a stream from which on it is learned from."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What is known after the first rows."""

    detector: Detector
    sources: list[Source]
    """They have the first rows once more."""
    quiet: tuple[Period, ...]
    """The first rows: they are not judged by what was learned from them."""


class StoppedError(Exception):
    """It was to stop while it waited for the first rows."""


class Warmed:
    """A source that is open, with the lines that were read of it once more."""

    def __init__(self, source: Source, lines: Sequence[bytes]) -> None:
        self._source = source
        self._lines: Sequence[bytes] | None = lines

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def open(self, position: Position | None) -> None:
        """Open the source, unless it is open."""
        if self._lines is None:
            self._source.open(position)

    def connect(self, owner: str | None) -> None:
        """Connect the source, unless it is connected."""
        if self._lines is None:
            self._source.connect(owner)

    def poll(self) -> Sequence[bytes]:
        """Return the lines that were read, then those that follow."""
        lines, self._lines = self._lines, None
        return lines or self._source.poll()


def is_cold(configuration: Configuration) -> bool:
    """Return whether a watch has to begin without a model; refuse a state that no model could go on with."""
    if not configuration.cold:
        return False
    if configuration.state is not None and configuration.model is None:
        raise InputError(
            "a state needs a model that its streams go on with; name the file that it is written to: MODEL"
        )
    return configuration.model is None or not Path(configuration.model).exists()


def warm_up(configuration: Configuration, sources: Sequence[Source], stopping: Callable[[], bool]) -> Begun:
    """Read the first rows of these sources, fit a pretrained net to them, and write the model where one is named.

    It takes 240 rows of one stream; other streams that have 32 by then are learned from too.
    """
    with Store(None if configuration.state is None else Path(configuration.state)) as store:
        if store.meta("model") is not None:
            raise InputError(
                f"the state {configuration.state!r} was begun with a model, and {configuration.model!r} is not there; "
                "name that model, or another state"
            )
        owner = store.id if store.durable else None
    with ExitStack() as opened:
        readers: list[Reader] = []
        for source in sources:
            source.open(None)
            opened.callback(source.close)
            readers.append(source.reader(Columns((), every=True), None))
            source.connect(owner)
        rows, lines = _first_rows(sources, readers, stopping)
        detector = _fitted([own for own in rows if len(own) >= LEAST])
        if configuration.model is not None:
            detector.save(configuration.model)
        opened.pop_all()  # they stay open
    logger.warning("warmed up, with %d channels: rows are judged from now on", len(detector.channels_))
    warmed = [cast("Source", Warmed(*both)) for both in zip(sources, lines, strict=True)]
    return Begun(detector, warmed, _quiet(rows))


def _first_rows(
    sources: Sequence[Source], readers: Sequence[Reader], stopping: Callable[[], bool]
) -> tuple[list[list[Row]], list[list[bytes]]]:
    """Read until one stream has enough rows; return the first rows of each, and all lines of each source."""
    logger.warning("warming up: the first %d rows are learned from and not judged", WARM_UP)
    rows: dict[Key, list[Row]] = {}
    lines: list[list[bytes]] = [[] for _ in sources]
    while not stopping():
        before = sum(map(len, lines))
        for source, reader, kept in zip(sources, readers, lines, strict=True):
            came = source.poll()
            kept += came
            for row in _read(reader, came):
                own = rows.setdefault(row.key, [])
                if len(own) < WARM_UP and (not own or _follows(row, own[-1])):
                    own.append(row)
        longest = max(map(len, rows.values()), default=0)
        if longest == WARM_UP:
            return list(rows.values()), lines
        if all(source.ended for source in sources):
            raise InputError(
                f"the input ended after {longest} rows of a stream, while warming up; {WARM_UP} are needed, or a model"
            )
        if sum(map(len, lines)) == before:
            clock.sleep(IDLE)
    raise StoppedError


def _read(reader: Reader, lines: Sequence[bytes]) -> list[Row]:
    """Read what can be read; the watch that follows refuses the rest."""
    found = []
    for line in lines:
        try:
            row = reader.read(line)
        except HeaderError:
            raise
        except InputError:
            continue
        if row is not None:
            found.append(row)
    return found


def _follows(row: Row, before: Row) -> bool:
    """Return whether a row is later than the one before, or none has a time."""
    if row.moment is None or before.moment is None:
        return row.moment is before.moment
    try:
        return bool(comparable(row.moment) > comparable(before.moment))
    except (InputError, TypeError):
        return False


def _fitted(rows: Sequence[Sequence[Row]]) -> Detector:
    """Fit a pretrained net to the rows of each stream."""
    import pandas as pd

    from patchad.detectors.patchad import PatchAD

    values = [row.values for own in rows for row in own]
    names = list(dict.fromkeys(n for one in values for n, v in one.items() if isinstance(v, int | float)))
    if not names:
        raise InputError("the first rows have no numbers to learn from; send rows as {channel: number}")
    series = []
    for own in rows:
        columns = {name: [_number(row.values.get(name)) for row in own] for name in names}
        series.append(pd.DataFrame(columns, index=_index(own), dtype=float))
    return PatchAD().fit(series if len(series) > 1 else series[0])


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _index(rows: Sequence[Row]) -> Any:
    """Return the times of rows that follow each other, None where they have none."""
    import pandas as pd

    moments = [None if row.moment is None else comparable(row.moment) for row in rows]
    if moments[0] is None:
        return None
    return pd.Index(moments, dtype=float) if isinstance(moments[0], float) else pd.DatetimeIndex(moments, tz="UTC")


def _quiet(rows: Sequence[Sequence[Row]]) -> tuple[Period, ...]:
    """Return the time of the first rows of all streams, or their numbers."""
    timed = [own for own in rows if own[0].moment is not None]
    if not timed:
        return (Period(0, WARM_UP),)
    if len(timed) < len(rows):
        return ()  # no period holds for both kinds
    last = max((own[-1] for own in timed), key=lambda row: comparable(row.moment))
    return (Period(None, last.moment),)


class Relearning:
    """Says when to reload: whenever rows have doubled, a model is fitted to what is stored, and written.

    Parameters
    ----------
    path
        The model.
    store
        Has the rows.
    counts
        Of the watch.
    asked
        Whether to reload for another reason.
    """

    def __init__(self, path: Path, store: Store, counts: Counts, asked: Callable[[], bool]) -> None:
        self._path, self._store, self._counts, self._asked = path, store, counts, asked
        self._next = 2 * WARM_UP

    def __call__(self) -> bool:
        """Return whether to reload."""
        if self._asked():
            return True
        if self._counts.rows < self._next or self._next > RELEARNED:
            return False
        self._next *= 2
        return self._relearn()

    def _relearn(self) -> bool:
        from patchad.detectors.registry import load

        try:
            fresh = refit(load(self._path), self._store)
            trial = try_model(fresh.detector, self._store)
            if not trial.passed:
                logger.warning("the model stays, for a new one alarms too much: %s", trial)
                return False
            fresh.detector.save(self._path)
        except PatchADError as error:
            logger.warning("the model stays as it is: %s", error)
            return False
        logger.warning("learned again, from %s rows", f"{fresh.rows:,}")
        return True
