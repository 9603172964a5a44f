"""Print the size of a report and how fast a browser draws it: 1,000,000 rows x 50 channels, 300 events.

python benchmarks/report.py [--rows 1000000] [--channels 50] [--events 300] [--out report.html]

The detection is synthetic, as large as a real one: the page is what is measured. Drawing needs Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from patchad.data.table import Table
from patchad.report.page import Chapter, render_page
from patchad.results.detection import Detection, Event, Expectation, by_severity, surroundings
from patchad.results.expectations import MAX_CHANNELS, MAX_EVENTS


def synthetic_detection(rows: int, channels: int, count: int) -> tuple[Detection, np.ndarray]:
    """Return a detection with `count` events of 1 to 400 rows, and labels that match most of them."""
    rng = np.random.default_rng(0)
    names = tuple(f"sensor_{i:02d}" for i in range(channels))
    values = rng.standard_normal((rows, channels), dtype=np.float32)
    shares = rng.random((rows, channels), dtype=np.float32)
    shares /= shares.sum(axis=1, keepdims=True)
    times = np.datetime64("2024-01-01", "s") + 60 * np.arange(rows)
    scores, labels = rng.random(rows), np.zeros(rows, dtype=bool)
    events, room = [], rows // max(count, 1)
    for number in range(count):
        start = number * room + room // 2
        stop = start + min(int(rng.integers(1, 400)), room // 2)
        scores[start:stop] += rng.uniform(2, 9)
        labels[start:stop] = rng.random() < 0.9
        blamed = tuple((names[i], 1 / channels) for i in rng.permutation(channels))
        peak = start + int(scores[start:stop].argmax())
        severity = float(rng.uniform(10, 99))
        events.append(Event(start, stop, peak, float(scores[peak]), severity, blamed, times[start], times[stop - 1]))
    expected = []
    for number in by_severity(events)[:MAX_EVENTS]:
        near = surroundings(events[number], rows)
        columns = [names.index(name) for name, _ in events[number].channels[:MAX_CHANNELS]]
        part = values[near, columns]
        expected.append(Expectation(number, near.start, tuple(names[i] for i in columns), part * 0.5, abs(part) + 1))
    found = Detection(
        scores=scores,
        levels=np.full(rows, 2.0),
        alarms=scores > 2,
        events=tuple(events),
        channels=names,
        index=times,
        contributions=shares,
        observed=Table(values, names, times),
        expected=tuple(expected),
    )
    return found, labels


def drawing_times(path: Path) -> dict[str, float]:
    """Open the page in Chromium, zoom to an event, and return seconds."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(path.resolve().as_uri())
        page.wait_for_selector(".timeline .main-svg", state="attached")
        page.wait_for_timeout(2000)
        whole = page.evaluate("performance.getEntriesByName('timeline')[0].toJSON()")
        page.locator(".card > summary").first.click()
        page.locator("[data-zoom='0']").click()
        page.wait_for_timeout(2000)
        zoomed = page.evaluate("performance.getEntriesByName('timeline').at(-1).duration")
        browser.close()
    return {
        "from opening the file to the timeline drawn": (whole["startTime"] + whole["duration"]) / 1e3,
        "of these, the timeline alone": whole["duration"] / 1e3,
        "zoom to an event": zoomed / 1e3,
    }


def main() -> None:
    """Print size and times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--channels", type=int, default=50)
    parser.add_argument("--events", type=int, default=300)
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    found, labels = synthetic_detection(arguments.rows, arguments.channels, arguments.events)
    began = time.process_time()
    chapter = Chapter.of("", found, labels if arguments.events else None)
    compared = time.process_time()
    content = render_page([chapter])
    rendered = time.process_time()
    print(f"{arguments.rows:,} rows x {arguments.channels} channels, {arguments.events} events")
    print(f"processor time of labels and metrics: {compared - began:.1f} s")
    print(f"processor time of the page: {rendered - compared:.1f} s")
    print(f"size: {len(content) / 1e6:.1f} MB")
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.out or Path(folder) / "report.html"
        path.write_bytes(content)
        if shutil.which("chromium") is None:
            print("no Chromium: drawing was not measured; scripts/install-browser installs it")
            return
        for name, seconds in drawing_times(path).items():
            print(f"{name}: {seconds:.2f} s")


if __name__ == "__main__":
    main()
