"""Session: a watch by a configuration, which may be read again while it runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from patchad.data.files import check_outputs
from patchad.data.periods import Period
from patchad.detectors.registry import load
from patchad.errors import InputError, PatchADError, reason_of
from patchad.live.checking import check_all, check_sink, check_source
from patchad.live.config import Configuration
from patchad.live.intake import Counts
from patchad.live.outlet import dead_letters
from patchad.live.records import Records
from patchad.live.sinks.base import RemoteSink, Sink
from patchad.live.sinks.registry import make_sink
from patchad.live.sources.base import Source
from patchad.live.sources.registry import make_source
from patchad.live.store import Store
from patchad.live.streams import LiveStreams
from patchad.live.takeover import resume, try_model
from patchad.live.warming import Relearning, is_cold, warm_up
from patchad.live.watch import Watch

if TYPE_CHECKING:
    from patchad.detectors.base import Detector

logger = logging.getLogger(__name__)

STDIN = ("-", "influx:-")
"""Sources that cannot be opened anew, for what was read of them is gone."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a watch is made of."""

    configuration: Configuration
    detector: Detector
    sources: Sequence[Source]
    sinks: Sequence[Sink | RemoteSink]
    quiet: tuple[Period, ...]
    first: tuple[Period, ...] = ()
    """The rows that were learned from as they came; they are quiet too."""


class Session:
    """Watch as a configuration says; read it again when asked to.

    Parameters
    ----------
    read
        Reads the configuration, with the options of the command line in it.
    stopping
        Whether to stop, while the first rows are waited for where there is no model.
    """

    def __init__(self, read: Callable[[], Configuration], stopping: Callable[[], bool] = lambda: False) -> None:
        self._read = read
        self._parts = make_parts(read(), stopping=stopping)
        self.counts = Counts()

    def run(self, stopping: Callable[[], bool], reloading: Callable[[], bool]) -> None:
        """Go on until the input ends or it is to stop."""
        configuration = self._parts.configuration
        state = None if configuration.state is None else Path(configuration.state)
        with Store(state, configuration.retention) as store:
            again = reloading if store.durable else _never(reloading)
            if configuration.cold and store.durable and configuration.model is not None:
                again = Relearning(Path(configuration.model), store, self.counts, again)
            while True:
                parts = self._parts
                settings = parts.configuration.streams
                watch = Watch(parts.detector, parts.sources, parts.sinks, store, settings, parts.quiet, self.counts)
                watch.run(stopping, again)
                if not watch.reloading:
                    return
                self._reload(store)

    def _reload(self, store: Store) -> None:
        """Read the configuration and the model again; what cannot be used leaves all as it was."""
        before = self._parts
        try:
            parts = make_parts(self._read(), before)
            if parts.configuration.state != before.configuration.state:
                raise InputError("the state cannot be another while it is in use; stop, and start again")
            trial = try_model(parts.detector, store)
            if trial.passed:
                resume(LiveStreams(parts.detector, parts.configuration.streams.silence, parts.quiet), store)
        except (PatchADError, OSError) as error:
            logger.error("nothing was reloaded: %s", reason_of(error))  # noqa: TRY400
            self._parts = make_parts(before.configuration, before, before.detector)
            return
        if trial.passed:
            logger.warning("reloaded: %s", trial)
        else:
            logger.error("the model before stays, for the new one alarms too much: %s", trial)
            kept = replace(parts.configuration, alarms=before.configuration.alarms, model=before.configuration.model)
            parts = replace(parts, detector=before.detector, quiet=before.quiet, configuration=kept)
        store.keep(parts.configuration.retention)
        logging.getLogger().setLevel((parts.configuration.log_level or "warning").upper())
        self._parts = parts


def _never(reloading: Callable[[], bool]) -> Callable[[], bool]:
    """Return what refuses to reload: without a state, streams would be lost."""

    def asked() -> bool:
        if reloading():
            logger.warning("nothing was reloaded: that needs a state, so that streams can go on; name one with --state")
        return False

    return asked


def make_parts(
    configuration: Configuration,
    before: Parts | None = None,
    detector: Detector | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> Parts:
    """Make what a configuration names; nothing is opened yet. Standard input is the one of before.

    Where there is no model yet, and that is meant, the sources are read until there is one.
    """
    known = {} if before is None else {source.name: source for source in before.sources if source.name in STDIN}
    named = replace(configuration, sources=configuration.sources or ("-",), sinks=configuration.sinks or ("-",))
    sources, sinks = make_ends(named, known)
    first = () if before is None else before.first
    if detector is None:
        if is_cold(configuration):
            begun = warm_up(configuration, sources, stopping)
            detector, sources, first = begun.detector, begun.sources, begun.quiet
        elif configuration.model is None:
            raise InputError('no model is named; give MODEL, or model = "..." in the configuration')
        else:
            detector = load(Path(configuration.model))
        configuration.alarms.apply(detector)
    return Parts(configuration, detector, sources, sinks, (*configuration.alarms.periods(), *first), first)


def make_ends(
    configuration: Configuration, known: Mapping[str, Source] | None = None
) -> tuple[list[Source], list[Sink | RemoteSink]]:
    """Make the sources and sinks that a configuration names; no file may be read and written, or written twice."""
    sources = [(known or {}).get(text) or make_source(text) for text in configuration.sources]
    sinks = [make_sink(text) for text in configuration.sinks]
    _check_single([one.name for one in sources], "source (--from)")
    _check_single([one.name for one in sinks], "sink (--to)")
    state = None if configuration.state is None else Path(configuration.state)
    dead = None if state is None else Path(dead_letters(state).place)
    files = {f"--to {one.name}": one.path for one in sinks} | {"--state": state, "the file of refused rows": dead}
    model = [] if configuration.model is None else [Path(configuration.model)]
    check_outputs(files, [*model, *(one.path for one in sources if one.path is not None)])
    return sources, sinks


def check(configuration: Configuration) -> Iterator[tuple[bool, str]]:
    """Try everything that a configuration names; return for each whether it is well, and a line that says so."""
    model, state = configuration.model, configuration.state

    def use_model() -> str:
        if is_cold(configuration):
            return "will be made of the first rows"
        if model is None:
            raise InputError("no model is named")
        detector = load(Path(model))
        configuration.alarms.apply(detector)
        return f"{type(detector).name}, {len(detector.channels_)} channels"

    parts: list[tuple[str, Callable[[], str]]] = [(f"model {model}", use_model)]
    if state is not None:
        parts.append((f"state {state}", lambda: _check_state(Path(state))))
    if configuration.alarms.quiet is not None:
        quiet = configuration.alarms
        parts.append((f"quiet {quiet.quiet}", lambda: f"{len(quiet.periods())} periods"))
    sources, sinks = configuration.sources or ("-",), configuration.sinks or ("-",)
    parts += [(f"source {_shown(text)}", partial(_check_source, text)) for text in sources]
    parts += [(f"sink {_shown(text)}", partial(_check_sink, text)) for text in sinks]
    return check_all(parts)


def _check_state(path: Path) -> str:
    """Read a state, which another process may be using; a new one only needs a place."""
    if path.exists():
        with Records(path) as records:
            return f"has {len(records.keys())} streams"
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"the folder {str(path.parent)!r} cannot be written to")
    return "will be made"


def _check_source(text: str) -> str:
    return check_source(make_source(text))


def _check_sink(text: str) -> str:
    return check_sink(make_sink(text))


def _shown(text: str) -> str:
    """Return an address without what may be secret."""
    if text.startswith("apprise:"):
        return text.partition("//")[0]
    scheme, slashes, rest = text.partition("//")
    return f"{scheme}{slashes}{rest.partition('/')[0].rpartition('@')[2]}" if slashes else text


def _check_single(names: Sequence[str], what: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{what} {twice} is given twice; name each once")
