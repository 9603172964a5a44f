"""The tools for assistants, called by the client of the package `mcp`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import anyio
import numpy as np
import pandas as pd
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.conftest import SMALL, WATCHED, waves

from patchad.cli.explaining import explain_event
from patchad.cli.folders import Folders
from patchad.cli.main import run
from patchad.cli.mcp import make_server
from patchad.data.table import Table
from patchad.detectors.patchad import PatchAD
from patchad.errors import InputError
from patchad.results.detection import Detection, Event

READING = {"list_files", "describe_data", "inspect_model", "detect", "scan", "list_events", "explain_event"}
WRITING = {"fit", "write_report", "accept_event"}


@pytest.fixture(scope="module")
def folder(watched_model, watched, tmp_path_factory):
    """A model, a file with a fault, one that is no data, and a link that leads out."""
    path = tmp_path_factory.mktemp("plant")
    watched_model.save(path / "model.safetensors")
    watched.to_csv(path / "today.csv", index=False)
    (path / "broken.csv").write_text("")
    (path / "notes.md").write_text("no data")
    outside = tmp_path_factory.mktemp("elsewhere")
    watched.to_csv(outside / "secret.csv", index=False)
    (path / "link.csv").symlink_to(outside / "secret.csv")
    (path / "inside").mkdir()
    watched.to_csv(path / "inside" / "other.csv", index=False)
    return path


def converse(folders, *calls):
    """Call tools of a fresh server one after the other; an argument may be a function of the answers before."""

    async def talk():
        async with Client(make_server(folders)) as client:
            answers = []
            for tool, arguments in calls:
                given = {name: value(answers) if callable(value) else value for name, value in arguments.items()}
                answer = await client.call_tool(tool, given)
                answers.append(answer.content[0].text if answer.is_error else answer.structured_content)
            return answers

    return anyio.run(talk)


def first(listed):
    """Return the earliest event: where the fault begins; the worst may be where it ends."""
    return min(listed["events"], key=lambda event: event["start"])


def refusal(folders, tool, **arguments) -> str:
    (answer,) = converse(folders, (tool, arguments))
    assert isinstance(answer, str), answer
    return answer


def test_detect_then_list_and_explain_the_events(folder):
    calls = [
        ("detect", {"model": "model.safetensors", "data": ["today.csv"]}),
        ("list_events", {"result": "result-1", "channel": "heat", "most": 1}),
        ("list_events", {"result": "result-1", "channel": "heat"}),
        ("explain_event", {"result": "result-1", "event": lambda answers: first(answers[2])["id"]}),
    ]
    found, listed, _, explained = converse(Folders.of([folder]), *calls)
    assert found["result"] == "result-1"
    assert found["series"][0] == {
        "series": "today",
        "rows": 300,
        "events": found["total"],
        "notes": [found["series"][0]["notes"][0]],
    }
    assert len(listed["events"]) == 1
    assert "heat" in listed["events"][0]["summary"]
    heat = explained["channels"][0]
    assert heat["channel"] == "heat"
    assert heat["inside"]["median"] > heat["before"]["median"] + 4
    assert len(heat["curve"]["rows"]) == len(heat["curve"]["observed"]) == len(heat["curve"]["times"]) <= 40
    assert explained["summary"].startswith(
        f"{explained['event']['stop'] - explained['event']['start']} rows from 2026-01-01T"
    )


def test_an_event_of_a_switch_that_has_no_values_is_told_without():
    event = Event(2, 4, 2, 3.0, 60.0, (("valve=open", 1.0),), kind="stuck", repeats=2)
    found = Detection(np.ones(9), np.ones(9), np.zeros(9, bool), (event,), ("valve=open",), None, np.ones((9, 1)))
    told = explain_event(found, 0)
    assert told["channels"] == [{"channel": "valve=open", "share": 1.0}]
    assert "kind stuck: the value does not change; 2 like events followed" in told["summary"]
    unseen = replace(found, observed=Table(np.full((9, 1), np.nan)))
    assert explain_event(unseen, 0)["channels"][0]["inside"] == {"least": None, "median": None, "most": None}


def test_a_net_also_says_what_it_expected(folder):
    train = pd.DataFrame(waves(600), columns=WATCHED)
    PatchAD(**SMALL).fit(train).save(folder / "net.safetensors")
    calls = [
        ("detect", {"model": "net.safetensors", "data": ["inside"], "false_alarms": 2}),
        ("explain_event", {"result": "result-1", "event": lambda answers: answers[0]["events"][0]["id"]}),
    ]
    found, explained = converse(Folders.of([folder]), *calls)
    assert found["series"][0]["series"] == "other"
    heat = explained["channels"][0]
    assert abs(heat["expected_inside"]["median"]) < 3
    assert len(heat["curve"]["expected"]) == len(heat["curve"]["rows"])


def test_data_and_models_are_described(folder):
    calls = [
        ("list_files", {}),
        ("describe_data", {"data": ["today.csv"], "options": {"columns": ["flow", "load"], "sort": True}}),
        ("inspect_model", {"model": str(folder / "model.safetensors")}),
        ("list_files", {"folder": "inside"}),
    ]
    files, described, model, inside = converse(Folders.of([folder]), *calls)
    names = {file["path"].rsplit("/", 1)[1]: file["kind"] for file in files["files"]}
    assert names.items() >= {"inside": "folder", "model.safetensors": "model", "today.csv": "data"}.items()
    assert not {"link.csv", "notes.md"} & set(names)
    assert [file["path"] for file in inside["files"]] == [str(folder / "inside" / "other.csv")]
    (series,) = described["series"]
    assert [channel["channel"] for channel in series["channels"]] == ["flow", "load"]
    assert series["channels"][1]["missing"] == 3
    assert series["from_to"] == ["2026-01-01T00:00:00", "2026-01-01T04:59:00"]
    assert model["detector"] == "moving_zscore"


def test_scan_needs_no_model(folder, monkeypatch):
    rows = np.sin(np.arange(400) / 5)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(400, 2))
    rows[250:270, 1] += 4
    np.save(folder / "history.npy", rows)
    monkeypatch.setattr("patchad.detectors.scan.PatchAD", lambda: PatchAD(**SMALL))
    (found,) = converse(Folders.of([folder]), ("scan", {"data": ["history.npy"], "severity": 20}))
    assert any(event["channels"][0][0] == "channel_1" and event["start"] >= 245 for event in found["events"])


@pytest.mark.parametrize("path", ["link.csv", "../elsewhere0/secret.csv", "/etc/hostname", "inside/../../x.csv"])
def test_nothing_outside_the_folders_is_read(folder, path):
    assert "outside the folders that may be read" in refusal(Folders.of([folder]), "describe_data", data=[path])


def test_a_folder_with_a_link_that_leads_out_is_refused(folder):
    assert "leads out of the folders" in refusal(Folders.of([folder]), "describe_data", data=["."])


def test_errors_say_what_to_do(folder):
    only = Folders.of([folder])
    assert "no folder is allowed" in refusal(Folders.of([]), "inspect_model", model="model.safetensors")
    assert "list_files lists" in refusal(only, "inspect_model", model="absent.safetensors")
    assert "is no path" in refusal(only, "inspect_model", model="")
    assert "no data was named" in refusal(only, "describe_data", data=[])
    assert "broken.csv" in refusal(only, "describe_data", data=["broken.csv"])
    assert "of an unknown kind" in refusal(only, "describe_data", data=["notes.md"])
    assert "there is no result 'result-9'" in refusal(only, "list_events", result="result-9")
    assert "is no interval" in refusal(only, "describe_data", data=["today.csv"], options={"every": "often"})
    assert "validation error" in refusal(only, "describe_data", data="today.csv", options={"sort": "maybe"})
    assert "today.csv" in refusal(only, "inspect_model", model="today.csv")
    unknown_option = refusal(only, "describe_data", data=["today.csv"], options={"sorted": True})
    assert "sorted" in unknown_option
    kinds = [
        ("detect", {"model": "model.safetensors", "data": ["today.csv"]}),
        ("list_events", {"result": "result-1", "kind": "drift"}),
    ]
    assert "kind='drift' is unknown; use one of 'anomaly'" in converse(only, *kinds)[1]
    found = ("detect", {"model": "model.safetensors", "data": ["today.csv", "broken.csv"]})
    unknown = ("explain_event", {"result": "result-1", "event": "none"})
    answer, refused = converse(only, found, unknown)
    assert "broken.csv" in answer["refused"][0]
    assert "has no event 'none'" in refused
    wrong = ("detect", {"model": "model.safetensors", "data": ["wide.npy"]})
    np.save(folder / "wide.npy", np.zeros((50, 9)))
    assert "wide" in converse(only, wrong)[0]


def test_two_series_with_the_same_event_need_the_series_named(folder, tmp_path):
    for name in ("a", "b"):
        rows = pd.read_csv(folder / "today.csv").drop(columns="time")
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    calls = [
        ("detect", {"model": "model.safetensors", "data": ["a.csv", "b.csv"]}),
        ("explain_event", {"result": "result-1", "event": lambda answers: answers[0]["events"][0]["id"]}),
        (
            "explain_event",
            {"result": "result-1", "event": lambda answers: answers[0]["events"][0]["id"], "series": "b"},
        ),
    ]
    found, which, explained = converse(Folders.of([folder, tmp_path]), *calls)
    assert len(found["series"]) == 2
    assert "name the series, too" in which
    assert explained["summary"].split(" rows from row ")[1]


def test_only_the_last_results_are_kept(folder):
    detect = ("detect", {"model": "model.safetensors", "data": ["today.csv"]})
    answers = converse(Folders.of([folder]), *[detect] * 5, ("list_events", {"result": "result-1"}))
    assert "the results at hand are 'result-2'" in answers[-1]


def test_writing_is_offered_only_if_asked_for(folder, tmp_path):
    async def names(folders):
        async with Client(make_server(folders)) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}

    tools = anyio.run(names, Folders.of([folder]))
    assert set(tools) == READING
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools.values())
    tools = anyio.run(names, Folders.of([folder], writable=True))
    assert set(tools) == READING | WRITING
    assert not tools["fit"].annotations.read_only_hint
    with pytest.raises(InputError, match="start `patchad mcp` with --write"):
        Folders.of([tmp_path]).new("model.safetensors")


def test_models_and_reports_are_written_to_new_files_inside_the_folders(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("patchad.detectors.patchad.PatchAD", lambda: PatchAD(**SMALL))
    np.save(tmp_path / "normal.npy", waves(300))
    calls = [
        ("fit", {"data": ["normal.npy"], "output": "fresh.safetensors"}),
        ("detect", {"model": "model.safetensors", "data": ["today.csv"]}),
        ("write_report", {"result": "result-1", "output": "report.html"}),
        (
            "accept_event",
            {
                "model": "model.safetensors",
                "result": "result-1",
                "event": lambda answers: answers[1]["events"][0]["id"],
                "output": str(tmp_path / "accepted.safetensors"),
            },
        ),
        ("write_report", {"result": "result-1", "output": "report.html"}),
        ("write_report", {"result": "result-1", "output": "/tmp/../etc/report.html"}),
        ("fit", {"data": ["broken.csv"], "output": "other.safetensors"}),
        ("write_report", {"result": "result-1", "output": "normal.npy/report.html"}),
    ]
    answers = converse(Folders.of([tmp_path, folder], writable=True), *calls)
    fitted, _, report, accepted, again, outside, broken, below_a_file = answers
    assert fitted["model"] == str(tmp_path / "fresh.safetensors")
    assert (tmp_path / "report.html").read_text().startswith("<!")
    assert report == {"report": str(tmp_path / "report.html")}
    assert len(accepted["feedback"]) == 1
    assert "is there already" in again
    assert "outside the folders" in outside
    assert "broken.csv" in broken
    assert "choose another path" in below_a_file


def test_a_client_of_another_process_is_served_over_stdio(folder):
    call = ["-m", "patchad", "mcp", "--allow", str(folder)]
    server = StdioServerParameters(command=sys.executable, args=call, env=dict(os.environ))

    async def talk():
        async with Client(stdio_client(server)) as client:
            answer = await client.call_tool("detect", {"model": "model.safetensors", "data": ["today.csv"]})
            refused = await client.call_tool("describe_data", {"data": ["/etc/hostname"]})
            return answer.structured_content, refused.is_error

    found, refused = anyio.run(talk)
    assert found["total"] >= 1
    assert refused


def test_a_folder_that_is_none_and_a_missing_extra_are_told_in_one_line(folder, capsys, monkeypatch):
    assert run(["mcp", "--allow", str(folder / "today.csv")]) == 2
    assert capsys.readouterr().err.startswith("error: --allow ")
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert run(["mcp", "--allow", str(folder)]) == 3
    assert "pip install 'patchad[mcp]'" in capsys.readouterr().err
