"""Measure how a fleet is trained: many nets at once against one after the other.

`python -m benchmarks.fleet together` calls it; it needs neither pyarrow nor a library for terminals.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
import torch

from patchad import PatchAD
from patchad.detectors.together import fit_together


def waves(rows: int, seed: int, channels: int) -> np.ndarray:
    """Give correlated channels with noise."""
    random = np.random.default_rng(seed)
    phases = np.arange(rows)[:, None] / random.uniform(10, 40) + np.arange(channels) * 0.7
    return (np.sin(phases) + 0.1 * random.standard_normal((rows, channels))).astype(np.float32)


def together(nets: int, channels: int, rows: int, steps: int, rounds: int, device: str) -> None:
    """Fit detectors one after the other and at once, in turns."""
    series = [waves(rows, seed, channels) for seed in range(nets)]

    def detectors() -> list[PatchAD]:
        return [PatchAD(max_steps=steps, device=device, random_state=seed) for seed in range(nets)]

    def alone() -> list[PatchAD]:
        return [detector.fit(own) for detector, own in zip(detectors(), series, strict=True)]

    def at_once() -> list[PatchAD]:
        found = detectors()
        errors = [error for error in fit_together(found, series) if error is not None]
        if errors:
            raise errors[0]
        return found

    detectors()[0].fit(series[0])  # loads and compiles what both need
    fit_together(detectors()[:2], series[:2])
    found: dict[str, list[tuple[float, float, float]]] = {"one after the other": [], "together": []}
    fitted: dict[str, list[PatchAD]] = {}
    for turn in range(rounds):
        for name, function in (("one after the other", alone), ("together", at_once)):
            fitted[name], spent = _timed(function, device)
            training = _training_seconds(fitted[name], name)
            found[name].append((*spent, training))
            print(
                f"round {turn + 1} {name:<20} {spent[0]:8.1f} s, CPU {spent[1]:.1f} s, training {training:.1f} s",
                flush=True,
            )
    _report(found, fitted, f"{nets} nets of {channels} channels, {rows:,} rows, {steps} steps, on {device}")


def _timed(function: Callable[[], list[PatchAD]], device: str) -> tuple[list[PatchAD], tuple[float, float]]:
    began, used = time.perf_counter(), time.process_time()
    found = function()
    if device == "cuda":
        torch.cuda.synchronize()
    return found, (time.perf_counter() - began, time.process_time() - used)


def _training_seconds(fitted: list[PatchAD], name: str) -> float:
    """Return the seconds from the first step of training to the last check."""
    each = [detector.history_[-1].seconds for detector in fitted]
    return sum(each) if name != "together" else sum(set(each))  # nets of one group end at the same second


def _report(found: dict[str, list[tuple[float, float, float]]], fitted: dict[str, list[PatchAD]], what: str) -> None:
    losses = [
        abs(one.history_[-1].held_out - other.history_[-1].held_out) / abs(one.history_[-1].held_out)
        for one, other in zip(*fitted.values(), strict=True)
    ]
    middle = {name: np.median(np.array(rounds), axis=0) for name, rounds in found.items()}
    ratio = middle["one after the other"] / middle["together"]
    print(f"\n{what}; load average {os.getloadavg()[0]:.1f}")
    print(f"{'':<22}{'fit, s':>9}{'CPU s':>9}{'training, s':>13}")
    for name, (fit, cpu, training) in middle.items():
        print(f"{name:<22}{fit:>9.1f}{cpu:>9.1f}{training:>13.1f}")
    print(f"{'times as fast':<22}{ratio[0]:>9.2f}{ratio[1]:>9.2f}{ratio[2]:>13.2f}")
    print(f"held-out losses differ by at most {max(losses):.2g} of their size")
