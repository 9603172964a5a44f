"""The process that runs hostile inputs one after another and judges each; a line of JSON for each goes to stdout.

`python -m tests.fuzz.worker FOLDER SEED START STOP` is what `tests.fuzz.engine` runs: it ends this process when an
input takes too long, and starts another after it. A fifth argument names the only kind of call to make.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from patchad import PatchAD, load
from patchad.cli.console import Notes
from patchad.cli.main import run
from patchad.errors import PatchADError
from tests.fuzz.call import CHANNELS, Call
from tests.fuzz.calls import KINDS, hostile_call
from tests.fuzz.containers import hostile_container
from tests.fuzz.streams import usual_lines

ADDRESS_SPACE = 16 * 2**30
MOST_RAM = 2 * 2**30
"""Bytes that the process may ever have taken."""
CONTAINERS = 0.08
"""Share of inputs that are containers."""


def make_workshop(folder: Path) -> Path:
    """Write a small model and data for it, unless they are there; return the model."""
    model = folder / "good.safetensors"
    if not model.exists():
        t = np.arange(200)[:, None] / 4 + np.arange(3)
        calm = pd.DataFrame(np.sin(t) + 0.1 * np.random.default_rng(0).standard_normal(t.shape), columns=list(CHANNELS))
        calm.insert(0, "time", pd.date_range("2024-01-01", periods=len(calm), freq="min"))
        calm.to_csv(folder / "whole.csv", index=False)
        calm[:60].to_csv(folder / "calm.csv", index=False)
        odd = calm[60:140].copy()
        odd.iloc[40:44, 2] += 5
        odd.to_csv(folder / "odd.csv", index=False)
        settings: dict[str, Any] = {
            "window": 12,
            "max_steps": 3,
            "d_model": 4,
            "layers": 1,
            "patch_sizes": (2, 3),
            "memory": 400,
        }
        detector = PatchAD(**settings).fit(calm.set_index("time"))
        _make_more(folder, detector, calm)
        detector.save(model)
    return model


def _make_more(folder: Path, detector: PatchAD, calm: pd.DataFrame) -> None:
    """Write a long table, a model that was told of rows, and a state from which another can be fitted."""
    calm[:40].melt("time", var_name="name").to_csv(folder / "long.csv", index=False)
    model = detector.save(folder / "told.safetensors")
    with _streams(usual_lines(random.Random(0), CHANNELS, 260)) as (_, err):
        code = run(["watch", str(model), "--state", str(folder / "state")])
        assert code == 0, err()
        code = run(["accept", str(model), str(folder / "odd.csv"), "-o", str(folder / "accepted.safetensors")])
        assert code == 0, err()


@contextlib.contextmanager
def _streams(sent: bytes) -> Iterator[tuple[Callable[[], str], Callable[[], str]]]:
    """Stand for the streams of a process; yield what was written to stdout, and to stderr and the log."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace", newline="\n") for _ in range(2)]
    notes = logging.StreamHandler(streams[1])
    notes.setFormatter(Notes())
    root, stdin = logging.getLogger(), sys.stdin

    def written(stream: io.TextIOWrapper) -> str:
        stream.flush()
        return stream.buffer.getvalue().decode()  # type: ignore[attr-defined]

    with tempfile.TemporaryFile() as file:
        file.write(sent)
        file.seek(0)
        root.addHandler(notes)
        sys.stdin = io.TextIOWrapper(file)
        try:
            with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
                yield partial(written, streams[0]), partial(written, streams[1])
        finally:
            sys.stdin = stdin
            root.removeHandler(notes)
            root.setLevel(logging.WARNING)


def judge_call(call: Call, folder: Path) -> tuple[object, str | None]:
    """Run a call; return its exit code and what is wrong, if anything."""
    before = {path: path.read_bytes() for path in call.inputs if path.is_file()}
    with _streams(call.sent) as (out, err), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            code: object = run(call.arguments)
        except BaseException:  # noqa: BLE001 - this is what must not happen
            return "traceback", traceback.format_exc()[-1500:]
        told, said = out(), err()
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    present = [path.exists() for path in call.outputs]
    wrong = {
        f"exit code {code}": code not in (0, 1, 2, 3),
        f"{len(errors)} errors with exit code {code}": len(errors) != (code in (2, 3))
        and "--check" not in call.arguments,
        "an error that is too long": any(len(line) > 1200 for line in errors),
        "characters that a terminal obeys": any(
            (ord(c) < 32 and c not in "\n\t") or c in "\u202e\x7f\x9b" for c in told + said
        ),
        "Traceback": "Traceback" in told + said,
        "a mixed set": any(present) and not all(present),
        "an output is missing": code in (0, 1) and "--help" not in call.arguments and not all(present),
        "files were left": any(path.name.startswith(".patchad-") for path in folder.rglob("*")),
        "a line that is no JSON": call.kind == "watch" and not _lines_of_json(call, told),
        "an input was changed": any(not path.is_file() or path.read_bytes() != old for path, old in before.items()),
    }
    noise = [one for one in warned if "patchad" in one.filename or issubclass(one.category, RuntimeWarning)]
    if noise and call.kind != "model":  # absurd numbers in a model file may overflow
        wrong[f"warning: {noise[0].message} at {noise[0].filename}:{noise[0].lineno}"] = True
    found = [text for text, is_so in wrong.items() if is_so] + [
        text for path in call.outputs if (text := _damage(path))
    ]
    return code, "; ".join(found) + f" | {said[-500:]}" if found else None


def _damage(path: Path) -> str | None:
    """Say what is wrong with an output file."""
    if not path.exists():
        return None
    try:
        if path.name == "manifest.csv":
            assert list(pd.read_csv(path))[:2] == ["series", "rows"]
        elif path.suffix == ".csv":
            assert list(pd.read_csv(path))[:6] == ["series", "row", "time", "score", "level", "alarm"]
        elif path.suffix == ".json":
            json.loads(path.read_text(), parse_constant=_no_constant)
        elif path.suffix == ".safetensors":
            load(path)
        else:
            assert path.read_bytes().rstrip().endswith(b"</html>")
    except Exception as error:  # noqa: BLE001 - whatever it is, the file is no good
        return f"{path.name} cannot be read: {error!r}"
    return None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _lines_of_json(call: Call, told: str) -> bool:
    """Return whether `watch` said nothing but objects of JSON."""
    if {"--check", "--help"} & set(call.arguments):
        return True
    try:
        return all(isinstance(json.loads(line, parse_constant=_no_constant), dict) for line in told.splitlines())
    except ValueError:
        return False


def judge_container(rng: random.Random, model: Path) -> tuple[object, str | None, str]:
    """Detect on a container; return what came, what is wrong, and the container's name."""
    made, name = hostile_container(rng, CHANNELS)
    detector = load(model)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        try:
            detector.detect(made)
        except PatchADError as error:
            return type(error).__name__, None, name
        except BaseException:  # noqa: BLE001 - this is what must not happen
            return "traceback", traceback.format_exc()[-1500:], name
    return "result", None, name


def run_one(seed: int, number: int, folder: Path, model: Path, only: str | None = None) -> dict[str, Any]:
    """Make and judge one input."""
    rng = random.Random(f"{seed} {number}")
    place = folder / "case"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    began = time.monotonic()
    if only is None and rng.random() < CONTAINERS:
        kind = "container"
        code, problem, what = judge_container(rng, model)
    else:
        call = hostile_call(rng, place, model) if only is None else KINDS[only][1](rng, place, model)
        kind, what = call.kind, call.what
        code, problem = judge_call(call, place)
    ram = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if ram > MOST_RAM and problem is None:
        problem = f"the process took {ram / 2**30:.1f} GiB"
    seconds = round(time.monotonic() - began, 3)
    return {
        "n": number,
        "kind": kind,
        "code": code,
        "what": what[:200],
        "problem": problem,
        "seconds": seconds,
        "ram": ram,
    }


def main(arguments: list[str]) -> None:
    """Run the inputs from START to STOP."""
    folder, (seed, start, stop) = Path(arguments[0]), map(int, arguments[1:4])
    only = arguments[4] if len(arguments) > 4 else None
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    model = make_workshop(folder)
    os.chdir(folder)
    for number in range(start, stop):
        answers.write(json.dumps(run_one(seed, number, folder, model, only)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
