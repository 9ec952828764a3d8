"""The planner of a large cluster: its real controller, planning process and scaler of pods.

    python -m benchmarks.kubernetes.scale [--pods 10000] [--stages 200] [--per-minute 1000000]
                                          [--seconds 120] [--hosts compared] [--json]
                                          [--plot FILE.png]

The API server is that of the tests, in a process of its own, which also makes and deletes pods as
the Deployments say; so sizes go out by HTTP and pods come in by watches. Tasks of four stages each
have one batch open at a time, whose requests arrive evenly over `--span` seconds and take as long
as keeps `--pods` busy. The store is a model of that: it answers at once with the requests in flight
at this instant, so the cost of reading a real store is left out (`benchmarks.store.calls`). Each
pod has the record of a worker host; with `--hosts known` what they end is not compared, and with
`--hosts none` there are no records.

Rows: CPU time of a step of the control loop and of a plan, CPU share and memory of the controller
and of the planning process, calls of the API server per minute by kind.
"""

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kubernetes.api_server import ApiServer, Call
from tests.kubernetes.cluster import SELECTOR, instant, ready

from assay.config.kubernetes import KubernetesSettings
from assay.config.settings import PlannerSettings
from assay.core.ids import StageName
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.planner.kubernetes.doubts import PodDoubts
from assay.planner.kubernetes.hosts import PodHosts
from assay.planner.kubernetes.scaler import KubernetesScaler
from assay.planner.process.parent import PlanningProcess
from assay.planner.service.controller import Controller
from assay.planner.service.leader import LeaderLease
from assay.planner.session.messages import Decision, PoolState, Snapshot, StageLimits
from benchmarks.harness.report import Report, Spread, bar_plot, percentile
from benchmarks.kubernetes.load import Load, ModelStore, S

KUBELET_EVERY_S = 0.5
TIMEOUT_S = 60.0
HOSTS = ("compared", "known", "none")


# -- the cluster, in a process of its own ------------------------------------------------------
async def kubelet(server: ApiServer, load: Load) -> None:
    """Pods are what the Deployments say, half a second later."""
    made = 0
    pods: dict[str, list[str]] = {stage: [] for stage in load.names}
    while True:
        for stage, have in pods.items():
            wanted = server.objects["deployments", deployment(stage)]["spec"]["replicas"]
            for _ in range(wanted - len(have)):
                made += 1
                have.append(f"p{made}")
                server.put("pods", pod(have[-1], stage), "ADDED")
            for _ in range(len(have) - wanted):
                name = have.pop()
                server.put("pods", server.objects["pods", name], "DELETED")
            await asyncio.sleep(0)
        await asyncio.sleep(KUBELET_EVERY_S)


def deployment(stage: str) -> str:
    return stage.replace(".", "-")


def pod(name: str, stage: str) -> dict[str, Any]:
    """A pod that is ready, with what a kubelet and an operator usually write into one."""
    now_s = time.time()
    container = {
        "name": "worker",
        "image": "assay/worker:1",
        "env": [{"name": f"ASSAY_SETTING_{n}", "value": "1"} for n in range(12)],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
    }
    return {
        "metadata": {
            "name": name,
            "labels": {**SELECTOR, "assay.dev/stage": stage},
            "creationTimestamp": instant(now_s),
        },
        "spec": {"containers": [container], "nodeName": "node-1"},
        "status": ready(now_s, 1.0),
    }


def kind_of(call: Call) -> str:
    """Such as `PATCH deployments/scale`."""
    steps = call.path.strip("/").split("/")
    rest = steps[steps.index("namespaces") + 2 :]
    verb = "WATCH" if call.watch else "LIST" if len(rest) == 1 else call.method
    return f"{verb} {'/'.join([rest[0], *rest[2:]])}"


async def serve(load: Load) -> None:
    """Print the port; then, for each line of stdin, the calls since the last."""
    server = ApiServer()
    await server.start()
    for stage in load.names:
        labels = {**SELECTOR, "assay.dev/stage": stage}
        one = {"metadata": {"name": deployment(stage), "labels": labels}, "spec": {"replicas": 0}}
        server.put("deployments", one, "ADDED")
    print(server.port, flush=True)
    node = asyncio.create_task(kubelet(server, load))
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(Counter(map(kind_of, server.calls))), flush=True)
        server.calls.clear()
    node.cancel()
    await server.stop()


# -- the planner -------------------------------------------------------------------------------
class Measured(Controller):
    """Measures its steps."""

    store: ModelStore
    steps: list[float]

    async def step(self) -> float:
        """CPU time without the model's; what the watches cost meanwhile is in it."""
        begun_s, model_s = time.thread_time(), self.store.cpu_s
        wake_after_s = await super().step()
        self.steps.append(time.thread_time() - begun_s - (self.store.cpu_s - model_s))
        return wake_after_s


class Planning(PlanningProcess):
    """Remembers how long planning took."""

    plans_s: list[float]

    async def decide(self, snapshot: Snapshot) -> Decision:
        found = await super().decide(snapshot)
        if found.made:
            self.plans_s.append(found.planning_ns / 1e9)
        return found


def limits_of(load: Load, pools: Sequence[PoolState]) -> tuple[StageLimits, ...]:
    """Every stage may have four times its share of the pods."""
    there = {pool.stage for pool in pools}
    return tuple(
        StageLimits(
            stage=stage,
            timeout_ns=round(TIMEOUT_S * S),
            slots_min=0,
            slots_max=4 * load.pods // load.stages,
            cost=0.025,
            startup_ns=S,
        )
        for stage in load.names
        if stage in there
    )


def build(load: Load, folder: Path, port: int, hosts: str) -> tuple[Measured, Planning]:
    """A planner of Deployments on the API server of that port."""
    kubeconfig = folder / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [cluster],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    clock, metrics = Clock(), Metrics()
    store = ModelStore(load, clock)
    settings = PlannerSettings(planning_s_max=600.0)  # a busy machine is measured too
    kubernetes = KubernetesSettings(
        namespace="assay",
        kubeconfig=kubeconfig,
        deployments={stage: deployment(stage) for stage in load.names},
    )

    async def running(stages: Sequence[StageName]) -> dict[StageName, int]:
        return {depth.stage: depth.running for depth in await store.depths(stages)}

    planning = Planning(settings, clock=clock, metrics=metrics)
    doubts = PodDoubts(
        store, timeout_of=lambda _: TIMEOUT_S, on_doubt=lambda stage, n: print(stage, n)
    )
    pod_hosts = PodHosts(store, attempts_max=3, doubts=doubts if hosts == "compared" else None)
    scaler = KubernetesScaler(
        kubernetes, running=running, clock=clock, metrics=metrics,
        hosts=None if hosts == "none" else pod_hosts,
    )  # fmt: skip
    store.pods = lambda: ((pod.host, StageName(pod.pools[0].stage)) for pod in scaler.hosts())
    controller = Measured(
        store=store,
        scaler=scaler,
        lease=LeaderLease(store, planner="this", lease_s=settings.lease_s, clock=clock),
        process=planning,
        limits_of=lambda pools: limits_of(load, pools),
        history_batches=settings.history_batches,
        clock=clock,
        metrics=metrics,
    )
    controller.store, controller.steps, planning.plans_s = store, [], []
    return controller, planning


async def measure(load: Load, hosts: str, seconds: float, warm_s: float) -> list[dict[str, object]]:
    """Rows of the report."""
    given = [f"--pods={load.pods}", f"--stages={load.stages}", f"--span={load.span_s}",
             f"--per-minute={load.per_minute}"]  # fmt: skip
    cluster = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.kubernetes.scale", "--serve", *given,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert cluster.stdin is not None
    assert cluster.stdout is not None
    port = int(await cluster.stdout.readline())
    with tempfile.TemporaryDirectory() as folder:
        controller, planning = build(load, Path(folder), port, hosts)
        running = asyncio.create_task(controller.run())
        try:
            await first_plan(controller, planning, running, load, warm_s)
            controller.steps.clear()
            planning.plans_s.clear()
            await calls_since(cluster)
            begun_s, cpu_s = time.monotonic(), time.process_time()
            child_s, model_s = cpu_of(planning.pid), controller.store.cpu_s
            await asyncio.sleep(seconds)
            took_s = time.monotonic() - begun_s
            own_s = time.process_time() - cpu_s - (controller.store.cpu_s - model_s)
            child_s = cpu_of(planning.pid) - child_s
            calls = await calls_since(cluster)
            sizes = rss_mib(os.getpid()), rss_mib(planning.pid)
            pools = controller.pools
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await controller.stop()
            cluster.stdin.close()
            await cluster.wait()
    return rows(controller.steps, planning, calls, took_s, own_s, child_s, sizes, pools)


async def first_plan(
    controller: Controller,
    planning: Planning,
    running: asyncio.Task[None],
    load: Load,
    warm_s: float,
) -> None:
    """Until a plan was made and its pods are there."""
    async with asyncio.timeout(warm_s):
        while (
            there := sum(pool.ready for pool in controller.pools)
        ) < 0.9 * load.pods or not planning.plans_s:
            why = controller.why_not_ready or controller.process.state
            cpu_s = cpu_of(planning.pid)
            print(f"{there} pods; {why}; planning: {cpu_s:.0f} s CPU", file=sys.stderr)
            if running.done():
                running.result()
            await asyncio.sleep(5.0)


def rows(
    steps: Sequence[float],
    planning: Planning,
    calls: Counter[str],
    took_s: float,
    own_s: float,
    child_s: float,
    sizes: tuple[float, float],
    pools: Sequence[PoolState],
) -> list[dict[str, object]]:
    """What was found."""
    found: list[dict[str, object]] = [
        {"what": "pods ready at the end", "unit": "", "value": sum(p.ready for p in pools)},
        {"what": "a step of the control loop, CPU", "unit": "ms",
         "value": Spread.of([1e3 * one for one in steps] or [0.0])},
        {"what": "the same, 0.99 quantile", "unit": "ms",
         "value": 1e3 * percentile(steps or [0.0], 0.99)},
        {"what": "steps", "unit": "/min", "value": 60 * len(steps) / took_s},
        {"what": "planning", "unit": "s", "value": Spread.of(planning.plans_s or [0.0])},
        {"what": "plans", "unit": "/min", "value": 60 * len(planning.plans_s) / took_s},
        {"what": "controller, CPU", "unit": "cores", "value": own_s / took_s},
        {"what": "planning process, CPU", "unit": "cores", "value": child_s / took_s},
        {"what": "controller and scaler, memory", "unit": "MiB", "value": sizes[0]},
        {"what": "controller, most memory", "unit": "MiB",
         "value": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024},
        {"what": "planning process, memory", "unit": "MiB", "value": sizes[1]},
        {"what": "calls of the API server", "unit": "/min",
         "value": 60 * sum(calls.values()) / took_s},
    ]  # fmt: skip
    return found + [
        {"what": f"  {kind}", "unit": "/min", "value": 60 * n / took_s}
        for kind, n in sorted(calls.items())
    ]


async def calls_since(cluster: asyncio.subprocess.Process) -> Counter[str]:
    """Calls since the last question, by kind."""
    assert cluster.stdin is not None
    assert cluster.stdout is not None
    cluster.stdin.write(b"calls\n")
    return Counter(json.loads(await cluster.stdout.readline()))


def cpu_of(pid: int | None) -> float:
    """CPU seconds of a process."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid: int | None) -> float:
    """Memory of a process."""
    if pid is None:
        return 0.0
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Measure, or serve the API."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--stages", type=int, default=200, help="a multiple of four")
    parser.add_argument("--per-minute", type=int, default=1_000_000)
    parser.add_argument("--span", type=float, default=12.0, help="seconds of a batch")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--warm-s", type=float, default=600.0, help="time for the first plan")
    parser.add_argument("--hosts", choices=HOSTS, default=HOSTS[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    load = Load(
        pods=given.pods, stages=given.stages, per_minute=given.per_minute, span_s=given.span
    )
    if given.serve:
        asyncio.run(serve(load))
        return
    report = Report(
        title=f"{load.pods:,} pods, {load.stages} stages, {load.per_minute:,} requests per minute",
        columns=("what", "value", "unit"),
    )
    for row in asyncio.run(measure(load, given.hosts, given.seconds, given.warm_s)):
        report.add(**row)
    report.show(as_json=given.json)
    if given.plot is not None:
        calls = {str(row["what"]).strip(): row["value"] for row in report.rows
                 if str(row["what"]).startswith("  ")}  # fmt: skip
        bar_plot(given.plot, report.title, "calls of the API server per minute", calls)


if __name__ == "__main__":
    main()
