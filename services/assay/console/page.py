"""`/console`: the page and its files, which need no token and hold no data.

The page loads nothing from elsewhere and runs no script of a document: what a response or its
evidence contains can only be text on it.
"""

from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from fastapi import FastAPI, HTTPException
from fastapi.responses import Response

PATH: Final = "/console"
API: Final = f"{PATH}/api/"
"""Prefix of the paths that ask for a token."""
ASSETS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "console.css": "text/css",
        "console.js": "text/javascript",
        "charts.js": "text/javascript",
        "dom.js": "text/javascript",
        "icon.svg": "image/svg+xml",
    }
)
"""Files that the page loads, with their media types."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cache-control": "no-cache",
        "content-security-policy": POLICY,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
    }
)


def install(app: FastAPI) -> None:
    """Serve the page and its files."""

    @app.get(PATH, include_in_schema=False)
    async def page() -> Response:
        return _file("index.html", "text/html; charset=utf-8")

    @app.get(f"{PATH}/{{name}}", include_in_schema=False)
    async def asset(name: str) -> Response:
        if name not in ASSETS:
            raise HTTPException(404)
        return _file(name, ASSETS[name])


def _file(name: str, media_type: str) -> Response:
    content = (files("assay.console") / "static" / name).read_bytes()
    return Response(content, media_type=media_type, headers=dict(HEADERS))
