"""A state goes on with another model: nothing is lost, nothing is told twice, and a bad model is not used."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.conftest import WATCHED, waves
from tests.live.telling import assert_equals_batch, read

from patchad import make
from patchad.errors import InputError
from patchad.live.config import Alarms, Configuration
from patchad.live.history import Rows
from patchad.live.session import Session
from patchad.live.sinks.registry import make_sink
from patchad.live.sources.registry import make_source
from patchad.live.store import Step, Store
from patchad.live.takeover import frame_of, try_model
from patchad.live.watch import Watch


def fit(seed: int = 0, **parameters):
    return make("moving_zscore", **parameters).fit(pd.DataFrame(waves(600, seed=seed), columns=WATCHED))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Files of models by name."""
    folder = tmp_path_factory.mktemp("models")
    made = {"one": fit(), "same": fit(seed=5), "wide": fit(window=40)}
    for name, model in made.items():
        model.save(folder / name)
    made["bad"] = fit().set_threshold(0.1)
    made["bad"].save(folder / "bad")
    return folder


def swapped(models, tmp_path, watched_json, first: str, second: str, *, cut: int = 180, alarms: Alarms | None = None):
    """Watch with one model; ask for another after some rows."""
    lines = watched_json.splitlines(keepends=True)
    rows, model = tmp_path / "rows", tmp_path / "model"
    rows.write_text("".join(lines[:cut]))
    model.write_bytes((models / first).read_bytes())
    base = Configuration(
        model=str(model),
        state=str(tmp_path / "state"),
        sources=(f"file:{rows}",),
        sinks=(f"file:{tmp_path / 'out'}",),
        log_level="info",
    )
    asked = [0]
    later = [base]

    def reloading() -> bool:
        asked[0] += 1
        if asked[0] == 6:
            model.write_bytes((models / second).read_bytes())
            later.append(replace(base, alarms=alarms or Alarms()))
            with rows.open("a") as file:
                file.writelines(lines[cut:])
            return True
        return False

    session = Session(lambda: later[-1])
    session.run(lambda: asked[0] > 16, reloading)
    with Store(tmp_path / "state") as store:
        verdicts = store.verdicts("pump")
        events = store.events("pump")
    told = read((tmp_path / "out").read_text())
    return session, verdicts, events, told


@pytest.mark.parametrize(("second", "how"), [("same", "is carried over"), ("wide", "begins anew with its newest 180")])
def test_another_model_goes_on_where_the_first_was(models, tmp_path, watched_json, caplog, second, how):
    caplog.set_level("INFO")
    session, verdicts, events, (lines, told) = swapped(models, tmp_path, watched_json, "one", second)
    assert how in caplog.text
    assert "reloaded: " in caplog.text
    assert [one["index"] for one in lines] == list(range(len(lines)))  # each row once, in order
    assert verdicts.index.tolist() == list(range(len(lines)))
    assert session.counts.rows == 300
    seen = [(one["id"], one["state"]) for one in told]
    assert len(set(seen)) == len(seen)
    during = [one for one in told if 110 <= one["start"] < 130]
    assert len({one["id"] for one in during}) == 1  # the event that lasted over the change stayed one
    assert [one["state"] for one in during] == ["suspected", "closed"]
    assert [one["start"] for one in events] == [120, 240]


def test_a_model_that_raises_too_many_events_is_not_used(models, tmp_path, watched_json, watched_batch, caplog):
    _, _, _, (lines, _) = swapped(models, tmp_path, watched_json, "one", "bad")
    assert "the model before stays" in caplog.text
    assert [one["alarm"] for one in lines] == watched_batch.alarms[: len(lines)].tolist()


def test_what_cannot_be_loaded_leaves_all_as_it_was(models, tmp_path, watched_json, watched_batch, caplog):
    (models / "broken").write_bytes(b"nothing")
    _, _, _, (lines, _) = swapped(models, tmp_path, watched_json, "one", "broken")
    assert "nothing was reloaded" in caplog.text
    assert [one["alarm"] for one in lines] == watched_batch.alarms[: len(lines)].tolist()
    assert len(lines) > 180


def test_a_model_that_cannot_take_over_leaves_all_as_it_was(models, tmp_path, watched_json, watched_batch, caplog):
    wide = pd.DataFrame(waves(600, 4), columns=[*WATCHED, "more"])
    make("moving_zscore").fit(wide).set_threshold(1e9).save(models / "more")
    _, _, _, (lines, _) = swapped(models, tmp_path, watched_json, "one", "more")
    assert "nothing was reloaded" in caplog.text
    assert "the model before stays" not in caplog.text
    assert [one["alarm"] for one in lines] == watched_batch.alarms[: len(lines)].tolist()
    assert len(lines) > 180


def test_other_alarm_settings_are_in_force_at_once(models, tmp_path, watched_json):
    _, _, _, (lines, _) = swapped(models, tmp_path, watched_json, "one", "one", alarms=Alarms(threshold=77.0))
    assert (lines[0]["level"] != 77.0, lines[-1]["level"]) == (True, 77.0)


def test_without_a_state_nothing_is_reloaded(models, tmp_path, watched_csv, watched_batch, caplog):
    (tmp_path / "rows").write_text(watched_csv)
    rows = f"file:{tmp_path / 'rows'}?follow=0"
    settings = Configuration(model=str(models / "one"), sources=(rows,), sinks=(f"file:{tmp_path / 'out'}",))
    asked = iter([True] + [False] * 100)
    Session(lambda: settings).run(lambda: False, lambda: next(asked))
    assert_equals_batch((tmp_path / "out").read_text(), watched_batch)
    assert "that needs a state" in caplog.text


def test_standard_input_goes_on_in_the_middle_of_a_line(models, tmp_path, watched_csv, watched_batch, monkeypatch):
    monkeypatch.setattr("patchad.live.sources.stdin.CHUNK", 1000)
    (tmp_path / "rows").write_text(watched_csv)
    settings = Configuration(
        model=str(models / "one"), state=str(tmp_path / "state"), sinks=(f"file:{tmp_path / 'out'}",)
    )
    asked = iter([False, False, True, False, True] + [False] * 100)
    with (tmp_path / "rows").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        Session(lambda: settings).run(lambda: False, lambda: next(asked))
    assert_equals_batch((tmp_path / "out").read_text(), watched_batch)


def test_the_state_stays_the_same(models, tmp_path, watched_csv, caplog):
    (tmp_path / "rows").write_text(watched_csv)
    rows = f"file:{tmp_path / 'rows'}?follow=0"
    states = iter(["a", "b"])

    def settings() -> Configuration:
        return Configuration(model=str(models / "one"), sources=(rows,), state=str(tmp_path / next(states)))

    asked = iter([True] + [False] * 100)
    Session(settings).run(lambda: False, lambda: next(asked))
    assert "the state cannot be another" in caplog.text
    assert not (tmp_path / "b").exists()


def test_a_restart_with_another_model_goes_on_too(models, tmp_path, watched_json):
    """Rows that wait for a verdict and are not kept any more get one without a score."""
    lines = watched_json.splitlines(keepends=True)

    def watch(model, part: list[str], stops) -> None:
        with (tmp_path / "rows").open("a") as file:
            file.writelines(part)
        with Store(tmp_path / "state") as store:
            source, sink = make_source(f"file:{tmp_path / 'rows'}"), make_sink(f"file:{tmp_path / 'out'}")
            Watch(model, [source], [sink], store).run(lambda: next(stops))

    watch(fit(), lines[:180], iter([False] * 4 + [True]))
    with Store(tmp_path / "state") as store:
        (stream,) = store.streams()
        assert len(stream.waiting) > 0
        store._run("DELETE FROM history")
    watch(fit(window=40), lines[180:], iter([False] * 6 + [True]))
    verdicts, _ = read((tmp_path / "out").read_text())
    assert [one["index"] for one in verdicts] == list(range(len(verdicts)))
    assert len(verdicts) > 200
    unknown = [one["index"] for one in verdicts if one["score"] is None]
    assert unknown[-1] == 179


def test_streams_of_a_service_that_went_on_with_another_model(models, tmp_path, watched_json):
    """The state says which model it began with; its streams are another's, and compare rows with what was judged."""
    judged = fit()
    judged.accept(pd.DataFrame(waves(300, seed=2) + 3, columns=WATCHED))
    (tmp_path / "rows").write_text("".join(watched_json.splitlines(keepends=True)[:180]))
    for model, rows in ((judged, 180), (fit(), 0)):
        with Store(tmp_path / "state") as store:
            stops = iter([False] * 4 + [True])
            counts = Watch(model, [make_source(f"file:{tmp_path / 'rows'}")], [], store).run(stops.__next__)
            assert counts.rows == rows
            store.note(model=fit().plan_stream().checksum)  # as if it had begun with that one
            verdicts = store.verdicts("pump")
            assert verdicts.index.tolist() == list(range(len(verdicts)))
            (stream,) = store.streams()
            assert len(verdicts) + len(stream.waiting) == 180


def test_rows_that_another_model_cannot_take(models, tmp_path, watched_json, watched_model):
    with Store(tmp_path / "state") as store:
        (tmp_path / "rows").write_text(watched_json)
        Watch(watched_model, [make_source(f"file:{tmp_path / 'rows'}?follow=0")], [], store).run()
        strict = fit(window=40, missing="error")
        with pytest.raises(InputError, match="missing"):
            Watch(strict, [make_source(f"file:{tmp_path / 'rows'}?follow=0")], [], store).run()


def test_a_trial_counts_what_nobody_was_told_of(watched_model, watched):
    with Store() as store:
        assert try_model(watched_model, store).passed
        values = json.loads(watched.to_json(orient="records"))
        rows = Rows.of(100, watched["time"].tolist(), values, WATCHED)
        store.commit(Step(rows={"pump": rows, "empty": rows}))
        store._run("DELETE FROM history WHERE key = '\"empty\"'")
        found = watched_model.detect(frame_of(rows, watched_model)).events
        trial = try_model(watched_model, store)
        assert (trial.rows, trial.events, trial.bound) == (300, len(found), 0)
        assert trial.alarms == sum(map(len, found))
        assert not trial.passed
        for number, event in enumerate(found):
            fields = event.to_dict() | {"key": "pump", "id": str(number)}
            fields |= {"start": event.start + 100, "stop": event.stop + 100}
            store.commit(Step(events=[fields]))
        assert try_model(watched_model, store).events == 0


def test_frames_of_rows_with_any_times(watched_model):
    def frame(times):
        return frame_of(Rows.of(0, times, [{"flow": 1.0}, {"flow": 2.0}], WATCHED), watched_model)

    assert frame([None, None]).index.tolist() == [0, 1]
    assert frame([1.5, 2.5]).index.tolist() == [1.5, 2.5]
    dates = Rows.of(0, [1767225600000, 1767225660000], [{}, {}], WATCHED, [1767225600.0, 1767225660.0])
    assert frame_of(dates, watched_model).index[1] == pd.Timestamp("2026-01-01T00:01", tz="UTC")
    assert np.isnan(frame([1, 2])["heat"]).all()
