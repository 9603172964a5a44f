"""Random choices for baselines that train on synthetic anomalies: channels, rows, sizes and signs."""

from __future__ import annotations

import torch
from torch import Tensor


def random_channels(batch: Tensor) -> Tensor:
    """Choose one to all channels for each window of `(b, t, c)`: bool `(b, 1, c)`."""
    b, _, c = batch.shape
    drawn = torch.rand(b, c, device=batch.device)
    chosen = (drawn < torch.rand(b, 1, device=batch.device)) | (drawn == drawn.amin(1, keepdim=True))
    return chosen[:, None]


def random_rows(batch: Tensor, longest: int, *, shortest: int = 1) -> Tensor:
    """Choose a run of rows anywhere in each window of `(b, t, c)`: bool `(b, t, 1)`."""
    b, t, _ = batch.shape
    lengths = torch.randint(shortest, max(longest, shortest) + 1, (b, 1), device=batch.device).clamp_max(t)
    starts = (torch.rand(b, 1, device=batch.device) * (t - lengths + 1)).long()
    rows = torch.arange(t, device=batch.device)
    return ((rows >= starts) & (rows < starts + lengths))[..., None]


def uniform(low: float, high: float, batch: Tensor) -> Tensor:
    """Draw a number between `low` and `high` for each window and channel: `(b, 1, c)`."""
    b, _, c = batch.shape
    return low + (high - low) * torch.rand(b, 1, c, device=batch.device)


def random_sign(batch: Tensor) -> Tensor:
    """Draw 1 or -1 for each window and channel: `(b, 1, c)`."""
    return uniform(-1, 1, batch).sign()
