"""Kafka: what the source and the sink have in common: an address, and the settings of a client."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchad.errors import InputError, MissingExtraError
from patchad.live.address import Address
from patchad.live.endpoint import Endpoint
from patchad.live.sources.base import PATIENCE

logger = logging.getLogger(__name__)

USAGE = "kafka://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...]/TOPIC, or kafkas:// for TLS"
CHATTER = logging.getLogger(f"{__name__}.library")
"""What the library itself says; only at `--log-level debug`."""


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic of a cluster."""

    brokers: tuple[str, ...]
    endpoint: Endpoint
    encrypted: bool
    extra: Mapping[str, str]
    """Further settings of the client."""

    @classmethod
    def of(cls, address: Address, options: Sequence[str] = ()) -> KafkaTopic:
        """Read an address, which may have further options."""
        address.check_options(["config", *options])
        network, slash, path = address.place.removeprefix("//").partition("/")
        account, at, machines = network.rpartition("@")
        places = [
            Endpoint.of(replace(address, place=f"//{account}{at}{machine}{slash}{path}"), 9092, USAGE)
            for machine in (machines.split(",") if address.place.startswith("//") else [""])
        ]
        if not places[0].path or "/" in places[0].path:
            raise InputError(f"kafka://{machines} names no topic that there can be; write {USAGE}")
        config = address.options.get("config")
        extra = {} if config is None else _read_settings(Path(config))
        return cls(tuple(one.place for one in places), places[0], address.scheme == "kafkas", extra)

    @property
    def name(self) -> str:
        """The address without what is secret."""
        return f"kafka{'s' * self.encrypted}://{','.join(self.brokers)}/{self.topic}"

    @property
    def topic(self) -> str:
        """The topic alone."""
        return self.endpoint.path

    def settings(self) -> dict[str, Any]:
        """Return the settings of a client."""
        user = self.endpoint.user or os.environ.get("PATCHAD_KAFKA_USER")
        found: dict[str, Any] = {
            "bootstrap.servers": ",".join(self.brokers),
            "security.protocol": f"{'SASL_' if user else ''}{'SSL' if self.encrypted else 'PLAINTEXT'}",
            "reconnect.backoff.max.ms": 10_000,
            "error_cb": self._hear,
            "logger": CHATTER,
        }
        if user:
            password = self.endpoint.password or os.environ.get("PATCHAD_KAFKA_PASSWORD", "")
            found |= {"sasl.mechanisms": "PLAIN", "sasl.username": user, "sasl.password": password}
        return {**found, **self.extra}

    def cannot(self, reason: object) -> InputError:
        """Return the error of a cluster that cannot be used."""
        return InputError(f"{self.name} cannot be used: {reason}; check the address, and that the broker runs")

    def check(self, client: Any) -> tuple[int, ...]:
        """Ask for the topic; return its partitions, or raise `InputError` after a time."""
        from confluent_kafka import KafkaError, KafkaException

        end = time.monotonic() + PATIENCE
        while True:
            try:
                about = client.list_topics(self.topic, timeout=PATIENCE).topics[self.topic]
            except KafkaException as error:
                reason = error.args[0].str()
                raise self.cannot(f"it did not answer within {PATIENCE:g} s ({reason})") from None
            if about.error is None:
                return tuple(sorted(about.partitions))
            if about.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART or time.monotonic() > end:
                raise self.cannot(f"topic {self.topic!r}: {about.error.str()}")
            time.sleep(0.2)  # somebody may be about to make it

    def _hear(self, error: Any) -> None:
        """Tell of what is wrong with the connection; the library goes on trying."""
        from confluent_kafka import KafkaError

        level = logging.WARNING if error.code() == KafkaError._ALL_BROKERS_DOWN or error.fatal() else logging.INFO  # noqa: SLF001
        logger.log(level, "%s: %s; trying again", self.name, error.str())


def require_kafka() -> Any:
    """Import the library."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise MissingExtraError("confluent-kafka", "live") from error
    CHATTER.setLevel(logging.DEBUG if logging.getLogger().level <= logging.DEBUG else logging.CRITICAL)
    return confluent_kafka


def _read_settings(path: Path) -> dict[str, str]:
    """Read settings of the library: `name=value` a line, `#` for comments."""
    try:
        lines = [line.strip() for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"config={path} cannot be read ({error}); name a file of name=value lines") from None
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    for name, equals, _ in pairs:
        if not equals:
            raise InputError(f"{path} has the line {name!r}; write name=value, as librdkafka has them")
    return {name.strip(): value.strip() for name, _, value in pairs}
