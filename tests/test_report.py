from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from patchad import InputError, PatchAD
from patchad.detection import Detection
from patchad.report import render_page, verdict
from tests.conftest import SMALL, waves


class Balanced(HTMLParser):
    """Check that every element is closed, and collect the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(path) -> Balanced:
    page = Balanced()
    page.feed(path.read_text())
    assert page.open == []
    return page


@pytest.fixture(scope="module")
def odd() -> pd.DataFrame:
    data = waves(400, seed=1)
    data[200:208, 1] += 5
    return pd.DataFrame(
        data, columns=["<a> & co", "flow", "heat"], index=pd.date_range("2024", periods=400, freq="min")
    )


@pytest.fixture(scope="module")
def found(odd) -> Detection:
    return PatchAD(**SMALL).fit(pd.DataFrame(waves(600), columns=odd.columns)).detect(odd)


def test_the_page_is_whole_self_contained_and_says_what_happened(found, odd, tmp_path):
    page = read(found.report(tmp_path / "report.html", odd))
    assert "mostly flow" in page.text
    assert "2024-01-01 03:" in page.text
    text = (tmp_path / "report.html").read_text()
    assert "http" not in text.replace("http-equiv", "")
    assert "<script" not in text


def test_names_are_escaped(found, tmp_path):
    text = found.report(tmp_path / "report.html").read_text()
    assert "<a> &" not in text


def test_nothing_found_is_said_too(tmp_path):
    calm = Detection(np.zeros(5), np.ones(5), np.zeros(5, bool), (), ("a",), None, np.zeros((5, 1)))
    assert verdict(calm) == "Nothing unusual in 5 rows of 1 channel."
    read(calm.report(tmp_path / "calm.html"))


def test_rows_without_a_score_and_single_rows_are_drawn(tmp_path):
    for scores in (np.array([np.nan, 1.0, np.nan]), np.array([np.nan]), np.array([2.0])):
        n = len(scores)
        gaps = Detection(scores, np.ones(n), np.zeros(n, bool), (), ("a",), None, np.zeros((n, 1)))
        read(gaps.report(tmp_path / "gaps.html", np.full(n, 3.0)))


def test_a_channel_without_any_value_is_not_drawn(found, odd, tmp_path):
    read(found.report(tmp_path / "dead.html", odd.assign(flow=np.nan)))


def test_other_data_than_was_analysed_is_refused(found, odd, tmp_path):
    with pytest.raises(InputError, match="pass the data it was made from"):
        found.report(tmp_path / "x.html", odd[:10])
    assert list(tmp_path.iterdir()) == []


def test_a_million_rows_make_a_small_page_and_keep_a_single_spike():
    rows = 1_000_000
    scores = np.zeros(rows)
    scores[123_456] = 5.0
    long = Detection(scores, np.ones(rows), scores > 1, (), ("a",), None, np.zeros((rows, 1)))
    text = render_page([("", long, None)]).decode()
    assert len(text) < 200_000
    heights = [float(point.split(",")[1]) for point in text.split("class='score' points='")[1].split("'")[0].split()]
    assert min(heights) < 10 < max(heights)


def test_several_series_share_a_page(found, tmp_path):
    (tmp_path / "both.html").write_bytes(render_page([("one", found, None), ("two", found, None)]))
    page = read(tmp_path / "both.html")
    assert "one" in page.text
    assert "two" in page.text
