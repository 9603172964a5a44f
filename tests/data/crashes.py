"""Kill a process at every step of `write_whole`, and look at what the next run leaves. Run as a script: it forks.

A step is a call of the system that changes a file; a write is also cut in half. Each child begins with the old set of
files and is killed at one step; then the next run writes, and all files must be of one set. Prints the count of kills.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from patchad.data.files import write_whole

STEPS = ("open", "write", "fsync", "replace", "unlink", "chmod", "mkdir")
RAM = Path("/dev/shm")  # where syncing costs nothing
LAYOUTS = {
    "one file": ("a",),
    "one folder": ("a", "b", "c"),
    "two folders": ("one/a", "two/b", "one/c"),
    "the journal in another folder": ("z/a", "b"),
}


def die_at(step: int) -> None:
    """Let this process die at a step, before it takes effect; of a write, half does."""
    count = 0

    def dying(name, original):
        def call(*arguments, **keywords):
            nonlocal count
            count += 1
            if count == step:
                if name == "write":
                    original(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os._exit(9)
            return original(*arguments, **keywords)

        return call

    for name in STEPS:
        setattr(os, name, dying(name, getattr(os, name)))


def survives(names: tuple[str, ...], step: int, next_to: str, old: bool) -> tuple[bool, bool]:
    """Kill a run at a step; return whether it was killed, and whether one set was left by a run that writes beside."""
    folder = Path(tempfile.mkdtemp(dir=RAM if RAM.is_dir() else None))
    paths = [folder / name for name in names]
    if old:
        write_whole({path: b"old " + path.name.encode() for path in paths})
    child = os.fork()
    if child == 0:
        die_at(step)
        write_whole({path: b"new " + path.name.encode() for path in paths})
        os._exit(0)
    killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    write_whole({(folder / next_to).parent / "beside": b"next"})
    found = {path.read_bytes().split()[0] if path.exists() else b"" for path in paths}
    whole = all(not path.exists() or path.read_bytes().split()[1] == path.name.encode() for path in paths)
    write_whole({path.parent / "beside": b"next" for path in paths})
    left = list(folder.rglob(".patchad-*"))
    shutil.rmtree(folder)
    return killed, len(found) == 1 and whole and not left


def main() -> int:
    """Kill at every step of every layout; return how often."""
    kills = 0
    for label, names in LAYOUTS.items():
        for next_to in dict.fromkeys((names[0], names[-2 if len(names) > 2 else -1])):
            for old in (True, False):
                step = 1
                while True:
                    killed, fine = survives(names, step, next_to, old)
                    if not fine:
                        sys.exit(f"{label}: mixed, torn or leftover files when killed at step {step}, old={old}")
                    if not killed:
                        break
                    step += 1
                    kills += 1
    return kills


if __name__ == "__main__":
    sys.stdout.write(f"{main()}\n")
