"""Log fitted models in MLflow, and score with what it loads: one safetensors file, no pickle."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from patchad import __version__
from patchad.detectors.base import Detector
from patchad.detectors.registry import load
from patchad.errors import MissingExtraError

try:
    import mlflow.pyfunc
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema
except ImportError as error:
    raise MissingExtraError("mlflow", "mlflow") from error

FILE = "model.safetensors"


class ScoringModel:
    """What MLflow loads: `predict` gives score, level and alarm of every row of a frame."""

    def __init__(self, detector: Detector) -> None:
        self.detector = detector

    def predict(self, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:  # noqa: ARG002
        """Judge the rows, in their order; times are the frame's index, if any."""
        rows = model_input if self.detector.named_ else pd.DataFrame(model_input).to_numpy()
        found: pd.DataFrame = self.detector.detect(rows).to_frame().reset_index(drop=True)
        return found


def log_model(detector: Detector, name: str = "patchad", **options: Any) -> Any:
    """Log a fitted detector with the active run; `mlflow.pyfunc.load_model(info.model_uri)` loads it.

    Parameters
    ----------
    detector
        Fitted.
    name
        Of the model in the run.
    options
        Further arguments of `mlflow.pyfunc.log_model`, as `registered_model_name`.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = detector.save(Path(folder) / FILE)
        return mlflow.pyfunc.log_model(name=name, **_described(detector, path), **options)


def save_model(detector: Detector, path: str | Path, **options: Any) -> None:
    """Write a fitted detector as a folder in MLflow's format."""
    with tempfile.TemporaryDirectory() as folder:
        file = detector.save(Path(folder) / FILE)
        mlflow.pyfunc.save_model(path=str(path), **_described(detector, file), **options)


def _described(detector: Detector, path: Path) -> dict[str, Any]:
    if detector.named_:
        inputs = Schema([ColSpec("double", name, required=False) for name in detector.channels_])
    else:  # matched by position
        inputs = Schema([ColSpec("double") for _ in detector.channels_])
    outputs = Schema([ColSpec("double", "score"), ColSpec("double", "level"), ColSpec("boolean", "alarm")])
    return {
        "loader_module": __name__,
        "data_path": str(path),
        "pip_requirements": [f"patchad=={__version__}"],
        "signature": ModelSignature(inputs=inputs, outputs=outputs),
    }


def _load_pyfunc(path: str) -> ScoringModel:
    """Load the model from where MLflow keeps it; MLflow calls this by its name."""
    return ScoringModel(load(path))
