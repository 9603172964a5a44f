"""Witnesses: sources of evidence about the points of a window, one file each."""

from __future__ import annotations

from collections.abc import Mapping

from patchad.model.witnesses.base import Evidence, Training, Witness
from patchad.model.witnesses.coupling import Coupling
from patchad.model.witnesses.discrepancy import Discrepancy
from patchad.model.witnesses.memory import Memory
from patchad.model.witnesses.residual import Residual
from patchad.model.witnesses.surprise import Surprise

__all__ = ["WITNESSES", "Evidence", "Training", "Witness"]

WITNESSES: Mapping[str, type[Witness]] = {
    kind.name: kind for kind in (Discrepancy, Residual, Memory, Coupling, Surprise)
}
"""Every witness of the fused score, in the order of its columns."""
