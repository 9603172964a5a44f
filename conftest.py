"""What pytest must not look into."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["src/patchad/mixing_triton.py"]  # its doctests need the import
