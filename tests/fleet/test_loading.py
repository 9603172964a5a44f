"""Series by a column, whatever files and types hold them; files from elsewhere."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.conftest import WATCHED
from tests.fleet.conftest import assert_equals_detection, machine

from patchad import load
from patchad.data.reading import Reading
from patchad.fleet.loading import load as load_series
from patchad.fleet.planning import find_series
from patchad.fleet.runner import make_runner


def plant(*names: object, column: str = "machine") -> pd.DataFrame:
    """Give the rows of several machines in one frame, mixed as they are measured."""
    frames = [machine(number).assign(**{column: name}) for number, name in enumerate(names)]
    return pd.concat(frames).sort_values("time", kind="stable").reset_index(drop=True)


def test_rows_of_a_series_are_joined_across_files_of_different_kinds(fleet, tmp_path):
    rows = plant("007", "NA", "pump/1")
    rows.iloc[600:].to_csv(tmp_path / "a.csv", index=False)  # the later half comes first
    rows.iloc[:300].to_parquet(tmp_path / "b.parquet", index=False, row_group_size=100)
    rows.iloc[300:600].to_csv(tmp_path / "c.csv", index=False)
    assert fleet.detect(tmp_path / "*.csv", tmp_path / "b.parquet", "--by", "machine") == 0
    assert sorted(fleet.manifest["series"]) == ["007", "NA", "pump/1"]
    assert fleet.manifest["rows"].tolist() == [300] * 3
    detector = load(fleet.model)
    assert_equals_detection(fleet, "NA", detector.detect(machine(1)))
    assert (fleet.out / "scores" / "pump%2F1.parquet").exists()


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([1, 2], ["1", "2"]),
        ([1.0, np.nan], ["1"]),
        ([True, False], ["True", "False"]),
        (pd.Categorical(["b", "a"]), ["b", "a"]),
        ([" x ", ""], ["x"]),
    ],
)
def test_series_have_the_names_of_values(fleet, tmp_path, capsys, values, names):
    frame = pd.concat([machine(1), machine(2)], ignore_index=True)
    pd.DataFrame(frame.assign(unit=list(values[:1]) * 300 + list(values[1:]) * 300)).to_parquet(tmp_path / "a.parquet")
    assert fleet.detect(tmp_path / "a.parquet", "--by", "unit") == 0
    assert fleet.manifest["series"].tolist() == names
    if len(names) == 1:
        assert "left out 300 rows that have nothing in column 'unit'" in capsys.readouterr().err


def test_a_file_without_the_column_costs_a_line(fleet, tmp_path, capsys):
    plant("a", "b").to_parquet(tmp_path / "good.parquet")
    plant("a", "b").drop(columns="machine").to_parquet(tmp_path / "other.parquet")
    plant(None).to_parquet(tmp_path / "unnamed.parquet")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    files = [tmp_path / f"{name}.parquet" for name in ("good", "other", "unnamed", "torn")]
    assert fleet.detect(*files, "--by", "machine") == 2
    errors = fleet.manifest.set_index("series")["error"]
    assert errors[["a", "b"]].tolist() == ["", ""]
    assert "there is no column 'machine' to tell series by" in errors["other"]
    assert "no row has anything in column 'machine'" in errors["unnamed"]
    assert "torn.parquet: not a parquet file" in errors["torn"]
    assert "2 other series are complete" in capsys.readouterr().err


def test_rows_that_overlap_in_time_are_refused_unless_they_are_sorted(fleet, tmp_path, capsys):
    machine(1).iloc[::2].assign(machine="a").to_csv(tmp_path / "a.csv", index=False)
    machine(1).iloc[1::2].assign(machine="a").to_csv(tmp_path / "b.csv", index=False)
    machine(0).assign(machine="b").to_csv(tmp_path / "c.csv", index=False)
    data = [tmp_path / f"{name}.csv" for name in "abc"]
    assert fleet.detect(*data, "--by", "machine") == 2
    assert "a: time goes back at row 150" in capsys.readouterr().err
    assert fleet.detect(*data, "--by", "machine", "--sort") == 0
    assert_equals_detection(fleet, "a", load(fleet.model).detect(machine(1)))


def test_a_channel_that_a_file_lacks_is_missing_in_its_rows(fleet, tmp_path):
    machine(0).iloc[:150].assign(machine="a").to_csv(tmp_path / "a.csv", index=False)
    machine(0).iloc[150:].drop(columns="load").assign(machine="a").to_parquet(tmp_path / "b.parquet")
    assert fleet.detect(tmp_path / "a.csv", tmp_path / "b.parquet", "--by", "machine") == 0
    gappy = machine(0)
    gappy.loc[150:, "load"] = np.nan
    assert_equals_detection(fleet, "a", load(fleet.model).detect(gappy))


@pytest.mark.parametrize("change", [{"flow": "high"}, {"time": range(150)}])
def test_files_of_a_series_that_do_not_fit_each_other_are_refused(fleet, tmp_path, capsys, change):
    machine(0).iloc[:150].assign(machine="a").to_csv(tmp_path / "a.csv", index=False)
    machine(0).iloc[150:].assign(machine="a", **change).to_parquet(tmp_path / "b.parquet")
    assert fleet.detect(tmp_path / "a.csv", tmp_path / "b.parquet", "--by", "machine") == 2
    assert "write" in capsys.readouterr().err


def test_values_one_in_a_row_have_series_too(fleet, tmp_path):
    wide = machine(1).assign(machine="a")
    long = wide.melt(["time", "machine"], WATCHED, "sensor", "reading")
    long.iloc[:500].to_csv(tmp_path / "a.csv", index=False)
    long.iloc[500:].to_csv(tmp_path / "b.csv", index=False)
    data = [tmp_path / "a.csv", tmp_path / "b.csv"]
    assert fleet.detect(*data, "--by", "machine", "--long", "time,sensor,reading") == 0
    assert_equals_detection(fleet, "a", load(fleet.model).detect(machine(1)))


def test_groups_are_columns_with_one_value(tmp_path):
    plant("a", "b").assign(site="north", line=3, shift=lambda f: f.index // 300).to_csv(tmp_path / "a.csv", index=False)
    with make_runner("local", 1, None) as runner:
        found = find_series([str(tmp_path / "a.csv")], "machine", Reading(), runner)
    for _, loaded in load_series(found.sources, "machine", Reading()):
        assert loaded.groups(WATCHED) == {"site": "north", "line": "3"}


def test_rows_that_vanish_between_two_looks_are_an_error(tmp_path):
    plant("a", "b").to_csv(tmp_path / "a.csv", index=False)
    with make_runner("local", 1, None) as runner:
        found = find_series([str(tmp_path / "a.csv")], "machine", Reading(), runner)
    plant("a").to_csv(tmp_path / "a.csv", index=False)
    kinds = {source.name: type(loaded).__name__ for source, loaded in load_series(found.sources, "machine", Reading())}
    assert kinds == {"a": "Loaded", "b": "InputError"}
    (tmp_path / "a.csv").write_text('a,b\n1,"2\n')
    assert all(type(one).__name__ == "InputError" for _, one in load_series(found.sources, "machine", Reading()))


# -- from elsewhere ---------------------------------------------------------------------------------------------------


@pytest.fixture
def remote():
    import fsspec

    system = fsspec.filesystem("memory")
    system.pipe_file("/plant/m0.csv", machine(0).to_csv(index=False).encode())
    system.pipe_file("/plant/m1.csv", machine(1).to_csv(index=False).encode())
    system.pipe_file("/plant/notes.pdf", b"")
    yield "memory://plant"
    system.store.clear()


@pytest.mark.parametrize("pattern", ["", "/*.csv", "/m1.csv"])
def test_data_may_lie_wherever_fsspec_reaches(fleet, remote, pattern):
    assert fleet.detect(remote + pattern) == 0
    assert_equals_detection(fleet, "m1", load(fleet.model).detect(machine(1)))


def test_the_whole_path_names_a_series_where_files_have_one_name(fleet, remote, folder):
    assert fleet.detect(folder / "m1.csv", f"{remote}/m1.csv") == 0
    assert fleet.manifest["series"].tolist() == [str(folder / "m1.csv"), "memory:///plant/m1.csv"]
    assert len(fleet.written()) == 2


@pytest.mark.parametrize(
    "url", ["memory://none", "memory://plant/*.nothing", "memory://plant/notes.pdf", "odd://x.csv"]
)
def test_addresses_that_lead_nowhere_are_refused(fleet, remote, capsys, url):
    assert fleet.detect(url) == 2
    assert capsys.readouterr().err.startswith(f"error: {url}")
