from __future__ import annotations

import numpy as np
import pytest

from patchad.datasets.plant import CHANNELS, CYCLE, FAULTS, simulate_plant
from patchad.errors import InputError


def test_the_same_seed_gives_the_same_plant():
    one, other, third = simulate_plant(500, seed=1), simulate_plant(500, seed=1), simulate_plant(500, seed=2)
    np.testing.assert_array_equal(one.values, other.values)
    assert not np.array_equal(one.values, third.values)
    assert one.values.shape == (500, len(CHANNELS))
    assert np.isfinite(one.values).all()


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("seed", range(5))
def test_a_fault_changes_its_channel_in_its_rows_and_nothing_else(kind, seed):
    faulty, clean = simulate_plant(800, seed=seed, kinds=(kind,)), simulate_plant(800, seed=seed)
    (fault,) = faulty.faults
    changed = faulty.values != clean.values
    column = CHANNELS.index(fault.channel)
    assert changed[:, np.arange(len(CHANNELS)) != column].sum() == 0
    rows = np.flatnonzero(changed[:, column])
    assert fault.start <= rows.min()
    assert rows.max() < fault.stop
    assert len(rows) >= 0.5 * (fault.stop - fault.start)
    assert faulty.labels.sum() == fault.stop - fault.start


def test_sensors_are_coupled_periodic_and_switching():
    run = simulate_plant(5000, seed=0)
    column = {name: run.values[:, i] for i, name in enumerate(CHANNELS)}
    assert np.corrcoef(column["pump_speed"], column["flow"])[0, 1] > 0.95
    assert np.corrcoef(column["conductivity"], column["ph"])[0, 1] < -0.7
    for name in ("inlet_valve", "cooling_fan"):
        assert set(np.unique(column[name])) == {0.0, 1.0}
        assert 20 < np.abs(np.diff(column[name])).sum() < 1000
    wave = np.abs(np.fft.rfft(column["pump_speed"] - column["pump_speed"].mean()))
    assert 5000 / wave.argmax() == pytest.approx(CYCLE, rel=0.02)


def test_faults_are_injected_in_the_given_order():
    kinds = tuple(FAULTS) * 2
    run = simulate_plant(600 * len(kinds), seed=3, kinds=kinds)
    assert tuple(fault.kind for fault in run.faults) == kinds
    assert all(a.stop < b.start for a, b in zip(run.faults, run.faults[1:], strict=False))


def test_unknown_kinds_and_too_few_rows_are_refused():
    with pytest.raises(InputError, match="no kind of fault 'fire'"):
        simulate_plant(1000, kinds=("fire",))
    with pytest.raises(InputError, match="too few"):
        simulate_plant(300, kinds=("trend",))
