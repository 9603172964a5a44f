from __future__ import annotations

import numpy as np
import pytest

from patchad.data.screening import MOST, foreign_rows
from patchad.datasets.backgrounds import BACKGROUNDS, calm
from patchad.datasets.faults import PlannedFault, faulty


def marked(*segments: np.ndarray, share: float | None = None) -> np.ndarray:
    return np.concatenate(foreign_rows(list(segments), share))


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_nothing_is_foreign_to_clean_rows(background):
    assert not marked(calm(background, 4000, 2)).any()


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_faults_are_foreign_and_little_else_is(background):
    planned = [PlannedFault("zero", 30), PlannedFault("offset", 100, 8.0), PlannedFault("noisy", 100, 8.0)]
    values, faults = faulty(background, 2, planned, spacing=1200)
    found = marked(values)
    labels = np.zeros(len(values), dtype=bool)
    for fault in faults:
        labels[fault.start : fault.stop] = True
    assert sum(found[fault.start : fault.stop].any() for fault in faults) >= 2
    assert found[labels].mean() > 0.4
    assert found[~labels].mean() < 0.01


def test_what_happens_again_and_again_is_normal():
    rows = calm("noise", 6000, 1)
    size = 8 * rows.std()
    for start in range(500, 6000, 1000):
        rows[start : start + 40] += size
    assert not marked(rows).any()


def test_what_lasts_for_much_of_train_is_normal():
    rows = calm("noise", 6000, 1)
    rows[2000 : 2000 + int(1.5 * MOST * 6000)] += 8 * rows.std()
    assert not marked(rows).any()


def test_segments_are_judged_together():
    rows = calm("waves", 4000, 1)
    rows[3100:3130] += 10 * rows.std()
    one, other, short = foreign_rows([rows[:2500], rows[2500:3990], rows[3990:]])
    assert (len(one), len(other), len(short)) == (2500, 1490, 10)
    assert not one.any()
    assert not short.any()
    assert np.flatnonzero(other)[[0, -1]].tolist() == [600, 629]


def test_a_share_marks_the_strangest_rows():
    rows = calm("noise", 4000, 1)
    rows[1000:1040] += 10 * rows.std()
    found = marked(rows, share=0.01)
    assert 0.009 < found.mean() <= 0.015
    assert found[1000:1040].mean() > 0.9


def test_a_glitch_of_a_switch_is_foreign_and_its_first_move_is_not():
    switch = np.repeat(np.arange(40) % 2, 100).astype(float)[:, None]
    assert not marked(switch).any()
    switch[1234] = 1e9
    assert np.flatnonzero(marked(switch)).tolist() == [1234]
    moved = np.zeros((4000, 1))
    moved[3000:] = 1.0
    assert not marked(moved).any()


@pytest.mark.parametrize("rows", [np.zeros((4000, 2)), calm("noise", 100, 1), np.ones((5, 1))])
def test_nothing_is_known_of_constant_and_short_series(rows):
    assert not marked(rows).any()
