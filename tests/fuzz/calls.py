"""Hostile calls of the command line: one for every number, the same for the same seed and number."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.call import CHANNELS, QUICK, Call, set_options
from tests.fuzz.commands import COMMANDS
from tests.fuzz.models import hostile_model
from tests.fuzz.tables import CELLS, HEADERS, hostile_table

NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "1e400",
    "nan",
    "inf",
    "99999999999999999999",
    "x",
    "",
    "1.5",
    "0x10",
    "१",
    "--",
    "\x1b",
    "1/0",
)
OPTIONS = {
    "--threshold": (
        *NUMBERS,
        "auto",
        "spot",
        "dspot",
        "quantile:0.9",
        "quantile:2",
        "sigma:-1",
        "mad:nan",
        "ratio:1",
        "ratio:x",
    ),
    "--false-alarms": (*NUMBERS, "2/week", "1/s", "1/", "/week", "1e308/day", "-1/day"),
    "--merge-gap": NUMBERS,
    "--min-duration": NUMBERS,
    "--time": ("time", "a", "nope", "", "Time"),
    "--labels": ("a", "time", "label", "nope", ""),
    "--time-format": ("%Y", "%d/%m/%Y", "%", "", "%Q", "\x00"),
    "--columns": ("a,b", "a", "nope", "", ",", "a,a"),
    "--exclude": ("a", "nope", "a,b,c", ""),
    "--every": ("1min", "0", "-1s", "1x", "1e9d", "5s:mean", "1ns"),
    "--long": ("time,a,b", "a", "a,a,a", ""),
    "--dedupe": ("first", "mean", "x"),
}
SWITCHES = ("--fail-on-event", "--no-join", "--sort", "--json", "--help", "--nonsense")
SETTINGS = (
    "window", "patch_sizes", "d_model", "layers", "hop", "fold", "objective", "distance", "constraint",
    "score", "memory", "scaling",
    "adapt", "orientation", "smoothing", "threshold", "false_alarms", "risk", "missing", "max_gap", "epochs",
    "stride", "batch_size",
    "learning_rate", "calibration", "device", "random_state", "activation", "nonsense",
)  # fmt: skip
VALUES = (
    *NUMBERS, "None", "True", "()", "(3,)", "3,5", "[1]", "{}", "'x'", "newest", "kl", "cuda:99", "auto",
    "drop", "12", "6", "0.5", "1e-9",
    "1e9", "__import__('os')", "(" * 100, "10**9",
)  # fmt: skip


def hostile_call(rng: random.Random, folder: Path, model: Path) -> Call:
    """Make a call and its files in an empty folder."""
    kind = rng.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
    return KINDS[kind][1](rng, folder, model)


def _outputs(rng: random.Random, folder: Path) -> tuple[list[str], tuple[Path, ...]]:
    options = {"-o": "scores.csv", "--events": "events.json"} | (
        {"--report": "report.html"} if rng.random() < 0.02 else {}
    )
    chosen = {option: folder / "out" / name for option, name in options.items() if rng.random() < 0.8}
    return [text for option, path in chosen.items() for text in (option, str(path))], tuple(chosen.values())


def _table(rng: random.Random, folder: Path, model: Path) -> Call:
    data, what = hostile_table(rng, folder, CHANNELS)
    arguments, outputs = _outputs(rng, folder)
    return Call("table", ["detect", str(model), str(data), *arguments], what, outputs, (data, model))


def _model(rng: random.Random, folder: Path, model: Path) -> Call:
    changed, data = folder / "model.safetensors", model.with_name("calm.csv")
    try:
        what = hostile_model(rng, model, changed)
    except (TypeError, ValueError, RecursionError) as error:  # what JSON or safetensors cannot write
        changed.write_bytes(rng.randbytes(50))
        what = f"random bytes: {error}"[:80]
    arguments, outputs = _outputs(rng, folder)
    call = rng.choice([["detect", str(changed), str(data), *arguments]] * 4 + [["inspect", str(changed)]])
    return Call("model", call, what, outputs if call[0] == "detect" else (), (changed, data))


def _options(rng: random.Random, folder: Path, model: Path) -> Call:
    data = model.with_name("odd.csv")
    arguments, outputs = _outputs(rng, folder)
    for option in rng.sample(list(OPTIONS), rng.choice([1, 1, 2])):
        arguments += [option, rng.choice([*OPTIONS[option], rng.choice(CELLS), rng.choice(HEADERS)])]
    arguments += [rng.choice(SWITCHES)] if rng.random() < 0.2 else []
    if rng.random() < 0.1:
        taken = rng.choice(
            [data, model, folder, Path("/proc/nope/x"), folder / ("n" * 300), folder / "out" / "events.json", Path()]
        )
        arguments, outputs = [*arguments, "-o", str(taken)], ()
    call = ["detect", str(model), str(data), *arguments]
    return Call("options", call, " ".join(arguments), outputs, (data, model))


def _fit(rng: random.Random, folder: Path, model: Path) -> Call:
    data, what = (model.with_name("calm.csv"), "") if rng.random() < 0.5 else hostile_table(rng, folder, CHANNELS)
    out = folder / "out" / "model.safetensors"
    settings = list(QUICK)
    if not what:
        settings += [f"{rng.choice(SETTINGS)}={rng.choice(VALUES)}" for _ in range(rng.choice([1, 1, 2]))]
    call = ["fit", str(data), "-o", str(out), *set_options(settings)]
    return Call("fit", call, what or str(settings[len(QUICK) :]), (out,), (data,))


def _several(rng: random.Random, folder: Path, model: Path) -> Call:
    found, texts = [model.with_name("calm.csv")], []
    for number in range(rng.choice([1, 2])):
        inside = folder / str(number)
        inside.mkdir()
        path, what = hostile_table(rng, inside, CHANNELS)
        found.append(rng.choice([path, path, inside, inside / "nothing.csv"]))
        texts.append(what)
    rng.shuffle(found)
    arguments, outputs = _outputs(rng, folder)
    files = tuple(path for path in found if path.is_file())
    return Call("several", ["detect", str(model), *map(str, found), *arguments], "; ".join(texts), outputs, files)


def _evaluate(rng: random.Random, folder: Path, _: Path) -> Call:
    data, what = hostile_table(rng, folder, ("label", "score", "alarm"))
    columns = [rng.choice(["label", "score", "nope", ""]), rng.choice(["score", "label", "time"])]
    return Call("evaluate", ["evaluate", str(data), "--labels", columns[0], "--scores", columns[1]], what, (), (data,))


def _words(rng: random.Random, folder: Path, model: Path) -> Call:
    words = [
        "fit",
        "detect",
        "inspect",
        "evaluate",
        "--help",
        "-o",
        str(model),
        str(folder / "x"),
        "",
        "\x00",
        "-",
        "--",
        "bench",
        "data",
        "scan",
        "watch",
        "accept",
        "fleet",
        "refit",
    ]
    return Call("words", rng.choices(words, k=rng.randrange(5)), "words")


KINDS: dict[str, tuple[int, Callable[[random.Random, Path, Path], Call]]] = {
    "table": (45, _table),
    "model": (20, _model),
    "options": (12, _options),
    "fit": (12, _fit),
    "several": (6, _several),
    "evaluate": (4, _evaluate),
    "words": (1, _words),
    **COMMANDS,
}
"""Kinds of calls, each with its weight: slow ones are rare."""
