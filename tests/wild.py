"""Files as people have them: one recording in the layouts of many programs; `python -m tests.wild` writes them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tests.conftest import waves

FOLDER = Path(__file__).parent / "data" / "wild"
NAMES = ("Druck (hPa)", "Öltemp °C")
START = "2024-03-12 21:30"  # midnight of the 13th lies inside, so that the order of day and month can be told
ROWS = 240


def recording(rows: int = ROWS, seed: int = 1) -> pd.DataFrame:
    """Give a recording with a time per minute and values of three decimals."""
    data = waves(rows, 2, seed)
    frame = pd.DataFrame(
        {NAMES[0]: (1000 + 40 * data[:, 0]).round(3), NAMES[1]: (60 + 5 * data[:, 1]).round(3)},
    )
    frame.insert(0, "time", pd.date_range(START, periods=rows, freq="min"))
    return frame


def faulty() -> pd.DataFrame:
    """Give the recording with a fault in its second channel, from row 150 to 160."""
    frame = recording()
    frame[NAMES[1]] = frame[NAMES[1]].where(~frame.index.isin(range(150, 160)), frame[NAMES[1]] + 20).round(3)
    return frame


@dataclass(frozen=True)
class Wild:
    """One file: how it is written, and the options that read it."""

    write: Callable[[pd.DataFrame, Path], None]
    options: tuple[str, ...] = ()
    offset: str | None = ""
    """What stands after the times of its events; None where it has no times."""


def text(frame: pd.DataFrame, path: Path, *, encoding: str = "utf-8", head: str = "", end: str = "\n", **how) -> None:
    """Write a frame as csv, with text before it."""
    how = {"index": False, "lineterminator": end} | how
    path.write_bytes((head + frame.to_csv(**how)).encode(encoding))


def dated(frame: pd.DataFrame, form: str, name: str = "time") -> pd.DataFrame:
    return frame.assign(time=frame["time"].dt.strftime(form)).rename(columns={"time": name})


def german(frame: pd.DataFrame, path: Path) -> None:
    text(dated(frame, "%d.%m.%Y %H:%M", "Zeit"), path, encoding="cp1252", end="\r\n", sep=";", decimal=",")


def german_thousands(frame: pd.DataFrame, path: Path) -> None:
    swap = str.maketrans(",.", ".,")
    cells = {name: [f"{value:,.3f}".translate(swap) for value in frame[name]] for name in NAMES}
    text(dated(frame, "%d.%m.%Y %H:%M:%S", "Datum").assign(**cells), path, encoding="utf-8-sig", sep=";")


def thousands(frame: pd.DataFrame, path: Path) -> None:
    text(frame.assign(**{NAMES[0]: [f"{value:,.3f}" for value in frame[NAMES[0]]]}), path, quoting=1)


def epoch(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(time=frame["time"].astype("datetime64[ms]").astype("int64"))


def long(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.melt("time", var_name="sensor", value_name="reading")


def irregular(frame: pd.DataFrame, path: Path) -> None:
    """One sensor logs up to 50 seconds before the minute, and twice; the other on it."""
    rows = long(frame)
    late = rows["sensor"] == NAMES[1]
    early = rows[late].assign(time=rows["time"] - pd.Timedelta("55s"), reading=lambda found: found["reading"] - 30)
    rows.loc[late, "time"] -= pd.to_timedelta(np.arange(late.sum()) % 50, unit="s")
    text(pd.concat([rows, early]).sort_values("time", kind="stable"), path)


def workbook(frame: pd.DataFrame, path: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    sheet.append(["Pumpwerk Nord, Export vom 14.03.2024"])
    sheet.append([])
    sheet.append(["Zeit", *NAMES])
    for time, *values in frame.itertuples(index=False):
        sheet.append([time.to_pydatetime(), *values])
    book.create_sheet("Notizen")
    book.save(path)


def with_notes(frame: pd.DataFrame, path: Path) -> None:
    lines = frame.to_csv(index=False).splitlines()
    lines[101:101] = ["", "# logger restarted"]
    path.write_text("\n".join(["# pump house", "", *lines, "", "# end"]) + "\n", encoding="utf-8")


def json_lines(frame: pd.DataFrame, path: Path, *, nested: bool) -> None:
    rows = []
    for time, *values in frame.itertuples(index=False):
        channels = dict(zip(NAMES, values, strict=True))
        rows.append({"time": time.isoformat()} | ({"values": channels} if nested else channels))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def in_zone(frame: pd.DataFrame, path: Path) -> None:
    frame.set_index(frame["time"].dt.tz_localize("Europe/Berlin")).drop(columns="time").to_parquet(path)


def stream_of_batches(frame: pd.DataFrame, path: Path) -> None:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame)
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)


def json_lines_epoch(frame: pd.DataFrame, path: Path) -> None:
    rows = frame.assign(time=epoch(frame)["time"] // 1000).to_dict("records")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def split(frame: pd.DataFrame, path: Path) -> None:
    """Write the date in one column and the time of day in the next."""
    parts = {"Date": frame["time"].dt.strftime("%d.%m.%Y"), "Time": frame["time"].dt.strftime("%H:%M:%S")}
    text(frame.drop(columns="time").assign(**parts)[["Date", "Time", *NAMES]], path, sep=";", decimal=",")


def trailing(frame: pd.DataFrame, path: Path) -> None:
    lines = frame.to_csv(index=False, sep="\t").splitlines()
    path.write_text("\t\n".join([*lines, ""]), encoding="utf-8")


FILES = {
    "german.csv": Wild(german),
    "german_thousands.csv": Wild(german_thousands),
    "us_dates.csv": Wild(lambda frame, path: text(dated(frame, "%m/%d/%Y %I:%M %p", "Date"), path, end="\r\n")),
    "epoch_ms.csv": Wild(lambda frame, path: text(epoch(frame), path), offset="+00:00"),
    "epoch_s.jsonl": Wild(json_lines_epoch, offset="+00:00"),
    "flat.jsonl": Wild(lambda frame, path: json_lines(frame, path, nested=False)),
    "nested.ndjson": Wild(lambda frame, path: json_lines(frame, path, nested=True)),
    "long.csv": Wild(lambda frame, path: text(long(frame), path), ("--long", "time,sensor,reading")),
    "irregular.csv": Wild(irregular, ("--long", "time,sensor,reading", "--every", "1min")),
    "packed.csv.gz": Wild(lambda frame, path: path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))),
    "unicode.txt": Wild(lambda frame, path: text(frame, path, encoding="utf-16", sep="\t", end="\r\n")),
    "utf16_unmarked.csv": Wild(lambda frame, path: text(frame, path, encoding="utf-16-le", sep=";")),
    "states.csv": Wild(lambda frame, path: text(frame.assign(pump=["ON", "OFF"] * (ROWS // 2)), path)),
    "frame.feather": Wild(lambda frame, path: frame.to_feather(path)),
    "stream.arrow": Wild(stream_of_batches),
    "workbook.xlsx": Wild(workbook),
    "zone.parquet": Wild(in_zone, offset="+01:00"),
    "headerless.csv": Wild(lambda frame, path: text(frame, path, header=False)),
    "notes.csv": Wild(with_notes),
    "titles.csv": Wild(lambda frame, path: text(frame, path, head="Device: logger 7\nSerial: 0815\n\n", sep=";")),
    "sep_line.csv": Wild(lambda frame, path: text(frame, path, encoding="utf-8-sig", head="sep=|\n", sep="|")),
    "trailing.tsv": Wild(trailing),
    "split.csv": Wild(split),
    "quoted.csv": Wild(lambda frame, path: text(frame.astype(str), path, quoting=1)),
    "thousands.csv": Wild(thousands),
    "repeated.csv": Wild(lambda frame, path: text(frame.loc[frame.index.repeat(2)], path), ("--dedupe", "first")),
    "unsorted.csv": Wild(lambda frame, path: text(frame.sample(frac=1, random_state=0), path), ("--sort",)),
    "spaces.txt": Wild(lambda frame, path: np.savetxt(path, frame[list(NAMES)].to_numpy(), fmt="%.3f"), offset=None),
    "extra.csv": Wild(lambda frame, path: text(frame.assign(pump=1, **{"note, long": "x"}), path, index=True)),
    "structured.npy": Wild(lambda frame, path: np.save(path, frame[list(NAMES)].to_records(index=False)), offset=None),
}
"""File name to how it is written and read."""


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, wild in FILES.items():
        wild.write(faulty(), FOLDER / name)
