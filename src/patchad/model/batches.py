"""Which windows a training step takes, and how they get to where it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler

Scaler = Callable[[FloatArray], FloatArray]
SCALED_ROWS = 100_000
"""Rows scaled at a time."""
HELD_OUT_WINDOWS = 128
"""Most held-out windows in a check; more add little information and cost training time."""


def random_orders(windows: int, size: int, steps: int, seed: int) -> NDArray[np.intp]:
    """Return the indices of the random windows of every step at once, `(step, window of the batch)`.

    Examples
    --------
    >>> bool((random_orders(10, 2, 3, seed=5) == np.stack(list(orders(10, 2, 3, seed=5, shuffled=False)))).all())
    True
    """
    return np.random.default_rng(seed).integers(0, windows, size=(steps, size))


def orders(windows: int, size: int, steps: int, *, seed: int, shuffled: bool) -> Iterator[NDArray[np.intp]]:
    """Yield the indices of the windows of every step: random ones, or shuffled epochs."""
    random = np.random.default_rng(seed)
    if not shuffled:
        for _ in range(steps):
            yield random.integers(0, windows, size=size)
        return
    done = 0
    while done < steps:
        order = random.permutation(windows)
        for first in range(0, windows, size):
            if done == steps:
                return
            done += 1
            yield order[first : first + size]


def host_sampler(windows: WindowSampler, scale: Scaler) -> Callable[[NDArray[np.intp]], Tensor]:
    """Return a function that cuts windows out in RAM and scales them."""
    return lambda chosen: torch.from_numpy(scale(windows[chosen]))


def device_sampler(windows: WindowSampler, scale: Scaler, device: torch.device) -> Callable[[NDArray[np.intp]], Tensor]:
    """Copy the series to the device once and cut windows there."""
    rows = scaled_rows(windows, scale, device)
    steps = torch.arange(windows.window, device=device)

    def draw(chosen: NDArray[np.intp]) -> Tensor:
        first = torch.from_numpy(windows.first_rows(chosen)).to(device, non_blocking=True)
        return rows[first[:, None] + steps]

    return draw


def scaled_rows(windows: WindowSampler, scale: Scaler, device: torch.device) -> Tensor:
    """Return the scaled rows of all series that windows are drawn from, end to end, on the device."""
    return torch.cat(
        [
            torch.from_numpy(scale(values[first : first + SCALED_ROWS])).to(device)
            for values in windows.series
            for first in range(0, len(values), SCALED_ROWS)
        ]
    )


def even_windows(held_out: WindowSampler) -> FloatArray:
    """Return windows spread evenly over the held-out part."""
    count = min(len(held_out), HELD_OUT_WINDOWS)
    if count == 0:
        return np.empty((0, 0, 0), dtype=np.float32)
    return held_out[np.linspace(0, len(held_out) - 1, count).astype(np.intp)]


def scaled_batches(windows: FloatArray, scale: Scaler, size: int, device: torch.device) -> list[Tensor]:
    """Scale windows, `size` at a time, and bring them to the device."""
    scaled = [scale(windows[first : first + size]) for first in range(0, len(windows), size)]
    return [torch.from_numpy(part).to(device) for part in scaled]
