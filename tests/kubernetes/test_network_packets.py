"""The chart's NetworkPolicies as packet filters between namespaces: real connections, both ways.

Every pod of the chart, and some of others, is a network namespace behind one router, whose nftables
are made from the policies. Each tries to connect to each on every port; what goes through has to be
what `test_network` works out. A cluster's network plug-in does the same with other means.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.kubernetes.chart import NAMESPACE, Object, of_kind, rendered
from tests.kubernetes.test_network import CI, OUTSIDE, End, ends, flows, is_peer, selects

TRIES = """
import asyncio, json, sys
own, names, ports = json.loads(sys.argv[1])
async def served(reader, writer):
    writer.close()
async def tried(name, address, port):
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), 5)
    except OSError:
        return None
    writer.close()
    return name, port
async def main():
    for port in ports:
        await asyncio.start_server(served, own, port)
    print("listens", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    found = await asyncio.gather(*(tried(n, a, p) for n, a in names.items() for p in ports))
    print(json.dumps([one for one in found if one]), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
asyncio.run(main())
"""


def run(*command: str, given: str | None = None) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, input=given)


def may_make_namespaces() -> bool:
    tools = shutil.which("ip") and shutil.which("nft")
    if not tools or os.geteuid() != 0:
        return False
    name = f"assay-{secrets.token_hex(3)}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode == 0:
        run("ip", "netns", "del", name)
    return made.returncode == 0


def rules(objects: tuple[Object, ...], where: Mapping[str, str], of: Mapping[str, End]) -> str:
    """The policies for nftables: each pod's own chains, and one that asks both ends."""
    policies = of_kind(objects, "NetworkPolicy")
    chains: list[str] = []
    asked: dict[str, list[str]] = {"saddr": [], "daddr": []}
    for way, mine, theirs, peers in (
        ("Egress", "saddr", "daddr", "to"),
        ("Ingress", "daddr", "saddr", "from"),
    ):
        for name, end in of.items():
            about = [
                one["spec"]
                for one in policies
                if way in one["spec"]["policyTypes"]
                and end.namespace == NAMESPACE
                and selects(one["spec"]["podSelector"], end.labels)
            ]
            if not about:
                continue
            lines = []
            for rule in (rule for one in about for rule in one.get(way.lower(), [])):
                ports = ", ".join({str(one["port"]) for one in rule["ports"]})
                for peer in rule.get(peers, [{"ipBlock": {"cidr": "0.0.0.0/0"}}]):
                    block = peer.get("ipBlock")
                    if block is None:
                        some = [where[other] for other, one in of.items() if is_peer(peer, one)]
                        found = [f"ip {theirs} {{ {', '.join(some)} }}"] if some else []
                    else:
                        pods = [where[other] for other, one in of.items() if one.namespace]
                        only = f" ip {theirs} != {{ {', '.join(pods)} }}" if peers in rule else ""
                        but = "".join(f" ip {theirs} != {one}" for one in block.get("except", []))
                        found = [f"ip {theirs} {block['cidr']}{only}{but}"]
                    lines += [f"{one} tcp dport {{ {ports} }} return" for one in found]
            chain = f"{way.lower()}-{name}"
            body = "\n".join([*lines, "reject with tcp reset"])
            chains.append(f"chain {chain} {{\n{body}\n}}")
            asked[mine].append(f"{where[name]} : jump {chain}")
    both = "\n".join(
        f"ip {field} vmap {{ {', '.join(verdicts)} }}" for field, verdicts in asked.items()
    )
    return (
        "table ip policies {\n" + "\n".join(chains) + "\nchain forward {\n"
        "type filter hook forward priority 0; policy accept;\n"
        f"ct state established,related accept\n{both}\n}}\n}}\n"
    )


@contextmanager
def network(where: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """A router, and a namespace per address behind it."""
    mark = secrets.token_hex(3)
    router = f"assay-{mark}"
    with ExitStack() as stack:
        for name in (router, *(f"{router}-{n}" for n in range(len(where)))):
            run("ip", "netns", "add", name)
            stack.callback(run, "ip", "netns", "del", name)
        run("ip", "netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        own: dict[str, str] = {}
        for n, (name, address) in enumerate(where.items()):
            own[name] = f"{router}-{n}"
            link = ("ip", "-n", router)
            run(*link, "link", "add", f"p{n}", "type", "veth", "peer", "e0", "netns", own[name])
            run(*link, "addr", "add", f"10.99.{n}.1/32", "dev", f"p{n}")
            run(*link, "link", "set", f"p{n}", "up")
            run(*link, "route", "add", f"{address}/32", "dev", f"p{n}")
            inside = ("ip", "-n", own[name])
            run(*inside, "link", "set", "lo", "up")
            run(*inside, "addr", "add", f"{address}/32", "dev", "e0")
            run(*inside, "link", "set", "e0", "up")
            run(*inside, "route", "add", f"10.99.{n}.1/32", "dev", "e0")
            run(*inside, "route", "add", "default", "via", f"10.99.{n}.1")
        yield router, own


@pytest.mark.skipif(not may_make_namespaces(), reason="needs root, ip and nft: apt-get install")
@pytest.mark.parametrize(
    ("values", "more", "outside"),
    [
        ("", 'rollout={"enabled": true, "modelClaim": "m"}', OUTSIDE),
        (str(CI / "multi-tenant-values.yaml"), "",
         {**OUTSIDE, "store": "10.1.2.3", "kubernetes": "10.2.0.1"}),
    ],
    ids=["trial", "multi-tenant"],
)  # fmt: skip
def test_packets_go_where_the_policies_say_and_nowhere_else(
    values: str, more: str, outside: Mapping[str, str], tmp_path: Path
) -> None:
    objects = rendered(values, more)
    expected = flows(objects, outside)
    of = {end.name: end for end in ends(objects, outside)}
    where = {n: end.address or f"10.77.0.{k + 10}" for k, (n, end) in enumerate(of.items())}
    ports = sorted({port for *_, port in expected} | {22, 8472, 8477})
    script = tmp_path / "tries.py"
    script.write_text(TRIES)
    with network(where) as (router, own), ExitStack() as stack:
        run("ip", "netns", "exec", router, "nft", "-f", "-", given=rules(objects, where, of))
        tries = {}
        for name in of:
            others = {other: address for other, address in where.items() if other != name}
            what = json.dumps([where[name], others, ports])
            tries[name] = stack.enter_context(
                subprocess.Popen(
                    ["ip", "netns", "exec", own[name], sys.executable, "-S", str(script), what],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                )
            )  # fmt: skip
            stack.callback(tries[name].kill)
        for one in tries.values():
            assert one.stdout is not None
            assert one.stdout.readline() == "listens\n"
        found = set()
        for name, one in tries.items():
            assert one.stdin is not None
            assert one.stdout is not None
            one.stdin.write("\n")
            one.stdin.flush()
            found |= {(name, other, port) for other, port in json.loads(one.stdout.readline())}
    inside = {flow for flow in found if NAMESPACE in {of[flow[0]].namespace, of[flow[1]].namespace}}
    from_pods = {flow for flow in inside if of[flow[0]].namespace}
    within = {flow for flow in expected if flow[0] != flow[1]}
    assert from_pods == within
