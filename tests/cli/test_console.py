from __future__ import annotations

import os
import resource
import subprocess
import sys

import pandas as pd
import pytest
from tests.conftest import SMALL, waves

from patchad import PatchAD
from patchad.cli.main import run

NAMES = ["\x1b[31mpump", "flow\u202elevel", "heat\nloss"]


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    """A folder with a model of channels with strange names, and data whose file name is a formula."""
    folder = tmp_path_factory.mktemp("strange")
    frame = pd.DataFrame(waves(600), columns=NAMES)
    PatchAD(**SMALL).fit(frame).save(folder / "model.safetensors")
    odd = pd.DataFrame(waves(300, seed=1), columns=NAMES)
    odd.iloc[150:160] += 5
    odd.to_csv(folder / "=cmd()\x1b[2J.csv", index=False)
    return folder


def patchad(*arguments, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "patchad", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | options.pop("environment", {})
    return subprocess.run(command, check=False, text=True, env=environment, **options)


def test_names_cannot_command_a_terminal_or_a_spreadsheet(strange, tmp_path, capsys):
    data = strange / "=cmd()\x1b[2J.csv"
    outputs = ["-o", str(tmp_path / "scores.csv")]
    assert run(["detect", str(strange / "model.safetensors"), str(data), *outputs]) == 0
    assert run(["inspect", str(strange / "model.safetensors")]) == 0
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert r"flow\u202elevel" in printed.out
    assert r"heat\nloss" in printed.out
    assert (tmp_path / "scores.csv").read_text().splitlines()[1].startswith("'=cmd()")


def test_an_error_shows_names_without_obeying_them(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("a\x1b[31m,b\n1,x\u202ey\n")
    assert run(["fit", str(tmp_path / "a.csv"), "-o", str(tmp_path / "m")]) == 2
    printed = capsys.readouterr().err
    assert "\x1b" not in printed
    assert "\u202e" not in printed


def test_a_reader_that_has_gone_is_no_error(strange):
    script = f'"{sys.executable}" -m patchad bench list | true; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", script], check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
    call = f'-m patchad detect "{strange}/model.safetensors" "{strange}/"*.csv --fail-on-event'
    script = f'"{sys.executable}" {call} 2>&1 | true; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", script], check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_written_to_in_silence(closed):
    for arguments, code in (("--version", 0), ("inspect nothing-is-there", 2)):
        command = ["sh", "-c", f'"$0" -m patchad {arguments} {closed}', sys.executable]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert "Traceback" not in done.stderr


def test_a_full_disk_behind_stdout_is_an_error():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        calls = [patchad(*call, stdout=full, stderr=subprocess.PIPE) for call in (["bench", "list"], ["--version"])]
    for done in calls:
        assert done.returncode == 2
        assert done.stderr == "error: cannot write '<stdout>': No space left on device; choose another path\n"


def test_a_limit_on_the_size_of_files_is_named(strange, tmp_path):
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    outputs = ("-o", tmp_path / "scores.csv", "--events", tmp_path / "events.json")
    data = next(strange.glob("*.csv"))
    done = patchad("detect", strange / "model.safetensors", data, *outputs, capture_output=True, preexec_fn=limit)
    assert done.returncode == 2
    assert f"error: cannot write '{tmp_path / 'scores.csv'}': File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_that_cannot_show_a_name_shows_its_code(tmp_path):
    (tmp_path / "a.csv").write_text("Höhe,b\n1,x\n")
    done = patchad(
        "fit", tmp_path / "a.csv", "-o", tmp_path / "m", "--time", "Tür", capture_output=True,
        environment={"PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode == 2
    assert r"T\xfcr" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_after_the_outputs_are_written_says_so(strange, tmp_path, monkeypatch, capsys):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("patchad.cli.output.print_events", interrupt)
    call = ["detect", str(strange / "model.safetensors"), str(next(strange.glob("*.csv")))]
    assert run([*call, "-o", str(tmp_path / "scores.csv")]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "error: stopped; the outputs are complete"
    assert run(call) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "error: stopped; nothing was written"


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")])
def test_too_little_memory_is_one_line(monkeypatch, capsys, tmp_path, error):
    def explode(*_):
        raise error

    monkeypatch.setattr("patchad.detectors.describing.load", explode)
    assert run(["inspect", str(tmp_path / "m")]) == 2
    assert "not enough memory" in capsys.readouterr().err
