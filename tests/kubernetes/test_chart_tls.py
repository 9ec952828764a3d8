"""TLS of the operator's ports in the chart: what a pod is given makes ports and callers agree.

The files that the chart mounts are written here as a secret would have them; the ports are the
services' own, with the settings of the rendered pods, asked as a kubelet and a Prometheus would.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from tests.certificates import Authority
from tests.kubernetes.chart import component, environment, of_kind, pods, rendered

from assay.config.settings import load_settings
from assay.edge.auth import Operator
from assay.edge.probes import Probes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from assay.config.settings import Settings

NAME = "assay.internal"
FOLDER = "/etc/assay/operator-tls"
MONITORED = 'monitoring={"enabled": true}'
GIVEN = f'operator={{"tlsSecret": "lab-tls", "tlsServerName": "{NAME}"}},{MONITORED}'
PORTS = ("planner", "worker")
"""Components with an operator's port."""
TOKEN = "the operator's"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """The content of the secret, as files."""
    authority = Authority(tmp_path, "ours")
    folder = tmp_path / "secret"
    folder.mkdir()
    certificate, key = authority.signed("service", f"DNS:{NAME}")
    for name, file in (
        ("ca.crt", authority.certificate), ("tls.crt", certificate), ("tls.key", key)
    ):  # fmt: skip
        (folder / name).write_bytes(file.read_bytes())
    return folder


def templates(more: str = GIVEN) -> Mapping[str, Any]:
    """A pod template of each component."""
    return {component(one): one for _, one in pods(rendered(more=more))}


def settings_of(template: Any, folder: Path) -> Settings:
    """As the pod's service reads them, with the secret where it is mounted."""
    given = {k: v.replace(FOLDER, str(folder)) for k, v in environment(template).items()}
    given.pop("ASSAY_OPERATOR__TOKENS", None)
    given.pop("ASSAY_OPERATOR__TOKEN_FILE", None)
    return load_settings({**given, "ASSAY_OPERATOR__TOKEN": TOKEN})


@pytest.mark.parametrize("name", ["api", *PORTS])
def test_every_pod_has_the_secret_where_its_settings_look(name: str, secret: Path) -> None:
    template = templates()[name]
    operator = settings_of(template, secret).operator
    assert operator.tls_server_name == NAME
    named = [getattr(operator, f"tls_{one}") for one in ("certificate", "key", "client_ca", "ca")]
    assert all(file.parent == secret and file.exists() for file in named)
    [container] = template["spec"]["containers"]
    [mount] = [one for one in container["volumeMounts"] if one["mountPath"] == FOLDER]
    [volume] = [one for one in template["spec"]["volumes"] if one["name"] == mount["name"]]
    assert volume["secret"]["secretName"] == "lab-tls"
    files = {item["path"] for item in volume["secret"]["items"]}
    assert files == {file.name for file in secret.iterdir()}


@pytest.fixture(params=PORTS)
async def port(
    request: pytest.FixtureRequest, secret: Path
) -> AsyncIterator[tuple[str, int, Settings]]:
    """Metrics and probes of a component, with the settings of its pod."""
    settings = settings_of(templates()[request.param], secret)
    probes = Probes(
        why_not_ready=lambda: "", registry=CollectorRegistry(), operator=Operator(settings.operator)
    )
    yield request.param, await probes.start("127.0.0.1", 0), settings
    await probes.stop()


async def test_a_kubelet_and_prometheus_get_in_with_what_the_chart_gives_them(
    port: tuple[str, int, Settings], secret: Path
) -> None:
    name, number, _ = port
    [container] = templates()[name]["spec"]["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        url = f"{asked['scheme'].lower()}://127.0.0.1:{number}{asked['path']}"
        async with httpx.AsyncClient(verify=False) as kubelet:
            assert (await kubelet.get(url)).status_code == 200
    monitors = of_kind(rendered(more=GIVEN), "PodMonitor")
    [endpoint] = [
        one["spec"]["podMetricsEndpoints"][0]
        for one in monitors
        if one["metadata"]["name"].endswith(name)
    ]
    tls = endpoint["tlsConfig"]
    file = {k: secret / tls[k]["secret"]["key"] for k in ("ca", "cert")}
    context = ssl.create_default_context(cafile=str(file["ca"]))
    context.load_cert_chain(file["cert"], secret / tls["keySecret"]["key"])
    async with httpx.AsyncClient(verify=context) as prometheus:
        answer = await prometheus.get(
            f"{endpoint['scheme']}://127.0.0.1:{number}{endpoint['path']}",
            headers={"authorization": f"Bearer {TOKEN}"},
            extensions={"sni_hostname": tls["serverName"]},
        )
    assert answer.status_code == 200


def test_without_the_secret_nothing_speaks_tls(tmp_path: Path) -> None:
    for name, template in templates(MONITORED).items():
        if name not in {"api", *PORTS}:
            continue
        assert "tls" not in str(template)
        assert settings_of(template, tmp_path).operator.tls_certificate is None
        [container] = template["spec"]["containers"]
        assert container["livenessProbe"]["httpGet"].get("scheme", "HTTP") == "HTTP"
    for monitor in of_kind(rendered(more=MONITORED), "PodMonitor"):
        assert "tlsConfig" not in monitor["spec"]["podMetricsEndpoints"][0]
