from __future__ import annotations

import base64
import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from tests.conftest import SMALL, waves

from patchad import InputError, PatchAD
from patchad.report.page import Chapter, render_page
from patchad.report.wording import headline
from patchad.results.detection import Detection, Event

HOSTILE = "</script><script>alert(1)</script><a href='x'> & \"co\""


class Balanced(HTMLParser):
    """Check that every element is closed, and collect the text, the scripts and what else the page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.scripts: list[str] = []
        self.loads: list[str] = []
        self.data: list[dict] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if tag == "script":
            self.scripts.append(dict(attrs).get("type", "code"))
        self.loads += [value for name, value in attrs if name in ("src", "srcset", "data", "poster")]
        self.loads += [value for name, value in attrs if name == "href" and not value.startswith("#")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" not in self.open and "style" not in self.open:
            self.text += data
        elif self.scripts and self.scripts[-1] == "application/json" and self.open[-1] == "script":
            self.data.append(json.loads(data))


def read(content: bytes) -> Balanced:
    page = Balanced()
    page.feed(content.decode())
    assert page.open == []
    return page


def unpack(packed: str, dtype: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), dtype)


def calm(rows: int = 5, **changes) -> Detection:
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
def odd() -> pd.DataFrame:
    data = waves(400, seed=1)
    data[200:208, 1] += 5
    return pd.DataFrame(data, columns=[HOSTILE, "flow", "heat"], index=pd.date_range("2024", periods=400, freq="min"))


@pytest.fixture(scope="module")
def found(odd) -> Detection:
    return PatchAD(**SMALL).fit(pd.DataFrame(waves(600), columns=odd.columns)).detect(odd)


@pytest.fixture(scope="module")
def page(found, tmp_path_factory) -> Balanced:
    labels = np.zeros(400, int)
    labels[200:208] = labels[300:310] = 1
    return read(found.report(tmp_path_factory.mktemp("page") / "report.html", labels).read_bytes())


def test_the_page_is_whole_and_says_what_happened(page, found):
    assert "mostly flow" in page.text
    assert "2024-01-01 03:" in page.text
    assert "nothing was filled, dropped or left out" in page.text
    assert page.text.count("Show in the timeline") == len(found.events)


def test_the_page_asks_the_network_for_nothing_and_runs_only_its_own_scripts(page):
    assert page.loads == []
    assert page.scripts == ["application/json", "code", "code"]


def test_names_are_escaped(page, found):
    assert HOSTILE in page.text, "as text"
    assert HOSTILE in page.data[0]["lanes"], "and as data"
    assert page.scripts.count("code") == 2
    content = render_page([Chapter(HOSTILE, found)], HOSTILE).decode()
    assert content.count("<script>alert(1)") == 0


def test_labels_add_hits_misses_and_metrics_beside_random_ones(page):
    assert "1 of 2 labelled anomalies found, 1 missed" in page.text
    assert "Missed: 2024-01-01 05:00:00, 10 rows" in " ".join(page.text.split())
    assert "random scores" in page.text
    assert "vus_pr_opt" in page.text
    assert len(unpack(page.data[0]["labels"], "<f8")) == 4


@pytest.mark.parametrize(
    ("labels", "match"), [([0, 1], "one label per row"), (["x"] * 400, "0 and 1"), ([2] * 400, "0 and 1")]
)
def test_wrong_labels_are_refused_and_nothing_is_written(found, tmp_path, labels, match):
    with pytest.raises(InputError, match=match):
        found.report(tmp_path / "x.html", labels)
    assert list(tmp_path.iterdir()) == []


def test_labels_of_one_kind_give_no_metrics(found):
    page = read(render_page([Chapter.of("", found, np.zeros(400))]))
    assert "the metrics have no value" in page.text


def test_a_card_holds_what_was_observed_and_what_was_expected(page, found, odd):
    card = page.data[0]["cards"][0]
    curve = card["curves"][0]
    assert curve["name"] == "flow"
    seen, expected, reach = (
        unpack(curve[k], t) for k, t in (("observed", "<f8"), ("expected", "<f8"), ("reach", "<f4"))
    )
    minutes = (unpack(curve["x"], "<f8") / 60_000).astype(int) - 28_401_120
    assert np.array_equal(seen, odd["flow"].to_numpy()[minutes])
    inside = (minutes >= 200) & (minutes < 208)
    assert (np.abs(seen - expected) > reach)[inside].all(), "the fault is outside the band"
    assert (np.abs(seen - expected) <= reach)[~inside].mean() > 0.5


def test_rows_without_a_score_and_single_rows_are_drawn():
    for scores in (np.array([np.nan, 1.0, np.nan]), np.array([np.nan]), np.array([2.0])):
        page = read(render_page([Chapter("", calm(len(scores), scores=scores))]))
        assert np.array_equal(unpack(page.data[0]["score"], "<f4"), scores[np.isfinite(scores)])


def test_nothing_found_is_said_too():
    assert headline(calm()) == "Nothing unusual in 5 rows of 1 channel."
    page = read(render_page([Chapter("", calm())]))
    assert "Events, most severe first" not in page.text


def test_a_detection_without_data_or_blame_still_makes_a_page(found):
    page = read(render_page([Chapter("", replace(found, observed=None, expected=()))]))
    assert page.data[0]["cards"][0] is None
    event = Event(1, 3, 2, 5.0, 80.0, ())
    blameless = calm(scores=np.array([0, 5, 5, 0, 0.0]), alarms=np.array([0, 1, 1, 0, 0], bool), events=(event,))
    assert "no single channel" in read(render_page([Chapter("", blameless)])).text


@pytest.mark.parametrize(
    ("index", "kind", "text"),
    [
        (np.arange(5) * np.timedelta64(90, "s"), "seconds", "1 min 30 s between rows"),
        (np.arange(5) * 0.5, "number", "0 to 2, usually 0.5 between rows"),
        (None, "row", "5 rows"),
    ],
)
def test_every_kind_of_index_is_an_axis(index, kind, text):
    page = read(render_page([Chapter("", calm(index=index))]))
    assert page.data[0]["axis"] == kind
    assert text in page.text


def test_a_million_rows_make_a_small_page_and_keep_a_single_spike():
    rows = 1_000_000
    scores = np.random.default_rng(0).random(rows)
    scores[123_456] = 5.0
    content = render_page([Chapter("", calm(rows, scores=scores, levels=np.full(rows, 2.0)))])
    assert len(content) < 6_000_000, "most of it is plotly"
    drawn = read(content).data[0]
    x, y = unpack(drawn["x"], "<f8"), unpack(drawn["score"], "<f4")
    assert len(x) <= 20_002
    assert x[y.argmax()] == 123_456
    assert y.max() == 5.0


def test_thousands_of_events_are_listed_up_to_a_bound_and_all_shaded():
    rows = 60_000
    alarms = np.arange(rows) % 2 == 1
    events = tuple(Event(i, i + 1, i, 2.0, i / rows * 90, (("a", 1.0),)) for i in range(1, rows, 2))
    busy = calm(rows, scores=alarms * 2.0, alarms=alarms, events=events, contributions=np.ones((rows, 1)))
    page = read(render_page([Chapter("", busy)]))
    assert len(page.data[0]["events"]) == 300
    assert "29,700 less severe events" in page.text
    bands = unpack(page.data[0]["bands"], "<f8").reshape(-1, 2)
    assert len(bands) <= 20_000
    assert (bands[0][0] <= 1) & (bands[-1][1] >= rows - 1)


def test_gaps_break_the_line():
    index = np.concatenate([np.arange(50), np.arange(500, 550)]).astype("datetime64[s]")
    drawn = read(render_page([Chapter("", calm(100, index=index))])).data[0]
    x, y = unpack(drawn["x"], "<f8"), unpack(drawn["score"], "<f4")
    assert np.isnan(y).sum() == 1
    assert 49_000 < x[np.isnan(y)][0] < 500_000


def test_several_series_share_a_page(found):
    page = read(render_page([Chapter("one", found), Chapter("two", found)]))
    assert page.text.count("mostly flow") == 4, "in the contents and in its chapter, each"
    assert len(page.data) == 2
