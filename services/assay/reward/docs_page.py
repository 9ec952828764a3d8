"""`/docs`: the page of the HTTP interface, with files of its own instead of a CDN's.

Swagger UI's files come with the package `fastapi-offline` (MIT; Swagger UI itself is Apache-2.0),
of which only the files are used. The page names them relative to itself, so it also works behind a
path prefix. ReDoc's page is left out.

Files and the document are kept once read or made, and sent in pieces: of one that its caller does
not read a piece waits, not a copy.
"""

import json
from collections.abc import AsyncIterator, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from fastapi import FastAPI, HTTPException
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, StreamingResponse

from assay.reward.late import Late

PATH: Final = "/docs"
ASSETS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "swagger-ui-bundle.js": "text/javascript",
        "swagger-ui.css": "text/css",
        "favicon.png": "image/png",
    }
)
"""Files that the page loads, with their media types."""
PIECE_BYTES: Final = 64 * 1024
_CACHE: Final = {"cache-control": "public, max-age=86400"}


def install(app: FastAPI) -> None:
    """Serve the page and its document; `app` is made without URLs of its own for them."""
    document = Late(lambda: json.dumps(app.openapi(), separators=(",", ":")).encode())

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> StreamingResponse:
        return _in_pieces(await document.get(), "application/json", {})

    @app.get(PATH, include_in_schema=False)
    async def page() -> HTMLResponse:
        folder = PATH.strip("/")
        return get_swagger_ui_html(
            openapi_url="openapi.json",
            title=app.title,
            swagger_js_url=f"{folder}/swagger-ui-bundle.js",
            swagger_css_url=f"{folder}/swagger-ui.css",
            swagger_favicon_url=f"{folder}/favicon.png",
        )

    @app.get(f"{PATH}/{{name}}", include_in_schema=False)
    async def asset(name: str) -> StreamingResponse:
        if name not in ASSETS:
            raise HTTPException(404)
        return _in_pieces(_asset(name), ASSETS[name], _CACHE)


@cache
def _asset(name: str) -> bytes:
    return (files("fastapi_offline") / "static" / name).read_bytes()


def _in_pieces(content: bytes, media_type: str, headers: Mapping[str, str]) -> StreamingResponse:
    async def pieces() -> AsyncIterator[memoryview]:
        for at in range(0, len(content), PIECE_BYTES):
            yield memoryview(content)[at : at + PIECE_BYTES]

    sized = {**headers, "content-length": str(len(content))}
    return StreamingResponse(pieces(), media_type=media_type, headers=sized)
