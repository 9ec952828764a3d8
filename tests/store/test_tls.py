"""The store over TLS: its certificate must be signed by the authority that the URL names."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.store.driver import Driver, requests

from assay.config.settings import StoreSettings
from assay.core.errors import DependencyDown
from assay.store.valkey import ValkeyStore


@contextlib.asynccontextmanager
async def tls_before(
    socket: str, certificate: Path, key: Path, callers: Path | None
) -> AsyncIterator[int]:
    """A port that speaks TLS, in front of the server's socket; what asks for certificates of
    `callers` lets no one else in."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    if callers is not None:
        context.load_verify_locations(callers)
        context.verify_mode = ssl.CERT_REQUIRED

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(socket)
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]
        server.close()


async def scores(url: str, settings: StoreSettings) -> bool:
    """Whether requests pass through a store of that address."""
    store = ValkeyStore(settings, url=url)
    try:
        drive = Driver(store)
        await drive.open(size=2)
        await drive.submit(requests("a", "b"))
        await drive.score(await drive.claim())
        return (await drive.batch()).ended == 2
    except DependencyDown:
        return False
    finally:
        await store.close()


@pytest.mark.parametrize("asks", [False, True])
async def test_the_store_is_believed_by_its_authority_alone_and_sees_who_calls(
    store_settings: StoreSettings, tmp_path: Path, *, asks: bool
) -> None:
    (tmp_path / "theirs").mkdir()
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path / "theirs", "theirs")
    certificate, key = ours.signed("store", "DNS:localhost", "IP:127.0.0.1")
    own_certificate, own_key = ours.signed("worker", "DNS:worker")
    shown = f"&ssl_certfile={own_certificate}&ssl_keyfile={own_key}"
    socket = store_settings.url.removeprefix("unix://")
    settings = store_settings.model_copy(update={"timeout_s": 2.0})
    callers = ours.certificate if asks else None
    async with tls_before(socket, certificate, key, callers) as port:
        for authority, identity, believed in (
            (ours, shown, True),
            (ours, "", not asks),
            (theirs, shown, False),
        ):
            url = f"rediss://127.0.0.1:{port}?ssl_ca_certs={authority.certificate}{identity}"
            assert await scores(url, settings) == believed, (authority, identity)
        assert not await scores(f"redis://127.0.0.1:{port}", settings)  # no TLS, no answer
