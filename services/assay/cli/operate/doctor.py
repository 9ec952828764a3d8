"""`assay doctor`: tests what this machine can do."""

import asyncio
import importlib.util
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import typer
from rich.table import Table
from rich.text import Text

from assay.cli.console import EXIT_NOT_ISOLATED, AsJson, print_json, settings_with
from assay.cli.printed import out
from assay.config.environment import SettingError
from assay.config.settings import Settings
from assay.core.errors import AssayError
from assay.edge.clock import Clock
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import PythonRun, SandboxError
from assay.sandbox.probe import probe, probe_tools
from assay.store.embedded import EmbeddedValkey
from assay.store.valkey import open_store
from assay.verifiers.languages.trial import try_languages
from assay.verifiers.packages import program_packages

_IMPORTS: Final = b"""
import importlib, importlib.util
wanted = %s
for name in wanted:
    importlib.import_module(name)
more = [name for name in ["numpy"] if name not in wanted and importlib.util.find_spec(name)]
print(*wanted, *more)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing tried: `fine`, `limited` (works with less) or `missing`."""

    name: str
    state: str
    detail: str


def doctor(*, as_json: AsJson = False) -> None:
    """Try what the platform needs: isolation, limits, compilers, the store."""
    settings = settings_with()
    sandbox = probe(settings.sandbox, Clock())
    tools = probe_tools(settings.sandbox, Clock())
    checks = [
        Check(
            name="isolation",
            state="fine" if sandbox.isolated else "missing",
            detail=sandbox.mode,
        ),
        _finding("bubblewrap", sandbox.bubblewrap.detail, available=sandbox.bubblewrap.available),
        Check(
            name="cgroup",
            state="fine" if {"memory", "processes"} <= set(sandbox.cgroup_limits) else "limited",
            detail=f"{sandbox.cgroup}: {', '.join(sandbox.cgroup_limits) or 'no limits'}",
        ),
        _finding("code.cpp", tools.compiler.detail, available=tools.compiler.available),
        *(
            _finding(f"code.{found.language.name}", found.detail, available=found.available)
            for found in try_languages(settings.sandbox)
        ),
        _packages(settings),
        _finding("confinement", tools.confinement.detail, available=tools.confinement.available),
        _planning(settings),
        asyncio.run(_store(settings)),
    ]
    if as_json:
        print_json({"sandbox": sandbox.as_dict(), "checks": [asdict(check) for check in checks]})
    else:
        out.print(_table(checks))
        for advice in sandbox.advice:
            out.print(f"- {advice}", highlight=False)
    if not sandbox.isolated and not settings.sandbox.allow_unisolated:
        raise typer.Exit(EXIT_NOT_ISOLATED)


def _finding(name: str, detail: str, *, available: bool) -> Check:
    return Check(name=name, state="fine" if available else "limited", detail=detail)


def _packages(settings: Settings) -> Check:
    """Import in a box what the settings offer to programs; without NumPy many solutions fail."""
    name = "program packages"
    try:
        packages = program_packages(settings.verifiers)
        inside = Inside(python_path=settings.verifiers.program_paths, packages=packages)
        wanted = sorted({*packages.places, *packages.modules})
        with ZygoteLauncher(settings.sandbox, Clock(), inside=inside) as launcher:
            found = launcher.run_python(PythonRun(source=_IMPORTS % json.dumps(wanted).encode()))
    except (AssayError, SettingError, SandboxError) as error:
        return Check(name=name, state="missing", detail=str(error))
    if found.exit_code:
        told = found.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return Check(name=name, state="missing", detail=told[-300:] or found.status.value)
    has = found.stdout.decode("ascii", "replace").split()
    detail = ", ".join(has) or "the standard library only"
    if "numpy" not in has:
        detail += "; name numpy in verifiers.program_packages if solutions import it"
    return Check(name=name, state="fine" if "numpy" in has else "limited", detail=detail)


def _planning(settings: Settings) -> Check:
    """numpy is needed; without numba plans take some hundred times longer."""
    if not settings.planner.enabled:
        return Check(name="planner", state="limited", detail="off: pools keep their size")
    if importlib.util.find_spec("numpy") is None:
        return Check(name="planner", state="missing", detail="no numpy; it cannot plan")
    compiled = importlib.util.find_spec("numba") is not None
    detail = "compiled" if compiled else "no numba: plans are slow"
    return Check(name="planner", state="fine" if compiled else "limited", detail=detail)


async def _store(settings: Settings) -> Check:
    """Reach the named store, or start and stop an embedded one."""
    with tempfile.TemporaryDirectory(prefix="assay-doctor-") as own:
        embedded = None if settings.store.url else EmbeddedValkey(Path(own))
        try:
            if embedded is not None:
                await embedded.start()
            store = open_store(settings.store, data_dir=Path(own))
            try:
                round_trip_s = await store.ping()
            finally:
                await store.close()
        except AssayError as error:
            return Check(name="store", state="missing", detail=error.message)
        finally:
            if embedded is not None:
                await embedded.stop()
    kind = settings.store.url or "embedded Valkey"
    return Check(name="store", state="fine", detail=f"{kind}, {round_trip_s * 1e3:.1f} ms")


def _table(checks: list[Check]) -> Table:
    colors = {"fine": "green", "limited": "yellow", "missing": "red"}
    title = f"Python {sys.version.split()[0]}"
    table = Table("what", "state", "detail", title=title, title_justify="left")
    for check in checks:
        table.add_row(check.name, Text(check.state, style=colors[check.state]), check.detail)
    return table
