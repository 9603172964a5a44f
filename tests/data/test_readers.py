"""Every format is read; what is broken or hostile is refused in one line, and takes no RAM."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import sys
import tracemalloc
import zipfile
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from patchad.data.inputs import find_files, read_all, read_columns, read_table
from patchad.data.readers import excel, packed
from patchad.data.reading import Reading
from patchad.errors import InputError, MissingExtraError

FRAME = pd.DataFrame(
    {"time": pd.date_range("2024-01-01", periods=60, freq="min"), "a": np.arange(60.0), "b": np.arange(60.0) % 7}
)
CSV = FRAME.to_csv(index=False)


def read(folder, name: str, content: str | bytes, reading: Reading | None = None):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_table(path, reading)


def written(path, text: str):
    path.write_text(text)
    return path


def npy(shape: object, descr: str = "'<f8'", body: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + version + struct.pack("<H", len(head)) + head + body


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return out.getvalue()


def workbook(sheet: bytes | None = None, frame: pd.DataFrame = FRAME) -> bytes:
    """Give a workbook, with other XML in its first sheet if asked to."""
    out = io.BytesIO()
    frame.to_excel(out, index=False)
    if sheet is None:
        return out.getvalue()
    with zipfile.ZipFile(out) as file:
        return zipped({name: sheet if "sheet1" in name else file.read(name) for name in file.namelist()})


def sheet_of(rows: bytes) -> bytes:
    space = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    return b'<worksheet xmlns="' + space + b'"><sheetData>' + rows + b"</sheetData></worksheet>"


def in_parquet(metadata: bytes) -> bytes:
    out = io.BytesIO()
    parquet.write_table(pa.table({"a": [1.0, 2.0]}).replace_schema_metadata({b"pandas": metadata}), out)
    return out.getvalue()


def in_arrow(write) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()


HOSTILE = {
    "claims 10.9 TiB": ("x.npy", npy((1_500_000_000_000,)), "claims shape"),
    "negative shape": ("x.npy", npy((-1, 3)), "claims shape"),
    "objects": ("x.npy", npy((3,), "'|O'", bytes(24)), "Python objects"),
    "deep header": ("x.npy", npy("(" * 3000 + ")" * 3000), "not a file of one array"),
    "short npy": ("x.npy", npy((9,), body=bytes(8)), "ends after 8 of 72 bytes"),
    "version 3": ("x.npy", npy((3,), version=b"\x03\x00"), "version (3, 0) are not read"),
    "not npy": ("x.npy", b"no", "not a file of one array"),
    "three axes": ("x.npy", npy((2, 2, 2), body=bytes(64)), "must have shape"),
    "no zip": ("x.npz", b"no", "not a file of arrays"),
    "no central directory": ("x.npz", zipped({"test.npy": npy((3,), body=bytes(24))})[:-30], "not a file of arrays"),
    "zipped objects": ("x.npz", zipped({"test.npy": npy((3,), "'|O'", bytes(24))}), "Python objects"),
    "short member": ("x.npz", zipped({"test.npy": npy((300,))}), "claims shape"),
    "no array": ("x.npz", zipped({"readme.txt": b"hello"}), "holds no array"),
    "no parquet": ("x.parquet", b"PAR1 no", "not a parquet file"),
    "half a parquet": ("x.parquet", in_parquet(b"{}")[:-50], "not a parquet file"),
    "nested columns": ("x.parquet", in_arrow(lambda out: parquet.write_table(pa.table({"a": [[1], [2]]}), out)), "'a'"),
    "no feather": ("x.feather", b"hello", "not an arrow or feather file"),
    "half a feather": ("x.feather", in_arrow(FRAME.to_feather)[:-80], "not an arrow or feather file"),
    "empty arrow": ("x.arrow", b"", "not an arrow or feather file"),
    "no workbook": ("x.xlsx", CSV, "not an Excel workbook"),
    "empty workbook": ("x.xlsx", zipped({}), "not an Excel workbook"),
    "far row": ("x.xlsx", workbook(sheet_of(b'<row r="99999999999"><c r="A1"><v>1</v></c></row>')), "over"),
    "broken sheet": ("x.xlsx", workbook(b"<worksheet"), "not an Excel workbook"),
    "no sheet": ("x.xlsx", workbook(sheet_of(b"")), "holds no sheet"),
    "half a gzip": ("x.csv.gz", gzip.compress(CSV.encode())[:-20], "not a whole gzip file"),
    "no gzip": ("x.csv.gz", CSV, "not a whole gzip file"),
    "damaged gzip": ("x.csv.gz", gzip.compress(CSV.encode())[:40] + bytes(40), "not a whole gzip file"),
    "NUL bytes": ("x.csv", CSV[:200] + "\0" + CSV[200:], "line 8 holds a NUL byte"),
    "only NUL bytes": ("x.csv", bytes(1000), "NUL byte"),
    "half an UTF-16": ("x.csv", CSV.encode("utf-16")[:-1], "looks like UTF-16 and is damaged"),
    "open quote": ("x.csv", 'a,b\n1,"2\n' + "3,4\n" * 50, "not a well-formed CSV"),
    "open quote in the header": ("x.csv", '"a,b\n1,2\n3,4\n', "quotation mark"),
    "one long line": ("x.csv", b"1," * 5_000_000, "line 1 is over"),
    "a long line later": ("x.csv", b"a,b\n1,2\n" + b"1," * 5_000_000 + b"\n", "line 3 is over"),
    "a long cell": ("x.csv", b"a\n" + b"9" * 200_000, "not a well-formed CSV"),
    "more cells than names": ("x.csv", "a,b\n1,2,3,4\n5,6,7,8\n", "more cells than the header"),
    "only separators": ("x.csv", ",,,\n,,,\n", "no channels"),
    "only comments": ("x.csv", "# a\n# b\n", "the file is empty"),
    "no JSON": ("x.jsonl", '{"a": 1}\n{"a": \n', "line 2 is no JSON"),
    "a JSON list": ("x.jsonl", "[1, 2]", "line 1 is no JSON object"),
    "deep JSON": ("x.jsonl", "[" * 100_000, "line 1 is no JSON"),
    "nested JSON": ("x.jsonl", '{"a": {"b": 1}}', "'a' is a list or an object"),
    "5,000 digits": ("x.jsonl", '{"a": ' + "9" * 5000 + "}", "line 1 is no JSON"),
    "other names in every row": ("x.jsonl", "".join(f'{{"k{i}":1}}\n' for i in range(11_000)), "other names"),
    "empty JSON": ("x.ndjson", "\n\n", "the file is empty"),
    "only a header": ("x.csv", "time,a\n", "there is no row of values"),
    "a hundred thousand separators": ("x.csv", "," * 100_000, "there is no row of values"),
    "unknown kind": ("x.pdf", "1", "unknown kind"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_broken_or_hostile_is_refused_in_one_line_that_names_the_file(case, tmp_path):
    name, content, message = HOSTILE[case]
    with pytest.raises(InputError) as caught:
        read(tmp_path, name, content)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet", "x.feather", "x.xlsx", "x.csv", "x.jsonl", "x.csv.gz"])
@settings(max_examples=25)
@given(data=st.data())
def test_damaged_bytes_are_read_or_refused(name, data, tmp_path_factory):
    content = bytearray(good(name))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path_factory.getbasetemp() / name).write_bytes(content)
    tables, refused = read_all([tmp_path_factory.getbasetemp() / name], Reading())
    assert len(tables) + len(refused) == 1
    assert all("\n" not in str(error) for _, error in refused)


def arrays_of_numpy(save) -> bytes:
    out = io.BytesIO()
    save(out, FRAME[["a", "b"]].to_numpy())
    return out.getvalue()


@cache
def good(name: str) -> bytes:
    return GOOD[name]()


GOOD = {
    "x.npy": lambda: arrays_of_numpy(np.save),
    "x.npz": lambda: arrays_of_numpy(np.savez_compressed),
    "x.parquet": lambda: in_arrow(FRAME.to_parquet),
    "x.feather": lambda: in_arrow(FRAME.to_feather),
    "x.xlsx": workbook,
    "x.csv": CSV.encode,
    "x.jsonl": lambda: FRAME.to_json(orient="records", lines=True, date_format="iso").encode(),
    "x.csv.gz": lambda: gzip.compress(CSV.encode()),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_files_of_every_format_hold_the_same(name, tmp_path):
    np.testing.assert_array_equal(read(tmp_path, name, GOOD[name]()).values, FRAME[["a", "b"]].to_numpy())


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "HARMLESS_BYTES", 10**6)
    zeros = bytes(5 * 10**7)
    bombs = {
        "x.npz": zipped({"test.npy": npy((len(zeros) // 8,), body=zeros)}),
        "x.csv.gz": gzip.compress(b"a\n" + zeros),
        "x.xlsx": zipped({"xl/workbook.xml": zeros}),
        "x.parquet": in_arrow(lambda out: parquet.write_table(pa.table({"a": np.zeros(2 * 10**6)}), out)),
    }
    for name, content in bombs.items():
        tracemalloc.start()
        with pytest.raises(InputError, match="zip bomb"):
            read(tmp_path, name, content)
        assert tracemalloc.get_traced_memory()[1] < 2 * 10**7
        tracemalloc.stop()


def test_a_sheet_of_too_many_cells_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(excel, "MOST_CELLS", 100)
    rows = b"".join(b'<row r="%d"><c r="XFD%d"><v>1</v></c></row>' % (i, i) for i in range(1, 9))
    with pytest.raises(InputError, match="over 100 cells"):
        read(tmp_path, "x.xlsx", workbook(sheet_of(rows)))
    narrow = b"".join(b'<row r="%d"><c r="A%d"><v>1</v></c></row>' % (i, i) for i in range(2, 11))
    ragged = sheet_of(b'<row r="1"><c r="Z1"><v>1</v></c><c r="AA1"><v>1</v></c></row>' + narrow)
    with pytest.raises(InputError, match="over 100 cells"):
        read(tmp_path, "x.xlsx", workbook(ragged))


@pytest.mark.parametrize(
    "said", [b"{nonsense", b"[" * 100_000, b'{"index_columns": [{"kind": "range"}, 3, "zz"]}', b"[]"]
)
def test_what_parquet_says_of_pandas_need_not_be_true(said, tmp_path):
    assert read(tmp_path, "x.parquet", in_parquet(said)).values.ravel().tolist() == [1, 2]


def test_a_stream_of_batches_that_breaks_off_is_refused(tmp_path):
    whole = in_arrow(lambda out: stream(FRAME, out))
    assert read(tmp_path, "x.arrow", whole).values.shape == (60, 2)
    with pytest.raises(InputError, match="not an arrow or feather file"):
        read(tmp_path, "x.arrow", whole[:-700])


def stream(frame: pd.DataFrame, out) -> None:
    table = pa.Table.from_pandas(frame)
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)


def test_a_pandas_index_is_kept_where_it_is_of_times(tmp_path):
    timed = FRAME.set_index("time").assign(logged=FRAME["time"].to_numpy())
    timed.to_parquet(tmp_path / "x.parquet")
    table = read_table(tmp_path / "x.parquet", Reading(exclude=("logged",)))
    assert table.channels == ("a", "b")
    assert table.index[0] == np.datetime64("2024-01-01")
    numbered = FRAME[["a", "b"]].set_index(pd.Index(range(60, 0, -1)))
    numbered.to_parquet(tmp_path / "y.parquet")
    assert read_table(tmp_path / "y.parquet").channels == ("a", "b")


def test_a_workbook_with_several_sheets(tmp_path, caplog):
    with pd.ExcelWriter(tmp_path / "x.xlsx") as book:
        FRAME.to_excel(book, sheet_name="one", index=False)
        FRAME.assign(a=5.0).to_excel(book, sheet_name="test", index=False)
    assert (read_table(tmp_path / "x.xlsx", Reading(member="test")).values[:, 0] == 5).all()
    assert read_table(tmp_path / "x.xlsx").values[1, 0] == 1
    assert "of the sheets 'one', 'test' the first is read; name another 'train'" in caplog.text


def test_workbooks_without_a_header_with_gaps_and_errors(tmp_path):
    from openpyxl import Workbook

    book = Workbook()
    for row in ([1.0, 2.0, None], [None, "#DIV/0!", None], [3.0, "-", ""], [], [4.0]):
        book.active.append(row)
    book.save(tmp_path / "x.xlsx")
    table = read_table(tmp_path / "x.xlsx")
    assert table.channels is None
    np.testing.assert_array_equal(table.values, [[1, 2], [np.nan] * 2, [3, np.nan], [4, np.nan]])


def test_a_missing_library_names_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"patchad\[excel\]"):
        read(tmp_path, "x.xlsx", workbook_bytes())


def workbook_bytes() -> bytes:
    return zipped({"xl/workbook.xml": b""})


TEXTS = {
    "a header of words": ("time,a\n1,2\n3,4\n", ("a",), [[2], [4]]),
    "no header, numbers": ("1,2\n3,4\n", None, [[1, 2], [3, 4]]),
    "no header, times": ("2024-01-01 00:00,2\n2024-01-01 00:01,4\n", None, [[2], [4]]),
    "no header, day first": ("31.12.2024 00:00;2,5\n31.12.2024 00:01;4,5\n", None, [[2.5], [4.5]]),
    "a header of numbers and a word": ("time,1,2\n2024-01-01,5,6\n2024-01-02,7,8\n", ("1", "2"), [[5, 6], [7, 8]]),
    "a name for numpy": ("# a,b\n1,2\n3,4\n", ("a", "b"), [[1, 2], [3, 4]]),
    "a note for people": ("# of Monday\n1,2\n3,4\n", None, [[1, 2], [3, 4]]),
    "row names": ('"a","b"\n"1",2,3\n"2",4,5\n', ("Unnamed: 0", "a", "b"), [[1, 2, 3], [2, 4, 5]]),
    "one column": ("a\n1\n2\n", ("a",), [[1], [2]]),
    "one row of numbers": ("1,2\n", None, [[1, 2]]),
    "carriage returns": ("a,b\r1,2\r3,4\r", ("a", "b"), [[1, 2], [3, 4]]),
    "spaces after commas": ("a, b\n1, 2\n3, 4\n", ("a", "b"), [[1, 2], [3, 4]]),
    "blanks between columns": ("a b\n1 2\n3 4\n", ("a", "b"), [[1, 2], [3, 4]]),
    "bars": ("a|b\n1|2\n3|4\n", ("a", "b"), [[1, 2], [3, 4]]),
    "missing values": ("a,b\n1,-\n?,4\n5,n/a\n", ("a", "b"), [[1, np.nan], [np.nan, 4], [5, np.nan]]),
    "decimal commas in quotes": ('a,b\n"1,5","2,25"\n"3,5","4,0"\n', ("a", "b"), [[1.5, 2.25], [3.5, 4]]),
    "thousands in quotes": ('a,b\n"1,234",2\n"5",4\n', ("a", "b"), [[1234, 2], [5, 4]]),
    "Swiss thousands": ("a;b\n1'234.5;2\n5;4\n", ("a", "b"), [[1234.5, 2], [5, 4]]),
    "French thousands": ("a;b\n1\u202f234,5;2\n5;4\n", ("a", "b"), [[1234.5, 2], [5, 4]]),
    "points beside commas": ("a;b\n1.5;1,000\n2.5;1,250\n", ("a", "b"), [[1.5, 1000], [2.5, 1250]]),
    "short rows": ("a,b\n1,2\n3\n", ("a", "b"), [[1, 2], [3, np.nan]]),
    "a line break in a name": ('time,"flow\nin l/s"\n1,2\n3,4\n', ("flow\nin l/s",), [[2], [4]]),
}


@pytest.mark.parametrize("case", TEXTS)
def test_text_as_programs_write_it(case, tmp_path):
    text, channels, values = TEXTS[case]
    table = read(tmp_path, "x.csv", text)
    assert table.channels == channels
    np.testing.assert_array_equal(table.values, values)


def test_a_wide_table_is_read_fast(tmp_path):
    import time

    wide = pd.DataFrame(np.random.default_rng(0).random((500, 1000)).round(3)).add_prefix("sensor_")
    wide.insert(0, "time", pd.date_range("2024", periods=500, freq="min"))
    wide.to_csv(tmp_path / "x.csv", index=False)
    began = time.perf_counter()
    assert read_table(tmp_path / "x.csv").values.shape == (500, 1000)
    assert time.perf_counter() - began < 10


def test_json_rows_may_lack_names_and_hold_huge_numbers(tmp_path):
    rows = [{"values": {"a": 1}}, {"values": {"b": 2.5}}, {"a": 10**30, "b": None}]
    table = read(tmp_path, "x.jsonl", "\n".join(map(json.dumps, rows)))
    np.testing.assert_array_equal(table.values, [[1, np.nan], [np.nan, 2.5], [1e30, np.nan]])
    assert np.isinf(read(tmp_path, "y.jsonl", '{"a": ' + "9" * 400 + "}").values).all()


def test_a_json_line_of_16_mebibytes_is_refused(tmp_path):
    with pytest.raises(InputError, match="line 1 is over"):
        read(tmp_path, "x.jsonl", b'{"a": ' + b" " * 2**24 + b"1}")


def test_files_folders_and_patterns(tmp_path):
    for name in ("b.csv", "a.csv", "c.jsonl", "notes.txt"):
        (tmp_path / name).write_text("time,a\n1,2\n")
    (tmp_path / "empty").mkdir()
    files, refused = find_files([tmp_path, tmp_path / "*.csv", tmp_path / "notes.txt"])
    assert [name for name, _ in files] == ["a", "b", "c", "notes"]
    assert refused == []
    wrong = [tmp_path / "*.parquet", tmp_path / "none.csv", tmp_path / "empty", tmp_path / "x.pdf"]
    wrong[3].write_text("")
    files, refused = find_files([*wrong, tmp_path / "a.csv"])
    assert [name for name, _ in files] == ["a"]
    for (name, error), path, match in zip(
        refused,
        wrong,
        ["no file matches the pattern", "there is no file", "has no data file", "unknown kind"],
        strict=True,
    ):
        assert name == str(path)
        assert match in str(error)


def test_what_is_no_regular_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    ((name, error),) = find_files([tmp_path / "pipe.csv"])[1]
    assert name == str(tmp_path / "pipe.csv")
    assert "is no regular file" in str(error)


def test_files_of_the_same_name_are_told_apart_by_their_paths(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text("a\n1\n")
    assert [name for name, _ in find_files([tmp_path / "*" / "x.csv"])[0]] == [
        str(tmp_path / "one" / "x.csv"),
        str(tmp_path / "two" / "x.csv"),
    ]


def test_one_wrong_file_does_not_keep_the_others_from_being_read(tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.npy").write_bytes(b"no")
    (tmp_path / "c.csv").write_text(CSV)
    (tmp_path / "d.csv").mkdir()
    tables, refused = read_all([tmp_path / "[a-d].*"], Reading())
    assert [name for name, _ in tables] == ["a", "c"]
    assert tables[0][1].name == str(tmp_path / "a.csv")
    assert [name for name, _ in refused] == [str(tmp_path / "d.csv"), "b"]


def test_what_cannot_be_opened_is_an_input_error(tmp_path, monkeypatch):
    from patchad.data.readers import registry

    def fails(error):
        def reader(path):
            raise error

        return reader

    (tmp_path / "x.csv").write_text(CSV)
    for error, match in ((PermissionError(13, "Permission denied"), "Permission denied"), (MemoryError(), "into RAM")):
        monkeypatch.setitem(registry.READERS, ".csv", fails(error))
        with pytest.raises(InputError, match=match):
            read_table(tmp_path / "x.csv")


def test_columns_are_read_from_every_format(tmp_path):
    for name, content in GOOD.items():
        (tmp_path / name).write_bytes(content())
        names = ["1", "0"] if name in ("x.npy", "x.npz") else ["b", "a"]
        columns = read_columns(tmp_path / name, names)
        assert list(columns) == names
        np.testing.assert_array_equal(columns[names[1]], FRAME["a"])
    with pytest.raises(InputError, match=r"x\.csv: there is no column 'z'; the columns are 'time', 'a', 'b'"):
        read_columns(tmp_path / "x.csv", ["z"])
    with pytest.raises(InputError, match="'word' holds text"):
        read_columns(written(tmp_path / "words.csv", "a,word\n1,x\n"), ["a", "word"])
    with pytest.raises(InputError, match="there is no file"):
        read_columns(tmp_path / "none.csv", ["z"])
