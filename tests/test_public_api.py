"""What the package promises about itself: names, import cost, side effects, size of its files."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import patchad

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "patchad").rglob("*.py"))


def test_every_public_name_is_there():
    for name in patchad.__all__:
        assert getattr(patchad, name) is not None
    assert set(patchad.__all__) == set(patchad._HOMES)
    assert set(patchad.__all__) <= set(dir(patchad))
    with pytest.raises(AttributeError, match="no attribute 'Patchad'"):
        _ = patchad.Patchad


def test_importing_loads_no_torch_and_changes_nothing():
    code = """
import logging, sys, time, warnings, random
filters, handlers, state = list(warnings.filters), list(logging.root.handlers), random.getstate()
start = time.perf_counter()
import patchad
spent = time.perf_counter() - start
heavy = {'torch', 'sklearn', 'pandas', 'scipy', 'numpy', 'plotly', 'tsdownsample'}
assert not heavy & set(sys.modules), 'heavy imports'
assert (filters, handlers, state) == (list(warnings.filters), list(logging.root.handlers), random.getstate())
assert spent < 0.3, spent
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_module_is_one_idea_of_at_most_450_lines_and_functions_of_50(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 450
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name != "__init__":
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body:
                assert body[-1].end_lineno - body[0].lineno < 50, node.name


def test_the_contracts_of_the_readme_hold():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pinned = dict(line.lower().split("==") for line in (ROOT / "constraints.txt").read_text().split())
    assert pinned["torch"] == "2.13.0"
    for requirement in config["project"]["dependencies"]:
        assert re.split(r"[><=]", requirement)[0] in pinned, requirement
