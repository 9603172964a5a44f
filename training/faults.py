"""Faults in windows, on the device: what the net is to repair."""

from __future__ import annotations

import torch
from torch import Tensor

KINDS = 5
"""Offset, noise, standstill, another swing, and a few lost rows; each as often."""
SHORTEST = 1
LONGEST_SHARE = 0.5
"""Of a window, the most rows of a fault."""


def with_faults(windows: Tensor, clean: int, generator: torch.Generator) -> Tensor:
    """Return `(b, t, 2)`: the windows `(b, t, 1)`, with a fault in each from the window `clean` on, and without.

    Examples
    --------
    >>> both = with_faults(torch.zeros(4, 30, 1), 2, torch.Generator().manual_seed(0))
    >>> both.shape, bool((both[:2, :, 0] == 0).all()), bool((both[2:, :, 0] != 0).any())
    (torch.Size([4, 30, 2]), True, True)
    """
    plain = windows[clean:, :, 0]
    if not len(plain):
        return windows.expand(-1, -1, 2)
    count, steps = plain.shape

    def random() -> Tensor:
        return torch.rand(count, 1, generator=generator, device=plain.device)

    def normal(*size: int) -> Tensor:
        return torch.randn(count, *size, generator=generator, device=plain.device)

    length = (SHORTEST + random().square() * LONGEST_SHARE * steps).floor()
    start = (random() * (steps - length)).floor()
    place = torch.arange(steps, device=plain.device)
    inside = (place >= start) & (place < start + length)
    kind = (random() * KINDS).floor()
    size = (normal(1) * 0.8).exp() * torch.where(random() < 0.5, -1.0, 1.0)
    first = plain.gather(1, start.long())
    mean = (plain * inside).sum(1, keepdim=True) / inside.sum(1, keepdim=True)
    changes = (
        plain + size,
        plain + 0.5 * size * normal(steps),
        first.expand_as(plain),
        mean + (plain - mean) * (1.5 * normal(1)).exp(),
        torch.where(random() < 0.5, torch.zeros_like(plain), size.expand_as(plain) * 2),
    )
    faulty = plain
    for number, changed in enumerate(changes):
        faulty = torch.where(inside & (kind == number), changed, faulty)
    seen = torch.cat([windows[:clean, :, 0], faulty.clamp(-20, 20)])
    return torch.stack([seen, windows[..., 0]], 2)
