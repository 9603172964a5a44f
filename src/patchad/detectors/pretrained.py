"""Pretrained weights in a PatchAD: which of them it names, and whether its parameters fit them."""

from __future__ import annotations

import logging
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from torch import nn

from patchad.data.table import Table
from patchad.data.windows import shrink_window
from patchad.errors import InputError, listed
from patchad.model.pretrained import SHIPPED, Origin, Weights, read_weights

if TYPE_CHECKING:
    from patchad.detectors.patchad import PatchAD
    from patchad.model.net import PatchADNet

logger = logging.getLogger(__name__)

TRAINED_FOR = {"objective": "agreement", "distance": "kl"}
"""What every pretrained net was trained for."""
OF_TRAINING = (
    *("epochs", "max_steps", "stride", "batch_size", "learning_rate", "constraint", "dropout", "decay"),
    *("mixer", "instance_norm", "intra_view", "reconstruction"),
)
"""Parameters, besides those of the shape, that ask for a net that is trained on train if they are changed."""


def pretrained_origin(detector: PatchAD) -> Origin | None:
    """Return the origin of the weights that a detector starts from; None where its net is trained from scratch.

    The nets in the package are for the parameters of shape and training as they are by default, and for some windows;
    whoever changes these asks for a net of their own. A file that is named has to fit, or it is refused.
    """
    if detector.weights is None or hasattr(detector, "_beginning"):
        return None
    weights = read_weights(detector.weights)
    contradicts = _contradiction(detector, weights)
    if contradicts is None:
        return weights.origin
    if detector.weights != SHIPPED or detector.tune_steps:
        raise InputError(f"weights={detector.weights!r} {contradicts}, or give weights=None to train a net")
    logger.info("a net is trained on train: weights=%r %s", SHIPPED, contradicts)
    return None


def _contradiction(detector: PatchAD, weights: Weights) -> str | None:
    """Say which parameter does not fit the weights, if one does not; a default does."""
    if detector.window not in weights.nets:
        return f"have no window {detector.window}; use one of {listed(tuple(weights.nets))}"
    shape = asdict(weights.shape.config(1, detector.window)) | TRAINED_FOR
    defaults = {one.name: one.default for one in fields(detector)}
    for name in (*shape, *OF_TRAINING):
        if name in ("channels", "window"):
            continue
        value, fitting = _tuple(getattr(detector, name)), shape.get(name, defaults[name])
        if value not in (defaults[name], fitting):
            return f"are for {name}={fitting!r}, not {value!r}; leave {name} out"
    return None


def check_tuning(detector: PatchAD) -> None:
    """Refuse tuning steps where there is nothing to tune."""
    if detector.tune_steps < 0 or (detector.tune_steps and detector.weights is None):
        raise InputError(
            f"tune_steps={detector.tune_steps} does not fit weights={detector.weights!r}; it must be 0 for none, or a "
            "number of steps on top of weights='pretrained'"
        )


def shrunk(detector: PatchAD, most: int) -> tuple[int, tuple[int, ...]]:
    """Return the longest window of at most `most` rows, of the weights where there are some, and its patch sizes."""
    if detector.origin_ is None:
        return shrink_window(most, detector.window, tuple(detector.patch_sizes))
    weights = read_weights(str(detector.weights))
    return weights.window(min(most, detector.window)), weights.shape.patch_sizes


def with_new_channels(tables: list[Table]) -> tuple[list[Table], list[str]]:
    """Let sensors join that not all series of train have: where one is not there its values are missing.

    A net that sees one channel at a time needs no other train for it than what there is.
    """
    if any(table.channels is None for table in tables):
        return tables, []
    every = tuple(dict.fromkeys(name for table in tables for name in table.channels or ()))
    have = {name: sum(name in (table.channels or ()) for table in tables) for name in every}
    notes = [
        f"channel {name!r} joins with what {count} of {len(tables)} series say of it"
        for name, count in have.items()
        if count < len(tables)
    ]
    return [_widened(table, every) for table in tables] if notes else tables, notes


def _widened(table: Table, channels: tuple[str, ...]) -> Table:
    own = {name: number for number, name in enumerate(table.channels or ())}
    values = np.full((len(table.values), len(channels)), np.nan, table.values.dtype)
    for number, name in enumerate(channels):
        if name in own:
            values[:, number] = table.values[:, own[name]]
    return replace(table, values=values, channels=channels)


def with_weights(detector: PatchAD, net: nn.Module) -> nn.Module:
    """Give a new net the weights that the detector starts from, if any."""
    if detector.origin_ is not None:
        read_weights(str(detector.weights)).load_into(cast("PatchADNet", net))
    return net


def _tuple(value: object) -> object:
    """Return a list as the tuple that it stands for."""
    return tuple(value) if isinstance(value, list) else value
