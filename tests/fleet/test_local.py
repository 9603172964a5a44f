"""Tasks in processes of this machine."""

from __future__ import annotations

import sys

import pytest
from tests.fleet.conftest import MACHINES
from tests.fleet.dying import die, die_once

from patchad.errors import PatchADError
from patchad.fleet.local import LocalRunner


def test_processes_give_the_same_and_a_killed_worker_costs_nothing(fleet, folder, tmp_path):
    assert fleet.detect(folder) == 0
    events, manifest = fleet.events, fleet.manifest.drop(columns="seconds")
    fleet.out = tmp_path / "again"
    assert fleet.detect(folder, workers=2) == 0
    assert fleet.events == events
    assert fleet.manifest.drop(columns="seconds").equals(manifest)
    assert len(fleet.written()) == MACHINES
    with LocalRunner(2) as runner:
        found = dict(runner.run(die_once, [(number, str(tmp_path)) for number in range(6)]))
    assert sorted(found.values()) == [0, 1, 4, 9, 16, 25]


def test_workers_that_are_killed_again_and_again_end_the_run():
    with LocalRunner(2) as runner, pytest.raises(PatchADError, match="killed again and again"):
        list(runner.run(die, [1, 2, 3]))


@pytest.mark.parametrize(("library", "options"), [("ray", ["--engine", "ray"]), ("pyarrow", [])])
def test_a_library_that_is_not_installed_is_named_with_its_extra(fleet, folder, monkeypatch, capsys, library, options):
    monkeypatch.setitem(sys.modules, library, None)
    assert fleet.detect(folder, *options) == 3
    assert (
        capsys.readouterr().err == f"error: {library} is not installed; install it with: pip install 'patchad[fleet]'\n"
    )
    assert not fleet.out.exists()
