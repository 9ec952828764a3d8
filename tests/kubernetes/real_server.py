"""A kube-apiserver and its etcd for the tests, where `KUBEBUILDER_ASSETS` has their binaries.

The convention is that of controller-runtime's envtest: a folder with `etcd` and `kube-apiserver`.
Nothing else runs: no controller and no node, so a test makes the pods itself.
"""

import asyncio
import contextlib
import json
import os
import secrets
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import yaml
from tests import certificates
from tests.kubernetes.cluster import Cluster

ASSETS = "KUBEBUILDER_ASSETS"
DEFINITIONS = "ASSAY_CRDS"
"""A folder with CustomResourceDefinitions of others, as YAML."""
START_S_MAX = 240.0
ADMIN, PLANNER = "admin-token", "planner-token"
"""Tokens of an administrator, and of a user `assay-planner` without any right of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealServer:
    """Where it is, and how to call it."""

    url: str
    authority: ssl.SSLContext
    authority_file: Path
    version: str
    parts: "Parts"

    def write_kubeconfig(self, file: Path) -> None:
        """An administrator's, for who calls the server itself."""
        there = {"server": self.url, "certificate-authority": str(self.authority_file)}
        access = {
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": there}],
            "users": [{"name": "u", "user": {"token": ADMIN}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        }  # fmt: skip
        file.write_text(json.dumps(access))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Its two processes, which a test may kill and start again."""

    binaries: Path
    folder: Path
    commands: dict[str, Sequence[str]]
    """The arguments of each."""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start it; its log is continued."""
        with (self.folder / f"{name}.log").open("ab") as log:
            given = [str(self.binaries / name), *self.commands[name]]
            self.processes[name] = subprocess.Popen(given, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        """As a machine does that loses its power."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """End all that run, the last one first."""
        while self.processes:
            _, process = self.processes.popitem()
            stop(process)


def assets() -> Path | None:
    """The folder of binaries; `None`: run on the tests' own API server."""
    given = os.environ.get(ASSETS, "")
    return Path(given) if given else None


@contextlib.contextmanager
def running(binaries: Path, folder: Path) -> Iterator[RealServer]:
    """Start both in a folder of their own; stop both at the end."""
    certificate, key = certificates.certificate(folder)
    tokens = folder / "tokens.csv"
    tokens.write_text(f'{ADMIN},admin,1,"system:masters"\n{PLANNER},assay-planner,2\n')
    store, peer, port = (free_port() for _ in range(3))
    commands: dict[str, Sequence[str]] = {
        "etcd": [
            f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync",
            f"--listen-client-urls=http://127.0.0.1:{store}",
            f"--advertise-client-urls=http://127.0.0.1:{store}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
        ],
        "kube-apiserver": [
            f"--etcd-servers=http://127.0.0.1:{store}",
            "--bind-address=127.0.0.1", f"--secure-port={port}",
            "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
            f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={certificate}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={tokens}", "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount", f"--cert-dir={folder / 'own'}",
        ],
    }  # fmt: skip
    parts = Parts(binaries=binaries, folder=folder, commands=commands)
    try:
        for name in commands:
            parts.start(name)
        authority = ssl.create_default_context(cafile=str(certificate))
        url = f"https://127.0.0.1:{port}"
        version = asyncio.run(until_ready(url, authority, parts))
        yield RealServer(
            url=url, authority=authority, authority_file=certificate, version=version, parts=parts
        )
    finally:
        parts.stop()


async def until_ready(url: str, authority: ssl.SSLContext, parts: Parts, token: str = ADMIN) -> str:
    """Wait; returns its version."""
    headers = {"Authorization": f"Bearer {token}"}
    end_s = time.monotonic() + START_S_MAX
    async with aiohttp.ClientSession(headers=headers) as session:
        while time.monotonic() < end_s:
            for process in parts.processes.values():
                assert process.poll() is None, log_of(parts.folder)
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{url}/readyz", ssl=authority) as answer:
                    good = answer.status == 200
                async with session.get(f"{url}/version", ssl=authority) as answer:
                    if good:
                        return str((await answer.json())["gitVersion"])
            await asyncio.sleep(0.5)
    raise AssertionError(log_of(parts.folder))


def log_of(folder: Path) -> str:
    """The last lines of both."""
    return "\n".join(path.read_text()[-2_000:] for path in folder.glob("*.log"))


def stop(process: subprocess.Popen[bytes]) -> None:
    """End it, or kill it."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """One that no one listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        assert isinstance(port, int)
        return port


def definitions() -> list[Path]:
    """Files with the kinds of others, where they are given."""
    folder = os.environ.get(DEFINITIONS, "")
    return sorted(Path(folder).glob("*.yaml")) if folder else []


async def define(cluster: Cluster) -> set[str]:
    """Make the kinds of others; returns their names. They are served a moment later."""
    made = set()
    for file in definitions():
        body = yaml.load(file.read_text("utf-8"), yaml.CSafeLoader)
        if body["spec"].pop("conversion", None):  # its webhook is not here
            body["spec"]["versions"] = [one for one in body["spec"]["versions"] if one["storage"]]
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        url = f"{path}/{body['metadata']['name']}?fieldManager=test&force=true"
        await cluster.call("PATCH", url, body, "application/apply-patch+yaml")
        made.add(body["spec"]["names"]["kind"])
    return made


def new_namespace() -> str:
    """A name that no test had."""
    return f"t-{secrets.token_hex(6)}"
