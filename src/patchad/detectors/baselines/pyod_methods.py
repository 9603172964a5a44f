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
    """A detector around one of PyOD that is fitted to flattened windows, on the CPU.

    All of PyOD's random numbers come from our seed, and the global generators are left as they were.
    """

    def _learn_flat(self, flat: FloatArray) -> None:
        seed = self._seed()
        with _global_generators_kept():
            np.random.seed(seed)  # noqa: NPY002 - PyOD draws from the global generators
            torch.manual_seed(seed)
            try:
                self.model_ = self._new_model(len(flat), flat.shape[1], seed)
            except ImportError as error:
                raise MissingExtraError("pyod", "baselines") from error
            self.model_.fit(flat)

    def _score_flat(self, flat: FloatArray) -> FloatArray:
        with _global_generators_kept():  # even iterating over data in order draws a number
            return np.asarray(self.model_.decision_function(flat))


@dataclass(kw_only=True, eq=False, repr=False)
class DeepSVDD(PyODModel):
    """Distance of a window's embedding to a centre around which a net gathers the train windows.

    Ruff et al., "Deep One-Class Classification" (2018), by PyOD with its net: two layers without bias, in place of the
    paper's convolutions, which are for images, and no autoencoder pretraining. PyOD's sizes, batch and learning rate;
    its 100 epochs are cut to `epochs` for the budget. Data is already scaled, so PyOD's own scaling is off.

    Parameters
    ----------
    epochs, batch_size
        Passes over the train windows used, and windows per step.
    """

    name = "deep_svdd"

    epochs: int = 20
    batch_size: int = 32

    def _learn_flat(self, flat: FloatArray) -> None:
        if not flat.any():
            raise InputError("every channel of train is constant, so a net has nothing to learn; use sensor_range")
        super()._learn_flat(flat)

    def _new_model(self, windows: int, values: int, seed: int) -> Any:  # noqa: ARG002 - the same for any number
        from pyod.models.deep_svdd import DeepSVDD as Model

        return Model(
            values, epochs=self.epochs, batch_size=self.batch_size, preprocessing=False, verbose=0, random_state=seed
        )


@dataclass(kw_only=True, eq=False, repr=False)
class AutoEncoder(PyODModel):
    """Reconstruction error of a window under a fully connected autoencoder.

    Sakurada and Yairi, "Anomaly Detection Using Autoencoders with Nonlinear Dimensionality Reduction" (2014), by PyOD
    with its net: layers of 64, 32 and 64 with batch norm and dropout. PyOD's sizes, epochs and learning rate. Data is
    already scaled, so PyOD's own scaling is off.

    Parameters
    ----------
    epochs, batch_size
        Passes over the train windows used, and windows per step.
    """

    name = "autoencoder"

    epochs: int = 10
    batch_size: int = 32

    def _new_model(self, windows: int, values: int, seed: int) -> Any:  # noqa: ARG002 - PyOD finds the values itself
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
    """How few random splits isolate a window, and by how wide a margin, after random nets have transformed it.

    Xu et al., "Deep Isolation Forest for Anomaly Detection" (2023), by PyOD, with the paper's 50 nets and 6 trees of
    256 samples on each. PyOD standardises the nets' outputs anew over each scored batch; here that scale is fixed on
    train, because a window's score must not depend on the windows beside it. Windows start `hop` rows apart, for the
    budget.

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

    def _new_model(self, windows: int, values: int, seed: int) -> Any:  # noqa: ARG002 - PyOD finds the values itself
        from pyod.models.dif import DIF

        model = DIF(
            n_ensemble=self.nets,
            n_estimators=self.trees,
            max_samples=min(256, windows),
            random_state=seed,
            device="cpu",
        )
        model._deep_representation = _representation  # noqa: SLF001 - PyOD's own rescales each batch
        return model


def _representation(net: Any, flat: FloatArray) -> FloatArray:
    """Return the representation of windows by a random net; its first call, during the fit, sets the scale."""
    with torch.no_grad():
        outputs = net(torch.from_numpy(flat).float()).numpy()
    if not hasattr(net, "scale"):
        net.scale = StandardScaler().fit(outputs)
    return np.asarray(np.tanh(net.scale.transform(outputs)))


@contextmanager
def _global_generators_kept() -> Iterator[None]:
    """Restore the generators of Python, numpy and torch, and the environment, on exit."""
    with GENERATORS:
        numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002 - the global one
        hash_seed = os.environ.get("PYTHONHASHSEED")
        try:
            with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
                yield
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002
            random.setstate(python_state)
            if hash_seed is None:
                os.environ.pop("PYTHONHASHSEED", None)
            else:
                os.environ["PYTHONHASHSEED"] = hash_seed
