from __future__ import annotations

import numpy as np
from tests.conftest import small

from patchad import load
from patchad.model.relations import PARTNERS, Relations

RNG = np.random.default_rng(0)
BASE = RNG.standard_normal(2000)
ROWS = np.column_stack(
    [
        BASE,
        BASE + 0.1 * RNG.standard_normal(2000),
        -BASE + 0.3 * RNG.standard_normal(2000),
        RNG.standard_normal(2000),
        np.zeros(2000),
    ]
)


def test_partners_are_those_that_go_together_whatever_their_sign():
    relations = Relations.fit(ROWS)
    assert relations.pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert relations.correlation[0] > 0.9
    assert relations.correlation[1] < -0.9


def test_a_row_that_keeps_its_relations_is_blamed_little_and_a_broken_one_on_its_closest_partner():
    relations = Relations.fit(ROWS)
    kept = relations.blame(np.array([[3.0, 3.0, -3.0, 9.0, 0.0]]))[0]
    broken = relations.blame(np.array([[-1.0, 1.0, -1.0, 0.0, 0.0]]))[0]
    assert kept.max() < 1
    assert broken.argsort()[::-1].tolist()[:3] == [0, 1, 2]
    assert broken[3] == broken[4] == 0


def test_the_blame_of_windows_equals_that_of_their_rows():
    relations = Relations.fit(ROWS)
    windows = RNG.standard_normal((4, 7, 5))
    rows = np.concatenate([relations.blame(window[step][None]) for window in windows for step in range(7)])
    np.testing.assert_allclose(relations.blame(windows).reshape(-1, 5), rows)


def test_each_channel_has_few_partners():
    together = BASE[:, None] + 0.1 * RNG.standard_normal((2000, 12))
    pairs = Relations.fit(together).pairs
    assert len(pairs) <= PARTNERS * 12
    assert set(pairs.ravel()) == set(range(12))


def test_nothing_goes_together_and_one_channel():
    for values in (RNG.standard_normal((500, 3)), RNG.standard_normal((500, 1))):
        relations = Relations.fit(values)
        assert len(relations.pairs) == 0
        assert (relations.blame(values) == 0).all()


def test_arrays_give_the_relations_back_and_an_old_file_has_none():
    relations = Relations.fit(ROWS)
    again = Relations.from_arrays(relations.to_arrays())
    np.testing.assert_array_equal(again.blame(ROWS), relations.blame(ROWS))
    assert len(Relations.from_arrays({}).pairs) == 0


def test_a_detector_keeps_its_relations_in_its_file(tmp_path):
    values = ROWS[:800, :4]
    detector = small().fit(values)
    again = load(detector.save(tmp_path / "model.safetensors"))
    assert len(again.rule_.relations.pairs) == 3
    np.testing.assert_array_equal(again.explain(values[:200]), detector.explain(values[:200]))
