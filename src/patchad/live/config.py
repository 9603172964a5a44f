"""Configuration: `patchad.toml`, which says what the options of `patchad watch` say, and more."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from patchad.data.periods import Period, read_periods
from patchad.detectors.operator import knowledge_of
from patchad.errors import InputError, listed, reason_of
from patchad.live.history import Retention
from patchad.live.watch import Settings

if TYPE_CHECKING:
    from patchad.detectors.base import Detector

LEVELS = ("debug", "info", "warning", "error")
Table = TypeVar("Table")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PARAMETERS = ("merge_gap", "min_duration", "direction", "min_change", "ignore")
"""Alarm settings that are parameters of a detector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarms:
    """Alarm settings: what is given here is used instead of what the model file says."""

    threshold: str | float | None = None
    false_alarms: float | None = None
    """Expected false events per 10,000 normal rows."""
    merge_gap: int | None = None
    min_duration: int | None = None
    direction: str | dict[str, str] | None = None
    min_change: float | dict[str, float] | None = None
    ignore: tuple[str, ...] | None = None
    quiet: str | None = None
    """A csv file of periods without events: `from,to[,channel]`."""

    def __post_init__(self) -> None:
        for name, least in (("merge_gap", 0), ("min_duration", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"alarms.{name} is {value}; it must be at least {least}")

    def apply(self, detector: Detector) -> None:
        """Let a detector keep to these settings."""
        given = {name: getattr(self, name) for name in _PARAMETERS if getattr(self, name) is not None}
        detector.set_params(**given)
        knowledge_of(detector)  # refuses channels that are not there
        if self.false_alarms is not None:
            detector.false_alarms = self.false_alarms
        detector.set_threshold(detector.threshold if self.threshold is None else self.threshold)

    def periods(self) -> tuple[Period, ...]:
        """Return the quiet periods."""
        return () if self.quiet is None else read_periods(Path(self.quiet))


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What `patchad watch` does; options of the command line win."""

    model: str | None = None
    cold: bool = False
    """Whether to learn from the first rows where the model is not there yet."""
    state: str | None = None
    log_level: str | None = None
    sources: tuple[str, ...] = ()
    """As `--from` has them."""
    sinks: tuple[str, ...] = ()
    """As `--to` has them."""
    alarms: Alarms = field(default_factory=Alarms)
    streams: Settings = field(default_factory=Settings)
    retention: Retention = field(default_factory=Retention)

    def __post_init__(self) -> None:
        if self.log_level is not None and self.log_level not in LEVELS:
            raise InputError(f"log_level is {self.log_level!r}; use {', '.join(LEVELS)}")


_TABLES: Mapping[str, type] = {"alarms": Alarms, "streams": Settings, "retention": Retention}
_NUMBER, _TEXTS = (int, float), "a list of texts"
_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "threshold": ((str, *_NUMBER), "a text or a number"),
    "false_alarms": (_NUMBER, "a number of events per 10,000 rows"),
    "cold": ((bool,), "true or false"),
    "merge_gap": ((int,), "a whole number"),
    "min_duration": ((int,), "a whole number"),
    "direction": ((str, dict), 'a text, or a table as {flow = "up"}'),
    "min_change": ((*_NUMBER, dict), "a number, or a table as {flow = 0.5}"),
    "ignore": ((list,), _TEXTS),
    "sources": ((list,), _TEXTS),
    "sinks": ((list,), _TEXTS),
    "keys": ((list,), "a list of keys"),
    "silence": (_NUMBER, "a number of steps, 0 for never"),
    "days": (_NUMBER, "a number"),
    "megabytes": (_NUMBER, "a number"),
}
"""Types of values, and what they are called; all others are texts."""


def read_configuration(path: Path) -> Configuration:
    """Read a file; `InputError` names what is wrong in it."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read ({error.strerror}); give a file of settings") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{str(path)!r} is no TOML ({reason_of(error)})") from None
    try:
        return _made(Configuration, found, "")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _made(kind: type[Table], found: Mapping[str, Any], place: str) -> Table:
    known = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in found.items():
        if name not in known:
            near = get_close_matches(name, known, 1) or _elsewhere(name)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {listed(known, 20)}"
            raise InputError(f"{place}{name} is no setting; {hint}")
        if name in _TABLES:
            if not isinstance(value, dict):
                raise InputError(f"{place}{name} is {value!r}; a table is needed: [{name}]")
            values[name] = _made(_TABLES[name], value, f"{name}.")
        else:
            values[name] = _checked(name, value, place)
    return kind(**values)


def _elsewhere(name: str) -> list[str]:
    """Return where a setting of this name, or nearly, is in a table."""
    places = {one.name: f"{table}.{one.name}" for table, kind in _TABLES.items() for one in fields(kind)}
    return [places[near] for near in get_close_matches(name, places, 1)]


def _checked(name: str, value: Any, place: str) -> Any:
    types, needed = _KINDS.get(name, ((str,), "a text"))
    wrong = not isinstance(value, types) or (isinstance(value, bool) and bool not in types)
    items = value if isinstance(value, list) else []
    allowed = (str, int) if name == "keys" else (str,)
    if wrong or any(not isinstance(item, allowed) or isinstance(item, bool) for item in items):
        raise InputError(f"{place}{name} is {value!r}; {needed} is needed")
    if isinstance(value, list):
        return tuple(_expanded(item) if isinstance(item, str) else item for item in value)
    return _expanded(value) if isinstance(value, str) else value


def _expanded(text: str) -> str:
    """Put environment variables in their places, so that no secret has to be in the file."""

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in os.environ:
            raise InputError(f"${{{name}}} is used, and the environment has no {name}; set it")
        return os.environ[name]

    return _VARIABLE.sub(value, text)
