"""`/docs`: the page of the HTTP interface, with files of its own instead of a CDN's.

Swagger UI's files come with the package `fastapi-offline` (MIT; Swagger UI itself is Apache-2.0),
of which only the files are used. The page names them relative to itself, so it also works behind a
path prefix. ReDoc's page is left out.
"""

from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from fastapi import FastAPI, HTTPException
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, Response

PATH: Final = "/docs"
ASSETS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "swagger-ui-bundle.js": "text/javascript",
        "swagger-ui.css": "text/css",
        "favicon.png": "image/png",
    }
)
"""Files that the page loads, with their media types."""
_CACHE: Final = {"cache-control": "public, max-age=86400"}


def install(app: FastAPI) -> None:
    """Serve the page; `app` is made with `docs_url=None` and `redoc_url=None`."""

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
    async def asset(name: str) -> Response:
        if name not in ASSETS:
            raise HTTPException(404)
        content = (files("fastapi_offline") / "static" / name).read_bytes()
        return Response(content, media_type=ASSETS[name], headers=_CACHE)
