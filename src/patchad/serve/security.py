"""Security: tokens, and who may ask for what. A request from another site's page is refused."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from patchad.errors import InputError
from patchad.serve.problems import Problem

Right = Literal["read", "write"]

FREE = ("/healthz", "/readyz")
"""Signs of life."""
METRICS = "/metrics"
STATIC = "/static/"
"""Where the page's own files are."""
READING = ("/v1/detect",)
"""Paths that change nothing, though they are posted to."""
SHORTEST = 16
"""Characters of a token."""
_LINE = re.compile(r"(?:(read|write):)?(sha256:)?(\S+)")


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is kept: by its hash."""

    right: Right
    digest: bytes


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides whether a request is let in.

    Without tokens everything is, but only under names of this machine: a page of another site could else have its own
    name resolve to it.
    """

    tokens: tuple[Token, ...] = ()
    free: tuple[str, ...] = FREE
    """Paths that answer without a token, beside those under `STATIC`."""

    def check(self, method: str, path: str, headers: dict[str, str]) -> None:
        """Let a request pass or raise `Problem`; the names of the headers are in lower case."""
        host = headers.get("host", "")
        origin = headers.get("origin")
        if method not in ("GET", "HEAD") and origin is not None and urlsplit(origin).netloc != host:
            raise Problem(403, f"the request comes from a page of {origin!r}, which is another site; it is refused")
        if not self.tokens:
            if not _is_local(host):
                raise Problem(421, f"the name {host!r} is not one of this machine; set a token to be reached by it")
            return
        if path in self.free or path.startswith(STATIC):
            return
        right = self._right(headers.get("authorization", ""))
        if right is None:
            raise Problem(
                401,
                "a token is needed that is known here; send it as 'Authorization: Bearer TOKEN'",
                headers={"WWW-Authenticate": 'Bearer realm="patchad"'},
            )
        if right == "read" and method not in ("GET", "HEAD") and path not in READING:
            raise Problem(403, "this token may only read; use one that may write")

    def _right(self, header: str) -> Right | None:
        """Return what the bearer of a token may do; all tokens are compared, each in constant time."""
        scheme, _, token = header.partition(" ")
        digest = hashlib.sha256(token.strip().encode()).digest()
        found: Right | None = None
        for known in self.tokens:
            same = hmac.compare_digest(digest, known.digest)
            found = known.right if same else found
        return found if scheme.lower() == "bearer" else None


def read_tokens(path: Path) -> tuple[Token, ...]:
    r"""Read a file of tokens: one a line, `read:` or `write:` (the default) before it, or `sha256:` and its hash.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "tokens"
    ...     _ = path.write_text("# for the wall\nread:0123456789abcdef\n")
    ...     [token.right for token in read_tokens(path)]
    ['read']
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"--token-file {str(path)!r} cannot be read ({reason}); give a file of tokens") from None
    found: list[Token] = []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            found.append(_token(line.strip(), f"{path}, line {number}"))
    if not found:
        raise InputError(f"--token-file {str(path)!r} has no token; write one a line, {SHORTEST} characters or more")
    return tuple(found)


def _token(line: str, where: str) -> Token:
    match = _LINE.fullmatch(line)
    if match is None:
        raise InputError(f"{where}: a token has a space in it; write one a line, without spaces")
    right: Right = "read" if match[1] == "read" else "write"
    if match[2]:
        if not re.fullmatch("[0-9a-fA-F]{64}", match[3]):
            raise InputError(f"{where}: what follows sha256: is no hash of 64 hexadecimal digits")
        return Token(right, bytes.fromhex(match[3]))
    if len(match[3]) < SHORTEST:
        raise InputError(
            f"{where}: the token has {len(match[3])} characters, at least {SHORTEST} are needed; "
            'python -c "import secrets; print(secrets.token_urlsafe())" makes one'
        )
    return Token(right, hashlib.sha256(match[3].encode()).digest())


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address to listen on.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("localhost")
    (True, True, False, True)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_local(host: str) -> bool:
    name = (urlsplit(f"//{host}").hostname or "") if host.count("[") == host.count("]") else ""
    return is_loopback(name)
