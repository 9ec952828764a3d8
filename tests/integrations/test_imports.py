"""Importing an adapter needs the client and nothing else: no trainer, no tensor library."""

import json
import subprocess
import sys
from pathlib import Path

import assay.integrations

HEAVY = {"torch", "numpy", "transformers", "datasets", "ray", "fastapi", "redis", "msgpack"}
TRAINERS = {
    *("agentlightning", "areal", "nemo_gym", "nemo_rl", "openrlhf", "rllm", "roll", "skyrl_gym"),
    *("slime", "tinker", "tinker_cookbook", "trl", "verifiers", "verl"),
}
PROGRAM = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(f"assay.integrations.{name}")
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_no_adapter_imports_its_trainer() -> None:
    folder = Path(assay.integrations.__file__).parent
    paths = {path.relative_to(folder).with_suffix("") for path in folder.rglob("*.py")}
    names = {".".join(path.parts) for path in paths if path.stem != "__init__"}
    # Their trainer loads them by their path.
    names -= {"trainers.roll_worker", "trainers.verl_baseline", "trainers.verl_manager"}
    assert "trainers.trl" in names
    command = [sys.executable, "-c", PROGRAM, *sorted(names)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert not set(json.loads(done.stdout)) & (HEAVY | TRAINERS)
