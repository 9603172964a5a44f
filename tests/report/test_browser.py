"""The report in a browser, offline. Skipped if Chromium is not installed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.browser import Visit, chromium
from tests.conftest import small, waves

from patchad.data.table import Table
from patchad.report.page import Chapter, render_page
from patchad.results.detection import Detection, Event

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SIDEWAYS = {"viewport": {"width": 844, "height": 390}, "has_touch": True, "is_mobile": True}
TABLET = {"viewport": {"width": 1024, "height": 768}, "has_touch": True, "is_mobile": True}
HOSTILE = "<b onclick=x>flow</b>"


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report of three faults, with labels, with a hostile channel name."""
    faulty, labels = waves(1500, seed=1), np.zeros(1500, bool)
    for start, channel in ((300, 1), (700, 2), (1100, 1)):
        faulty[start : start + 9, channel] += 4
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
    assert desk.page.locator(".card[open]").count() == 0
    with desk.unfolded(0):
        desk.page.wait_for_selector(".card .main-svg", state="attached")
    assert desk.page.locator(".card").first.locator(".scatterlayer .trace").count() >= 4
    assert HOSTILE in desk.page.locator(".timeline .annotation-text").all_text_contents()
    assert desk.messages == []
    assert desk.requests == [report[0].as_uri()]


def test_the_button_of_a_card_zooms_to_its_event_and_escape_goes_back(desk, report):
    whole = desk.range()
    worst = max(report[1].events, key=lambda event: (event.severity, event.peak_score))
    with desk.unfolded(0):
        desk.page.locator("[data-zoom='0']").click()
    low, high = (np.datetime64(end.replace(" ", "T")) for end in desk.range())
    assert low < worst.start_time <= worst.stop_time < high
    assert high - low < np.timedelta64(10, "h")  # of 25
    assert desk.page.locator(".card.current").count() == 1
    desk.page.keyboard.press("Escape")
    assert desk.range() == whole


def test_the_timeline_and_the_cards_work_by_keyboard(desk):
    whole = desk.range()
    desk.page.locator(".timeline").focus()
    desk.page.keyboard.press("+")
    closer = desk.range()
    desk.page.keyboard.press("ArrowRight")
    later = desk.range()
    assert whole[0] < closer[0] < later[0]
    desk.page.locator(".card > summary").nth(1).focus()
    desk.page.keyboard.press("Enter")
    assert desk.page.locator(".card[open]").count() == 1
    desk.page.keyboard.press("Tab")
    desk.page.keyboard.press("Enter")
    assert desk.range() not in (closer, later)
    desk.page.locator(".card > summary").nth(1).focus()
    desk.page.keyboard.press("Space")
    assert desk.page.locator(".card[open]").count() == 0
    desk.page.keyboard.press("Escape")
    assert desk.range() == whole


def test_one_button_unfolds_and_folds_all_cards(desk, report):
    button = desk.page.locator("[data-fold]")
    button.click()
    assert desk.page.locator(".card[open]").count() == len(report[1].events)
    assert button.text_content() == "Fold all"
    button.click()
    assert desk.page.locator(".card[open]").count() == 0


def test_a_flag_describes_its_event_and_unfolds_the_card(desk):
    flag = desk.page.locator(".timeline .scatterlayer .trace:last-child .point").first
    flag.hover(force=True)
    desk.page.wait_for_selector(".timeline .hovertext")
    assert "severity" in desk.page.locator(".timeline .hovertext").first.text_content()
    flag.click(force=True)
    assert desk.page.evaluate("document.activeElement.parentElement.id").startswith("event-0-")
    assert desk.page.locator(".card.current[open]").count() == 1
    desk.page.locator(".card.current > summary").click()


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
    assert desk.page.locator(".card[open]").count() == 0, "folded again after printing"
    desk.page.emulate_media(color_scheme="light")
    desk.until(lambda: line() == light)
    assert desk.messages == []


def test_nothing_is_wider_than_a_phone_screen(browser, report):
    phone = Visit(browser, report[0], **PHONE)
    phone.page.locator("[data-fold]").click()
    phone.page.wait_for_selector(".card .main-svg", state="attached")
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert phone.messages == []


EVENTS = 40


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A report of 40 events, each led by a channel of its own with a long name, with every kind and with repeats."""
    rows, names = 4000, tuple(f"bearing_temperature_of_the_drive_end_{i:03d}" for i in range(60))
    scores, shares, events = np.zeros(rows), np.full((rows, 60), 0.2 / 59), []
    kinds = ("anomaly", "stuck", "missing", "range", "regime")
    times = np.datetime64("2024-01-01T00:00", "s") + np.arange(rows) * np.timedelta64(60, "s")
    for number in range(EVENTS):
        start, stop = 100 * number + 20, 100 * number + 20 + (1, 7, 40)[number % 3]
        shares[start:stop, number] = 0.8
        scores[start:stop] = 9
        blamed = ((names[number], 0.8), (names[59], 0.2))
        ends = times[start], times[stop - 1]
        events.append(Event(start, stop, start, 9.0, 90 - number, blamed, *ends, kinds[number % 5], number % 2))
    values = np.random.default_rng(0).standard_normal((rows, 60))
    found = Detection(
        scores=scores,
        levels=np.full(rows, 5.0),
        alarms=scores > 5,
        events=tuple(events),
        channels=names,
        index=times,
        contributions=shares,
        observed=Table(values, names, times),
    )
    folder = tmp_path_factory.mktemp("busy")
    for count in (11, EVENTS):
        part = replace(found, events=found.events[:count])
        (folder / f"{count}.html").write_bytes(render_page([Chapter.of("", part)]))
    return folder, found


def test_eleven_events_take_at_most_five_screens_of_a_phone(browser, busy):
    phone = Visit(browser, busy[0] / "11.html", **PHONE)
    assert phone.page.locator(".card").count() == 11
    assert phone.page.evaluate("document.documentElement.scrollHeight") <= 5 * 844
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390


LINES = """[...document.querySelectorAll('dd .name, .headline .name, summary .name')].map((name) => [
  name.offsetHeight, parseFloat(getComputedStyle(name).lineHeight), ...[...name.childNodes].map((part) => {
    const range = document.createRange();
    range.selectNodeContents(part);
    return range.getClientRects().length;
  })])"""


def test_a_name_is_never_broken_in_a_word_and_on_a_desktop_not_at_all(browser, busy):
    for settings, most in (({}, 1), (TABLET, 1), (SIDEWAYS, 1), (PHONE, 2)):
        visit = Visit(browser, busy[0] / "11.html", **settings)
        visit.page.locator("[data-fold]").click()
        names = visit.page.evaluate(LINES)
        assert len(names) > 20
        assert all(height < (most + 0.5) * line and max(rects) == 1 for height, line, *rects in names)


def test_the_lane_of_the_blamed_channel_is_shown_and_full_in_colour(browser, busy):
    visit = Visit(browser, busy[0] / f"{EVENTS}.html")
    shown = visit.page.locator(".timeline .annotation-text")
    assert shown.count() == 12
    last = busy[1].events[-1]
    with visit.unfolded(EVENTS - 1):
        visit.page.locator(f"[data-zoom='{EVENTS - 1}']").click()
    assert shown.count() == 12
    assert last.channels[0][0] in shown.all_text_contents(), "of the event in view"
    lane = shown.all_text_contents().index(last.channels[0][0])
    heat = "document.querySelector('.timeline').data.find((trace) => trace.type === 'heatmap')"
    z = visit.page.evaluate(f"{heat}.z")
    assert [max(value or 0 for value in row) for row in z[::2]].index(1) == lane
    visit.page.locator("[data-move='lanes']").click()
    assert shown.count() == EVENTS
    assert visit.messages == []


def test_events_are_drawn_where_the_data_has_them(browser, busy):
    visit = Visit(browser, busy[0] / "11.html")
    event = busy[1].events[2]
    with visit.unfolded(2):
        visit.page.wait_for_selector(".card .main-svg", state="attached")
        visit.page.locator("[data-zoom='2']").click()
        shapes = visit.page.evaluate("document.querySelector('.timeline').layout.shapes")
        (card,) = visit.page.evaluate("document.querySelector('.card[open] .curves').layout.shapes")[:1]
    edges = [str(time) for time in (event.start_time, event.stop_time)]
    (band,) = (one for one in shapes if one["yref"] == "y domain" and edges[0] in one["x0"])
    lanes = visit.page.evaluate("document.querySelector('.timeline').data.find((trace) => trace.type === 'heatmap').x")
    for drawn in ([band["x0"], band["x1"]], [card["x0"], card["x1"]], [lanes[0], lanes[-1]]):
        assert [time.removesuffix(".000") for time in drawn] == edges


def test_times_are_shown_with_the_offset_of_their_zone(browser, busy, tmp_path):
    noon = np.datetime64("2024-01-01T12:00", "ms").astype(int)
    content = (busy[0] / "11.html").read_text().replace('"zone":null', '"zone":"Test/Zone"')
    path = tmp_path / "zone.html"
    path.write_text(content.replace('"offsets":[]', f'"offsets":[[0,60],[{noon},120]]'))
    visit, plain = Visit(browser, path), Visit(browser, busy[0] / "11.html")
    hours = []
    for number in (0, 8):  # before and after the clock is changed
        for one in (visit, plain):
            one.page.evaluate(f"document.querySelector('[data-zoom=\"{number}\"]').click()")
        shown, utc = (np.datetime64(one.range()[0].replace(" ", "T"), "s") for one in (visit, plain))
        hours.append((shown - utc) / np.timedelta64(1, "h"))
    assert hours == [1, 2]
    assert "UTC+02:00" in visit.page.locator(".timeline .xtitle").text_content()
    whole = visit.range()
    visit.page.locator(".timeline").focus()
    visit.page.keyboard.press("+")
    assert whole[0] < visit.range()[0] < visit.range()[1] < whole[1]
    assert visit.messages == []
