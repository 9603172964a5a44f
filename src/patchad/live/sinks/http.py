"""HTTP as the sinks use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from patchad.errors import MissingExtraError, reason_of
from patchad.live.sinks.base import DeliveryError

if TYPE_CHECKING:
    import httpx

TIMEOUT = 10.0
"""Seconds that a server has to answer."""
REFUSED = frozenset({400, 413, 422})
"""Answers that say that a line will never be taken."""


class Http:
    """A client that keeps its connection, and says in words why a request failed."""

    def __init__(self) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtraError("httpx", "live") from error
        self._errors: tuple[type[Exception], ...] = (httpx.HTTPError, httpx.InvalidURL, UnicodeError)
        self._client = httpx.Client(timeout=TIMEOUT, headers={"User-Agent": "patchad"})

    def ask(self, method: str, url: str, **options: Any) -> httpx.Response:
        """Send a request; return any answer; `DeliveryError` where there is none."""
        try:
            return self._client.request(method, url, **options)
        except self._errors as error:
            raise DeliveryError(f"no answer ({reason_of(error)})") from None

    def send(self, url: str, content: bytes, headers: dict[str, str]) -> None:
        """Post something; `DeliveryError` where it is not taken."""
        answer = self.ask("POST", url, content=content, headers=headers)
        if not answer.is_success:
            said = " ".join(answer.text.split())[:200]
            raise DeliveryError(
                f"answered {answer.status_code}" + (f" ({said})" if said else ""), final=answer.status_code in REFUSED
            )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def without_secrets(url: str) -> str:
    """Return an address without user, password and query, for messages and as a name.

    Examples
    --------
    >>> without_secrets("https://me:pw@host:81/hook?token=1")
    'https://host:81/hook'
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
