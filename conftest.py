"""What pytest must not look into."""

from __future__ import annotations

from importlib.util import find_spec

NEEDED = {"mixing_native": "patchad._mixing", "mixing_triton": "triton"}
"""What modules that not every installation can import need."""

# Their doctests would need the import.
collect_ignore = [f"src/patchad/{module}.py" for module, needed in NEEDED.items() if find_spec(needed) is None]
