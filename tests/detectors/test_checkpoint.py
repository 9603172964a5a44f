from __future__ import annotations

import hashlib
import json
import pickle
import struct
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from tests.conftest import SMALL, small, waves
from tests.detectors.golden.make_golden import HERE as GOLDEN
from tests.detectors.golden.make_golden import series

from patchad import ModelFileError, PatchAD, StreamDetector, UnsupportedError, load, make
from patchad.cli.main import run
from patchad.detectors import checkpoint
from patchad.model.net import PatchADNet
from patchad.thresholds import Fixed, Quantile


@pytest.fixture
def model(fitted, tmp_path):
    return fitted.save(tmp_path / "model.safetensors")


def test_a_loaded_detector_gives_identical_answers(fitted, model, train):
    loaded = load(model)
    np.testing.assert_array_equal(loaded.decision_function(train), fitted.decision_function(train))
    np.testing.assert_array_equal(loaded.explain(train), fitted.explain(train))
    assert loaded.detect(train).events == fitted.detect(train).events
    assert loaded.get_params() == fitted.get_params()
    assert loaded.threshold_.level == fitted.threshold_.level
    loaded.set_threshold("quantile:0.9")
    assert loaded.threshold_.level == pytest.approx(np.nanquantile(fitted.held_out_scores_, 0.9))


def test_and_so_it_does_in_a_new_process_without_torchs_compiler(fitted, model, train, tmp_path):
    np.save(tmp_path / "data.npy", train)
    code = (
        "import sys, numpy as np, torch, patchad; torch.set_num_threads(1)\n"
        "np.save(sys.argv[3], patchad.load(sys.argv[1]).decision_function(np.load(sys.argv[2])))\n"
        "assert not {'torch._dynamo', 'sympy'} & set(sys.modules), 'to import them takes a second'"
    )
    paths = [str(model), str(tmp_path / "data.npy"), str(tmp_path / "scores.npy")]
    subprocess.run([sys.executable, "-c", code, *paths], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "scores.npy"), fitted.decision_function(train))


def test_a_number_comes_back_as_a_number(tmp_path):
    checkpoint.write(tmp_path / "file", {}, {"one": np.float64(0.25), "two": np.asfortranarray(np.eye(2))})
    _, arrays = checkpoint.read(tmp_path / "file")
    assert arrays["one"].shape == ()
    assert float(arrays["one"]) == 0.25
    np.testing.assert_array_equal(arrays["two"], np.eye(2))


@pytest.mark.parametrize(
    "setting",
    [
        {"threshold": "ratio:2"},
        {"threshold": "spot"},
        {"threshold": 3.5},
        {"threshold": Fixed(2.0)},
        {"fold": "mean", "hop": 10},
        {"view_pooling": "mean", "patch_sizes": (2, 3, 5)},
        {"random_state": np.random.RandomState(3)},
        {"window": 105},
    ],
    ids=lambda changes: ",".join(changes),
)
def test_every_setting_survives(setting, tmp_path):
    names = [f"ch{i}" for i in range(3)]
    data = pd.DataFrame(waves(150), columns=names)
    detector = PatchAD(**(SMALL | {"max_steps": 3} | setting)).fit(data)
    loaded = load(detector.save(tmp_path / "m.safetensors"))
    test = pd.DataFrame(waves(120, seed=1), columns=names)
    pd.testing.assert_series_equal(loaded.decision_function(test), detector.decision_function(test))
    np.testing.assert_array_equal(loaded.detect(test).levels, detector.detect(test).levels)
    assert loaded.detect(test).notes == detector.detect(test).notes
    assert list(loaded.feature_names_in_) == names


def test_numbers_of_numpy_are_numbers_in_a_file_too(train, tmp_path):
    known = {"window": np.int64(20), "false_alarms": np.float32(2.0), "min_change": {"channel_0": np.float32(0.5)}}
    for threshold in (np.int64(3), Quantile(np.float64(0.99))):
        detector = make("sub_pca", **known, threshold=threshold).fit(train)
        loaded = load(detector.save(tmp_path / "m.safetensors"))
        assert loaded.threshold_.level == detector.threshold_.level
        assert type(loaded.window) is int
        live = detector.stream()
        live.push_many(train[:50])
        assert StreamDetector.restore(loaded, live.snapshot()).outlook().index == 49


def test_any_changed_byte_is_refused(model, tmp_path):
    content = model.read_bytes()
    rng = np.random.default_rng(0)
    header = struct.unpack("<Q", content[:8])[0] + 8
    positions = [*range(8), *rng.integers(8, header, 40), *rng.integers(header, len(content), 40), len(content) - 1]
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 1
        path = tmp_path / "damaged.safetensors"
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            load(path)


def with_metadata(content: bytes, **changes) -> bytes:
    """Change metadata of a model file, with a good checksum."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] |= changes
    header["__metadata__"]["checksum"] = "0" * 64
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    blank = struct.pack("<Q", len(text)) + text + content[8 + length :]
    return blank.replace(b"0" * 64, hashlib.sha256(blank).hexdigest().encode(), 1)


def broken_files(content: bytes) -> dict[str, bytes]:
    return {
        "empty": b"",
        "short": content[:5],
        "truncated": content[:-1],
        "half": content[: len(content) // 2],
        "longer": content + b"\0",
        "pickle": pickle.dumps({"weights": [1, 2, 3]}),
        "text": b"hello, this is not a model at all",
        "newer": with_metadata(content, format="999"),
        "older": with_metadata(content, format="1"),
        "no format": with_metadata(content, format="first"),
        "other detector": with_metadata(content, header=json.dumps({"detector": "who"})),
        "no state": with_metadata(content, header=json.dumps({"detector": "patchad"})),
        "not a table": struct.pack("<Q", 2) + b"[]",
    }


BROKEN = (
    "empty",
    "short",
    "truncated",
    "half",
    "longer",
    "pickle",
    "text",
    "newer",
    "older",
    "no format",
    "other detector",
    "no state",
    "not a table",
)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_and_foreign_files_are_refused_with_exit_2(model, tmp_path, capsys, name):
    path = tmp_path / "broken.safetensors"
    path.write_bytes(broken_files(model.read_bytes())[name])
    with pytest.raises(ModelFileError, match=r"broken\.safetensors"):
        load(path)
    assert run(["inspect", str(path)]) == 2
    talk = capsys.readouterr().err.strip()
    assert talk.startswith("error: ")
    assert "\n" not in talk
    if name == "newer":
        assert "format 999" in talk
        assert "upgrade patchad" in talk
    if name == "older":
        assert "format 1" in talk
        assert "fit it again" in talk


def test_the_file_with_a_changed_header_and_a_good_checksum_is_a_model(model, tmp_path):
    """What `with_metadata` makes must be refused for their content, not for a bad checksum."""
    path = tmp_path / "same.safetensors"
    path.write_bytes(with_metadata(model.read_bytes()))
    load(path)


def test_an_interrupted_write_leaves_the_old_file(model, fitted, monkeypatch):
    before = model.read_bytes()
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        fitted.save(model)
    assert model.read_bytes() == before
    assert [path.name for path in model.parent.iterdir()] == [model.name]


def test_nothing_is_unpickled(model, monkeypatch):
    monkeypatch.setattr(pickle, "loads", lambda *_: pytest.fail("unpickled"))
    monkeypatch.setattr(pickle, "load", lambda *_: pytest.fail("unpickled"))
    load(model)


def test_a_threshold_of_a_class_of_ones_own_cannot_be_saved(train, tmp_path):
    class Mine(Fixed):
        pass

    detector = PatchAD(**(SMALL | {"max_steps": 2}), threshold=Mine(1.0)).fit(train)
    with pytest.raises(UnsupportedError, match="Mine"):
        detector.save(tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_the_header_describes_the_content(model):
    header, arrays = checkpoint.read(model)
    assert header["detector"] == "patchad"
    assert header["format"] == str(checkpoint.FORMAT)
    assert header["channels"] == ["channel_0", "channel_1", "channel_2"]
    assert header["parameters"]["window"] == 30
    assert "net_.scales.0.embed_inter.weight" in arrays


def test_a_stored_file_still_gives_its_scores():
    expected = json.loads((GOLDEN / "golden.json").read_text())
    odd = series(60).assign(flow=lambda frame: frame["flow"].mask(frame.index == 40, 9.0))
    detector = load(GOLDEN / "golden.safetensors").set_threshold(expected["level"])  # rules of levels may improve
    found = detector.detect(odd)
    np.testing.assert_allclose(found.scores, expected["scores"], rtol=1e-4, atol=1e-4)
    assert [[event.start, event.stop, event.channels[0][0]] for event in found.events] == expected["events"]


def test_a_model_is_tried_out_on_few_windows_when_it_is_loaded(tmp_path, monkeypatch):
    path = small().fit(waves(300)).save(tmp_path / "m.safetensors")
    seen = []
    forward = PatchADNet.forward

    def counted(net, x, **settings):
        seen.append(len(x))
        return forward(net, x, **settings)

    monkeypatch.setattr(PatchADNet, "forward", counted)
    load(path)
    assert 0 < sum(seen) < 20, "of a thousand channels, each window takes half a second"
