"""Evidence by torch: on a CPU a part of the batch on each core, on a GPU from a captured CUDA graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchad._kernels.batching import (
    MAX_GRAPH_VALUES,
    MAX_TAPE_VALUES,
    batch_size_for_core,
    batch_size_for_gpu,
    split_batch,
)
from patchad._kernels.cuda_graphs import GraphedFunction
from patchad._kernels.tapes import TapedFunction
from patchad._kernels.threads import parallel_map
from patchad.data.table import FloatArray
from patchad.model.net import PatchADNet
from patchad.model.witnesses import Evidence, Witness


class TorchBackend:
    """Run the net and the witnesses as they are."""

    name: ClassVar[str] = "torch"

    def __init__(self, net: PatchADNet, witnesses: Sequence[Witness], device: torch.device) -> None:
        self._net, self._device = net, device
        self._witnesses = {one.name: one.to(device) for one in witnesses}
        self._graphed = GraphedFunction(self._run, warmup=2)
        self._taped = TapedFunction(self._run)

    @property
    def batch(self) -> int:
        """Windows that are best observed together."""
        values = self._net.config.values
        if self._device.type != "cpu":
            return batch_size_for_gpu(values)
        return 2 * torch.get_num_threads() * batch_size_for_core(values)

    def cut(self, rows: FloatArray, starts: NDArray[np.intp]) -> Tensor:
        """Cut windows on the device: rows travel to a GPU once, not with every window that has them."""
        on_device, first = (torch.from_numpy(a).to(self._device) for a in (rows, starts))
        return on_device[first[:, None] + torch.arange(self._net.config.window, device=self._device)]

    def observe(self, windows: Tensor, steps: int, names: tuple[str, ...]) -> Evidence:
        """Return what these witnesses observe at the newest steps of windows `(b, t, c)`."""
        run = partial(self._observe, steps=steps, names=names)
        if self._device.type != "cpu":
            found = run(windows.to(self._device))
        else:
            parts = parallel_map(run, split_batch(windows, self._net.config.values))
            found = parts[0] if len(parts) == 1 else tuple(map(torch.cat, zip(*parts, strict=True)))
        return Evidence(windows[:, -steps:], dict(zip(names, found, strict=True)))

    @torch.inference_mode()
    def _observe(self, windows: Tensor, steps: int, names: tuple[str, ...]) -> tuple[Tensor, ...]:
        """Run the net and the witnesses, as a graph or from a tape where there are few windows."""
        values = len(windows) * self._net.config.values
        if windows.is_cpu and values <= MAX_TAPE_VALUES:
            return self._taped(windows, steps, names)
        if not windows.is_cpu and values <= MAX_GRAPH_VALUES:
            return self._graphed(windows, steps, names)
        return self._run(windows, steps, names)

    def _run(self, windows: Tensor, steps: int, names: tuple[str, ...]) -> tuple[Tensor, ...]:
        return observe(self._net, [self._witnesses[name] for name in names], windows, steps)


def observe(net: PatchADNet, witnesses: Sequence[Witness], windows: Tensor, steps: int) -> tuple[Tensor, ...]:
    """Return what each witness observes; the net runs only as far as one of them needs it."""
    outputs = ()
    if any(one.from_net for one in witnesses):
        outputs = net(windows, project=False, reconstruct=any(one.from_reconstruction for one in witnesses))
    return tuple(one.observe(windows, outputs, steps) for one in witnesses)
