"""Plan: what a stream is made of. Streams know this, not the detectors that make it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from patchad.alarms.early import EarlyRules
from patchad.alarms.listing import AlarmStage
from patchad.data.preparing import Preparer
from patchad.data.stages import Stage
from patchad.data.table import BoolArray, FloatArray, Table
from patchad.data.windows import Asked, ScoreBlock
from patchad.streaming.marking import Marking
from patchad.thresholds.base import Threshold

Marker = Callable[[NDArray[Any] | None, range, tzinfo | None], BoolArray]
"""Takes the times of rows, their numbers, and the zone; returns `(time, channel)`."""


@dataclass(frozen=True, slots=True, eq=False)
class EarlyWords:
    """What a stream may say of rows before their scores are final."""

    rules: EarlyRules
    edge: float
    """Local score over which a row is unusual."""
    skipped: int
    """First rows of a segment, whose windows come in another order than those of later rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The stages of a stream, in the order of the data."""

    checksum: str
    """Of the fitted model: a snapshot of a stream belongs to one."""
    shape: tuple[object, ...]
    """What two models have to share for a stream of one to go on with the other."""
    channels: tuple[str, ...]
    fit_columns: tuple[str, ...]
    """All columns of the fit, for rows without names: the channels, and what `ignore` left out."""
    columns: tuple[str, ...]
    """Columns that the channels come from; empty where channels have no names."""
    read: Callable[[Any], Table]
    """Reads a container into a table whose columns are channels."""
    blameless: NDArray[np.intp]
    """Numbers of the channels that bear no blame."""
    preparer: Callable[[], Preparer]
    """Makes the stage that fills rows and cuts them into segments."""
    scorer: Callable[[], Stage[FloatArray]]
    """Makes the stage that scores the rows of one segment, with attribution."""
    threshold: Threshold
    """Fitted; a stream adapts a copy of it."""
    alarms: Callable[[], AlarmStage]
    """Makes the stage that finds events."""
    marking: Callable[[], Marking | None]
    """Makes the stage that compares rows with what was judged; None where nothing was."""
    score: ScoreBlock | None
    """Scores windows of any stream of this model; None where the model has none, or each stream its own."""
    batch: int
    """Windows that are best scored together."""
    quiet: Marker | None = None
    """Marks the rows and channels of which no events are wanted; None: there are none."""
    early: EarlyWords | None = None
    """What early scores are worth; None where no event is suspected before scores are final."""

    def scored(self, asked: Asked) -> tuple[FloatArray, FloatArray | None]:
        """Score windows that a stream asks for, which it does only where there is a `score`."""
        return cast("ScoreBlock", self.score)(asked.block, asked.steps)


class Streamable(Protocol):
    """A fitted model that streams can be made of."""

    def plan_stream(self) -> Plan:
        """Return what a stream is made of; refuse where a stream cannot equal batch."""
