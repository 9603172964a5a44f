"""Evidence by ONNX Runtime: PatchAD as an ONNX graph, and a backend that runs it."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from patchad import __version__
from patchad.data.files import write_whole
from patchad.data.scaling import CLIP
from patchad.data.table import FloatArray
from patchad.data.windows import views
from patchad.detectors.backends.base import Backend
from patchad.detectors.backends.torch import observe
from patchad.detectors.patchad import PatchAD
from patchad.errors import MissingExtraError, PatchADError, UnsupportedError
from patchad.model.net import PatchADNet
from patchad.model.witnesses import Evidence

TOLERANCE = 1e-4
"""Largest relative difference between the graph and the net that counts as rounding."""
CHECKED_WINDOWS = 8
"""Windows on which the two are compared."""


class Graph(nn.Module):
    """Windows `(batch, step, channel)` to what each witness observes at their newest steps.

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
        self.net, self.steps, self.raw = cast("PatchADNet", detector.net_), steps, raw
        self.witnesses = [one.to(torch.device("cpu")) for one in detector.rule_.witnesses]
        self.register_buffer("mean", torch.from_numpy(detector.scaler_.mean))
        self.register_buffer("spread", torch.from_numpy(detector.scaler_.spread))

    def forward(self, windows: Tensor) -> tuple[Tensor, ...]:
        """Return what each witness observes, `(batch, step, value)`."""
        if self.raw:
            windows = ((windows - self.mean) / self.spread).clamp(-CLIP, CLIP).float()
        return observe(self.net, self.witnesses, windows, self.steps)


def to_onnx(detector: Any, steps: int | None = None, *, raw: bool = True) -> bytes:
    """Convert a fitted PatchAD to an ONNX graph, checked against the detector.

    Input `windows`, `(batch, step, channel)`; one output for each witness, by its name. The graph's metadata hold the
    channels, the window, the hop and the fitted level.

    Parameters
    ----------
    detector
        A fitted PatchAD.
    steps
        How many of the newest steps of a window the graph observes; None: all.
    raw
        Whether the graph takes windows as measured, float64; else scaled, float32.
    """
    patchad = _only_patchad(detector)
    try:
        import onnx
        import onnxruntime  # noqa: F401 - the check below runs the graph
        import onnxscript  # noqa: F401 - torch writes the graph with it
    except ImportError as error:
        raise MissingExtraError(str(error.name), "onnx") from None
    wanted = patchad.window_ if steps is None else steps
    shape = (2, patchad.window_, len(patchad.channels_))
    graph = Graph(patchad, wanted, raw=raw).cpu().eval()
    model = _export(graph, torch.zeros(shape, dtype=torch.float64 if raw else torch.float32))
    patchad.net_.to(patchad.device_)
    facts = {
        "channels": list(patchad.channels_),
        "window": patchad.window_,
        "hop": patchad.hop_,
        "steps": wanted,
        "level": patchad.threshold_.level,
        "patchad_version": __version__,
    }
    onnx.helper.set_model_props(model, {"patchad": json.dumps(facts)})
    content: bytes = model.SerializeToString()
    _check(patchad, content, wanted, raw=raw)
    return content


def _export(graph: Graph, example: Tensor) -> Any:
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)  # torch's exporter logs what only its developers can use
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about its own deprecated parts
            graph(example)  # constants that are cached must be real tensors, not the exporter's stand-ins
            program = torch.onnx.export(
                graph,
                (example,),
                input_names=["windows"],
                output_names=[one.name for one in graph.witnesses],
                dynamic_shapes={"windows": {0: torch.export.Dim("batch", min=1)}},
                dynamo=True,
                verbose=False,
            )
    finally:
        logging.disable(level)
    if program is None:
        raise PatchADError("torch returned no graph; the net cannot be exported with this version of torch")
    return program.model_proto


def with_onnx(detector: Any) -> PatchAD:
    """Let a fitted PatchAD compute its evidence in ONNX Runtime; its scores are the same."""
    patchad = _only_patchad(detector)
    steps = patchad.window_ if patchad.fold == "mean" else patchad.hop_
    content = to_onnx(patchad, steps, raw=False)
    return patchad.use_backend(OnnxBackend(content, patchad.window_, steps, patchad.backend_))


def _only_patchad(detector: Any) -> PatchAD:
    if not isinstance(detector, PatchAD):
        raise UnsupportedError(f"{type(detector).__name__} cannot be exported; only PatchAD has a graph")
    return detector


def export(detector: Any, path: str | Path) -> Path:
    """Write a fitted PatchAD as an ONNX graph, whole or not at all."""
    write_whole({Path(path): to_onnx(detector)})
    return Path(path)


class OnnxGraph:
    """An exported graph in ONNX Runtime, on one thread: a few windows are too little work to be shared."""

    def __init__(self, content: bytes) -> None:
        import onnxruntime

        self._content = content
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3  # errors
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def __reduce__(self) -> tuple[type[OnnxGraph], tuple[bytes]]:
        """Copy what the session is made of: the library's cannot be copied itself."""
        return type(self), (self._content,)

    def __call__(self, windows: FloatArray) -> dict[str, FloatArray]:
        """Return the outputs for windows `(b, t, c)`, by witness."""
        names = [output.name for output in self._session.get_outputs()]
        return dict(zip(names, self._session.run(None, {"windows": windows}), strict=True))


class OnnxBackend:
    """Run an exported graph; more steps than it observes are left to another backend."""

    name: ClassVar[str] = "onnx"

    def __init__(self, content: bytes, window: int, steps: int, fallback: Backend) -> None:
        self._graph, self._window, self._steps, self._fallback = OnnxGraph(content), window, steps, fallback

    @property
    def batch(self) -> int:
        """Windows that are best observed together."""
        return self._fallback.batch

    def cut(self, rows: FloatArray, starts: NDArray[np.intp]) -> Tensor:
        """Cut windows in RAM."""
        return torch.from_numpy(np.ascontiguousarray(views(rows, self._window)[starts]))

    def observe(self, windows: Tensor, steps: int, names: tuple[str, ...]) -> Evidence:
        """Return what these witnesses observe at the newest steps of windows `(b, t, c)`."""
        if steps > self._steps:
            return self._fallback.observe(windows, steps, names)
        found = self._graph(windows.numpy())
        return Evidence(windows[:, -steps:], {name: torch.from_numpy(found[name][:, -steps:]) for name in names})


def _check(detector: PatchAD, content: bytes, steps: int, *, raw: bool) -> None:
    """Compare the graph with the net, on windows that are strange enough to reach every part of it."""
    random = np.random.default_rng(0)
    size = (CHECKED_WINDOWS, detector.window_, len(detector.channels_))
    windows = detector.scaler_.mean + 2 * detector.scaler_.spread * random.standard_normal(size)
    scaled = detector.scaler_(windows)
    found = OnnxGraph(content)(windows if raw else scaled)
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")  # what the graph has
    try:
        expected = detector.backend_.observe(torch.from_numpy(scaled), steps, tuple(found)).observed
    finally:
        torch.set_float32_matmul_precision(precision)
    for name, tensor in expected.items():
        other = tensor.cpu().numpy()
        usual = np.abs(other).mean()
        worst = float((np.abs(found[name] - other) / np.maximum(np.abs(other), usual)).max())
        if not worst < TOLERANCE:
            raise PatchADError(f"the exported graph differs from the net: {name} by {worst:.2g}, relatively")
