"""One function, many inputs, several processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchad.bench.workers import as_completed
from patchad.errors import InputError, PatchADError


def threads(_: object) -> tuple[int, int, str]:
    import torch  # here, since every worker imports this file

    return os.getpid(), torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


def noted(values: list[int], taken: list[int]) -> Iterator[int]:
    for value in values:
        taken.append(value)
        yield value


def test_one_worker_is_this_process_and_keeps_the_order() -> None:
    taken: list[int] = []
    found = as_completed(lambda value: (value**2, os.getpid()), noted([3, 1, 2], taken), workers=1)
    assert next(found) == (3, (9, os.getpid()))
    assert taken == [3], "no input is taken before it is needed"
    assert [value for value, _ in found] == [1, 2]


def test_one_worker_computes_with_one_thread_and_restores_the_number_afterwards() -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert list(as_completed(lambda _: torch.get_num_threads(), iter([0]), workers=1)) == [(0, 1)]
        assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError):
            list(as_completed(lambda value: 1 // value, iter([0]), workers=1))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_several_workers_yield_each_input_once_and_take_few_ahead() -> None:
    taken: list[int] = []
    found = as_completed(abs, noted(list(range(-8, 0)), taken), workers=2)
    first = next(found)
    assert len(taken) == 3
    assert sorted([first, *found]) == [(value, -value) for value in range(-8, 0)]


def test_outputs_come_in_the_order_of_completion(tmp_path: Path) -> None:
    late, early = tmp_path / "late", tmp_path / "early"
    early.touch()
    found = as_completed(wait_for, iter([late, early]), workers=2)
    assert next(found) == (early, None)
    late.touch()
    assert list(found) == [(late, None)]


@pytest.mark.parametrize("setting", ["7", None])
def test_workers_have_one_thread_and_this_process_keeps_its_setting(
    setting: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if setting is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
    ((_, (process, count, inside)),) = as_completed(threads, iter([0]), workers=2)
    assert process != os.getpid()
    assert (count, inside) == (1, "1")
    assert os.environ.get("OMP_NUM_THREADS") == setting


def test_an_exception_in_a_worker_is_raised_here() -> None:
    with pytest.raises(ValueError, match="invalid literal for int"):
        list(as_completed(int, iter(["1", "one"]), workers=2))


def test_an_exception_in_the_inputs_is_raised_here() -> None:
    def inputs() -> Iterator[str]:
        yield "1"
        raise InputError("no more")

    with pytest.raises(InputError, match="no more"):
        list(as_completed(int, inputs(), workers=2))


def test_a_killed_worker_is_one_error_that_says_what_to_do() -> None:
    with pytest.raises(PatchADError, match=r"a worker was killed.*run the same command again, with --workers 1"):
        list(as_completed(os._exit, iter([1]), workers=2))
