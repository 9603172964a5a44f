"""A stream gives the verdicts and events of batch, whatever comes and however it is cut."""

from __future__ import annotations

import copy
import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import small, waves

from patchad import InputError, StreamDetector, StreamPool, UnsupportedError, Verdict, load, make
from patchad.streaming import snapshot
from patchad.thresholds.fixed import Fixed

CHANNELS = 3


@pytest.fixture(scope="module")
def detector():
    """A small fitted detector with names; tests must not change it."""
    train = waves(1500)
    train[700:720, 1] = train[700, 1]  # this channel may rest for longer than the others
    return small(max_steps=15, window=20, patch_sizes=(2, 5), hop=5).fit(pd.DataFrame(train, columns=list("abc")))


def changed(detector, **parameters):
    """Return the detector with other parameters; it shares all that is learned."""
    other = copy.copy(detector)
    for name, value in parameters.items():
        setattr(other, name, value)
    return other.set_threshold(other.threshold)


def stirred(seed: int, length: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Draw rows with faults, missing values, silences, frozen and impossible values; and times with gaps, or none."""
    rng = np.random.default_rng(seed)
    rows = waves(length, CHANNELS, seed=seed % 1000)
    for _ in range(rng.integers(0, 6)):
        start, stop = np.sort(rng.integers(0, length, 2))
        stop = min(stop, start + rng.choice([3, 30, 150]))
        channel = rng.integers(CHANNELS)
        rows[start:stop, channel] = rng.choice([rows[start, channel], np.nan, 40.0, rng.normal()])
        if rng.random() < 0.4:
            rows[start:stop] += 2.0
        if rng.random() < 0.2:
            rows[start:stop] = np.nan
    rows[rng.random(rows.shape) < rng.choice([0.0, 0.01])] = np.nan
    if rng.random() < 0.5:
        return rows, None
    steps = rng.choice([60, 60, 60, 61, 3600], size=length, p=[0.3, 0.3, 0.3, 0.095, 0.005])
    return rows, np.datetime64("2026-01-01", "s") + np.cumsum(steps)


def framed(rows: np.ndarray, times: np.ndarray | None) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list("abc"), index=None if times is None else pd.DatetimeIndex(times))


def streamed(live: StreamDetector, rows, times, cuts=(), restore=None) -> tuple[list[Verdict], StreamDetector]:
    """Push all rows in parts that end at these rows, restoring a snapshot at each if told how; then flush."""
    found: list[Verdict] = []
    for a, b in pairwise(sorted({0, *cuts, len(rows)})):
        found += live.push_many(rows[a:b], None if times is None else times[a:b])
        live = live if restore is None else restore(live)
    return [*found, *live.flush()], live


def assert_same(verdicts, expected, atol=1e-4) -> None:
    """Verdicts say what a detection says of its rows, up to the rounding of float32."""
    assert [one.index for one in verdicts] == list(range(len(expected.scores)))
    np.testing.assert_allclose([one.score for one in verdicts], expected.scores, rtol=1e-5, atol=atol)
    np.testing.assert_allclose([one.level for one in verdicts], expected.levels, rtol=1e-5, atol=atol)
    np.testing.assert_array_equal([one.alarm for one in verdicts], expected.alarms)
    shares = np.array([one.contributions for one in verdicts])
    np.testing.assert_allclose(shares, expected.contributions, rtol=1e-3, atol=1e-4)


def assert_same_events(found, expected) -> None:
    exact = ("start", "stop", "start_time", "stop_time", "kind", "repeats", "id", "state")
    assert [[getattr(one, name) for name in exact] for one in found] == [
        [getattr(one, name) for name in exact] for one in expected
    ]
    for one, other in zip(found, expected, strict=True):
        assert one.peak_score == pytest.approx(other.peak_score, rel=1e-5)
        assert one.severity == pytest.approx(other.severity, rel=1e-3)


cases = st.fixed_dictionaries(
    {
        "hop": st.sampled_from([1, 3, 5, 7, 20]),
        "fold": st.sampled_from(["mean", "newest"]),
        "missing": st.sampled_from(["interpolate", "drop"]),
        "threshold": st.sampled_from(["auto", "spot", "dspot", 3.0]),
        "merge_gap": st.sampled_from([None, 0, 4]),
        "min_duration": st.sampled_from([None, 6]),
        "adapt": st.sampled_from([0, 50]),
    }
)


def with_hop(detector, *, hop, fold, adapt, **parameters):
    """Return the detector with another hop and fold, without another fit."""
    other = changed(detector, hop_=hop, fold=fold, **parameters)
    local = other.rule_.scale if fold == "mean" else None
    other.rule_ = replace(other.rule_, adapt=adapt, local_scale=local)
    return other


@settings(max_examples=30)
@given(cases, st.integers(0, 2**31), st.lists(st.integers(1, 399), max_size=4), st.booleans())
def test_a_stream_equals_batch_for_any_hop_fold_gaps_and_cuts(detector, case, seed, cuts, restored):
    other = with_hop(detector, **case)
    rows, times = stirred(seed, 400)
    try:
        expected = other.detect(framed(rows, times))
    except InputError:  # nothing is left by drop
        return

    def restore(live):
        return StreamDetector.restore(other, live.snapshot())

    verdicts, live = streamed(other.stream(), rows, times, cuts, restore if restored else None)
    assert_same(verdicts, expected)
    assert_same_events(live.events, expected.events)


@pytest.mark.parametrize("seed", range(3))
def test_one_row_at_a_time_and_a_snapshot_now_and_then(detector, seed):
    rows, times = stirred(seed, 300)
    expected = detector.detect(framed(rows, times))
    live, found = detector.stream(), []
    for number, row in enumerate(rows):
        found += live.push(row, None if times is None else times[number])
        if number % 37 == 0:
            live = StreamDetector.restore(detector, live.snapshot())
    found += live.flush()
    assert_same(found, expected)
    assert_same_events(live.events, expected.events)


@pytest.mark.parametrize("level", ["quantile:0.4", "quantile:0.1", -5.0])
def test_a_stream_equals_batch_at_a_level_under_the_median_score(detector, level):
    rows, low = waves(300, seed=2), changed(detector, threshold=level)
    rows[100:104, 0] += 4.0
    expected = low.detect(framed(rows, None))
    live = low.stream()
    assert_same([verdict for row in rows for verdict in live.push(row)] + [*live.flush()], expected)
    assert_same_events([one for one in live.events if one.state == "closed"], expected.events)


@pytest.mark.parametrize("missing", ["interpolate", "drop"])
@pytest.mark.parametrize("restored", [False, True])
def test_a_stream_follows_what_was_accepted_and_confirmed(detector, missing, restored):
    rows = waves(700, seed=11)
    rows[200:220, 1] += 3.0
    rows[400:404, 0] = np.nan
    rows[450:470, 1] += 3.0
    rows[600:615, 2] -= 0.5
    other = changed(copy.deepcopy(detector), missing=missing)
    before = other.detect(framed(rows, None))
    other.accept(framed(rows, None), start=195, stop=225).confirm(framed(rows, None), start=600, stop=615)
    expected = other.detect(framed(rows, None))
    assert not np.array_equal(before.alarms, expected.alarms)
    restore = (lambda live: StreamDetector.restore(other, live.snapshot())) if restored else None
    verdicts, live = streamed(other.stream(), rows, None, range(20, 700, 23), restore)
    assert_same(verdicts, expected)
    assert_same_events(live.events, expected.events)
    with pytest.raises(InputError, match="belongs to another model"):
        StreamDetector.restore(detector, live.snapshot())


@pytest.mark.parametrize("known", [{"ignore": ("b",)}, {"direction": "up"}, {"min_change": {"a": 9.0}}])
def test_a_stream_knows_what_the_operator_said(detector, known):
    rows = waves(600, seed=4)
    rows[100:120, 1] += 3.0
    rows[300:320, 0] -= 3.0
    rows[500:520, 2] += 3.0
    other = changed(detector, **known)
    expected = other.detect(framed(rows, None))
    assert expected.events != detector.detect(framed(rows, None)).events

    def restore(live):
        return StreamDetector.restore(other, live.snapshot())

    verdicts, live = streamed(other.stream(), rows, None, range(20, 600, 31), restore)
    assert_same(verdicts, expected)
    assert_same_events(live.events, expected.events)


def test_a_loaded_model_goes_on_with_a_snapshot_of_the_saved_one(detector, tmp_path):
    rows = waves(200, seed=3)
    again = load(detector.save(tmp_path / "model.safetensors"))
    live = detector.stream()
    found = [*live.push_many(rows[:90])]
    live = StreamDetector.restore(again, live.snapshot())
    found += [*live.push_many(rows[90:]), *live.flush()]
    assert_same(found, detector.detect(framed(rows, None)))


# -- rows as they come ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain():
    """A detector that scores every row at once."""
    return make("sensor_range").fit(pd.DataFrame(waves(600), columns=list("abc")))


def test_a_row_is_an_array_a_list_or_a_mapping_in_which_a_name_left_out_is_missing(plain):
    live = plain.stream()
    rows = [
        [0.1, 0.2, 0.3],
        np.array([0.3, 0.1, 0.2]),
        {"c": 0.5, "a": 0.1, "b": 0.2, "more": 9},
        {"a": 0.4, "c": None},
    ]
    found = [verdict for row in rows for verdict in live.push(row)] + list(live.flush())
    frame = pd.DataFrame([[0.1, 0.2, 0.3], [0.3, 0.1, 0.2], [0.1, 0.2, 0.5], [0.4, None, None]], columns=list("abc"))
    assert_same(found, plain.detect(frame))


def test_many_rows_are_an_array_a_frame_or_a_list(plain):
    rows = waves(50, seed=5)
    expected = plain.detect(rows)
    frame = pd.DataFrame(rows[:, ::-1], columns=list("cba"), index=pd.date_range("2026-01-01", periods=50, freq="min"))
    for many in (rows, frame, rows.tolist(), [dict(zip("abc", row, strict=True)) for row in rows]):
        live = plain.stream()
        assert_same([*live.push_many(many), *live.flush()], expected)
    alone = make("sensor_range").fit(rows[:, :1])
    live = alone.stream()
    assert_same([*live.push_many(rows[:, 0].tolist()), *live.flush()], alone.detect(rows[:, :1]))
    live = alone.stream()
    assert_same([*(v for row in rows for v in live.push(float(row[0]))), *live.flush()], alone.detect(rows[:, :1]))
    assert plain.stream().push_many([]) == ()


def test_columns_of_text_are_read_as_in_batch():
    train = pd.DataFrame({"flow": waves(400)[:, 0], "valve": np.where(np.arange(400) // 50 % 2, "open", "shut")})
    plain = make("sensor_range").fit(train)
    rows = train[:60].assign(flow=waves(60, seed=2)[:, 0])
    expected = plain.detect(rows)
    one, many = plain.stream(), plain.stream()
    single = [verdict for row in rows.to_dict("records") for verdict in one.push(row)]
    assert_same([*single, *one.flush()], expected)
    assert_same([*many.push_many(rows), *many.flush()], expected)
    with pytest.raises(InputError, match="no channel of the fit is in the row"):
        one.push({"pump": "on"})


TIMES = pd.date_range("2026-01-01", periods=8, freq="min", tz="Europe/Berlin")


@pytest.mark.parametrize(
    "times",
    [list(TIMES), list(TIMES.to_pydatetime()), [t.isoformat() for t in TIMES], TIMES.tz_convert(None).to_numpy()],
)
def test_times_are_datetimes_or_texts(plain, times):
    live = plain.stream()
    live.push_many(np.full((4, 3), 40.0), times[:4])
    for time in times[4:]:
        live.push([0.0, 0.0, 0.0], time)
    live.flush()
    (event,) = live.events
    if isinstance(times, np.ndarray):
        assert event.start_time == np.datetime64("2025-12-31T23:00:00")
    else:
        assert (event.start_time, event.stop_time) == (TIMES[0], TIMES[3])
        assert event.start_time.isoformat().endswith("+01:00"), "zones are kept"
        assert StreamDetector.restore(plain, live.snapshot()).events == live.events


def test_times_may_be_numbers_or_durations(plain):
    for times in ([0, 60, 120.5], pd.to_timedelta([0, 60, 120], unit="s").to_numpy()):
        live = plain.stream()
        assert len([*live.push_many(waves(3), times), *live.flush()]) == 3
    live = plain.stream()
    live.push([0, 0, 0], pd.Timedelta(3, "s").to_pytimedelta())


@pytest.mark.parametrize(
    ("row", "time", "message"),
    [
        ([1.0, 2.0], 5.0, r"a row has 2 values.*3 are needed \('a', 'b', 'c'\)"),
        ([[1.0, 2.0, 3.0]], 5.0, "a row has 3 values of shape"),
        ({"x": 1.0}, 5.0, "no channel of the fit is in the row; it has 'x'"),
        (["one", 2.0, 3.0], 5.0, "not a number"),
        (object(), 5.0, "a row is <object"),
        ([1.0, np.inf, 3.0], 5.0, r"infinite value .* in row 10, channel 'b'"),
        ([1.0, 2.0, 3.0], 4.0, "time repeats at row 10: 4"),
        ([1.0, 2.0, 3.0], 3.0, "time goes back at row 10: 3"),
        ([1.0, 2.0, 3.0], np.nan, "row 10 has no time"),
        ([1.0, 2.0, 3.0], None, "a row has no time, and those before it had"),
        ([1.0, 2.0, 3.0], "2026-01-01", "of another kind than the one before"),
        ([1.0, 2.0, 3.0], "soon", r"times cannot be read \([^\n]*'?soon'?[^\n]*\); pass datetimes"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_and_leave_the_stream_as_it_was(plain, row, time, message):
    live = plain.stream()
    live.push_many(waves(10), np.linspace(-5, 4, 10))
    before = live.snapshot()
    with pytest.raises(InputError, match=message):
        live.push(row, time)
    assert live.snapshot() == before
    live.push([1.0, 2.0, 3.0], 5.0)


def test_rows_pushed_together_are_taken_all_or_none(plain):
    live = plain.stream()
    with pytest.raises(InputError, match="time goes back at row 2"):
        live.push_many(waves(3), [0.0, 2.0, 1.0])
    with pytest.raises(InputError, match="3 rows have 2 times"):
        live.push_many(waves(3), [0.0, 2.0])
    assert live.outlook() is None
    live.push_many(waves(3))
    with pytest.raises(InputError, match="a row has a time, and those before it had none"):
        live.push([0, 0, 0], 1.0)


def test_a_missing_value_is_refused_where_the_detector_says_so(plain):
    live = changed(plain, missing="error").stream()
    with pytest.raises(InputError, match=r"1 missing value .* in row 0, channel 'b'"):
        live.push({"a": 1.0, "c": 2.0})


# -- what is told on the way ---------------------------------------------------------------------------------------


def test_a_stream_cannot_have_a_ratio(detector):
    with pytest.raises(UnsupportedError, match="needs all scores at once"):
        changed(detector, threshold="ratio:1").stream()


def test_verdicts_of_quiet_rows_wait_for_their_score_only(detector):
    rows = waves(300, seed=4)
    live = changed(detector, threshold=1e9).stream()
    counts = np.cumsum([len(live.push(row)) for row in rows])
    waiting = np.arange(1, 301) - counts
    assert waiting[detector.window_ :].max() == detector.delay
    assert len(live.flush()) == waiting[-1]
    assert live.flush() == ()


def test_the_outlook_is_what_batch_says_of_the_newest_row(detector):
    rows = waves(260, seed=6)
    rows[200:] += 3.0
    live = detector.stream()
    assert live.outlook() is None
    for stop in (1, 15, 20, 23, 200, 203, 260):
        live.push_many(rows[live._stream._preparer.seen : stop])
        seen, now = live.outlook(), detector.detect(framed(rows[:stop], None))
        assert (seen.index, seen.alarm) == (stop - 1, bool(now.alarms[-1]))
        assert seen.score == pytest.approx(now.scores[-1], rel=1e-4)
    found = live.flush()
    assert live.outlook() is found[-1]


def test_events_are_told_at_each_change_of_state(plain):
    live = changed(plain, threshold=1.5).stream()
    told = []
    rows = waves(1200, seed=7)
    rows[300:600] += 3.0
    rows[900:903] += 3.0
    for row in rows:
        live.push(row)
        told += [(event.start, event.state) for event in live.changes()]
    assert told == [(300, "suspected"), (300, "open"), (300, "closed"), (900, "suspected"), (900, "closed")]
    assert live.changes() == ()
    stuck = waves(300, seed=8)
    stuck[100:250, 0] = 9.0
    live = changed(plain, threshold=1.5, merge_gap=60).stream()
    told = [event for row in stuck for _ in [live.push(row)] for event in live.changes()]
    live.flush()
    assert ("anomaly", "withdrawn") in {(event.kind, event.state) for event in told}
    assert [event.kind for event in live.events] == ["stuck"]


def test_after_a_flush_a_new_segment_begins(plain):
    live = plain.stream()
    live.push_many(waves(50), np.arange(50.0))
    live.flush()
    assert [one.index for one in [*live.push_many(waves(10), np.arange(50.0, 60.0)), *live.flush()]] == list(
        range(50, 60)
    )


# -- snapshots -----------------------------------------------------------------------------------------------------


def test_a_snapshot_of_another_model_or_threshold_is_refused(detector, plain):
    live = detector.stream()
    live.push_many(waves(40))
    for other in (plain, changed(detector, threshold=7.0), changed(detector, merge_gap=3)):
        with pytest.raises(InputError, match="belongs to another model"):
            StreamDetector.restore(other, live.snapshot())


def test_what_is_no_snapshot_is_refused(plain):
    whole = plain.stream().snapshot()
    for bad in (b"", b"no", whole[:-1], whole[:50] + b"x" + whole[51:]):
        with pytest.raises(InputError, match="no snapshot of a stream, or it is damaged"):
            StreamDetector.restore(plain, bad)


def test_a_threshold_whose_state_is_not_plain_cannot_be_part_of_a_snapshot(plain):
    class Odd(Fixed):
        def fit(self, calibration):
            self.helper = object()
            return super().fit(calibration)

    live = changed(plain, threshold=Odd(3.0)).stream()
    live.push_many(waves(5))
    with pytest.raises(UnsupportedError, match="object cannot be part of a snapshot"):
        live.snapshot()


def test_a_snapshot_of_another_format_is_refused(plain, monkeypatch):
    monkeypatch.setattr(snapshot, "FORMAT", 3)
    later = plain.stream().snapshot()
    monkeypatch.undo()
    with pytest.raises(InputError, match="has format 3, this version reads 2"):
        StreamDetector.restore(plain, later)


def test_ram_does_not_grow_with_the_rows(plain):
    live = plain.stream()
    rows = waves(20_000, seed=9)
    live.push_many(rows[:2000])
    size = len(live.snapshot())
    tracemalloc.start()
    for start in range(2000, 20_000, 100):
        live.push_many(rows[start : start + 100])
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(live.snapshot()) < size + 2000 + 1000 * len(live.events)
    assert grown < 200_000


def told(events) -> list[tuple[str, int, int, str]]:
    return [(event.kind, event.start, event.stop, event.channels[0][0]) for event in events]


def told_by_stream(detector, rows: np.ndarray) -> list[tuple[str, int, int, str]]:
    stream = detector.stream()
    for row in rows:
        stream.push(row)
    stream.flush()
    return told(stream.events)


def test_what_a_dead_sensor_explains_is_decided_by_what_is_known_in_time():
    rng = np.random.default_rng(0)
    detector = make("sub_knn", window=10).fit(rng.normal(size=(3000, 3)))
    rows = rng.normal(size=(2000, 3))
    rows[500:1100, 1] = 0.3  # a sensor dies at a usual value, another at a strange one, and then a third is faulty
    rows[600:1100, 2] = 6.0
    rows[800:1000, 0] += 12.0
    assert told_by_stream(detector, rows) == told(detector.detect(rows).events)


def test_a_fault_soon_after_a_dead_sensor_is_told():
    rng = np.random.default_rng(0)
    detector = make("sub_knn", window=60).fit(rng.normal(size=(3000, 3)))
    rows = rng.normal(size=(1500, 3))
    rows[500:600, 1] = 5.0
    rows[700:760, 0] += 6.0
    events = detector.detect(rows).events
    assert any(event.kind != "stuck" and event.start < 760 <= event.stop for event in events)
    assert told_by_stream(detector, rows) == told(events)


def test_confirmed_rows_inside_what_a_dead_sensor_explains_are_told():
    rng = np.random.default_rng(0)
    detector = make("sub_knn", window=20).fit(rng.normal(size=(3000, 2)))
    rows = rng.normal(size=(1200, 2))
    rows[500:900, 1] = 5.0
    rows[840:860, 0] = 8 + rng.normal(size=20)
    detector.confirm(rows[840:860])
    events = detector.detect(rows).events
    assert any(event.kind == "anomaly" and event.start < 860 and event.stop > 840 for event in events)
    assert told_by_stream(detector, rows) == told(events)


def test_a_channel_without_a_value_so_far_bears_no_blame():
    rng = np.random.default_rng(0)
    train = pd.DataFrame(rng.normal(size=(1500, 3)), columns=list("abc"))
    detector = make("sub_knn", window=20).fit(train)
    frame = train.iloc[:300].copy()
    frame.iloc[:200, 1] = np.nan
    frame.iloc[100:130, 0] += 9
    frame.iloc[250:280, 1] += 9
    found, stream = detector.detect(frame), detector.stream()
    verdicts = [*stream.push_many(frame), *stream.flush()]
    np.testing.assert_allclose([one.contributions for one in verdicts], found.contributions, atol=1e-6)
    assert found.contributions[:200, 1].max() == 0
    assert found.contributions[250:280, 1].max() > 0


def test_a_row_of_a_frame_is_matched_by_name():
    rng = np.random.default_rng(0)
    train = pd.DataFrame(rng.normal(size=(1500, 3)) * [1, 10, 100], columns=list("abc"))
    detector = make("sub_knn", window=20).fit(train)
    frame = train[["c", "b", "a"]].iloc[:300].assign(extra=1.0)
    stream = detector.stream()
    verdicts = [one for _, row in frame.iterrows() for one in stream.push(row)] + list(stream.flush())
    np.testing.assert_allclose([one.score for one in verdicts], detector.decision_function(frame), rtol=1e-5)


def test_snapshots_of_streams_and_of_pools_are_told_apart():
    detector = make("last_difference").fit(np.random.default_rng(0).normal(size=(500, 2)))
    with pytest.raises(InputError, match="of one stream"):
        StreamPool.restore(detector, detector.stream().snapshot())
    with pytest.raises(InputError, match="of a pool"):
        StreamDetector.restore(detector, StreamPool(detector).snapshot())
