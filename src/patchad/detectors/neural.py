"""NeuralDetector: a net over windows. A subclass writes the net, its loss and the errors that make its score."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from patchad.data.table import FloatArray
from patchad.data.windows import WindowSampler
from patchad.detectors.state import State
from patchad.detectors.windowed import WindowDetector
from patchad.errors import InputError, ModelFileError
from patchad.model.progress import training_bar
from patchad.model.randomness import seeded
from patchad.model.training import Goal, Progress, TrainConfig, find_device, train

Watch = Callable[[Progress], None]


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralDetector(WindowDetector):
    """A detector with a net, trained on windows by the loop that trains PatchAD.

    Parameters
    ----------
    max_steps
        Most training steps.
    epochs
        Passes over all windows; None: random windows until `max_steps`.
    batch_size, learning_rate
        Of Adam.
    device
        `auto`, `cpu`, `cuda`, ...
    verbose
        Show a progress bar.
    """

    learned: ClassVar[Mapping[str, Any] | None] = {"net_": nn.Module}

    max_steps: int | None = 400
    epochs: int | None = None
    batch_size: int = 64
    learning_rate: float = 1e-3
    device: str = "auto"
    verbose: bool = False

    # -- what a subclass writes ------------------------------------------------------------------------------------

    @abstractmethod
    def _build(self, channels: int) -> nn.Module:
        """Build the net for windows `(b, window_, channels)`; torch's generator is seeded."""

    @abstractmethod
    def _loss(self, net: Any, batch: Tensor) -> Tensor:
        """Return the mean loss of scaled windows `(b, t, c)`; torch's generator is seeded."""

    def _errors(self, windows: Tensor) -> Tensor:
        """Return how strange the points of scaled windows are to `net_`: `(b, t or 1, c or 1)`, non-negative.

        Not needed where `_judge` is written instead. The score is the mean over the last axis; where that has all
        channels, it is also the attribution. A window's errors must depend neither on the other windows of the batch
        nor on chance.
        """
        raise NotImplementedError

    def _goals(self, net: nn.Module) -> list[Goal]:
        """Return what is trained by which loss; an adversary and its opponent have one each."""
        return [Goal(list(net.parameters()), self._loss)]

    def _settle(self, known: WindowSampler) -> None:
        """Learn what is left to learn from the train windows once `net_` is trained."""

    # -- what it inherits ------------------------------------------------------------------------------------------

    def observe(self, watch: Watch | None) -> Self:
        """Call `watch` after every training step of later fits, when `net_` can be inspected; None ends it.

        Examples
        --------
        >>> import numpy as np
        >>> from patchad import PatchAD
        >>> steps = []
        >>> detector = PatchAD(window=30, max_steps=3).observe(lambda progress: steps.append(progress.step))
        >>> _ = detector.fit(np.sin(np.arange(200) / 5)[:, None])
        >>> steps
        [1, 2, 3]
        """
        self._watch = watch
        return self

    def begin_with(self, weights: Mapping[str, Tensor], steps: int) -> Self:
        """Let later fits begin with the weights of a net of the same shape, and train it `steps` steps, or not at all.

        Examples
        --------
        >>> import numpy as np
        >>> from patchad import PatchAD
        >>> waves = np.sin(np.arange(400) / 5)[:, None]
        >>> first = PatchAD(window=30, max_steps=3).fit(waves)
        >>> second = PatchAD(window=30).begin_with(first.net_.state_dict(), steps=0).fit(2 * waves)
        >>> all(bool((one == other).all()) for one, other in zip(first.net_.parameters(), second.net_.parameters()))
        True
        """
        self._beginning = (dict(weights), steps)
        return self

    def keep_training(self, path: Path | None) -> Self:
        """Write the state of training to a file now and then; a later fit of the same data goes on there.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from patchad import PatchAD
        >>> waves = np.sin(np.arange(400) / 5)[:, None]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     detector = PatchAD(window=30, max_steps=3).keep_training(Path(folder) / "training")
        ...     first = detector.fit(waves).history_
        ...     detector.fit(waves).history_ == first  # trained no further, and at the same second
        True
        """
        self._kept = path
        return self

    @property
    def n_parameters_(self) -> int:
        """Trained parameters of the net."""
        return sum(parameter.numel() for parameter in self.net_.parameters())

    def _learn(self, known: Sequence[FloatArray], held_out: Sequence[FloatArray]) -> None:
        seed = self._seed()
        self.net_ = self._new_net(seed)
        windows = WindowSampler(known, self.window_, self.stride)
        self.history_: list[Progress] = []
        if not self._is_trained():
            self._train(windows, WindowSampler(held_out, self.window_), seed)
        self.net_.eval()
        self._settle(windows)

    def _train(self, windows: WindowSampler, held_out: WindowSampler, seed: int) -> None:
        budget = self._budget()
        goals = self._goals(self.net_)
        if hasattr(self, "_beginning"):
            steps = self._take_over(self.net_)
            if steps == 0:
                return
            budget = replace(budget, max_steps=steps, epochs=None, decay=1.0)
        draws = any(goal.draws or not goal.capturable for goal in goals)
        with training_bar(self.verbose) as show, seeded(seed, self.device_) if draws else nullcontext():
            self.history_ = train(
                self.net_,
                goals,
                windows,
                held_out,
                self.scaler_,
                budget,
                seed=seed,
                device=self.device_,
                watch=_each(show, getattr(self, "_watch", None)),
                keep=getattr(self, "_kept", None),
            )

    def _is_trained(self) -> bool:
        """Return whether a new net has nothing to learn."""
        return False

    def _take_over(self, net: nn.Module) -> int:
        """Give a net the weights to begin with; return how many steps it is to be trained."""
        weights, steps = self._beginning
        try:
            net.load_state_dict(weights)
        except RuntimeError:
            raise InputError(
                f"the weights to begin with are of a net of another shape than this one, of {len(self.channels_)} "
                f"channels and windows of {self.window_} rows (a short train shrinks them); fit this series by itself"
            ) from None
        return steps

    def _budget(self) -> TrainConfig:
        """Return how long and how fast to train."""
        return TrainConfig(
            max_steps=self.max_steps,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
        )

    def _new_net(self, seed: int) -> nn.Module:
        self.device_ = find_device(self.device)
        with seeded(seed, torch.device("cpu")):
            net = self._build(len(self.channels_))
        return net.to(self.device_)

    def _bare_net(self) -> nn.Module:
        """Build the net whose weights a model file holds."""
        return self._build(len(self.channels_))

    def _batch(self) -> int:
        return 64 if self.device_.type == "cpu" else 2048  # more gain no speed on a CPU and cost memory

    def _judge(self, windows: FloatArray, steps: int, *, explain: bool) -> tuple[FloatArray, FloatArray | None]:
        with torch.inference_mode():
            errors = self._errors(torch.from_numpy(windows).to(self.device_))[:, -steps:].cpu()
        attribution = errors.numpy() if explain and errors.shape[2] == windows.shape[2] else None
        return errors.double().mean(-1).numpy(), attribution

    def _rebuild(self, state: State) -> None:
        self.device_ = find_device(self.device)
        self._check_depth(state)
        with torch.device("meta"):  # takes no RAM, whatever sizes the file claims
            state.check_shapes("net_", self._bare_net())
        with seeded(0, torch.device("cpu")):
            net = self._bare_net()
        state.load_into("net_", net)
        self.net_ = net.to(self.device_).eval()

    def _sizes(self) -> dict[str, Any]:
        """Return what the sizes of the net are made from, by name."""
        return dict(self.get_params(deep=False))

    def _check_depth(self, state: State) -> None:
        """Refuse a file that claims more layers than it has arrays: a million of them take minutes to build."""
        arrays = sum(name.startswith("net_.") for name in state.arrays)
        for name, value in self._sizes().items():
            count = len(value) if isinstance(value, tuple) else value if name == "layers" else 0
            if count > arrays:
                raise ModelFileError(f"{name} stands for {count} parts of a net, and the file has {arrays} arrays")


def _each(*watches: Watch | None) -> Watch | None:
    """Return one function that calls those that are given; None where none is."""
    present = [watch for watch in watches if watch is not None]

    def watch(progress: Progress) -> None:
        for one in present:
            one(progress)

    return watch if present else None
