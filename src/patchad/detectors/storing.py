"""Which scores of train a detector stores: thresholds are fitted on them, now and later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from patchad.data.series import Series
from patchad.data.stages import Scored
from patchad.detectors.preparing import MIN_ROWS

if TYPE_CHECKING:
    from patchad.detectors.base import Detector


def scores_of_train(
    detector: Detector, segments: Sequence[Series], blocks: Sequence[Sequence[slice]]
) -> tuple[Scored, list[list[int]]]:
    """Score the newest rows of each segment; return them end to end, and which of them lie in these blocks."""
    newest = max(detector._stored_rows() // len(segments), MIN_ROWS)
    stored: list[Scored] = []
    held_out: list[list[int]] = []
    for segment, own in zip(segments, blocks, strict=True):
        skipped = max(len(segment) - newest, 0)
        before = sum(map(len, stored)) - skipped
        stored.append(Scored.join(list(detector._scored(segment.values[skipped:], explain=False))))
        held_out += [[before + max(b.start, skipped), before + b.stop] for b in own if b.stop > skipped]
    return Scored.join(stored), held_out
