"""Events of several series at one time are one incident; what is no more than chance is not called more."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from tests.browser import chromium
from tests.conftest import WATCHED, waves
from tests.fleet.conftest import machine

from patchad import load
from patchad.fleet.incidents import RISK, find_incidents
from patchad.fleet.page import render_fleet
from patchad.fleet.results import Result


def result(series: str, starts, *, rows: int = 1000, channel: str = "flow", **groups: str) -> Result:
    events = [
        {
            "start": int(start),
            "stop": int(start) + 20,
            "start_time": None,
            "stop_time": None,
            "severity": 50.0 + int(start) % 7,
            "id": f"{series}-{start}",
            "channels": [[channel, 0.8], ["other", 0.2]],
        }
        for start in starts
    ]
    return Result(series=series, rows=rows, events=events, groups=groups, outline=(0.2, 1.5))


def test_events_that_begin_together_are_one_incident_with_what_they_share():
    fleet = [
        result("a", [100], site="north", line="1"),
        result("b", [103, 800], site="north", line="2"),
        result("c", [104], site="north", line="2"),
        result("d", [], site="south", line="1"),
    ]
    first, alone = find_incidents(fleet)
    assert set(first.series) == {"a", "b", "c"}
    assert (first.start, first.stop) == (100, 124)
    assert set(first.events) == {("a", "a-100"), ("b", "b-103"), ("c", "c-104")}
    assert first.unlikely
    assert first.shared == {"site": "north"}
    assert first.channels == (("flow", 3),)
    assert (alone.series, alone.unlikely, alone.shared) == (("b",), False, {})


def test_what_all_series_have_in_common_explains_nothing():
    fleet = [result(name, [100], site="north") for name in "abc"]
    assert find_incidents(fleet)[0].shared == {}


def test_times_of_any_kind_are_one_clock():
    def timed(one: Result, first: str, last: str, start: str) -> Result:
        events = [event | {"start_time": start, "stop_time": last} for event in one.events]
        return Result(series=one.series, rows=one.rows, events=events, first_time=first, last_time=last)

    day = "2026-01-01T"
    utc = timed(result("a", [5]), f"{day}00:00+00:00", f"{day}16:39+00:00", f"{day}08:00+00:00")
    there = timed(result("b", [7]), f"{day}01:00+01:00", f"{day}17:39+01:00", f"{day}09:00+01:00")
    found = find_incidents([utc, there, result("c", [6])])
    assert {frozenset(one.series) for one in found} == {frozenset("ab"), frozenset("c")}
    spans = timed(result("d", [5]), "P0DT0H0M0S", "P0DT16H39M0S", "P0DT8H0M0S")
    assert find_incidents([spans])[0].start == "P0DT8H0M0S"
    assert find_incidents([]) == []


@pytest.mark.parametrize(("series", "rate"), [(10, 1.0), (200, 0.2), (200, 1.0), (1000, 0.1)])
def test_independent_events_seldom_make_an_unlikely_incident(series, rate):
    """The promise: at most one run in twenty, without a common cause, has an incident that is called unlikely."""
    random = np.random.default_rng(0)
    runs, wrong = 200 if series < 1000 else 60, 0
    for _ in range(runs):
        counts = random.poisson(rate, series)
        fleet = [result(str(n), random.integers(0, 10_000, count), rows=10_000) for n, count in enumerate(counts)]
        wrong += any(one.unlikely for one in find_incidents(fleet))
    assert wrong <= RISK * runs + 2 * np.sqrt(RISK * runs)


def test_a_common_cause_is_seen_among_independent_events():
    random = np.random.default_rng(1)
    fleet = [
        result(str(n), [*random.integers(0, 10_000, 1), *([5000 + n] if n < 5 else [])], rows=10_000)
        for n in range(100)
    ]
    first = find_incidents(fleet)[0]
    assert first.unlikely
    assert {"0", "1", "2", "3", "4"} <= set(first.series)


# -- what is written --------------------------------------------------------------------------------------------------


def test_incidents_and_a_page_are_written(fleet, tmp_path):
    for number in range(6):
        name, site = f"m{number}<b>", "north" if number % 2 else "south"
        machine(number).assign(site=site).to_csv(tmp_path / f"{name}.csv", index=False)
    assert fleet.detect(tmp_path, "--reports") == 0
    (incident,) = json.loads((fleet.out / "incidents.json").read_text())
    assert set(incident["series"]) == {"m1<b>", "m3<b>", "m5<b>"}
    assert incident["unlikely"]
    assert incident["shared"] == {"site": "north"}
    assert incident["channels"][0] == ["heat", 3]
    page = (fleet.out / "index.html").read_text()
    assert "m1&lt;b&gt;" in page
    assert "<b>" not in page
    assert page.count("<polyline") == 6
    assert 'href="reports/m1%253Cb%253E.html"' in page
    assert {path.name for path in (fleet.out / "reports").iterdir()} == {f"m{n}%3Cb%3E.html" for n in (1, 3, 5)}
    (tmp_path / "m1<b>.csv").unlink()
    assert fleet.detect(tmp_path, "--reports") == 0
    assert not (fleet.out / "reports" / "m1%3Cb%3E.html").exists()


def test_the_page_of_a_large_fleet_is_cut_and_says_so():
    results = [result(f"s{number:04}", [number]) for number in range(2050)] + [Result(series="bad", error="no rows")]
    page = render_fleet(results, find_incidents(results), {}).decode()
    assert "51 more series are in manifest.csv" in page
    assert "1 could not be judged" in page


def test_the_page_counts_one_event_as_one():
    page = render_fleet([result("a", [100]), result("b", [])], [], {}).decode()
    assert "1 event in 1 of 2 series" in page
    assert "0 incidents of several series." in page


def test_false_alarms_of_all_series_together_keep_their_promise(fleet, tmp_path, watched_model, capsys):
    """Fault-free series: together they have as many false events as were allowed for all, or fewer."""
    series, rows, allowed = 20, 2000, 2.0
    for number in range(series):
        frame = pd.DataFrame(waves(rows, seed=100 + number), columns=WATCHED)
        frame.to_parquet(tmp_path / f"{number}.parquet")
    assert fleet.detect(tmp_path, "--fleet-false-alarms", str(allowed)) == 0
    assert len(fleet.events) <= 3  # 0.4 are expected at most; four or more happen once in a thousand runs
    detector = load(fleet.model).set_false_alarms(allowed / series)
    assert fleet.scores("3")["level"].iloc[0] == detector.threshold_.level
    assert fleet.detect(tmp_path, "--fleet-false-alarms", "1", "--false-alarms", "1") == 2
    assert "give one of them" in capsys.readouterr().err


def test_the_page_filters_series_in_a_browser(tmp_path):
    results = [result(f"s{number}", [100] if number < 2 else [], site="ab"[number % 2]) for number in range(4)]
    path = tmp_path / "index.html"
    path.write_bytes(render_fleet(results, find_incidents(results), {}))
    with chromium() as browser:
        page = browser.new_context(offline=True).new_page()
        messages: list[str] = []
        page.on("console", lambda message: messages.append(message.text))
        page.goto(path.as_uri())
        shown = page.locator("#series > li:not([hidden])")
        assert shown.count() == 4
        page.check("#eventful")
        assert shown.count() == 2
        page.fill("#wanted", "SITE B")
        assert [text.split()[0] for text in shown.all_inner_texts()] == ["s1"]
        assert messages == []
        phone = {"viewport": {"width": 320, "height": 700}, "is_mobile": True}
        small = browser.new_context(offline=True, **phone).new_page()
        stations = [result(f"pumping_station_of_the_north_{number}", [100]) for number in range(4)]
        path.write_bytes(render_fleet(stations, find_incidents(stations), {}))
        small.goto(path.as_uri())
        assert small.evaluate("document.documentElement.scrollWidth") <= 320  # the table scrolls, not the page
