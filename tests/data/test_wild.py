"""Files in the layouts of the wild give the same events as their clean twin."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.conftest import SMALL
from tests.wild import FILES, FOLDER, NAMES, faulty, recording

from patchad import PatchAD
from patchad.cli.main import run


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a model, and with the clean twin and its events."""
    folder = tmp_path_factory.mktemp("wild")
    PatchAD(**SMALL).fit(recording(600, seed=0)).save(folder / "model.safetensors")
    faulty().to_parquet(folder / "twin.parquet")
    return folder


def events_of(model, path, out, *options):
    assert run(["detect", str(model / "model.safetensors"), str(path), *options, "--events", str(out)]) == 0
    events = json.loads(out.read_text())
    for event in events:
        del event["series"], event["id"]
    return events


@pytest.fixture(scope="module")
def twin(model):
    events = events_of(model, model / "twin.parquet", model / "twin.json")
    worst = max(events, key=lambda event: event["severity"])
    assert worst["channels"][0][0] == NAMES[1]
    assert worst["start_time"].startswith("2024-03-13T00:0")
    return events


def test_every_file_of_the_folder_is_tried():
    assert len(FILES) >= 20
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_wild_file_gives_the_events_of_its_clean_twin(name, model, twin, tmp_path):
    wild = FILES[name]
    found = events_of(model, FOLDER / name, tmp_path / "events.json", *wild.options)
    for event, other in zip(found, twin, strict=True):
        for time in ("start_time", "stop_time"):
            assert event[time] == (None if wild.offset is None else other[time] + wild.offset)
        assert event | {"start_time": 0, "stop_time": 0} == other | {"start_time": 0, "stop_time": 0}


@pytest.mark.parametrize("name", ["german.csv", "packed.csv.gz", "long.csv"])
def test_the_files_are_what_their_script_writes(name, tmp_path):
    FILES[name].write(faulty(), tmp_path / name)
    written, kept = (tmp_path / name).read_bytes(), (FOLDER / name).read_bytes()
    assert written[10:] == kept[10:]  # a gzip file begins with the hour it was written


def test_the_commands_of_the_documentation_run(model, tmp_path, monkeypatch):
    shutil.copytree(FOLDER, tmp_path / "work")
    shutil.copy(model / "model.safetensors", tmp_path / "work" / "pump.safetensors")
    faulty().assign(serial=7).to_parquet(tmp_path / "work" / "zone.parquet")
    monkeypatch.chdir(tmp_path / "work")
    page = (Path(__file__).parents[2] / "docs" / "inputs.md").read_text()
    commands = re.findall(r"^\$ patchad (.*)$", page, flags=re.MULTILINE)
    assert len(commands) >= 5
    for command in commands:
        assert run(shlex.split(command)) == 0, command
