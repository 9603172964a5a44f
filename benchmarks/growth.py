"""How PatchAD's cost grows with channels, window, width, depth and rows: measured times and their exponents.

    python -m benchmarks.growth [--device cuda] [--threads 2] [--plot growth.svg]

The sizes are timed in turn, round after round, and the best round counts. The exponent is the slope of time over size,
both in logarithms, over the larger half of the sizes, where fixed costs matter little. Beside it is the exponent of the
paper's formula for the operations of a layer over the same sizes, summed over patch sizes and layers:
C^2 D (N + P) + C D (N^2 + P^2) + C D^2 (N + P).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from benchmarks.speed import timed

from patchad import PatchAD
from patchad._kernels.batching import batch_size_for_core
from patchad._kernels.threads import parallel_map
from patchad.model.distances import discrepancy
from patchad.model.net import PatchADNet
from patchad.model.training import TrainStep

PATCHES = (3, 5)
BASE = {"channels": 32, "window": 105, "d_model": 32, "layers": 2}
SIZES = {
    "channels": (8, 16, 32, 64, 128),
    "window": (30, 60, 120, 240, 480),
    "d_model": (8, 16, 32, 64, 128),
    "layers": (1, 2, 4, 8),
}
ROWS = (2_000, 8_000, 32_000, 128_000)


def operations(channels: int, window: int, d_model: int, layers: int) -> float:
    """Return the operations by the paper's formula."""
    total = 0.0
    for size in PATCHES:
        n, p = window // size, size
        total += channels**2 * d_model * (n + p) + channels * d_model * (n**2 + p**2) + channels * d_model**2 * (n + p)
    return layers * total


def calls(
    channels: int, window: int, d_model: int, layers: int, device: torch.device
) -> dict[str, Callable[[], object]]:
    """Return a call that scores 16 windows and one that trains on them."""
    detector = PatchAD.paper(window=window, d_model=d_model, layers=layers, batch_size=16)
    detector.channels_ = tuple(map(str, range(channels)))
    detector.window_, detector.patch_sizes_, detector.device_ = window, PATCHES, device
    net = PatchADNet(detector._net_config(window, PATCHES)).to(device)
    batch = torch.randn(16, window, channels, device=device)
    cuda = device.type == "cuda"
    goals = detector._goals(net)
    step = TrainStep(net, goals, [torch.optim.Adam(net.parameters(), lr=1e-6, fused=cuda or None, capturable=cuda)])

    def some(part: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return discrepancy(net(part, project=False, reconstruct=False), "kl")

    parts = [batch] if cuda else list(torch.split(batch, min(batch_size_for_core(net.config.values), 8)))
    return {"scoring": lambda: parallel_map(some, parts), "training": lambda: step(batch)}


def exponent(sizes: tuple[int, ...], times: list[float]) -> float:
    """Return the slope in logarithms over the larger half."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(times[half:]), 1)[0])


def by_rows(seconds: float) -> tuple[list[float], float]:
    """Time `decision_function` of the default detector by the number of rows, 16 channels."""
    rng = np.random.default_rng(0)
    rows = np.sin(np.arange(max(ROWS))[:, None] / 5 + np.arange(16)) + 0.1 * rng.standard_normal((max(ROWS), 16))
    detector = PatchAD().fit(rows[:4000])
    best = timed({str(n): lambda n=n: detector.decision_function(rows[:n]) for n in ROWS}, detector.device_, seconds)
    times = [best[str(n)] for n in ROWS]
    return times, exponent(ROWS, times)


def plot(path: Path, found: dict[str, dict[str, list[float]]]) -> None:
    """Plot time against size, one panel per quantity."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 3), layout="constrained")
    for axes, (name, kinds) in zip(figure.subplots(1, len(found)), found.items(), strict=True):
        sizes = ROWS if name == "rows" else SIZES[name]
        for kind, times in kinds.items():
            axes.loglog(sizes, [1e3 * t for t in times], marker="o", label=kind)
        axes.set(xlabel=name, ylabel="ms")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.minorticks_off()
        axes.legend()
    figure.savefig(path)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10, help="of timing for each quantity")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    print("| against | sizes | scoring, ms | exponent | training, ms | exponent | formula's exponent |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    found: dict[str, dict[str, list[float]]] = {}
    for name, sizes in SIZES.items():
        made = {size: calls(**(BASE | {name: size}), device=device) for size in sizes}
        best = timed({f"{k} {s}": call for s, c in made.items() for k, call in c.items()}, device, options.seconds)
        found[name] = {kind: [best[f"{kind} {size}"] for size in sizes] for kind in ("scoring", "training")}
        formula = exponent(sizes, [operations(**(BASE | {name: size})) for size in sizes])
        cells = [name, ", ".join(map(str, sizes))]
        for times in found[name].values():
            cells += [", ".join(f"{1e3 * t:.1f}" for t in times), f"{exponent(sizes, times):.2f}"]
        print("| " + " | ".join([*cells, f"{formula:.2f}"]) + " |", flush=True)
    times, slope = by_rows(options.seconds)
    found["rows"] = {"scoring": times}
    shown = ", ".join(f"{1e3 * t:.0f}" for t in times)
    print(f"| rows, default preset, 16 channels | {', '.join(map(str, ROWS))} | {shown} | {slope:.2f} | | | 1 |")
    if options.plot is not None:
        plot(options.plot, found)


if __name__ == "__main__":
    main()
