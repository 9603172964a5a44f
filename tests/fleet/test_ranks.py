"""`fleet fit` under torchrun: two processes train the shared net, and a killed one costs nothing but time."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from tests.conftest import WATCHED, waves
from torch import distributed

from patchad import PatchAD, load
from patchad.cli.main import run
from patchad.errors import InputError
from patchad.fleet import ranks
from patchad.fleet.ranks import TorchrunRunner, follow, is_follower, make_fit_runner

SET = [
    word
    for one in ("window=12", "patch_sizes=3", "max_steps=60", "d_model=4", "layers=1", "batch_size=9")
    for word in ("--set", one)
]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "train"
    path.mkdir()
    for number in range(3):
        frame = pd.DataFrame((number + 1) * waves(200, seed=number).round(4), columns=WATCHED)
        frame.insert(0, "time", pd.date_range("2026-01-01", periods=200, freq="min"))
        frame.to_csv(path / f"m{number}.csv", index=False)
    return path


def torchrun(*words: str, restarts: int = 0, **environment: str) -> str:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    launch += ["--max-restarts", str(restarts), "--monitor-interval", "0.1"]
    found = subprocess.run(
        [*launch, "-m", *words],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stderr


def fit_command(folder, out) -> list[str]:
    return ["patchad", "fleet", "fit", str(folder), "-o", str(out), "--mode", "global", *SET]


def assert_same_models(one, other, rtol: float) -> None:
    for number in range(3):
        models = [load(path / f"m{number}.safetensors") for path in (one, other)]
        rows = waves(100, seed=9)
        scores, wanted = (model.decision_function(pd.DataFrame(rows, columns=WATCHED)) for model in models)
        np.testing.assert_allclose(scores, wanted, rtol=rtol)


@pytest.mark.slow
def test_two_processes_give_the_loss_curve_of_one(tmp_path):
    settings = {"window": 12, "patch_sizes": [3], "d_model": 4, "layers": 1, "max_steps": 100, "batch_size": 9}
    torchrun("tests.fleet.joint_curve", str(tmp_path / "curve.json"), json.dumps(settings))
    found = json.loads((tmp_path / "curve.json").read_text())
    alone = PatchAD(**settings | {"patch_sizes": (3,)}).fit(waves(300)).history_
    np.testing.assert_allclose(found, [(one.loss, one.held_out) for one in alone], rtol=1e-5)


@pytest.mark.slow
def test_two_processes_give_the_models_of_one(folder, tmp_path):
    assert run(fit_command(folder, tmp_path / "alone")[1:]) == 0
    told = torchrun(*fit_command(folder, tmp_path / "two"))
    assert told.count("fitted 600 rows of 3 series") == 1
    assert_same_models(tmp_path / "two", tmp_path / "alone", rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_is_started_again_and_goes_on(folder, tmp_path, rank):
    torchrun(*fit_command(folder, tmp_path / "whole"))
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "sitecustomize.py").write_text(
        "import os, signal\n"
        "if os.environ.get('RANK') == os.environ['VICTIM'] and not os.path.exists(os.environ['KILLED']):\n"
        "    import patchad.model.training as training\n"
        "    steps = [0]\n"
        "    plain = training.TrainStep.__call__\n"
        "    def step(self, *arguments):\n"
        "        steps[0] += 1\n"
        "        if steps[0] == 55:\n"
        "            open(os.environ['KILLED'], 'w').close()\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return plain(self, *arguments)\n"
        "    training.TrainStep.__call__ = step\n"
    )
    traps = {"VICTIM": str(rank), "KILLED": str(tmp_path / "killed")}
    paths = os.pathsep.join([str(trap), os.environ.get("PYTHONPATH", "")])
    told = torchrun(*fit_command(folder, tmp_path / "killed-once"), restarts=2, PYTHONPATH=paths, **traps)
    assert (tmp_path / "killed").exists()
    assert told.count("fitted 600 rows of 3 series") == 1
    assert_same_models(tmp_path / "killed-once", tmp_path / "whole", rtol=1e-4)


@pytest.fixture
def launched(monkeypatch):
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    sent: list[object] = []
    monkeypatch.setattr(ranks, "join", lambda: None)
    monkeypatch.setattr(ranks, "leave", lambda: None)
    monkeypatch.setattr(ranks, "_tell", sent.append)
    return sent


def test_the_first_process_tells_the_others_what_to_train(launched):
    assert not is_follower()
    with make_fit_runner("local", None, None) as runner:
        assert isinstance(runner, TorchrunRunner)
        assert list(runner.run(abs, [-1])) == [(-1, 1)]
        assert launched == []
        assert list(runner.train(abs, [-2, -3])) == [(-2, 2), (-3, 3)]
        assert launched == [(abs, -2), (abs, -3), None]
    assert launched[3:] == []
    with TorchrunRunner(1):
        pass
    assert launched[3:] == [None]  # nothing was to be trained
    with pytest.raises(RuntimeError), TorchrunRunner(1):
        raise RuntimeError
    assert launched[4:] == []
    with pytest.raises(InputError, match="--engine ray starts processes of its own"):
        make_fit_runner("ray", None, None)


def test_the_others_train_what_they_are_told(launched, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    done: list[int] = []
    messages = iter([(done.append, 5), (done.append, 6), None] * 2)
    monkeypatch.setattr(ranks, "_tell", lambda _: next(messages))
    follow()
    assert done == [5, 6]
    assert run(["fleet", "fit", "nothing-is-read", "-o", "nowhere"]) == 0
    assert done == [5, 6, 5, 6]


def test_a_group_of_one_is_joined_told_and_left(monkeypatch):
    agent = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    known = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": agent.port, "RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1}
    for name, value in (known | {"TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_RESTART_COUNT": 1}).items():
        monkeypatch.setenv(name, str(value))
    assert not ranks.is_launched()  # one process needs no others
    with TorchrunRunner(1) as runner:
        assert list(runner.train(abs, [-2])) == [(-2, 2)]
        assert ranks._tell("news") == "news"
    assert not distributed.is_initialized()
    follow()  # the message of the first, its own, is that nothing is left to train
    assert not distributed.is_initialized()
