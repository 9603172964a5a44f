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
    """A detector that is prepared, and the net that is to be trained for it."""

    detector: PatchAD
    train: Train
    """What it learns the rest from."""
    group: _Group
    member: Member


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
            group = replace(begun.group, device=detectors[number].device)
            groups.setdefault(group, {})[number] = begun
    for group, own in groups.items():
        numbers = sorted(own)
        for first in range(0, len(numbers), group.most):
            some = {number: own.pop(number) for number in numbers[first : first + group.most]}
            for number, found in _fitted(group, some, run):
                if isinstance(found, PatchADError):
                    errors[number] = found
                else:
                    _take(detectors[number], found)
    return errors


def is_stackable(detector: PatchAD) -> bool:
    """Return whether the net of a detector can be trained together with others."""
    own = pretrained_origin(detector) is None
    return own and detector.epochs is None and not detector.dropout and detector.decay == 1


def _fitted(
    group: _Group, begun: Mapping[int, _Begun], run: Run | None
) -> Iterator[tuple[int, PatchAD | PatchADError]]:
    """Train nets together; let each detector learn the rest, and yield it."""
    device = find_device(group.device)
    logger.info("training %d nets of one shape together on %s", len(begun), device)
    with seeded(0, torch.device("cpu")):
        net = PatchADNet(group.shape)
    trained = train_together(net, [one.member for one in begun.values()], group.loss, group.budget, device=device)
    first_names = {id(one): name for name, one in net.named_parameters()}  # a mixer that views share has two
    names = {name: first_names[id(one)] for name, one in net.named_parameters(remove_duplicate=False)}
    left: dict[int, tuple[Any, ...]] = {}
    for (number, own), found in zip(begun.items(), trained, strict=True):
        if isinstance(found, PatchADError):
            yield number, found
        else:
            weights = {name: found.weights[first] for name, first in names.items()}
            left[number] = (own.detector, own.train, weights, found.history)
    for number, finished in _each(_finish, left, run):
        if run is not None and not isinstance(finished, PatchADError):
            _give_net(finished, left[number][2], group.device)
        yield number, finished


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
    group = _Group(net.config, detector._objective, budget, len(member.held_out), detector.device)
    return _Begun(detector, train, group, member)


def _finish(
    detector: PatchAD, train: Train, weights: Mapping[str, FloatArray], history: list[Progress]
) -> PatchAD | PatchADError:
    """Learn all but the net."""
    detector.begin_with({name: torch.from_numpy(one) for name, one in weights.items()}, steps=0)
    try:
        detector._fit(train.segments, train.blocks)
        detector._finish_fit(train)
    except PatchADError as error:
        return error
    finally:
        del detector._beginning
    detector.history_ = history
    return detector


def _give_net(detector: PatchAD, weights: Mapping[str, FloatArray], device: str) -> None:
    """Give a detector that another process fitted its net, which costs more to send than to build, on its device."""
    detector.device, detector.device_ = device, find_device(device)
    with seeded(0, torch.device("cpu")):
        net = detector._build(len(detector.channels_))
    net.load_state_dict({name: torch.from_numpy(one) for name, one in weights.items()})
    detector.net_ = net.to(detector.device_).eval()
    detector._set_rule(detector.rule_)


def _take(detector: PatchAD, fitted: PatchAD) -> None:
    """Let the detector of a caller be one that was fitted."""
    if fitted is not detector:
        detector.__dict__.update(fitted.__dict__)


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
    """Do a call in another process, on its core."""
    detector, *rest = call.given
    detector.device = "cpu"
    found = call.function(detector, *rest)
    if found is detector:
        del found.net_, found.backend_
    return found
