"""The live page: one HTML file, one script, one style, and plotly's script from its installed package."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from fastapi import FastAPI, Request, Response

from patchad.serve.problems import Problem
from patchad.serve.security import STATIC

TYPES = {
    "live.js": "text/javascript; charset=utf-8",
    "live.css": "text/css; charset=utf-8",
    "plotly.min.js": "text/javascript; charset=utf-8",
}


@cache
def asset(name: str) -> bytes:
    """Return a file of the page."""
    if name == "plotly.min.js":
        from plotly.offline import get_plotlyjs

        return str(get_plotlyjs()).encode()
    return files("patchad.serve").joinpath("templates", name).read_bytes()


def shell(status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return the page without any data: its script asks for them, with the token that its user gives."""
    told = {"Cache-Control": "no-cache", **(headers or {})}
    return Response(asset("live.html"), status, told, "text/html; charset=utf-8")


def add_page(app: FastAPI) -> None:
    """Add the page and its files."""

    @app.head("/", include_in_schema=False)
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return shell()

    @app.get(f"{STATIC}{{name}}", include_in_schema=False)
    async def static(name: str, request: Request) -> Response:
        if name not in TYPES:
            raise Problem(404, f"there is no file {name!r}")
        content = asset(name)
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=TYPES[name])
