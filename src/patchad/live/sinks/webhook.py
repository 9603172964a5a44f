"""Lines to a web server, signed."""

from __future__ import annotations

import hashlib
import hmac
import os
import time as clock
from urllib.parse import parse_qsl, urlencode

from patchad.errors import InputError
from patchad.live.address import Address
from patchad.live.sinks.base import EVERYTHING, RemoteSink, whole_number
from patchad.live.sinks.http import Http, without_secrets
from patchad.live.store import StoredLine

OPTIONS = ("verdicts", "tries", "secret_env")
"""Options of the sink; others belong to the address of the server."""
SECRET = "PATCHAD_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
TRIES = 100
"""Over an hour and a half."""


class WebhookSink(RemoteSink):
    """A POST for each event line, with `?verdicts=1` for each verdict too.

    `Idempotency-Key` is the same whenever a line is sent again, and no other line's. With a secret, which the
    environment variable `PATCHAD_WEBHOOK_SECRET` or the one named by `?secret_env=` holds, `X-PatchAD-Signature` is
    `sha256=` and the HMAC-SHA256 of `X-PatchAD-Timestamp`, a full stop and the body.
    """

    def __init__(self, address: Address) -> None:
        own = {name: address.options[name] for name in OPTIONS if name in address.options}
        theirs = [(name, text) for name, text in _query(address) if name not in OPTIONS]
        if address.place.removeprefix("//").partition("/")[0].rpartition("@")[2].partition(":")[0] == "":
            raise InputError(f"{address.text!r} names no server; write {address.scheme}://HOST/PATH")
        self._url = f"{address.scheme}:{address.place}" + (f"?{urlencode(theirs)}" if theirs else "")
        if own.get("verdicts", "0") not in ("0", "1"):
            raise InputError(f"{without_secrets(address.text)} has verdicts={own['verdicts']}; use verdicts=0 or 1")
        super().__init__(without_secrets(self._url), whole_number(address, own, "tries", TRIES))
        self.kinds = EVERYTHING if own.get("verdicts") == "1" else ("event",)
        name = own.get("secret_env", SECRET)
        self._secret = os.environ.get(name, "").encode()
        if "secret_env" in own and not self._secret:
            raise InputError(f"{self.name}: the environment variable {name} of secret_env is not set; set it")
        self._http = Http()

    def check(self) -> str:
        """Ask the server what it knows; any answer will do."""
        answer = self._http.ask("OPTIONS", self._url)
        return f"answers ({answer.status_code}); lines are {'signed' if self._secret else 'not signed'}"

    def send(self, line: StoredLine, store: str) -> None:
        """Post a line."""
        body = line.text.encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": f"{store}-{line.number}"}
        if self._secret:
            headers |= signed(self._secret, body, int(clock.time()))
        self._http.send(self._url, body, headers)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()


def _query(address: Address) -> list[tuple[str, str]]:
    return parse_qsl(address.text.partition("?")[2], keep_blank_values=True)


def signed(secret: bytes, body: bytes, now: int) -> dict[str, str]:
    """Return the headers by which a receiver knows that a body comes from whoever has the secret, and when.

    Examples
    --------
    >>> signed(b"secret", b"{}", 1767225600)["X-PatchAD-Timestamp"]
    '1767225600'
    """
    code = hmac.new(secret, f"{now}.".encode() + body, hashlib.sha256).hexdigest()
    return {"X-PatchAD-Timestamp": str(now), "X-PatchAD-Signature": f"sha256={code}"}
