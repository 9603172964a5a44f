"""Containers that a caller may pass by mistake."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd


def hostile_container(rng: random.Random, channels: tuple[str, ...]) -> tuple[Any, str]:
    """Return something to detect on, and its name."""
    rows = rng.choice([0, 1, 12, 40, 60])
    values = np.random.default_rng(rng.randrange(2**32)).standard_normal((rows, len(channels)))
    name = rng.choice(list(CONTAINERS))
    return CONTAINERS[name](rng, pd.DataFrame(values, columns=list(channels))), name


def _with_odd_cells(rng: random.Random, frame: pd.DataFrame) -> pd.DataFrame:
    found = frame.astype(object)
    odd = [
        None,
        "x",
        "",
        b"1",
        10**400,
        2**63,
        float("inf"),
        1e308,
        True,
        [1],
        {},
        pd.NA,
        pd.NaT,
        1j,
        np.float32(1),
        object(),
    ]
    if len(found):
        found.iat[rng.randrange(len(found)), rng.randrange(3)] = odd[rng.randrange(len(odd))]
    return found


def _indexed(rng: random.Random, frame: pd.DataFrame) -> pd.DataFrame:
    n = len(frame)
    return frame.set_axis(
        rng.choice([
            pd.date_range("2024-03-31", periods=n, freq="h", tz="Europe/Berlin"), pd.period_range("2024",
            periods=n, freq="D"),
            pd.timedelta_range("1s", periods=n), pd.Index(["a"] * n), pd.RangeIndex(n, 0, -1), pd.Index([np.nan] * n),
            pd.MultiIndex.from_arrays([range(n), range(n)]), pd.CategoricalIndex(["x"] * n), pd.Index([True] * n),
            pd.date_range("2024", periods=n, freq="h")[::-1], pd.DatetimeIndex(["NaT"] * n),
            pd.interval_range(0, n) if n else pd.RangeIndex(0),
        ])
    )  # fmt: skip


def _pandas_columns(rng: random.Random, frame: pd.DataFrame) -> pd.DataFrame:
    a, b, c = frame.columns
    return rng.choice([
        frame.set_axis([a, a, b], axis=1), frame.set_axis([1, 2, 3], axis=1), frame.set_axis([None, a, b], axis=1),
        frame.set_axis(pd.MultiIndex.from_tuples([("x", a), ("x", b), ("y", c)]), axis=1), frame[[]], frame[[b]],
        frame.assign(extra="text"), frame.assign(**{a: pd.array(["x"] * len(frame), "string")}),
        frame.assign(**{a: pd.array([pd.NA] * len(frame), "Int64")}),
        frame.assign(**{a: pd.Categorical(["x"] * len(frame))}),
        frame.assign(**{a: pd.Timestamp("2024")}), frame.astype("float16"), frame.assign(**{a: 2**63}),
        frame.astype(str),
        frame.assign(**{a: pd.arrays.SparseArray([0.0] * len(frame))}), frame.T,
    ])  # fmt: skip


def _polars(rng: random.Random, frame: pd.DataFrame) -> Any:
    import polars as pl

    table = pl.from_pandas(frame)
    return rng.choice([
        table, table.lazy(), table.with_columns(pl.lit("x").alias("t")),
        table.with_columns(pl.lit(None).alias(frame.columns[0])),
        table.with_columns(pl.lit([1]).alias(frame.columns[0])), table[:, 0], table.select([]),
    ])  # fmt: skip


def _pyarrow(rng: random.Random, frame: pd.DataFrame) -> Any:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    n = len(frame)
    kinds = [
        pa.array([2**53 + 1] * n, pa.int64()),
        pa.array([1] * n, pa.time64("ns")),
        pa.array([None] * n),
        pa.array(["x"] * n),
    ]
    return rng.choice(
        [table, table.set_column(0, frame.columns[0], rng.choice(kinds)), table.column(0), table.to_batches()]
    )


CONTAINERS: dict[str, Callable[[random.Random, pd.DataFrame], Any]] = {
    "nothing": lambda rng, _: rng.choice([None, (), [], {}, "", b"", 1, 1.5, "data.csv", object(), np.nan]),
    "lists": lambda rng, f: rng.choice([f.to_numpy().tolist(), [[1], [1, 2]], [[]], [["a", "b", "c"]], [[[1]]],
        [None], [1, 2, 3]]),
    "a list of series": lambda rng, f: rng.choice([[f, f], [f, None], [f, f[[]]], [f.to_numpy()], [f, "x"]]),
    "an iterator": lambda _, f: iter(f.to_numpy()),
    "a dict": lambda _, f: {name: f[name].tolist() for name in f},
    "numpy": lambda rng, f: rng.choice([
        f.to_numpy(), f.to_numpy().T, f.to_numpy()[None], f.to_numpy()[:, 0], f.to_numpy().astype(object),
        f.to_numpy().astype("U"),
        f.to_numpy().astype("c16"), f.to_numpy() > 0, np.zeros((40, 0)), np.ma.masked_array(f.to_numpy(), mask=True),
        np.full((40, 3), 1e308), np.full((40, 3), np.nan), np.full((40, 3), np.inf), np.full((40, 3),
        2**64 - 1, "u8"),
        f.to_numpy().astype("M8[s]"), f.to_records(), np.matrix(f.to_numpy()) if len(f) else f.to_numpy(),
        f.to_numpy()[::-1, ::-1],
        np.lib.stride_tricks.as_strided(np.ones(3), (40, 3), (0, 0)),
    ]),
    "pandas cells": _with_odd_cells,
    "pandas index": _indexed,
    "pandas columns": _pandas_columns,
    "a pandas series": lambda _, f: f[f.columns[0]],
    "polars": _polars,
    "pyarrow": _pyarrow,
}  # fmt: skip
