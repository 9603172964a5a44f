from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from patchad._kernels.batching import (
    CACHED_VALUES,
    MAX_CORE_WINDOWS,
    MIN_PARALLEL_VALUES,
    batch_size_for_core,
    batch_size_for_gpu,
    micro_batch_size,
    split_batch,
)

VALUES = st.floats(1, 1e9)


@given(values=VALUES)
def test_a_batch_has_at_least_one_window_and_fits_into_the_cache(values):
    size = batch_size_for_core(values)
    assert 1 <= size <= MAX_CORE_WINDOWS
    assert size == 1 or size * values <= CACHED_VALUES
    assert batch_size_for_gpu(values) >= size


@given(windows=st.integers(1, 3000), values=VALUES)
def test_split_windows_are_all_there_in_order_and_evenly_split(windows, values):
    parts = split_batch(torch.arange(windows), values)
    assert torch.equal(torch.cat(list(parts)), torch.arange(windows))
    sizes = {len(part) for part in parts[:-1]}
    assert max(len(part) for part in parts) <= batch_size_for_core(values)
    assert len(sizes) <= 1


@given(batch=st.integers(1, 512), values=VALUES)
def test_only_large_training_batches_are_split(batch, values):
    size = micro_batch_size(batch, values)
    assert 1 <= size <= batch
    assert size == batch or batch * values > MIN_PARALLEL_VALUES
    assert (size - 1) * values <= CACHED_VALUES or batch * values <= MIN_PARALLEL_VALUES
