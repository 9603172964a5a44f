from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from tests.conftest import small, waves

import patchad.detectors.preparing
from patchad import InputError, PatchAD, UnsupportedError, load


def test_a_planted_anomaly_is_found_and_its_channel_blamed(fitted):
    odd = waves(400, seed=1)
    odd[200:210, 2] += 3
    found = fitted.detect(odd)
    event = max(found.events, key=lambda event: event.peak_score)
    assert 198 <= event.peak < 220
    assert event.channels[0][0] == "channel_2"
    assert event.severity > 50
    assert fitted.predict(odd)[200:215].any()


# -- one score per row, in the caller's container ----------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 5, 29, 30, 31, 34, 35, 36, 200])
def test_every_row_gets_a_score_whatever_the_length(fitted, rows):
    scores = fitted.decision_function(waves(rows, seed=2))
    assert scores.shape == (rows,)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize(
    ("make", "kind"),
    [(pd.DataFrame, pd.Series), (pl.DataFrame, pl.Series), (lambda x: pa.table(pd.DataFrame(x)), pa.Array)],
    ids=["pandas", "polars", "pyarrow"],
)
def test_containers_out_are_as_containers_in(train, fitted, make, kind):
    frame = make({"a": train[:, 0], "b": train[:, 1], "c": train[:, 2]})
    scores = fitted.decision_function(frame)
    assert isinstance(scores, kind)
    np.testing.assert_allclose(np.asarray(scores), fitted.decision_function(train))
    assert isinstance(fitted.predict(frame), kind)
    np.testing.assert_allclose(np.asarray(pd.DataFrame(np.asarray(fitted.explain(frame)))), fitted.explain(train))


def test_shares_are_not_negative_and_sum_to_one_or_zero(fitted):
    shares = fitted.explain(waves(300, seed=3))
    assert (shares >= 0).all()
    totals = shares.sum(axis=1)
    assert (np.isclose(totals, 1, atol=1e-5) | (totals == 0)).all()


def test_fit_with_names_matches_by_name_and_reports_extra_columns(train):
    frame = pd.DataFrame(train, columns=["x", "y", "z"], index=pd.date_range("2024", periods=len(train), freq="min"))
    detector = small().fit(frame)
    assert list(detector.feature_names_in_) == ["x", "y", "z"]
    expected = detector.decision_function(frame).to_numpy()
    shuffled = frame[["z", "x", "y"]].assign(extra="words").reset_index(drop=True)
    np.testing.assert_array_equal(detector.decision_function(shuffled), expected)
    np.testing.assert_array_equal(detector.decision_function(train), expected)
    assert "ignored columns that were not in the fit: 'extra'" in detector.detect(shuffled).notes
    with pytest.raises(InputError, match="channels 'x', 'y', 'z' of the fit are missing"):
        detector.predict(frame.rename(columns=str.upper))
    with pytest.raises(InputError, match="X has 2 features, but PatchAD is expecting 3"):
        detector.predict(train[:, :2])


@pytest.mark.parametrize("missing", ["interpolate", "drop", "error"])
def test_a_missing_channel_is_an_event_and_the_others_are_scored_without_it(train, missing, tmp_path):
    frame = pd.DataFrame(train, columns=["x", "y", "z"])
    detector = small(missing=missing).fit(frame)
    odd = frame[["x", "z"]].copy()
    odd.loc[300:320, "x"] += 5.0
    found = detector.detect(odd)
    lost, *others = sorted(found.events, key=lambda event: event.kind != "missing")
    assert (lost.kind, lost.start, lost.stop, lost.channels) == ("missing", 0, len(odd), (("y", 1.0),))
    assert any(event.start < 320 and event.stop > 300 and event.channels[0][0] == "x" for event in others)
    assert (found.contributions[:, 1] == 0).all()
    assert "channels of the fit are missing, and the others are scored without: 'y'" in found.notes
    assert found.report(tmp_path / "report.html").exists()
    with pytest.raises(InputError, match="channel 'y' of the fit is missing"):
        small().fit([frame, odd])


def test_a_list_of_series_is_fitted_without_windows_across_and_scored_one_by_one(train):
    parts = [train[:300], train[300:]]
    detector = small().fit(parts)
    scores = detector.decision_function(parts)
    assert [len(s) for s in scores] == [300, 300]
    np.testing.assert_allclose(scores[1], detector.decision_function(parts[1]))
    assert len(detector.detect(parts)) == len(detector.predict(parts)) == len(detector.explain(parts)) == 2


def test_inputs_stay_as_they_were(train):
    data = train.copy()
    data[5, 1] = np.nan
    kept = data.copy()
    detector = small().fit(data)
    detector.detect(data)
    np.testing.assert_array_equal(data, kept)
    data.flags.writeable = False
    detector.decision_function(data)


# -- seeds, parameters, scikit-learn -----------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_scores_and_leaves_global_generators_alone(train):
    np.random.seed(0)  # noqa: NPY002 - the global generator is what must not move
    torch.manual_seed(0)
    before = np.random.get_state()[1].tolist(), torch.random.get_rng_state().tolist()  # noqa: NPY002
    first = small(random_state=3).fit(train).decision_function(train)
    assert before == (np.random.get_state()[1].tolist(), torch.random.get_rng_state().tolist())  # noqa: NPY002
    np.testing.assert_array_equal(small(random_state=3).fit(train).decision_function(train), first)
    assert not np.array_equal(small(random_state=4).fit(train).decision_function(train), first)


def test_clone_and_parameters():
    detector = PatchAD(window=60, threshold="mad:4")
    assert clone(detector).get_params() == detector.get_params()
    assert detector.set_params(window=30).window == 30
    with pytest.raises(NotFittedError):
        detector.predict(np.zeros((50, 2)))
    with pytest.raises(NotFittedError):
        _ = detector.threshold_


def test_in_a_pipeline(train):
    pipeline = make_pipeline(StandardScaler(), small()).fit(train)
    assert pipeline.decision_function(train).shape == (len(train),)
    assert set(pipeline.predict(train)) <= {0, 1}


EXPECTED_TO_FAIL = {
    "check_fit_score_takes_y": "`score` is a parameter here (what to score by), not scikit-learn's method",
    "check_n_features_in_after_fitting": "`score` is a parameter here (what to score by), not scikit-learn's method",
    "check_pipeline_consistency": "`score` is a parameter here (what to score by), not scikit-learn's method",
    "check_methods_sample_order_invariance": "rows are a time series: their order is what is learned",
    "check_methods_subset_invariance": "a row's score depends on the rows before it",
    "check_fit1d": "one channel may be given as (time,)",
    "check_dtype_object": "an object that is no number raises InputError, a ValueError, not a TypeError",
}


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(monkeypatch):
    monkeypatch.setattr(patchad.detectors.preparing, "MIN_ROWS", 2)  # the checks fit on 15 to 30 rows
    detector = PatchAD(window=15, max_steps=3, d_model=4, layers=1)
    results = check_estimator(detector, expected_failed_checks=EXPECTED_TO_FAIL, on_fail=None)
    assert {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"} == {}
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(EXPECTED_TO_FAIL)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"window": "long"}, "window='long' does not fit; an integer is needed"),
        ({"window": 100}, "patch size '3' does not divide window 100"),
        ({"patch_sizes": ("a",)}, "does not fit; a tuple of integers is needed"),
        ({"hop": 0}, "hop=0 is out of range"),
        ({"hop": 31}, "hop=31 is out of range"),
        ({"smoothing": 0}, "smoothing=0"),
        ({"stride": 0}, "stride=0"),
        ({"score": "best"}, "score='best' does not fit"),
        ({"fold": "max"}, "fold='max' does not fit"),
        ({"orientation": 2}, "orientation=2 does not fit"),
        ({"threshold": "atuo"}, "threshold 'atuo' is unknown"),
        ({"risk": 2.0, "threshold": "spot"}, "risk=2"),
        ({"false_alarms": 0.0}, "false_alarms=0"),
        ({"false_alarms": float("nan")}, "false_alarms=nan"),
        ({"false_alarms": 10**20}, "false_alarms is out of range"),
        ({"false_alarms": 1e20}, "false_alarms=1e[+]20 is out of range"),
        ({"random_state": -1}, "random_state=-1 is negative"),
        ({"d_model": 10**400}, "d_model is out of range; whole numbers up to 2,147,483,647"),
        ({"calibration": 1.0}, "calibration=1.0 is out of range"),
        ({"max_steps": None}, "training needs an end"),
        ({"max_steps": 0}, "max_steps=0"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0"),
        ({"device": "tpu9"}, "device='tpu9' is unknown"),
        ({"missing": "guess"}, "missing='guess' does not fit"),
        ({"min_duration": 0}, "min_duration=0"),
        ({"constraint": 2.0}, "constraint=2.0"),
    ],
)
def test_wrong_parameters_are_refused_before_training(train, wrong, message):
    with pytest.raises(InputError, match=message):
        small(**wrong).fit(train)


@pytest.mark.parametrize(
    "variant",
    [
        {"objective": "adversarial"},
        {"distance": "jsd"},
        {"distance": "l2"},
        {"distance": "wasserstein"},
        {"layers_mode": "parallel", "layers": 2},
        {"activation": "relu"},
        {"view_pooling": "mean"},
        {"share_channel_mixer": False},
        {"channel_mixer": False},
        {"mixrep_mixer": False},
        {"positional_embedding": False},
        {"projection": False},
        {"constraint": 0.0},
        {"score": "residual"},
        {"score": "discrepancy"},
        {"epochs": 1, "stride": 10, "max_steps": None},
        {"patch_sizes": (1, 2, 6)},
        {"calibration": 0.0},
    ],
    ids=str,
)
def test_every_variant_fits_and_scores(train, variant):
    scores = small(**({"max_steps": 3} | variant)).fit(train).decision_function(train)
    assert np.isfinite(scores).all()


def test_orientation_turns_the_discrepancy_around(train):
    plain = small(score="discrepancy", smoothing=1).fit(train)
    turned = small(score="discrepancy", smoothing=1, orientation=-1).fit(train)
    np.testing.assert_allclose(plain.decision_function(train), -turned.decision_function(train))
    adversarial = small(score="discrepancy", objective="adversarial", max_steps=2).fit(train)
    assert adversarial.rule_.witnesses[0].orientation == -1


def test_the_papers_settings():
    detector = PatchAD.paper()
    wanted = {
        "window": 105,
        "patch_sizes": (3, 5),
        "d_model": 40,
        "layers": 3,
        "constraint": 0.2,
        "learning_rate": 1e-4,
        "batch_size": 128,
        "epochs": 3,
        "stride": 1,
        "objective": "adversarial",
        "score": "discrepancy",
        "memory": 0,
        "scaling": "zscore",
        "fold": "newest",
        "smoothing": 1,
        "hop": 105,
        "threshold": "ratio:1",
        "view_pooling": "mean",
    }
    assert {name: detector.get_params()[name] for name in wanted} == wanted
    assert PatchAD.paper(window=30, d_model=8).get_params()["d_model"] == 8


def test_max_steps_bounds_epochs(train):
    detector = small(epochs=100, max_steps=7).fit(train)
    assert detector.history_[-1].step == 7


# -- nothing ahead of its time -----------------------------------------------------------------------------------------


@cache
def fitted_once(setting) -> PatchAD:
    return small(max_steps=5, **dict(setting)).fit(waves(600))


no_look_ahead = pytest.mark.parametrize(
    "setting",
    [{"hop": 1, "fold": "newest"}, {"hop": 5, "fold": "newest"}, {"hop": 30, "fold": "newest"}, {"hop": 4}],
    ids=str,
)


@no_look_ahead
@settings(max_examples=15, deadline=None)
@given(row=st.integers(30, 149), seed=st.integers(0, 10_000))
def test_a_score_does_not_depend_on_rows_after_its_delay(setting, row, seed):
    detector = fitted_once(tuple(setting.items()))
    data = waves(150, seed=seed)
    data[40:44, 1] = np.nan
    later = data.copy()
    rng = np.random.default_rng(seed)
    later[row + detector.delay + 1 :] = 50 * rng.standard_normal(later[row + detector.delay + 1 :].shape)
    kept = slice(0, row + 1)
    first, second = detector.detect(data), detector.detect(later)
    np.testing.assert_array_equal(first.scores[kept], second.scores[kept])
    np.testing.assert_array_equal(first.contributions[kept], second.contributions[kept])


@pytest.mark.parametrize(
    ("setting", "delay"), [({"hop": 1, "fold": "newest"}, 0), ({"hop": 5, "fold": "newest"}, 4), ({"hop": 7}, 29)]
)
def test_the_delay_is_what_the_fold_makes_it(setting, delay):
    assert small(**setting).delay == delay


def test_hop_one_and_the_newest_point_of_every_window_agree(train):
    detector = small(hop=1, smoothing=1, fold="newest").fit(train)
    scores = detector.decision_function(train[:60])
    for end in (35, 48, 60):
        assert detector.decision_function(train[end - 30 : end])[-1] == pytest.approx(scores[end - 1], rel=1e-4)


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000))
def test_fit_sees_train_only(train, seed):
    rng = np.random.default_rng(seed)
    before = small(max_steps=3, random_state=seed).fit(train)
    level, weights = before.threshold_.level, [p.clone() for p in before.net_.parameters()]
    before.detect(rng.standard_normal((80, 3)))
    before.predict(100 * rng.standard_normal((80, 3)))
    assert before.threshold_.level == level
    assert all(torch.equal(a, b) for a, b in zip(weights, before.net_.parameters(), strict=True))


def test_held_out_rows_do_not_train_the_net_nor_the_scaler(train):
    changed = train.copy()
    changed[520:] += 0.3
    one, other = small(calibration=0.2, max_steps=5).fit(train), small(calibration=0.2, max_steps=5).fit(changed)
    np.testing.assert_array_equal(one.scaler_.mean, other.scaler_.mean)
    assert all(torch.equal(a, b) for a, b in zip(one.net_.parameters(), other.net_.parameters(), strict=True))
    assert one.threshold_.level != other.threshold_.level


# -- thresholds --------------------------------------------------------------------------------------------------------


def test_the_threshold_can_change_without_a_fit(train):
    detector = small(max_steps=5).fit(train)
    held_out = detector.held_out_scores_
    held_out = held_out[np.isfinite(held_out)]
    assert len(held_out) == 120
    detector.set_threshold("quantile:0.9")
    assert detector.threshold_.level == pytest.approx(np.quantile(held_out, 0.9))
    assert detector.threshold == "quantile:0.9"
    with pytest.raises(InputError):
        detector.set_threshold("quantile:9")
    assert detector.threshold == "quantile:0.9", "a refused threshold changes nothing"


@pytest.mark.parametrize(
    "changed",
    [{"threshold": "sigma:2"}, {"false_alarms": 50.0}, {"merge_gap": 0}, {"threshold": "spot", "risk": 1e-2}],
    ids=str,
)
def test_what_is_set_after_the_fit_changes_the_level_as_for_a_loaded_detector(fitted, changed, tmp_path):
    detector, test = copy.copy(fitted).set_params(**changed), waves(200, seed=9)
    found, streamed = detector.detect(test), detector.stream().push_many(test)
    assert found.levels[0] != fitted.threshold_.level
    assert streamed[0].level == found.levels[0]
    again = load(detector.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(again.detect(test).levels, found.levels)


@pytest.mark.parametrize("wrong", ["x", None, True, 0.0])
def test_a_promise_that_is_none_leaves_the_detector_as_it_was(watched_model, wrong):
    detector = copy.copy(watched_model)
    with pytest.raises(InputError, match="false_alarms="):
        detector.set_false_alarms(wrong)
    assert detector.false_alarms == watched_model.false_alarms


def test_the_ratio_uses_all_train_scores(train):
    detector = small(max_steps=5, threshold="ratio:5").fit(train)
    test = waves(200, seed=9)
    scores = detector.decision_function(test)
    together = np.concatenate([detector.decision_function(train), scores])
    np.testing.assert_allclose(detector.detect(test).levels, np.percentile(together, 95), rtol=1e-5)


@pytest.mark.parametrize("name", ["spot", "dspot"])
def test_adaptive_thresholds_give_the_same_answer_twice(train, name):
    detector = small(max_steps=5, threshold=name).fit(train)
    test = waves(300, seed=9)
    np.testing.assert_array_equal(detector.detect(test).levels, detector.detect(test).levels)


def test_events_are_shaped_by_duration_and_gap(train):
    detector = small(max_steps=5).fit(train)
    odd = waves(200, seed=1)
    odd[100:104, 0] = odd[104:100:-1, 0]
    odd[160:164, 0] = 1.5
    many = detector.set_params(merge_gap=0).detect(odd).events
    merged = detector.set_params(merge_gap=200).detect(odd).events
    assert len(merged) == 1 <= len(many)
    assert detector.set_params(min_duration=200).detect(odd).events == ()


def test_orientation_changes_without_another_fit_and_equals_one_of_its_own(train):
    def letter(**changes):
        return small(score="discrepancy", **changes).fit(train)

    turned = letter().set_orientation(-1)
    own = letter(orientation=-1)
    np.testing.assert_array_equal(turned.decision_function(train), own.decision_function(train))
    np.testing.assert_array_equal(turned.train_scores_, own.train_scores_)
    assert turned.threshold_.level == own.threshold_.level
    back = turned.set_orientation(None)
    np.testing.assert_array_equal(back.decision_function(train), letter().decision_function(train))
    with pytest.raises(UnsupportedError, match="score='fused'"):
        small().fit(train).set_orientation(1)
