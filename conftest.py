"""What pytest must not look into, and what must be said before it looks."""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch

NEEDED = {"cpu": "patchad._kernels._mixing", "gpu": "triton", "gpu_weights": "triton"}
"""What modules that not every installation can import need."""

# Their doctests would need the import.
collect_ignore = [f"src/patchad/_kernels/{module}.py" for module, needed in NEEDED.items() if find_spec(needed) is None]

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels for a GPU run all the same; triton reads it when it defines them
