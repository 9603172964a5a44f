from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal, special, stats

from patchad.errors import InputError, UnsupportedError
from patchad.thresholds import (
    DSPOT,
    SPOT,
    Fixed,
    Mad,
    PlainSPOT,
    Promise,
    Quantile,
    Ratio,
    Sigma,
    describe,
    from_description,
    make_threshold,
)
from patchad.thresholds.pareto import cluster_maxima, fit_pareto
from patchad.thresholds.pot import PeaksOverThreshold
from patchad.thresholds.promise import MIN_CLUSTERS, PROMISE_ROWS, parse_rate


@pytest.mark.parametrize("shape", [-0.3, -0.1, 0.0, 0.2, 0.6])
@pytest.mark.parametrize("rows", [60, 2000])
def test_the_pareto_fit_is_as_likely_as_scipys(shape, rows):
    excess = stats.genpareto.rvs(shape, scale=3, size=rows, random_state=int(10 * shape) + rows)
    ours = fit_pareto(excess)
    theirs, _, scale = stats.genpareto.fit(excess, floc=0)
    likelihood = stats.genpareto.logpdf(excess, ours[0], 0, ours[1]).sum()
    assert likelihood >= stats.genpareto.logpdf(excess, theirs, 0, scale).sum() - 1e-5
    assert ours == pytest.approx((theirs, scale), rel=2e-3, abs=2e-3)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_the_pareto_fit_is_finite_for_any_peaks(peaks):
    shape, scale = fit_pareto(np.array(peaks))
    assert np.isfinite(shape)
    assert np.isfinite(scale)
    assert scale > 0


def test_the_level_holds_its_risk_on_normal_scores():
    rng = np.random.default_rng(0)
    shares = [
        (rng.standard_normal(200_000) > PeaksOverThreshold(risk=1e-3).fit(rng.standard_normal(5_000)).level).mean()
        for _ in range(10)
    ]
    assert np.max(shares) < 1e-3, "a margin, so rather under than over"


def test_without_a_margin_the_level_is_where_the_risk_says():
    rng = np.random.default_rng(0)
    rules = [PeaksOverThreshold(risk=1e-3, tail=0.02, margin=1.0).fit(rng.standard_normal(5_000)) for _ in range(10)]
    assert 0.5e-3 < np.mean([(rng.standard_normal(200_000) > rule.level).mean() for rule in rules]) < 1.5e-3


def test_a_rise_that_lasts_counts_once():
    """Each rise is a triangle of 41 rows, most of them low; a fit to all of them takes the tail for light."""
    rng = np.random.default_rng(0)
    heights = rng.exponential(size=50)
    scores = np.concatenate(
        [np.r_[np.zeros(160), height * (1 - np.abs(np.arange(-20, 21)) / 21)] for height in heights]
    )
    rule = PeaksOverThreshold(tail=0.1).fit(scores)
    assert rule.scale == pytest.approx(fit_pareto(heights[heights > rule.start] - rule.start)[1])
    assert rule.level > PeaksOverThreshold(tail=0.1, apart=0).fit(scores).level


def test_a_few_high_peaks_do_not_put_the_level_out_of_reach():
    scores = np.random.default_rng(0).exponential(size=500)
    scores[[50, 150, 250, 350, 450, 480]] = [5.0, 8.0, 30.0, 6.0, 100.0, 12.0]
    assert PeaksOverThreshold().fit(scores).level < 100 * scores.max()


def smooth_scores(rows: int, seed: int) -> np.ndarray:
    """Draw exponentially distributed scores whose correlation falls to a third within 30 rows."""
    noise = np.random.default_rng(seed).standard_normal(rows + 300)
    return -special.log_ndtr(-signal.lfilter([np.sqrt(1 - 0.97**2)], [1, -0.97], noise)[300:])


@pytest.mark.parametrize("promised", [0.5, 1.0, 3.0, 10.0])
def test_fresh_scores_keep_the_promise_without_missing_it_by_far(promised):
    rates = []
    for seed in range(10):
        level = Promise(promised).fit(smooth_scores(20_000, seed)).level
        fresh = smooth_scores(100_000, 100 + seed)
        clusters = len(cluster_maxima(fresh, level, 60)) if fresh.max() > level else 0
        rates.append(clusters * PROMISE_ROWS / len(fresh))
    assert 0.2 * promised <= np.mean(rates) <= 1.15 * promised


@pytest.mark.parametrize("promised", [1.0, 3.0, 10.0])
def test_scores_that_do_not_depend_on_the_rows_before_keep_the_promise(promised):
    rates = []
    for seed in range(5):
        scores = np.random.default_rng(seed).exponential(size=120_000)
        level = Promise(promised).fit(scores[:20_000]).level
        clusters = len(cluster_maxima(scores[20_000:], level, 60)) if scores[20_000:].max() > level else 0
        rates.append(clusters * PROMISE_ROWS / 100_000)
    assert 0 < np.mean(rates) <= promised


def test_the_more_false_alarms_are_allowed_the_lower_the_level():
    scores = smooth_scores(5_000, 0)
    levels = [Promise(promised).fit(scores).level for promised in (0.01, 0.5, 1, 3, 10, 100, 10_000)]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] > scores.max() > levels[-2] >= levels[-1] == pytest.approx(np.quantile(scores, 0.9), rel=2e-2)


def test_the_fewer_rows_were_held_out_the_higher_is_the_level():
    level = Promise().fit(smooth_scores(50_000, 0)).level
    factors = [Promise().fit(smooth_scores(50_000, 0)[:rows]).level / level for rows in (5_000, 1_000, 500, 100)]
    assert factors[1] < factors[2] < factors[3]
    assert factors[0] < 1 < factors[2]


def test_a_level_says_whether_enough_clusters_were_measured():
    often, seldom = np.zeros(5_000), np.zeros(5_000)
    often[100::100] = seldom[1000::1000] = 1.0
    measured, extrapolated = Promise().fit(often), Promise().fit(seldom)
    assert (measured.clusters, measured.basis) == (49, "measured")
    assert (extrapolated.clusters, extrapolated.basis) == (4, "extrapolated")
    assert extrapolated.clusters < MIN_CLUSTERS <= measured.clusters
    assert measured.rows == 5_000


def test_the_level_is_raised_while_what_lies_under_it_is_unlike_what_was_held_out():
    promise = Promise().fit(smooth_scores(20_000, 0))
    usual = promise.level
    calm, louder = smooth_scores(8_000, 1), 2.5 * smooth_scores(8_000, 2)
    levels = promise.levels(np.r_[calm, louder, calm])
    assert (levels[:8_000] == usual).all()
    assert (levels[11_000:16_000] > 1.3 * usual).all()
    assert (levels[19_000:] == usual).all()
    assert promise.level == usual, "the fitted level stays as it is"


def test_what_is_over_the_level_or_has_no_score_or_just_began_raises_no_level():
    promise = Promise().fit(smooth_scores(20_000, 0))
    usual, calm = promise.level, smooth_scores(8_000, 1)
    event = np.where(np.arange(8_000) % 2000 < 1_000, usual + 1, calm)
    assert (promise.levels(event) == usual).all()
    assert (promise.levels(np.full(3_000, np.nan)) == usual).all()
    just_began = np.r_[calm, np.full(240, 0.99 * usual)]
    assert (promise.levels(just_began) == usual).all()


def test_nan_separates_blocks():
    """A rise at the end of one block and another at the start of the next are two, however near they are."""
    rise = np.r_[np.zeros(500), np.full(20, 5.0)]
    assert Promise().fit(np.r_[rise, np.nan, rise[::-1]]).clusters == 2
    assert Promise().fit(np.r_[rise, rise[::-1]]).clusters == 1
    assert Promise().fit(np.r_[rise, np.nan, rise[::-1]]).rows == 2 * len(rise)


@pytest.mark.parametrize("promised", [0, -1, np.nan, np.inf])
def test_a_promise_is_a_positive_number_of_events(promised):
    with pytest.raises(InputError, match="false_alarms"):
        make_threshold("auto", false_alarms=promised)


def test_a_rate_is_read_by_rows_or_by_time():
    minutes = np.arange(1000).astype("datetime64[m]")
    assert parse_rate("1.5", []) == 1.5
    assert parse_rate("2/week", [minutes]) == pytest.approx(2 * PROMISE_ROWS / (7 * 24 * 60))
    assert parse_rate("1/day", [None, minutes.astype("datetime64[ns]")]) == pytest.approx(PROMISE_ROWS / (24 * 60))
    hours = np.arange(10).astype("timedelta64[h]")
    assert parse_rate("1/day", [hours]) == pytest.approx(PROMISE_ROWS / 24)


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "nan", "inf", "2/", "2/fortnight", "/week", "2/week/day"])
def test_a_rate_that_cannot_be_read_is_refused(text):
    with pytest.raises(InputError, match="false alarms"):
        parse_rate(text, [np.arange(10).astype("datetime64[m]")])


@pytest.mark.parametrize("indexes", [[], [None], [np.arange(10.0)], [np.arange(1).astype("datetime64[m]")]])
def test_a_rate_by_time_needs_times(indexes):
    with pytest.raises(InputError, match="need times"):
        parse_rate("2/week", indexes)


def test_each_rule_takes_the_settings_that_are_its_own():
    settings = {"risk": 1e-3, "false_alarms": 3.0, "gap": 7}
    assert make_threshold("auto", **settings) == Promise(3.0, gap=7)
    assert make_threshold("spot", **settings) == SPOT(risk=1e-3)
    assert make_threshold("quantile:0.9", **settings) == Quantile(0.9)


@settings(max_examples=50)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=80), st.sampled_from(["auto", "spot", "dspot", "spot_plain"])
)
def test_a_level_is_finite_for_any_scores(scores, name):
    threshold = make_threshold(name, risk=1e-4, false_alarms=1.0, gap=10).fit(np.array(scores))
    assert np.isfinite(threshold.level)
    assert np.isfinite(threshold.levels(np.array([*scores, np.nan]))).all()


def test_less_risk_means_a_higher_level():
    scores = np.random.default_rng(0).exponential(size=2000)
    levels = [PeaksOverThreshold(risk=risk).fit(scores).level for risk in (0.5, 1e-2, 1e-3, 1e-4, 1e-6)]
    assert levels == sorted(levels)


def test_simple_rules():
    scores = np.array([1.0, 2.0, 3.0, 4.0, 100.0, np.nan])
    assert Quantile(0.75).fit(scores).level == 4
    assert Sigma(2).fit(scores).level == pytest.approx(22 + 2 * np.std([1, 2, 3, 4, 100]))
    assert Mad(3).fit(scores).level == pytest.approx(3 + 3 * 1.4826)
    assert Fixed(7).fit(scores).levels(scores).tolist() == [7.0] * 6


def test_the_ratio_is_the_percentile_of_train_and_test_together():
    rng = np.random.default_rng(0)
    train, test = rng.random(300), rng.random(200)
    threshold = Ratio(5).fit(train)
    np.testing.assert_allclose(threshold.levels(test), np.percentile(np.concatenate([train, test]), 95))
    with pytest.raises(UnsupportedError, match="stream"):
        threshold.step(0.5)


@pytest.mark.parametrize("unfitted", [SPOT(risk=1e-3), DSPOT(risk=1e-3), Promise()])
def test_walking_along_a_stream_equals_the_batch_and_leaves_the_fitted_state(unfitted):
    rng = np.random.default_rng(1)
    threshold = unfitted.fit(rng.standard_normal(1000))
    scores = np.r_[rng.standard_normal(500), 2.5 * np.minimum(rng.standard_normal(1500), 1.0)]
    scores[100] = np.nan
    once, again = threshold.levels(scores), threshold.levels(scores)
    np.testing.assert_array_equal(once, again)
    np.testing.assert_array_equal([threshold.step(score) for score in scores], once)


def test_spot_learns_from_peaks_but_not_from_alarms():
    rng = np.random.default_rng(2)
    threshold = SPOT(risk=1e-3).fit(rng.standard_normal(1000))
    before = threshold.level
    threshold.step(1e6)
    assert threshold.level == before
    for score in np.full(50, before - 1e-6):
        threshold.step(score)
    assert threshold.level > before


def test_plain_spot_is_the_published_one():
    """Step by step as in Siffer et al., algorithms 1 and 2: every excess is a peak, alarms are not learned."""
    rng = np.random.default_rng(5)
    calibration, scores = rng.exponential(size=1000), rng.exponential(size=300)
    scores[100] = 50.0
    start = np.sort(calibration)[-21]
    peaks, seen, levels = list(calibration[calibration > start] - start), 1000, []
    for score in scores:
        shape, scale = fit_pareto(np.array(peaks))
        levels.append(start + scale / shape * ((1e-3 * seen / len(peaks)) ** -shape - 1))
        if score > levels[-1]:
            continue
        seen += 1
        if score > start:
            peaks.append(score - start)
    found = PlainSPOT(risk=1e-3).fit(calibration).levels(scores)
    np.testing.assert_allclose(found, levels, rtol=1e-9)
    assert scores[100] > found[100] == pytest.approx(found[101])
    assert found.mean() < SPOT(risk=1e-3).fit(calibration).levels(scores).mean()


def test_dspot_follows_a_drift_and_still_sees_a_spike_that_spot_has_learned_to_accept():
    rng = np.random.default_rng(3)
    calibration = rng.standard_normal(2000)
    drifting = rng.standard_normal(3000) + np.linspace(0, 15, 3000)
    drifting[2900] = 15 + 9
    dspot, spot = (kind(risk=1e-3).fit(calibration).levels(drifting) for kind in (DSPOT, SPOT))
    assert (drifting > dspot).mean() < 0.01
    assert drifting[2900] > dspot[2900]
    assert drifting[2900] < spot[2900]


@pytest.mark.parametrize("name", ["auto", "spot", "dspot", "spot_plain"])
def test_constant_scores_alarm_on_nothing_but_more(name):
    scores = np.full(100, 2.0)
    level = make_threshold(name).fit(scores).levels(scores)
    np.testing.assert_allclose(level, 2.0)
    assert not (scores > level).any()


@pytest.mark.parametrize(
    "name", ["auto", "spot", "dspot", "spot_plain", "quantile:0.99", "sigma:3", "mad:5", "ratio:1", 2.5, "2.5"]
)
def test_names_make_thresholds_and_descriptions_make_them_again(name):
    threshold = make_threshold(name, risk=1e-3)
    assert from_description(describe(threshold)) == threshold


@pytest.mark.parametrize(
    "name", ["atuo", "quantile", "quantile:2", "quantile:x", "ratio:101", "sigma:", "auto:3", "", "nan:1", None, True]
)
def test_unknown_names_are_refused(name):
    with pytest.raises(InputError, match=r"threshold|between"):
        make_threshold(name, risk=1e-4)


@pytest.mark.parametrize("risk", [0, 1, -1, 2])
def test_risk_is_a_share(risk):
    with pytest.raises(InputError, match="risk"):
        make_threshold("spot", risk=risk)


def test_a_custom_threshold_can_be_used_but_not_saved():
    class Mine(Fixed):
        pass

    assert isinstance(make_threshold(Mine(1.0), risk=1e-4), Mine)
    with pytest.raises(UnsupportedError, match="Mine"):
        describe(Mine(1.0))


def test_no_scores_at_all_are_refused():
    with pytest.raises(InputError, match="got none"):
        Quantile(0.5).fit(np.array([np.nan]))
