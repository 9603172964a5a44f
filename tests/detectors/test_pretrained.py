from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from tests.conftest import waves

from patchad import InputError, PatchAD, StreamDetector, load
from patchad.detectors import checkpoint
from patchad.detectors.describing import describe_model
from patchad.errors import ModelFileError
from patchad.model.net import PatchADNet
from patchad.model.pretrained import Shape, read_weights, write_weights

SHAPE = Shape((3, 5), 8, 1)


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> str:
    """A file of random nets for three windows."""
    path = tmp_path_factory.mktemp("weights") / "random.safetensors"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        nets = {window: PatchADNet(SHAPE.config(1, window)) for window in (15, 30, 60)}
    write_weights(path, SHAPE, nets, {})
    return str(path)


@pytest.fixture(scope="module")
def pretrained(weights) -> PatchAD:
    return PatchAD(weights=weights, window=30).fit(waves(600))


def faulty(rows: int = 300) -> np.ndarray:
    found = waves(rows, seed=1)
    found[100:130, 1] = found[100:130, 1].mean() + 3
    return found


def test_the_net_comes_trained_by_default():
    detector = PatchAD().fit(waves(600))
    assert detector.history_ == []
    assert detector.origin_ == read_weights("pretrained").origin


@pytest.mark.parametrize(
    "changes",
    [
        {"window": 45, "max_steps": 2},
        {"max_steps": 2},
        {"d_model": 8, "max_steps": 3},
        {"distance": "l2", "batch_size": 4},
    ],
)
def test_who_asks_for_another_net_gets_one_of_their_own(changes):
    detector = PatchAD(**({"window": 30} | changes)).fit(waves(300))
    assert detector.origin_ is None
    assert detector.history_


@pytest.mark.parametrize("changes", [{"window": 60}, {"scaling": "zscore"}, {"channel_mixer": False}, {"hop": 5}])
def test_what_says_nothing_of_the_net_leaves_it_as_it_comes(changes):
    detector = PatchAD(**changes).fit(waves(400))
    assert detector.history_ == []


def test_the_paper_trains_its_own_net():
    assert PatchAD.paper().weights is None
    assert PatchAD.code(1).weights is None


def test_nothing_of_the_net_is_learned(pretrained, weights):
    assert pretrained.history_ == []
    for name, array in read_weights(weights).nets[30].items():
        np.testing.assert_array_equal(pretrained.net_.state_dict()[name].numpy(), array.astype(np.float32))


def test_scales_memory_and_level_are(pretrained):
    events = pretrained.detect(faulty()).events
    assert [event.channels[0][0] for event in events] == ["channel_1"]
    assert 90 <= events[0].start <= 110


def test_reliability_does_not_depend_on_where_zero_lies(weights):
    rows = waves(1500, seed=3)
    found = [PatchAD(weights=weights, window=30).fit(rows + offset).rule_.weights for offset in (0.0, 1e7)]
    assert found[0].min() < 1
    np.testing.assert_allclose(found[0], found[1], atol=0.02)


def test_channels_that_follow_each_other_are_a_witness_of_their_own(pretrained, weights):
    assert [one.name for one in pretrained.rule_.witnesses] == ["discrepancy", "residual", "memory", "coupling"]
    single = PatchAD(weights=weights, window=15).fit(waves(200, 1))
    assert [one.name for one in single.rule_.witnesses] == ["discrepancy", "residual", "memory"]
    alone = PatchAD(weights=weights, window=15, score="residual").fit(waves(200, 2))
    assert [one.name for one in alone.rule_.witnesses] == ["discrepancy", "residual"]


def test_a_broken_relation_is_seen_that_each_channel_alone_hides(weights):
    random = np.random.default_rng(0)

    def plant(rows: int) -> np.ndarray:
        shared = np.convolve(random.standard_normal(rows + 9), np.ones(10) / 10, "valid")
        return shared[:, None] * [1.0, -2.0, 3.0] + 0.02 * random.standard_normal((rows, 3))

    test, other = plant(400), plant(400)
    test[200:240, 2] = other[200:240, 2]  # as usual, but not with the others
    events = PatchAD(weights=weights, window=30).fit(plant(1500)).detect(test).events
    assert len(events) == 1
    assert 195 <= events[0].start <= 205
    assert events[0].channels[0][0] == "channel_2"


def test_a_saved_detector_equals_the_loaded_one_without_the_weights_file(pretrained, tmp_path):
    pretrained.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.origin_ == pretrained.origin_
    np.testing.assert_array_equal(again.detect(faulty()).scores, pretrained.detect(faulty()).scores)


def test_a_model_file_says_where_its_weights_come_from(pretrained, weights, tmp_path):
    pretrained.save(tmp_path / "model")
    digest = read_weights(weights).digest
    assert describe_model(tmp_path / "model")["weights"] == f"pretrained; SHA-256 of their file {digest}"
    tuned = PatchAD(weights=weights, window=15, tune_steps=1).fit(waves(100, 1))
    tuned.save(tmp_path / "tuned")
    assert describe_model(tmp_path / "tuned")["weights"].startswith("pretrained, tuned for 1 steps; SHA-256")


@pytest.mark.parametrize("coupled", [False, True])
def test_a_channel_that_is_missing_altogether_is_left_out_of_the_score(coupled):
    time = np.arange(5000)
    phases = np.array([0, 0, 0] if coupled else [0, 1, 2])
    rows = np.sin(time[:, None] / (5 + 2 * phases) + phases) + 0.1 * np.random.default_rng(0).normal(size=(5000, 3))
    detector = PatchAD().fit(rows[:3000])
    test = rows[3000:].copy()
    test[1300:1340, 0] += 4
    test[:, 1] = np.nan
    found = detector.detect(test)
    assert [(event.kind, event.channels[0][0]) for event in found.events] == [
        ("missing", "channel_1"),
        ("anomaly", "channel_0"),
    ]
    assert 1300 <= found.events[1].start < found.events[1].stop <= 1340
    assert not found.contributions[:, 1].any()
    stream = detector.stream()
    scores = [verdict.score for verdict in [*stream.push_many(test[:300]), *stream.flush()]]
    np.testing.assert_allclose(scores, detector.decision_function(test[:300]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stuck", [False, True])
def test_a_fault_elsewhere_is_told_while_a_sensor_is_dead(stuck):
    time = np.arange(6000)[:, None]
    phases = np.arange(3)
    rows = np.sin(time / (5 + 2 * phases) + phases) + 0.1 * np.random.default_rng(0).normal(size=(6000, 3))
    detector = PatchAD().fit(rows[:3000])
    test = rows[3000:].copy()
    test[1000:, 1] = test[1000, 1] if stuck else np.nan
    alone = detector.detect(test)
    test[2300:2340, 0] += 4
    found = detector.detect(test)
    dead = "stuck" if stuck else "missing"
    assert [event.kind for event in alone.events] == [dead]
    assert [(event.kind, event.channels[0][0]) for event in found.events] == [
        (dead, "channel_1"),
        ("anomaly", "channel_0"),
    ]
    assert found.events[1].start < 2340 < found.events[1].stop + 60


def test_a_stream_equals_the_batch(pretrained):
    rows = faulty(200)
    stream = StreamDetector(pretrained)
    found = [one.score for row in rows for one in stream.push(row)] + [one.score for one in stream.flush()]
    np.testing.assert_allclose(found, pretrained.detect(rows).scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("rows", "window"), [(32, 15), (70, 30), (200, 60)])
def test_short_train_takes_a_shorter_window_of_the_weights(weights, rows, window):
    detector = PatchAD(weights=weights, window=60).fit(waves(rows, 2))
    assert detector.window_ == window
    assert len(detector.detect(faulty()[:, :2]).scores) == 300


def test_tuning_trains_on(pretrained, weights):
    tuned = PatchAD(weights=weights, window=30, tune_steps=2).fit(waves(600))
    assert tuned.history_[-1].steps == 2
    name = "scales.0.embed_inter.weight"
    assert not torch.equal(tuned.net_.state_dict()[name], pretrained.net_.state_dict()[name])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 64}, "are for d_model=8, not 64; leave d_model out"),
        ({"patch_sizes": [2, 5]}, "leave patch_sizes out"),
        ({"objective": "adversarial"}, "leave objective out"),
        ({"window": 40}, "have no window 40; use one of '15', '30', '60'"),
        ({"max_steps": 5}, "leave max_steps out, or give weights=None"),
        ({"weights": "pretrained", "window": 20, "tune_steps": 5}, "have no window 20"),
        ({"tune_steps": -1}, "tune_steps=-1"),
        ({"weights": None, "tune_steps": 5}, "weights='pretrained'"),
        ({"weights": "absent"}, "there are no weights 'absent'"),
    ],
)
def test_parameters_that_contradict_the_weights_are_refused(weights, changes, message):
    with pytest.raises(InputError, match=message):
        PatchAD(**({"weights": weights, "window": 30} | changes)).fit(waves(200))


def test_parameters_of_the_weights_may_be_given(weights):
    PatchAD(weights=weights, window=15, d_model=8, layers=1, patch_sizes=[3, 5]).fit(waves(100))


def test_a_file_that_claims_a_huge_net_is_refused_at_once(pretrained, tmp_path):
    pretrained.save(tmp_path / "model")
    header, arrays = checkpoint.read(tmp_path / "model")
    header["learned"]["origin_.shape.layers"] = 10**7
    checkpoint.write(tmp_path / "model", header, arrays)
    with pytest.raises(ModelFileError, match="layers stands for 10000000 parts"):
        load(tmp_path / "model")


@pytest.mark.slow
def test_the_exported_graph_agrees(pretrained):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from patchad.detectors.backends.onnx import to_onnx

    to_onnx(pretrained)  # compares what every witness observes


@pytest.fixture
def easily_enough(monkeypatch):
    monkeypatch.setattr("patchad.detectors.looking.ENOUGH_WINDOWS", 1)


@pytest.mark.usefixtures("easily_enough")
def test_held_out_rows_are_looked_at_once_and_scored_as_ever(weights):
    detector = PatchAD(weights=weights, window=30).fit(waves(600))
    assert detector.held_out_ == [[0, 120]]
    assert not hasattr(detector, "_looked")
    np.testing.assert_allclose(
        detector.train_scores_, detector.decision_function(waves(600))[480:], rtol=1e-4, atol=1e-4
    )


def test_of_few_held_out_rows_all_windows_are_looked_at(pretrained):
    assert len(pretrained.train_scores_) == 600


@pytest.mark.usefixtures("easily_enough")
def test_of_many_held_out_rows_the_newest_are_looked_at(weights, monkeypatch):
    rows = waves(3000)
    every = PatchAD(weights=weights, window=15).fit(rows)
    assert every.held_out_ == [[120 * n, 120 * n + 120] for n in range(5)]
    monkeypatch.setattr("patchad.detectors.looking.CALIBRATION_ROWS", 200)
    few = PatchAD(weights=weights, window=15).fit(rows)
    # The newest block whole, with the window before it, and what is left of the rows for the one before.
    assert few.held_out_ == [[0, 65], [65, 185]]


def test_a_score_of_one_witness_stores_the_scores_of_all_train(weights):
    assert len(PatchAD(weights=weights, window=15, score="residual").fit(waves(400, 2)).train_scores_) == 400


def test_a_new_sensor_joins_with_its_own_scale_and_calibration(weights):
    def frame(rows: int, seed: int) -> pd.DataFrame:
        values = waves(rows, seed=seed) * [1.0, 1.0, 40.0] + [0.0, 0.0, 500.0]
        return pd.DataFrame(values, columns=["a", "b", "c"])

    before, after = frame(900, 0), frame(400, 1)
    detector = PatchAD(weights=weights, window=30).fit([before[["b", "a"]], after])
    assert detector.channels_ == ("b", "a", "c")
    assert detector.fit_notes_[0] == "channel 'c' joins with what 1 of 2 series say of it"
    assert detector.scaler_.spread[2] == pytest.approx(
        PatchAD(weights=weights, window=30).fit(after).scaler_.spread[2], rel=0.5
    )
    assert detector.alarm_rules_.sensors.silence[2] == 30
    test = frame(300, 2)
    test.loc[100:130, "c"] += 120
    (event,) = detector.detect(test).events
    assert (event.channels[0][0], 95 <= event.start <= 105) == ("c", True)
    with pytest.raises(InputError, match="series 2 of 2: channel 'c' of the fit is missing"):
        PatchAD(window=30, max_steps=1).fit([after, before[["a", "b"]]])


def test_series_without_names_have_no_new_sensors(weights):
    with pytest.raises(InputError, match="series 2 of 2"):
        PatchAD(weights=weights, window=15).fit([waves(200, 2), waves(200, 3)])
