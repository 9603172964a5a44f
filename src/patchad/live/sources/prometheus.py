"""Rows from range queries to Prometheus, VictoriaMetrics, or whatever speaks their API."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from patchad.errors import InputError, MissingExtraError, listed, reason_of
from patchad.live.address import Address
from patchad.live.endpoint import Endpoint
from patchad.live.influx import time_text
from patchad.live.messages import Message, MessageReader
from patchad.live.rows import Columns
from patchad.live.sources.base import PATIENCE, Position

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger(__name__)

USAGE = "prometheus+http://HOST:PORT?query=Q&step=S"
OPTIONS = ("query", "step", "key", "channel", "delay", "since")
SPAN = 1000
"""Steps of one request; servers give 11,000 at most."""
LONGEST_DELAY, LONGEST_WAIT = 10_000, 60.0
"""Milliseconds to wait by default before a step is asked for; seconds between tries of a server that is away."""
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
Series = tuple[str | None, str, str, Mapping[int, float | None]]
"""Key, channel, what it is called there, and values by time."""


class PrometheusSource:
    """A row for each step of a range query, at times that are whole multiples of the step.

    The position is the last time that was asked for: no time is asked for twice, and none is left out, over restarts
    and while the server is away. NaN, infinite and absent values are missing ones; a time at which a stream has no
    value at all gives no row.
    """

    path: Path | None = None
    ended = False

    def __init__(self, address: Address) -> None:
        address.check_options(OPTIONS)
        secure = address.scheme.endswith("s")
        self._endpoint = Endpoint.of(address, 443 if secure else 9090, USAGE)
        given = parse_qs(address.text.partition("?")[2], keep_blank_values=True)
        self._queries = tuple(query for query in given.get("query", ()) if query.strip())
        if not self._queries or "step" not in given:
            raise InputError(f"prometheus+http://{self._endpoint.place} needs a query and a step; write {USAGE}")
        self._step = milliseconds(given["step"][-1], "step")
        self._delay = milliseconds(given["delay"][-1], "delay") if "delay" in given else min(self._step, LONGEST_DELAY)
        self._since = milliseconds(given["since"][-1], "since") if "since" in given else 0
        if self._step == 0:
            raise InputError("step=0 is no step; write seconds, or such as 15s, 1m, 500ms")
        self._keys = tuple(given.get("key", ()))
        self._channel = given["channel"][-1] if "channel" in given else None
        self._root = f"http{'s' * secure}://{self._endpoint.place}/{self._endpoint.path}".rstrip("/")
        asked = [("query", query) for query in self._queries] + [("step", f"{self._step}ms")]
        self.name = f"prometheus+{self._root}?{urlencode(asked)}"
        self.resumed = False
        self._columns = Columns(())
        self._last = 0
        """Time that was asked for last, in milliseconds."""
        self._due, self._failed = 0.0, 0
        self._worker = ThreadPoolExecutor(1)
        self._asked: Future[list[Message]] | None = None

    def open(self, position: Position | None) -> None:
        """Go on after the last time that was stored, or begin now."""
        self.resumed = position is not None
        self._last = self._newest() - self._since // self._step * self._step if position is None else position["time"]

    def reader(self, columns: Columns, state: Mapping[str, Any] | None) -> MessageReader:
        """Return what reads the rows."""
        self._columns = columns
        return MessageReader(columns, state)

    def connect(self, owner: str | None) -> None:  # noqa: ARG002
        """Ask each query once, to see whether it can be used."""
        self._client = self._made()
        end = time.monotonic() + PATIENCE
        while True:
            try:
                series = self._fetch(self._newest(), self._newest())
                break
            except ServerError as error:
                if error.final or time.monotonic() > end:
                    raise InputError(f"{self._root} cannot be used: {error}; check the address and the query") from None
                time.sleep(0.2)
        self._check(series)
        logger.info("%s: ready", self._root)

    def poll(self) -> list[bytes]:
        """Return the rows of the steps that are over; a thread asks for them."""
        if self._asked is None:
            until = min(self._newest(), self._last + SPAN * self._step)
            if until > self._last and time.monotonic() >= self._due:
                self._until = until
                self._asked = self._worker.submit(self._rows, self._last + self._step, until)
            return []
        if not self._asked.done():
            return []
        asked, self._asked = self._asked, None
        try:
            rows = asked.result()
        except ServerError as error:
            self._failed += 1
            self._due = time.monotonic() + min(2.0 ** min(self._failed - 1, 6), LONGEST_WAIT)
            level = logging.WARNING if self._failed == 1 else logging.INFO
            logger.log(level, "%s: %s; trying again", self._root, error)
            return []
        if self._failed:
            logger.warning("%s: answers again", self._root)
        self._failed, self._last = 0, self._until
        return list[bytes](rows)

    @property
    def position(self) -> Position:
        """The last time that was asked for."""
        return {"time": self._last}

    def acknowledge(self) -> None:
        """Nobody waits for it."""

    def close(self) -> None:
        """End the thread and the connection."""
        self._worker.shutdown(wait=True, cancel_futures=True)
        if hasattr(self, "_client"):
            self._client.close()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _made(self) -> httpx.Client:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtraError("httpx", "live") from error
        logging.getLogger("httpx").setLevel(logging.WARNING)
        user, token = self._endpoint.user, os.environ.get("PATCHAD_PROMETHEUS_TOKEN")
        auth = None if user is None else (user, self._endpoint.password or "")
        headers = {"Authorization": f"Bearer {token}"} if token and user is None else {}
        return httpx.Client(auth=auth, headers=headers, timeout=PATIENCE)

    def _newest(self) -> int:
        """Return the last time on the grid that is over."""
        return (time.time_ns() // 10**6 - self._delay) // self._step * self._step

    def _rows(self, start: int, end: int) -> list[Message]:
        """Return the rows from one time to another, both included."""
        rows: dict[tuple[int, str | None], dict[str, float | None]] = {}
        wrong: dict[tuple[int, str | None], str] = {}
        for key, channel, called, values in self._fetch(start, end):
            for moment, value in values.items():
                row = rows.setdefault((moment, key), {})
                if channel in row:
                    wrong[moment, key] = _clash(channel, called)
                row[channel] = value
        found: list[Message] = []
        for moment, key in sorted(rows, key=lambda one: (one[0], str(one[1]))):
            text = json.dumps({"key": key, "time": time_text(moment * 10**6), "values": rows[moment, key]})
            found.append(Message(text.encode()))
            found[-1].error = wrong.get((moment, key), "")
        return found

    def _fetch(self, start: int, end: int) -> list[Series]:
        found: list[Series] = []
        for query in self._queries:
            about = {"query": query, "start": start / 1000, "end": end / 1000, "step": self._step / 1000}
            for one in self._ask(about):
                labels = one["metric"]
                key = "/".join(labels.get(name, "") for name in self._keys) if self._keys else None
                channel = self._named(labels, query)
                values = {round(float(at) * 1000): _value(value) for at, value in one["values"]}
                found.append((key, channel, _full(labels), values))
        return found

    def _ask(self, about: Mapping[str, Any]) -> list[Any]:
        import httpx

        try:
            answer = self._client.post(f"{self._root}/api/v1/query_range", data=dict(about))
            content = answer.json()
            if content.get("status") != "success":
                raise ServerError(
                    f"it answered {answer.status_code}: {content.get('error', '')}", final=answer.status_code < 500
                )
            return list(content["data"]["result"])
        except httpx.HTTPError as error:
            raise ServerError(f"no answer ({reason_of(error)})") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ServerError(
                f"it answered {answer.status_code}, and not as Prometheus does", final=answer.status_code < 500
            ) from None

    def _named(self, labels: Mapping[str, str], query: str) -> str:
        """Return the channel of a series: one of the model, as plain as it may be; else what it is called there."""
        if self._channel is not None:
            return labels.get(self._channel, "")
        own = {name: value for name, value in labels.items() if name not in (*self._keys, "job", "instance")}
        names = [_full(labels), _full(own), labels.get("__name__", ""), query, *own.values()]
        known = self._columns.channels
        inside = [one for one in known if re.search(rf"(?<![\w:]){re.escape(one)}(?![\w:])", query)]
        if len(inside) == 1:
            names += inside
        return next((one for one in names if one in known), _full(own) or query)

    def _check(self, series: Iterable[Series]) -> None:
        """Refuse series that the model does not know, or that cannot be told apart."""
        seen: dict[tuple[str | None, str], str] = {}
        for key, channel, called, values in series:
            if values and (key, channel) in seen:
                raise InputError(f"{self._root}: {_clash(channel, f'{seen[key, channel]} and {called}')}")
            seen[key, channel] = called
        known, found = self._columns.channels, {channel for _, channel in seen}
        if found and known and not found & set(known):
            raise InputError(
                f"{self._root}: no series is a channel of the model: there are {listed(sorted(found))}, the model "
                f"knows {listed(known)}; name the label that has the channel with channel=LABEL"
            )


class ServerError(Exception):
    """A server did not answer, or not as it should.

    Parameters
    ----------
    reason
        How.
    final
        Whether asking again would be in vain.
    """

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


def milliseconds(text: str, name: str) -> int:
    """Read a time such as 15, 15s, 1m or 500ms.

    Examples
    --------
    >>> milliseconds("1m", "step"), milliseconds("0.5", "step")
    (60000, 500)
    """
    found = re.fullmatch(r"(\d+\.?\d*)\s*([a-z]*)", text.strip())
    unit = UNITS.get(found[2] or "s") if found else None
    if found is None or unit is None:
        raise InputError(f"{name}={text} is no time; write seconds, or such as 15s, 1m, 500ms")
    return round(float(found[1]) * unit)


def _value(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _full(labels: Mapping[str, str]) -> str:
    rest = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()) if name != "__name__")
    return labels.get("__name__", "") + (f"{{{rest}}}" if rest else "")


def _clash(channel: str, called: str) -> str:
    return (
        f"several series are channel {channel!r} ({called}); tell them apart by a label with key=LABEL or "
        "channel=LABEL, or sum them in the query"
    )
