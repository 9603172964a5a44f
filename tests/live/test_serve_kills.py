"""`patchad serve`, killed at random moments under load."""

from __future__ import annotations

import argparse

import pytest
from benchmarks.serve import measure_kills


@pytest.mark.live
def test_kills_lose_no_row_and_double_none(capsys):
    options = argparse.Namespace(kills=3, streams=2, longest=2.0, seed=1, model=None)
    measure_kills(options)  # exits where a row, a verdict, an event or an acknowledgement is wrong
    assert "other than undisturbed 0" in capsys.readouterr().out
