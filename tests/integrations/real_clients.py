"""Runs the packages of other systems against a platform, and prints a table of what happened.

    export TRAINERS_PYTHON=ENV/bin/python:OTHER/bin/python
    python -m tests.integrations.real_clients [NAME ...]

Each row is a package by name, its version in the first of these environments that has it, what was
run, and `passed`, `failed` or `not installed`. Ends with 1 if something failed.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.integrations.interpreters import INTERPRETERS, interpreter_with

ROOT: Final = Path(__file__).resolve().parents[2]
TRAINERS: Final = "tests/integrations/test_real_trainers.py"
CLIENTS: Final[dict[str, tuple[str, str, str]]] = {
    "trl": (TRAINERS, "trl and not standard", "five steps: function, environment, rollouts; async"),
    "openreward": (TRAINERS, "standard", "five steps of TRL through OpenRewardSpec"),
    "verl": (TRAINERS, "verl", "managers `naive` and ours, agent loop, GRPO's advantages"),
    "openrlhf": (
        TRAINERS,
        "openrlhf",
        "command, rollout actors, function, our endpoint, filter",
    ),
    "skyrl-gym": (TRAINERS, "skyrl", "registry, episodes, metrics"),
    "tinker-cookbook": (TRAINERS, "tinker", "a group's rollout"),
    "areal": (TRAINERS, "areal", "episodes of RLVRWorkflow"),
    "verifiers": (TRAINERS, "of_verifiers", "scoring of traces, `vf-eval`"),
    "prime-rl": (TRAINERS, "prime_rl", "sink, GRPO's advantages"),
    "openenv": (TRAINERS, "openenv", "its server and its client"),
    "nemo-gym": (TRAINERS, "nemo_gym", "resources server, aggregation, our endpoint"),
    "agentlightning": (TRAINERS, "lightning", "its server, hooks, events"),
    "nemo-rl": (TRAINERS, "nemo_rl", "environment as a Ray actor, GRPO's advantages, data plane"),
    "slime": (TRAINERS, "slimes", "reward hub, remote_rm, RolloutManager's training data"),
    "roll": (TRAINERS, "rolls", "reward worker, sample mask, normalisation"),
    "rllm": (TRAINERS, "rllms", "AgentFlowEngine's episodes, groups, advantages"),
    "sandbox-fusion": ("tests/endpoints/test_sandbox_fusion.py", "client", "run_code and submit"),
}
"""By distribution: the file, the tests in it, and what they run."""


def outcome(path: str, chosen: str) -> str:
    """Run the tests of a client: `passed`, or `failed` with the end of what they print."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        path,
        "-k",
        chosen,
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout[-4_000:])
        return "failed"
    return "passed" if "passed" in done.stdout else "skipped"


def main(names: list[str]) -> int:
    """Print the table; the exit status."""
    unknown = sorted(set(names) - set(CLIENTS))
    if unknown:
        sys.stderr.write(f"unknown: {', '.join(unknown)}; known: {', '.join(CLIENTS)}\n")
        return 2
    print(f"environments: {os.pathsep.join(INTERPRETERS)}\n\n| package | version | ran | result |")
    print("|---|---|---|---|")
    failed = 0
    for name in names or CLIENTS:
        path, chosen, what = CLIENTS[name]
        found = interpreter_with(name)
        result = "not installed" if found is None else outcome(path, chosen)
        failed += result == "failed"
        version = "" if found is None else found[1]
        print(f"| {name} | {version} | {what} | {result} |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
