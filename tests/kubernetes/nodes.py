"""A batch in the pods of a real cluster; in its middle a node is drained and the release upgraded.

    python -m tests.kubernetes.nodes --kubeconfig FILE --repository REGISTRY/assay \\
        --tag A --next-tag B [--old-tag C]

installs the chart, runs `helm test`, waits until no worker is left, and scores answers of known
verdict from a pod. With a fifth of the results it drains the node of the store (of an external
store: the one with most pods), with half of them it upgrades to the other tag. In between it tries
an upgrade to images of the old tag, which must refuse a setting of the chart: it must fail, say
which, and leave everything as it is; then it rolls back. Exit code 1 unless each answer has the
right reward, once, and the planner has taken all workers away again.

Needs `kubectl`, two nodes that can pull the images, and a namespace that is not there yet. It is
made with Pod Security `restricted`, and left for a look; delete it afterwards.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from scripts.get_helm import helm as helm_binary

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "assay"
RELEASE = "assay"
CALLER = "caller"
DRAIN_AT, REFUSED_AT, UPGRADE_AT = 0.2, 0.35, 0.5
"""Parts of the results, after which it happens."""
DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s")
WAIT_S_MAX = 600.0
EVERY_S = 2.0
WORKERS = "app.kubernetes.io/component=worker"
PODS = f"app.kubernetes.io/instance={RELEASE}"
LASTING = f"{PODS},app.kubernetes.io/component in (api,planner,store)"
"""Pods that no planner takes away."""
SIZES = '{.metadata.name} {.status.readyReplicas} {.spec.replicas}{"\\n"}'
SCORE = (
    f"assay score /tmp/rows.jsonl --pipeline math --url {RELEASE}-api:8470"
    " --out /tmp/results.jsonl --json"
)
NAMED = re.compile(r"ASSAY_[A-Z_]+")
"""The variable of a setting."""
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of the answers."""

    rows: int
    right: int
    """With the reward that is known, once."""
    wrong: Sequence[str]
    """Ids with another reward or none, more than one result, or no result."""
    redelivered: int
    """Those that a worker lost or gave back with an attempt, and another one scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrades:
    """Helm's arguments for the upgrades in the middle."""

    good: Sequence[str]
    old: Sequence[str]
    """Of the one that is refused; empty: it is left out."""


def answers(count: int) -> str:
    """Rows of which every other one is right."""
    return "".join(
        json.dumps({"request_id": f"{n}", "response": f"\\boxed{{{n + n % 2}}}",
                    "reference": {"answers": [f"{n}"]}}) + "\n"
        for n in range(count)
    )  # fmt: skip


def judged(lines: Iterable[str], count: int) -> Verdict:
    """Compare the results of `answers(count)` with what is known of them."""
    results = [json.loads(line) for line in lines if line.strip()]
    times = Counter(one["request_id"] for one in results)
    known = {f"{n}": 1.0 - n % 2 for n in range(count)}
    good = {
        one["request_id"] for one in results if one.get("reward") == known.get(one["request_id"])
    }
    wrong = [name for name in {**known, **times} if times[name] != 1 or name not in good]
    redelivered = sum(
        any(stage["attempts"] > 1 for stage in one.get("stages", ())) for one in results
    )
    return Verdict(
        rows=len(results), right=len(known) - len(wrong), wrong=wrong, redelivered=redelivered
    )


def node_to_drain(pods: Iterable[Object]) -> str:
    """That of the store; without one, that with most pods of the release."""
    placed = [one for one in pods if one["spec"].get("nodeName")]
    for one in placed:
        if one["metadata"]["labels"].get("app.kubernetes.io/component") == "store":
            return str(one["spec"]["nodeName"])
    [(node, _)] = Counter(str(one["spec"]["nodeName"]) for one in placed).most_common(1)
    return node


def another(nodes: Iterable[Object], drained: str) -> str:
    """A node for the caller, which a drain would end.

    Raises:
        SystemExit: there is none.
    """
    for one in nodes:
        if one["metadata"]["name"] != drained and not one["spec"].get("unschedulable"):
            return str(one["metadata"]["name"])
    raise SystemExit("needs a second node that takes pods")


def caller(image: str, node: str) -> Object:
    """The pod that calls, as restricted as those of the release."""
    token = {"secretKeyRef": {"name": f"{RELEASE}-tenants", "key": "token"}}
    own = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
           "capabilities": {"drop": ["ALL"]}}  # fmt: skip
    container = {
        "name": CALLER, "image": image, "securityContext": own,
        "command": ["python", "-c", "import signal; signal.sigwait([signal.SIGTERM])"],
        "env": [
            {"name": "ASSAY_TOKEN", "valueFrom": token},
            {"name": "ASSAY_DATA_DIR", "value": "/tmp/assay"}, {"name": "HOME", "value": "/tmp"},
        ],
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
    }  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": CALLER},
        "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": False,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "securityContext": {"runAsNonRoot": True, "runAsUser": 64000, "fsGroup": 64000,
                                "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container], "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """`kubectl` and Helm on one cluster and namespace; each command is shown as it runs."""

    kubeconfig: str
    namespace: str
    began_s: float = field(default_factory=time.monotonic)

    def say(self, what: str) -> None:
        print(f"{time.monotonic() - self.began_s:6.1f} s  {what}", flush=True)

    def kubectl(self, *given: str, stdin: str | None = None, shown: bool = False) -> str:
        return self._run(["kubectl", *given], stdin, shown)

    def helm(self, *given: str) -> str:
        return self._run([str(helm_binary(4)), *given], None, True)

    def get(self, kind: str, *given: str) -> Sequence[Object]:
        found: Sequence[Object] = json.loads(self.kubectl("get", kind, *given, "-o", "json"))[
            "items"
        ]
        return found

    def command(self, tool: str, *given: str) -> list[str]:
        """With the namespace; what is behind `--` is the pod's."""
        return [tool, "--namespace", self.namespace, *given]

    def refused(self, *given: str) -> str:
        """What Helm says of a command that fails.

        Raises:
            SystemExit: it does not fail.
        """
        done = self._done([str(helm_binary(4)), *given], None, True)
        told = done.stdout + done.stderr
        if done.returncode == 0:
            raise SystemExit(f"it was to fail: {' '.join(given)}: {told}")
        self._show(told)
        return told

    def _run(self, command: list[str], stdin: str | None, shown: bool) -> str:
        done = self._done(command, stdin, shown)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        if shown:
            self._show(done.stdout)
        return done.stdout

    def _done(
        self, command: list[str], stdin: str | None, shown: bool
    ) -> subprocess.CompletedProcess[str]:
        if shown:
            self.say("$ " + " ".join([Path(command[0]).name, *command[1:]]))
        return subprocess.run(
            self.command(*command), env=self._environment(), input=stdin, capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    def _show(self, told: str) -> None:
        print("".join(f"          {one}\n" for one in told.splitlines()), end="")

    def start(self, *given: str) -> subprocess.Popen[str]:
        """A `kubectl` that goes on beside what follows."""
        return subprocess.Popen(
            self.command("kubectl", *given), env=self._environment(), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": self.kubeconfig}


def until(done: Callable[[], bool], what: str) -> None:
    """Ask every two seconds.

    Raises:
        SystemExit: it took too long.
    """
    end_s = time.monotonic() + WAIT_S_MAX
    while not done():
        if time.monotonic() > end_s:
            raise SystemExit(f"not within {WAIT_S_MAX:.0f} s: {what}")
        time.sleep(EVERY_S)


def show_sizes(tools: Tools, changes: IO[str]) -> None:
    """Print each change of a worker Deployment's pods, ready of wanted."""
    last: dict[str, str] = {}
    for line in changes:
        name, *sizes = line.split(" ")
        ready, wanted = (one.strip() or "0" for one in sizes)
        now = f"{name.removeprefix(f'{RELEASE}-')} {ready}/{wanted}"
        if last.get(name) != now:
            last[name] = now
            tools.say(f"    pods {now}")


def without_workers(tools: Tools) -> bool:
    """The planner has taken all away."""
    wanted = [one["spec"].get("replicas") for one in tools.get("deployments", "-l", WORKERS)]
    return not any(wanted) and not tools.get("pods", "-l", WORKERS)


@contextlib.contextmanager
def sizes_shown(tools: Tools) -> Iterator[None]:
    """Beside what is done inside."""
    watch = tools.start("get", "deployments", "-l", WORKERS, "--watch", "-o", f"jsonpath={SIZES}")
    shown = threading.Thread(target=show_sizes, args=(tools, watch.stdout), daemon=True)
    shown.start()
    try:
        yield
    finally:
        watch.kill()
        watch.communicate()
        shown.join()


def install(tools: Tools, values: Sequence[str]) -> None:
    """The release in a namespace of its own, where only restricted pods are admitted."""
    server = json.loads(tools.kubectl("version", "-o", "json"))["serverVersion"]
    tools.say(f"kube-apiserver {server['gitVersion']}")
    tools.kubectl("create", "namespace", tools.namespace)
    restricted = "pod-security.kubernetes.io/enforce=restricted"
    tools.kubectl("label", "namespace", tools.namespace, restricted)
    tools.helm("install", RELEASE, str(CHART), *values, "--wait", "--timeout", "10m")


def state(tools: Tools) -> Mapping[str, object]:
    """What an upgrade changes: what pods are made from, and the pods that no planner takes away."""
    made = {
        f"{kind} {one['metadata']['name']}": one["spec"]["template"]
        for kind in ("deployments", "statefulsets")
        for one in tools.get(kind, "-l", PODS)
    }
    return {**made, "pods": {one["metadata"]["uid"] for one in tools.get("pods", "-l", LASTING)}}


def refuse(tools: Tools, old: Sequence[str]) -> None:
    """Try an upgrade to images that do not take a setting of the chart, and roll back.

    Raises:
        SystemExit: it is not refused, no setting is named, or something is no longer as it was.
    """
    before = state(tools)
    told = tools.refused("upgrade", RELEASE, str(CHART), *old, "--wait", "--timeout", "10m")
    if NAMED.search(told) is None:
        raise SystemExit("Helm does not say which setting is refused")
    if state(tools) != before:
        raise SystemExit("the refused upgrade changed something")
    tools.helm("rollback", RELEASE, "--wait", "--timeout", "10m")
    if state(tools) != before:
        raise SystemExit("the rollback changed something")


def in_the_middle(
    tools: Tools, node: str, upgrades: Upgrades, count: int, score: subprocess.Popen[str]
) -> None:
    """Drain, bring back, upgrade, while the caller waits for its rewards.

    Raises:
        SystemExit: the caller was done before; a larger batch is needed.
    """

    def results() -> int:
        counted = "cat /tmp/results.jsonl 2>/dev/null | wc -l"
        return int(tools.kubectl("exec", CALLER, "--", "sh", "-c", counted))

    def reach(part: float) -> None:
        wanted = part * count
        until(lambda: score.poll() is not None or results() >= wanted, f"{wanted:.0f} results")
        if score.poll() is not None:
            raise SystemExit(f"the caller was done before: {score.communicate()}")
        tools.say(f"    {results():,} results")

    reach(DRAIN_AT)
    for one in tools.get("pods", "-l", PODS):
        tools.say(f"    {one['metadata']['name']} on {one['spec'].get('nodeName')}")
    tools.kubectl("drain", node, *DRAIN, shown=True)
    tools.kubectl("uncordon", node, shown=True)
    if upgrades.old:
        reach(REFUSED_AT)
        refuse(tools, upgrades.old)
    reach(UPGRADE_AT)
    tools.helm("upgrade", RELEASE, str(CHART), *upgrades.good, "--wait", "--timeout", "10m")
    tools.say(f"    {results():,} results")


def scored(tools: Tools, image: str, upgrades: Upgrades, count: int) -> Verdict:
    """A batch, and what happens in its middle."""
    node = node_to_drain(tools.get("pods", "-l", PODS))
    made = caller(image, another(tools.get("nodes"), node))
    tools.kubectl("apply", "-f", "-", stdin=json.dumps(made))
    tools.kubectl("wait", "--for=condition=Ready", f"pod/{CALLER}", "--timeout=300s")
    rows = ("exec", "-i", CALLER, "--", "sh", "-c", "cat > /tmp/rows.jsonl")
    tools.kubectl(*rows, stdin=answers(count))
    tools.say(f"$ {SCORE}   # {count:,} rows, in a pod")
    score = tools.start("exec", CALLER, "--", "sh", "-c", SCORE)
    try:
        in_the_middle(tools, node, upgrades, count, score)
        told, errors = score.communicate(timeout=WAIT_S_MAX)
    finally:
        score.kill()
    tools.say(f"score ended with {score.returncode}")
    print(told, errors)
    results = tools.kubectl("exec", CALLER, "--", "cat", "/tmp/results.jsonl")
    return judged(results.splitlines(), count)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--namespace", default="assay-nodes")
    parser.add_argument("--repository", required=True, help="of the images, without the role")
    parser.add_argument("--tag", required=True)
    parser.add_argument("--next-tag", required=True)
    parser.add_argument("--old-tag", help="of images that do not know a setting of the chart")
    parser.add_argument("--values", action="append", default=[], help="file of the chart's values")
    parser.add_argument("--requests", type=int, default=6_000)
    return parser.parse_args()


def main() -> int:
    """Install, test, score with both in the middle, and tell."""
    given = arguments()
    tools = Tools(kubeconfig=given.kubeconfig, namespace=given.namespace)
    files = [part for one in given.values for part in ("--values", one)]
    values = [*files, "--set", f"image.repository={given.repository}"]
    install(tools, [*values, "--set", f"image.tag={given.tag}"])
    with sizes_shown(tools):
        tools.helm("test", RELEASE, "--timeout", "10m")
        until(lambda: without_workers(tools), "no worker is left after the test")
        image = f"{given.repository}/api:{given.tag}"
        upgrades = Upgrades(
            good=[*values, "--set", f"image.tag={given.next_tag}"],
            old=[*values, "--set", f"image.tag={given.old_tag}"] if given.old_tag else [],
        )
        verdict = scored(tools, image, upgrades, given.requests)
        until(lambda: without_workers(tools), "no worker is left after the batch")
    tools.say(
        f"rows {verdict.rows:,}, right {verdict.right:,}, redelivered {verdict.redelivered:,}"
    )
    if verdict.wrong:
        print(f"not right: {list(verdict.wrong[:20])}")
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
