"""Parts of the net as the paper's public code has them; `patchad.model.net` has those of the paper's text.

They run as plain torch modules: the kernels know only the paper's mixer.
Axes: c channel, n patch, p step in the patch, b batch, d feature, t step of the window.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

PATCH_HIDDEN = 40
"""Hidden width of the code's inter mixer, whatever the number of patches."""
TINY = 1e-7
"""What the code adds to a probability before it takes the logarithm."""


class CodeMixer(nn.Module):
    """`FC(act(FC(x))) + FC(x)` along one axis, normed: with a LayerNorm before each FC of the first term."""

    def __init__(self, width: int, hidden: int, act: nn.Module, *, normed: bool, dropout: float, skip: bool) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.LayerNorm(width) if normed else nn.Identity(),
            nn.Linear(width, hidden),
            act,
            nn.LayerNorm(hidden) if normed else nn.Identity(),
            nn.Linear(hidden, width),
            nn.Dropout(dropout),
        )
        self.skip = nn.Linear(width, width) if skip else nn.Identity()

    def forward(self, x: Tensor, axis: int = -1) -> Tensor:
        """Mix along an axis; the shape stays the same."""
        last = x.movedim(axis, -1)
        mixed: Tensor = self.skip(last) + self.branch(last)
        return mixed.movedim(-1, axis)


def mix_views(views: Tensor, axis: int, inter: CodeMixer, intra: CodeMixer | None, patches: int) -> Tensor:
    """Mix both views `(c, n + p, b, d)`; without an intra mixer, the inter mixer serves both."""
    if intra is None:
        both: Tensor = inter(views, axis)
        return both.contiguous()
    return torch.cat([inter(views[:, :patches], axis), intra(views[:, patches:], axis)], dim=1)


def code_head(flat: int, hidden: int, window: int) -> nn.Sequential:
    """Return the head that reconstructs a window from a flat view."""
    return nn.Sequential(
        nn.LayerNorm(flat), nn.Linear(flat, hidden), nn.Sigmoid(), nn.LayerNorm(hidden), nn.Linear(hidden, window)
    )


def normalise_windows(x: Tensor) -> Tensor:
    """Give every channel of every window `(b, t, c)` mean 0 and variance 1 (RevIN without its way back).

    Examples
    --------
    >>> normalise_windows(torch.tensor([[[1.0], [3.0]]])).round(decimals=3).flatten().tolist()
    [-1.0, 1.0]
    """
    centred = x - x.mean(1, keepdim=True)
    return centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()


def pool_distributions(view: Tensor) -> Tensor:
    """Average the softmax of the channels of `(c, n or p, b, d)`; return logarithms, whose softmax is that mean."""
    return (view.softmax(-1).mean(0, keepdim=True) + TINY).log()
