from __future__ import annotations

import json

import numpy as np
import pytest
from huggingface_hub import ModelCard
from tests.conftest import waves

from patchad import ModelFileError
from patchad.adapters import huggingface
from patchad.adapters.huggingface import SharedModel


@pytest.fixture(scope="module")
def shared(watched_model, tmp_path_factory):
    """A folder as it would be pushed."""
    folder = tmp_path_factory.mktemp("hub")
    SharedModel(watched_model).save_pretrained(
        folder, model_card_kwargs={"title": "plant/pump", "license": "cc-by-4.0", "tags": ["pump"]}
    )
    return folder


def test_a_model_comes_back_with_the_same_scores(watched_model, shared):
    again = SharedModel.from_pretrained(shared).detector
    rows = waves(100, seed=3)
    np.testing.assert_array_equal(again.decision_function(rows), watched_model.decision_function(rows))
    assert json.loads((shared / "config.json").read_text())["kind"] == "moving_zscore"
    assert {path.name for path in shared.iterdir()} == {"model.safetensors", "config.json", "README.md"}


def test_the_card_says_what_the_file_holds(shared):
    card = ModelCard.load(shared / "README.md")
    assert card.data.library_name == "patchad"
    assert card.data.license == "cc-by-4.0"
    assert card.data.tags == ["time-series", "anomaly-detection", "pump"]
    assert "| channels | 3: 'flow', 'heat', 'load' |" in card.text
    assert 'from_pretrained("plant/pump")' in card.text


def test_a_name_from_the_hub_is_downloaded_and_a_foreign_file_refused(shared, tmp_path, monkeypatch):
    asked = []

    def download(*, repo_id, filename, **options):
        asked.append((repo_id, filename, options["revision"]))
        return shared / filename

    monkeypatch.setattr(huggingface, "hf_hub_download", download)
    monkeypatch.setattr("huggingface_hub.hub_mixin.hf_hub_download", lambda **given: str(shared / given["filename"]))
    assert SharedModel.from_pretrained("plant/pump", revision="v1").detector.name == "moving_zscore"
    assert asked == [("plant/pump", "model.safetensors", "v1")]
    (tmp_path / "model.safetensors").write_bytes(b"something else")
    with pytest.raises(ModelFileError):
        SharedModel.from_pretrained(tmp_path)


def test_names_stay_in_their_cells():
    assert huggingface._cell("a|b\n<i>") == "a\\|b &lt;i>"
