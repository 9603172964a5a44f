"""What the operator said, brought to the channels of a fitted detector: a column of text may stand for its switches."""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patchad.alarms.knowledge import Knowledge
from patchad.data.parameters import check_types
from patchad.data.periods import Periods, mark_periods
from patchad.data.table import BoolArray, Table
from patchad.errors import InputError, listed

if TYPE_CHECKING:
    from patchad.detectors.base import Detector

CHANGEABLE = ("threshold", "false_alarms", "risk", "min_duration", "merge_gap", "missing", "max_gap")
"""Parameters that hold without another fit, besides what is known of channels."""


def check_changeable(detector: Detector) -> None:
    """Refuse alarm parameters that no fit would take: they may have been set since."""
    check_types({name: getattr(detector, name) for name in CHANGEABLE}, type(detector))
    detector._make_threshold(detector.threshold)
    for name, least in (("min_duration", 1), ("merge_gap", 0), ("max_gap", 1)):
        value = getattr(detector, name)
        if value is not None and not value >= least:
            raise InputError(f"{name}={value} is too small; it must be at least {least}")


def knowledge_of(detector: Detector) -> Knowledge:
    """Return what the operator knows, which may have changed since the fit; refuse what no fit would take.

    What is said of all channels does not concern switches, which have no units and no up and down.
    """
    check_changeable(detector)
    known = {name: getattr(detector, name) for name in ("direction", "min_change", "ignore")}
    check_types(known, type(detector))
    switches = detector.switches_.mask(detector.channels_)
    for name in ("direction", "min_change"):
        if switches.any() and not isinstance(known[name], dict):
            numbers = zip(detector.channels_, ~switches, strict=True)
            known[name] = {channel: known[name] for channel, concerned in numbers if concerned}
    known["ignore"] = detector.switches_.expand(detector.ignore)
    knowledge = Knowledge.of(detector.channels_, columns=detector.fit_columns_, **known)
    if knowledge.ignored.all():
        raise InputError(f"ignore={detector.ignore} leaves no channel of {listed(detector.fit_columns_)}; name fewer")
    return knowledge


def quiet_rows(detector: Detector, table: Table, periods: Periods) -> BoolArray:
    """Mark the rows and channels of which no events are wanted: `(time, channel)`."""
    return mark_quiet(detector, periods, table.index, range(len(table.values)), table.zone)


def mark_quiet(
    detector: Detector, periods: Periods, index: NDArray[Any] | None, rows: range, zone: tzinfo | None
) -> BoolArray:
    """Mark rows by their times, or by their numbers where they have none, and channels: `(time, channel)`."""
    names = tuple(dict.fromkeys((*detector.fit_columns_, *detector.switches_.columns)))
    marked = mark_periods(periods, names, index, rows, zone=zone)
    columns = [names.index(name) for name in detector.channels_]
    homes = [names.index(detector.switches_.source(name)) for name in detector.channels_]
    return np.asarray(marked[:, columns] | marked[:, homes])
