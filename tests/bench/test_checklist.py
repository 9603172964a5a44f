"""The page that goes through the paper piece by piece is what the records say, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from patchad import PatchAD
from patchad.bench.cells import all_variants, parameters_of
from patchad.bench.checklist import render_checklist
from patchad.bench.claims import claims, lead
from patchad.bench.figures import FIGURES as DRAWN
from patchad.bench.measured import NOT_RUN, FigureData, Measured, filled
from patchad.bench.paper import published_rows
from patchad.bench.pieces import EQUATIONS, FIGURES, SETTINGS
from patchad.bench.records import Record
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


def record(variant: str, protocol: str = "paper", seed: int = 0, steps: int | None = None, **metrics: float) -> Record:
    """Give a record of a variant of `paper-classic`, as a run writes it."""
    (found,) = [one for one in all_variants(SUITES["paper-classic"]) if one.name == variant]
    parameters = parameters_of(found, protocol, steps)
    where = {"suite": "paper-classic", "protocol": protocol, "dataset": "MSL", "entity": "MSL"}
    return {**where, "detector": found.detector, "parameters": parameters, "seed": seed, "metrics": metrics}


def test_a_value_after_a_stroke_is_measured_as_the_papers_code_does() -> None:
    measured = Measured(
        [
            record("patchad-code1", pa_f1=0.9, roc_auc=0.5),
            record("patchad-code1", "code", searched_pa_f1=0.2),
            record("random", pa_f1=0.8),
        ]
    )
    cells = [measured.both("paper-classic", "MSL", name, "pa_f1") for name in ("patchad-code1", "random", "lof")]
    assert cells == ["90.00 / 20.00", "80.00", NOT_RUN]
    assert measured.both("paper-classic", "MSL", "patchad-code1", "roc_auc") == "50.00"


def test_a_training_that_was_cut_short_says_so_and_gives_way_to_a_whole_one() -> None:
    short = record("patchad-paper", steps=50, pa_f1=0.1)
    key = ("paper-classic", "MSL", "patchad-paper", "pa_f1")
    assert Measured([short]).text(*key) == "10.00 (50 steps)"
    both = Measured([short, record("patchad-paper", pa_f1=0.3)])
    assert both.text(*key) == "30.00"


def test_short_trainings_are_compared_with_each_other_unless_all_are_whole() -> None:
    names = ("patchad-paper", "patchad-code1")
    short = [record(name, steps=50, pa_f1=value) for name, value in zip(names, (0.1, 0.2), strict=True)]
    whole = [record(name, pa_f1=value) for name, value in zip(names, (0.5, 0.7), strict=True)]
    about = ("paper-classic", "MSL", names, "pa_f1")
    assert Measured([*short, whole[0]]).spread(*about) == (2, "10.00 to 20.00 (50 steps)")
    assert Measured([*short, *whole]).spread(*about) == (2, "50.00 to 70.00")
    assert Measured(whole[:1]).spread(*about) == (1, "50.00 to 50.00")
    assert Measured([record("random", pa_f1=0.5)]).spread(*about) == (0, NOT_RUN)


@pytest.mark.parametrize(
    ("seeds", "text"), [({}, NOT_RUN), ({"patchad-paper": 1}, "one seed"), ({"patchad-paper": 3}, "three seeds")]
)
def test_the_number_of_seeds_follows_from_the_records(seeds: dict[str, int], text: str) -> None:
    records = [record(name, seed=seed, pa_f1=0.1) for name, most in seeds.items() for seed in range(most)]
    assert Measured([*records, record("random", pa_f1=0.5)]).seeds("paper-classic") == text


def test_seeds_that_differ_are_a_range() -> None:
    records = [record("patchad-paper", seed=seed, f1=0.1) for seed in range(3)] + [record("patchad-letter", f1=0.1)]
    assert Measured(records).seeds("paper-classic") == "one to three seeds"


def test_claims_take_over_the_data_of_figures(tmp_path: Path) -> None:
    header = "objective,constraint,seed,step,loss"
    rows = ["adversarial,0,0,1,2", "adversarial,0,0,300,0.5", "adversarial,0,1,300,0.7", "adversarial,0.2,0,300,0.4"]
    (tmp_path / "constraint.csv").write_text("\n".join([header, *rows]))
    rows = ["adversarial,0.2,9,inter,0.25,", "adversarial,0.2,9,intra,0.125,", "adversarial,0.2,1,intra,0.9,"]
    (tmp_path / "collapse.csv").write_text("\n".join(["objective,constraint,step,view,centre,entropy", *rows]))
    drawn = FigureData(tmp_path)
    (collapse,) = [row for row in claims(Measured([]), drawn) if row[0].startswith("no collapse")]
    assert collapse[2] == "0.600, 0.400; 25 % of the inter view and 12 % of the intra view is centre"
    assert drawn.values("collapse", "entropy", view="intra") == []
    assert drawn.rows("theory") == FigureData().rows("theory") == []
    assert filled("{x}", {"x": None}) == NOT_RUN


def test_the_claims_of_the_page_have_numbers(page: str) -> None:
    claimed = page.split("## Claims")[1].splitlines()
    rows = [line.split(" | ") for line in claimed if line.startswith("| ") and "---" not in line][1:]
    assert len(rows) > 15
    for row in rows:
        assert re.search(r"\d", row[2]), row


def test_costs_say_what_costs_less_and_more(page: str) -> None:
    lines = [line for line in page.splitlines() if "less: " in line]
    assert len(lines) == 3
    for line in lines:
        for name in ("M2N2", "D3R", "GPT2-Adapter", "TimesNet", "USAD"):
            assert name in line, line


def test_what_was_not_run_says_so() -> None:
    assert Measured([]).text("paper-pa", "MSL", "patchad-paper", "pa_f1") == "not run"
    assert "data not public" in render_checklist([])
