"""The page that goes through the paper piece by piece is what the records say, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from patchad import PatchAD
from patchad.bench.checklist import Measured, lead, render_checklist
from patchad.bench.figures import FIGURES as DRAWN
from patchad.bench.paper import published_rows
from patchad.bench.pieces import EQUATIONS, FIGURES, SETTINGS
from patchad.bench.suites import SUITES
from patchad.cli import main as cli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "paper.md"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_page_is_what_its_command_prints(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["bench", "checklist", str(ROOT / "docs" / "results" / "records")]) == 0
    assert capsys.readouterr().out == page


def test_every_command_of_the_page_exists(page: str) -> None:
    commands = set(re.findall(r"`(patchad [^`]+|pytest [^`]+)`", page))
    assert len(commands) > 30
    for command in commands:
        program, *words = command.split()
        if program == "pytest":
            assert (ROOT / words[0]).exists(), command
        elif words[:2] == ["bench", "run"]:
            suite = SUITES[words[2]]
            if "--datasets" in words:
                assert words[words.index("--datasets") + 1] in suite.datasets, command
        elif words[:2] == ["bench", "figures"]:
            names = [word for word in words[2:] if not word.startswith("-") and "/" not in word and word != "DATA"]
            assert names, command
            assert set(names) <= set(DRAWN), command
        else:
            assert words[0] == "data", command


def test_every_table_and_dataset_of_the_paper_has_a_row(page: str) -> None:
    for row in published_rows():
        if row["table"].startswith("tab:"):
            found = re.search(rf"^\| {re.escape(row['table'])}, \d+ \| {row['dataset']} \|", page, re.MULTILINE)
            assert found, (row["table"], row["dataset"])


@pytest.mark.parametrize("equation", EQUATIONS, ids=lambda equation: str(equation.line))
def test_an_equation_is_where_the_page_says_and_held_by_what_it_says(equation) -> None:
    file, name = equation.code.split(": ")
    assert re.search(rf"^(class|def) {name}\b", (ROOT / "src" / "patchad" / file).read_text(), re.MULTILINE)
    if equation.test:
        path, test = equation.test.split("::")
        assert f"def {test}(" in (ROOT / path).read_text()
    assert equation.test or equation.figure in DRAWN or equation.note.startswith("background")


def test_every_figure_is_drawn_by_one_of_ours_or_is_a_drawing() -> None:
    for figure in FIGURES:
        assert set(figure.figures) <= set(DRAWN)
        assert figure.figures or "drawing" in figure.verdict


def test_the_settings_of_the_paper_are_those_of_the_preset() -> None:
    paper = PatchAD.paper()
    assert {name: getattr(paper, name) for name in SETTINGS} == {name: value for name, (_, value) in SETTINGS.items()}


def test_the_leads_of_the_abstract_follow_from_the_papers_own_table(page: str) -> None:
    for claimed in ("6.84", "4.27", "2.49"):
        (line,) = [line for line in page.splitlines() if f" {claimed} % ahead" in line]
        assert line.count(f"{claimed} %") >= 3, line


def test_a_lead_counts_methods_that_have_all_datasets_only() -> None:
    found = lead({"patchad-paper": [2.0, 2.0], "a": [1.0, 1.0], "b": [9.0]})
    assert (found.percent, found.best) == (100, "a")


def test_what_was_not_run_says_so() -> None:
    assert Measured([]).text("paper-pa", "MSL", "patchad-paper", "pa_f1") == "not run"
    assert "data not public" in render_checklist([])
