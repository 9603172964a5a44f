"""Parameters as text and as types: what a command line gives becomes what a constructor takes, or a clear error."""

from __future__ import annotations

import ast
import difflib
import inspect
import numbers
import types
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from patchad.errors import InputError, listed

LARGEST = 2**31 - 1
"""The largest whole number that a parameter may be: it counts rows, steps, channels or layers."""


def parse_assignments(assignments: Sequence[str], constructor: type) -> dict[str, Any]:
    """Turn `name=value` texts into keyword arguments of a class.

    Examples
    --------
    >>> class Pump:
    ...     def __init__(self, *, window: int = 105, patch_sizes: tuple[int, ...] = (3, 5)) -> None: ...
    >>> parse_assignments(["window=30", "patch_sizes=2,3"], Pump)
    {'window': 30, 'patch_sizes': (2, 3)}
    >>> class Valve:
    ...     def __init__(self, *, direction: dict[str, str] | str = "both", ignore: tuple[str, ...] = ()) -> None: ...
    >>> parse_assignments(['direction={"flow": "up"}', "ignore=level,state"], Valve)
    {'direction': {'flow': 'up'}, 'ignore': ('level', 'state')}
    """
    hints = parameter_types(constructor)
    found: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set {assignment!r} has no value; write it as name=value, as in --set window=60")
        check_name(name, hints)
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        found[name] = _as_tuple(value, hints[name])
    check_types(found, constructor)
    return found


def _as_tuple(value: Any, hint: Any) -> Any:
    """Make a tuple of one value, or of names with commas between them, where nothing else fits."""
    if fits(value, hint):
        return value
    items = tuple(item.strip() for item in value.split(",")) if isinstance(value, str) else (value,)
    return items if fits(items, hint) else value


def check_name(name: str, known: Mapping[str, Any]) -> None:
    """Refuse an unknown parameter, and suggest the nearest known one."""
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"use one of {listed(tuple(known), 100)}"
        raise InputError(f"there is no parameter {name!r}; {hint}")


def check_types(parameters: Mapping[str, Any], constructor: type) -> None:
    """Refuse values of another type than the constructor's annotations say, and whole numbers that count nothing."""
    hints = parameter_types(constructor)
    for name, value in parameters.items():
        if isinstance(value, numbers.Integral) and abs(int(value)) > LARGEST:
            raise InputError(f"{name} is out of range; whole numbers up to {LARGEST:,} are taken")
        if not fits(value, hints[name]):
            raise InputError(f"{name}={value!r} does not fit; {_described(hints[name])} is needed")


@cache
def parameter_types(constructor: type) -> dict[str, Any]:
    """Return the annotated type of each parameter of a constructor."""
    # A dataclass has its types on itself, each resolved where its class is defined.
    hints = get_type_hints(constructor if is_dataclass(constructor) else constructor.__init__)  # type: ignore[misc]
    return {name: hints[name] for name in inspect.signature(constructor).parameters if name in hints}


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type, as far as parameters need it: an int is a float too, a bool is no number.

    Examples
    --------
    >>> fits(3, float), fits(True, int), fits((3, 5), tuple[int, ...]), fits("a", Literal["a", "b"] | None)
    (True, False, True, True)
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in arguments and type(value) in {type(argument) for argument in arguments}
    if origin in (Union, types.UnionType):
        return any(fits(value, argument) for argument in arguments)
    if origin is tuple:
        return isinstance(value, tuple | list) and all(fits(item, arguments[0]) for item in value)
    if origin is dict:
        named = isinstance(value, dict) and all(fits(key, arguments[0]) for key in value)
        return named and all(fits(item, arguments[1]) for item in value.values())
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    if hint is int:
        return isinstance(value, numbers.Integral)
    if hint is float:
        return isinstance(value, numbers.Real)
    return isinstance(value, hint)


def plain(value: Any) -> Any:
    """Return a value with Python's own numbers for NumPy's, also inside lists, tuples and dicts; lists become tuples.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"window": np.int64(30), "patch_sizes": [np.int32(2), 3]})
    {'window': 30, 'patch_sizes': (2, 3)}
    """
    import numpy as np  # not above: help and version need no numbers

    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def _described(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(repr(argument) for argument in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_described(argument) for argument in arguments)
    if origin is tuple:
        return f"a tuple of {_described(arguments[0]).removeprefix('an ').removeprefix('a ')}s"
    if origin is dict:
        return f"a dict by name of {_described(arguments[1])}"
    return {int: "an integer", float: "a number", bool: "True or False", str: "a name", type(None): "None"}.get(
        hint, f"a {getattr(hint, '__name__', hint)}"
    )
