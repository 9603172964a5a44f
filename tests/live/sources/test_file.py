"""A file that grows, is cut, or is replaced."""

from __future__ import annotations

import pytest

from patchad.errors import InputError
from patchad.live.sources.registry import make_source


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(b"a\nb\nc")
    return path


def opened(path, position=None, options=""):
    source = make_source(f"file:{path}{options}")
    source.open(position)
    return source


def test_a_file_is_followed(rows):
    source = opened(rows)
    assert source.poll() == [b"a", b"b"]
    assert source.poll() == []
    with rows.open("ab") as file:
        file.write(b"c\nd")
    assert source.poll() == [b"cc"]
    assert not source.ended
    position = source.position
    source.close()
    source = opened(rows, position, "?follow=0")
    assert source.resumed
    assert (source.poll(), source.poll(), source.poll(), source.ended) == ([], [b"d"], [], True)
    source.close()


@pytest.mark.parametrize("content", [b"A\nb\nc\n", b"a\n"])
def test_another_file_is_read_from_its_beginning(rows, content, caplog):
    source = opened(rows)
    source.poll()
    position = source.position
    source.close()
    rows.write_bytes(content)
    source = opened(rows, position)
    assert not source.resumed
    assert source.poll() == content.splitlines()
    assert "another file" in caplog.text
    source.close()


def test_a_file_that_is_replaced_or_cut_while_it_is_followed(rows, caplog):
    source = opened(rows)
    source.poll()
    rows.rename(rows.with_name("old"))
    assert source.poll() == []
    rows.write_bytes(b"new\n")
    assert source.poll() == [b"c"]  # what was left of the old one
    assert source.poll() == [b"new"]
    rows.write_bytes(b"x\n")
    assert (source.poll(), source.poll()) == ([], [b"x"])
    assert source.position["offset"] == 2
    assert caplog.text.count("was replaced") == 2
    source.close()


def test_a_file_has_to_be_there(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        opened(tmp_path)
