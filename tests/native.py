"""Write a few rows of every dataset in its native layout."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np

SWAT_CHANNELS = ("FIT101", "LIT101", "MV101", "P101")
WADI_CHANNELS = ("1_AIT_001_PV", "1_FIT_001_PV", "2_LS_001_AL", "TOTAL_CONS_REQUIRED_FLOW")
WADI_PREFIX = "\\\\WIN-25J4RO10SBF\\LOG_DATA\\SUTD_WADI\\LOG_DATA\\"


def rows(count: int, channels: int = 1, start: float = 0.0) -> np.ndarray:
    """Values that identify their position: row + channel / 100."""
    return np.round(start + np.arange(count)[:, None] + np.arange(channels)[None, :] / 100, 2)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def npz(path: Path, channels: int = 2, train: int = 6, test: int = 4, start: float = 0.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    label = np.arange(test) == 1
    np.savez(path, train=rows(train, channels, start), test=rows(test, channels, start), test_label=label.astype("u1"))


def triple(folder: Path, prefix: str, channels: int = 2, suffix: str = "npy") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {"train": rows(6, channels), "test": rows(4, channels), "test_label": np.array([0.0, 1.0, 1.0, 0.0])}
    for name, values in arrays.items():
        path = folder / f"{prefix}_{name}.{suffix}"
        if suffix == "npy":
            np.save(path, values)
        else:
            path.write_bytes(pickle.dumps(values.astype("float32"), protocol=2))


def telemanom(folder: Path, arrays: str = ".") -> None:
    lines = [
        "chan_id,spacecraft,anomaly_sequences,class,num_values",
        'P-1,SMAP,"[[2, 3], [5, 9]]","[contextual, point]",10',
        'P-2,SMAP,"[[1, 2]]",[point],10',
        'A-1,SMAP,"[[0, 0]]",[point],10',
        'P-2,SMAP,"[[4, 5]]",[point],10',
        'M-6,MSL,"[[1, 4]]",[point],10',
        'T-10,MSL,"[[1, 4]]",[point],10',  # listed, but without arrays
    ]
    write(folder / "labeled_anomalies.csv", "\n".join(lines))
    for channel, width in (("P-1", 25), ("P-2", 25), ("A-1", 25), ("M-6", 55)):
        for split, length in (("train", 8), ("test", 10)):
            path = folder / arrays / split / f"{channel}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, rows(length, width))


def psm(folder: Path) -> None:
    header = "timestamp_(min)," + ",".join(f"feature_{i}" for i in range(3))
    write(folder / "train.csv", header + "\n0,1.0,2.0,3.0\n1,,5.0,6.0\n2,7.0,8.0,9.0\n")
    write(folder / "test.csv", header + "\n132480,1.0,2.0,3.0\n132481,4.0,5.0,6.0\n")
    write(folder / "test_label.csv", "timestamp_(min),label\n132480,0\n132481,1\n")


def swat_cells(labels: list[str]) -> list[list[str]]:
    values = rows(len(labels), len(SWAT_CHANNELS))
    return [
        [f" 28/12/2015 10:00:{second:02d} AM", *map(str, values[second]), label] for second, label in enumerate(labels)
    ]


def swat_sheets() -> dict[str, list[list[str]]]:
    """Sheets with stage names above the header, spaces around names and a misspelt label."""
    stages = ["", "P1", "", "", "", ""]
    header = [" Timestamp", *(f" {name}" if i % 2 else name for i, name in enumerate(SWAT_CHANNELS)), "Normal/Attack"]
    normal = [stages, header, *swat_cells(["Normal"] * 11)]
    attack = [stages, header, *swat_cells(["Normal", "Attack", "A ttack", "Normal", "Attack ", "Normal"])]
    return {"SWaT_Dataset_Normal_v1": normal, "SWaT_Dataset_Attack_v0": attack}


def swat_csv(folder: Path, separator: str = ",", preamble: int = 0) -> None:
    for name, sheet in swat_sheets().items():
        lines = [""] * preamble + [separator.join(cells) for cells in sheet]
        text = "\n".join(lines)
        write(folder / f"{name}.csv", text.replace(".", ",") if separator == ";" else text)


def swat_xlsx(folder: Path) -> None:
    import openpyxl

    folder.mkdir(parents=True, exist_ok=True)
    for name, sheet in swat_sheets().items():
        book = openpyxl.Workbook()
        for number, cells in enumerate(sheet):
            book.active.append([float(c) if number > 1 and 0 < i < 5 else c or None for i, c in enumerate(cells)])
        book.save(folder / f"{name}.xlsx")


def wadi_rows(count: int) -> list[str]:
    """Row number, date, time and values; the third channel is empty, the second has a gap in row 2."""
    lines = []
    for i, row in enumerate(rows(count, 4)):
        second = "" if i == 2 else str(row[1])
        clock = f"{6 + i // 3600 % 24}:{i // 60 % 60:02d}:{i % 60:02d}.000 PM"
        lines.append(f"{i + 1},10/9/2017,{clock},{row[0]},{second},,{row[3]}")
    return lines


def wadi_2017(folder: Path, test: int = 10) -> None:
    header = "Row,Date,Time," + ",".join(WADI_PREFIX + name for name in WADI_CHANNELS)
    preamble = ["WADI", "Date,25/9/2017", "End,9/10/2017 18:00", ""]
    write(folder / "WADI_14days.csv", "\n".join([*preamble, header, *wadi_rows(11)]))
    write(folder / "WADI_attackdata.csv", "\n".join([header, *wadi_rows(test)]))


def wadi_2019(folder: Path) -> None:
    names = ",".join(WADI_CHANNELS)
    write(folder / "WADI_14days_new.csv", "\n".join([f"Row,Date,Time,{names}", *wadi_rows(11)]))
    marks = ["1", "-1", "-1", "1", "1", "1"]
    body = [f"{line},{mark}" for line, mark in zip(wadi_rows(6), marks, strict=True)]
    header = f"Row ,Date ,Time,{names},Attack LABLE (1:No Attack, -1:Attack)"
    header = header.replace("Attack LABLE (1:No Attack, -1:Attack)", '"Attack LABLE (1:No Attack, -1:Attack)"')
    blank = "," * 7
    write(folder / "WADI_attackdataLABLE.csv", "\n".join([blank, header, *body, f"7{blank}", f"8{blank}"]))


def water(folder: Path, name: str = "1_gecco2018_water_quality.csv") -> None:
    lines = [',"Time","Tp","Cl","pH","Redox","Leit","Trueb","Cl_2","Fm","Fm_2","EVENT"']
    for i, row in enumerate(rows(7, 9)):
        cells = ["NA" if i == 3 and j == 4 else str(cell) for j, cell in enumerate(row)]
        lines.append(f'"{i + 1}",2016-02-15 11:5{i}:00,{",".join(cells)},{"TRUE" if i in (1, 5) else "FALSE"}')
    write(folder / name, "\n".join(lines))


def swan_slices(folder: Path) -> None:
    header = "\t".join(["Timestamp", "TOTUSJH", "TOTBSQ", "EMPTY", "IS_TMFI", "CRVAL1_loc", "flare_label"])
    for name, day, offset in (("lab[NF]1@265:Primary_ar265", 1, 0), ("lab[M]1.0@1053:Primary_ar115", 2, 10)):
        lines = [header]
        for i in range(3):
            gap = "" if i == 1 else str(offset + i)
            lines.append("\t".join([f"2012-01-0{day} 00:{12 * i:02d}:00", str(offset + i), gap, "", "True", "9", "X"]))
        write(folder / "petdataset_01" / f"{name}.csv", "\n".join(lines))


def ucr(folder: Path) -> None:
    values = [f"  {value:.7e}" for value in range(12)]
    write(folder / "001_UCR_Anomaly_DISTORTED1sddb40_5_7_9.txt", "\n".join(values) + "\n")
    write(folder / "203_UCR_Anomaly_CHARISfive_5_2_3.txt", "\n".join(values) + "\n")
    write(folder / "204_UCR_Anomaly_CHARISfive_10_11_11.txt", " ".join(values))


def smd(folder: Path, label: str = "test_label") -> None:
    for machine in ("machine-1-1", "machine-3-10", "machine-3-2"):
        for split, length in (("train", 5), ("test", 4)):
            lines = [",".join(f"{value:.6f}" for value in row) for row in rows(length, 38)]
            write(folder / split / f"{machine}.txt", "\n".join(lines) + "\n")
        write(folder / label / f"{machine}.txt", "0\n0\n1\n0\n")


def skab(folder: Path) -> None:
    channels = (
        "Accelerometer1RMS;Accelerometer2RMS;Current;Pressure;Temperature;Thermocouple;Voltage;Volume Flow RateRMS"
    )
    for group, number, names in (
        ("valve1", 10, "anomaly;changepoint"),
        ("valve1", 2, "anomaly;changepoint"),
        ("other", 1, "is_anomaly;is_pa"),
    ):
        lines = [f"datetime;{channels};{names}"]
        for i, row in enumerate(rows(405, 8)):
            lines.append(f"2020-03-09 10:{i // 60:02d}:{i % 60:02d};{';'.join(map(str, row))};{float(i == 402)};0.0")
        write(folder / group / f"{number}.csv", "\n".join(lines))
    write(folder / "anomaly-free" / "anomaly-free.csv", f"datetime;{channels}\n")


def nab(folder: Path) -> None:
    lines = ["timestamp,value", *(f"2014-07-01 00:{minute:02d}:00,{minute}" for minute in range(20))]
    for group, name in (("realKnownCause", "nyc_taxi"), ("realTweets", "none"), ("artificialNoAnomaly", "art")):
        write(folder / "data" / group / f"{name}.csv", "\n".join(lines))
    windows = {
        "realKnownCause/nyc_taxi.csv": [["2014-07-01 00:04:00.000000", "2014-07-01 00:06:00.000000"]],
        "realTweets/none.csv": [],
        "artificialNoAnomaly/art.csv": [],
    }
    write(folder / "labels" / "combined_windows.json", json.dumps(windows))


def tsb_ad(folder: Path) -> None:
    for name in (
        "810_Exathlon_id_1_Facility_tr_3_1st_4",
        "260_IOPS_id_1_WebService_tr_2_1st_4",
        "001_NAB_id_1_F_tr_2_1st_4",
    ):
        write(folder / f"{name}.csv", "Data,Label\n" + "\n".join(f"{i}.5,{int(i == 4)}" for i in range(6)))
