"""Tapes: what is replayed equals what is run, and what cannot be replayed is run."""

from __future__ import annotations

import copy
import threading

import numpy as np
import pytest
import torch
from torch import Tensor

from patchad import PatchAD
from patchad._kernels.backend import plain_arithmetic
from patchad._kernels.tapes import MAX_TAPES, WARMUP, TapedFunction

WEIGHTS = torch.arange(6.0).view(2, 3)


def work(x: Tensor, power: int = 2) -> tuple[Tensor, ...]:
    """Use views, copies, what is constant, an operation in place and one that torch has under no name."""
    scale = WEIGHTS.softmax(0).mean(0)
    mixed = torch.cat([x, x * scale], dim=1).T.contiguous()
    mixed.add_(x.sum())
    hidden = torch.nn.functional.gelu(mixed[:2] ** power)
    return hidden[torch.tensor([1, 0])], torch.empty_like(mixed).copy_(mixed)


def test_a_tape_repeats_the_work_for_each_shape_and_setting() -> None:
    calls: list[Tensor] = []
    taped = TapedFunction(lambda x, power: (calls.append(x), work(x, power))[1])
    for number in range(WARMUP + 4):
        for rows, power in ((2, 2), (2, 3), (3, 2)):
            x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(number))
            with torch.inference_mode():
                found = taped(x, power)
            assert all(map(torch.equal, found, work(x, power)))
    assert len(calls) == 3 * (WARMUP + 1)  # and one that was recorded


def test_results_of_a_replay_stay_as_they_are() -> None:
    taped = TapedFunction(work)
    found = [taped(torch.full((2, 3), float(n))) for n in range(WARMUP + 3)]
    for number, one in enumerate(found):
        assert all(map(torch.equal, one, work(torch.full((2, 3), float(number)))))


def add_to_a_constant(x: Tensor) -> tuple[Tensor, ...]:
    return (torch.zeros(2, 3).add_(x),)


def change_a_constant(x: Tensor) -> tuple[Tensor, ...]:
    return (x + torch.zeros(2, 3).fill_(2.0),)


@pytest.mark.parametrize("function", [add_to_a_constant, change_a_constant])
def test_what_changes_a_constant_is_not_replayed(function: object) -> None:
    taped = TapedFunction(function)  # type: ignore[arg-type]
    for number in range(WARMUP + 3):
        x = torch.full((2, 3), float(number))
        assert torch.equal(taped(x)[0], function(x)[0])  # type: ignore[operator]
    assert list(taped._tapes.values()) == [None]


def test_there_are_few_tapes_and_none_in_a_copy() -> None:
    taped = TapedFunction(work)
    for rows in range(2, MAX_TAPES + 4):
        for _ in range(WARMUP + 1):
            taped(torch.ones(rows, 3))
    assert len(taped._tapes) == MAX_TAPES
    assert not copy.deepcopy(taped)._tapes


def test_operations_that_are_counted_are_run() -> None:
    calls: list[Tensor] = []
    taped = TapedFunction(lambda x: (calls.append(x), work(x))[1])
    with plain_arithmetic():
        for _ in range(WARMUP + 4):
            taped(torch.ones(2, 3))
    assert len(calls) == WARMUP + 4


def test_a_tape_in_use_is_not_waited_for() -> None:
    inside, done = threading.Event(), threading.Event()

    def slow(x: Tensor) -> tuple[Tensor, ...]:
        if x[0, 0] == 1.0:
            inside.set()
            assert done.wait(10)
        return (2 * x,)

    taped = TapedFunction(slow)
    thread = threading.Thread(target=taped, args=(torch.ones(2, 2),))
    thread.start()
    assert inside.wait(10)
    assert torch.equal(taped(torch.zeros(2, 2))[0], torch.zeros(2, 2))
    done.set()
    thread.join()


def test_a_detector_scores_single_windows_from_a_tape() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 3))
    detector = PatchAD(window=30, hop=5, max_steps=5).fit(rows)
    whole = detector.decision_function(rows[:200])
    live = detector.stream()
    found = [verdict for row in rows[:200] for verdict in live.push(row)] + list(live.flush())
    tapes = detector.backend_._taped._tapes  # type: ignore[attr-defined]
    assert any(tape is not None for tape in tapes.values())
    np.testing.assert_allclose([one.score for one in found], whole, rtol=1e-5, atol=1e-6)
