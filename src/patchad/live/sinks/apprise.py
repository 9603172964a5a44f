"""Events to people, by whatever `apprise` knows: chats, mail, telephones."""

from __future__ import annotations

import hashlib
import json
import warnings
from typing import Any

from patchad.errors import InputError, MissingExtraError
from patchad.live.address import Address
from patchad.live.sinks.base import DeliveryError, RemoteSink
from patchad.live.sinks.webhook import TRIES
from patchad.live.sinks.wording import details, headline
from patchad.live.store import StoredLine


class AppriseSink(RemoteSink):
    """`apprise:URL`, with a URL of apprise, such as `apprise:slack://TOKEN/CHANNEL`; a message for each event line."""

    def __init__(self, address: Address) -> None:
        url = address.text.removeprefix("apprise:")
        service = url.partition(":")[0]
        super().__init__(f"apprise:{service}:{hashlib.sha256(url.encode()).hexdigest()[:8]}", TRIES)  # no secrets
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # what it loads is its own affair
                from apprise import Apprise

                self._apprise: Any = Apprise()
                known = self._apprise.add(url)
        except ImportError as error:
            raise MissingExtraError("apprise", "live") from error
        if not known:
            raise InputError(f"apprise does not know the address of {service!r}; write apprise:URL as apprise has them")

    def check(self) -> str:
        """Say that the address is one; a message would be seen."""
        return "is an address that apprise knows; no message was sent"

    def send(self, line: StoredLine, store: str) -> None:  # noqa: ARG002
        """Send a message."""
        event = json.loads(line.text)
        if not self._apprise.notify(title=headline(event), body=details(event)):
            raise DeliveryError("apprise could not send the message")
