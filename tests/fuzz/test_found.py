"""What the fuzz suite found, each by itself."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from patchad import InputError, ModelFileError, load
from patchad.cli.main import run
from patchad.data.inputs import read_table
from patchad.data.table import to_table
from patchad.detectors import checkpoint
from patchad.thresholds.registry import make_threshold


def test_an_infinite_time_is_no_time(fitted, train):
    frame = pd.DataFrame(train[:3])
    frame.insert(0, "time", [0.0, 1.0, np.inf])
    with pytest.raises(InputError, match="row 2 has no time"):
        fitted.detect(to_table(frame, time="time"))


def test_a_workbook_with_nothing_but_a_header_has_no_row(tmp_path):
    pytest.importorskip("openpyxl")
    pd.DataFrame({"a": [], "b": []}).to_excel(tmp_path / "a.xlsx", index=False)
    with pytest.raises(InputError, match="no row"):
        read_table(tmp_path / "a.xlsx")


def test_evaluate_refuses_a_column_of_times(tmp_path, capsys):
    times = pd.date_range("2024-01-01", periods=5)
    pd.DataFrame({"time": times, "label": [0, 1, 0, 0, 1]}).to_csv(tmp_path / "a.csv", index=False)
    assert run(["evaluate", str(tmp_path / "a.csv"), "--labels", "label", "--scores", "time"]) == 2
    assert "holds times" in capsys.readouterr().err


def test_a_model_without_the_witness_that_events_need_is_refused(fitted, tmp_path):
    header, arrays = checkpoint.read(fitted.save(tmp_path / "m"))
    header["learned"]["rule_.witnesses"] = 1
    checkpoint.write(tmp_path / "m", header, arrays)
    with pytest.raises(ModelFileError):
        load(tmp_path / "m")


def test_a_model_whose_score_has_an_absurd_power_is_refused(fitted, tmp_path):
    header, arrays = checkpoint.read(fitted.save(tmp_path / "m"))
    header["learned"]["rule_.emphasis"] = -(10**18)
    checkpoint.write(tmp_path / "m", header, arrays)
    with pytest.raises(ModelFileError):
        load(tmp_path / "m")


@pytest.mark.parametrize("level", [np.inf, "1e400", "nan", 10**400])
def test_a_level_that_no_score_can_pass_is_no_threshold(level):
    with pytest.raises(InputError, match="finite"):
        make_threshold(level)


def test_records_in_several_dimensions_are_no_table(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 3), dtype=[("a", "f8"), ("b", "f8")]))
    with pytest.raises(InputError, match="one record for each row"):
        read_table(tmp_path / "a.npy")


def test_a_model_file_that_does_not_count_its_parameters_is_refused(fitted, tmp_path):
    header, arrays = checkpoint.read(fitted.save(tmp_path / "m"))
    del header["n_parameters"]
    checkpoint.write(tmp_path / "m", header, arrays)
    with pytest.raises(ModelFileError):
        load(tmp_path / "m")
