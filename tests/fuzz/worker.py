"""The process that runs hostile inputs one after another and judges each; a line of JSON for each goes to stdout.

`python -m tests.fuzz.worker FOLDER SEED START STOP` is what `tests.fuzz.engine` runs: it ends this process when an
input takes too long, and starts another after it.
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
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from patchad import PatchAD, load
from patchad.cli.main import run
from patchad.errors import PatchADError
from tests.fuzz.calls import CHANNELS, Call, hostile_call
from tests.fuzz.containers import hostile_container

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
        PatchAD(**settings).fit(calm.set_index("time")).save(model)
    return model


def judge_call(call: Call, folder: Path) -> tuple[object, str | None]:
    """Run a call; return its exit code and what is wrong, if anything."""
    before = {path: path.read_bytes() for path in call.inputs if path.is_file()}
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        try:
            code: object = run(call.arguments)
        except BaseException:  # noqa: BLE001 - this is what must not happen
            return "traceback", traceback.format_exc()[-1500:]
    printed = out.getvalue() + err.getvalue()
    errors = [line for line in err.getvalue().splitlines() if line.startswith("error: ")]
    present = [path.exists() for path in call.outputs]
    wrong = {
        f"exit code {code}": code not in (0, 1, 2, 3),
        f"{len(errors)} errors with exit code {code}": len(errors) != (code in (2, 3)),
        "an error that is too long": any(len(line) > 1200 for line in errors),
        "characters that a terminal obeys": any(
            (ord(c) < 32 and c not in "\n\t") or c in "\u202e\x7f\x9b" for c in printed
        ),
        "Traceback": "Traceback" in printed,
        "a mixed set": any(present) and not all(present),
        "an output is missing": code in (0, 1) and "--help" not in call.arguments and not all(present),
        "files were left": any(path.name.startswith(".patchad-") for path in folder.rglob("*")),
        "an input was changed": any(not path.is_file() or path.read_bytes() != old for path, old in before.items()),
    }
    noise = [one for one in warned if "patchad" in one.filename or issubclass(one.category, RuntimeWarning)]
    if noise and call.kind != "model":  # absurd numbers in a model file may overflow
        wrong[f"warning: {noise[0].message} at {noise[0].filename}:{noise[0].lineno}"] = True
    found = [text for text, is_so in wrong.items() if is_so] + [
        text for path in call.outputs if (text := _damage(path))
    ]
    return code, "; ".join(found) + f" | {err.getvalue()[-500:]}" if found else None


def _damage(path: Path) -> str | None:
    """Say what is wrong with an output file."""
    if not path.exists():
        return None
    try:
        if path.suffix == ".csv":
            assert list(pd.read_csv(path))[:6] == ["series", "row", "time", "score", "level", "alarm"]
        elif path.suffix == ".json":
            json.loads(path.read_text(), parse_constant=lambda name: 1 / 0)
        elif path.suffix == ".safetensors":
            load(path)
        else:
            assert path.read_bytes().rstrip().endswith(b"</html>")
    except Exception as error:  # noqa: BLE001 - whatever it is, the file is no good
        return f"{path.name} cannot be read: {error!r}"
    return None


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


def run_one(seed: int, number: int, folder: Path, model: Path) -> dict[str, Any]:
    """Make and judge one input."""
    rng = random.Random(f"{seed} {number}")
    place = folder / "case"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    began = time.monotonic()
    if rng.random() < CONTAINERS:
        kind = "container"
        code, problem, what = judge_container(rng, model)
    else:
        call = hostile_call(rng, place, model)
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
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    torch.set_num_threads(1)
    logging.getLogger().addHandler(logging.NullHandler())  # `main` writes the log, `run` does not
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    model = make_workshop(folder)
    os.chdir(folder)
    for number in range(start, stop):
        answers.write(json.dumps(run_one(seed, number, folder, model)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
