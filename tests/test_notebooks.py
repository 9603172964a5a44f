"""The notebooks of the documentation: how they are read and run, and, in `make test-all`, that they run."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("notebooks", ROOT / "scripts" / "notebooks.py")
notebooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(notebooks)

SOURCE = """# %% [markdown]
# # Title
#
# Some text.

# %%
import pandas as pd

print("printed")
pd.DataFrame({"a": [1]})

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(1, 1))
axes.set_title("a line")
figure.tight_layout()

# %%
a = 6
a * 7
"""


def test_a_page_has_text_code_and_what_came_of_it(tmp_path):
    (tmp_path / "source.py").write_text(SOURCE)
    (tmp_path / "out").mkdir()
    notebooks.run(tmp_path / "source.py", tmp_path / "out")
    page = (tmp_path / "out" / "source.md").read_text()
    assert page.startswith("# Title\n\nSome text.")
    assert "```text\nprinted\n```\n\n<div><table><thead>" in page
    assert "![a line](source-1.png)" in page
    assert (tmp_path / "out" / "source-1.png").stat().st_size > 100
    assert page.endswith("a * 7\n```\n\n```text\n42\n```\n")


def test_the_file_for_jupyter_is_a_notebook_without_results():
    written = json.loads(json.dumps(notebooks.to_jupyter(notebooks.read_cells(SOURCE))))
    assert (written["nbformat"], written["nbformat_minor"]) == (4, 5)
    assert [cell["cell_type"] for cell in written["cells"]] == ["markdown", "code", "code", "code"]
    assert "".join(written["cells"][3]["source"]) == "a = 6\na * 7"
    assert all(cell["outputs"] == [] for cell in written["cells"][1:])
    assert len({cell["id"] for cell in written["cells"]}) == 4


@pytest.mark.parametrize("cell", ["1 / 0", "import warnings\nwarnings.warn('old')"])
def test_a_mistake_or_a_warning_ends_the_build(cell, tmp_path):
    (tmp_path / "source.py").write_text(f"# %% [markdown]\n# # Title\n# %%\n{cell}\n")
    with pytest.raises((ZeroDivisionError, UserWarning)):
        notebooks.run(tmp_path / "source.py", tmp_path)
    assert not (tmp_path / "source.md").exists()


@pytest.mark.slow
@pytest.mark.parametrize("source", sorted(notebooks.SOURCES.glob("*.py")), ids=lambda path: path.stem)
def test_the_notebooks_run(source, tmp_path):
    assert notebooks.run(source, tmp_path) < notebooks.LIMIT
