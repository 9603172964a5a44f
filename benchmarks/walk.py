"""How far a row walks: the modules that `patchad detect` passes from a csv file to scores, events and a report.

    python -m benchmarks.walk MODEL DATA.csv

Counts the modules and folders of the package whose functions run, and the different calls from a function of one to a
function of another; leaves out what runs on import, how arithmetic runs (threads, kernels), and errors.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from types import FrameType
from typing import Any

RUNTIME = ("_kernels", "errors")
"""Modules that say how arithmetic runs, not what happens to a row."""


def walk(arguments: list[str]) -> tuple[Counter[str], set[tuple[str, str]]]:
    """Run the command line under a tracer; return calls by module, and calls across modules."""
    entered: Counter[str] = Counter()
    across: set[tuple[str, str]] = set()

    def module_of(frame: FrameType | None) -> str | None:
        name = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
        inside = name.removeprefix("patchad.")
        own = name.startswith("patchad.") and inside.split(".")[0] not in RUNTIME
        return inside if own else None

    def caller_of(frame: FrameType) -> tuple[str | None, str]:
        back = frame.f_back
        while back is not None and module_of(back) is None:
            back = back.f_back
        return module_of(back), back.f_code.co_qualname if back is not None else ""

    def trace(frame: FrameType, event: str, _: Any) -> None:
        module = module_of(frame)
        if event != "call" or module is None or frame.f_code.co_name == "<module>":
            return
        before, function = caller_of(frame)
        if before != module:
            entered[module] += 1
            if before is not None:
                across.add((f"{before}.{function}", f"{module}.{frame.f_code.co_qualname}"))

    from patchad.cli.main import run

    sys.setprofile(trace)
    try:
        run(arguments)
    finally:
        sys.setprofile(None)
    return entered, across


def main() -> None:
    """Print the walk."""
    model, data = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        outputs = ["-o", f"{folder}/scores.csv", "--events", f"{folder}/e.json", "--report", f"{folder}/r.html"]
        entered, across = walk(["detect", model, data, *outputs])
    folders = {module.split(".")[0] for module in entered}
    between = {calls for calls in across if calls[0].split(".")[0] != calls[1].split(".")[0]}
    print(f"{len(entered)} modules, {len(across)} different calls from one to another", file=sys.stderr)
    print(f"{len(folders)} folders, {len(between)} different calls from one to another", file=sys.stderr)


if __name__ == "__main__":
    main()
