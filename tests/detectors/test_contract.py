"""What every detector of the registry promises, checked on each with a tiny budget."""

from __future__ import annotations

import copy
import functools
import random
import zlib
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from tests.conftest import save_tiny_gpt2, waves

from patchad import DETECTORS, Detector, StreamDetector, UnsupportedError, load, make
from patchad.data.stages import Scored

TINY = {
    "window": 20,
    "patch_sizes": (2, 5),
    "d_model": 8,
    "layers": 1,
    "hop": 3,
    "max_steps": 2,
    "epochs": None,
    "batch_size": 16,
    "device": "cpu",
}
"""Parameters that make a fit short, for the detectors that have them."""
OWN: dict[str, dict[str, object]] = {
    "gbrt": {"trees": 2},
    "deep_svdd": {"epochs": 1},
    "autoencoder": {"epochs": 1},
    "deep_if": {"nets": 2},
}
"""Parameters that only one detector needs to fit in a second or two."""
EXACT = ("random", "last_difference", "sensor_range", "moving_zscore", "iforest", "iforest_sub", "gbrt", "bocpd")
"""Detectors whose arithmetic does not depend on how many windows are scored at once."""
ROUGH = {"anomaly_transformer": 1e-3, "dagmm": 1e-4}
"""Relative tolerance where float32 is amplified: by an exponential, by the inverse of a covariance."""
NO_CONTEXT = ("random", "lstm", "m2n2", "bocpd")
"""Detectors that carry state for ever."""
ROWS = 240
NAMES = tuple(DETECTORS)


@pytest.fixture(autouse=True, scope="session")
def _weights(tmp_path_factory):
    OWN["gpt2_adapter"] = {"weights": save_tiny_gpt2(tmp_path_factory.mktemp("gpt2"))}


def tiny(name: str, **changes) -> Detector:
    """Make a detector that fits in about a second."""
    known = DETECTORS[name]().get_params(deep=False)
    settings = TINY | OWN.get(name, {}) | changes
    return make(name, **{key: value for key, value in settings.items() if key in known})


@functools.cache
def fitted(name: str) -> Detector:
    return tiny(name).fit(waves(ROWS))


@pytest.mark.parametrize("name", NAMES)
def test_it_is_named_as_it_is_registered(name):
    assert DETECTORS[name].name == name
    assert DETECTORS[name].__doc__


@pytest.mark.parametrize("name", NAMES)
def test_one_finite_score_a_row_the_same_each_time_and_the_input_untouched(name):
    rows = waves(150, seed=1)
    before = rows.copy()
    detector = fitted(name)
    scores = detector.decision_function(rows)
    assert scores.shape == (150,)
    assert np.isfinite(scores).all()
    assert np.array_equal(rows, before)
    np.testing.assert_array_equal(scores, detector.decision_function(rows))


@pytest.mark.parametrize("name", NAMES)
def test_seeded_and_global_generators_left_alone(name):
    rows, before = waves(100, seed=2), global_generators()
    again = tiny(name).fit(waves(ROWS)).decision_function(rows)
    np.testing.assert_allclose(again, fitted(name).decision_function(rows), rtol=1e-6, atol=1e-9)
    assert global_generators() == before


@pytest.mark.parametrize("name", ["patchad", "sub_knn", "moving_zscore"])
@pytest.mark.parametrize("calibration", [0.0, 1e-9, 0.002, 0.02, 0.95])
def test_any_share_of_train_may_be_held_out(name, calibration):
    detector = tiny(name).set_params(calibration=calibration).fit(waves(ROWS))
    assert np.isfinite(detector.threshold_.level)


def global_generators() -> tuple:
    """Tell the state of every generator that is not ours."""
    key, place = np.random.get_state()[1:3]  # noqa: NPY002 - it is the global one that must stay as it is
    return random.getstate(), key.tobytes(), place, torch.get_rng_state().numpy().tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_missing_values_are_taken(name):
    rows = waves(100, seed=3)
    rows[40:43, 1] = np.nan
    assert np.isfinite(fitted(name).decision_function(rows)).all()


def assert_same(name: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Compare scores that were computed in batches of different sizes."""
    if name in EXACT:
        np.testing.assert_array_equal(found, expected)
        return
    tolerance = ROUGH.get(name, 1e-6)
    np.testing.assert_allclose(found, expected, rtol=2 * tolerance, atol=tolerance * np.abs(expected).max())


def push_in_parts(detector: Detector, rows: np.ndarray, bounds: Sequence[int]) -> Scored:
    """Push rows cut at these bounds through the stages, then flush."""
    stage = detector._scorer(explain=True)
    return Scored.join([*(stage.push(part) for part in np.split(rows, bounds)), stage.flush()])


@pytest.mark.parametrize("name", NAMES)
def test_rows_pushed_in_any_parts_are_scored_as_in_one(name):
    detector, rows = fitted(name), waves(150, seed=1)
    scores, shares = detector.decision_function(rows), detector.explain(rows)
    random = np.random.default_rng(zlib.crc32(name.encode()))
    for bounds in (sorted(random.integers(0, 151, size=6).tolist()), range(1, 150)):
        found = push_in_parts(detector, rows, bounds)
        assert_same(name, found.scores, scores)
        if found.attribution is None:
            assert (shares == 0).all()
            continue
        total = found.attribution.sum(axis=1, keepdims=True)
        own = np.divide(found.attribution, total, out=np.zeros_like(found.attribution), where=total > 0)
        np.testing.assert_allclose(own, shares, atol=ROUGH.get(name, 3e-6))


@pytest.mark.parametrize("name", NAMES)
def test_no_look_ahead(name):
    detector, row = fitted(name), 80
    rows = waves(120, seed=4)
    changed = rows.copy()
    changed[row + detector.delay + 1 :] += 5.0
    first, second = (detector.decision_function(x)[: row + 1] for x in (rows, changed))
    assert_same(name, first, second)


@pytest.mark.parametrize("name", NAMES)
def test_a_series_may_end_anywhere_after_the_delay(name):
    detector, rows = fitted(name), waves(120, seed=4)
    whole = detector.decision_function(rows)
    for length in (61, 62, 77, 96, 119):
        same = length - detector.delay
        assert_same(name, detector.decision_function(rows[:length])[:same], whole[:same])


@pytest.mark.parametrize("name", NAMES)
def test_scores_depend_on_no_row_before_the_context(name):
    settings = {"adapt": 10, "smoothing": 4}
    detector = fitted(name) if name in NO_CONTEXT else tiny(name, **settings).fit(waves(ROWS))
    assert (detector.context is None) == (name in NO_CONTEXT)
    if detector.context is None:
        return
    rows, hop, window = waves(160, seed=4), getattr(detector, "hop_", 1), getattr(detector, "window_", 1)
    whole = detector.decision_function(rows)
    for row in (101, 115, 130):
        start = (row - max(detector.context, window)) // hop * hop
        assert start > 0
        shard = detector.decision_function(rows[start:])[row - start :]
        assert_same(name, shard, whole[row:])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("channels", [1, 60])
def test_one_channel_and_sixty(name, channels):
    detector = tiny(name).fit(waves(120, channels))
    assert np.isfinite(detector.decision_function(waves(60, channels, seed=5))).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_constant_channel(name):
    rows = waves(120)
    rows[:, 1] = 7.0
    assert np.isfinite(tiny(name).fit(rows).decision_function(rows)).all()


@pytest.mark.parametrize("name", NAMES)
def test_shares_are_not_negative_and_sum_to_one_or_zero(name):
    shares = fitted(name).explain(waves(60, seed=6))
    assert shares.shape == (60, 3)
    assert (shares >= 0).all()
    total = shares.sum(axis=1)
    assert (np.isclose(total, 1, atol=1e-5) | (total == 0)).all()


@pytest.mark.parametrize("name", NAMES)
def test_it_is_saved_or_refused_with_the_reason(name, tmp_path):
    detector = fitted(name)
    path = tmp_path / "model.safetensors"
    if any(vars(base).get("learned", {}) is None for base in type(detector).__mro__):
        with pytest.raises(UnsupportedError, match=rf"^{name} \({type(detector).__name__}\)"):
            detector.save(path)
        assert not path.exists()
        return
    detector.save(path)
    rows = waves(60, seed=7)
    np.testing.assert_allclose(load(path).decision_function(rows), detector.decision_function(rows), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_short_train_is_enough(name):
    detector = tiny(name, window=100, patch_sizes=(5,)).fit(waves(40))
    assert np.isfinite(detector.decision_function(waves(45, seed=8))).all()


@pytest.mark.parametrize("name", NAMES)
def test_alarms_are_the_rows_inside_its_events(name):
    detector, rows = fitted(name), waves(400, seed=9)
    rows[100:110] += 6.0
    rows[200:280, 1] = np.nan
    rows[300:380, 0] = rows[300, 0]
    for limit in (detector.threshold_.level, float(np.quantile(detector.decision_function(rows), 0.9))):
        found = copy.copy(detector).set_threshold(limit).detect(rows)
        inside = np.zeros(len(rows), dtype=bool)
        for event in found.events:
            assert event.start <= event.peak < event.stop
            assert np.isfinite(event.peak_score)
            inside[event.start : event.stop] = True
        np.testing.assert_array_equal(found.alarms, inside)
        assert {"missing", "stuck"} <= {event.kind for event in found.events}
        assert len({event.id for event in found.events}) == len(found.events)


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_equals_batch_and_goes_on_from_a_snapshot(name):
    detector = fitted(name)
    rows = waves(150, seed=1)
    rows[60:64, 1] = np.nan
    rows[100:130] += 2.0
    expected = detector.detect(rows)
    live = StreamDetector(detector)
    verdicts = [*live.push_many(rows[:70])]
    live = StreamDetector.restore(detector, live.snapshot())
    verdicts += [verdict for row in rows[70:90] for verdict in live.push(row)]
    live = StreamDetector.restore(detector, live.snapshot())
    verdicts += [*live.push_many(rows[90:]), *live.flush()]
    assert [verdict.index for verdict in verdicts] == list(range(150))
    scale = np.abs(expected.scores).max()
    rough = ROUGH.get(name, 1e-5)
    np.testing.assert_allclose([v.score for v in verdicts], expected.scores, rtol=rough, atol=rough * scale)
    assert [verdict.alarm for verdict in verdicts] == expected.alarms.tolist()
    assert [(event.id, event.start, event.stop) for event in live.events] == [
        (event.id, event.start, event.stop) for event in expected.events
    ]
