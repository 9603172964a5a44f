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


def test_partners_are_channels_that_correlate_whatever_the_sign():
    relations = Relations.fit(ROWS)
    assert relations.pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert relations.correlation[0] > 0.9
    assert relations.correlation[1] < -0.9


def test_a_row_that_keeps_its_relations_has_little_attribution_and_a_broken_one_names_its_closest_partner():
    relations = Relations.fit(ROWS)
    kept = relations.attribution(np.array([[3.0, 3.0, -3.0, 9.0, 0.0]]))[0]
    broken = relations.attribution(np.array([[-1.0, 1.0, -1.0, 0.0, 0.0]]))[0]
    assert kept.max() < 1
    assert broken.argsort()[::-1].tolist()[:3] == [0, 1, 2]
    assert broken[3] == broken[4] == 0


def test_the_attribution_of_windows_equals_that_of_their_rows():
    relations = Relations.fit(ROWS)
    windows = RNG.standard_normal((4, 7, 5))
    rows = np.concatenate([relations.attribution(window[step][None]) for window in windows for step in range(7)])
    np.testing.assert_allclose(relations.attribution(windows).reshape(-1, 5), rows)


def test_each_channel_has_few_partners():
    together = BASE[:, None] + 0.1 * RNG.standard_normal((2000, 12))
    pairs = Relations.fit(together).pairs
    assert len(pairs) <= PARTNERS * 12
    assert set(pairs.ravel()) == set(range(12))


def test_uncorrelated_channels_and_a_single_one_have_no_relations():
    for values in (RNG.standard_normal((500, 3)), RNG.standard_normal((500, 1))):
        relations = Relations.fit(values)
        assert len(relations.pairs) == 0
        assert (relations.attribution(values) == 0).all()


def test_no_relations_have_no_attribution():
    assert (Relations.none().attribution(ROWS) == 0).all()


def test_a_file_brings_the_relations_back(tmp_path):
    values = ROWS[:800, :4]
    detector = small().fit(values)
    again = load(detector.save(tmp_path / "model.safetensors"))
    assert len(again.rule_.relations.pairs) == 3
    np.testing.assert_array_equal(again.explain(values[:200]), detector.explain(values[:200]))
