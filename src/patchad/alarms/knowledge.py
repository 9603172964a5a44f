"""What the operator knows: which deviations matter, of which channels, and how large they have to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from patchad.alarms.quiet import Quiet
from patchad.alarms.sensors import SensorRules
from patchad.alarms.usual import Usual, UsualStage
from patchad.data.table import BoolArray, FloatArray
from patchad.errors import InputError, listed

Direction = Literal["both", "up", "down"]

BLAMED = 0.8
"""Share of the blame that an event's channels carry, from the largest down, before the rest is of no account."""
NOTABLE = 0.7
"""Deviation of a blamed channel, as a share of the largest among them, from which on it is what the event is about."""
TWO_SIDED = 0.5
"""Smaller over larger side of a channel that deviates in both directions."""
OVER_NOISE = 0.6
"""Mean deviation to one side that is no noise, in standard deviations of forecast errors; noise has 0.4."""
JUDGED_ROWS = 240
"""First rows of an event by which it is judged."""


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """What matters of each channel of a detector; all are `(channel,)`."""

    up: BoolArray
    """Whether it matters that the channel is above what is usual."""
    down: BoolArray
    min_change: FloatArray
    """Least deviation from what is usual that matters, in units of the data."""
    ignored: BoolArray

    @classmethod
    def of(
        cls,
        channels: Sequence[str],
        *,
        direction: Direction | Mapping[str, Direction] = "both",
        min_change: float | Mapping[str, float] = 0.0,
        ignore: Sequence[str] = (),
        columns: Sequence[str] = (),
    ) -> Self:
        """Bring what was said of all channels or of some into the order of the channels.

        Parameters
        ----------
        channels
            The channels of the detector.
        direction, min_change, ignore
            As for `Detector`.
        columns
            All names that may be used; more than the channels where the fit left some out.

        Examples
        --------
        >>> known = Knowledge.of(("flow", "level"), direction={"flow": "up"}, ignore=("level",))
        >>> known.down.tolist(), known.ignored.tolist()
        ([False, False], [False, True])
        """
        known = columns or channels
        check_channels("ignore", ignore, known)
        directions = _by_channel("direction", direction, channels, known, "both")
        changes = _by_channel("min_change", min_change, channels, known, 0.0)
        for name, change in zip(channels, changes, strict=True):
            if not 0 <= change < np.inf:
                raise InputError(
                    f"min_change={change!r} of channel {name!r} is out of range; it is the least deviation that "
                    "matters, in units of the data: a finite number from 0 up"
                )
        ignored = np.array([name in ignore for name in channels], dtype=bool)
        up, down = (np.array([one != other for one in directions], dtype=bool) for other in ("down", "up"))
        return cls(up & ~ignored, down & ~ignored, np.array(changes, dtype=np.float64), ignored)

    @property
    def judges(self) -> bool:
        """Whether some deviations do not matter."""
        return bool((self.min_change > 0).any() or not (self.up & self.down).all())

    def limits(self, rules: SensorRules, center: FloatArray) -> SensorRules:
        """Return the rules of the sensors without those that do not matter.

        An ignored channel has none; a value is out of range only in a direction that matters, and at least
        `min_change` from the mean of train.
        """
        never = float(np.finfo(np.float64).max)
        low = np.where(self.down, np.minimum(rules.low, center - self.min_change), -never)
        high = np.where(self.up, np.maximum(rules.high, center + self.min_change), never)
        freeze, silence = (np.where(self.ignored, never, limit) for limit in (rules.freeze, rules.silence))
        return replace(rules, freeze=freeze, silence=silence, low=low, high=high)


def check_channels(parameter: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names that are no channels."""
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"{parameter} names {listed(unknown)}, which is no channel; there are {listed(known, 20)}")


def _by_channel(parameter: str, given: Any, channels: Sequence[str], known: Sequence[str], default: Any) -> list[Any]:
    if not isinstance(given, Mapping):
        return [given] * len(channels)
    check_channels(parameter, tuple(given), known)
    return [given.get(name, default) for name in channels]


class Judge:
    """Tell which events of a series matter: by how far channels are from what is usual, and by where it is quiet.

    Parameters
    ----------
    knowledge
        What matters.
    usual
        What is usual.
    before, after
        Rows by which a score reaches ahead and back.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
    >>> usual = Usual.fit([rows])
    >>> rows[500:520, 1] -= 8
    >>> for direction in ("up", "down"):
    ...     judge = Judge(Knowledge.of(("a", "b"), direction=direction), usual)
    ...     judge.observe(rows)
    ...     print(judge.matters(500, 520, np.array([0.1, 0.9]), range(500, 520)))
    False
    True
    """

    state = ("_stage", "_deviations", "_seen", "quiet")

    def __init__(self, knowledge: Knowledge, usual: Usual, *, before: int = 0, after: int = 0) -> None:
        self._knowledge, self._usual = knowledge, usual
        self._judges = knowledge.judges
        self.quiet = Quiet(len(usual.center), before=before, after=after)
        self._stage = UsualStage(usual)
        self._deviations = np.empty((0, len(usual.center)))
        """Of the newest rows, `(time, channel)`."""
        self._seen = 0

    def observe(self, values: FloatArray, quiet: BoolArray | None = None) -> None:
        """Take the next rows as they were measured, and where in them it is quiet: `(time, channel)` each."""
        self.quiet.push(np.zeros(values.shape, dtype=bool) if quiet is None else quiet)
        if self._judges:
            self._deviations = np.concatenate([self._deviations, self._stage.push(values)])
        self._seen += len(values)

    def forget(self, row: int) -> None:
        """Forget the rows before this one: they will not be asked for."""
        self.quiet.forget(row)
        self._deviations = self._deviations[max(row - (self._seen - len(self._deviations)), 0) :]

    def matters(
        self, start: int, stop: int, attribution: FloatArray | None, active: Sequence[int], confirmed: bool = False
    ) -> bool:
        """Return whether an event of these rows matters, given each channel's part in it and its strange rows.

        A channel that carries the blame has to deviate in a direction that matters, by enough, and by about as much as
        the others and the ignored ones do; what was confirmed may deviate in any direction, by any amount. It must not
        be quiet for the leading channel in most of the strange rows.
        """
        lead = None if attribution is None or not attribution.any() else int(attribution.argmax())
        if self.quiet.hushes(lead, active):
            return False
        first = self._seen - len(self._deviations)
        rows = self._deviations[max(start - first, 0) : max(min(stop, start + JUDGED_ROWS) - first, 0)]
        if not len(rows):
            return True
        known = self._knowledge
        considered = _blamed(attribution, ~known.ignored) | known.ignored
        sides = np.stack([np.maximum(rows, 0).mean(axis=0), np.maximum(-rows, 0).mean(axis=0)])  # (side, channel)
        sides = sides / self._usual.spread * considered
        larger = sides.max(axis=0)
        about = considered & (larger >= NOTABLE * larger.max())
        there = (sides == larger) | ((sides >= TWO_SIDED * larger) & (sides >= OVER_NOISE))
        if confirmed:
            return bool((about & ~known.ignored).any())
        far = np.stack([rows.max(axis=0), -rows.min(axis=0)]) >= known.min_change
        return bool((about & there & far & np.stack([known.up, known.down])).any())


def _blamed(attribution: FloatArray | None, suspects: BoolArray) -> BoolArray:
    """Mark the channels that carry the blame; all suspects where nobody can tell."""
    if attribution is None or not attribution.sum() > 0:
        return suspects
    order = np.argsort(-attribution, kind="stable")
    before = np.cumsum(attribution[order]) - attribution[order]
    blamed: BoolArray = np.zeros(len(order), dtype=bool)
    blamed[order[before < BLAMED * attribution.sum()]] = True
    return blamed
