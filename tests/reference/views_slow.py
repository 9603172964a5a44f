"""The paper's loss and distances, point by point: both views are repeated to the length of the window."""

from __future__ import annotations

import torch
from torch import Tensor


def spread_inter(view: Tensor, patch_size: int) -> Tensor:
    """Repeat `(b, c, n, d)` inside each patch: `(b, c, t, d)`."""
    return view.repeat_interleave(patch_size, dim=2)


def spread_intra(view: Tensor, patches: int) -> Tensor:
    """Tile `(b, c, p, d)` over the patches: `(b, c, t, d)`."""
    return view.repeat(1, 1, patches, 1)


def distance(one: Tensor, other: Tensor, kind: str) -> Tensor:
    """Return the distance of two `(..., d)` tensors over their features."""
    if kind == "l2":
        return ((one - other) ** 2).mean(-1)
    p, q = one.softmax(-1), other.softmax(-1)
    if kind == "kl":
        return (p * (p / q).log()).sum(-1) + (q * (q / p).log()).sum(-1)
    if kind == "jsd":
        m = (p + q) / 2
        return ((p * (p / m).log()).sum(-1) + (q * (q / m).log()).sum(-1)) / 2
    if kind == "wasserstein":
        moved = torch.zeros_like(p[..., 0])
        total = torch.zeros_like(p[..., 0])
        for feature in range(p.shape[-1]):
            moved = moved + p[..., feature] - q[..., feature]
            total = total + moved.abs()
        return total
    raise ValueError(kind)


def contrast(inter: Tensor, intra: Tensor, kind: str, objective: str) -> Tensor:
    """Return d(N, sg P) + d(P, sg N), or the difference."""
    patches, patch_size = inter.shape[2], intra.shape[2]
    n, p = spread_inter(inter, patch_size), spread_intra(intra, patches)
    pull_n = distance(n, p.detach(), kind).mean()
    pull_p = distance(p, n.detach(), kind).mean()
    return pull_n + pull_p if objective == "agreement" else pull_n - pull_p
