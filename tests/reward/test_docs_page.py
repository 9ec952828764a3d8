"""`/docs` of a running API works on a machine without the internet."""

import asyncio
import re
from typing import Any

import httpx
from fastapi import FastAPI

from assay.reward import docs_page
from assay.reward.docs_page import ASSETS


async def test_the_docs_page_and_all_that_it_loads_come_from_the_service(api: Any) -> None:
    async with httpx.AsyncClient(base_url=api.addresses.http) as client:
        page = await client.get("/docs")
        assert page.status_code == 200
        linked = re.findall(r"""(?:src|href)=["']([^"']+)["']""", page.text)
        assert sorted(link.removeprefix("docs/") for link in linked) == sorted(ASSETS)
        assert "http:" not in page.text
        assert "https:" not in page.text
        for link in linked:
            asset = await client.get(f"/{link}")
            assert asset.status_code == 200
            assert asset.headers["content-type"].startswith(ASSETS[link.removeprefix("docs/")])
            assert len(asset.content) > 1_000
        paths = (await client.get("/openapi.json")).json()["paths"]
        assert not any(path.startswith("/docs") for path in paths)


async def test_no_other_file_is_served(api: Any) -> None:
    async with httpx.AsyncClient(base_url=api.addresses.http) as client:
        for name in ("redoc.standalone.js", "..%2F__init__.py", "%2Fetc%2Fpasswd"):
            assert (await client.get(f"/docs/{name}")).status_code == 404


async def test_a_page_that_is_not_read_is_held_as_one_piece() -> None:
    app = FastAPI(openapi_url=None, docs_url=None)
    docs_page.install(app)
    sent: list[int] = []

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def send(message: Any) -> None:
        if "body" in message:
            sent.append(len(message["body"]))
            await asyncio.Event().wait()

    path = f"{docs_page.PATH}/swagger-ui-bundle.js"
    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    asking = asyncio.create_task(app(scope, receive, send))
    async with asyncio.timeout(10):
        while not sent:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert sent == [docs_page.PIECE_BYTES]
