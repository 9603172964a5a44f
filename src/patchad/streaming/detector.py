"""StreamDetector: the verdicts and events of batch, row by row."""

from __future__ import annotations

from typing import Any, Self

from patchad.results.detection import Event
from patchad.streaming.plan import Streamable
from patchad.streaming.rows import read_row
from patchad.streaming.snapshot import from_bytes, to_bytes
from patchad.streaming.stream import Stream, Work
from patchad.streaming.verdict import Verdict


class StreamDetector:
    """A stream of rows of one system, judged as they come.

    A verdict is final when it is given: it says what `detect` would say of that row in the whole series. It waits until
    the row is scored (`det.delay` rows), and until it is known whether the row lies in a listed event: see
    `docs/streaming.md`. Until then `events` and `outlook` tell what is known. State is bounded whatever the length,
    but for the list of events.

    Rows that cannot be used (of the wrong width, with infinite values, late, or at a time that was there before) raise
    `InputError` and leave the stream as it was.

    Parameters
    ----------
    detector
        Fitted; its streams do not change it.

    Examples
    --------
    >>> import numpy as np
    >>> from patchad import make
    >>> rows = np.random.default_rng(0).normal(size=(500, 2))
    >>> detector = make("moving_zscore").fit(rows)
    >>> live = StreamDetector(detector)
    >>> found = [verdict for row in rows for verdict in live.push(row)] + list(live.flush())
    >>> bool(np.allclose([verdict.score for verdict in found], detector.decision_function(rows)))
    True
    """

    def __init__(self, detector: Streamable) -> None:
        self._plan = detector.plan_stream()
        self._stream = Stream(self._plan)

    def push(self, row: Any, time: Any = None) -> tuple[Verdict, ...]:
        """Take the next row; return the verdicts that became final, often none.

        Parameters
        ----------
        row
            Values in the order of the channels, or of all columns of the fit where `ignore` left some out, or a
            mapping by their names; NaN, None or a name left out is a missing value.
        time
            Time of the row; of every row or of none.
        """
        values = read_row(row, self._plan)[None]
        return self._run(self._stream.work(values, None if time is None else [time]))

    def push_many(self, rows: Any, times: Any = None) -> tuple[Verdict, ...]:
        """Take the next rows, as an array, a frame or a list of rows; all of them or, if one is refused, none."""
        return self._run(self._stream.work(*self._stream.read(rows, times)))

    def flush(self) -> tuple[Verdict, ...]:
        """End the segment, and every event; return the verdicts of all rows that were left."""
        return self._stream.flush()

    def outlook(self) -> Verdict | None:
        """Return what batch would say of the newest row if it were the last; None before the first row.

        Where later windows score the row too, its score is held to the level that was calibrated for one window.
        """
        return self._stream.outlook()

    @property
    def events(self) -> tuple[Event, ...]:
        """Events so far in the order of their rows, each with its state.

        Those that were suspected before their scores were final, and withdrawn, are among them until the segment ends.
        """
        return self._stream.events

    def changes(self) -> tuple[Event, ...]:
        """Return the events that are new, or in another state than when this was called last, withdrawn ones too."""
        return self._stream.changes()

    def snapshot(self) -> bytes:
        """Return everything that the stream has to know to go on, in a form that is no pickle."""
        return to_bytes(self._plan.checksum, self._stream.stored())

    @classmethod
    def restore(cls, detector: Streamable, snapshot: bytes) -> Self:
        """Return a stream that goes on where a snapshot of one of the same model was taken."""
        stream = cls(detector)
        stream._stream.fill(*from_bytes(snapshot, stream._plan.checksum))
        return stream

    def _run(self, work: Work) -> tuple[Verdict, ...]:
        """Score the windows that are asked for, one after the other."""
        try:
            asked = next(work)
            while True:
                asked = work.send([self._plan.scored(one) for one in asked])
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
