from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.signal import lfilter

from patchad.datasets.backgrounds import BACKGROUNDS, calm, residual_deviation
from patchad.datasets.faults import (
    FAULT_KINDS,
    PlannedFault,
    durations,
    fault_grid,
    faulty,
)
from patchad.errors import InputError

SIZED = [kind for kind, fault in FAULT_KINDS.items() if fault.sized]


@pytest.fixture(scope="module")
def grid():
    return tuple(fault_grid())


def changes(background, kind, duration, amplitude, *, channels=5, stream=1):
    """Return a fault and what it adds to its channel, in residual deviations."""
    values, (fault,) = faulty(background, channels, [PlannedFault(kind, duration, amplitude)], stream=stream)
    added = values - calm(background, len(values), channels, stream=stream)
    return fault, (added / residual_deviation(background, channels))[fault.start : fault.stop, fault.channel]


def test_the_grid_holds_every_combination_that_makes_sense_twice(grid):
    found = Counter((f.kind, f.background, f.channels, f.amplitude) for series in grid for f in series.faults)
    wanted = {
        (kind, background, channels, amplitude)
        for kind, background, channels in product(FAULT_KINDS, BACKGROUNDS, (1, 5, 20))
        for amplitude in ((4.0, 8.0) if kind in SIZED else (None,))
        if durations(kind, background)
    }
    assert dict(found) == dict.fromkeys(wanted, 2)


def test_the_grid_covers_every_duration_of_every_kind(grid):
    found = {(f.kind, f.stop - f.start) for series in grid for f in series.faults}
    assert found == {(k, rows) for k, b in product(FAULT_KINDS, BACKGROUNDS) for rows in durations(k, b)}
    assert all(
        f.stop - f.start >= 30 for s in grid for f in s.faults if f.kind in {"stuck", "drift", "faster", "noisy"}
    )


def test_labels_match_faults_that_lie_far_apart(grid):
    for series in grid:
        assert series.test.shape[1] == series.train.shape[1] == len(series.deviation) == series.faults[0].channels
        edges = [0, *(edge for f in series.faults for edge in (f.start, f.stop)), len(series.test)]
        assert all(stop - start >= 1000 for start, stop in zip(edges[::2], edges[1::2], strict=True))
        expected = np.concatenate([np.full(stop - start, i % 2) for i, (start, stop) in enumerate(pairwise(edges))])
        np.testing.assert_array_equal(series.labels, expected.astype(bool))
        assert len(series.faults) <= 16
        assert np.isfinite(series.test).all()
    assert len({series.name for series in grid}) == len(grid)


def test_faults_change_one_channel_and_nothing_outside_their_rows(grid):
    for series in grid:
        stream = int(series.name.rsplit("-", 1)[1])
        changed = series.test != calm(series.background, len(series.test), series.test.shape[1], stream=stream)
        np.testing.assert_array_equal(changed.any(axis=1) & ~series.labels, False)
        for fault in series.faults:
            others = np.arange(series.test.shape[1]) != fault.channel
            assert not changed[fault.start : fault.stop, others].any()
            assert changed[fault.start : fault.stop, fault.channel].any()


def test_the_grid_depends_on_its_seed_alone(grid):
    again, other = next(fault_grid()), next(fault_grid(seed=1))
    np.testing.assert_array_equal(again.train, grid[0].train)
    np.testing.assert_array_equal(again.test, grid[0].test)
    assert again.faults == grid[0].faults
    assert other.faults != grid[0].faults
    assert not np.isin(other.train, again.train).any()
    (part,) = (s for s in fault_grid(channels=(5,)) if s.name == "waves-5-2")
    (whole,) = (s for s in grid if s.name == "waves-5-2")
    np.testing.assert_array_equal(part.test, whole.test)


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_streams_are_rows_of_one_process(background):
    one, other = calm(background, 20_000, 3, seed=4, stream=7), calm(background, 20_000, 3, seed=4, stream=8)
    deviation = residual_deviation(background, 3, seed=4)
    assert not np.array_equal(one, other)
    np.testing.assert_allclose(one.mean(axis=0) / deviation, other.mean(axis=0) / deviation, atol=0.5)
    np.testing.assert_allclose(one.std(axis=0), other.std(axis=0), rtol=0.1)
    assert (one / deviation).min() > 8  # so that zero is a fault


def test_the_residual_deviation_is_what_the_pattern_leaves():
    wander = calm("wander", 50_000, 4)
    around = wander - wander.mean(axis=0)
    forecasts = [lfilter([1, -0.98], [1, -ma], around, axis=0)[100:].std(axis=0) for ma in np.arange(0.5, 0.9, 0.01)]
    np.testing.assert_allclose(np.min(forecasts, axis=0), residual_deviation("wander", 4), rtol=0.02)
    days = calm("daily", 288 * 100, 4).reshape(100, 288, 4)
    np.testing.assert_allclose((days - days.mean(axis=0)).std(axis=(0, 1)), residual_deviation("daily", 4), rtol=0.02)
    switches = calm("switches", 50_000, 4)
    on = switches[:, 0] > switches[:, 0].mean()
    np.testing.assert_allclose(switches[on].std(axis=0), residual_deviation("switches", 4), rtol=0.02)
    waves = calm("waves", 50_000, 4)
    spectrum = np.abs(np.fft.rfft(waves - waves.mean(axis=0), axis=0)) / np.sqrt(len(waves) / 2)
    np.testing.assert_allclose(
        np.sqrt(np.median(spectrum**2, axis=0) / np.log(4)), residual_deviation("waves", 4), rtol=0.05
    )


@pytest.mark.parametrize("background", BACKGROUNDS)
@pytest.mark.parametrize("amplitude", [4.0, 8.0])
def test_amplitudes_are_residual_deviations(background, amplitude):
    for stream in range(1, 5):
        np.testing.assert_allclose(np.abs(changes(background, "offset", 100, amplitude, stream=stream)[1]), amplitude)
        for kind, sign in (("spike", 1), ("dip", -1)):
            for rows in (1, 10):
                added = sign * changes(background, kind, rows, amplitude, stream=stream)[1]
                assert added.max() == pytest.approx(amplitude)
                assert added.min() > 0
        drift = np.abs(changes(background, "drift", 300, amplitude, stream=stream)[1])
        np.testing.assert_allclose(drift, amplitude * np.arange(1, 301) / 300)
        assert changes(background, "noisy", 1500, amplitude, stream=stream)[1].std() == pytest.approx(
            amplitude, rel=0.1
        )
        if durations("large", background):
            assert np.abs(changes(background, "large", 30, amplitude, stream=stream)[1]).max() == pytest.approx(
                amplitude
            )


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_a_level_is_flat_and_starts_on_the_other_side(background):
    deviation = residual_deviation(background, 5)
    mean = calm(background, 100_000, 5, stream=99).mean(axis=0)
    for stream in range(1, 5):
        values, (fault,) = faulty(background, 5, [PlannedFault("level", 1000, 4.0)], stream=stream)
        inside = (values[fault.start : fault.stop] - mean)[:, fault.channel] / deviation[fault.channel]
        assert abs(inside.mean()) == pytest.approx(4, abs=0.3)
        assert 0.75 < inside.std() < 1.1
        assert abs(changes(background, "level", 1, 4.0, stream=stream)[1][0]) > 4 - 1e-9


@pytest.mark.parametrize("background", ["waves", "switches", "daily"])
def test_faster_runs_the_pattern_at_double_speed(background):
    values, (fault,) = faulty(background, 5, [PlannedFault("faster", 1000)])
    clean = calm(background, len(values), 5, stream=1)
    fast = values[fault.start : fault.stop, fault.channel]
    slow = clean[fault.start : fault.start + 2 * len(fast) : 2, fault.channel]
    deviation = residual_deviation(background, 5)[fault.channel]
    assert (fast - slow).std() < 1.6 * deviation  # equal but for the noise of both
    assert (fast - clean[fault.start : fault.stop, fault.channel]).std() > 3 * deviation


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_stuck_holds_the_last_value_and_zero_is_zero(background):
    values, (stuck, zero) = faulty(background, 5, [PlannedFault("stuck", 300), PlannedFault("zero", 1)])
    assert (values[stuck.start - 1 : stuck.stop, stuck.channel] == values[stuck.start, stuck.channel]).all()
    assert values[zero.start, zero.channel] == 0
    assert values[stuck.stop, stuck.channel] != values[stuck.start, stuck.channel]


def test_wrong_calls_are_refused():
    with pytest.raises(InputError, match="no background 'sea'"):
        calm("sea", 10, 1)
    with pytest.raises(InputError, match="at least 1, got 10 and 0"):
        calm("noise", 10, 0)
    with pytest.raises(InputError, match="no fault 'fire'"):
        PlannedFault("fire", 10)
    with pytest.raises(InputError, match="takes an amplitude, got None"):
        PlannedFault("offset", 10)
    with pytest.raises(InputError, match=r"takes no amplitude, got 4\.0"):
        PlannedFault("zero", 10, 4.0)
    with pytest.raises(InputError, match="at least 1 row, got 0"):
        PlannedFault("zero", 0)
    with pytest.raises(InputError, match="spacing"):
        faulty("noise", 1, [PlannedFault("zero", 1)], spacing=0)
