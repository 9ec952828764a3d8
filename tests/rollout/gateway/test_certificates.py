"""TLS of the gateway's port in both directions, with `rollout.tls_client_ca`.

A trainer's call shows a certificate of the authority; an agent has a session's key and no more.
"""

from __future__ import annotations

import hashlib
import ssl
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.certificates import Authority

from assay.config.access import TenantSettings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rollout.gateway.gateways import RunGateway


def _tenant(token: str, *names: str) -> TenantSettings:
    digest = hashlib.sha256(token.encode()).hexdigest()
    return TenantSettings.model_validate({"token_sha256": digest, "certificate_names": names})


def _context(authority: Authority, shown: tuple[Path, Path] | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if shown is not None:
        context.load_cert_chain(*shown)
    return context


async def _status(url: str, context: ssl.SSLContext, token: str, method: str = "GET") -> str:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(verify=context, headers=headers, timeout=60) as http:
        try:
            body: dict[str, str] | None = {} if method == "POST" else None
            return str((await http.request(method, url, json=body)).status_code)
        except httpx.TransportError:
            return "no answer"


async def test_a_trainer_shows_a_certificate_and_an_agent_its_key(
    run_gateway: RunGateway, tmp_path: Path
) -> None:
    (tmp_path / "theirs").mkdir()
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path / "theirs", "theirs")
    certificate, key = ours.signed("service", "DNS:localhost", "IP:127.0.0.1")
    red, blue = ours.signed("red", "DNS:red.lab"), ours.signed("blue", "DNS:blue.lab")
    proxy, ended = ours.signed("proxy", "DNS:p"), ours.signed("ended", "DNS:red.lab", days=-1)
    forged = theirs.signed("red", "DNS:red.lab")
    own = await run_gateway(
        tls_certificate=certificate,
        tls_key=key,
        tls_client_ca=ours.certificate,
        tenants={"red": _tenant("red-token", "red.lab"), "blue": _tenant("blue-token", "blue.lab")},
        trusted=_context(ours, red),
    )
    session = await own.open()
    state = f"{own.url}/sessions/{session['session_id']}"
    for shown, token, expected in (
        (red, "", "200"),
        (red, "red-token", "200"),
        (proxy, "red-token", "200"),
        (red, "blue-token", "401"),
        (blue, "red-token", "401"),
        (blue, "", "404"),
        (blue, "blue-token", "404"),
        (proxy, "", "401"),
        (None, "red-token", "401"),
        (None, "", "401"),
        (ended, "red-token", "no answer"),
        (forged, "red-token", "no answer"),
        (red, session["api_key"], "401"),
    ):
        assert await _status(state, _context(ours, shown), token) == expected, (shown, token)
    assert await _status(state, _context(theirs, red), "red-token") == "no answer"
    models = f"{session['base_url']}/models"
    for shown, token, expected in (
        (None, session["api_key"], "200"),
        (proxy, session["api_key"], "200"),
        (red, session["api_key"], "200"),
        (blue, session["api_key"], "401"),
        (forged, session["api_key"], "no answer"),
        (None, "sk-" + "0" * 40, "401"),
        (None, "", "401"),
    ):
        assert await _status(models, _context(ours, shown), token) == expected, (shown, token)
    assert await _status(f"{own.url}/sessions", _context(ours, None), "red-token", "POST") == "401"


async def test_without_an_authority_no_certificate_is_asked_for(
    run_gateway: RunGateway, tmp_path: Path
) -> None:
    ours = Authority(tmp_path, "ours")
    certificate, key = ours.signed("service", "DNS:localhost", "IP:127.0.0.1")
    own = await run_gateway(
        tls_certificate=certificate,
        tls_key=key,
        tenants={"red": _tenant("red-token")},
        trusted=_context(ours, None),
    )
    url = f"{own.url}/sessions"
    assert await _status(url, _context(ours, None), "red-token", "POST") == "201"


def test_an_authority_needs_a_certificate_of_ours() -> None:
    from assay.config.rollouts import RolloutSettings

    with pytest.raises(ValueError, match="tls_client_ca: needs"):
        RolloutSettings.model_validate({"tls_client_ca": "ca.pem"})
