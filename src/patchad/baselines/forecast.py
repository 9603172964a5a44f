"""Nets that foretell the next row; a row that comes otherwise is strange."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from patchad.neural import NeuralDetector


@dataclass(kw_only=True, eq=False, repr=False)
class CNN(NeuralDetector):
    """Convolutions that foretell the next row from the ones before it.

    Munir et al., "DeepAnT: A Deep Learning Approach for Unsupervised Anomaly Detection in Time Series" (2018): two
    blocks of convolution, ReLU and max pooling, then a linear map to the next row; the error is the squared
    difference. Sizes are those of the paper's experiments but for the width, 32 filters.

    Parameters
    ----------
    window
        Rows before, and the row to foretell.
    filters
        Of each convolution.
    """

    name = "cnn"

    window: int = 51
    filters: int = 32

    def _build(self, channels: int) -> nn.Module:
        before = self.window_ - 1
        return nn.Sequential(
            nn.Conv1d(channels, self.filters, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool1d(2, ceil_mode=True),
            nn.Conv1d(self.filters, self.filters, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool1d(2, ceil_mode=True),
            nn.Flatten(),
            nn.Linear(self.filters * -(-before // 4), channels),
        )

    def _loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        return (_foretold(net, batch) - batch[:, -1]).square().mean()

    def _errors(self, windows: Tensor) -> Tensor:
        return (_foretold(self.net_, windows) - windows[:, -1]).square()[:, None]


def _foretold(net: nn.Module, windows: Tensor) -> Tensor:
    """Give the newest row `(b, c)` as the net expects it from the rows before."""
    foretold: Tensor = net(windows[:, :-1].transpose(1, 2))
    return foretold
