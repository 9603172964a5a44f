"""Run hostile inputs and kills for as long as it takes: 100,000 inputs and 500 kills, by default.

    python -m benchmarks.soak -o soak.jsonl                # resumes; parts with a problem are run again
    python -m benchmarks.soak -o soak.jsonl --inputs 0     # only the kills
    python -m benchmarks.soak -o soak.jsonl --table        # the figures of docs/reliability.md

An input is a hostile file, container, model file or option (`tests/fuzz`), run in a process of its own that is ended
after three minutes. A record is a part: its numbers, what came of them, and every problem with the number to repeat it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tests.fuzz.engine import run_inputs

from patchad.bench.provenance import hardware, versions

INPUTS_PER_PART = 500
RUNS_PER_PART = 25
RECORDS = Path("docs/results/records/soak/soak.jsonl")


def inputs(seed: int, start: int) -> dict[str, Any]:
    """Run one part of the inputs."""
    tally = run_inputs(seed, start, start + INPUTS_PER_PART)
    return {"part": "inputs", "seed": seed, "start": start} | {
        "inputs": tally.inputs,
        "outcomes": dict(sorted(tally.outcomes.items())),
        "problems": tally.problems,
        "seconds": round(tally.seconds, 1),
        "slowest": tally.slowest,
        "ram": tally.ram,
    }


def kills(seed: int, start: int) -> dict[str, Any]:
    """Run and kill one part of the commands; those that ended before they were killed do not count."""
    began = time.monotonic()
    command = [sys.executable, "-m", "tests.fuzz.kills", str(seed), str(start), str(start + RUNS_PER_PART)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    problems = [one for one in found if one["problem"] is not None]
    if done.returncode:
        problems.append({"n": start + len(found), "problem": done.stderr[-1000:]})
    killed = Counter(one["command"] for one in found if one["killed"])
    seconds = round(time.monotonic() - began, 1)
    return {"part": "kills", "seed": seed, "start": start, "killed": killed, "problems": problems, "seconds": seconds}


def read(path: Path) -> list[dict[str, Any]]:
    """Read the parts that ended without a problem, or the last of each otherwise."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return list({(one["part"], one["seed"], one["start"]): one for one in found}.values())


def table(records: list[dict[str, Any]]) -> str:
    """Return the figures as Markdown."""
    runs, stops = ([one for one in records if one["part"] == part] for part in ("inputs", "kills"))
    outcomes = sum((Counter(one["outcomes"]) for one in runs), Counter())
    problems = [str(one["problem"]) for record in runs for one in record["problems"]]
    count = sum(one["inputs"] for one in runs)
    lines = ["| figure | value |", "| --- | --- |", f"| inputs | {count:,} |"]
    for kind in sorted({name.rsplit(" ", 1)[0] for name in outcomes}):
        own = {name.rsplit(" ", 1)[1]: number for name, number in outcomes.items() if name.rsplit(" ", 1)[0] == kind}
        lines.append(f"| of them {kind} | {', '.join(f'{name}: {number:,}' for name, number in sorted(own.items()))} |")
    named = {"tracebacks": "traceback", "hangs": "hang", "crashes": "crash"}
    lines += [
        f"| {name} | {sum(n for key, n in outcomes.items() if key.endswith(code))} |" for name, code in named.items()
    ]
    lines.append(
        f"| half-written or mixed sets | {sum('mixed' in one or 'cannot be read' in one for one in problems)} |"
    )
    lines.append(f"| other problems | {sum('Traceback' not in one and 'no answer' not in one for one in problems)} |")
    if runs:
        lines.append(f"| slowest input | {max(one['slowest'] for one in runs):.1f} s |")
        lines.append(f"| most RAM of a process | {max(one['ram'] for one in runs) / 2**20:,.0f} MiB |")
    killed = sum((Counter(one["killed"]) for one in stops), Counter())
    lines.append(f"| kills | {killed.total()} ({', '.join(f'{name} {n}' for name, n in sorted(killed.items()))}) |")
    lines.append(f"| mixed, torn or leftover files after the next run | {sum(len(one['problems']) for one in stops)} |")
    return "\n".join(lines)


def soak(asked: argparse.Namespace) -> int:
    """Run the parts that are missing; return the number of problems."""
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    known = [one for one in read(asked.output) if not one["problems"]]
    done = {(one["part"], one["seed"], one["start"]) for one in known}
    jobs = [(inputs, start) for start in range(0, asked.inputs, INPUTS_PER_PART)]
    killed = sum(sum(one["killed"].values()) for one in known if one["part"] == "kills")
    runs = range(0, 3 * asked.kills, RUNS_PER_PART)  # about half are killed in time
    problems = 0
    about = {"versions": versions(), "hardware": hardware()}
    with ThreadPoolExecutor(asked.workers) as pool, asked.output.open("a") as file:
        until = time.monotonic() + asked.seconds

        def work(part: Any, start: int) -> dict[str, Any] | None:
            return part(asked.seed, start) if time.monotonic() < until else None

        def keep(record: dict[str, Any] | None) -> int:
            if record is None:
                return 0
            file.write(json.dumps(record | about) + "\n")
            file.flush()
            print(f"{record['part']} from {record['start']}: {len(record['problems'])} problems", file=sys.stderr)
            for one in record["problems"]:
                print(json.dumps(one, indent=1), file=sys.stderr)
            return len(record["problems"])

        for start in runs:
            if killed >= asked.kills or time.monotonic() > until:
                break
            if ("kills", asked.seed, start) not in done:
                record = kills(asked.seed, start)
                killed += sum(record["killed"].values())
                problems += keep(record)
        futures = [
            pool.submit(work, part, start) for part, start in jobs if (part.__name__, asked.seed, start) not in done
        ]
        problems += sum(keep(future.result()) for future in as_completed(futures))
    return problems


def main() -> int:
    """Run the soak, or print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing new after this time")
    parser.add_argument("-o", "--output", type=Path, default=RECORDS)
    parser.add_argument("--table", action="store_true", help="print the figures of the records")
    asked = parser.parse_args()
    if asked.table:
        print(table(read(asked.output)))
        return 0
    return int(soak(asked) > 0)


if __name__ == "__main__":
    sys.exit(main())
