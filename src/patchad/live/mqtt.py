"""MQTT: what the source and the sink have in common: an address, and a connection that comes back by itself."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchad.errors import InputError, MissingExtraError, reason_of
from patchad.live.address import Address
from patchad.live.endpoint import Endpoint
from patchad.live.sources.base import PATIENCE

if TYPE_CHECKING:
    from paho.mqtt.client import Client

logger = logging.getLogger(__name__)

USAGE = "mqtt://[USER:PASSWORD@]HOST:PORT/TOPIC, or mqtts:// for TLS"
SLOWEST = 30
"""Seconds between tries to connect again, at most; the first is after one."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a broker."""

    endpoint: Endpoint
    encrypted: bool
    authorities: str | None = None
    """File of the certificates that sign the broker's; None: those of the system."""

    @classmethod
    def of(cls, address: Address, options: Sequence[str] = ()) -> Topic:
        """Read an address, which may have further options."""
        address.check_options(["ca", *options])
        encrypted = address.scheme == "mqtts"
        endpoint = Endpoint.of(address, 8883 if encrypted else 1883, USAGE)
        if not endpoint.path or "\0" in endpoint.path or len(endpoint.path.encode()) >= 2**16:
            raise InputError(f"mqtt://{endpoint.place} names no topic that there can be; write {USAGE}")
        return cls(endpoint, encrypted, address.options.get("ca"))

    @property
    def name(self) -> str:
        """The address without what is secret."""
        return f"mqtt{'s' * self.encrypted}://{self.endpoint.place}/{self.endpoint.path}"


class Connection:
    """A client in a thread of its own, which connects again whenever the connection is lost.

    Parameters
    ----------
    topic
        Where to.
    client_id
        The broker keeps what comes for this name while it is away; None: nothing is kept.
    greet
        Does what each new connection needs, and calls `settle` when that is done; None: nothing is needed.
    """

    def __init__(self, topic: Topic, client_id: str | None, greet: Callable[[], None] | None = None) -> None:
        self._topic = topic
        self._greet = greet or self.settle
        self._settled = threading.Event()
        self._lasting = client_id is not None
        self._refusal = ""
        self._trouble = ""
        self.number = 0
        """Which connection this is: counts up when one is made and when one is lost."""
        self.present = False
        """Whether the broker had kept the session when the connection was made."""
        self.client = self._made(client_id)

    def connect(self) -> None:
        """Connect, and wait until the broker has agreed; `InputError` where it does not."""
        endpoint = self._topic.endpoint
        self.client.connect_async(endpoint.host, endpoint.port, keepalive=30)
        self.client.loop_start()
        answered = self._settled.wait(PATIENCE)
        if self._refusal or not answered:
            self.close()
            what = self._refusal or f"it did not answer within {PATIENCE:g} s {self._trouble}".rstrip()
            raise InputError(f"{self._topic.name} cannot be used: {what}; check the address, and that the broker runs")

    def settle(self, refusal: str = "") -> None:
        """Say that the broker has agreed to what was asked, or why it has not."""
        if refusal and self._settled.is_set():
            logger.warning("%s: %s", self._topic.name, refusal)
        elif refusal:
            self._refusal = refusal
        elif not self._settled.is_set():
            logger.info("%s: ready", self._topic.name)
        self._settled.set()

    def close(self) -> None:
        """End the connection."""
        self.client.disconnect()
        self.client.loop_stop()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _made(self, client_id: str | None) -> Client:
        try:
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError as error:
            raise MissingExtraError("paho-mqtt", "live") from error
        version = CallbackAPIVersion.VERSION2
        client = Client(version, client_id or "", clean_session=not self._lasting, manual_ack=True)
        endpoint = self._topic.endpoint
        user = endpoint.user or os.environ.get("PATCHAD_MQTT_USER")
        if user is not None:
            client.username_pw_set(user, endpoint.password or os.environ.get("PATCHAD_MQTT_PASSWORD"))
        if self._topic.encrypted:
            try:
                client.tls_set(self._topic.authorities)
            except (OSError, ValueError) as error:
                raise InputError(
                    f"ca={self._topic.authorities} cannot be used ({reason_of(error)}); name a file of certificates"
                ) from None
        client.reconnect_delay_set(1, SLOWEST)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_connect_fail = self._on_connect_fail
        return client

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:  # noqa: ARG002
        if reason.is_failure:
            self.settle(f"the broker refused: {reason}")
            return
        again, self.present = self.number > 0, bool(flags.session_present)
        self.number += 1
        if again:
            logger.warning("%s: connected again", self._topic.name)
        if again and self._lasting and not self.present:
            logger.warning("%s: the broker has forgotten what it kept; rows may be missing", self._topic.name)
        self._greet()

    def _on_disconnect(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:  # noqa: ARG002
        self.number += 1
        if reason.is_failure and self._settled.is_set() and not self._refusal:
            logger.warning("%s: the connection is lost (%s); trying again", self._topic.name, reason)

    def _on_connect_fail(self, client: Any, data: Any) -> None:  # noqa: ARG002
        self._trouble = "(nobody listens there, or it cannot be reached)"
        logger.info("%s: no connection; trying again", self._topic.name)
