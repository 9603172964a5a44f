"""The examples of the documentation run, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from patchad import DETECTORS

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def test_the_ten_lines_of_the_readme_find_the_event(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = python_blocks(ROOT / "README.md")
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    scope: dict[str, object] = {}
    exec(code, scope)
    lines = capsys.readouterr().out.splitlines()
    assert any("'channel_1'" in line and 295 <= int(line.split()[0]) < 315 for line in lines), lines
    assert (tmp_path / "model.safetensors").exists()


def test_the_examples_of_the_thresholds_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    levels, feedback = python_blocks(ROOT / "docs" / "thresholds.md")
    exec(levels, {})
    assert float(capsys.readouterr().out) > 0
    exec(feedback, {})
    event, judgement = capsys.readouterr().out.splitlines()
    start, stop = map(int, event.split())
    assert 490 <= start <= 510
    assert 520 <= stop <= 540
    assert judgement in (ROOT / "docs" / "thresholds.md").read_text()


@pytest.mark.parametrize("page", ["inputs", "adapters"])
def test_examples_print_what_the_comments_beside_them_say(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in python_blocks(ROOT / "docs" / f"{page}.md"):
        exec(code, {})
        printed = re.findall(r"print\(.*\)  # (.*)", code)
        assert capsys.readouterr().out.splitlines() == printed
        assert printed


def test_the_example_of_the_scan_page(capsys):
    (code,) = python_blocks(ROOT / "docs" / "scan.md")
    exec(code, {})
    start, stop, channel = capsys.readouterr().out.split()
    assert abs(int(start) - 2000) <= 3
    assert abs(int(stop) - 2030) <= 3
    assert channel == "channel_1"


def test_the_example_of_the_operators_page(capsys):
    (code,) = python_blocks(ROOT / "docs" / "operators.md")
    exec(code, {})
    assert capsys.readouterr().out.splitlines() == ["['heat', 'flow']", "['flow']", "['heat']", "heat"]


def test_the_example_of_the_streaming_page(capsys):
    (code,) = python_blocks(ROOT / "docs" / "streaming.md")
    exec(code, {})
    assert any(line.startswith("closed 300 310") for line in capsys.readouterr().out.splitlines())


def test_the_example_of_the_page_on_the_state(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = python_blocks(ROOT / "docs" / "watch-configuration.md")
    exec(code, {})
    assert capsys.readouterr().out.splitlines()[1] == "[{'flow': 1.6}]"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_that_exist(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_page_of_comparison_methods_names_every_detector_and_no_other():
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "baselines.md").read_text(), re.MULTILINE)
    assert rows == list(DETECTORS)
