"""A state that is not ours, or in use, is refused."""

from __future__ import annotations

import sqlite3

import pytest

from patchad.errors import InputError
from patchad.live.store import APPLICATION, Step, Store


def test_a_state_is_used_by_one_process(tmp_path):
    store = Store(tmp_path / "state")
    with pytest.raises(InputError, match="another process"):
        Store(tmp_path / "state")
    store.close()
    Store(tmp_path / "state").close()


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["CREATE TABLE a (b)"], "something else"),
        ([f"PRAGMA application_id = {APPLICATION}", "PRAGMA user_version = 99"], "has format 99"),
    ],
)
def test_other_databases(tmp_path, statements, message):
    database = sqlite3.connect(tmp_path / "state")
    for statement in statements:
        database.execute(statement)
    database.close()
    with pytest.raises(InputError, match=message):
        Store(tmp_path / "state")


def test_no_database(tmp_path):
    (tmp_path / "state").write_text("flow,heat\n" * 200)
    with pytest.raises(InputError, match="not a database"):
        Store(tmp_path / "state")


def test_a_step_is_stored_as_a_whole_or_not_at_all(tmp_path):
    store = Store(tmp_path / "state")
    store.register({"-": 0})
    with pytest.raises(InputError, match="cannot be used"):
        store.commit(Step([], {"a": 1}, ["line", None], []))  # type: ignore[list-item]
    assert store.position("a") is None
    assert store.unwritten("-", dead=False) == (0, [])
    store.commit(Step([], {"a": 1}, ["line"], ["bad"]))
    assert store.position("a") == 1
    assert store.unwritten("-", dead=False) == (2, ["line"])
    assert store.unwritten("-", dead=True) == (2, ["bad"])
    store.confirm({"-": (2, 5)})
    assert store.unwritten("-", dead=False) == (2, [])
    store.register({"other": 0})
    assert store.mark("-") is None
    store.close()


def test_a_folder_that_is_not_there_or_a_folder(tmp_path):
    with pytest.raises(InputError, match="folder"):
        Store(tmp_path)
    (tmp_path / "state").symlink_to(tmp_path / "nowhere" / "state")
    with pytest.raises(InputError, match="unable to open"):
        Store(tmp_path / "state")
