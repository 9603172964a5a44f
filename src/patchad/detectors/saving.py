"""Detectors to model files and back: what was learned, by the types that each class names in `learned`."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from torch import nn

from patchad.alarms.feedback import fits_channels
from patchad.data.parameters import fits, plain
from patchad.data.series import Series
from patchad.data.stages import Scored
from patchad.data.table import Table
from patchad.detectors import checkpoint
from patchad.detectors.state import State
from patchad.errors import ModelFileError, UnsupportedError
from patchad.thresholds.base import Threshold
from patchad.thresholds.registry import describe, from_description

if TYPE_CHECKING:
    from patchad.detectors.base import Detector

Kind = TypeVar("Kind", bound="Detector")

HEADER = {
    "channels": tuple[str, ...],
    "columns": tuple[str, ...],
    "named": bool,
    "notes": tuple[str, ...],
    "held_out": tuple[tuple[int, ...], ...],
    "n_parameters": int | None,
}
"""Types of what every model file has in its header."""


def save_detector(detector: Detector, path: Path) -> Path:
    """Write a fitted detector as one safetensors file."""
    state = State({"train_scores": detector.train_scores_, "initial": detector.initial_})
    for name, kind in learned_types(type(detector)).items():
        value = getattr(detector, name)
        state.put(name, np.asarray(value) if kind is np.ndarray else value)
    parameters = plain(detector.get_params(deep=False))
    if isinstance(detector.threshold, Threshold):
        parameters["threshold"] = plain(describe(detector.threshold))
    if not isinstance(parameters.get("random_state"), int | None):
        parameters["random_state"] = None  # a generator's state is of no use to a fitted detector
    header = {
        "detector": type(detector).name,
        "parameters": parameters,
        "channels": list(detector.channels_),
        "columns": list(detector.fit_columns_),
        "named": detector.named_,
        "held_out": detector.held_out_,
        "level": detector.threshold_.level,
        "notes": list(detector.fit_notes_),
        "n_parameters": detector.n_parameters_,
        "learned": state.facts,
    }
    checkpoint.write(path, header, state.arrays)
    return path


def restore_detector(kind: type[Kind], header: dict[str, Any], arrays: dict[str, Any]) -> Kind:
    """Make a fitted detector from what `save_detector` wrote."""
    parameters: dict[str, Any] = {}
    for name, value in header["parameters"].items():
        parameters[name] = tuple(value) if isinstance(value, list) else value
    if isinstance(parameters["threshold"], dict):
        parameters["threshold"] = from_description(parameters["threshold"])
    detector = kind(**parameters)
    detector._check_parameters()
    for name, expected in HEADER.items():
        if not fits(header[name], expected):
            raise ModelFileError(f"{name}={header[name]!r} does not fit")
    state = State(arrays, header["learned"])
    detector._set_channels(tuple(header["channels"]), tuple(header["columns"]), named=header["named"])
    detector.initial_ = state.take("initial", np.ndarray)
    if detector.initial_.shape != (max(len(detector.channels_), 1),):
        raise ModelFileError(f"{len(detector.channels_)} channels have {detector.initial_.size} initial values")
    detector.fit_notes_ = tuple(header["notes"])
    detector._set_scores(state.take("train_scores", np.ndarray), header["held_out"])
    for name, expected in learned_types(kind).items():
        if expected is not nn.Module:
            setattr(detector, name, state.take(name, expected))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numbers that overflow, arrays of a wrong shape: what comes of them is checked
        detector._rebuild(state)
        detector.set_threshold(detector.threshold)
        _try_out(detector)
    return detector


def fingerprint(detector: Detector) -> str:
    """Return a checksum of a fitted detector: equal for a loaded one, another for any other fit, class or threshold."""
    parameters = {
        name: repr((type(value).__name__, plain(vars(value))) if isinstance(value, Threshold) else plain(value))
        for name, value in detector.get_params(deep=False).items()
        if name not in ("random_state", "device", "verbose")
    }
    judged = [str(one) for one in detector.feedback_]
    facts = [type(detector).name, detector.channels_, parameters, detector.threshold_.level, judged]
    digest = hashlib.sha256(repr(facts).encode())
    for array in (detector.train_scores_, detector.initial_):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def learned_types(kind: type[Detector]) -> dict[str, Any]:
    """Collect what a model file holds from a class and its bases."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        own = vars(base).get("learned", {})
        if own is None:
            raise UnsupportedError(f"{kind.name} ({kind.__name__}) cannot be saved: its state is not made of arrays")
        found |= own
    return found


def _try_out(detector: Detector) -> None:
    """Detect on a few rows, so that a file whose arrays do not fit each other is refused when it is loaded."""
    scored = Scored.join(list(detector._scored(detector.initial_[None], explain=True)))
    if not fits_channels(detector.likeness_, detector.feedback_, len(detector.channels_)):
        raise ModelFileError("its arrays of what is alike, accepted or confirmed do not fit each other")
    if detector.early_ is not None and not detector.early_.is_sound():
        raise ModelFileError("its arrays of early scores do not fit each other")
    if scored.scores.shape != (1,) or not np.isfinite(scored.scores).all():
        raise ModelFileError("its arrays do not fit each other")
    rows = np.repeat(detector.initial_[None], 2 * detector._window() + 1, axis=0)
    rows[detector._window() :] += 1 + np.abs(detector.initial_)
    table = np.zeros((len(rows), len(detector.fit_columns_)))  # ignored columns keep their places
    table[:, [detector.fit_columns_.index(name) for name in detector.channels_]] = rows
    found = detector.detect(Table(table, detector.fit_columns_ if detector.named_ else None))
    segment = Series(rows[: detector._window()].astype(np.float32), detector.channels_)
    detector._expected_rows(segment, slice(0, 1))  # one window, since more would take most of the time of loading
    if not np.isfinite(found.scores).all() or not np.isfinite(found.levels).all():
        raise ModelFileError("its numbers give no finite scores and levels")
