"""The fuzz suite: 2,000 hostile inputs in `make test`, 10,000 in `make test-all`, more by `make soak`."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys

import pytest
from benchmarks import soak
from hypothesis import given, settings
from hypothesis import strategies as st

from patchad import InputError
from patchad.data.inputs import read_table
from tests.fuzz import engine
from tests.fuzz.call import CHANNELS
from tests.fuzz.tables import CELLS, HEADERS


def check(tally: engine.Tally, inputs: int) -> None:
    assert tally.inputs == inputs
    first = "\n".join(f"{one['n']} {one['kind']} {one['what']}: {one['problem']}" for one in tally.problems[:5])
    assert not tally.problems, f"{len(tally.problems)} problems:\n{first}"
    assert any(name.endswith(" 0") for name in tally.outcomes), "some inputs are fine"
    assert any(name.endswith(" 2") for name in tally.outcomes)


def test_two_thousand_hostile_inputs_end_well():
    check(engine.run_inputs(1, 0, 2000, workers=2), 2000)


@pytest.mark.slow
def test_ten_thousand_hostile_inputs_end_well():
    check(engine.run_inputs(2, 0, 10_000, workers=2), 10_000)


def test_kills_leave_whole_files_of_one_set():
    command = [sys.executable, "-m", "tests.fuzz.kills", "0", "0", "12"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=engine.ROOT)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 12
    assert [one for one in found if one["problem"]] == []
    assert any(one["killed"] for one in found)


def test_an_input_that_hangs_or_ends_the_process_is_told_and_the_next_is_run(monkeypatch, tmp_path):
    fake = tmp_path / "tests" / "fuzz"
    fake.mkdir(parents=True)
    (fake / "worker.py").write_text(
        "import json, os, sys, time\n"
        "for n in range(int(sys.argv[3]), int(sys.argv[4])):\n"
        "    time.sleep(100 if n == 1 else 0)\n"
        "    n == 3 and os.abort()\n"
        "    found = {'n': n, 'kind': 'x', 'code': 0, 'what': '', 'problem': None, 'seconds': 0.1, 'ram': n}\n"
        "    print(json.dumps(found), flush=True)\n"
    )
    monkeypatch.setattr(engine, "ROOT", tmp_path)
    tally = engine.run_inputs(0, 0, 6, limit=2, patience=1)
    assert [(one["n"], one["code"]) for one in tally.problems] == [(1, "hang"), (3, "crash")]
    assert tally.inputs == 6
    assert tally.outcomes["x 0"] == 4


def test_the_soak_resumes_and_runs_parts_with_problems_again(monkeypatch, tmp_path, capsys):
    ran = []

    def run_inputs(seed: int, start: int, stop: int) -> engine.Tally:
        ran.append(start)
        problem = "a mixed set" if ran == [0] else None
        tally = engine.Tally()
        for n in range(start, stop):
            tally.add(
                {
                    "n": n,
                    "kind": "table",
                    "code": 0,
                    "problem": problem if n == start else None,
                    "seconds": 0.5,
                    "ram": 2**20,
                }
            )
        return tally

    monkeypatch.setattr(soak, "run_inputs", run_inputs)
    monkeypatch.setattr(
        sys, "argv", ["soak", "--inputs", "1000", "--kills", "0", "--workers", "1", "-o", str(tmp_path / "s.jsonl")]
    )
    assert soak.main() == 1
    assert soak.main() == 0
    assert soak.main() == 0
    assert ran == [0, 500, 0]
    sys.argv.append("--table")
    assert soak.main() == 0
    assert "| inputs | 1,000 |" in capsys.readouterr().out


@settings(max_examples=60)
@given(
    headers=st.lists(st.one_of(st.sampled_from(HEADERS + CHANNELS), st.text(max_size=5)), min_size=1, max_size=4),
    cells=st.lists(st.one_of(st.sampled_from(CELLS), st.floats().map(str), st.text(max_size=8)), max_size=30),
    encoding=st.sampled_from(["utf-8", "utf-16", "latin-1"]),
    separator=st.sampled_from(",;\t"),
)
def test_any_text_is_a_table_or_an_input_error(tmp_path_factory, headers, cells, encoding, separator):
    path = tmp_path_factory.getbasetemp() / f"{random.randrange(10)}.csv"
    rows = [cells[i : i + len(headers)] for i in range(0, len(cells), len(headers))]
    path.write_bytes("\n".join(separator.join(row) for row in [headers, *rows]).encode(encoding, "replace"))
    with contextlib.suppress(InputError):
        assert len(read_table(path).values) >= 1
