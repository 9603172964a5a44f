"""The page on alarms tells the numbers that the code has."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchad.alarms import chunk, edges, events, feedback, likeness, repeats, rules, sensors
from patchad.thresholds import promise

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "thresholds.md").read_text().split())


@pytest.mark.parametrize(
    "told",
    [
        f"({promise.PRIOR_SCALE} times the distance",
        f"Its shape, at most {promise.MAX_SHAPE} and never lighter than exponential, is drawn towards",
        f"drawn towards {promise.PRIOR_SHAPE}, which counts as much as {promise.SHAPE_CLUSTERS} clusters;",
        f"resampled {promise.RESAMPLES} times",
        f"One plus the square of {promise.SHORT_ROWS} over the held-out rows, at most {promise.MAX_FACTOR:g}",
        f"in {promise.CONFIDENCE:.0%}".replace("%", " %"),
        f"has lasted {chunk.REGIME_ROWS} rows",
        f"exceeds the highest of its newest {chunk.REGIME_ROWS} rows",
        f"After {chunk.UNSTEADY_ROWS:,} rows an event",
        f"checked every {events.CHECK_EVERY} rows",
        f"over {repeats.REPEAT_PEAK} times the median peak",
        f"at most {repeats.REPEAT_ROWS:,} rows after the end",
        f"up to {repeats.REPEAT_ROWS * (1 + repeats.REPEATS_COUNTED):,}.",
        f"{rules.EDGE_QUANTILE:.1%}".replace("%", " %"),
        f"Fewer than {rules.EDGE_ROWS:,} of these",
        f"and {rules.MAX_EDGE:g} times at most",
        f"its peak is at most {events.GREATER:g} times",
        f"and {sensors.MORE_ROWS} rows more",
        f"{likeness.MARGIN} times what {likeness.NEAR:.0%}".replace("%", " %"),
        f"among {likeness.NEIGHBOURS:,} windows of train",
        f"up to {feedback.MAX_PATTERNS:,} windows",
        f"at most {feedback.EDGE_ROWS} from them",
        f"times one plus {sensors.RANGE_ROWS} over its values in train",
        f"over {sensors.MAX_FREEZE:.0%}".replace("%", " %"),
    ],
)
def test_the_page_tells_the_numbers_of_the_code(told):
    assert told in PAGE


def test_the_words_of_the_page_for_numbers_hold():
    """A tenth, ten, a fifth, two fifths, a quarter, two, three, two and a half, twice, half."""
    assert (promise.TAILS[0], promise.MIN_CLUSTERS, promise.PRIOR_CLUSTERS) == (0.1, 10, 10)
    assert (edges.CLOSING, edges.BLUNT_CLOSING, edges.SHARPNESS, chunk.STEADY_SPREAD) == (0.2, 0.4, 0.25, 2.5)
    assert (repeats.REPEATS_AFTER, repeats.CLEAR) == (2, 3.0)
    assert (sensors.LONGER, sensors.MIN_VALUES, sensors.RANGE_MARGIN, promise.SHORT_POWER) == (2.0, 10, 0.5, 2)
