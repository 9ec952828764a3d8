"""`/docs` of a running API works on a machine without the internet."""

import re
from typing import Any

import httpx

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
