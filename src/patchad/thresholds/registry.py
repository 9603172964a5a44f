"""Thresholds by name: what a user writes becomes a rule, and a rule becomes what a file holds."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any

import numpy as np

from patchad.data.parameters import fits, parameter_types
from patchad.errors import InputError, UnsupportedError
from patchad.thresholds.base import Threshold
from patchad.thresholds.fixed import Fixed, Mad, Quantile, Ratio, Sigma
from patchad.thresholds.pot import DSPOT, SPOT, PlainSPOT
from patchad.thresholds.promise import Promise

NAMED: Mapping[str, type[Threshold]] = {
    "auto": Promise,
    "spot": SPOT,
    "dspot": DSPOT,
    "spot_plain": PlainSPOT,
    "quantile": Quantile,
    "sigma": Sigma,
    "mad": Mad,
    "ratio": Ratio,
    "fixed": Fixed,
}
"""Every threshold. A field without a default, one at most, is the number after the colon; fields that are named like
parameters of the detector get their values."""


def make_threshold(threshold: str | float | Threshold, **settings: Any) -> Threshold:
    """Build a threshold from its name, a number, or an unfitted threshold.

    Parameters
    ----------
    threshold
        As in `usage()`.
    settings
        Parameters of the detector; each rule takes those that it has a field for.

    Examples
    --------
    >>> make_threshold("quantile:0.999")
    Quantile(q=0.999)
    >>> make_threshold(2.5)
    Fixed(value=2.5)
    """
    if isinstance(threshold, Threshold):
        return copy.deepcopy(threshold)
    if isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool):
        return Fixed(_number(threshold))
    name, _, argument = str(threshold).partition(":")
    kind = NAMED.get(name)
    try:
        if kind is None:
            return Fixed(_number(str(threshold)))
        needed = _arguments(kind)
        if bool(needed) != bool(argument):
            raise InputError(f"threshold {threshold!r} needs {'a number, as in ' + name + ':3' if needed else 'none'}")
        given = [_number(argument)] if needed else []
    except (TypeError, ValueError) as error:
        raise error if isinstance(error, InputError) else _unknown(threshold) from None
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    return kind(*given, **{key: value for key, value in settings.items() if key in known})


def usage() -> str:
    """Return how thresholds are written, for help texts and messages.

    Examples
    --------
    >>> usage()
    'auto, spot, dspot, spot_plain, quantile:q, sigma:k, mad:k, ratio:r or a number'
    """
    names = [":".join([name, *_arguments(kind)]) for name, kind in NAMED.items() if kind is not Fixed]
    return f"{', '.join(names)} or a number"


def describe(threshold: Threshold) -> dict[str, Any]:
    """Return name and settings of a threshold, for a file; `from_description` reads them."""
    for name, kind in NAMED.items():
        if type(threshold) is kind:
            return {"name": name, **asdict(threshold)}  # type: ignore[call-overload]
    raise UnsupportedError(
        f"a threshold of class {type(threshold).__name__} cannot be saved; use one of {', '.join(NAMED)}"
    )


def from_description(description: Mapping[str, Any]) -> Threshold:
    """Build an unfitted threshold from what `describe` returned."""
    settings = dict(description)
    name = settings.pop("name", None)
    if name not in NAMED:
        raise InputError(f"there is no threshold {name!r}; use {usage()}")
    hints = parameter_types(NAMED[name])
    if any(key not in hints or not fits(value, hints[key]) for key, value in settings.items()):
        raise InputError(f"the settings {settings} do not fit the threshold {name!r}")
    return NAMED[name](**settings)


def _arguments(kind: type[Threshold]) -> list[str]:
    return [one.name for one in fields(kind) if one.default is MISSING]  # type: ignore[arg-type]


def _number(argument: Any) -> float:
    try:
        number = float(argument)
    except OverflowError:
        number = np.inf
    if not np.isfinite(number):
        raise InputError(f"threshold {argument!r} is no number to compare with; give a finite one")
    return number


def _unknown(threshold: object) -> InputError:
    return InputError(f"threshold {threshold!r} is unknown; use {usage()}, as in quantile:0.999")
