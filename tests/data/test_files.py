from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from patchad.data import journal
from patchad.data.files import check_outputs, write_whole
from patchad.errors import InputError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_no_kill_at_any_step_leaves_a_mixed_set():
    script = Path(__file__).with_name("crashes.py")
    done = subprocess.run([sys.executable, str(script)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) > 300


def test_an_interrupt_between_two_renames_comes_too_late(tmp_path, monkeypatch):
    original, calls = os.replace, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 3:  # the journal, the first file, the second
            raise KeyboardInterrupt
        original(*arguments)

    monkeypatch.setattr(os, "replace", interrupted)
    write_whole({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_full_disk_leaves_the_old_set_and_names_the_file(tmp_path, monkeypatch, step):
    write_whole({tmp_path / "a": b"old", tmp_path / "b": b"old"})
    original, calls = os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) == step:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(handle)

    monkeypatch.setattr(os, "fsync", full)
    if step == 4:  # after the journal is in place, that a folder cannot be synced is no reason to stop
        write_whole({tmp_path / "a": b"new", tmp_path / "b": b"new"})
    else:
        with pytest.raises(OSError, match="No space left") as caught:
            write_whole({tmp_path / "a": b"new", tmp_path / "b": b"new"})
        assert caught.value.filename
    assert names(tmp_path) == ["a", "b"]
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"new" if step == 4 else b"old"}


def test_folders_made_for_a_failed_write_are_removed(tmp_path):
    with pytest.raises(OSError, match="No space left"):
        write_whole({tmp_path / "deep" / "er" / "a": b"1", Path("/dev/full"): b"2"})
    assert names(tmp_path) == []


def test_a_symbolic_link_is_kept_and_its_file_written(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "file")
    write_whole({tmp_path / "link": b"1"})
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "file").read_bytes() == b"1"
    (tmp_path / "round").symlink_to(tmp_path / "round")
    with pytest.raises(OSError, match="circle"):
        write_whole({tmp_path / "round": b"1"})


def test_pipes_and_devices_are_written_to_and_stay(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_whole({tmp_path / "pipe": b"1", tmp_path / "file": b"2", Path("/dev/null"): b"3"})
    reader.join()
    assert found == [b"1"]
    assert (tmp_path / "pipe").is_fifo()
    assert Path("/dev/null").is_char_device()


def test_permissions_of_a_file_are_kept_and_new_files_obey_the_umask(tmp_path):
    (tmp_path / "secret").touch(0o600)
    write_whole({tmp_path / "secret": b"1", tmp_path / "new": b"2"})
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o666 & ~mask


def test_another_users_file_in_a_shared_folder_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    (tmp_path / "b").write_bytes(b"theirs")
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(PermissionError, match="another user"):
        write_whole({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    assert names(tmp_path) == ["b"]


def test_journals_of_others_and_broken_ones_are_not_obeyed(tmp_path, monkeypatch):
    (tmp_path / "victim").write_bytes(b"1")
    planted = tmp_path / ".patchad-00.journal"
    planted.write_text(json.dumps({"moves": [["victim", "stolen"]]}))
    (tmp_path / ".patchad-01.journal").write_text("[]")
    (tmp_path / ".patchad-02.pointer").write_text("{")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    write_whole({tmp_path / "a": b"1"})
    assert planted.exists()
    assert (tmp_path / "victim").exists()
    assert not (tmp_path / "stolen").exists()


def test_what_a_journal_cannot_finish_is_given_up(tmp_path):
    (tmp_path / ".patchad-00-0.part").write_bytes(b"1")
    (tmp_path / "taken").mkdir()
    (tmp_path / ".patchad-00.journal").write_text(json.dumps({"moves": [[".patchad-00-0.part", "taken"]]}))
    write_whole({tmp_path / "a": b"1"})
    assert names(tmp_path) == ["a", "taken"]


def test_a_folder_that_another_writes_to_is_waited_for(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    monkeypatch.setattr(journal, "_PATIENCE", 0.05)
    with pytest.raises(BlockingIOError, match="another process"):
        write_whole({tmp_path / "a": b"1"})
    os.close(handle)
    write_whole({tmp_path / "a": b"1"})
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("locks", ["no module", "no locks"])
def test_a_system_without_locks_writes_all_the_same_and_leaves_leftovers_alone(tmp_path, monkeypatch, locks):
    fcntl = pytest.importorskip("fcntl")
    if locks == "no module":
        monkeypatch.setitem(sys.modules, "fcntl", None)
    else:

        def refuse(*_):
            raise OSError(errno.ENOLCK, "no locks")

        monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / ".patchad-00-0.part").touch()
    write_whole({tmp_path / "a": b"1"})
    assert names(tmp_path) == [".patchad-00-0.part", "a"]


def test_threads_that_write_the_same_set_leave_one_of_them(tmp_path):
    def write(number: int) -> None:
        for _ in range(5):
            write_whole({tmp_path / name: str(number).encode() for name in "abc"})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(tmp_path) == ["a", "b", "c"]
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_outputs_that_are_inputs_or_each_other_are_refused(tmp_path, monkeypatch):
    data = tmp_path / "data.csv"
    data.touch()
    (tmp_path / "hard.csv").hardlink_to(data)
    (tmp_path / "soft.csv").symlink_to(data)
    monkeypatch.chdir(tmp_path)
    for path in ("data.csv", "./data.csv", "hard.csv", "soft.csv"):
        with pytest.raises(InputError, match="is also an input"):
            check_outputs({"-o": Path(path)}, [data])
        with pytest.raises(InputError, match="is also an input"):
            check_outputs({"-o": Path(path)}, [tmp_path])
    with pytest.raises(InputError, match="--events and --report are the same file"):
        check_outputs({"-o": None, "--events": Path("new"), "--report": tmp_path / "new"}, [data])
    with pytest.raises(InputError, match="is a folder"):
        check_outputs({"-o": tmp_path}, [data])
    check_outputs({"-o": Path("other.csv"), "--events": Path("/dev/null"), "--report": Path("/dev/null")}, [data])
