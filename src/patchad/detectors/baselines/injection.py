"""What the methods that make their own anomalies share: which channels and rows of a window they spoil."""

from __future__ import annotations

import torch
from torch import Tensor


def some_channels(batch: Tensor) -> Tensor:
    """Draw channels for each window of `(b, t, c)`, from one to all: bool `(b, 1, c)`."""
    b, _, c = batch.shape
    drawn = torch.rand(b, c, device=batch.device)
    hit = (drawn < torch.rand(b, 1, device=batch.device)) | (drawn == drawn.amin(1, keepdim=True))
    return hit[:, None]


def some_rows(batch: Tensor, longest: int, *, shortest: int = 1) -> Tensor:
    """Draw a run of rows for each window of `(b, t, c)`, anywhere: bool `(b, t, 1)`."""
    b, t, _ = batch.shape
    lengths = torch.randint(shortest, max(longest, shortest) + 1, (b, 1), device=batch.device).clamp_max(t)
    starts = (torch.rand(b, 1, device=batch.device) * (t - lengths + 1)).long()
    rows = torch.arange(t, device=batch.device)
    return ((rows >= starts) & (rows < starts + lengths))[..., None]


def between(low: float, high: float, batch: Tensor) -> Tensor:
    """Draw a number between `low` and `high` for each window and channel: `(b, 1, c)`."""
    b, _, c = batch.shape
    return low + (high - low) * torch.rand(b, 1, c, device=batch.device)


def either(batch: Tensor) -> Tensor:
    """Draw 1 or -1 for each window and channel: `(b, 1, c)`."""
    return between(-1, 1, batch).sign()
