"""TLS of the rollout service's port in both directions, by our client."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")

from tests.certificates import Authority

from assay.client import Backoff, Identity
from assay.client.rollouts import RolloutClient
from assay.config.access import TenantSettings
from assay.core.errors import DependencyDown, Unauthenticated
from assay.edge.auth import Tenants
from assay.rollout.service.build import token_for_rewards

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rollout.service.served import RunRollouts


def _tenant(token: str, name: str) -> TenantSettings:
    digest = hashlib.sha256(token.encode()).hexdigest()
    return TenantSettings.model_validate({"token_sha256": digest, "certificate_names": [name]})


async def _version(
    url: str, authority: Path, shown: tuple[Path, Path] | None, token: str | None
) -> str:
    identity = None
    if shown is not None:
        chain, key = (one.read_bytes() for one in shown)
        identity = Identity(certificate_chain=chain, private_key=key)
    async with RolloutClient(
        url,
        token=token,
        root_certificates=authority.read_bytes(),
        identity=identity,
        backoff=Backoff(total_s=0.0),
    ) as client:
        try:
            await client.policy_version()
        except DependencyDown:
            return "no answer"
        except Unauthenticated:
            return "stranger"
    return "OK"


async def test_each_side_believes_its_own_authority_alone(
    run_rollouts: RunRollouts, tmp_path: Path
) -> None:
    (tmp_path / "theirs").mkdir()
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path / "theirs", "theirs")
    certificate, key = ours.signed("service", "DNS:localhost", "IP:127.0.0.1")
    red, proxy = ours.signed("red", "DNS:red.lab"), ours.signed("proxy", "DNS:p")
    ended, forged = (
        ours.signed("ended", "DNS:red.lab", days=-1),
        theirs.signed("red", "DNS:red.lab"),
    )
    own = await run_rollouts(
        tls_certificate=certificate,
        tls_key=key,
        tls_client_ca=ours.certificate,
        tenants={"red": _tenant("r", "red.lab"), "blue": _tenant("b", "blue.lab")},
    )
    url = f"grpcs://{own.address}"
    for authority, shown, token, expected in (
        (ours, red, "", "OK"),
        (ours, red, "r", "OK"),
        (ours, proxy, "b", "OK"),
        (ours, red, "b", "stranger"),
        (ours, proxy, "", "stranger"),
        (ours, None, "r", "no answer"),
        (ours, ended, "r", "no answer"),
        (ours, forged, "r", "no answer"),
        (theirs, red, "r", "no answer"),
    ):
        found = await _version(url, authority.certificate, shown, token)
        assert found == expected, (shown, token)


def test_who_is_known_by_a_certificate_gets_no_token_of_the_service() -> None:
    asks, open_to_all = Tenants({"red": _tenant("r", "red.lab")}), Tenants({})
    assert token_for_rewards(None, asks) == ""
    assert token_for_rewards("r", asks) == "r"
    assert token_for_rewards(None, open_to_all) is None
