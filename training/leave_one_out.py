"""Make the weights of the benchmark: with all licensed families, and without each of them in turn, at the same time.

    python -m training.leave_one_out --data DIR --out FOLDER --workers 8 --device cuda --seconds 240

FOLDER gets `all.safetensors` and `without-FAMILY.safetensors`; those that it has are left as they are. A family that is
judged is judged with weights that never saw it; those that no weights saw, UCR, SKAB and IOPS, with `all`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from patchad.model.pretrained import unseen_weights
from training.pretrain import Plan, add_options, pretrain
from training.sources import LICENSED


def weights_file(folder: Path, family: str) -> Path:
    """Return the file of the weights that never saw a family."""
    return unseen_weights(folder, family) if family in LICENSED else folder / "all.safetensors"


def plans(folder: Path, settings: dict[str, Any]) -> list[Plan]:
    """List what has to be trained."""
    every = Plan(out=weights_file(folder, ""), **settings)
    return [every, *(Plan(out=weights_file(folder, name), leave_out=name, **settings) for name in LICENSED)]


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--workers", type=int, default=1, help="sets that are trained at the same time")
    add_options(parser)
    settings = vars(parser.parse_args())
    folder, workers = settings.pop("out"), settings.pop("workers")
    began = time.monotonic()
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        jobs = {pool.submit(pretrain, plan): plan for plan in plans(folder, settings) if not plan.out.exists()}
        for job in as_completed(jobs):
            print(jobs[job].out.name, job.result()["training"], f"after {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
