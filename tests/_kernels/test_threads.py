from __future__ import annotations

import threading

import pytest
import torch

from patchad._kernels.threads import parallel_map


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_come_in_order(threads):
    assert parallel_map(lambda x: x * x, list(range(20))) == [x * x for x in range(20)]


def test_the_setting_of_threads_is_kept(threads):
    parallel_map(lambda _: torch.get_num_threads(), range(8))
    assert torch.get_num_threads() == threads
    found = []
    other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert found == [threads]


def test_calls_run_at_the_same_time_where_there_are_two_cores(threads):
    barrier = threading.Barrier(threads, timeout=10)
    assert parallel_map(lambda x: barrier.wait() >= 0, range(threads)) == [True] * threads


def test_one_item_stays_in_the_calling_thread(threads):
    assert parallel_map(lambda _: threading.current_thread(), [0]) == [threading.current_thread()]
    assert parallel_map(len, []) == []


def test_an_error_reaches_the_caller_and_the_setting_is_kept(threads):
    with pytest.raises(ZeroDivisionError):
        parallel_map(lambda x: 1 // x, [1, 0, 2])
    assert torch.get_num_threads() == threads
