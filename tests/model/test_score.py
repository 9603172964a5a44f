"""From the columns of the witnesses to one score."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import waves

from patchad import InputError, PatchAD, load
from patchad.data.stages import Scored
from patchad.model.relations import Relations
from patchad.model.score import EMPHASIS, Fusion, RollingMedian, ScoreRule
from patchad.model.witnesses import Evidence
from patchad.model.witnesses.discrepancy import Discrepancy
from patchad.model.witnesses.residual import Residual
from patchad.model.witnesses.surprise import Surprise

cuts = st.lists(st.integers(0, 60), max_size=6)


def rule_of(columns: np.ndarray, kind: str = "fused", adapt: int = 0) -> ScoreRule:
    relations = Relations.fit(np.random.default_rng(0).standard_normal((50, 2)).astype(np.float32))
    witnesses = (Discrepancy("kl", 1), *(Residual() for _ in range(columns.shape[1] - 1)))
    return ScoreRule(kind, witnesses, relations, adapt).with_scale(Scored(columns))


def fused(rule: ScoreRule, columns: np.ndarray, bounds: tuple[int, ...] = ()) -> np.ndarray:
    stage = Fusion(rule)
    parts = np.split(columns, sorted(min(bound, len(columns)) for bound in bounds))
    return Scored.join([*(stage.push(Scored(part)) for part in parts), stage.flush()]).scores


def test_two_witnesses_make_the_score():
    rule = rule_of(np.random.default_rng(2).random((500, 6)))
    columns = np.full((1, 6), 0.5)
    columns[0, 3] = 50.0
    one = fused(rule, columns)[0]
    columns[0, 1] = 50.0
    two = fused(rule, columns)[0]
    columns[0, 0] = 50.0
    assert one ** (1 / EMPHASIS) == pytest.approx(two ** (1 / EMPHASIS) / 2, rel=0.05)
    assert fused(rule, columns)[0] == pytest.approx(two, rel=0.07)


def test_a_column_counts_from_its_least_value_on():
    rule = rule_of(np.random.default_rng(2).random((500, 2)))
    surprise = Surprise(torch.zeros(1, 1), torch.zeros(1))
    gated = replace(rule, witnesses=(rule.witnesses[0], surprise))
    columns = np.column_stack(
        [np.full(3, 0.7), rule.scale.median[1] + rule.scale.spread[1] * np.array([3.0, 6.9, 7.1])]
    )
    whole, counted = fused(rule, columns), fused(gated, columns)
    assert counted[0] == counted[1] < whole[0] < whole[1]
    assert counted[2] == whole[2]


def test_only_the_root_of_what_has_lasted_counts():
    held_out = np.random.default_rng(2).random((500, 1)).repeat(6, axis=1)
    never, adapting = (rule_of(held_out, adapt=rows) for rows in (0, 100))
    columns = np.full((400, 6), 0.5)
    columns[100:] = 50.0
    columns[350:] = 80.0
    plain, adapted = fused(never, columns), fused(adapting, columns)
    np.testing.assert_array_equal(adapted[:149], plain[:149])  # for half of the rows that it adapts to, all counts
    np.testing.assert_array_equal(fused(adapting, columns[:300]), adapted[:300])
    was, now, left, new = (score ** (1 / EMPHASIS) for score in (plain[349], plain[350], adapted[349], adapted[350]))
    assert left == pytest.approx(np.sqrt(was))
    assert new == pytest.approx(now - was + np.sqrt(was))  # what is new counts whole


@given(st.integers(0, 60), st.integers(1, 40), cuts)
def test_medians_of_rows_pushed_in_any_parts_are_those_of_all(length, rows, bounds):
    columns = np.random.default_rng(length).random((length, 2))
    median = RollingMedian(rows)
    found = np.concatenate([median.push(part) for part in np.split(columns, sorted(min(b, length) for b in bounds))])
    expected = [np.median(columns[max(0, i - rows + 1) : i + 1], axis=0) for i in range(length)]
    np.testing.assert_array_equal(found, np.array(expected).reshape(length, 2))


@given(st.integers(1, 60), st.integers(0, 20), cuts)
def test_rows_pushed_in_any_parts_have_the_same_fused_scores(length, adapt, bounds):
    random = np.random.default_rng(length)
    rule = rule_of(random.random((100, 3)), adapt=adapt)
    columns = 5 * random.random((length, 3))
    np.testing.assert_array_equal(fused(rule, columns, tuple(bounds)), fused(rule, columns))


def test_a_rule_without_a_scale_cannot_fuse():
    plain = rule_of(np.ones((9, 2)))
    with pytest.raises(ValueError, match="no scale"):
        Fusion(ScoreRule("fused", plain.witnesses, plain.relations, 0))


@pytest.mark.parametrize(
    ("kind", "explain", "names"),
    [
        ("fused", False, ("discrepancy", "residual")),
        ("discrepancy", False, ("discrepancy",)),
        ("discrepancy", True, ("discrepancy", "residual")),
        ("residual", True, ("residual",)),
    ],
)
def test_only_the_witnesses_that_are_needed_are_observed(kind, explain, names):
    rule = rule_of(np.ones((9, 2)), kind)
    assert rule.needed(explain=explain) == names
    observed = {name: torch.rand(4, 5, 2, generator=torch.Generator().manual_seed(0)) for name in names}
    evidence = Evidence(torch.zeros(4, 5, 2), observed)
    assert rule.columns(evidence).shape == (4, 5, 2 if kind == "fused" else 1)
    if explain:
        attribution = rule.attribution(evidence)
        assert attribution.shape == (4, 5, 2)
        assert (attribution >= 0).all()


def test_a_plant_that_changed_for_good_does_not_alarm_for_ever(tmp_path):
    train, test = waves(1500), waves(1500, seed=1)
    test[300:, 0] += 0.6
    settings = {"window": 30, "d_model": 4, "max_steps": 20, "random_state": 0}
    plain, adapting = (PatchAD(**settings, adapt=rows).fit(train) for rows in (0, 300))
    before, after = plain.decision_function(test), adapting.decision_function(test)
    assert after[300:400].mean() == pytest.approx(before[300:400].mean(), rel=0.1)
    assert before[700:].mean() > 0.8 * before[330:400].mean() > 5
    assert after[700:].mean() < 0.6 * before[700:].mean()
    path = adapting.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load(path).decision_function(test), after)
    with pytest.raises(InputError, match="adapt=-1 is out of range"):
        PatchAD(adapt=-1).fit(train)
