"""Lines to a file, each once."""

from __future__ import annotations

import pytest

from patchad.live.sinks.registry import make_sink


def test_what_was_written_after_the_mark_is_taken_back(tmp_path, caplog):
    path = tmp_path / "out"
    path.write_text("mine\n")
    sink = make_sink(f"file:{path}")
    assert sink.open(None) == 5
    assert sink.write(["a"]) == 7
    sink.write(["b"])
    sink.close()
    assert sink.open(7) == 7
    sink.write(["c"])
    sink.close()
    assert path.read_text() == "mine\na\nc\n"
    path.write_text("")
    assert sink.open(7) == 0
    sink.close()
    assert "shorter than it was" in caplog.text


def test_devices_and_folders(tmp_path):
    sink = make_sink("file:/dev/null")
    assert (sink.open(3), sink.write(["a"])) == (0, 0)
    sink.close()
    with pytest.raises(IsADirectoryError, match="folder"):
        make_sink(f"file:{tmp_path}").open(None)


def test_a_full_disk_names_the_file():
    sink = make_sink("file:/dev/full")
    sink.open(None)
    with pytest.raises(OSError, match="/dev/full"):
        sink.write(["a"])
    sink.close()
