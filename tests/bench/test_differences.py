"""How much better a row is than the others, entity by entity."""

from __future__ import annotations

from typing import Any

import pytest

from patchad.bench.differences import render_differences
from patchad.bench.statistics import estimate_difference
from patchad.errors import InputError

Record = dict[str, Any]


def record(detector: str, entity: str, value: float | None, *, seed: int = 0, protocol: str = "open") -> Record:
    metrics = {"skipped": "too short"} if value is None else {"vus_pr_opt": value, "event_f1": value / 2}
    where = {"suite": "s", "protocol": protocol, "dataset": "d", "entity": entity, "parameters": {}, "seed": seed}
    return where | {"detector": detector, "metrics": metrics}


def test_seeds_are_averaged_first_and_only_entities_that_both_have_count() -> None:
    own = [record("a", "x", 0.2), record("a", "x", 0.6, seed=1), record("a", "y", 0.9), record("a", "z", 1.0)]
    found = estimate_difference(own, [record("b", "x", 0.3), record("b", "y", 0.4)], "vus_pr_opt")
    assert found is not None
    assert found.mean == pytest.approx((0.1 + 0.5) / 2)
    assert (found.low, found.high) == pytest.approx((0.1, 0.5))
    assert found.count == 2


def test_rows_without_a_common_entity_have_no_difference() -> None:
    assert estimate_difference([record("a", "x", 0.2)], [record("b", "y", 0.2)], "vus_pr_opt") is None


def test_every_other_row_is_compared_and_skipped_entities_are_left_out() -> None:
    records = [record(name, entity, value) for name, value in (("a", 0.5), ("b", 0.25)) for entity in "xy"]
    text = render_differences([*records, record("c", "x", 0.75), record("c", "y", None)], "a")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert lines[0] == "| other row | entities | VUS-PR | event F1 |"
    assert lines[2:] == [
        "| b | 2 | +0.250 [+0.250, +0.250] | +0.125 [+0.125, +0.125] |",
        "| c | 1 | -0.250 [-0.250, -0.250] | -0.125 [-0.125, -0.125] |",
    ]


def test_a_row_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(InputError, match="'c'; rows are 'a', 'b'"):
        render_differences([record("a", "x", 0.5), record("b", "x", 0.5)], "c")


def test_joined_datasets_are_not_compared() -> None:
    with pytest.raises(InputError, match="protocols"):
        render_differences([record("a", "x", 0.5, protocol="paper")], "a")
