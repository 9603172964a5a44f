"""Log, load and score with MLflow itself, in a folder."""

from __future__ import annotations

import mlflow
import numpy as np
import pandas as pd
import pytest
from tests.conftest import WATCHED, waves

from patchad import make
from patchad.adapters.mlflow import log_model, save_model

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def frame():
    return pd.DataFrame(waves(150, seed=2), columns=WATCHED)


def test_a_logged_model_gives_the_same_scores(watched_model, frame, tmp_path):
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    with mlflow.start_run():
        info = log_model(watched_model)
    loaded = mlflow.pyfunc.load_model(info.model_uri)
    found = loaded.predict(frame)
    np.testing.assert_array_equal(found["score"], watched_model.decision_function(frame))
    assert list(found.columns) == ["score", "level", "alarm"]
    assert loaded.metadata.signature.inputs.input_names() == WATCHED


def test_a_saved_folder_holds_no_pickle_and_loads(watched_model, frame, tmp_path):
    save_model(watched_model, tmp_path / "model")
    assert not [path for path in (tmp_path / "model").rglob("*") if path.suffix in (".pkl", ".pickle", ".pt")]
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert len(loaded.predict(frame)) == 150
    assert len(loaded.predict(frame.drop(columns="heat"))) == 150  # a missing channel is scored without
    with pytest.raises(mlflow.exceptions.MlflowException):
        loaded.predict(pd.DataFrame({"flow": ["much"]}))


def test_a_model_without_names_takes_rows_by_position(tmp_path):
    rows = waves(150, seed=2)
    detector = make("moving_zscore").fit(rows)
    save_model(detector, tmp_path / "model")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    wanted = detector.decision_function(rows)
    for given in (rows.astype(np.float64), pd.DataFrame(rows.astype(np.float64))):
        np.testing.assert_array_equal(loaded.predict(given)["score"], wanted)
