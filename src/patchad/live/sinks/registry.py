"""The sinks by their schemes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchad.live.address import Address, pick
from patchad.live.sinks.alertmanager import AlertmanagerSink
from patchad.live.sinks.apprise import AppriseSink
from patchad.live.sinks.base import RemoteSink, Sink
from patchad.live.sinks.file import FileSink
from patchad.live.sinks.kafka import KafkaSink
from patchad.live.sinks.mqtt import MqttSink
from patchad.live.sinks.stdout import StdoutSink
from patchad.live.sinks.webhook import WebhookSink

SINKS: Mapping[str, tuple[str, Callable[[Address], Sink | RemoteSink]]] = {
    "-": ("-", StdoutSink),
    "file": ("file:PATH", FileSink),
    "mqtt": ("mqtt://HOST:PORT/TOPIC", MqttSink),
    "mqtts": ("mqtts://HOST:PORT/TOPIC", MqttSink),
    "kafka": ("kafka://HOST:PORT/TOPIC", KafkaSink),
    "kafkas": ("kafkas://HOST:PORT/TOPIC", KafkaSink),
    "http": ("http://HOST/PATH", WebhookSink),
    "https": ("https://HOST/PATH", WebhookSink),
    "alertmanager+http": ("alertmanager+http://HOST:PORT", AlertmanagerSink),
    "alertmanager+https": ("alertmanager+https://HOST:PORT", AlertmanagerSink),
    "apprise": ("apprise:URL", AppriseSink),
}
"""By scheme: how an address is written, and what makes the sink of it."""


def make_sink(text: str) -> Sink | RemoteSink:
    """Make the sink that an address names; nothing is opened yet."""
    address = Address.parse(text)
    return pick(address, SINKS, "sink")(address)
