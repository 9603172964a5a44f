"""A new model from stored rows without events."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.conftest import WATCHED, waves

from patchad import load, make
from patchad.cli.main import run
from patchad.errors import InputError
from patchad.live.history import Rows
from patchad.live.records import Records
from patchad.live.refit import refit
from patchad.live.store import Step, Store


def stored(path, values: np.ndarray, events=(), key="pump", columns=WATCHED) -> None:
    times = [str(time) for time in pd.date_range("2026-01-01", periods=len(values), freq="min")]
    rows = [dict(zip(columns, row, strict=True)) for row in values.tolist()]
    fields = {"key": key, "state": "closed"}
    with Store(path) as store:
        told = [fields | {"id": f"{key}{start}", "start": start, "stop": stop} for start, stop in events]
        store.commit(Step(rows={key: Rows.of(0, times, rows, columns)}, events=told))


@pytest.fixture
def state(tmp_path):
    """Two streams of 700 rows, one with a fault that was told of."""
    rows = waves(700, seed=3)
    rows[300:340] += 50.0
    stored(tmp_path / "state", rows, [(300, 340)])
    stored(tmp_path / "state", waves(700, seed=4), key="valve")
    return tmp_path / "state"


def test_rows_of_events_are_left_out(watched_model, state):
    with Records(state) as records:
        made = refit(watched_model, records)
    assert (made.streams, made.pieces, made.rows, made.left_out) == (2, 3, 1400 - 242, 242)  # its window is 101
    assert made.detector.get_params() == watched_model.get_params()
    assert not made.detector.detect(pd.DataFrame(waves(300, seed=9), columns=WATCHED)).events
    assert made.detector.initial_ == pytest.approx(watched_model.initial_, abs=0.3)  # the fault was not learned from


def test_accepted_events_are_learned_and_open_ones_are_not(watched_model, state):
    with Store(state) as store:
        store.remark("pump", "pump300", "accept")
        event = {"key": "pump", "id": "o", "state": "open", "start": 600, "stop": 601}
        store.commit(Step(events=[event, event | {"id": "w", "state": "withdrawn", "start": 100, "stop": 200}]))
    with Records(state) as records:
        made = refit(watched_model, records)
    assert (made.pieces, made.left_out) == (2, 201)


def test_what_was_accepted_stays_known(state):
    train = pd.DataFrame(waves(600), columns=WATCHED)
    detector = make("sub_pca", window=20).fit(train)
    strange = train.iloc[:300].copy()
    strange.iloc[100:140, 1] += np.linspace(0, 6, 40)
    assert detector.detect(strange).events
    detector.accept(strange, start=90, stop=160)
    assert not detector.detect(strange).events
    with Records(state) as records:
        made = refit(detector, records).detector
    assert [str(one) for one in made.feedback_] == [str(one) for one in detector.feedback_]
    old, new = detector.likeness_, made.likeness_
    before, after = (one.feedback_[0].patterns[0].values for one in (detector, made))
    np.testing.assert_allclose(after * new.spread + new.centre, before * old.spread + old.centre, atol=1e-3)
    assert not made.detect(strange).events
    made.feedback_ = ()
    assert made.detect(strange).events


def test_feedback_of_other_channels_is_not_kept(state, watched_model, caplog):
    detector = make("moving_zscore").fit(pd.DataFrame(waves(600), columns=WATCHED))
    detector.accept(pd.DataFrame(waves(100), columns=WATCHED))
    detector.channels_ = ("other",)
    from patchad.live.refit import _kept_feedback

    assert _kept_feedback(detector, watched_model) == ()
    assert "is not kept" in caplog.text


def test_too_few_rows(watched_model, tmp_path):
    stored(tmp_path / "state", waves(150))
    with (
        Records(tmp_path / "state") as records,
        pytest.raises(InputError, match=r"150 rows are stored.* 253 are needed"),
    ):
        refit(watched_model, records)
    stored(tmp_path / "other", waves(300), [(0, 300)])
    with Records(tmp_path / "other") as records, pytest.raises(InputError, match=r"the longest piece .* has 0"):
        refit(watched_model, records)


def test_a_model_without_names(tmp_path):
    stored(tmp_path / "state", waves(400), columns=["channel_0", "channel_1", "channel_2"])
    detector = make("moving_zscore").fit(waves(300))
    with Records(tmp_path / "state") as records:
        assert refit(detector, records).detector.channels_ == ("channel_0", "channel_1", "channel_2")


def test_the_command(watched_file, state, tmp_path, capsys):
    new = tmp_path / "new.safetensors"
    assert run(["refit", str(watched_file), "--state", str(state), "-o", str(new)]) == 0
    assert "1,158 rows of 2 streams in 3 pieces, 242 in and around events left out" in capsys.readouterr().err
    assert load(new).channels_ == tuple(WATCHED)
    assert run(["refit", str(watched_file), "--state", str(tmp_path / "none"), "-o", str(new)]) == 2
    assert "there is no state" in capsys.readouterr().err
    for taken in (state, watched_file):
        before = taken.read_bytes()
        assert run(["refit", str(watched_file), "--state", str(state), "-o", str(taken)]) == 2
        assert "also an input" in capsys.readouterr().err
        assert taken.read_bytes() == before
