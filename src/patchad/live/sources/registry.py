"""The sources by their schemes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from patchad.live.address import Address, pick
from patchad.live.sources.base import Source
from patchad.live.sources.file import FileSource
from patchad.live.sources.influx import InfluxSource
from patchad.live.sources.influx_http import InfluxHttpSource
from patchad.live.sources.kafka import KafkaSource
from patchad.live.sources.mqtt import MqttSource
from patchad.live.sources.prometheus import PrometheusSource
from patchad.live.sources.stdin import StdinSource

SOURCES: Mapping[str, tuple[str, Callable[[Address], Source]]] = {
    "-": ("-", StdinSource),
    "file": ("file:PATH[?follow=0]", FileSource),
    "influx": ("influx:-", InfluxSource),
    "influx+http": ("influx+http://HOST:PORT", InfluxHttpSource),
    "kafka": ("kafka://HOST:PORT/TOPIC", KafkaSource),
    "kafkas": ("kafkas://HOST:PORT/TOPIC", KafkaSource),
    "mqtt": ("mqtt://HOST:PORT/TOPIC", MqttSource),
    "mqtts": ("mqtts://HOST:PORT/TOPIC", MqttSource),
    "prometheus+http": ("prometheus+http://HOST:PORT?query=Q&step=S", PrometheusSource),
    "prometheus+https": ("prometheus+https://HOST:PORT?query=Q&step=S", PrometheusSource),
}
"""By scheme: how an address is written, and what makes the source of it."""


def make_source(text: str) -> Source:
    """Make the source that an address names; nothing is opened yet."""
    address = Address.parse(text)
    return pick(address, SOURCES, "source")(address)
