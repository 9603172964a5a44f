"""PatchAD as an ONNX graph: from windows to what the score is made of, and a detector that runs it."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from patchad import __version__
from patchad.data.files import write_whole
from patchad.data.scaling import CLIP
from patchad.data.table import FloatArray
from patchad.detectors.patchad import PatchAD
from patchad.errors import MissingExtraError, PatchADError, UnsupportedError
from patchad.model.loss import evidence

TOLERANCE = 1e-4
"""Largest relative difference between the graph's answers and the net's that is taken for rounding."""
OUTPUTS = ("residual", "discrepancy", "memory")
"""What a graph gives; the last only where there is a memory."""
CHECKED = 8
"""Windows on which the two are compared."""


class Graph(nn.Module):
    """Windows `(batch, step, channel)` to what the score is made of, for their newest steps.

    Parameters
    ----------
    detector
        Fitted.
    steps
        How many of the newest.
    raw
        Whether windows come as measured, float64; else scaled, float32.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, detector: PatchAD, steps: int, *, raw: bool) -> None:
        super().__init__()
        self.net, self.distance, self.steps, self.raw = detector.net_, detector.distance, steps, raw
        self.memory = None if detector.memory_ is None else detector.memory_.to(torch.device("cpu"))
        self.register_buffer("mean", torch.from_numpy(detector.scaler_.mean))
        self.register_buffer("spread", torch.from_numpy(detector.scaler_.spread))

    def forward(self, windows: Tensor) -> tuple[Tensor, ...]:
        """Give `(batch, step, channel)` residuals and `(batch, step, channel or 1)` distances of the views.

        Where the detector has a memory, also the distances to it, `(batch, step, part)`.
        """
        if self.raw:
            windows = ((windows - self.mean) / self.spread).clamp(-CLIP, CLIP).float()
        return evidence(self.net, self.memory, windows, self.distance, self.steps)


def to_onnx(detector: Any, steps: int | None = None, *, raw: bool = True) -> bytes:
    """Give a fitted PatchAD as an ONNX graph, checked against the detector.

    Input `windows`, `(batch, step, channel)`; outputs `residual`, `discrepancy` and `memory`, as `Graph` says. The
    graph's metadata hold the channels, the window, the hop and the fitted level.

    Parameters
    ----------
    detector
        A fitted PatchAD.
    steps
        How many of the newest steps of a window the graph speaks of; None: all.
    raw
        Whether the graph takes windows as measured, float64; else scaled, float32.
    """
    _only_patchad(detector)
    try:
        import onnx
        import onnxruntime  # noqa: F401 - the check below runs the graph
        import onnxscript  # noqa: F401 - torch writes the graph with it
    except ImportError as error:
        raise MissingExtraError(str(error.name), "onnx") from None
    wanted = detector.window_ if steps is None else steps
    shape = (2, detector.window_, len(detector.channels_))
    graph = Graph(detector, wanted, raw=raw).cpu().eval()
    model = _graph_of(graph, torch.zeros(shape, dtype=torch.float64 if raw else torch.float32))
    detector.net_.to(detector.device_)
    facts = {
        "channels": list(detector.channels_),
        "window": detector.window_,
        "hop": detector.hop_,
        "steps": wanted,
        "level": detector.threshold_.level,
        "patchad_version": __version__,
    }
    onnx.helper.set_model_props(model, {"patchad": json.dumps(facts)})
    content: bytes = model.SerializeToString()
    _check(detector, content, wanted, raw=raw)
    return content


def _graph_of(graph: Graph, example: Tensor) -> Any:
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)  # torch's exporter talks at people who asked for a file
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about its own deprecated parts
            program = torch.onnx.export(
                graph,
                (example,),
                input_names=["windows"],
                output_names=list(OUTPUTS if graph.memory is not None else OUTPUTS[:2]),
                dynamic_shapes={"windows": {0: torch.export.Dim("batch", min=1)}},
                dynamo=True,
                verbose=False,
            )
    finally:
        logging.disable(level)
    if program is None:
        raise PatchADError("torch gave no graph; the net cannot be exported with this version of torch")
    return program.model_proto


def with_onnx(detector: Any) -> PatchAD:
    """Let a fitted PatchAD run net and memory in ONNX Runtime; its scores are the same."""
    patchad = _only_patchad(detector)
    content = to_onnx(patchad, patchad.window_ if patchad.fold == "mean" else patchad.hop_, raw=False)
    return patchad.use_graph(OnnxEvidence(content))


def _only_patchad(detector: Any) -> PatchAD:
    if not isinstance(detector, PatchAD):
        raise UnsupportedError(f"{type(detector).__name__} cannot be exported; only PatchAD has a graph")
    return detector


def export(detector: Any, path: str | Path) -> Path:
    """Write a fitted PatchAD as an ONNX graph, whole or not at all."""
    write_whole({Path(path): to_onnx(detector)})
    return Path(path)


class OnnxEvidence:
    """Runs an exported graph on one thread: a few windows are too little work to be shared."""

    def __init__(self, content: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3  # errors
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def __call__(self, windows: FloatArray) -> tuple[FloatArray, ...]:
        """Give what the graph gives for windows `(b, t, c)`."""
        return tuple(self._session.run(None, {"windows": windows}))


def _check(detector: PatchAD, content: bytes, steps: int, *, raw: bool) -> None:
    """Compare the graph with the net, on windows that are strange enough to reach every part of it."""
    random = np.random.default_rng(0)
    size = (CHECKED, detector.window_, len(detector.channels_))
    windows = detector.scaler_.mean + 2 * detector.scaler_.spread * random.standard_normal(size)
    scaled = detector.scaler_(windows)
    found = OnnxEvidence(content)(windows if raw else scaled)
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")  # what the graph has
    try:
        said = detector._evidence(torch.from_numpy(scaled), steps)  # noqa: SLF001 - ours
    finally:
        torch.set_float32_matmul_precision(precision)
    expected = (one.cpu().numpy() for one in said)
    for name, one, other in zip(OUTPUTS, found, expected, strict=False):
        usual = np.abs(other).mean()
        worst = float((np.abs(one - other) / np.maximum(np.abs(other), usual)).max())
        if not worst < TOLERANCE:
            raise PatchADError(f"the exported graph differs from the net: {name} by {worst:.2g}, relatively")
