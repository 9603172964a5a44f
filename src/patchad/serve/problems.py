"""Problems: every error of the service as RFC 9457 problem details."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from patchad.errors import InputError, PatchADError
from patchad.live.records import StoreFullError

MEDIA_TYPE = "application/problem+json"
LONGEST = 2_000
"""Characters of a detail; a value that it quotes may be of any length."""
RETRY_SECONDS = 1
"""When a caller that was told to come back should."""


class Problem(Exception):  # noqa: N818 - the word of the RFC
    """What went wrong, as a caller is told.

    Parameters
    ----------
    status
        The HTTP status.
    detail
        What came, what was needed, and what to do.
    headers
        Headers of the answer.
    more
        Further members of the problem.
    """

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.more = status, detail, dict(headers or {}), more

    def answer(self) -> Response:
        """Return the problem as a response."""
        text = " ".join(self.detail.split())
        if len(text) > LONGEST:
            text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
        content = {"type": "about:blank", "title": HTTPStatus(self.status).phrase, "status": self.status}
        body = json.dumps(content | {"detail": text} | self.more).encode()
        return Response(body, self.status, {**self.headers, "Cache-Control": "no-store"}, MEDIA_TYPE)


def busy(detail: str) -> Problem:
    """Return the problem of a service that has too much to do."""
    return Problem(429, detail, headers={"Retry-After": str(RETRY_SECONDS)})


def problem_of(error: Exception) -> Problem:
    """Return what a caller is told of an error.

    Examples
    --------
    >>> problem_of(InputError("no row")).status, problem_of(KeyError("x")).status
    (422, 500)
    """
    if isinstance(error, Problem):
        return error
    if isinstance(error, StoreFullError):
        return Problem(507, f"{error}; nothing of this request was stored", headers={"Retry-After": "60"})
    if isinstance(error, PatchADError):
        return Problem(422, str(error))
    if isinstance(error, RequestValidationError):
        found = error.errors()[0]
        where = ".".join(map(str, found["loc"]))
        return Problem(422, f"{where}: {found['msg']}; see /openapi.json for what is needed")
    if isinstance(error, HTTPException):
        return Problem(error.status_code, str(error.detail), headers=error.headers)
    return Problem(500, "the service met an error of its own; its log has more")


def install(app: FastAPI) -> None:
    """Answer every error of an app with a problem."""

    async def told(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if isinstance(error, HTTPException) and error.status_code in (404, 405):
            what = f"{request.method} {request.url.path[:80]!r}"
            problem.detail = f"there is no {what} here; /openapi.json lists what there is"
        return problem.answer()

    for kind in (Problem, PatchADError, InputError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, told)
