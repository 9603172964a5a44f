"""Snapshots: what stages carry, as arrays and JSON, and back. Nothing is pickled.

A stage names what it carries in `state`. Stages are built anew from the model and filled; findings, events and the like
are dataclasses, which are stored by name and stay shared where several stages hold the same one.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from patchad.alarms.edges import Edges
from patchad.alarms.events import Finding
from patchad.alarms.feedback import Strangeness
from patchad.alarms.repeats import Repeats
from patchad.alarms.sensors import Dead, SensorFinding
from patchad.alarms.suspicion import Suspicion
from patchad.data.stages import Scored
from patchad.data.windows import Sums
from patchad.errors import InputError, UnsupportedError
from patchad.results.detection import Event
from patchad.streaming.marking import Marked
from patchad.streaming.verdict import Verdict

FORMAT = 2
KNOWN: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        Scored,
        Sums,
        Finding,
        Edges,
        Repeats,
        SensorFinding,
        Dead,
        Event,
        Verdict,
        Marked,
        Strangeness,
        Suspicion,
    )
}
"""Classes whose objects are stored by name."""
_SCALARS = (bool, int, float, str, type(None))


@dataclass(slots=True)
class Snapshot:
    """Values as JSON, with the arrays and the objects that they refer to."""

    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    objects: list[Any] = field(default_factory=list)
    """What is stored of each object."""
    _places: dict[int, int] = field(default_factory=dict)
    _made: dict[int, Any] = field(default_factory=dict)

    # -- in ------------------------------------------------------------------------------------------------------------

    def put(self, value: Any) -> Any:
        """Store a value; return what JSON has of it."""
        if isinstance(value, np.ndarray | np.generic):
            return self._put_array(value)
        if isinstance(value, _SCALARS):
            return value
        if isinstance(value, list | tuple | deque):
            items = [self.put(item) for item in value]
            name = next(name for name, kind in _SEQUENCES.items() if isinstance(value, kind))
            return {name: items} | ({"maxlen": value.maxlen} if isinstance(value, deque) else {})
        if isinstance(value, dict):
            return {"dict": [[self.put(key), self.put(item)] for key, item in value.items()]}
        if type(value) in KNOWN.values():
            return self._put_object(value)
        if hasattr(value, "state"):
            return {"stage": {name: self.put(getattr(value, name)) for name in value.state}}
        raise UnsupportedError(f"{type(value).__name__} cannot be part of a snapshot")

    def _put_array(self, value: NDArray[Any] | np.generic) -> dict[str, Any]:
        array = np.asarray(value)
        key, kind = f"{len(self.arrays)}", array.dtype.str
        self.arrays[key] = np.ascontiguousarray(array.view(np.int64) if array.dtype.kind in "mM" else array)
        return {"array": key, "dtype": kind, "shape": list(array.shape), "scalar": isinstance(value, np.generic)}

    def _put_object(self, value: Any) -> dict[str, Any]:
        if id(value) not in self._places:
            place = self._places[id(value)] = len(self.objects)
            self.objects.append(None)
            self._made[place] = value  # an object that is gone could lend its id to another
            names = _names(type(value))
            stored = {name: self.put(getattr(value, name)) for name in names}
            self.objects[place] = {"class": type(value).__name__, "fields": stored}
        return {"object": self._places[id(value)]}

    # -- out -----------------------------------------------------------------------------------------------------------

    def take(self, stored: Any, into: Any = None) -> Any:
        """Return a stored value; what was a stage is filled into the one given."""
        if not isinstance(stored, dict):
            return stored
        if "array" in stored:
            array = self.arrays[stored["array"]]
            array = np.array(array).view(stored["dtype"]) if stored["dtype"][1] in "mM" else np.array(array)
            array = array.reshape(stored["shape"])
            return array[()] if stored["scalar"] else array
        if "object" in stored:
            return self._take_object(stored["object"])
        if "dict" in stored:
            return {self.take(key): self.take(item) for key, item in stored["dict"]}
        if "stage" in stored:
            for name, item in stored["stage"].items():
                setattr(into, name, self.take(item, getattr(into, name)))
            return into
        ((name, items),) = ((name, stored[name]) for name in _SEQUENCES if name in stored)
        within = into if isinstance(into, list | tuple) and len(into) == len(items) else [None] * len(items)
        taken = [self.take(item, own) for item, own in zip(items, within, strict=True)]
        return deque(taken, stored["maxlen"]) if name == "deque" else _SEQUENCES[name](taken)

    def _take_object(self, place: int) -> Any:
        if place not in self._made:
            stored = self.objects[place]
            kind = KNOWN[stored["class"]]
            value: Any = object.__new__(kind)
            self._made[place] = value
            for name, item in stored["fields"].items():
                object.__setattr__(value, name, self.take(item))
        return self._made[place]


_SEQUENCES: Mapping[str, Any] = {"list": list, "tuple": tuple, "deque": deque}


def _names(kind: type) -> tuple[str, ...]:
    own: tuple[str, ...] | None = getattr(kind, "state", None)
    return own if isinstance(own, tuple) else tuple(one.name for one in fields(kind))


def to_bytes(checksum: str, value: Any) -> bytes:
    """Write what `Snapshot.put` can store, for a model with this checksum."""
    from safetensors.numpy import save

    snapshot = Snapshot()
    stored = snapshot.put(value)
    header = {"format": FORMAT, "model": checksum, "value": stored, "objects": snapshot.objects}
    content = save(snapshot.arrays, {"patchad_stream": json.dumps(header)})
    return hashlib.sha256(content).digest() + content


def from_bytes(data: bytes, checksum: str | None, kind: Literal["dict", "list"] = "dict") -> tuple[Snapshot, Any]:
    """Read a snapshot of this model, or of any; return it with what was stored, for `Snapshot.take`.

    `kind` is what was stored: a stream is a dict, a pool a list of keys and streams.
    """
    from safetensors.numpy import load

    digest, content = bytes(data[:32]), bytes(data[32:])
    if hashlib.sha256(content).digest() != digest:
        raise InputError("this is no snapshot of a stream, or it is damaged; take another, or start a new stream")
    length = int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["patchad_stream"])
    if header["format"] != FORMAT:
        raise InputError(f"the snapshot has format {header['format']}, this version reads {FORMAT}; start a new stream")
    if checksum is not None and header["model"] != checksum:
        raise InputError(
            "the snapshot belongs to another model, or to this one with other parameters; load the model that it was "
            "taken with, or start a new stream"
        )
    if kind not in header["value"]:
        raise InputError(
            "the snapshot is of a pool; restore it with `StreamPool.restore`"
            if kind == "dict"
            else "the snapshot is of one stream; restore it with `StreamDetector.restore`"
        )
    return Snapshot(load(content), header["objects"]), header["value"]
