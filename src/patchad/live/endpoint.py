"""Endpoints: host, port, user and path of an address that leads over the network."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote

from patchad.errors import InputError
from patchad.live.address import Address


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker or a server listens, and what is meant there.

    Examples
    --------
    >>> Endpoint.of(Address.parse("mqtt://me:secret@plant:1884/pumps/+"), 1883, "mqtt://HOST:PORT/TOPIC")
    Endpoint(host='plant', port=1884, path='pumps/+', user='me')
    """

    host: str
    port: int
    path: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, address: Address, port: int, usage: str) -> Endpoint:
        """Read an address; `port` is taken where it names none, `usage` says how it is written."""
        shown = f"{address.scheme}:{_without_user(address.place)}"
        wrong = InputError(f"{shown!r} is no address of this kind; write {usage}")
        if not address.place.startswith("//"):
            raise wrong
        network, _, path = address.place[2:].partition("/")
        account, at, machine = network.rpartition("@")
        user, colon, password = account.partition(":")
        host, _, number = machine.rpartition(":") if ":" in machine.rpartition("]")[2] else (machine, "", str(port))
        if not host.strip("[]") or not number.isdecimal() or not 0 < int(number) < 2**16:
            raise wrong
        secret = unquote(password) if colon else None
        return cls(host.strip("[]"), int(number), unquote(path), unquote(user) if at else None, secret)

    @property
    def place(self) -> str:
        """Host and port as a URL has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _without_user(place: str) -> str:
    """Leave out user and password, which messages do not show."""
    network, slash, path = place.removeprefix("//").partition("/")
    return f"//{network.rpartition('@')[2]}{slash}{path}"
