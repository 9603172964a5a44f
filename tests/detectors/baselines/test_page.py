"""The page of comparison methods quotes the first line of every baseline's docstring."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from patchad.detectors.baselines import BASELINES

PAGE = Path(__file__).parents[3] / "docs" / "baselines.md"
QUOTED = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE.read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", BASELINES)
def test_the_page_quotes_the_docstring(name):
    assert QUOTED[name] + "." == inspect.getdoc(BASELINES[name]).splitlines()[0]
