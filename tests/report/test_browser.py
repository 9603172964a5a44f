"""The report in a browser, offline. Skipped if Chromium is not installed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.browser import Visit, chromium
from tests.conftest import small, waves

from patchad.report.page import Chapter, render_page

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
HOSTILE = "<b onclick=x>flow</b>"


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report of three faults, with labels, with a hostile channel name."""
    faulty, labels = waves(1500, seed=1), np.zeros(1500, bool)
    for start in (300, 700, 1100):
        faulty[start : start + 9, 1] += 4
        labels[start : start + 9] = True
    names, times = ["pump", HOSTILE, "heat"], pd.date_range("2024", periods=1500, freq="min")
    detector = small(merge_gap=60).fit(pd.DataFrame(waves(800), columns=names))
    found = detector.detect(pd.DataFrame(faulty, columns=names, index=times))
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_bytes(render_page([Chapter.of("pump one", found, labels)]))
    return path, found


@pytest.fixture(scope="module")
def desk(browser, report):
    """The page on a desktop, shared by all tests; each leaves the whole series in view."""
    return Visit(browser, report[0])


def test_the_page_draws_without_an_error_or_a_request(desk, report):
    events = report[1].events
    assert desk.page.locator(".card").count() == len(events) >= 3
    assert desk.page.locator("table.list tbody tr").count() == len(events)
    desk.page.locator(".card").first.scroll_into_view_if_needed()
    desk.page.wait_for_selector(".card .main-svg", state="attached")
    assert desk.page.locator(".card").first.locator(".scatterlayer .trace").count() >= 4
    assert HOSTILE in desk.page.locator(".timeline .y2tick").all_text_contents()
    assert desk.messages == []
    assert desk.requests == [report[0].as_uri()]


def test_a_click_on_an_event_zooms_to_it_and_escape_goes_back(desk, report):
    whole = desk.range()
    worst = max(report[1].events, key=lambda event: (event.severity, event.peak_score))
    desk.page.locator("table.list [data-zoom='0']").click()
    low, high = (np.datetime64(end.replace(" ", "T")) for end in desk.range())
    assert low < worst.start_time <= worst.stop_time < high
    assert high - low < np.timedelta64(10, "h")  # of 25
    assert desk.page.locator("tr.current").count() == 1
    desk.page.keyboard.press("Escape")
    assert desk.range() == whole


def test_the_timeline_and_the_list_work_by_keyboard(desk):
    whole = desk.range()
    desk.page.locator(".timeline").focus()
    desk.page.keyboard.press("+")
    closer = desk.range()
    desk.page.keyboard.press("ArrowRight")
    later = desk.range()
    assert whole[0] < closer[0] < later[0]
    desk.page.locator("table.list [data-zoom='1']").focus()
    desk.page.keyboard.press("Enter")
    assert desk.range() not in (closer, later)
    desk.page.keyboard.press("Escape")
    assert desk.range() == whole


def test_a_flag_describes_its_event_and_links_to_the_card_and_the_card_links_back(desk):
    flag = desk.page.locator(".timeline .scatterlayer .trace:last-child .point").first
    flag.hover(force=True)
    desk.page.wait_for_selector(".timeline .hovertext")
    assert "severity" in desk.page.locator(".timeline .hovertext").first.text_content()
    flag.click(force=True)
    assert desk.page.evaluate("document.activeElement.id").startswith("event-0-")
    desk.page.locator(".card.current nav a").click()
    assert desk.page.evaluate("location.hash").startswith("#row-0-")


def test_dark_mode_applies_to_charts_and_print_stays_light(desk):
    def line() -> str:
        return desk.page.evaluate("document.querySelector('.timeline').data[0].line.color")

    light, paper = line(), desk.colour("body", "backgroundColor")
    desk.page.emulate_media(color_scheme="dark")
    desk.until(lambda: line() != light)
    assert desk.colour("body", "backgroundColor") != paper
    desk.page.evaluate(
        "addEventListener('beforeprint', () => { window.printed = "
        "document.querySelector('.timeline').data[0].line.color; })"
    )
    assert len(desk.page.pdf()) > 20_000
    assert desk.page.evaluate("window.printed") == light
    assert desk.page.locator(".card .main-svg").count() > 0
    desk.page.emulate_media(color_scheme="light")
    desk.until(lambda: line() == light)
    assert desk.messages == []


def test_nothing_is_wider_than_a_phone_screen(browser, report):
    phone = Visit(browser, report[0], **PHONE)
    phone.page.locator(".card").first.scroll_into_view_if_needed()
    phone.page.wait_for_selector(".card .main-svg", state="attached")
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert phone.messages == []
