"""Every dataset in its native layout, a few rows each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests import native

from patchad.datasets import load
from patchad.errors import InputError, MissingExtraError


@pytest.mark.parametrize("arrays", [".", "data", "data/data"])
@pytest.mark.parametrize("folder", ["SMAP", "telemanom", "SMAP_MSL", "nasa", "."])
def test_telemanom(tmp_path: Path, folder: str, arrays: str) -> None:
    native.telemanom(tmp_path / folder, arrays)
    channels = load("SMAP", tmp_path)
    assert [entity.name for entity in channels] == ["A-1", "P-1"]  # sorted, without P-2
    assert np.flatnonzero(channels[0].labels).tolist() == [0]
    assert np.flatnonzero(channels[1].labels).tolist() == [2, 3, 5, 6, 7, 8, 9]  # both ends belong to a sequence
    assert channels[1].train.shape == (8, 25)
    if folder != "SMAP":
        assert [(entity.name, entity.channels) for entity in load("MSL", tmp_path)] == [("M-6", 55)]


def test_telemanom_with_a_malformed_label_file_is_refused(tmp_path: Path) -> None:
    native.telemanom(tmp_path / "MSL")
    native.write(tmp_path / "MSL" / "labeled_anomalies.csv", "a,b\n1,2\n")
    with pytest.raises(InputError, match="needs the columns"):
        load("MSL", tmp_path)
    broken = 'chan_id,spacecraft,anomaly_sequences\nM-6,MSL,"[1, "\n'
    native.write(tmp_path / "MSL" / "labeled_anomalies.csv", broken)
    with pytest.raises(InputError, match="anomaly_sequences must be lists"):
        load("MSL", tmp_path)


@pytest.mark.parametrize("folder", ["PSM", "psm", "RANSynCoders/data"])
def test_psm(tmp_path: Path, folder: str) -> None:
    native.psm(tmp_path / folder)
    (entity,) = load("PSM", tmp_path)
    assert entity.train.tolist() == [[1, 2, 3], [0, 5, 6], [7, 8, 9]]  # no timestamp; missing values are 0
    assert entity.labels.tolist() == [False, True]


def test_psm_without_labels_is_refused(tmp_path: Path) -> None:
    native.psm(tmp_path / "PSM")
    (tmp_path / "PSM" / "test_label.csv").unlink()
    with pytest.raises(InputError, match=r"test_label.csv does not; all three files are needed"):
        load("PSM", tmp_path)


def test_psm_with_text_is_refused(tmp_path: Path) -> None:
    native.psm(tmp_path / "PSM")
    native.write(tmp_path / "PSM" / "test.csv", "timestamp_(min),feature_0\n0,high\n")
    with pytest.raises(InputError, match="must contain only numbers"):
        load("PSM", tmp_path)


def check_swat(root: Path) -> None:
    (entity,) = load("SWaT", root)
    np.testing.assert_array_equal(entity.train, native.rows(11, 4).astype(np.float32))
    np.testing.assert_array_equal(entity.test, native.rows(6, 4).astype(np.float32))
    assert entity.labels.tolist() == [False, True, True, False, True, False]


@pytest.mark.parametrize("preamble", [0, 1, 10])
@pytest.mark.parametrize("separator", [",", ";"])
def test_swat_csv(tmp_path: Path, separator: str, preamble: int) -> None:
    native.swat_csv(tmp_path / "SWaT", separator, preamble)
    check_swat(tmp_path)


def test_swat_xlsx_in_the_folders_of_the_release(tmp_path: Path) -> None:
    native.swat_xlsx(tmp_path / "SWaT.A1 & A2_Dec 2015" / "Physical")
    check_swat(tmp_path)
    check_swat(tmp_path / "SWaT.A1 & A2_Dec 2015")


@pytest.mark.parametrize("write", [native.swat_csv, native.swat_xlsx])
def test_a_sheet_is_read_in_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    monkeypatch.setattr("patchad.datasets.sheets._CHUNK_ROWS", 3)
    monkeypatch.setattr("patchad.datasets.sheets._HEADER_ROWS", 3)
    write(tmp_path / "SWaT")
    check_swat(tmp_path)


def test_a_sheet_with_quoted_decimal_commas_and_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sheet = ' Timestamp,FIT101,LIT101,Normal/Attack\n1,"2,5",1,Normal\n2,"3,5",Bad Input,Attack\n'
    for name in ("SWaT_Dataset_Normal_v1", "SWaT_Dataset_Attack_v0"):
        native.write(tmp_path / "SWaT" / f"{name}.csv", sheet)
    (entity,) = load("SWaT", tmp_path)
    assert entity.train.tolist() == [[2.5, 1], [3.5, 1]]
    assert "LIT101: 1 cells with text like 'Bad Input'" in caplog.text


def test_swat_xlsx_without_openpyxl_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    native.swat_xlsx(tmp_path / "SWaT")
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"patchad\[data\]"):
        load("SWaT", tmp_path)


def test_swat_under_generic_names_needs_its_own_folder(tmp_path: Path) -> None:
    native.swat_csv(tmp_path / "SWaT")
    for old, new in (("SWaT_Dataset_Normal_v1", "normal"), ("SWaT_Dataset_Attack_v0", "attack")):
        (tmp_path / "SWaT" / f"{old}.csv").rename(tmp_path / "SWaT" / f"{new}.csv")
    check_swat(tmp_path)
    (tmp_path / "SWaT").rename(tmp_path / "other")
    with pytest.raises(InputError, match="no files of SWaT"):
        load("SWaT", tmp_path / "other")


def test_swat_as_shared_by_benchmarks(tmp_path: Path) -> None:
    native.write(tmp_path / "SWaT" / "swat_train2.csv", "FIT101,LIT101,Normal/Attack\n1,2,0\n3,4,0\n")
    native.write(tmp_path / "SWaT" / "swat2.csv", "FIT101,LIT101,Normal/Attack\n1,2,0.0\n3,4,1.0\n")
    (entity,) = load("SWaT", tmp_path)
    assert (entity.channels, entity.labels.tolist()) == (2, [False, True])


def test_swat_thinned_as_in_the_paper(tmp_path: Path) -> None:
    native.swat_csv(tmp_path / "SWaT")
    (entity,) = load("SWaT", tmp_path, every=5)
    assert (entity.train[:, 0].tolist(), entity.test[:, 0].tolist()) == ([0, 5, 10], [0, 5])
    assert entity.labels.tolist() == [False, False]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("A ttack", "maybe", r"labels \['maybe'\]"),
        ("Normal/Attack", "verdict", "no label column"),
        (" LIT101", " LIT999", r"lacks the channels \['LIT101'\]"),
    ],
)
def test_malformed_swat_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    native.swat_csv(tmp_path / "SWaT")
    attack = tmp_path / "SWaT" / "SWaT_Dataset_Attack_v0.csv"
    attack.write_text(attack.read_text().replace(old, new))
    with pytest.raises(InputError, match=message):
        load("SWaT", tmp_path)


def test_a_sheet_without_a_header_is_refused(tmp_path: Path) -> None:
    native.swat_csv(tmp_path / "SWaT")
    native.write(tmp_path / "SWaT" / "SWaT_Dataset_Normal_v1.csv", "1,2\n3,4\n")
    with pytest.raises(InputError, match="has no header in its first 25 rows"):
        load("SWaT", tmp_path)


def test_a_sheet_without_rows_is_refused(tmp_path: Path) -> None:
    native.swat_csv(tmp_path / "SWaT")
    native.write(tmp_path / "SWaT" / "SWaT_Dataset_Normal_v1.csv", " Timestamp,FIT101,Normal/Attack\n")
    with pytest.raises(InputError, match="no rows of numbers"):
        load("SWaT", tmp_path)


def test_wadi_of_2019(tmp_path: Path) -> None:
    native.wadi_2019(tmp_path / "WADI" / "WADI.A2_19 Nov 2019")
    (entity,) = load("WADI", tmp_path)
    assert entity.channels == 3  # the one without any number is dropped
    assert entity.test[:, 1].tolist() == pytest.approx(
        [0.01, 1.01, 1.01, 3.01, 4.01, 5.01]
    )  # a gap repeats the last value
    assert entity.labels.tolist() == [
        False,
        True,
        True,
        False,
        False,
        False,
    ]  # the two empty rows at the end are dropped


def test_wadi_of_2017_takes_the_attacks_from_the_documentation(tmp_path: Path) -> None:
    native.wadi_2017(tmp_path / "WADI.A1_9 Oct 2017", test=5120)
    (entity,) = load("WADI", tmp_path)
    assert (entity.channels, len(entity.train)) == (3, 11)
    assert np.flatnonzero(entity.labels).tolist() == list(range(5100, 5120))  # 19:25:00, rows start at 18:00:00


def test_wadi_with_unknown_labels_is_refused(tmp_path: Path) -> None:
    native.wadi_2019(tmp_path / "WADI")
    attack = tmp_path / "WADI" / "WADI_attackdataLABLE.csv"
    whole = attack.read_text()
    for mark, message in ((",7\n", "labels .* 1 and -1, or 0 and 1"), (",x\n", "not a number")):
        attack.write_text(whole.replace(",-1\n", mark))
        with pytest.raises(InputError, match=message):
            load("WADI", tmp_path)
    attack.write_text(whole.replace(",1\n", ",0\n").replace(",-1\n", ",1\n"))
    assert load("WADI", tmp_path)[0].labels.sum() == 2


@pytest.mark.parametrize("name", ["1_gecco2018_water_quality.csv", "gecco.csv"])
def test_gecco_water_quality(tmp_path: Path, name: str) -> None:
    native.water(tmp_path / "GECCO", name)
    (entity,) = load("NIPS-TS-GECCO", tmp_path)
    assert (entity.name, entity.train.shape, entity.test.shape) == ("GECCO", (3, 9), (3, 9))  # one of 7 rows has a gap
    assert entity.test[:, 0].tolist() == [4, 5, 6]
    assert entity.labels.tolist() == [False, True, False]


def test_gecco_as_tods_writes_it(tmp_path: Path) -> None:
    body = "\n".join(f"{int(i == 3)},{i},{i}.5" for i in range(4))
    native.write(tmp_path / "GECCO" / "water_quality.csv", f"label,Tp,Cl\n{body}\n")
    (entity,) = load("GECCO", tmp_path)
    assert (entity.train.tolist(), entity.labels.tolist()) == ([[0, 0.5], [1, 1.5]], [False, True])


def test_gecco_without_label_is_refused(tmp_path: Path) -> None:
    native.write(tmp_path / "GECCO" / "gecco.csv", "Time,Tp\n0,1\n1,2\n")
    with pytest.raises(InputError, match="no column EVENT or label"):
        load("GECCO", tmp_path)


def test_swan_slices(tmp_path: Path) -> None:
    native.swan_slices(tmp_path / "SWAN")
    (entity,) = load("NIPS-TS-SWAN", tmp_path)
    assert entity.train.tolist() == [
        [0, 0, 1],
        [1, 0, 1],
        [2, 2, 1],
    ]  # gaps repeat, empty and location columns are dropped
    assert (entity.test[:, 0].tolist(), entity.labels.all()) == ([10, 11, 12], True)


def test_gecco_and_skab_with_text_are_refused(tmp_path: Path) -> None:
    native.write(tmp_path / "GECCO" / "gecco.csv", "Tp,EVENT\nwarm,0\ncold,1\n")
    native.write(tmp_path / "SKAB" / "valve1" / "1.csv", "datetime;Current;anomaly\n2020-03-09;high;0\n")
    for name in ("GECCO", "SKAB"):
        with pytest.raises(InputError, match="must contain only numbers"):
            load(name, tmp_path)


def test_swan_slice_without_class_is_refused(tmp_path: Path) -> None:
    native.write(tmp_path / "SWAN" / "petdataset_01" / "x.csv", "Timestamp\tA\n2012-01-01\t1\n")
    with pytest.raises(InputError, match="no class in its name"):
        load("SWAN", tmp_path)


def test_swan_as_tods_writes_it(tmp_path: Path) -> None:
    native.write(tmp_path / "SWAN" / "swan_sf.csv", "label,A,B\n0,1,2\n1,3,4\n1,5,6\n0,7,8\n")
    (entity,) = load("swan", tmp_path)
    assert (entity.test.tolist(), entity.labels.tolist()) == ([[5, 6], [7, 8]], [True, False])


@pytest.mark.parametrize(
    "folder", ["UCR", "UCR_Anomaly_FullData", "AnomalyDatasets_2021/UCR_2021/FilesAreInHere/UCR_Anomaly_FullData", "."]
)
def test_ucr(tmp_path: Path, folder: str) -> None:
    native.ucr(tmp_path / folder)
    first, unlabelled, one_line = load("UCR", tmp_path)
    assert first.name == "001_UCR_Anomaly_DISTORTED1sddb40_5_7_9"
    assert (first.train.ravel().tolist(), first.test[0, 0]) == ([0, 1, 2, 3, 4], 5)
    assert np.flatnonzero(first.labels).tolist() == [2, 3, 4]
    assert not unlabelled.labels.any()  # its anomaly is in the train part
    assert (one_line.train.shape, one_line.labels.tolist()) == ((10, 1), [False, True])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("001_UCR_Anomaly_x_5_7.txt", "1 2", "does not have the form"),
        ("001_UCR_Anomaly_x_1_2_3.txt", "1 b", "only numbers"),
    ],
)
def test_malformed_ucr_files_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    native.write(tmp_path / "UCR" / name, text)
    with pytest.raises(InputError, match=message):
        load("UCR", tmp_path)


@pytest.mark.parametrize("folder", ["SMD", "ServerMachineDataset", "OmniAnomaly/ServerMachineDataset", "."])
@pytest.mark.parametrize("label", ["test_label", "labels"])
def test_smd(tmp_path: Path, folder: str, label: str) -> None:
    native.smd(tmp_path / folder, label)
    machines = load("SMD", tmp_path)
    assert [entity.name for entity in machines] == ["machine-1-1", "machine-3-10", "machine-3-2"]
    assert machines[0].train.shape == (5, 38)
    assert machines[0].labels.tolist() == [False, False, True, False]


def test_smd_with_a_missing_or_broken_file_is_refused(tmp_path: Path) -> None:
    native.smd(tmp_path / "SMD")
    native.write(tmp_path / "SMD" / "test" / "machine-1-1.txt", "1,x\n")
    with pytest.raises(InputError, match="comma-separated numbers"):
        load("SMD", tmp_path)
    (tmp_path / "SMD" / "test" / "machine-1-1.txt").unlink()
    with pytest.raises(InputError, match="both are needed"):
        load("SMD", tmp_path)


def test_asd_pickles(tmp_path: Path) -> None:
    for server in ("omi-1", "omi-10", "omi-2"):
        native.triple(tmp_path / "ASD", server, 19, "pkl")
    servers = load("ASD", tmp_path)
    assert [entity.name for entity in servers] == ["omi-1", "omi-10", "omi-2"]
    np.testing.assert_array_equal(servers[0].train, native.rows(6, 19).astype(np.float32))


@pytest.mark.parametrize("folder", ["SKAB", "SKAB/data"])
def test_skab(tmp_path: Path, folder: str) -> None:
    native.skab(tmp_path / folder)
    experiments = load("SKAB", tmp_path)
    assert [entity.name for entity in experiments] == ["other_1", "valve1_10", "valve1_2"]
    for entity in experiments:
        assert (entity.train.shape, entity.test.shape) == ((400, 8), (5, 8))
        assert np.flatnonzero(entity.labels).tolist() == [2]


def test_skab_without_label_is_refused(tmp_path: Path) -> None:
    native.write(tmp_path / "SKAB" / "valve1" / "1.csv", "datetime;Current\n2020-03-09;1.0\n")
    with pytest.raises(InputError, match="no column anomaly"):
        load("SKAB", tmp_path)


def test_nab(tmp_path: Path) -> None:
    native.nab(tmp_path / "NAB")
    taxi, unlabelled = load("NAB", tmp_path)
    assert (taxi.name, unlabelled.name) == ("realKnownCause__nyc_taxi", "realTweets__none")
    assert (taxi.train.ravel().tolist(), len(taxi.test)) == ([0, 1, 2], 17)  # 15 % of 20 rows
    assert np.flatnonzero(taxi.labels).tolist() == [1, 2, 3]
    assert not unlabelled.labels.any()


def test_nab_with_other_columns_is_refused(tmp_path: Path) -> None:
    native.nab(tmp_path / "NAB")
    native.write(tmp_path / "NAB" / "data" / "realTweets" / "none.csv", "time,x\n1,2\n")
    with pytest.raises(InputError, match="needs the columns timestamp and value"):
        load("NAB", tmp_path)


@pytest.mark.parametrize("folder", ["TSB-AD-U", "."])
def test_tsb_ad(tmp_path: Path, folder: str) -> None:
    native.tsb_ad(tmp_path / folder)
    (exathlon,), (iops,) = load("exathlon", tmp_path), load("IOPS", tmp_path)
    assert exathlon.name == "810_Exathlon_id_1_Facility_tr_3_1st_4"
    assert (exathlon.train.ravel().tolist(), exathlon.labels.tolist()) == ([0.5, 1.5, 2.5], [False, True, False])
    assert (len(iops.train), len(iops.test)) == (2, 4)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("1_IOPS_id_1_W.csv", "Data,Label\n1,0\n", "does not have the form"),
        ("1_IOPS_id_1_W_tr_1_1st_2.csv", "Data,Label\na,0\nb,1\n", "must contain only numbers"),
        ("1_IOPS_id_1_W_tr_1_1st_2.csv", "", "cannot be read"),
        ("1_IOPS_id_1_W_tr_1_1st_2.csv", "Data,Label\n1e300,0\n1,1\n", "missing or infinite"),
    ],
)
def test_malformed_tsb_ad_files_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    native.write(tmp_path / "IOPS" / name, text)
    with pytest.raises(InputError, match=message):
        load("IOPS", tmp_path)
