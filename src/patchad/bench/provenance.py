"""Where a record comes from: the data, the versions and the hardware."""

from __future__ import annotations

import hashlib
import os
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np

from patchad import __version__
from patchad.datasets.entity import Entity


def checksum(entity: Entity) -> str:
    """Return the SHA-256 of an entity's shapes, values and labels."""
    digest = hashlib.sha256()
    for array in (entity.train, entity.test, entity.labels):
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of Python, of this package and of the libraries that results depend on."""
    libraries = {name: version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")}
    return {"patchad": __version__, "python": platform.python_version(), **libraries}


def hardware() -> str:
    """Describe the processor, its cores and the GPU of this machine."""
    import torch

    model = platform.processor() or platform.machine()
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        named = [line.split(":")[1].strip() for line in facts.read_text().splitlines() if line.startswith("model name")]
        model = named[0] if named else model
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{model}, {os.cpu_count()} cores, {gpu}"
