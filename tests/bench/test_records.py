"""Files of records."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchad.bench.records import IDENTITY, RecordFile, read_records
from patchad.errors import InputError


def test_repeated_records_are_read_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "records.jsonl"
    records = [dict.fromkeys(IDENTITY, "x") | {"parameters": {}, "seed": seed, "metrics": {}} for seed in (0, 1)]
    with RecordFile(path) as file:
        file.append(records)
    path.write_bytes(path.read_bytes() * 2)
    assert read_records(path) == records
    assert "2 records repeat" in caplog.text


@pytest.mark.parametrize("line", ["nonsense", "[1]", "{}", '{"suite": "s"}', '{"suite"\nnonsense'])
def test_a_line_that_is_not_a_record_is_refused_and_nothing_changes(tmp_path: Path, line: str) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match="line 1 is not a record"):
        read_records(path)
    with pytest.raises(InputError, match="line 1 is not a record"):
        RecordFile(path)
    assert path.read_text() == line + "\n"


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    with RecordFile(path), pytest.raises(InputError, match="another run"):
        RecordFile(path)
    with pytest.raises(InputError, match="is a folder"):
        RecordFile(tmp_path)
