"""Addresses of sources and sinks: `-`, or a scheme, what it names, and options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import parse_qsl

from patchad.errors import InputError

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Address:
    """Where rows come from or lines go to.

    Examples
    --------
    >>> Address.parse("file:rows.csv?follow=0")
    Address(text='file:rows.csv?follow=0', scheme='file', place='rows.csv', options={'follow': '0'})
    """

    text: str
    scheme: str
    place: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read an address; one without a colon is a scheme by itself, as `-` is."""
        scheme, _, rest = text.partition(":")
        place, _, query = rest.partition("?")
        return cls(text, scheme, place, dict(parse_qsl(query, keep_blank_values=True)))

    def check_options(self, known: Iterable[str] = ()) -> None:
        """Refuse options that the scheme does not know."""
        names = tuple(known)
        for name in self.options:
            if name not in names:
                usable = f"use {' or '.join(names)}" if names else "it takes none"
                raise InputError(f"{self.text!r} has the option {name!r}, which is unknown; {usable}")


def pick(address: Address, kinds: Mapping[str, tuple[str, Kind]], what: str) -> Kind:
    """Return what a registry has for the scheme of an address; refuse an unknown one with the list of those known.

    Examples
    --------
    >>> pick(Address.parse("ftp:x"), {"-": ("-", 1), "file": ("file:PATH", 2)}, "source")
    Traceback (most recent call last):
    patchad.errors.InputError: 'ftp:x' is no source that is known; use one of: -, file:PATH
    """
    if address.scheme not in kinds:
        usage = ", ".join(text for text, _ in kinds.values())
        raise InputError(f"{address.text!r} is no {what} that is known; use one of: {usage}")
    return kinds[address.scheme][1]
