"""Backend: a runtime that computes the evidence of windows."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from patchad.data.table import FloatArray
from patchad.model.witnesses import Evidence


class Backend(Protocol):
    """Net and witnesses, ready to observe windows."""

    name: ClassVar[str]

    @property
    def batch(self) -> int:
        """Windows that are best observed together."""

    def cut(self, rows: FloatArray, starts: NDArray[np.intp]) -> Any:
        """Cut windows out of scaled rows `(time, channel)`, where the runtime wants them."""

    def observe(self, windows: Any, steps: int, names: tuple[str, ...]) -> Evidence:
        """Return what these witnesses observe at the newest steps of windows `(b, t, c)`."""
