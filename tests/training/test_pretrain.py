from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from tests.conftest import waves
from training.faults import with_faults
from training.generated import KINDS, generate
from training.leave_one_out import plans, weights_file
from training.pretrain import Corpus, Plan
from training.sources import LICENSED, channels

from patchad import PatchAD
from patchad.datasets import DATASETS
from patchad.model.pretrained import read_weights
from training import leave_one_out, pretrain

SETTINGS = {"steps": 3, "batch": 8, "d_model": 8, "layers": 1, "most": 1}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder with one small family."""
    root = tmp_path_factory.mktemp("data")
    (root / "SMD").mkdir()
    series = np.column_stack([waves(200, 37), np.ones(200)])
    np.savez(root / "SMD" / "machine-1-1", train=series, test=series, test_label=np.zeros(200))
    return root


@pytest.mark.parametrize("kind", KINDS)
def test_generated_channels_are_finite_move_and_repeat_with_their_seed(kind):
    found = generate(kind, channels=8, rows=400)
    assert all(np.isfinite(one).all() and one.std() > 0 for one in found)
    assert all((one == other).all() for one, other in zip(found, generate(kind, channels=8, rows=400), strict=True))
    assert not any(
        (one == other).all() for one, other in zip(found, generate(kind, channels=8, rows=400, seed=1), strict=True)
    )


def test_channels_that_never_move_are_left_out(data):
    found = channels(data, ["SMD"], seed=0, most=1)
    assert len(found["SMD"]) == 37
    assert set(found) == {"SMD", *KINDS}


def test_windows_are_drawn_from_every_family():
    found = {
        "up": [np.full(50, 10, np.float32)],
        "down": [np.full(40, -10, np.float32)] * 9,
        "short": [np.zeros(9, np.float32)],
    }
    drawn = Corpus(found, 30, torch.device("cpu")).draw(400, torch.Generator().manual_seed(0))
    assert drawn.shape == (400, 30, 1)
    assert drawn.abs().amin() > 0.5  # nothing of the one that is too short
    assert drawn.abs().amax() <= 20


def test_faults_are_put_into_the_last_windows_only():
    windows = torch.randn(400, 30, 1, generator=torch.Generator().manual_seed(1))
    seen, target = with_faults(windows, 100, torch.Generator().manual_seed(0)).split(1, 2)
    assert torch.equal(target, windows)
    assert torch.equal(seen[:100], windows[:100])
    changed = (seen != target)[100:, :, 0]
    assert changed.any(1).float().mean() > 0.8  # a standstill of one row changes nothing
    assert changed.sum(1).max() <= 16
    assert torch.equal(*with_faults(windows, 400, torch.Generator()).split(1, 2))


def test_weights_are_made_by_the_command_and_read_by_the_detector(tmp_path, monkeypatch, capsys, data):
    out = tmp_path / "new" / "weights.safetensors"
    monkeypatch.setattr(pretrain, "LICENSED", ("SMD", "ASD"))
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
    monkeypatch.setattr(
        sys, "argv", ["pretrain", "--data", str(data), "--out", str(out), "--leave-out", "ASD", *options]
    )
    pretrain.main()
    assert "'left_out': 'ASD'" in capsys.readouterr().out
    weights = read_weights(str(out))
    assert weights.card["families"] == {"SMD": "MIT"}
    assert weights.card["training"]["120"]["steps"] == 3
    detector = PatchAD(weights=str(out)).fit(waves(500, 2))
    assert detector.origin_ == weights.origin
    assert PatchAD(weights=str(out)).fit(waves(60, 2)).window_ == 30


def test_the_same_seed_gives_the_same_weights(tmp_path):
    for name, faults in (("a", 0.5), ("b", 0.5), ("c", 0.0)):
        pretrain.pretrain(Plan(out=tmp_path / name, faults=faults, **(SETTINGS | {"steps": 2})))
    one, other, third = (read_weights(str(tmp_path / name)).nets[15]["scales.0.embed_inter.weight"] for name in "abc")
    assert (one == other).all()
    assert (one != third).any()


def test_time_ends_training(tmp_path):
    facts = pretrain.pretrain(Plan(out=tmp_path / "w", seconds=1e-9, **SETTINGS))
    assert {one["steps"] for one in facts["training"].values()} <= {0, 1}


def test_divergence_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrain, "OFFSET", float("nan"))
    with pytest.raises(SystemExit, match="diverged"):
        pretrain.pretrain(Plan(out=tmp_path / "w", **SETTINGS))


def test_every_family_is_judged_by_weights_that_never_saw_it(tmp_path):
    made = {plan.out: plan for plan in plans(tmp_path, {"data": tmp_path})}
    assert len(made) == 1 + len(LICENSED)
    for family in DATASETS:
        assert family not in made[weights_file(tmp_path, family)].families


def test_all_sets_are_made(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        leave_one_out, "plans", lambda folder, settings: [Plan(out=folder / "all.safetensors", **settings)]
    )
    monkeypatch.setattr(leave_one_out, "ProcessPoolExecutor", _InPlace)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
    monkeypatch.setattr(sys, "argv", ["leave_one_out", "--out", str(tmp_path), *options])
    leave_one_out.main()
    assert "all.safetensors" in capsys.readouterr().out


class _InPlace:
    """A pool that runs its jobs at once, in this process."""

    def __init__(self, workers, context):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def submit(self, function, *arguments):
        from concurrent.futures import Future

        job = Future()
        job.set_result(function(*arguments))
        return job
