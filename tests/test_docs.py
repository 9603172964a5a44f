"""The examples of the documentation run, and its links lead somewhere."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from patchad import DETECTORS

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.py"))
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


@pytest.mark.parametrize("page", ["inputs", "adapters", "quickstart"])
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


def test_the_example_of_the_page_on_search(capsys):
    (code,) = python_blocks(ROOT / "docs" / "search.md")
    exec(code, {"__name__": "__main__"})
    window, better = capsys.readouterr().out.split()
    assert window in ("30", "60")
    assert better == "True"


def test_the_example_of_the_page_on_pretrained_nets(capsys):
    (code,) = python_blocks(ROOT / "docs" / "pretrained.md")
    exec(code, {})
    start, stop, channel = capsys.readouterr().out.split()
    assert abs(int(start) - 200) <= 3
    assert abs(int(stop) - 220) <= 3
    assert channel == "channel_1"


def test_the_example_of_the_operators_page(capsys):
    (code,) = python_blocks(ROOT / "docs" / "operators.md")
    exec(code, {})
    assert capsys.readouterr().out.splitlines() == ["['heat', 'flow']", "['flow']", "['heat']", "heat"]


def test_the_example_of_the_streaming_page(capsys):
    judged, early = python_blocks(ROOT / "docs" / "streaming.md")
    exec(judged, {})
    assert any(line.startswith("closed 300 310") for line in capsys.readouterr().out.splitlines())
    exec(early, {})
    suspected, found, closed = (line.split() for line in capsys.readouterr().out.splitlines())
    assert 300 <= int(suspected[0]) < 310
    assert found[4] == closed[4] == suspected[3]


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


ELSEWHERE = {
    "datasets": "needs the datasets; tests/datasets has its calls",
    "metrics": "calls on arrays of the reader; tests/metrics has them",
    "report": "calls on a detector of the reader; tests/report has them",
}
"""Pages with Python whose examples are tested elsewhere, and why."""


def test_no_page_has_an_example_that_nobody_runs():
    here = Path(__file__).read_text()
    pages = [page for page in PAGES if python_blocks(page) and page.stem not in ELSEWHERE]
    assert [page.stem for page in pages if f'"{page.stem}"' not in here and f'"{page.name}"' not in here] == []


@pytest.mark.parametrize("page", ["baselines"])
def test_sessions_print_what_they_show(page):
    for code in python_blocks(ROOT / "docs" / f"{page}.md"):
        test = doctest.DocTestParser().get_doctest(code, {}, page, None, 0)
        assert doctest.DocTestRunner().run(test).failed == 0


def test_every_page_is_in_the_navigation_of_the_site():
    listed = set(re.findall(r"- (?:[\w .]+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    pages |= {f"notebooks/{path.stem}.md" for path in NOTEBOOKS}
    assert listed - {"security.md"} == pages, "list the page under nav in mkdocs.yml"
