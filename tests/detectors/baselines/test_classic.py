"""Classical baselines: each detects what it was designed for, and agrees with public implementations."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.svm import OneClassSVM
from tests.conftest import waves

from patchad import InputError, load, make
from patchad.data.windows import views
from patchad.metrics import roc_auc

ROWS, START, STOP = 1000, 600, 650
LABELS = (np.arange(ROWS) >= START) & (np.arange(ROWS) < STOP)
ANOMALY = slice(START, STOP)


# -- series with one anomaly each, `ANOMALY`; `seed` 0 is train, without it --------------------------------------------


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng(100 + seed)


def circle(seed: int) -> np.ndarray:
    """Two channels that run around a circle; the anomaly lies inside it, within the range of both."""
    t = np.arange(ROWS) / 7
    rows = np.stack([np.sin(t), np.cos(t)], axis=1)
    rows[ANOMALY] *= 0.2 if seed else 1
    return rows + 0.05 * rng_of(seed).standard_normal((ROWS, 2))


def extremes(seed: int) -> np.ndarray:
    """Noise; the anomaly is somewhat large in all channels."""
    rows = rng_of(seed).standard_normal((ROWS, 4))
    rows[ANOMALY] *= 3 if seed else 1
    return rows


def broken_correlation(seed: int) -> np.ndarray:
    """Channels that move as one; in the anomaly the last moves the opposite way, within its range."""
    rng = rng_of(seed)
    rows = np.repeat(np.sin(np.arange(ROWS) / 9)[:, None] + rng.standard_normal((ROWS, 1)), 3, axis=1)
    rows[ANOMALY, 2] *= -1 if seed else 1
    return rows + 0.1 * rng.standard_normal((ROWS, 3))


def spikes_on_a_drift(seed: int) -> np.ndarray:
    """A slow drift through a wide range; the anomaly is small spikes on it."""
    rng = rng_of(seed)
    rows = 5 * np.sin(np.arange(ROWS) / 400)[:, None] + 0.1 * rng.standard_normal((ROWS, 2))
    rows[ANOMALY][::10] += 1 if seed else 0
    return rows


def changed_frequency(seed: int) -> np.ndarray:
    """Waves; the anomaly has the same amplitude and twice the frequency."""
    speed = np.ones(ROWS)
    speed[ANOMALY] = 2 if seed else 1
    phase = np.cumsum(speed) + rng_of(seed).uniform(0, 25)
    rows = np.sin(2 * np.pi * (phase[:, None] + 7 * np.arange(3)) / 25)
    return rows + 0.1 * rng_of(seed + 50).standard_normal((ROWS, 3))


def level_shift(seed: int) -> np.ndarray:
    """Waves; the anomaly is higher by one."""
    rows = waves(ROWS, seed=seed)
    rows[ANOMALY] += 1 if seed else 0
    return rows


def broken_lead(seed: int) -> np.ndarray:
    """A channel of noise and one that follows it two rows later; in the anomaly it follows nothing."""
    rng = rng_of(seed)
    leader = rng.standard_normal(ROWS)
    follower = np.roll(leader, 2)
    if seed:
        follower[ANOMALY] = rng.standard_normal(STOP - START)
    return np.stack([leader, follower], axis=1) + 0.1 * rng.standard_normal((ROWS, 2))


def lost_autocorrelation(seed: int) -> np.ndarray:
    """A slow autoregressive channel; the anomaly is drawn at random from all its values."""
    rng = rng_of(seed)
    rows = np.zeros(ROWS)
    for k, shock in enumerate(rng.standard_normal(ROWS)):
        rows[k] = 0.99 * rows[k - 1] + shock
    if seed:
        rows[ANOMALY] = rng.choice(rows, STOP - START)
    return rows[:, None]


def lost_chaos(seed: int) -> np.ndarray:
    """The logistic map, each value a nonlinear function of the last and linearly noise; the anomaly is shuffled."""
    rows = np.empty(ROWS)
    rows[0] = 0.3 + 0.01 * seed
    for k in range(1, ROWS):
        rows[k] = 3.99 * rows[k - 1] * (1 - rows[k - 1])
    if seed:
        rng_of(seed).shuffle(rows[ANOMALY])
    return rows[:, None]


DETECTS = {
    "lof": (circle, {}),
    "ocsvm": (extremes, {}),
    "iforest": (extremes, {}),
    "pca": (broken_correlation, {}),
    "moving_zscore": (spikes_on_a_drift, {"window": 21}),
    "ocsvm_sub": (changed_frequency, {"window": 25}),
    "iforest_sub": (level_shift, {"window": 25}),
    "sub_knn": (changed_frequency, {"window": 25}),
    "kmeans_ad": (changed_frequency, {}),
    "matrix_profile": (changed_frequency, {"window": 25}),
    "deep_svdd": (level_shift, {"window": 25, "epochs": 5}),
    "autoencoder": (changed_frequency, {"window": 25, "epochs": 5}),
    "deep_if": (changed_frequency, {"window": 25, "nets": 10}),
    "var": (broken_lead, {}),
    "autoregression": (lost_autocorrelation, {}),
    "gbrt": (lost_chaos, {}),
}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", DETECTS)
def test_it_detects_what_it_was_designed_for(name, seed):
    kind, parameters = DETECTS[name]
    labels = LABELS & (np.arange(ROWS) % 10 == 0) if kind is spikes_on_a_drift else LABELS
    scores = make(name, **parameters).fit(kind(0)).decision_function(kind(seed))
    assert roc_auc(labels=labels, scores=scores) > 0.8
    guesses = make("random").fit(kind(0)).decision_function(kind(seed))
    assert 0.25 < roc_auc(labels=labels, scores=guesses) < 0.75


# -- agreement with public implementations -----------------------------------------------------------------------------

TRAIN, TEST = waves(300, seed=1), waves(120, seed=2)


def fitted(name: str, **parameters):
    """Fit a detector to all of `TRAIN`, with nothing held out."""
    return make(name, calibration=0.0, **parameters).fit(TRAIN)


def scaled(values: np.ndarray) -> np.ndarray:
    """Scale as a `fitted` detector does."""
    return ((values - TRAIN.mean(axis=0)) / TRAIN.std(axis=0)).astype(np.float32)


def flat(values: np.ndarray, window: int) -> np.ndarray:
    windows = views(values, window)
    return np.array(windows.reshape(len(windows), -1))


@pytest.mark.parametrize(
    ("name", "parameters", "theirs"),
    [
        ("lof", {"neighbours": 10}, lambda seed: LocalOutlierFactor(n_neighbors=10, novelty=True)),
        ("ocsvm", {"nu": 0.2}, lambda seed: OneClassSVM(nu=0.2)),
        ("iforest", {"trees": 10}, lambda seed: IsolationForest(n_estimators=10, random_state=seed)),
    ],
)
def test_scores_of_rows_equal_those_of_scikit_learn(name, parameters, theirs):
    ours = fitted(name, **parameters)
    model = theirs(ours._seed()).fit(scaled(TRAIN))
    np.testing.assert_allclose(ours.decision_function(TEST), -model.score_samples(scaled(TEST)), rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "parameters", "theirs"),
    [
        ("ocsvm_sub", {"nu": 0.2}, lambda seed: OneClassSVM(nu=0.2)),
        ("iforest_sub", {"trees": 10}, lambda seed: IsolationForest(n_estimators=10, random_state=seed)),
    ],
)
def test_scores_of_windows_equal_those_of_scikit_learn(name, parameters, theirs):
    ours = fitted(name, window=8, fold="newest", **parameters)
    model = theirs(ours._seed()).fit(flat(scaled(TRAIN), 8))
    expected = -model.score_samples(flat(scaled(TEST), 8))
    np.testing.assert_allclose(ours.decision_function(TEST)[7:], expected, rtol=1e-4)


def test_the_pca_residual_of_rows_equals_that_of_scikit_learn():
    model = PCA(0.9).fit(scaled(TRAIN))
    assert 0 < len(model.components_) < 3
    left = scaled(TEST) - model.inverse_transform(model.transform(scaled(TEST)))
    found = fitted("pca")
    np.testing.assert_allclose(found.decision_function(TEST), np.square(left).mean(axis=1), rtol=1e-3, atol=1e-6)
    shares = np.square(left) / np.square(left).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.explain(TEST), shares, atol=1e-3)


def test_one_channel_has_a_pca_residual_too_and_it_survives_a_file(tmp_path):
    found = make("pca", calibration=0.0).fit(TRAIN[:, :1])
    np.testing.assert_allclose(found.decision_function(TEST[:, :1]), np.square(scaled(TEST)[:, 0]), rtol=1e-3)
    found.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.decision_function(TEST[:, :1]), found.decision_function(TEST[:, :1]))


def test_the_moving_z_score_equals_its_definition():
    found = fitted("moving_zscore", window=6, floor=1e-9)
    rows = scaled(TEST).astype(float)
    before = [rows[k - 5 : k] for k in range(5, len(rows))]
    distances = [np.abs(row - b.mean(axis=0)) / b.std(axis=0) for row, b in zip(rows[5:], before, strict=True)]
    np.testing.assert_allclose(found.decision_function(TEST)[5:], np.mean(distances, axis=1), rtol=1e-5)
    assert (found.decision_function(TEST)[:5] == found.decision_function(TEST)[5]).all()


def test_nearest_neighbours_equal_those_of_scikit_learn():
    theirs = NearestNeighbors(n_neighbors=4).fit(flat(scaled(TRAIN), 8))
    expected = theirs.kneighbors(flat(scaled(TEST), 8))[0]
    for k in (1, 4):
        found = fitted("sub_knn", window=8, fold="newest", neighbours=k).decision_function(TEST)
        np.testing.assert_allclose(found[7:], expected[:, k - 1], rtol=1e-4)


@pytest.mark.parametrize(
    "name", ["moving_zscore", "sub_knn", "kmeans_ad", "matrix_profile", "var", "autoregression", "gbrt"]
)
def test_the_attribution_points_to_the_anomalous_channel(name):
    rows = TEST.copy()
    rows[60:80:2, 2] += 3
    assert make(name, window=8).fit(TRAIN).explain(rows)[60].argmax() == 2


def test_the_pca_residual_points_to_the_channel_that_broke_the_correlation():
    shares = make("pca").fit(broken_correlation(0)).explain(broken_correlation(1))
    assert shares[ANOMALY].mean(axis=0).argmax() == 2


def test_distances_to_centres_equal_those_of_scikit_learn():
    found = fitted("kmeans_ad", window=8, fold="newest", clusters=5)
    theirs = KMeans(5, n_init=1, random_state=found._seed()).fit(flat(scaled(TRAIN), 8))
    expected = theirs.transform(flat(scaled(TEST), 8)).min(axis=1)
    np.testing.assert_allclose(found.decision_function(TEST)[7:], expected, rtol=1e-3)


# -- matrix profile ----------------------------------------------------------------------------------------------------


def with_flats(rows: np.ndarray) -> np.ndarray:
    """Make the first channel constant for a while, so that some windows are constant."""
    rows = rows.copy()
    rows[40:60, 0] = rows[40, 0]
    return rows


def slow_profile(train: np.ndarray, test: np.ndarray, window: int) -> np.ndarray:
    """Nearest distances of z-normalised windows of one channel, pair by pair; constant windows are 0."""
    shapes = []
    for values in (train, test):
        centred = views(values[:, None], window)[..., 0]
        centred = centred - centred.mean(axis=1, keepdims=True)
        deviation = centred.std(axis=1, keepdims=True)
        shapes.append(np.where(deviation > 1e-9, centred / np.maximum(deviation, 1e-9), 0))
    return np.array([min(np.linalg.norm(b - a) for a in shapes[0]) for b in shapes[1]])


def test_the_profile_is_the_nearest_of_all_pairs():
    train, test = TRAIN, with_flats(TEST)
    found = make("matrix_profile", window=10, fold="newest", calibration=0.0).fit(train).decision_function(test)
    expected = np.mean([slow_profile(train[:, c], test[:, c], 10) for c in range(3)], axis=0)
    np.testing.assert_allclose(found[9:], expected, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("constant", [False, True])
def test_the_profile_equals_that_of_stumpy(constant):
    stumpy = pytest.importorskip("stumpy")
    train, test = with_flats(TRAIN) if constant else TRAIN, with_flats(TEST)
    found = make("matrix_profile", window=10, fold="newest", calibration=0.0).fit(train).decision_function(test)
    columns = [stumpy.stump(test[:, c], 10, train[:, c], ignore_trivial=False)[:, 0] for c in range(3)]
    np.testing.assert_allclose(found[9:], np.mean(np.stack(columns).astype(float), axis=0), rtol=1e-4, atol=1e-4)


def test_the_profile_ignores_level_and_scale():
    found = make("matrix_profile", window=20).fit(TRAIN)
    np.testing.assert_allclose(found.decision_function(5 * TEST - 2), found.decision_function(TEST), rtol=1e-3)


def test_no_window_of_the_profile_spans_two_series():
    parts = [np.linspace(0, 1, 60)[:, None], np.linspace(5, 3, 60)[:, None]]
    seam = np.concatenate([parts[0][-10:], parts[1][:10]])
    found = make("matrix_profile", window=20, calibration=0.0)
    assert found.fit(np.concatenate(parts)).decision_function(seam).max() < 1e-3
    assert found.fit(parts).decision_function(seam).min() > 1
    np.testing.assert_array_equal(found.starts_, [*range(41), *range(60, 101)])


@pytest.mark.parametrize("still", ["neither", "train", "test", "both"])
def test_the_profile_compares_only_windows_that_change_and_counts_them(still):
    train, test = TRAIN.copy(), TEST.copy()
    for name, values in (("train", train), ("test", test)):
        if still in (name, "both"):
            values[:, 1] = 3.0
            values[40:90, 0] = 1.0
    found = make("matrix_profile", window=10, fold="newest", calibration=0.0).fit(train)
    expected = np.mean([slow_profile(train[:, c], test[:, c], 10) for c in range(3)], axis=0)
    np.testing.assert_allclose(found.decision_function(test)[9:], expected, rtol=1e-4, atol=1e-6)
    changing = [[int((np.ptp(views(v, 10)[:, :, c], axis=1) > 0).sum()) for c in range(3)] for v in (train, test)]
    assert found.pairs(test) == int(np.dot(*changing))
    assert found.pairs(test[:5]) == 0


def test_the_profile_stores_the_newest_windows():
    found = make("matrix_profile", window=20, calibration=0.0, max_windows=30).fit(TRAIN)
    np.testing.assert_allclose(found.rows_, found.scaler_(TRAIN[-49:]))
    assert len(found.starts_) == 30


# -- regressions -------------------------------------------------------------------------------------------------------


def errors_of(found, rows: np.ndarray) -> np.ndarray:
    """Return the unscaled errors `(row, channel)` of a regression, from its first full window on."""
    return found._errors(views(found.scaler_(rows), found.window_))


def test_vector_autoregression_equals_that_of_statsmodels():
    from statsmodels.tsa.api import VAR

    train = broken_lead(0)
    found = make("var", window=4, ridge=1e-12, calibration=0.0).fit(train)
    known = found.scaler_(train).astype(float)
    theirs = VAR(known).fit(3, trend="c")
    newest_last = theirs.params[1:].reshape(3, 2, 2)[::-1].reshape(6, 2)
    np.testing.assert_allclose(found.coefficients_, [*newest_last, theirs.params[0]], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(errors_of(found, train), theirs.resid, atol=1e-4)
    assert np.abs(make("var", window=4, calibration=0.0).fit(train).coefficients_ - found.coefficients_).max() < 1e-4


def test_autoregression_equals_that_of_statsmodels():
    from statsmodels.tsa.ar_model import AutoReg

    train = broken_correlation(0)
    found = make("autoregression", window=6, ridge=1e-12, calibration=0.0).fit(train)
    known = found.scaler_(train).astype(float)
    for channel in range(3):
        theirs = AutoReg(known[:, channel], 5).fit()
        expected = [*theirs.params[:0:-1], theirs.params[0]]
        np.testing.assert_allclose(found.coefficients_[channel, :, 0], expected, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(errors_of(found, train)[:, channel], theirs.resid, atol=1e-4)


@pytest.mark.parametrize("name", ["var", "autoregression", "gbrt"])
def test_errors_are_in_units_of_usual_errors_or_of_a_constant_channel(name):
    train = np.concatenate([lost_autocorrelation(0)[:400], np.full((400, 1), 7.0)], axis=1)
    found = make(name, window=4).fit(train)
    known = np.ones(400, dtype=bool)
    known[:3] = False
    for start, stop in found.held_out_:
        known[start : stop + 3] = False  # windows that start in a held-out block are not trained on
    errors = max(found.train_scores_[known].mean(), np.nanmean(found.held_out_scores_))
    assert errors * 2 == pytest.approx(1, rel=0.05)  # two channels, one of which has no errors
    changed = train.copy()
    changed[300, 1] += 3
    rise = found.decision_function(changed)[300] - found.decision_function(train)[300]
    assert rise == pytest.approx(9 / 2, rel=0.02)


def test_few_rows_allow_few_lags():
    found = make("var", window=11).fit(waves(200, 10))
    assert found.coefficients_.shape == (5 * 10 + 1, 10)
    assert np.isfinite(found.decision_function(waves(50, 10, seed=1))).all()


def test_duplicate_channels_do_not_break_the_solution():
    train = np.repeat(lost_autocorrelation(0), 4, axis=1)
    alone, four = (make("var").fit(x) for x in (train[:, :1], train))
    rows = lost_autocorrelation(1)
    np.testing.assert_allclose(
        four.decision_function(np.repeat(rows, 4, axis=1)), alone.decision_function(rows), rtol=1e-2, atol=1e-3
    )


@pytest.mark.parametrize(
    ("name", "wrong"), [("var", {"ridge": 0.0}), ("gbrt", {"window": 1}), ("moving_zscore", {"window": 2})]
)
def test_invalid_parameters_are_rejected(name, wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        make(name, **wrong).fit(TRAIN)
