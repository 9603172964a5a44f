"""Measure how a fleet is trained: many nets at once against one after the other.

`python -m benchmarks.fleet together` calls it; it needs neither pyarrow nor a library for terminals.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
import torch
from benchmarks.processes import Watch

from patchad import PatchAD
from patchad.detectors.together import fit_together
from patchad.fleet.runner import make_runner


def waves(rows: int, seed: int, channels: int) -> np.ndarray:
    """Give correlated channels with noise."""
    random = np.random.default_rng(seed)
    phases = np.arange(rows)[:, None] / random.uniform(10, 40) + np.arange(channels) * 0.7
    return (np.sin(phases) + 0.1 * random.standard_normal((rows, channels))).astype(np.float32)


def together(
    nets: int, channels: int, rows: int, steps: int, rounds: int, device: str, workers: int, alone: int | None
) -> None:
    """Fit detectors one after the other and at once, in turns; of the former the first `alone`, their time scaled."""
    series = [waves(rows, seed, channels) for seed in range(nets)]
    some = nets if alone is None else min(alone, nets)

    def detectors(count: int) -> list[PatchAD]:
        return [PatchAD(weights=None, max_steps=steps, device=device, random_state=seed) for seed in range(count)]

    def one_by_one() -> list[PatchAD]:
        return [detector.fit(own) for detector, own in zip(detectors(some), series, strict=False)]

    def at_once() -> list[PatchAD]:
        found = detectors(nets)
        run = runner.run if workers > 1 else None
        errors = [error for error in fit_together(found, series, run=run) if error is not None]
        if errors:
            raise errors[0]
        return found

    found: dict[str, list[np.ndarray]] = {"one after the other": [], "together": []}
    fitted: dict[str, list[PatchAD]] = {}
    with make_runner("local", workers, None) as runner:
        # Loads and compiles what both need.
        detectors(1)[0].fit(series[0])
        fit_together(detectors(2), series[:2])
        began = time.perf_counter()
        for _ in runner.run(_start, range(4 * workers)):
            pass
        print(f"the start of {workers} workers: {time.perf_counter() - began:.1f} s, not counted below", flush=True)
        for turn in range(rounds):
            for name, function, share in (("together", at_once, 1.0), ("one after the other", one_by_one, nets / some)):
                fitted[name], spent = _timed(function, device)
                found[name].append(share * np.array([*spent, _training_seconds(fitted[name], name)]))
                fit, cpu, training = found[name][-1]
                print(
                    f"round {turn + 1} {name:<20} {fit:8.1f} s, CPU {cpu:.1f} s, training {training:.1f} s", flush=True
                )
    what = f"{nets} nets of {channels} channels, {rows:,} rows, {steps} steps, on {device}, {workers} workers"
    if some < nets:
        what += f"; {some} were fitted one after the other, and their time scaled"
    _report(found, fitted, what)


def _start(number: int) -> int:
    """Keep a worker for a while, once it has imported this module, so that others have to start."""
    time.sleep(0.2)
    return number


def _timed(function: Callable[[], list[PatchAD]], device: str) -> tuple[list[PatchAD], tuple[float, float]]:
    """Return what a function returns, the seconds that it takes, and the CPU seconds of all processes."""
    with Watch(ram=False) as watch:
        began = time.perf_counter()
        found = function()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    return found, (seconds, watch.cpu)


def _training_seconds(fitted: list[PatchAD], name: str) -> float:
    """Return the seconds from the first step of training to the last check."""
    each = [detector.history_[-1].seconds for detector in fitted]
    return sum(each) if name != "together" else sum(set(each))  # nets of one group end at the same second


def _report(found: dict[str, list[np.ndarray]], fitted: dict[str, list[PatchAD]], what: str) -> None:
    losses = [
        abs(one.history_[-1].held_out - other.history_[-1].held_out) / abs(one.history_[-1].held_out)
        for one, other in zip(fitted["one after the other"], fitted["together"], strict=False)
    ]
    middle = {name: np.median(rounds, axis=0) for name, rounds in found.items()}
    ratio = middle["one after the other"] / middle["together"]
    print(f"\n{what}; load average {os.getloadavg()[0]:.1f}")
    print(f"{'':<22}{'fit, s':>9}{'CPU s':>9}{'training, s':>13}")
    for name, (fit, cpu, training) in middle.items():
        print(f"{name:<22}{fit:>9.1f}{cpu:>9.1f}{training:>13.1f}")
    print(f"{'times as fast':<22}{ratio[0]:>9.2f}{ratio[1]:>9.2f}{ratio[2]:>13.2f}")
    print(f"held-out losses differ by at most {max(losses):.2g} of their size")
