"""Modules that pytest must not collect, and settings that come before collection."""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch

NEEDED = {"cpu": "patchad._kernels._mixing", "gpu": "triton", "gpu_weights": "triton"}
"""Modules that only some installations can import, and what they need."""

ADAPTED = ("sktime", "aeon", "river", "mlflow")
"""Frameworks with an adapter that do not install beside the others; `make test-adapters` tests them."""

# Collecting their doctests would import them.
collect_ignore = [f"src/patchad/_kernels/{module}.py" for module, needed in NEEDED.items() if find_spec(needed) is None]
collect_ignore += [f"src/patchad/adapters/{name}.py" for name in ADAPTED if find_spec(name) is None]

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # run GPU kernels on the CPU; triton reads this when a kernel is defined
