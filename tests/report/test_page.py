from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from jinja2 import ChoiceLoader, DictLoader, UndefinedError
from tests.conftest import SMALL, waves

from patchad import InputError, PatchAD
from patchad.data.table import Table
from patchad.report.lanes import BLANK, HEIGHT_STEPS, SHARE_STEPS
from patchad.report.page import TEMPLATES, Chapter, render_page
from patchad.report.panels import PANELS
from patchad.report.section import Axis
from patchad.report.wording import moment
from patchad.results.detection import Detection, Event

HOSTILE = "</script><script>alert(1)</script><a href='x'> & \"co\""


class PageParser(HTMLParser):
    """Check that every element is closed, and collect text, scripts, the policy and every URL that would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.scripts: list[str] = []
        self.code: list[str] = []
        self.policy = ""
        self.loads: list[str] = []
        self.data: list[dict] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br", "wbr"):
            self.open.append(tag)
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = dict(attrs)["content"]
        if tag == "script":
            self.scripts.append(dict(attrs).get("type", "code"))
        self.loads += [value for name, value in attrs if name in ("src", "srcset", "data", "poster")]
        self.loads += [value for name, value in attrs if name == "href" and not value.startswith("#")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" not in self.open and "style" not in self.open:
            self.text += data
        elif self.open[-1] == "script" and self.scripts[-1] == "application/json":
            self.data.append(json.loads(data))
        elif self.open[-1] == "script":
            self.code.append(data)


def parse(content: bytes) -> PageParser:
    page = PageParser()
    page.feed(content.decode())
    page.close()
    assert page.open == []
    return page


def unpack(packed: str, dtype: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), dtype)


def quiet(rows: int = 5, **changes) -> Detection:
    given = {
        "scores": np.zeros(rows),
        "levels": np.ones(rows),
        "alarms": np.zeros(rows, bool),
        "events": (),
        "channels": ("a",),
        "index": None,
        "contributions": np.zeros((rows, 1)),
    }
    return Detection(**(given | changes))


@pytest.fixture(scope="module")
def faulty() -> pd.DataFrame:
    data = waves(400, seed=1)
    data[200:208, 1] += 5
    return pd.DataFrame(data, columns=[HOSTILE, "flow", "heat"], index=pd.date_range("2024", periods=400, freq="min"))


@pytest.fixture(scope="module")
def found(faulty) -> Detection:
    return PatchAD(**SMALL).fit(pd.DataFrame(waves(600), columns=faulty.columns)).detect(faulty)


@pytest.fixture(scope="module")
def page(found, tmp_path_factory) -> PageParser:
    labels = np.zeros(400, int)
    labels[200:208] = labels[300:310] = 1
    return parse(found.report(tmp_path_factory.mktemp("page") / "report.html", labels).read_bytes())


def test_the_page_is_well_formed_and_reports_what_happened(page, found):
    assert "mostly\nflow." in page.text
    assert "2024-01-01 03:" in page.text
    assert "nothing was filled, dropped or left out" in page.text
    assert page.text.count("Show in the timeline") == len(found.events)


def test_the_page_loads_nothing_and_has_only_its_own_scripts(page):
    assert page.loads == []
    assert page.scripts == ["application/json", "code", "code"]


def test_the_policy_admits_the_scripts_of_the_page_by_hash_and_nothing_else(page):
    hashes = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in page.code]
    rules = dict(rule.split(" ", 1) for rule in page.policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == " ".join(f"'sha256-{value}'" for value in hashes)
    assert set(rules) == {"default-src", "script-src", "style-src", "img-src", "font-src"}


def test_every_template_belongs_to_the_page_or_to_a_panel():
    templates = TEMPLATES.list_templates(extensions=["html"])
    assert sorted(templates) == sorted(["page.html", "contents.html", "macros.html", *(name for name, _ in PANELS)])


def test_a_new_panel_is_a_template_and_a_function(monkeypatch):
    sources = {"mean.html": "<p>mean of {{ section.name }}: {{ panel.mean }} {{ panel.unit }}</p>"}
    both = ChoiceLoader([TEMPLATES.loader, DictLoader(sources)])
    monkeypatch.setattr(TEMPLATES, "loader", both)
    panel = ("mean.html", lambda section: {"mean": float(section.axis.positions.mean()), "unit": "<b>"})
    monkeypatch.setattr("patchad.report.page.PANELS", (*PANELS, panel, ("absent.html", lambda section: None)))
    assert "mean of x: 2.0 <b>" in parse(render_page([Chapter("x", quiet())])).text


def test_templates_reject_unknown_names():
    with pytest.raises(UndefinedError, match="typo"):
        TEMPLATES.from_string("{{ panel.typo }}").render(panel={})


def test_names_are_escaped(page, found):
    assert HOSTILE in page.text, "as text"
    assert HOSTILE in [curve["name"] for curve in page.data[0]["cards"][0]["curves"]], "and as data"
    assert page.scripts.count("code") == 2
    content = render_page([Chapter(HOSTILE, found)], HOSTILE).decode()
    assert content.count("<script>alert(1)") == 0


def test_labels_add_hits_misses_and_metrics_beside_those_of_random_scores(page):
    assert "1 of 2 labelled anomalies found, 1 missed" in page.text
    assert "Missed: 2024-01-01 05:00, 10 rows" in " ".join(page.text.split())
    assert "random scores" in page.text
    assert "vus_pr_opt" in page.text
    assert len(unpack(page.data[0]["labels"], "<f8")) == 4


@pytest.mark.parametrize(
    ("labels", "match"), [([0, 1], "one label per row"), (["x"] * 400, "0 and 1"), ([2] * 400, "0 and 1")]
)
def test_invalid_labels_are_rejected_and_nothing_is_written(found, tmp_path, labels, match):
    with pytest.raises(InputError, match=match):
        found.report(tmp_path / "x.html", labels)
    assert list(tmp_path.iterdir()) == []


def test_metrics_are_undefined_if_all_labels_are_equal(found):
    page = parse(render_page([Chapter.of("", found, np.zeros(400))]))
    assert "the metrics are undefined" in page.text


def test_a_card_has_observed_and_expected_values(page, found, faulty):
    card = page.data[0]["cards"][0]
    curve = card["curves"][0]
    assert curve["name"] == "flow"
    observed, expected = (unpack(curve[name], "<f8") for name in ("observed", "expected"))
    reach = unpack(curve["reach"], "<f8")
    minutes = (unpack(card["x"], "<f8") / 60_000).astype(int) - 28_401_120
    assert np.array_equal(observed, faulty["flow"].to_numpy()[minutes])
    inside = (minutes >= 200) & (minutes < 208)
    assert (np.abs(observed - expected) > reach)[inside].all(), "the fault is outside the band"
    assert (np.abs(observed - expected) <= reach)[~inside].mean() > 0.5


def test_rows_without_a_score_and_single_rows_are_drawn():
    for scores in (np.array([np.nan, 1.0, np.nan]), np.array([np.nan]), np.array([2.0])):
        page = parse(render_page([Chapter("", quiet(len(scores), scores=scores))]))
        assert np.array_equal(unpack(page.data[0]["score"], "<f4"), scores[np.isfinite(scores)])


def test_a_page_without_events_says_so():
    page = parse(render_page([Chapter("", quiet())]))
    assert "Nothing unusual in 5 rows of 1 channel." in page.text
    assert "Events, most severe first" not in page.text


def test_a_detection_without_data_or_attribution_still_has_a_page(found):
    page = parse(render_page([Chapter("", replace(found, observed=None, expected=()))]))
    assert page.data[0]["cards"][0] is None
    event = Event(1, 3, 2, 5.0, 80.0, ())
    unattributed = quiet(scores=np.array([0, 5, 5, 0, 0.0]), alarms=np.array([0, 1, 1, 0, 0], bool), events=(event,))
    assert "no single channel" in parse(render_page([Chapter("", unattributed)])).text


@pytest.mark.parametrize(
    ("index", "kind", "text"),
    [
        (np.arange(5) * np.timedelta64(90, "s"), "seconds", "1 min 30 s between rows"),
        (np.arange(5) * 0.5, "number", "0 to 2, usually 0.5 between rows"),
        (None, "row", "5 rows"),
    ],
)
def test_every_kind_of_index_has_its_axis(index, kind, text):
    page = parse(render_page([Chapter("", quiet(index=index))]))
    assert page.data[0]["axis"] == kind
    assert text in page.text


def test_the_page_knows_the_time_zone_and_its_offsets():
    index = pd.date_range("2024-03-31", periods=5, freq="h", tz="Europe/Berlin")  # the clock changes before the third
    drawn = parse(render_page([Chapter("", quiet(index=index))])).data[0]
    assert (drawn["axis"], drawn["zone"]) == ("date", "Europe/Berlin")
    assert drawn["offsets"] == [[index[0].timestamp() * 1e3, 60], [index[2].timestamp() * 1e3, 120]]
    assert unpack(drawn["x"], "<f8").tolist() == [time.timestamp() * 1e3 for time in index]
    plain = parse(render_page([Chapter("", quiet(index=index.tz_localize(None).to_numpy()))])).data[0]
    assert (plain["zone"], plain["offsets"]) == (None, [])


def test_a_page_of_a_million_rows_is_small_and_keeps_a_single_spike():
    rows = 1_000_000
    scores = np.random.default_rng(0).random(rows)
    scores[123_456] = 5.0
    content = render_page([Chapter("", quiet(rows, scores=scores, levels=np.full(rows, 2.0)))])
    assert len(content) < 6_000_000, "most of it is plotly"
    drawn = parse(content).data[0]
    x, y = unpack(drawn["x"], "<f8"), unpack(drawn["score"], "<f4")
    assert len(x) <= 20_002
    assert x[y.argmax()] == 123_456
    assert y.max() == 5.0


def test_of_thousands_of_events_the_most_severe_are_listed_and_all_are_shaded():
    rows = 60_000
    alarms = np.arange(rows) % 2 == 1
    events = tuple(Event(i, i + 1, i, 2.0, i / rows * 90, (("a", 1.0),)) for i in range(1, rows, 2))
    busy = quiet(rows, scores=alarms * 2.0, alarms=alarms, events=events, contributions=np.ones((rows, 1)))
    page = parse(render_page([Chapter("", busy)]))
    assert len(page.data[0]["events"]) == 300
    assert "29,700 less severe events" in page.text
    bands = unpack(page.data[0]["bands"], "<f8").reshape(-1, 2)
    assert len(bands) <= 20_000
    assert (bands[0][0] <= 1) & (bands[-1][1] >= rows - 1)


def test_gaps_break_the_line():
    index = np.concatenate([np.arange(50), np.arange(500, 550)]).astype("datetime64[s]")
    drawn = parse(render_page([Chapter("", quiet(100, index=index))])).data[0]
    x, y = unpack(drawn["x"], "<f8"), unpack(drawn["score"], "<f4")
    assert np.isnan(y).sum() == 1
    assert 49_000 < x[np.isnan(y)][0] < 500_000


def test_several_series_share_a_page_with_contents(found):
    page = parse(render_page([Chapter("one", found), Chapter("two", found)]))
    assert page.text.count("mostly\nflow.") == 4, "each in the contents and in its chapter"
    assert "one:" in page.text, "a colon that could stand at the start of a line looks lost there"
    assert len(page.data) == 2


def test_hidden_characters_in_names_are_written_out():
    event = Event(1, 3, 2, 5.0, 80.0, (("pump\u202e1\x1b[2J", 1.0),))
    found = quiet(events=(event,), channels=("pump\u202e1\x1b[2J",), observed=Table(np.ones((5, 1))), notes=("\x07",))
    content = render_page([Chapter("a\u2066b", found)], "t\x9b").decode()
    assert not any(one in content.split("<script>")[0] for one in "\u202e\x1b\u2066\x9b\x07")
    page = parse(content.encode())
    assert r"pump\u202e1\x1b[2J" in page.text
    assert r"a\u2066b" in page.text
    assert page.data[0]["lanes"][0]["name"] == page.data[0]["cards"][0]["curves"][0]["name"] == r"pump\u202e1\x1b[2J"


def broken(kind: str = "anomaly", **changes) -> Detection:
    """Return a detection of 100 rows, four channels, and an event in rows 40 to 59 that the channel `c` leads."""
    shares = np.full((100, 4), 0.0)
    shares[40:60] = [0.4, 0.1, 0.5, 0.0]
    event = Event(40, 60, 50, 5.0, 80.0, (("c", 0.5), ("a", 0.4), ("b", 0.1), ("d", 0.0)), kind=kind)
    alarms = (np.arange(100) >= 40) & (np.arange(100) < 60)
    given = {
        "scores": alarms * 5.0,
        "alarms": alarms,
        "events": (event,),
        "channels": tuple("abcd"),
        "contributions": shares,
        "observed": Table(np.tile(np.sin(np.arange(100.0))[:, None], 4), tuple("abcd")),
    }
    return quiet(100, **(given | changes))


def shares_of(detection: Detection) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the lanes, their shares `(slice, lane)` in the first event, and the largest share of each slice."""
    data = parse(render_page([Chapter("", detection)])).data[0]
    event = data["events"][0]
    shares = unpack(event["shares"], "u1").reshape(event["slices"], -1) / SHARE_STEPS
    return [lane["name"] for lane in data["lanes"]], shares, unpack(event["largest"], "u1") / SHARE_STEPS


def test_only_channels_that_lead_an_event_have_a_lane():
    names, shares, largest = shares_of(broken())
    assert names == ["c"]
    assert (shares[:, 0] == largest).all()
    lead = replace(broken().events[0], start=70, stop=71, peak=70, channels=(("a", 1.0),), severity=10.0)
    assert shares_of(broken(events=(*broken().events, lead)))[0] == ["c", "a"], "the most severe event first"


@pytest.mark.parametrize("kind", ["stuck", "missing", "range"])
def test_the_sensor_that_a_rule_found_is_to_blame_whatever_the_scores_say(kind):
    event = replace(broken().events[0], kind=kind, channels=(("d", 1.0),))
    names, shares, largest = shares_of(broken(events=(event,)))
    assert names == ["d"]
    assert (shares == 1).all()
    assert (largest == 1).all()


def test_rows_without_an_alarm_have_the_blame_of_their_event():
    _, shares, _ = shares_of(broken("regime", alarms=np.zeros(100, bool)))
    assert (shares == 0.5).all()


def test_a_series_without_events_shows_its_first_channels():
    data = parse(render_page([Chapter("", broken(events=()))])).data[0]
    assert [lane["name"] for lane in data["lanes"]] == list("abcd")


@pytest.mark.parametrize("values", [np.full(100, 3.0), np.full(100, 1.7e308), np.r_[np.full(99, 1e-300), 1e308]])
def test_a_lane_holds_any_number(values):
    lane = parse(render_page([Chapter("", broken(observed=Table(np.tile(values[:, None], 4))))])).data[0]["lanes"][0]
    heights = unpack(lane["heights"], "u1")
    assert heights.max() <= HEIGHT_STEPS
    assert heights[0] <= HEIGHT_STEPS / 2


def test_a_lane_breaks_where_values_are_missing_and_is_empty_without_any():
    values = np.random.default_rng(0).random((100, 4))
    values[40:60, 2] = np.nan
    (lane,) = parse(render_page([Chapter("", broken(observed=Table(values)))])).data[0]["lanes"]
    assert (unpack(lane["heights"], "u1") == BLANK).sum() == 1
    values[:, 2] = np.nan
    (lane,) = parse(render_page([Chapter("", broken(observed=Table(values)))])).data[0]["lanes"]
    assert lane == {"name": "c"}


def test_a_card_draws_the_channels_that_the_data_has():
    given = broken(observed=Table(np.ones((100, 3)), tuple("abd")))
    (card,) = parse(render_page([Chapter("", given)])).data[0]["cards"]
    assert [curve["name"] for curve in card["curves"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("kind", "told"),
    [("stuck", "does not change"), ("missing", "no values"), ("range", "out of range"), ("regime", "new regime")],
)
def test_kinds_and_repeats_are_told(kind, told):
    event = replace(broken().events[0], kind=kind, repeats=3)
    text = " ".join(parse(render_page([Chapter("", broken(events=(event,)))])).text.split())
    assert told in text
    assert "and 3 repeats" in text
    assert "3 events like this followed; they are counted here" in text


def test_a_card_names_only_channels_with_much_of_the_blame():
    text = " ".join(parse(render_page([Chapter("", broken())])).text.split())
    assert "c 50%, a 40% From" in text


def test_huge_scores_are_drawn():
    page = parse(render_page([Chapter("", quiet(scores=np.array([0, 1e300, 0, 0, 0])))]))
    assert np.isfinite(unpack(page.data[0]["score"], "<f4")).all()


@pytest.mark.parametrize(
    ("minutes", "one", "told"),
    [
        (True, True, "2024-03-31 13:20"),
        (True, False, "2024-03-31 13:20+02:00"),
        (False, True, "2024-03-31 13:20:00"),
        (False, False, "2024-03-31 13:20:00+02:00"),
    ],
)
def test_a_moment_leaves_out_what_all_rows_share(monkeypatch, minutes, one, told):
    monkeypatch.setattr("patchad.report.wording.time_text", lambda time: time)
    assert moment("2024-03-31T13:20:00+02:00", 0, whole_minutes=minutes, one_offset=one) == told


def test_the_page_tells_the_time_zone(monkeypatch):
    index = np.arange(5).astype("datetime64[m]")
    zoned = replace(Axis.of(index, 5), zone="Asia/Kolkata", offsets=((0.0, 330),))
    monkeypatch.setattr(Axis, "of", lambda *_: zoned)
    page = parse(render_page([Chapter("", quiet(index=index))]))
    assert "time zone Asia/Kolkata (UTC+05:30)" in page.text
    assert page.data[0]["offsets"] == [[0.0, 330]]
