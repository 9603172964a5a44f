"""Hostile calls of the commands beside `fit` and `detect`, and of what an operator may tell them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.call import CHANNELS, QUICK, Call, set_options
from tests.fuzz.streams import hostile_lines, hostile_state
from tests.fuzz.tables import CELLS, HEADERS, TIMES, hostile_table

READING = {
    "--time-format": ("%Y-%m-%d %H:%M:%S", "%d/%m/%Y", "%s", "%j", "%Z%z", "%Y%Y", "%%", "ISO8601", "mixed", ""),
    "--every": (
        "1min",
        "5min:mean",
        "30s:max",
        "1h:last",
        "2min:",
        ":mean",
        "1min:x",
        "1M",
        "1e-9s",
        "0.5ms",
        "999999d",
    ),
    "--long": ("time,name,value", "time,a,b", "time, a ,b", "time,a", "a,time,b", "time,time,a", ",,", "time,a,b,c"),
    "--dedupe": ("first", "last", "mean", "", "FIRST"),
    "--columns": ("a,b,c", "time,a", "*", "[", "a*"),
    "--exclude": ("b", "time", "*", "[!"),
    "--sort": (None,),
    "--no-join": (None,),
}
KNOWN = {
    "direction": ("up", "down", "sideways", "{'a': 'up'}", "{'nope': 'up'}", "{'a': 1}", "{}", "{1: 'up'}", "['up']"),
    "min_change": ("0", "-1", "nan", "1e400", "{'a': 1}", "{'a': 'x'}", "{'nope': 1}", "{'a': None}", "0.5", "{}"),
    "ignore": ("a", "a,b,c", "nope", "", ",", "()", "('a', 'a')", "time", "1", "(1,)", "*", "label", "a,b"),
}
BOUNDS = (
    "", "0", "5", "-1", "59", "1e3", "x", "nan", "²", "2024-03-30", "2024-03-30 00:10", "2024-03-30T00:10+02:00",
    "2024-03-31 02:30", "9" * 30, "24:00", "1min", *TIMES,
)  # fmt: skip


def _reading(rng: random.Random, most: int = 2) -> list[str]:
    names = rng.sample(list(READING), rng.randrange(most + 1))
    return [text for name in names for text in (name, rng.choice(READING[name])) if text is not None]


def _known(rng: random.Random) -> list[str]:
    return [f"{name}={rng.choice(KNOWN[name])}" for name in rng.sample(list(KNOWN), rng.choice([1, 1, 2]))]


def _periods(rng: random.Random, folder: Path) -> tuple[Path, str]:
    """Write a file of periods."""
    path = folder / rng.choice(["periods.csv", "\x1b[2J.csv"])
    if rng.random() < 0.2:
        made, what = hostile_table(rng, folder, ("from", "to", "channel"))
        return made.rename(path), what
    header = ["from", "to", *rng.choice([[], ["channel"], ["channel", "why"], ["to"], ["from"]])]
    if rng.random() < 0.1:
        header[rng.randrange(len(header))] = rng.choice(HEADERS)
    grid = [header]
    for _ in range(rng.choice([0, 1, 1, 3])):
        bounds = [rng.choice([*BOUNDS, rng.choice(CELLS)]) for _ in range(2)]
        grid.append([*bounds, *rng.choices(["", "a", "b", "nope", "\x1b[2J"], k=len(header) - 2)])
    text = "\n".join(",".join(row) for row in grid)
    path.write_bytes(text.encode(rng.choice(["utf-8", "utf-8", "utf-8", "utf-16", "latin-1"]), "replace"))
    return path, text[:100]


def _data(rng: random.Random, folder: Path, model: Path) -> tuple[Path, str]:
    if rng.random() < 0.6:
        return model.with_name(rng.choice(["calm.csv", "odd.csv", "long.csv"])), ""
    return hostile_table(rng, folder, CHANNELS)


def operator_call(rng: random.Random, folder: Path, model: Path) -> Call:
    """Tell `detect` or `fit` how to read, when to be quiet, and what matters."""
    data, what = _data(rng, folder, model)
    arguments, inputs = _reading(rng, 3), (data, model)
    fitting = rng.random() < 0.3
    if rng.random() < 0.5:
        periods, text = _periods(rng, folder)
        arguments += ["--exclude-periods" if fitting else "--quiet", str(periods)]
        inputs, what = (*inputs, periods), f"{what}; {text}"
    if fitting:
        out = folder / "out" / "model.safetensors"
        arguments += set_options([*QUICK, *_known(rng)])
        return Call("operator", ["fit", str(data), "-o", str(out), *arguments], _told(what, arguments), (out,), inputs)
    outputs = (folder / "out" / "scores.csv", folder / "out" / "events.json")
    arguments += ["-o", str(outputs[0]), "--events", str(outputs[1])]
    return Call("operator", ["detect", str(model), str(data), *arguments], _told(what, arguments), outputs, inputs)


def scan_call(rng: random.Random, folder: Path, model: Path) -> Call:
    """Scan data."""
    data, what = (model.with_name("whole.csv"), "") if rng.random() < 0.3 else _data(rng, folder, model)
    outputs = (folder / "out" / "scores.csv", folder / "out" / "events.json")
    arguments = ["-o", str(outputs[0]), "--events", str(outputs[1]), *_reading(rng, 1)]
    arguments += set_options([*QUICK, *(_known(rng) if rng.random() < 0.3 else [])])
    if rng.random() < 0.4:
        arguments += ["--severity", rng.choice(["0", "100", "101", "-1", "nan", "inf", "x", ""])]
    if rng.random() < 0.4:
        arguments += ["--folds", rng.choice(["2", "0", "1", "-3", "5", "1000000", "x"])]
    arguments += ["--labels", rng.choice(["a", "time", "nope", ""])] if rng.random() < 0.2 else []
    return Call("scan", ["scan", str(data), *arguments], _told(what, arguments), outputs, (data,))


def watch_call(rng: random.Random, folder: Path, model: Path) -> Call:
    """Send lines to `watch`, at times with a state, which may be damaged."""
    sent, what = hostile_lines(rng, CHANNELS)
    arguments: list[str] = []
    if rng.random() < 0.4:
        state = folder / rng.choice(["state", "state", "\x1b[2J", "ü"])
        if rng.random() < 0.6:
            what += "; " + hostile_state(rng, model.with_name("state"), state)
        arguments += ["--state", str(rng.choice([state, state, state, state, model, folder]))]
    if rng.random() < 0.2:
        target = rng.choice([str(folder / "lines"), str(model), "", str(folder), "/proc/nope/x"])
        arguments += ["--to", f"file:{target}"]
    if rng.random() < 0.2:
        source = folder / "sent"
        source.write_bytes(sent)
        arguments += ["--from", rng.choice(["-", "influx:-", "file:", "x://", f"file:{folder / 'none'}/x", "", "-x"])]
    arguments += ["--check"] if rng.random() < 0.05 else []
    return Call("watch", ["watch", str(model), *arguments], what, (), (model,), sent)


def accept_call(rng: random.Random, folder: Path, model: Path) -> Call:
    """Accept rows, or take that back."""
    data, what = _data(rng, folder, model)
    out = folder / "out" / "model.safetensors"
    arguments = ["-o", str(out), *(_reading(rng) if rng.random() < 0.3 else [])]
    for option in ("--from", "--to"):
        arguments += [option, rng.choice([*BOUNDS, rng.choice(CELLS)])] if rng.random() < 0.6 else []
    arguments += ["--undo"] if rng.random() < 0.3 else []
    named = [] if "--undo" in arguments and rng.random() < 0.5 else [str(data)]
    source = rng.choice([model, model.with_name("accepted.safetensors")])
    call = ["accept", str(source), *named, *arguments]
    return Call("accept", call, _told(what, arguments), (out,), (data, source))


def fleet_call(rng: random.Random, folder: Path, model: Path) -> Call:
    """Detect in several files, or in one with a column of names."""
    inside, out = folder / "data", folder / "out"
    inside.mkdir()
    data, what = hostile_table(rng, inside, CHANNELS)
    named: list[Path] = [
        rng.choice([data, inside]),
        *rng.choices([model.with_name("odd.csv"), model.with_name("calm.csv")]),
    ]
    by = rng.choice(["a", "name", "time", "nope", ""]) if rng.random() < 0.3 else None
    named = [model.with_name("long.csv")] if by is not None and rng.random() < 0.5 else named
    arguments = ["-o", str(out), "--workers", rng.choice(["1", "1", "1", "1", "0", "-1", "x"]), *_reading(rng, 1)]
    arguments += [] if by is None else ["--by", by]
    if rng.random() < 0.2:
        periods, text = _periods(rng, folder)
        arguments += ["--quiet", str(periods)]
        what += f"; {text}"
    if rng.random() < 0.3:
        option = rng.choice(["--fleet-false-alarms", "--false-alarms", "--threshold", "--merge-gap", "--min-duration"])
        arguments += [option, rng.choice(["0", "-1", "nan", "1e400", "2/week", "auto", "x", "3"])]
    arguments += ["--fail-on-event"] if rng.random() < 0.2 else []
    outputs = tuple(out / name for name in ("manifest.csv", "events.json", "incidents.json", "index.html"))
    call = ["fleet", "detect", str(model), *map(str, named), *arguments]
    return Call("fleet", call, _told(what, arguments), outputs, (model, data))


def refit_call(rng: random.Random, folder: Path, model: Path) -> Call:
    """Fit a model to the rows of a state, which may be damaged."""
    state, out = folder / "state", folder / "out" / "model.safetensors"
    what = hostile_state(rng, model.with_name("state"), state)
    chosen = rng.choice([state, state, state, folder / "nothing", model])
    source = rng.choice([model, model, model, state, folder / "nothing"])
    call = ["refit", str(source), "--state", str(chosen), "-o", str(out)]
    return Call("refit", call, what, (out,), (model,))


def _told(what: str, arguments: list[str]) -> str:
    return f"{what}; {' '.join(arguments)}"


COMMANDS: dict[str, tuple[int, Callable[[random.Random, Path, Path], Call]]] = {
    "operator": (8, operator_call),
    "watch": (10, watch_call),
    "accept": (4, accept_call),
    "fleet": (3, fleet_call),
    "scan": (2, scan_call),
    "refit": (1, refit_call),
}
"""With their weights beside the kinds of `calls`, which have a hundred together."""
