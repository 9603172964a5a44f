"""Settings of PatchAD that reproduce something: the paper, and the paper's public code.

What the code (github.com/EmorZz1G/PatchAD, written anew here) does otherwise than the text, by parameter:

| parameter | the text | the code |
| --- | --- | --- |
| `instance_norm` | windows are z-scored with train's statistics only | every window is normalised once more (RevIN) |
| `positional_embedding` | once | added again for every further scale |
| `intra_view` | every P-th step of the window | runs of N consecutive steps |
| `mixer` | `FC(act(FC(LN(x)))) + x` | `FC(act(FC(x))) + FC(x)`; trainer 2 with two norms (`normed`) |
| `layers_mode` | stacked, summed by learned weights | all read the embedding; compared one by one, weights cancel |
| `view_pooling` | channels averaged | the softmax of the channels averaged |
| `objective` | L_N - L_P | trainer 1: the same; trainer 2: its opposite |
| `reconstruction` | 1 | trainer 1: none; trainer 2: 10 |
| `score` | the distance | trainer 1: softmax over the window of minus the distance; trainer 2: squared error |
| `dropout`, `decay` | none | trainer 2: 0.1; both: the rate halves after every epoch but the first |

Left out: the code keeps the weights of the epoch with the largest loss on *test*. Its later commits change the intra
view back, swap how the views are repeated, and switch the training of the reconstruction off, not the score by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PAPER: Mapping[str, Any] = {
    "weights": None,
    "window": 105,
    "patch_sizes": (3, 5),
    "d_model": 40,
    "layers": 3,
    "view_pooling": "mean",
    "constraint": 0.2,
    "learning_rate": 1e-4,
    "batch_size": 128,
    "epochs": 3,
    "max_steps": None,
    "stride": 1,
    "calibration": 0.0,
    "contamination": 0.0,
    "objective": "adversarial",
    "score": "discrepancy",
    "memory": 0,
    "scaling": "zscore",
    "adapt": 0,
    "fold": "newest",
    "smoothing": 1,
    "hop": 105,
    "threshold": "ratio:1",
}
"""The paper's text."""

_BOTH: Mapping[str, Any] = {
    "view_pooling": "softmax",
    "positional_embedding": "cumulative",
    "instance_norm": True,
    "intra_view": "runs",
    "orientation": -1,
    "decay": 0.5,
}

CODE: Mapping[int, Mapping[str, Any]] = {
    1: {**_BOTH, "mixer": "linear", "layers_mode": "compared", "reconstruction": 0.0, "score": "softmax"},
    2: {
        **_BOTH,
        "mixer": "normed",
        "layers_mode": "compared_relu",
        "activation": "relu",
        "objective": "reversed",
        "reconstruction": 10.0,
        "dropout": 0.1,
        "score": "error",
    },
}
"""What the two trainers of the code change in the paper's settings."""


def preset(settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with some of them changed; a window has one hop."""
    hop = {"hop": overrides["window"]} if "window" in overrides else {}
    return {**settings, **hop, **overrides}
