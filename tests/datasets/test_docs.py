"""The documentation of datasets matches the catalogue, and its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests import native

from patchad.datasets import DATASETS
from patchad.datasets.catalogue import markdown

PAGE = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")


def test_the_table_is_that_of_the_catalogue() -> None:
    assert markdown() in PAGE


def test_every_dataset_has_a_section_with_its_folders_and_layouts() -> None:
    for name, dataset in DATASETS.items():
        section = " ".join(PAGE.split(f"### {name}\n")[1].split("\n#")[0].split())
        assert f"Home: <{dataset.home}>." in section
        assert dataset.note in section
        assert all(f"`{folder}`" in section for folder in (name, *dataset.folders))
        assert all(f"`{layout.files}`" in section for layout in dataset.layouts)


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    native.npz(tmp_path / "data" / "MSL" / "channels" / "C-1.npz", 55)
    native.npz(tmp_path / "data" / "MSL" / "channels" / "C-2.npz", 55)
    native.swat_csv(tmp_path / "data" / "SWaT")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    for block in blocks:
        exec(block, names)
    out = capsys.readouterr().out
    assert len(blocks) == 4
    assert "C-1 (6, 55) (4, 55) 0.25" in out
    assert "SWaT cannot be downloaded; request access at" in out
