"""Fitting many detectors at once: each prepares its own train, the nets are trained together, each learns the rest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler
from patchad.detectors.patchad import PatchAD
from patchad.detectors.preparing import Train, prepare_train
from patchad.detectors.pretrained import pretrained_origin
from patchad.errors import PatchADError
from patchad.model.loss import ObjectiveConfig, loss
from patchad.model.net import NetConfig, PatchADNet
from patchad.model.randomness import seeded
from patchad.model.together import Member, train_together
from patchad.model.training import Progress, TrainConfig, find_device

logger = logging.getLogger(__name__)
Result = TypeVar("Result")
Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[tuple[Any, Any]]]
"""Yields each input of a function with its output, in any order."""

STACKED_VALUES = {"cpu": 2_000_000, "cuda": 40_000_000}
"""Values of both views of all windows of a step, up to which nets are trained together, by the kind of device."""


@dataclass(frozen=True, slots=True)
class _Group:
    """What has to be the same of nets that are trained together."""

    shape: NetConfig
    objective: ObjectiveConfig
    budget: TrainConfig
    held_out: int
    """Windows to stop on."""
    device: str

    def loss(self, net: nn.Module, batch: Tensor) -> Tensor:
        """Return the loss of one net."""
        return loss(net(batch), batch, self.objective)

    @property
    def most(self) -> int:
        """How many nets are trained together."""
        values = self.shape.values * self.budget.batch_size
        return max(int(STACKED_VALUES.get(find_device(self.device).type, STACKED_VALUES["cpu"]) / values), 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Begun:
    """What is known of a detector whose net is to be trained."""

    group: _Group
    member: Member
    train: Train | None
    """What it learns the rest from; None: whoever does so prepares it again."""


def fit_together(
    detectors: Sequence[PatchAD], series: Sequence[Any], *, run: Run | None = None
) -> list[PatchADError | None]:
    """Fit each detector on its own series, nets of the same shape at once; return what went wrong, for each.

    The models equal those of `fit` up to rounding. On a GPU many small nets take little longer than one; nets with
    dropout, or trained in epochs, and pretrained ones are fitted one after the other.

    Parameters
    ----------
    detectors, series
        As many of one as of the other.
    run
        As `Runner.run` of a fleet: lets other processes prepare the series and, once this one has trained the nets,
        learn all the rest, each on a core; None: this process does so.

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
    pairs = dict(enumerate(zip(detectors, series, strict=True)))
    for number in [number for number, (detector, _) in pairs.items() if not is_stackable(detector)]:
        detector, one = pairs.pop(number)
        try:
            detector.fit(one)
        except PatchADError as error:
            errors[number] = error
    if any(isinstance(detector.random_state, np.random.RandomState) for detector, _ in pairs.values()):
        run = None  # they draw their seeds from it in turn
    groups: dict[_Group, dict[int, _Begun]] = {}
    for number, begun in _each(_begin, pairs, run):
        if isinstance(begun, PatchADError):
            errors[number] = begun
        else:
            group = replace(begun.group, device=pairs[number][0].device)
            groups.setdefault(group, {})[number] = begun
    for group, own in groups.items():
        numbers = sorted(own)
        for first in range(0, len(numbers), group.most):
            some = {number: own.pop(number) for number in numbers[first : first + group.most]}
            _fit_group(group, some, pairs, errors, run)
    return errors


def is_stackable(detector: PatchAD) -> bool:
    """Return whether the net of a detector can be trained together with others."""
    return pretrained_origin(detector) is None and detector.epochs is None and not detector.dropout and detector.decay == 1


def _fit_group(
    group: _Group,
    begun: dict[int, _Begun],
    pairs: Mapping[int, tuple[PatchAD, Any]],
    errors: list[PatchADError | None],
    run: Run | None,
) -> None:
    """Train nets together; then let each detector learn the rest."""
    device = find_device(group.device)
    logger.info("training %d nets of one shape together on %s", len(begun), device)
    net = PatchADNet(group.shape)
    trained = train_together(net, [one.member for one in begun.values()], group.loss, group.budget, device=device)
    first_names = {id(one): name for name, one in net.named_parameters()}  # a mixer that views share has two
    names = {name: first_names[id(one)] for name, one in net.named_parameters(remove_duplicate=False)}
    left = {}
    for (number, own), found in zip(begun.items(), trained, strict=True):
        if isinstance(found, PatchADError):
            errors[number] = found
        else:
            weights = {name: found.weights[first] for name, first in names.items()}
            left[number] = (*pairs[number], own.train, weights, found.history)
    for number, fitted in _each(_finish, left, run):
        if isinstance(fitted, PatchADError):
            errors[number] = fitted
        else:
            _take(pairs[number][0], fitted, device)


def _begin(detector: PatchAD, series: Any) -> _Begun | PatchADError:
    """Prepare a train and a new net."""
    try:
        detector._check_parameters()
        train = prepare_train(detector, series)
        known, held_out = detector._parts(train.segments, train.blocks)
        seed, budget = detector._seed(), detector._budget()
        with seeded(seed, torch.device("cpu")):
            net = detector._build(len(detector.channels_))
        detector._goals(net)
    except PatchADError as error:
        return error
    windows = WindowSampler(known, detector.window_, detector.stride)
    member = Member.of(net, windows, WindowSampler(held_out, detector.window_), detector.scaler_, budget, seed=seed)
    return _Begun(_Group(net.config, detector._objective, budget, len(member.held_out), detector.device), member, train)


def _finish(
    detector: PatchAD, series: Any, train: Train | None, weights: Mapping[str, FloatArray], history: list[Progress]
) -> PatchAD | PatchADError:
    """Learn all but the net."""
    detector.begin_with({name: torch.from_numpy(one) for name, one in weights.items()}, steps=0)
    try:
        if train is None:
            detector.fit(series)
        else:
            detector._fit(train.segments, train.blocks)
            detector._finish_fit(train)
    except PatchADError as error:
        return error
    finally:
        del detector._beginning
    detector.history_ = history
    return detector


def _take(detector: PatchAD, fitted: PatchAD, device: torch.device) -> None:
    """Take over what another process learned, and compute where the detector is to."""
    if fitted is detector:
        return
    detector.__dict__.update(fitted.__dict__ | {"device": detector.device})
    detector.device_ = device
    detector.net_.to(device)
    detector._set_rule(detector.rule_)


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """What another process is to do with a detector."""

    function: Callable[..., Any]
    number: int
    given: tuple[Any, ...]


def _each(
    function: Callable[..., Result], calls: Mapping[int, tuple[Any, ...]], run: Run | None
) -> Iterator[tuple[int, Result]]:
    """Yield the result of each call, from other processes in any order."""
    if run is None:
        yield from ((number, function(*given)) for number, given in calls.items())
        return
    for call, found in run(_elsewhere, [_Call(function, number, given) for number, given in calls.items()]):
        yield call.number, found


def _elsewhere(call: _Call) -> Any:
    """Do a call in another process, on its core; do not send back what it was given."""
    detector, *rest = call.given
    detector.device = "cpu"
    found = call.function(detector, *rest)
    return replace(found, train=None) if isinstance(found, _Begun) else found
