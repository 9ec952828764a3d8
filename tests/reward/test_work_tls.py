"""TLS of the port of workers without the store: certificates both ways, and tokens beside.

A certificate does not make a worker: its stages are in its token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.certificates import Authority
from tests.store.driver import FIRST, SECOND, Driver, requests
from tests.store.remote import Tls, WorkPort, token_for

from assay.config.settings import RewardSettings
from assay.core.errors import DependencyDown, PermissionDenied, Unauthenticated
from assay.core.ids import WorkerId

if TYPE_CHECKING:
    from pathlib import Path

    from assay.store.port import Store


def _shown(files: tuple[Path, Path]) -> tuple[bytes, bytes]:
    certificate, key = (one.read_bytes() for one in files)
    return key, certificate


async def _claimed(port: WorkPort, tls: Tls | None, token: str, *, stage: str = FIRST) -> str:
    worker = port.worker(token=token, tls=tls)
    try:
        found = await worker.claim(stage, claims_max=1, lease_s=60, worker=WorkerId("w"))  # type: ignore[arg-type]
    except DependencyDown:
        return "no answer"
    except Unauthenticated:
        return "stranger"
    except PermissionDenied:
        return "forbidden"
    finally:
        await worker.close()
    return f"claimed {len(found)}"


@pytest.mark.parametrize("asks", [True, False])
async def test_a_worker_shows_a_certificate_of_the_operators_authority_and_a_token(
    store: Store, tmp_path: Path, asks: bool
) -> None:
    (tmp_path / "theirs").mkdir()
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path / "theirs", "theirs")
    certificate, key = ours.signed("service", "DNS:localhost", "IP:127.0.0.1")
    good = _shown(ours.signed("worker", "DNS:w"))
    ended = _shown(ours.signed("ended", "DNS:w", days=-1))
    forged = _shown(theirs.signed("worker", "DNS:w"))
    settings = RewardSettings(
        worker_port=0,
        tls_certificate=certificate,
        tls_key=key,
        worker_tls_client_ca=ours.certificate if asks else None,
    )
    port = WorkPort(store, tmp_path, settings=settings)
    await port.start()
    drive = Driver(store)
    await drive.open()
    await drive.submit(requests("a"))
    ca, other = ours.certificate.read_bytes(), theirs.certificate.read_bytes()
    token = token_for(FIRST)
    unless_asked = "no answer" if asks else "claimed 0"
    try:
        assert await _claimed(port, (ca, good), token) == "claimed 1"
        for tls, shown, stage, expected in (
            ((ca, good), token_for(FIRST, expires_ns=1), FIRST, "stranger"),
            ((ca, good), "x" * 40, FIRST, "stranger"),
            ((ca, good), token, SECOND, "forbidden"),
            ((ca, None), token, FIRST, unless_asked),
            ((ca, forged), token, FIRST, unless_asked),
            ((ca, ended), token, FIRST, unless_asked),
            ((other, good), token, FIRST, "no answer"),
            (None, token, FIRST, "no answer"),
        ):
            assert await _claimed(port, tls, shown, stage=stage) == expected, (tls, expected)
    finally:
        await port.listener.stop()


def test_workers_certificates_need_tls() -> None:
    with pytest.raises(ValueError, match="worker_tls_client_ca: needs tls_certificate"):
        RewardSettings.model_validate({"worker_tls_client_ca": "ca.pem"})
