"""Tables and figures of docs/planner.md: python -m benchmarks.planner.tables [NAME ...]

Fills the space between `<!-- NAME -->` and `<!-- end -->`; figures go to docs/figures/planner/.
"""

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from assay.sim.plots import plot_lines, plot_pools
from assay.sim.pools.runner import Options
from benchmarks.planner.common import (
    CUDA,
    CUDA_STAGES,
    OUT,
    POLICIES,
    ROOT,
    STRESSES,
    simulate,
    stressed,
)

DOC = ROOT / "docs" / "planner.md"
FIGURES = ROOT / "docs" / "figures" / "planner"
Row = dict[str, Any]
PAPER = {
    "colocated": "3.79x / 1.98x, 0.62 s",
    "disaggregated": "3.49x / 2.16x, 0.85 s",
    "single": "history 14.3 s, DistRS 2.1 s; no ratios given",
}


def read(name: str) -> list[Row]:
    """Stored results of a benchmark, or none."""
    path = OUT / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else []


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows),
    ]
    return "\n".join(lines)


def span(values: Sequence[float], digits: int = 2) -> str:
    """Mean (minimum-maximum) over the seeds."""
    low, high = min(values), max(values)
    return f"{np.mean(values):.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of `keys`."""
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row.get(key) for key in keys)].append(row)
    return found


def fidelity() -> str:
    """Against ZQ-Dedicated, seed by seed."""
    rows = read("fidelity")
    base = {(r["setting"], r["seed"]): r for r in rows if r["policy"] == "zero_queue"}
    lines = []
    for (setting, policy), mine in grouped(rows, "setting", "policy").items():
        ratio = {
            stage: [base[setting, r["seed"]]["held_s"][stage] / r["held_s"][stage] for r in mine]
            for stage in ("execute", "compile")
        }
        waste = [r["held_s"]["execute"] / r["busy_s"]["execute"] for r in mine]
        lines.append(
            (
                setting,
                policy,
                span(ratio["execute"]),
                span(ratio["compile"]),
                span(waste),
                span([r["delay_mean_s"] for r in mine]),
                f"{max(r['delay_max_s'] for r in mine):.1f}",
                PAPER[setting] if policy == "distrs" else "",
            )
        )
    head = ("setting", "policy", "GPU time saved vs ZQ", "CPU time saved vs ZQ")
    more = ("GPU held / busy", "mean d (s)", "max d (s)", "paper (GPU / CPU, mean d)")
    return table((*head, *more), lines)


def ordering() -> str:
    """Figure 14: GPUs needed for a delay limit, by order."""
    rows = read("ordering")
    lines = []
    for limit in (2.0, 5.0, 10.0, 20.0):
        ratios, ebf, fcfs = [], [], []
        for mine in grouped(rows, "seed").values():
            need = {
                kind: min((r["gpus"] for r in mine if r[f"{kind}_s"] <= limit), default=50)
                for kind in ("ebf", "fcfs")
            }
            ebf.append(need["ebf"])
            fcfs.append(need["fcfs"])
            ratios.append(need["fcfs"] / need["ebf"])
        lines.append((f"{limit:.0f}", span(ebf, 0), span(fcfs, 0), span(ratios)))
    first = [r for r in rows if r["seed"] == 1]
    plot_lines(
        {kind: [(r["gpus"], r[f"{kind}_s"]) for r in first] for kind in ("ebf", "fcfs")},
        FIGURES / "ordering.png",
        x="GPUs",
        y="mean extra delay of the two batches (s)",
    )
    return table(("d at most (s)", "GPUs, EBF", "GPUs, FCFS", "FCFS / EBF"), lines)


def against(rows: list[Row], stages: Sequence[str]) -> str:
    """Every policy under every stress."""
    lines = []
    for (stress, policy), mine in grouped(rows, "stress", "policy").items():
        held = [span([r["held_s"][s] / 1000 for r in mine], 0) for s in stages]
        delays = [d for r in mine for d in r["delays_s"]]
        lines.append(
            (
                stress,
                policy,
                *held,
                f"{np.mean([r['cost'] for r in mine]) / 1000:.0f}",
                f"{np.mean(delays):.2f}",
                f"{np.quantile(delays, 0.95):.1f}",
                f"{max(delays):.1f}",
                f"{100 * np.mean([r['in_time_share'] for r in mine]):.0f} %",
            )
        )
    head = ("workload", "policy", *(f"{s} (1000 slot-s)" for s in stages))
    return table((*head, "cost (1000)", "mean d", "p95 d", "max d", "d <= D"), lines)


def targets(rows: list[Row]) -> str:
    """Ours against `distrs`, workload by workload."""
    lines = []
    for (stress,), mine in grouped(rows, "stress").items():
        by = {
            policy: sorted(some, key=lambda r: r["seed"])
            for (policy,), some in grouped(mine, "policy").items()
        }
        if not {"assay", "distrs", "ideal"} <= set(by):
            continue
        pairs = list(zip(by["assay"], by["distrs"], strict=False))
        saved = {
            stage: [100 * (1 - a["held_s"][stage] / d["held_s"][stage]) for a, d in pairs]
            for stage in ("compile", "execute")
            if all(d["held_s"][stage] for _, d in pairs)
        }
        p95 = {
            name: np.quantile([d for r in by[name] for d in r["delays_s"]], 0.95)
            for name in ("assay", "distrs", "ideal")
        }
        share = {
            name: 100 * np.mean([r["in_time_share"] for r in by[name]])
            for name in ("assay", "distrs", "ideal")
        }
        lines.append(
            (
                stress,
                *(span(saved[s], 0) + " %" if s in saved else "-" for s in ("compile", "execute")),
                f"{p95['assay']:.1f} / {p95['distrs']:.1f} / {p95['ideal']:.1f}",
                f"{share['assay']:.0f} / {share['distrs']:.0f} / {share['ideal']:.0f} %",
            )
        )
    head = ("workload", "CPU saved vs distrs", "GPU saved vs distrs")
    return table((*head, "p95 d: assay / distrs / ideal", "d <= D: assay / distrs / ideal"), lines)


def stock() -> str:
    """Cheapest setting of each stock autoscaler whose p95 d is no larger than D = 5 s."""
    lines = []
    for (stress,), mine in grouped(read("stock"), "stress").items():
        ours = [r for r in mine if r["policy"] == "assay"]
        if not ours:
            continue
        cost = np.mean([r["slot_cost"] for r in ours])
        limit = max(np.quantile([d for r in ours for d in r["delays_s"]], 0.95), 0.5)
        best: dict[str, tuple[float, object, float]] = {}
        for (policy, setting), some in grouped(mine, "policy", "setting").items():
            p95 = float(np.quantile([d for r in some for d in r["delays_s"]], 0.95))
            spent = float(np.mean([r["slot_cost"] for r in some]))
            if policy != "assay" and p95 <= limit and spent < best.get(policy, (9e99, 0, 0))[0]:
                best[policy] = (spent, setting, p95)
        for policy in ("kpa", "hpa", "ray_serve", "keda"):
            if policy in best:
                spent, setting, p95 = best[policy]
                lines.append((stress, policy, setting, f"{p95:.1f}", f"{spent / cost:.2f}x"))
            else:
                lines.append((stress, policy, "none reaches it", "-", "-"))
    head = ("workload", "autoscaler", "cheapest setting at our p95 d", "its p95 d")
    return table((*head, "its cost / ours"), lines)


def gaps() -> str:
    """Small cases and whole runs."""
    rows = read("gap")
    small = [r for r in rows if r["setting"] == "small"]
    lines = []
    for name, title in (("bound", "certificate's bound"), ("alg1", "Algorithm 1")):
        ratios = [r[name] / r["optimum"] for r in small]
        text = f"{np.mean(ratios):.3f} ({min(ratios):.2f}-{max(ratios):.2f})"
        lines.append((f"{title}, static slots, {len(small)} small cases", "exact optimum", text))
    full = grouped((r for r in rows if r["setting"] == "full"), "policy")
    for (policy,), mine in full.items():
        per = "/".join(f"{np.mean([r['gaps'][j] for r in mine]):.2f}" for j in range(2))
        lines.append(
            (
                f"{policy}, whole runs (CPU/GPU {per})",
                "lower bound",
                span([r["gap"] for r in mine]),
            )
        )
    return table(("what", "against", "ratio"), lines)


def speed() -> str:
    """Planning time and its growth."""
    path = OUT / "speed.json"
    if not path.exists():
        return ""
    found = json.loads(path.read_text())
    keys = ("distrs_ms", "assay_ms", "assay_again_ms")
    lines = [
        (
            f"{r['requests']} x {r['stages']}",
            *(f"{r[key]:.1f}" for key in keys),
            f"{r['memory_mb']:.0f}",
            "" if r["error"] is None else f"{100 * r['error']:.1f} %",
        )
        for r in found["rows"]
    ]
    three = sorted((r for r in found["rows"] if r["stages"] == 3), key=lambda r: r["requests"])
    plot_lines(
        {key: [(r["requests"], r[key]) for r in three] for key in keys},
        FIGURES / "speed.png",
        x="requests (3 stages)",
        y="milliseconds",
        logarithmic=True,
    )
    head = ("distrs (ms)", "assay (ms)", "assay, again (ms)", "memory (MB)", "error of the peaks")
    text = table(("requests x stages", *head), lines)
    return (
        f"{text}\n\n6 tasks x 50 iterations x 2,048 x 2 simulated in {found['simulate_s']:.1f} s."
    )


def cold() -> str:
    """Cost of starting without history, one row per iteration."""
    lines = [
        (
            policy,
            iteration,
            span([100 * r["regret"] for r in rows], 0) + " %",
            span([r["d_cold_s"] for r in rows], 1),
            span([r["d_warm_s"] for r in rows], 1),
        )
        for (policy, iteration), rows in grouped(read("cold"), "policy", "setting").items()
    ]
    head = ("policy", "iteration", "regret in cost", "d without history (s)", "d with it (s)")
    return table(head, lines)


def figure_pools() -> str:
    """Figure 13's form: held and running slots, three policies."""
    workload = stressed([CUDA], CUDA_STAGES, STRESSES[0], iterations=8, seed=1)
    workload = replace(workload, batches=(workload.batches[0][:2],))
    for stage, name in enumerate(("compile", "execute")):
        results = [
            simulate(
                workload,
                STRESSES[0].cluster(),
                POLICIES[policy](workload),
                Options(sample_every_s=5.0),
            )
            for policy in ("zero_queue", "distrs", "kpa", "assay")
        ]
        plot_pools(results, stage, FIGURES / f"pools_{name}.png", title=f"{name} slots, one task")
    shown = [f"![{name}](figures/planner/pools_{name}.png)" for name in ("compile", "execute")]
    return "\n".join(shown)


PARTS: dict[str, Callable[[], str]] = {
    "fidelity": fidelity,
    "ordering": ordering,
    "targets-single": lambda: targets(read("single")),
    "targets-tenants": lambda: targets(read("tenants")),
    "single": lambda: against(read("single"), ("compile", "execute")),
    "tenants": lambda: against(
        [r | {"held_s": {"judge": 0} | r["held_s"]} for r in read("tenants")],
        ("compile", "execute", "judge"),
    ),
    "rivals": lambda: "\n".join(json.loads((OUT / "rivals.json").read_text())),
    "stock": stock,
    "cold": cold,
    "gap": gaps,
    "speed": speed,
    "pools": figure_pools,
}


def filled(made: str, between: re.Match[str]) -> str:
    """The markers with `made` between them."""
    return f"{between[1]}{made}\n{between[2]}"


def main() -> None:
    """Fill in the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*PARTS, []], help="only these; else all")
    names = parser.parse_args().names or list(PARTS)
    text = DOC.read_text()
    for name in names:
        part = PARTS[name]
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if pattern.search(text):
            made = part()
            text = pattern.sub(partial(filled, made), text)
    DOC.write_text(text)


if __name__ == "__main__":
    main()
