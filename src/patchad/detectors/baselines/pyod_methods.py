"""Detectors of PyOD (Zhao et al., "PyOD: A Python Toolbox for Scalable Outlier Detection", 2019), on windows."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler

from patchad.data.table import FloatArray
from patchad.detectors.baselines.subsequences import FlatModel
from patchad.errors import InputError, MissingExtraError
from patchad.model.randomness import GENERATORS


@dataclass(kw_only=True, eq=False, repr=False)
class PyODModel(FlatModel):
    """A detector around one of PyOD that is fitted to windows as long vectors, on the CPU.

    Whatever PyOD draws comes from our seed, and the global generators are left as they were.
    """

    def _learn_flat(self, flat: FloatArray) -> None:
        seed = self._seed()
        with _global_generators_kept():
            np.random.seed(seed)  # noqa: NPY002 - PyOD draws from the global generators
            torch.manual_seed(seed)
            try:
                self.model_ = self._new(len(flat), flat.shape[1], seed)
            except ImportError as error:
                raise MissingExtraError("pyod", "baselines") from error
            self.model_.fit(flat)

    def _strangeness(self, flat: FloatArray) -> FloatArray:
        with _global_generators_kept():  # even a walk through data in order draws a number
            return np.asarray(self.model_.decision_function(flat))


@dataclass(kw_only=True, eq=False, repr=False)
class DeepSVDD(PyODModel):
    """Distance of a window to a centre, around which a net was trained to gather the windows of train.

    Ruff et al., "Deep One-Class Classification" (2018), by PyOD with its net: two layers without bias, in place of the
    paper's convolutions, which are for images, and no autoencoder to start from. PyOD's sizes, batch and learning rate;
    its 100 epochs are cut to `epochs` for the budget. Data is scaled already, so PyOD's own scaling is off.

    Parameters
    ----------
    epochs, batch_size
        Passes over the windows learned from, and windows in a step.
    """

    name = "deep_svdd"

    epochs: int = 20
    batch_size: int = 32

    def _learn_flat(self, flat: FloatArray) -> None:
        if not flat.any():
            raise InputError(
                "no channel of train ever moves, so there is nothing for a net to gather; use sensor_range"
            )
        super()._learn_flat(flat)

    def _new(self, windows: int, values: int, seed: int) -> Any:  # noqa: ARG002 - the same for any number
        from pyod.models.deep_svdd import DeepSVDD as Model

        return Model(
            values, epochs=self.epochs, batch_size=self.batch_size, preprocessing=False, verbose=0, random_state=seed
        )


@dataclass(kw_only=True, eq=False, repr=False)
class AutoEncoder(PyODModel):
    """Distance of a window to what a narrow net makes of it that was trained to give back windows of train.

    Sakurada and Yairi, "Anomaly Detection Using Autoencoders with Nonlinear Dimensionality Reduction" (2014), by PyOD
    with its net: layers of 64, 32 and 64 with batch norm and dropout. PyOD's sizes, epochs and learning rate. Data is
    scaled already, so PyOD's own scaling is off.

    Parameters
    ----------
    epochs, batch_size
        Passes over the windows learned from, and windows in a step.
    """

    name = "autoencoder"

    epochs: int = 10
    batch_size: int = 32

    def _new(self, windows: int, values: int, seed: int) -> Any:  # noqa: ARG002 - PyOD asks for the values itself
        from pyod.models.auto_encoder import AutoEncoder as Model

        return Model(
            epoch_num=self.epochs,
            batch_size=min(self.batch_size, windows),  # PyOD drops a batch that is not full
            preprocessing=False,
            verbose=0,
            random_state=seed,
            device="cpu",
        )


@dataclass(kw_only=True, eq=False, repr=False)
class DeepIF(PyODModel):
    """How few cuts, and how wide ones, set a window apart after nets with random weights have bent the space.

    Xu et al., "Deep Isolation Forest for Anomaly Detection" (2023), by PyOD, with the paper's 50 nets and 6 trees of
    256 samples on each. PyOD standardises the nets' outputs anew over whatever is scored at once; here that scale is
    fixed on train, for a window's score must not depend on the windows beside it. Windows start `hop` rows apart, for
    the budget.

    Parameters
    ----------
    nets, trees
        Random nets, and trees of the forest on each.
    """

    name = "deep_if"

    hop: int = 5
    max_windows: int = 2_000
    nets: int = 50
    trees: int = 6

    def _new(self, windows: int, values: int, seed: int) -> Any:  # noqa: ARG002 - PyOD asks for the values itself
        from pyod.models.dif import DIF

        model = DIF(
            n_ensemble=self.nets,
            n_estimators=self.trees,
            max_samples=min(256, windows),
            random_state=seed,
            device="cpu",
        )
        model._deep_representation = _representation  # noqa: SLF001 - see above: its own scales anew
        return model


def _representation(net: Any, flat: FloatArray) -> FloatArray:
    """Give what a random net of Deep Isolation Forest makes of windows; its first call, in the fit, sets the scale."""
    with torch.no_grad():
        found = net(torch.from_numpy(flat).float()).numpy()
    if not hasattr(net, "scale"):
        net.scale = StandardScaler().fit(found)
    return np.asarray(np.tanh(net.scale.transform(found)))


@contextmanager
def _global_generators_kept() -> Iterator[None]:
    """Put the generators of Python, numpy and torch, and the environment, back as they were."""
    with GENERATORS:
        numpys, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002 - the global one
        hashes = os.environ.get("PYTHONHASHSEED")
        try:
            with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
                yield
        finally:
            np.random.set_state(numpys)  # noqa: NPY002
            random.setstate(pythons)
            if hashes is None:
                os.environ.pop("PYTHONHASHSEED", None)
            else:
                os.environ["PYTHONHASHSEED"] = hashes
