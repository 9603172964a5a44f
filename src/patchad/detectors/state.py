"""What a detector learned, as arrays and JSON facts for a model file, and back.

Values are arrays, tensors, numbers, texts, tuples, nets, and frozen dataclasses of these; the annotations of a
dataclass say what its fields are, so that no class writes this by hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from patchad.data.parameters import fits
from patchad.errors import ModelFileError
from patchad.model.witnesses import WITNESSES, Witness

VARIANTS: Mapping[Any, Mapping[str, type]] = {Witness: WITNESSES}
"""Protocols whose implementations are told apart by their name in a registry."""


def unaliased(kind: Any) -> Any:
    """Return what a type alias stands for: `NDArray` is one from NumPy 2.5 on, and was a plain generic type before.

    Examples
    --------
    >>> unaliased(int), get_origin(unaliased(NDArray[np.float64]))
    (<class 'int'>, <class 'numpy.ndarray'>)
    """
    alias = getattr(get_origin(kind), "__value__", None)
    return kind if alias is None else alias[get_args(kind)]


@dataclass(frozen=True, slots=True)
class State:
    """Learned values by dotted name."""

    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    """What JSON can hold: numbers, texts, None, and the lengths of tuples."""

    def put(self, name: str, value: Any) -> None:
        """Store a value.

        Examples
        --------
        >>> state = State()
        >>> state.put("window", 30); state.put("scale", np.ones(2))
        >>> state.facts, list(state.arrays), state.take("scale", np.ndarray).tolist()
        ({'window': 30}, ['scale'], [1.0, 1.0])
        """
        if isinstance(value, nn.Module):
            for key, tensor in value.state_dict().items():
                self.put(f"{name}.{key}", tensor)
        elif isinstance(value, Tensor):
            self.arrays[name] = value.detach().cpu().numpy()
        elif isinstance(value, np.ndarray):
            self.arrays[name] = value
        elif isinstance(value, np.generic):
            self.facts[name] = value.item()
        elif isinstance(value, tuple):
            self.facts[name] = len(value)
            for number, item in enumerate(value):
                self.put(f"{name}.{number}", item)
        elif is_dataclass(value):
            self._put_fields(name, value)
        else:
            self.facts[name] = value

    def _put_fields(self, name: str, value: Any) -> None:
        for one in fields(value):
            self.put(f"{name}.{one.name}", getattr(value, one.name))
        if any(type(value) in kinds.values() for kinds in VARIANTS.values()):
            self.facts[f"{name}.variant"] = value.name

    def take(self, name: str, kind: Any) -> Any:
        """Return a stored value of an annotated type; refuse a file that holds something else under its name."""
        kind = unaliased(kind)
        if kind in VARIANTS:
            variant = self._fact(f"{name}.variant", str)
            if variant not in VARIANTS[kind]:
                raise ModelFileError(f"{name} is a {variant!r} that is not known here; upgrade patchad")
            kind = VARIANTS[kind][variant]
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is UnionType and NoneType in arguments:
            if name in self.facts and self.facts[name] is None:
                return None
            (kind,) = (one for one in arguments if one is not NoneType)
            return self.take(name, kind)
        if origin is tuple:
            return tuple(self.take(f"{name}.{i}", arguments[0]) for i in range(self._fact(name, int)))
        if kind is Tensor:
            return torch.from_numpy(np.array(self._array(name)))
        if kind is np.ndarray or origin is np.ndarray:
            array = self._array(name)
            if arguments and not np.issubdtype(array.dtype, get_args(arguments[1])[0]):
                raise ModelFileError(f"the array {name!r} holds {array.dtype}, which does not fit")
            return array
        if is_dataclass(kind):
            hints = get_type_hints(kind)
            return kind(**{one.name: self.take(f"{name}.{one.name}", hints[one.name]) for one in fields(kind)})  # type: ignore[operator]
        return self._fact(name, kind)

    def check_shapes(self, name: str, module: nn.Module) -> None:
        """Refuse weights that do not fit a net; it may be one on torch's meta device, which has no values."""
        for key, expected in module.state_dict().items():
            shape = self._array(f"{name}.{key}").shape
            if shape != tuple(expected.shape):
                raise ModelFileError(f"{name}.{key} has shape {shape}, expected {tuple(expected.shape)}")

    def load_into(self, name: str, module: nn.Module) -> None:
        """Load the weights of a net that they fit."""
        arrays = {key: self._array(f"{name}.{key}") for key in module.state_dict()}
        module.load_state_dict({key: torch.from_numpy(np.array(array)) for key, array in arrays.items()})

    def _array(self, name: str) -> NDArray[Any]:
        if name not in self.arrays:
            raise ModelFileError(f"the array {name!r} is missing")
        array = self.arrays[name]
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelFileError(f"the array {name!r} holds values that are not finite")
        return array

    def _fact(self, name: str, kind: Any) -> Any:
        if name not in self.facts:
            raise ModelFileError(f"the value {name!r} is missing")
        value = self.facts[name]
        if not fits(value, kind) or (isinstance(value, float) and not math.isfinite(value)):
            raise ModelFileError(f"the value {name!r} is {value!r}, which does not fit")
        return value
