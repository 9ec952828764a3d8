"""Proves that the client installs, and runs, in the environments of trainers.

    python -m tests.integrations.client_installs [--python PYTHON] [NAME ...]            # resolves
    python -m tests.integrations.client_installs [--python PYTHON] --run URL [NAME ...]  # scores

Resolving: the client's dependencies of `pyproject.toml` beside the newest release of each package,
and beside all packages as they were a year before `--now`. Running: environments with the oldest,
a middle and the newest protobuf and grpcio, and with packages that restrict them; each scores two
responses over a running platform, with that package imported. `--python` is the version or the path
of a Python: to resolve for (3.12), and of the environments (this interpreter). Needs `uv`.
"""

import argparse
import datetime
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = (
    *("trl", "verl", "openrlhf", "areal", "skyrl-gym", "tinker-cookbook", "verifiers"),
    *("nemo-gym", "agentlightning", "openenv", "openreward"),
    *("wandb", "wandb==0.21.0", "ray", "vllm", "tensorflow"),
)
"""wandb 0.21 is the last one that excludes protobuf 7."""
PYTHON: Final = "3.12"
"""What packages are resolved for unless told otherwise."""
OLDEST: Final = ("protobuf==5.27.2", "grpcio==1.66.2", "pydantic==2.10.0")
ENVIRONMENTS: Final[dict[str, tuple[str, ...]]] = {
    "oldest": OLDEST,
    "protobuf6": ("protobuf==6.33.1", "grpcio==1.76.0"),
    "newest": (),
    "wandb": ("wandb==0.21.0",),
    "ray": ("ray",),
    "tensorflow": ("tensorflow",),
}
IMPORTS: Final = ("wandb", "ray", "tensorflow")
PROGRAM: Final = """
import importlib, sys
from importlib.metadata import version
for name in sys.argv[2:]:
    importlib.import_module(name)
from assay.client import Request, SyncClient
with SyncClient(sys.argv[1]) as client:
    requests = [
        Request(request_id=text, response=f"\\\\boxed{{{text}}}", reference={"answers": ["5"]})
        for text in "56"
    ]
    scores = client.score(requests, pipeline="math")
assert [one.reward for one in scores.results] == [1.0, 0.0], scores
print("protobuf", version("protobuf"), "grpcio", version("grpcio"))
"""
"""Scores a right and a wrong answer."""
SHOWN: Final = ("protobuf", "grpcio")


def dependencies() -> list[str]:
    """What `pip install assay` brings."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["dependencies"])


def resolved(package: str, python: str, before: str = "") -> str:
    """The versions that fit, or why none do: one line."""
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "-"]
    command += ["--python" if os.sep in python else "--python-version", python]
    command += ["--exclude-newer", before] if before else []
    asked = "\n".join([*dependencies(), package])
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    if done.returncode:
        if "because there are no versions" in done.stderr.lower():
            return "not yet released"
        return f"**does not resolve**: {done.stderr.strip().splitlines()[-1]}"
    found = dict(re.findall(r"^([\w.-]+)==(\S+)", done.stdout, re.M))
    name = re.split(r"[=<>]", package)[0]
    return ", ".join([found[name], *(f"{one} {found[one]}" for one in SHOWN)])


def ran(name: str, url: str, python_chosen: str) -> str:
    """Install an environment, and score in it: the versions, or the end of the error."""
    install = ["uv", "pip", "install", "--quiet", "--python"]
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder, "bin", "python")
        for command in (
            ["uv", "venv", "--quiet", "--python", python_chosen or sys.executable, folder],
            [*install, str(python), *ENVIRONMENTS[name], *dependencies()],
            [str(python), "-c", PROGRAM, url, *(one for one in IMPORTS if one == name)],
        ):
            roots = ("services", "runtime", "simulator", "proto")
            path = os.pathsep.join(str(ROOT / one) for one in roots)
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "PYTHONPATH": path},
            )
            if done.returncode:
                return f"**failed**: {done.stderr.strip().splitlines()[-1]}"
    return f"scored, {done.stdout.strip().splitlines()[-1]}"


def main() -> int:
    """Print the table; 1 if something does not resolve or run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--run", metavar="URL", default="")
    parser.add_argument("--python", metavar="PYTHON", default="")
    parser.add_argument("--now", default=datetime.datetime.now(datetime.UTC).date().isoformat())
    chosen = parser.parse_args()
    told: list[str] = []
    if chosen.run:
        print("| environment | result |\n|---|---|")
        for name in chosen.names or ENVIRONMENTS:
            told.append(ran(name, chosen.run, chosen.python))
            print(f"| {name} | {told[-1]} |", flush=True)
    else:
        today = datetime.date.fromisoformat(chosen.now)
        before = today.replace(year=today.year - 1, day=min(today.day, 28)).isoformat()
        print(f"| package | newest | as of {before} |\n|---|---|---|")
        python = chosen.python or PYTHON
        for name in chosen.names or PACKAGES:
            both = resolved(name, python), resolved(name, python, before)
            told += both
            print(f"| {name} | {both[0]} | {both[1]} |", flush=True)
    return int(any("**" in one for one in told))


if __name__ == "__main__":
    sys.exit(main())
