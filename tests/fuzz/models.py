"""Model files that are not what they claim to be: bytes damaged, or content changed under a good checksum."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from patchad.detectors import checkpoint

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 10**9, 10**18, -(10**18), 10**40, 10**400, 0.5, -0.5, 1e308, np.nan, np.inf,
    "", "x", "\x1b[31m", "=1+1", "🙂" * 40, "9" * 5000, [], [1], [[]], [None], [1, "a"], ["x"] * 3, {},
    {"name": "auto"}, {"name": "fixed", "value": "x"}, {"a": {"b": {"c": []}}}, [0] * 100_000, [[0, 10]], [[10, 0]],
    [[-5, 10**12]], "auto", "ratio:1", "quantile:2", "cuda", "meta", "mps", "newest", "mean",
)  # fmt: skip
"""What stands where something else should."""


def nested(depth: int) -> Any:
    """Return a list in a list, and so on."""
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


DEEP = 20
"""Levels of a header that are changed; a change may have put hundreds there."""


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in a header."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items if len(path) < DEEP else ():
        found.extend(paths_in(item, (*path, key)))
    return found


def hostile_model(rng: random.Random, source: Path, target: Path) -> str:
    """Write a changed copy of a model file; return what was changed."""
    kind = rng.choices(["header", "array", "bytes", "text"], [6, 4, 2, 1])[0]
    if kind == "bytes":
        return _damaged(rng, source, target)
    header, arrays = checkpoint.read(source)
    header = copy.deepcopy(header)
    for name in ("format", "patchad_version", "checksum"):
        del header[name]
    if kind == "text":
        return _written(rng, target, header, arrays)
    count = rng.choice([1, 1, 1, 2, 4])
    change, place = (_change_header, header) if kind == "header" else (_change_array, arrays)
    changes = [change(rng, place) for _ in range(count)]
    checkpoint.write(target, header, arrays)
    return "; ".join(changes)


def _change_header(rng: random.Random, header: dict[str, Any]) -> str:
    path = rng.choice(paths_in(header))
    place: Any = header
    for key in path[:-1]:
        place = place[key]
    action = rng.choices(["set", "near", "delete", "rename"], [6, 3, 1, 1])[0]
    if action == "delete":
        del place[path[-1]]
        return f"without {path}"
    if action == "rename" and isinstance(place, dict):
        place["surplus"] = place.pop(path[-1])
        return f"{path} renamed"
    old = place[path[-1]]
    if action == "near" and isinstance(old, int | float) and not isinstance(old, bool):
        new = rng.choice([old + 1, old - 1, old * 2, -old, old * 1000, old / 3, float(old), old * 10**7])
    elif action == "near" and isinstance(old, list):
        new = rng.choice([old * 2, old[:-1], old[::-1], [old], old * 1000])
    else:
        new = nested(500) if rng.random() < 0.02 else rng.choice(VALUES)
    place[path[-1]] = new
    return f"{path} = {new!r}"[:200]


def _with_wrong_values(rng: random.Random, old: Any) -> Any:
    values = old.astype(np.float64).reshape(-1)
    values[: rng.randrange(1, 4)] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0])
    return values.reshape(old.shape).astype(old.dtype)


ARRAYS: dict[str, Callable[[random.Random, Any], Any]] = {
    "another type": lambda rng, old: old.astype(rng.choice(["float16", "float64", "int8", "int64", "bool", "uint8"])),
    "flat": lambda _, old: old.reshape(-1),
    "one axis more": lambda _, old: old[None],
    "shorter": lambda _, old: old.reshape(-1)[:-1],
    "longer": lambda _, old: np.concatenate([old.reshape(-1)] * 3),
    "empty": lambda _, old: old.reshape(-1)[:0],
    "zeros": lambda _, old: np.zeros_like(old),
    "negative": lambda _, old: ~old if old.dtype == bool else -old,
    "huge": lambda _, old: (old * 1e30).astype(old.dtype),
    "wrong values": _with_wrong_values,
}


def _change_array(rng: random.Random, arrays: dict[str, Any]) -> str:
    name, action = rng.choice(list(arrays)), rng.choice([*ARRAYS, "missing", "another array"])
    if action == "missing":
        del arrays[name]
    elif action == "another array":
        arrays[name] = arrays[rng.choice(list(arrays))]
    else:
        with np.errstate(all="ignore"):
            arrays[name] = ARRAYS[action](rng, np.array(arrays[name]))
    return f"array {name}: {action}"


def _damaged(rng: random.Random, source: Path, target: Path) -> str:
    content = bytearray(source.read_bytes())
    start = rng.randrange(len(content))
    action = rng.randrange(4)
    if action == 0:
        content[start] ^= 1 << rng.randrange(8)
    elif action == 1:
        del content[start:]
    elif action == 2:
        content[start:start] = rng.randbytes(rng.randrange(1, 100))
    else:
        content[:8] = rng.randrange(2**63).to_bytes(8, "little")
    target.write_bytes(content)
    return f"bytes: action {action} at {start}"


def _written(rng: random.Random, target: Path, header: dict[str, Any], arrays: dict[str, Any]) -> str:
    """Write a header that is no object, or that JSON readers stumble over."""
    text = rng.choice([
        "[]", "null", "1", "", "{", '"x"', "[" * 100_000, '{"a":' * 5000, "9" * 5000, "NaN",
        json.dumps(header)[:-5], json.dumps(header).replace("30", "9" * 5000, 1), json.dumps({"detector": ["patchad"]}),
        json.dumps(header | {"detector": rng.choice(["lof", "pca", "usad", "var", "random"])}),
    ])  # fmt: skip
    original = checkpoint.json
    try:
        checkpoint.json = _Fixed(text)  # type: ignore[assignment]
        checkpoint.write(target, {}, arrays)
    finally:
        checkpoint.json = original
    return f"header {text[:60]!r}"


class _Fixed:
    """A stand-in for json that writes one text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def dumps(self, _: object) -> str:
        return self._text
