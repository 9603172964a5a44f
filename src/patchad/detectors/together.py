"""Fitting many detectors at once: each prepares its own train, the nets are trained together, each learns the rest."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from typing import Any

import torch

from patchad.data.windows import WindowSampler
from patchad.detectors.patchad import PatchAD
from patchad.detectors.preparing import Train, prepare_train
from patchad.errors import PatchADError
from patchad.model.batches import HELD_OUT_WINDOWS
from patchad.model.together import Member, train_together

logger = logging.getLogger(__name__)

STACKED_VALUES = {"cpu": 2_000_000, "cuda": 40_000_000}
"""Values of both views of all windows of a step, up to which nets are trained together, by the kind of device."""


class _Begun:
    """A detector whose train is prepared and whose net is to be trained."""

    def __init__(self, detector: PatchAD, series: Any) -> None:
        self.detector = detector
        detector._check_parameters()
        self.train: Train = prepare_train(detector, series)
        known, held_out = detector._parts(self.train.segments, self.train.blocks)
        seed = detector._seed()
        self.net = detector._new_net(seed)
        (self.goal,) = detector._goals(self.net)
        windows = WindowSampler(known, detector.window_, detector.stride)
        self.member = Member(self.net, windows, WindowSampler(held_out, detector.window_), detector.scaler_, seed)

    @property
    def key(self) -> Hashable:
        """What has to be the same of nets that are trained together."""
        detector = self.detector
        config = detector._net_config(detector.window_, detector.patch_sizes_)
        held_out = min(len(self.member.held_out), HELD_OUT_WINDOWS)
        return config, detector._objective, detector._budget(), str(detector.device_), held_out

    @property
    def values(self) -> float:
        """Values of both views of the windows of a step."""
        detector = self.detector
        return detector._net_config(detector.window_, detector.patch_sizes_).values * detector.batch_size

    def finish(self) -> None:
        """Learn all the rest, with the trained net."""
        detector = self.detector
        detector.begin_with(self.net.state_dict(), steps=0)
        try:
            detector._fit(self.train.segments, self.train.blocks)
        finally:
            del detector._beginning
        detector._finish_fit(self.train)


def fit_together(detectors: Sequence[PatchAD], series: Sequence[Any]) -> list[PatchADError | None]:
    """Fit each detector on its own series, nets of the same shape at once; return what went wrong, for each.

    The models equal those of `fit` up to rounding. On a GPU many small nets take little longer than one; nets with
    dropout, or trained in epochs, and pretrained ones are fitted one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> waves = [np.sin(np.arange(400) / period)[:, None] for period in (5, 7)]
    >>> detectors = [PatchAD(window=30, max_steps=5) for _ in waves]
    >>> fit_together(detectors, waves)
    [None, None]
    >>> alone = PatchAD(window=30, max_steps=5).fit(waves[1])
    >>> bool(np.allclose(detectors[1].decision_function(waves[1]), alone.decision_function(waves[1]), rtol=1e-2))
    True
    """
    errors: list[PatchADError | None] = [None] * len(detectors)
    begun: dict[int, _Begun] = {}
    for number, (detector, one) in enumerate(zip(detectors, series, strict=True)):
        try:
            if is_stackable(detector):
                begun[number] = _Begun(detector, one)
            else:
                detector.fit(one)
        except PatchADError as error:
            errors[number] = error
    groups: dict[Hashable, list[int]] = {}
    for number, own in begun.items():
        groups.setdefault(own.key, []).append(number)
    for numbers in groups.values():
        size = _group_size(begun[numbers[0]])
        for first in range(0, len(numbers), size):
            _fit_group({number: begun.pop(number) for number in numbers[first : first + size]}, errors)
    return errors


def is_stackable(detector: PatchAD) -> bool:
    """Return whether the net of a detector can be trained together with others."""
    return detector.weights is None and detector.epochs is None and not detector.dropout and detector.decay == 1


def _group_size(one: _Begun) -> int:
    return max(int(STACKED_VALUES.get(one.detector.device_.type, STACKED_VALUES["cpu"]) / one.values), 1)


def _fit_group(group: dict[int, _Begun], errors: list[PatchADError | None]) -> None:
    first = next(iter(group.values()))
    device: torch.device = first.detector.device_
    members = [one.member for one in group.values()]
    logger.info("training %d nets of one shape together on %s", len(members), device)
    found = train_together(members, first.goal.loss, first.detector._budget(), device=device)
    for (number, own), history in zip(group.items(), found, strict=True):
        try:
            if isinstance(history, PatchADError):
                errors[number] = history
                continue
            own.finish()
            own.detector.history_ = history
        except PatchADError as error:
            errors[number] = error
