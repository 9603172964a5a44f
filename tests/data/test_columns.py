from __future__ import annotations

from decimal import Decimal

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from patchad.data.columns import States, read_column
from patchad.data.table import to_table
from patchad.errors import InputError

NAN = np.nan
BIG = 2**60 + 1


def read(column):
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    return read_column(nw.from_native(column, series_only=True).alias("x"))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([BIG, None]), [float(BIG), NAN]),
        (pa.array([2**63 + 1, 3], pa.uint64()), [2.0**63, 3.0]),
        (pa.array([1, None], pa.int8()), [1.0, NAN]),
        (pa.array([Decimal("1.5"), None], pa.decimal128(20, 2)), [1.5, NAN]),
        (pa.array([Decimal("1.5"), None], pa.decimal256(50, 2)), [1.5, NAN]),
        (pa.array([7, 8, 7]).dictionary_encode(), [7.0, 8.0, 7.0]),
        (pa.array([True, None]), [1.0, NAN]),
        (pa.nulls(2), [NAN, NAN]),
        (pd.Series(pd.array([BIG, None], dtype="Int64")), [float(BIG), NAN]),
        (pd.Series([BIG, None], dtype=pd.ArrowDtype(pa.int64())), [float(BIG), NAN]),
        (pd.Series([Decimal("1.5"), None], dtype=object), [1.5, NAN]),
        (pd.Series([pd.NA, "1"], dtype="string"), [NAN, 1.0]),
        (pd.Series([pd.NA, True], dtype="boolean"), [NAN, 1.0]),
        (pd.Series(pd.Categorical([3, 4])), [3.0, 4.0]),
        (pd.Series(["1", "n/a", " ", "-", "2"]), [1.0, NAN, NAN, NAN, 2.0]),
        (pd.Series(["TRUE", "false", None]), [1.0, 0.0, NAN]),
        (pd.Series(["null", "NA"]), [NAN, NAN]),
        (pl.Series([Decimal("1.5"), None]), [1.5, NAN]),
        (pl.Series([2**100, 3], dtype=pl.Int128), [2.0**100, 3.0]),
        (pl.Series(["x", None]).cast(pl.Categorical).is_null(), [0.0, 1.0]),
    ],
)
def test_numbers_of_every_type(column, expected):
    np.testing.assert_array_equal(read(column), expected)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["on", None, "off", "on"]),
        pa.array(["on", None, "off", "on"]).dictionary_encode(),
        pd.Series(["on", None, "off", "on"]),
        pd.Series(["on ", pd.NA, " off", "on"], dtype="string"),
        pd.Series(pd.Categorical(["on", None, "off", "on"])),
        pl.Series(["on", "", "off", "on"]),
        pl.Series(["on", None, "off", "on"], dtype=pl.Enum(["off", "on"])),
    ],
)
def test_text_of_every_type_is_states(column):
    states = read(column)
    assert isinstance(states, States)
    assert states.names == ("on", "off")
    assert states.codes.tolist() == [0, -1, 1, 0]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1, 2], pa.time64("ns")), r"column 'x' holds times of day \(Time\)"),
        (pa.array([[1], [2]]), "holds lists or records"),
        (pa.array([{"a": 1}]), "holds lists or records"),
        (pa.array([b"a"]), "holds bytes"),
        (pa.array([1], pa.timestamp("s")), "holds times"),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "a value of type list in row 0"),
        (pd.Series([None, [1]]), "a value of type list in row 1"),
        (pd.Series([1j, 2.0]), "a value of type complex in row 0"),
        (pd.Series(["a", b"b"], dtype=object), "a value of type bytes in row 1"),
        (pd.Series([1, int("9" * 400)], dtype=object), "a number in row 1 that is too large for a float"),
        (pd.Series([1, 10**5000], dtype=object), "a number in row 1 that is too large for a float"),
        (pd.Series(["1", "9" * 400]), "a number in row 1 that is too large for a float"),
        (pd.Series(["1", "err"]), "column 'x' has 'err' in row 1, a number is needed"),
    ],
)
def test_what_is_neither_is_refused_with_a_reason(column, message):
    with pytest.raises(InputError, match=message):
        read(column)


def test_a_huge_number_in_a_list_is_refused():
    with pytest.raises(InputError, match="too large"):
        to_table([[1], [int("9" * 400)]])
