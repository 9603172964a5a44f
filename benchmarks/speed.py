"""Speed of training and scoring, beside the plain net, the plain net under torch.compile and the arithmetic floor.

    python -m benchmarks.speed [--device cuda] [--threads 2] [--channels 51] [--compile] [--only PART] [--json FILE]

Everything is timed in one process, the cases in turn, round after round, and the best round counts: other work on the
machine slows a round, nothing speeds one up. The floor is the counted floating-point operations of the plain net over
the measured rate of a large matrix product.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from tests.reference.net_slow import PlainNet, plain_discrepancy, plain_loss
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from patchad import PatchAD, make
from patchad._kernels import backend, eager
from patchad.detectors.backends.onnx import with_onnx
from patchad.detectors.backends.torch import TorchBackend
from patchad.detectors.neural import NeuralDetector
from patchad.detectors.pretrained import pretrained_origin
from patchad.model.distances import discrepancy
from patchad.model.net import PatchADNet
from patchad.model.training import TrainStep
from patchad.model.witnesses.discrepancy import Discrepancy
from patchad.model.witnesses.residual import Residual

PRESETS = {"paper": PatchAD.paper, "trained": partial(PatchAD, weights=None), "pretrained": PatchAD}
"""The paper's net, the default one where it is trained on train, and the one that comes trained."""
BATCHES = (1, 128, 1024)
TRAINED = {"paper": 128, "trained": 32, "pretrained": 32}


class Case:
    """One net at one size: our code and its plain twin, eager or compiled, with the same weights."""

    def __init__(self, preset: str, channels: int, device: torch.device) -> None:
        self.detector = PRESETS[preset]()
        self.detector.channels_ = tuple(map(str, range(channels)))
        self.detector.origin_ = pretrained_origin(self.detector)
        window = self.detector.window
        self.detector.window_, self.detector.patch_sizes_ = window, (3, 5)
        self.detector.device_ = device
        self.preset, self.channels, self.device = preset, channels, device
        torch.manual_seed(0)
        config = self.detector._net_config(window, (3, 5))
        self.net = PatchADNet(config).to(device)
        self.plain = PlainNet(config).to(device)
        self.plain.load_state_dict(self.net.state_dict())
        self.reconstruct = self.detector.score != "discrepancy"
        self.names = ("discrepancy", "residual") if self.reconstruct else ("discrepancy",)
        self.backend = TorchBackend(self.net, (Discrepancy("kl", 1), Residual()), device)
        self.steps = window if self.detector.fold == "mean" else self.detector.hop
        self.batch = torch.randn(max(BATCHES), window, channels, device=device)

    def score(self, size: int) -> Callable[[], object]:
        """Return a call that scores `size` windows with our code, as `decision_function` does."""
        windows = self.batch[:size]
        return lambda: self.backend.observe(windows, self.steps, self.names)

    def score_plain(self, size: int, *, compiled: bool = False) -> Callable[[], object]:
        """Return a call that scores `size` windows module by module: the same evidence as our code."""
        parts = torch.split(self.batch[:size], 128)

        def evidence(part: Tensor) -> tuple[Tensor, ...]:
            outputs = self.plain(part)
            distance = plain_discrepancy(outputs, "kl")
            if not self.reconstruct:
                return (distance,)
            mean = torch.stack([out.rec_inter + out.rec_intra for out in outputs]).mean(0)
            return distance, (part - mean).abs()

        run = torch.compile(evidence, dynamic=False) if compiled else evidence

        def score() -> None:
            with torch.inference_mode():
                for part in parts:
                    run(part)

        return score

    def train(self) -> Callable[[], object]:
        """Return a call that makes one training step with our code."""
        detector = self.detector
        goal = detector._goals(self.net)[0]
        optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-5, fused=True, capturable=self.device.type == "cuda")
        step = TrainStep(self.net, [goal], [optimizer])
        batch = self.batch[: TRAINED[self.preset]]
        return lambda: step(batch)

    def train_plain(self, *, compiled: bool = False) -> Callable[[], object]:
        """Return a call that makes one training step module by module."""
        optimizer = torch.optim.Adam(self.plain.parameters(), lr=1e-5, fused=True if compiled else None)
        batch = self.batch[: TRAINED[self.preset]]

        def loss(batch: Tensor) -> Tensor:
            return plain_loss(self.plain(batch), batch, "kl", self.detector.objective, self.detector.constraint)

        run = torch.compile(loss, dynamic=False) if compiled else loss

        def step() -> None:
            optimizer.zero_grad()
            run(batch).backward()
            optimizer.step()

        return step

    def flops(self) -> float:
        """Count the operations of one window, forward, in the plain net."""
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            self.plain(self.batch[:1])
        return float(counter.get_total_flops())

    def worst_difference(self) -> float:
        """Return the largest relative difference of a distance between the views, ours against the plain one."""
        windows = self.batch[:64]
        with torch.inference_mode():
            ours = discrepancy(self.net(windows, project=False), "kl")
            plain = plain_discrepancy(self.plain(windows), "kl")
        return float(((ours - plain).abs() / plain.abs().clamp_min(1e-3 * float(plain.mean()))).max())


def timed(calls: dict[str, Callable[[], object]], device: torch.device, seconds: float) -> dict[str, float]:
    """Time calls in turn; return the best time of each."""

    def once(call: Callable[[], object]) -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    for call in calls.values():
        for _ in range(5 if device.type == "cuda" else 1):
            once(call)
    best = dict.fromkeys(calls, float("inf"))
    until, rounds = time.monotonic() + seconds, 0
    while rounds < 3 or time.monotonic() < until:
        for name, call in calls.items():
            best[name] = min(best[name], once(call))
        rounds += 1
    return best


def rates(device: torch.device) -> dict[str, float]:
    """Measure a large matrix product, in FLOP/s, and a large copy, in bytes/s."""
    size = 8192 if device.type == "cuda" else 1024
    one, other = (torch.randn(size, size, device=device) for _ in range(2))
    block = torch.empty(2**28 if device.type == "cuda" else 2**24, device=device)
    target = torch.empty_like(block)
    found = timed({"matmul": lambda: one @ other, "copy": lambda: target.copy_(block)}, device, 2)
    return {"matmul": 2 * size**3 / found["matmul"], "copy": 8 * block.numel() / found["copy"]}


def without_kernels(call: Callable[[], object]) -> Callable[[], object]:
    """Return a call that runs our code on torch's operations alone."""

    def run() -> object:
        loaded, backend._load = backend._load, lambda _: eager
        try:
            return call()
        finally:
            backend._load = loaded

    return run


def compiles(device: torch.device) -> bool:
    """Return whether torch.compile works here; print why not."""
    try:
        torch.compile(lambda x: (x * x).sum())(torch.ones(3, device=device))
    except Exception as error:  # noqa: BLE001 - inductor fails in many ways: no compiler, no headers, no triton
        print(f"torch.compile does not work here, and is left out: {str(error).strip().splitlines()[0]}")
        return False
    return True


def compile_all(calls: dict[str, Callable[[], object]]) -> float:
    """Make every compiled call once; return the seconds that it took."""
    torch._dynamo.reset()
    began = time.perf_counter()
    for call in calls.values():
        call()
    return time.perf_counter() - began


def measure(case: Case, rate: dict[str, float], seconds: float, *, compiled: bool) -> dict[str, object]:
    """Time one case; rates are windows per second."""
    large = BATCHES[-1] if case.device.type == "cuda" or case.preset == "default" else 256
    sizes = {"1": 1, "128": 128, "large": large}
    calls = {"train": case.train(), "train_plain": case.train_plain()}
    calls |= {f"score_{name}": case.score(size) for name, size in sizes.items()}
    calls |= {f"score_plain_{name}": case.score_plain(size) for name, size in sizes.items()}
    difference = case.worst_difference()  # before a step changes the weights of either net
    compile_seconds = 0.0
    if compiled:
        added = {f"score_compiled_{name}": case.score_plain(size, compiled=True) for name, size in sizes.items()}
        added["train_compiled"] = case.train_plain(compiled=True)
        compile_seconds = compile_all(added)
        calls |= added
        if case.device.type == "cpu":  # a GPU would replay captured kernels
            calls |= {f"score_eager_{name}": without_kernels(calls[f"score_{name}"]) for name in sizes}
            calls["train_eager"] = without_kernels(calls["train"])
    best = timed(calls, case.device, seconds)
    per_second = {
        name: (TRAINED[case.preset] if name.startswith("train") else sizes[name.rsplit("_", 1)[1]]) / spent
        for name, spent in best.items()
    }
    flops = case.flops()
    return {
        "preset": case.preset,
        "channels": case.channels,
        "parameters": sum(p.numel() for p in case.net.parameters()),
        "windows_per_second": per_second,
        "rows_per_second": per_second["score_large"] * case.detector.hop,
        "flops": flops,
        "floor_score": rate["matmul"] / flops,
        "floor_train": rate["matmul"] / (3 * flops),
        "worst_difference": difference,
        "compile_seconds": compile_seconds,
        "peak_memory": torch.cuda.max_memory_allocated() if case.device.type == "cuda" else None,
    }


def table(results: list[dict[str, object]]) -> str:
    """Format the results as Markdown."""
    columns = (
        "preset | channels | parameters | training: plain | ours | ratio | of the floor | scoring, batch 128: plain "
        "| ours | ratio | of the floor | scoring many: plain | ours | ratio | rows/s | one window, ms: plain | ours"
    )
    lines = [f"| {columns} |", "|" + " --- |" * (columns.count("|") + 1)]
    for r in results:
        w: dict[str, float] = r["windows_per_second"]  # type: ignore[assignment]
        cells = [r["preset"], r["channels"], f"{r['parameters']:,}"]
        for name, floor in (("train", "floor_train"), ("score_128", "floor_score"), ("score_large", None)):
            plain, ours = w[name.replace("score", "score_plain") if "_" in name else "train_plain"], w[name]
            cells += [f"{plain:,.0f}", f"{ours:,.0f}", f"{ours / plain:.1f}"]
            cells += [f"{ours / r[floor]:.0%}"] if floor else []
        cells += [f"{r['rows_per_second']:,.0f}", f"{1e3 / w['score_plain_1']:.2f}", f"{1e3 / w['score_1']:.2f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def compiled_table(results: list[dict[str, object]]) -> str:
    """Format our rates beside those of the plain net under torch.compile as Markdown."""
    columns = "preset | channels | windows/s | plain | torch.compile | ours, no kernels | ours | ours / torch.compile"
    lines = [f"| {columns} |", "|" + " --- |" * 8]
    rows = {
        "training": "train",
        "scoring, batch 128": "score_128",
        "scoring many": "score_large",
        "one window": "score_1",
    }
    for result in results:
        rates: dict[str, float] = result["windows_per_second"]  # type: ignore[assignment]
        for label, name in rows.items():
            kind, _, size = name.partition("_")
            names = ["_".join(filter(None, (kind, way, size))) for way in ("plain", "compiled", "eager", "")]
            cells = [f"{rates[one]:,.0f}" if one in rates else "" for one in names]
            ratio = f"{rates[name] / rates[names[1]]:.1f}"
            lines.append(
                "| " + " | ".join(map(str, [result["preset"], result["channels"], label, *cells, ratio])) + " |"
            )
    compiling = ", ".join(f"{result['compile_seconds']:.0f}" for result in results)
    return "\n".join([*lines, f"compiling, s: {compiling}"])


PUBLISHED = {"anomaly_transformer": {"d_model": 512}, "dcdetector": {"d_model": 256}}
"""Settings that give a baseline the size in its paper."""


def relatives(channels: int, device: torch.device, seconds: float) -> str:
    """Time PatchAD's nearest relatives at their published sizes, beside PatchAD, as Markdown."""
    calls: dict[str, Callable[[], object]] = {}
    sizes: dict[str, int] = {}
    for name, settings in PUBLISHED.items():
        detector = make(name, **settings, device=str(device))
        detector.channels_ = tuple(map(str, range(channels)))
        detector.window_, detector.hop_ = detector.window, detector.hop
        detector.net_ = detector._new_net(0)
        sizes[name] = detector.n_parameters_
        calls |= _calls_of(detector, torch.randn(32, detector.window, channels, device=device))
    for preset in PRESETS:
        case = Case(preset, channels, device)
        name = f"patchad, {preset}"
        sizes[name] = sum(p.numel() for p in case.net.parameters())
        calls |= {f"{name} train": case.train(), f"{name} score": case.score(32)}
    best = timed(calls, device, seconds)
    trained = dict.fromkeys(PUBLISHED, 32) | {f"patchad, {preset}": TRAINED[preset] for preset in TRAINED}
    lines = [
        f"| {channels} channels | parameters | training, windows/s | scoring, windows/s |",
        "| --- | --- | --- | --- |",
    ]
    for name, size in sizes.items():
        rates = trained[name] / best[f"{name} train"], 32 / best[f"{name} score"]
        lines.append(f"| {name} | {size:,} | {rates[0]:,.0f} | {rates[1]:,.0f} |")
    return "\n".join(lines)


def score(detector: PatchAD, windows: Tensor, steps: int) -> Tensor:
    """Score the newest steps of scaled windows, witness by witness."""
    evidence = detector.backend_.observe(windows, steps, detector.rule_.needed(explain=False))
    return detector.rule_.columns(evidence).cpu()


def against_paper(channels: int, device: torch.device, seconds: float) -> str:
    """Time PatchAD as it runs, net, memory and score, beside the plain net of the paper, as Markdown.

    Training is that of `weights=None`, scoring that of the defaults.
    """
    rows = np.random.default_rng(0).standard_normal((2000, channels))
    detector = PatchAD(device=str(device)).fit(rows)
    windows = torch.from_numpy(detector._scaled_windows([rows.astype(np.float32)], 512))
    paper, trained = Case("paper", channels, device), Case("trained", channels, device)
    calls = {
        "plain train": paper.train_plain(),
        "plain score": paper.score_plain(128),
        "ours train": trained.train(),
        "ours score": lambda: score(detector, windows, detector.window_),
    }
    best = timed(calls, device, seconds)
    rates = {
        "training": (TRAINED["paper"] / best["plain train"], TRAINED["trained"] / best["ours train"]),
        "scoring": (128 / best["plain score"], len(windows) / best["ours score"]),
    }
    lines = [
        f"| {channels} channels, windows/s | plain `paper` net | `PatchAD()` | ratio |",
        "| --- | --- | --- | --- |",
    ]
    lines += [f"| {name} | {plain:,.0f} | {ours:,.0f} | {ours / plain:.1f} |" for name, (plain, ours) in rates.items()]
    return "\n".join(lines)


def _calls_of(detector: NeuralDetector, batch: Tensor) -> dict[str, Callable[[], object]]:
    goals = detector._goals(detector.net_)
    step = TrainStep(detector.net_, goals, [torch.optim.Adam(goal.parameters, lr=1e-5) for goal in goals])

    def score() -> object:
        with torch.inference_mode():
            return detector._errors(batch)

    return {f"{detector.name} train": lambda: step(batch), f"{detector.name} score": score}


def latency(device: str, channels: int = 38, calls: int = 1000) -> str:
    """Time one window in, the scores of its rows out, as in a stream: median and 99th percentile, as Markdown."""
    rows = np.sin(np.arange(3000)[:, None] / 5 + np.arange(channels)) + 0.1 * np.random.default_rng(0).standard_normal(
        (3000, channels)
    )
    lines = [
        "| one window, `PatchAD()` | median, ms | 99th percentile, ms | CPU, median, ms |",
        "| --- | --- | --- | --- |",
    ]
    detector = PatchAD(device=device).fit(rows)
    steps = detector.window_ if detector.fold == "mean" else detector.hop_
    backends: dict[str, Callable[[], PatchAD]] = {"torch": lambda: detector}
    if device == "cpu":
        backends["ONNX Runtime"] = lambda: with_onnx(detector)
    for name, load in backends.items():
        loaded = load()
        scaled = detector.scaler_(rows[: 100 + detector.window_])
        windows = [detector.backend_.cut(scaled, np.array([first])) for first in range(100)]
        spent = []
        for call in range(calls + 50):
            began = _clocks()
            score(loaded, windows[call % 100], steps)
            spent.append(1e3 * np.diff([began, _clocks()], axis=0).ravel())
        (median, cpu), (high, _) = np.percentile(spent[50:], [50, 99], axis=0)
        lines.append(f"| {name}, {channels} channels | {median:.2f} | {high:.2f} | {cpu:.2f} |")
    return "\n".join(lines)


def whole(device: str, rounds: int = 3, channels: int = 38, train: int = 20_000, test: int = 40_000) -> str:
    """Time whole fits and scorings, with the pretrained net and with one that is trained, in turn, as Markdown."""
    rows = np.sin(np.arange(train + test)[:, None] / (5 + np.arange(channels)))
    rows += 0.1 * np.random.default_rng(0).standard_normal(rows.shape)
    head = f"| {channels} channels; least of {rounds} | numbers | fit of {train:,} rows, s | CPU s "
    lines = [head + f"| score of {test:,} rows, s | CPU s |", "| --- | --- | --- | --- | --- | --- |"]
    makers = {"`PatchAD()`": PRESETS["pretrained"], "`PatchAD(weights=None)`": PRESETS["trained"]}
    spent: dict[str, list[list[float]]] = {name: [] for name in makers}
    sizes: dict[str, int] = {}
    for turn in range(rounds + 1):
        for name, make_detector in makers.items():
            clocks = [_clocks()]
            detector = make_detector(device=device).fit(rows[:train])
            clocks.append(_clocks())
            detector.decision_function(rows[train:])
            clocks.append(_clocks())
            sizes[name] = detector.n_parameters_
            if turn:  # the first round compiles kernels and warms up
                spent[name].append(np.diff(clocks, axis=0).ravel().tolist())
    for name, size in sizes.items():
        best = np.min(spent[name], axis=0)
        lines.append(f"| {name} | {size:,} | " + " | ".join(f"{one:.2f}" for one in best) + " |")
    return "\n".join(lines)


def _clocks() -> tuple[float, float]:
    """Read the clock on the wall, and the time that all threads have worked."""
    return time.perf_counter(), time.process_time()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--channels", type=int, nargs="*", default=[1, 25, 51, 123])
    parser.add_argument("--presets", nargs="*", default=list(PRESETS), choices=PRESETS)
    parser.add_argument("--seconds", type=float, default=20, help="of timing for each case")
    parser.add_argument("--compile", action="store_true", help="also time the plain net under torch.compile")
    parser.add_argument("--only", choices=["nets", "relatives", "used", "latency", "whole"], help="one part of it")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--precision", default="highest", help="torch's float32_matmul_precision: highest, high, medium"
    )
    options = parser.parse_args()
    torch.set_float32_matmul_precision(options.precision)
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"{platform.processor() or platform.machine()}"
    rate = rates(device)
    print(
        f"{name}, torch {torch.__version__}, {options.threads} threads; large matrix product "
        f"{rate['matmul'] / 1e9:,.0f} GFLOP/s, copy {rate['copy'] / 1e9:,.0f} GB/s"
    )
    parts = {
        "relatives": lambda: relatives(51, device, options.seconds),
        "used": lambda: against_paper(51, device, options.seconds),
        "latency": lambda: latency(options.device),
        "whole": lambda: whole(options.device),
    }
    for part, call in parts.items():
        if options.only in (None, part):
            print(call(), flush=True)
    if options.only not in (None, "nets"):
        return
    compiled = options.compile and compiles(device)
    results = []
    for preset in options.presets:
        for channels in options.channels:
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats()
            results.append(measure(Case(preset, channels, device), rate, options.seconds, compiled=compiled))
            print(table(results[-1:]).splitlines()[-1], flush=True)
    print(table(results))
    if compiled:
        print(compiled_table(results))
    if options.json is not None:
        options.json.write_text(
            json.dumps({"hardware": name, "torch": torch.__version__, "rates": rate, "results": results})
        )


if __name__ == "__main__":
    main()
