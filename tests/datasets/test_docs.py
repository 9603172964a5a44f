"""The page on datasets: its table is the catalogue's, and its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests import native

from patchad.datasets import DATASETS
from patchad.datasets.catalogue import markdown
from patchad.datasets.loading import LAYOUTS

PAGE = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")


def test_the_table_is_the_catalogues() -> None:
    assert markdown() in PAGE


def test_every_dataset_has_its_section_with_its_layouts() -> None:
    for name, row in DATASETS.items():
        section = PAGE.split(f"### {name}\n")[1].split("\n#")[0]
        assert row.home in section
        assert row.note in section
        assert all(f"`{layout.files}`" in section for layout in LAYOUTS[name])


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
