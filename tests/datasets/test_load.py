"""Names, folders, shared layouts, and the comparison with published sizes."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests import native

from patchad.datasets import DATASETS, check, load
from patchad.datasets.catalogue import lookup
from patchad.datasets.dataset import Dataset
from patchad.errors import InputError

PREFIXES = [
    *((name, name) for name in DATASETS if name != "GECCO-challenge"),
    ("SWAN", "NIPS_TS_Swan"),
    ("GECCO", "NIPS_TS_Water"),
    ("GECCO", "NIPS_TS_GECCO"),
    ("GECCO-challenge", "GECCO_challenge"),
    ("UCR", "UCR_7"),
    ("SMD", "machine-1-1"),
    ("ASD", "omi-3"),
]


def npz_files(dataset: Dataset) -> dict[str, str]:
    """Files of the npz layout in the dataset's folder, by entity; of two entities if it has several."""
    files = next(layout.files for layout in dataset.layouts if layout.files.endswith(".npz"))
    if "*" not in files:
        return {dataset.name: files}
    return {entity: str(Path(files).with_name(f"{entity}.npz")) for entity in dataset.sample[:2]}


def write_npz(folder: Path, dataset: Dataset) -> None:
    for number, file in enumerate(npz_files(dataset).values()):
        native.npz(folder / file, dataset.size.channels, start=100 * number)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for dataset in DATASETS.values():
        write_npz(tmp_path / dataset.name, dataset)
    return tmp_path


def test_the_catalogue_is_keyed_by_the_names_of_the_datasets() -> None:
    assert all(name == dataset.name for name, dataset in DATASETS.items())


@pytest.mark.parametrize("name", DATASETS)
def test_npz_layout(root: Path, name: str) -> None:
    entities = load(name.lower(), root)
    assert [entity.name for entity in entities] == sorted(npz_files(DATASETS[name]))
    assert all(entity.channels == DATASETS[name].size.channels for entity in entities)
    assert all(entity.labels.tolist() == [False, True, False, False] for entity in entities)


@pytest.mark.parametrize("name", DATASETS)
def test_joined_is_one_entity_with_all_rows_in_order(root: Path, name: str) -> None:
    entities = load(name, root)
    (whole,) = load(name, root, joined=True)
    assert whole.name == name
    for array in ("train", "test", "labels"):
        np.testing.assert_array_equal(
            getattr(whole, array), np.concatenate([getattr(entity, array) for entity in entities])
        )


@pytest.mark.parametrize(
    ("name", "folder"), [(name, folder) for name, dataset in DATASETS.items() for folder in (name, *dataset.folders)]
)
def test_every_folder_name_is_accepted_below_the_root_and_as_root(tmp_path: Path, name: str, folder: str) -> None:
    write_npz(tmp_path / folder, DATASETS[name])
    assert len(load(name, tmp_path)) == len(load(name, tmp_path / folder)) == len(npz_files(DATASETS[name]))


def test_a_folder_of_another_dataset_is_not_mistaken(root: Path) -> None:
    with pytest.raises(InputError, match="no files of SMAP"):
        load("SMAP", root / "MSL")


@pytest.mark.parametrize(("name", "prefix"), PREFIXES)
@pytest.mark.parametrize("folder", ["own", "."])
def test_triples_of_benchmark_repositories(tmp_path: Path, name: str, prefix: str, folder: str) -> None:
    native.triple(tmp_path / (name if folder == "own" else folder), prefix, channels=3)
    (entity,) = load(name, tmp_path)
    assert entity.name == (prefix if prefix in {"UCR_7", "machine-1-1", "omi-3"} else name)
    np.testing.assert_array_equal(entity.test, native.rows(4, 3).astype(np.float32))
    assert entity.labels.tolist() == [False, True, True, False]


def test_triples_with_flat_values_and_labels_as_a_column(tmp_path: Path) -> None:
    native.triple(tmp_path / "UCR", "UCR_12", channels=1)
    np.save(tmp_path / "UCR" / "UCR_12_train.npy", np.arange(6.0))
    np.save(tmp_path / "UCR" / "UCR_12_test_label.npy", np.array([[0], [1], [1], [0]]))
    (entity,) = load("UCR", tmp_path)
    assert (entity.train.shape, entity.labels.tolist()) == ((6, 1), [False, True, True, False])


def test_an_incomplete_triple_is_refused(tmp_path: Path) -> None:
    native.triple(tmp_path / "MSL", "MSL")
    (tmp_path / "MSL" / "MSL_test_label.npy").unlink()
    with pytest.raises(InputError, match="all three files are needed"):
        load("MSL", tmp_path)


def test_the_joined_file_alone_is_one_entity(tmp_path: Path) -> None:
    native.npz(tmp_path / "MSL" / "MSL.npz", 55)
    assert [entity.name for entity in load("MSL", tmp_path)] == ["MSL"]
    assert not any(difference.what == "entities" for difference in check(tmp_path, ["MSL"])[0].differences)


class _Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("trapped",)


def test_a_pickle_with_more_than_arrays_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    native.triple(tmp_path / "ASD", "omi-1", suffix="pkl")
    for protocol in range(6):
        (tmp_path / "ASD" / "omi-1_test.pkl").write_bytes(pickle.dumps(_Trap(), protocol=protocol))
        with pytest.raises(InputError, match="only arrays are accepted"):
            load("ASD", tmp_path)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("protocol", range(6))
def test_pickled_arrays_of_every_protocol_are_read(tmp_path: Path, protocol: int) -> None:
    native.triple(tmp_path / "ASD", "omi-1", suffix="pkl")
    data = pickle.dumps(native.rows(6, 2, start=7), protocol=protocol)
    old = data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray") if protocol < 2 else data
    (tmp_path / "ASD" / "omi-1_train.pkl").write_bytes(old)
    assert load("ASD", tmp_path)[0].train[0, 0] == 7


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"no archive"])
def test_a_broken_npz_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "SMD").mkdir()
    (tmp_path / "SMD" / "machine-1-1.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"machine-1-1\.npz cannot be read"):
        load("SMD", tmp_path)
    assert check(tmp_path, ["SMD"])[0].state == "unreadable"


def test_an_npz_with_missing_arrays_is_named(tmp_path: Path) -> None:
    (tmp_path / "PSM").mkdir()
    np.savez(tmp_path / "PSM" / "PSM.npz", train=np.zeros((2, 1)))
    with pytest.raises(InputError, match=r"lacks the arrays \['test', 'test_label'\]"):
        load("PSM", tmp_path)


def test_a_broken_npy_is_named(tmp_path: Path) -> None:
    native.triple(tmp_path / "MSL", "MSL")
    (tmp_path / "MSL" / "MSL_test.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(InputError, match=r"MSL_test\.npy cannot be read"):
        load("MSL", tmp_path)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("msl", "MSL"),
        ("Swat", "SWaT"),
        ("NIPS-TS-SWAN", "SWAN"),
        ("nips_ts_swan", "SWAN"),
        ("NIPS-TS-GECCO", "GECCO"),
        ("NIPS_TS_Water", "GECCO"),
        ("gecco-Challenge", "GECCO-challenge"),
        ("EXATHLON", "Exathlon"),
    ],
)
def test_names_in_any_case(name: str, found: str) -> None:
    assert lookup(name).name == found


def test_an_unknown_name_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no dataset 'SWOT'; did you mean SWaT\\? known datasets: MSL, SMAP"):
        load("SWOT", tmp_path)
    with pytest.raises(ValueError, match="no dataset 'credit card'; known datasets:"):
        load("credit card", tmp_path)


@pytest.mark.parametrize("name", DATASETS)
def test_the_error_for_missing_files_lists_folders_and_layouts_and_how_to_get_them(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        load(name, tmp_path)
    message = str(caught.value)
    assert str(tmp_path / name) in message
    assert DATASETS[name].home in message
    assert all(layout.files in message for layout in DATASETS[name].layouts)
    assert ("request access" in message) == (name in {"SWaT", "WADI"})


def test_a_root_that_is_not_a_folder_is_refused(tmp_path: Path) -> None:
    for call in (lambda: load("MSL", tmp_path / "nowhere"), lambda: check(tmp_path / "nowhere")):
        with pytest.raises(InputError, match="is not a folder"):
            call()


@pytest.mark.parametrize("every", [0, -1])
def test_thinning_by_less_than_one_is_refused(root: Path, every: int) -> None:
    with pytest.raises(InputError, match="every must be an integer of at least 1"):
        load("PSM", root, every=every)


def test_differences_are_logged_and_not_raised(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    load("SMD", root)
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "patchad.datasets.loading")
    assert "SMD differs from its published sizes: entities 2 instead of 28; train rows 12" in record.getMessage()


def test_check_reports_sizes_and_differences(root: Path) -> None:
    native.npz(root / "GECCO" / "GECCO.npz", 9, 69260, 69261)
    findings = {finding.name: finding for finding in check(root)}
    assert list(findings) == list(DATASETS)
    gecco = findings["GECCO"]
    assert (gecco.state, gecco.entities, gecco.train, gecco.test, gecco.channels) == ("differs", 1, 69260, 69261, 9)
    assert [str(difference) for difference in gecco.differences] == ["anomalous % 0.0 instead of 1.05"]
    assert findings["UCR"].differences[0].found == 2


def test_check_of_an_empty_folder_says_how_to_get_each_dataset(tmp_path: Path) -> None:
    findings = check(tmp_path)
    assert {finding.state for finding in findings} == {"missing"}
    assert all(finding.remedy == DATASETS[finding.name].how_to_get for finding in findings)


def test_published_sizes_thinned_are_those_of_the_paper(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("SWaT", "WADI"):
        size, paper = DATASETS[name].size, DATASETS[name].paper
        assert paper is not None
        assert size.train is not None
        assert size.test is not None
        native.npz(tmp_path / name / f"{name}.npz", 1, size.train, size.test)
        (entity,) = load(name, tmp_path, every=5)
        assert (len(entity.train), len(entity.test)) == (paper.train, paper.test)
    assert all("rows" not in record.getMessage() for record in caplog.records)


def test_importing_loads_neither_torch_nor_pandas_nor_pooch() -> None:
    code = (
        "import sys, patchad.datasets; print([m for m in ('torch', 'pandas', 'pooch', 'openpyxl') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
