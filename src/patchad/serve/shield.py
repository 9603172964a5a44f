"""Shield: what every request passes, in and out: who may ask, headers of the answer, and counting."""

from __future__ import annotations

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from patchad.serve.measures import Measures
from patchad.serve.page import shell
from patchad.serve.problems import Problem, problem_of
from patchad.serve.security import Guard

logger = logging.getLogger(__name__)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Shield:
    """An ASGI middleware around the whole app."""

    def __init__(self, app: ASGIApp, guard: Guard, measures: Measures) -> None:
        self._app, self._guard, self._measures = app, guard, measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, let it pass, and count its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message.get("headers", ()), *HEADERS]
                self._count(scope, message["status"])
            await send(message)

        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            self._guard.check(scope["method"], scope["path"], headers)
            await self._app(scope, receive, sending)
        except Problem as problem:
            page = problem.status == 401 and scope["path"] == "/" and scope["method"] == "GET"
            told = shell(401, problem.headers) if page else problem.answer()
            await told(scope, receive, sending)
        except Exception as error:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if begun:
                raise
            await problem_of(error).answer()(scope, receive, sending)

    def _count(self, scope: Scope, status: int) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self._measures.requests.labels(scope["method"] if route != "other" else "other", route, str(status)).inc()
