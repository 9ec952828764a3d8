"""One name has one meaning inside one process: no two modules of a process define the same one.

And every name of a module has a reader.
"""

import ast
import re
import subprocess
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("services", "runtime", "simulator")
READERS = {".toml", ".yaml", ".yml", ".sh", ""}
"""Files beside those of Python that may name what they start."""
WRITTEN_WHOLE = {"BatchResult", "Figures", "Percentiles", "StageUse"}
"""Dataclasses of which reports write every field."""
PROCESSES = {
    "API": ("assay.reward.__main__", "assay.reward.server", "assay.reward.build"),
    "planner": ("assay.planner.build",),
    "planning process": ("assay.planner.process.child",),
    "worker host": ("assay.worker.build",),
    "fork server and slots": ("assay.worker.forking.server",),
    "rollout service": ("assay.rollout.service.build",),
    "gateway": ("assay.rollout.gateway.build",),
    "inference server": ("assay.rollout.server.__main__",),
    "console": ("assay.console.routes",),
    "simulator": ("assay.sim.__main__",),
    "simulated platform": ("assay.sim.platform.__main__",),
    "laboratory": ("assay.sim.laboratory.__main__",),
    "trainer": ("assay.integrations.scorer", "assay.client.rollouts", "assay.client.http"),
    "benches": ("assay.rollout.bench.app",),
    "demo": ("assay.cli.demo.command",),
    "replay of a rollout": ("assay.rollout.replay.command",),
    "score": ("assay.cli.score.command", "assay.cli.score.rescore"),
    "check and convert": ("assay.cli.data.check", "assay.cli.data.convert"),
    "platform's parent": ("assay.cli.platform.warm",),
}
SAME_MEANING = {
    "BatchKey": "the same pair of ids",
    "TaskKey": "the same pair of ids",
    "ErrorBody": "the door's name for the API's body",
    "Json": "any JSON value",
    "StartTimes": "the door's protocol of the pool's record",
    "Submitted": "the client's mirror of the record",
}
"""Name -> why it may be defined twice."""
FOREIGN = ("assay.reward.endpoints", "assay.rollout.layout", "assay.rollout.cuda.link")
"""Bodies with the names that other systems gave them; mirrors of the C headers."""


@cache
def modules() -> Mapping[str, Path]:
    """Every module by its dotted name."""
    found = {}
    for source in SOURCES:
        for path in (ROOT / source / "assay").rglob("*.py"):
            parts = path.relative_to(ROOT / source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.Module) -> Iterator[str]:
    """Names of modules, or of things in modules, that a module imports, some when it needs them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module or ""


def defined(tree: ast.Module) -> Iterator[str]:
    """Public classes, and aliases of types; a variable of types (`AnswerT`) has no meaning."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if not (name.endswith("T") and ast.unparse(node.value).startswith("TypeVar(")):
                yield name


@cache
def read(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text("utf-8"))


def loaded(entries: tuple[str, ...]) -> set[str]:
    """The modules that a process may load."""
    todo, found = list(entries), set[str]()
    while todo:
        name = todo.pop()
        if name in found or name not in modules():
            continue
        found.add(name)
        todo += [name.rpartition(".")[0], *imported(read(name))]
    return found


def ambiguous(entries: tuple[str, ...]) -> dict[str, list[str]]:
    homes = defaultdict[str, list[str]](list)
    for module in sorted(loaded(entries)):
        for name in defined(read(module)):
            is_type = name[0].isupper() and not name.isupper()
            if is_type and name not in SAME_MEANING and not module.startswith(FOREIGN):
                homes[name].append(module)
    return {name: places for name, places in homes.items() if len(places) > 1}


@pytest.mark.parametrize("process", PROCESSES)
def test_a_name_has_one_meaning_in_a_process(process: str) -> None:
    assert len(loaded(PROCESSES[process])) >= 15
    assert ambiguous(PROCESSES[process]) == {}


def names_read(tree: ast.Module) -> Iterator[str]:
    """Names and attributes that a module reads, and the words of its literals, which may name an
    entry; a docstring reads nothing, and neither does an assignment."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.MatchClass):
            yield from node.kwd_attrs
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from () if id(node) in docstrings else re.findall(r"\w+", node.value)


@cache
def all_names_read() -> frozenset[str]:
    """Those of every Python file, and the words of files that start or configure Python."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if "_pb2" not in name]
    found = set[str]()
    for path in filter(Path.is_file, paths):
        if path.suffix == ".py":
            found.update(names_read(ast.parse(path.read_text("utf-8"))))
        elif path.suffix in READERS:
            found.update(re.findall(r"\w+", path.read_text("utf-8", errors="replace")))
    return frozenset(found)


def test_every_name_of_a_module_is_read_somewhere() -> None:
    """Functions, classes, constants and aliases; what a decorator takes is read by it."""
    unread = [
        f"{module}: {name}"
        for module in modules()
        if "_pb2" not in module
        for node in read(module).body
        for name in names_made(node)
        if name not in all_names_read() and not name.startswith("__")
    ]
    assert unread == []


def test_every_field_of_a_dataclass_is_read_somewhere() -> None:
    unread = [
        f"{module}: {owner}.{name}"
        for module in modules()
        if "_pb2" not in module
        for owner, name in fields_made(read(module))
        if name not in all_names_read() and owner not in WRITTEN_WHOLE and name[:2] != "__"
    ]
    assert unread == []


def fields_made(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Fields of dataclasses, with the class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and "dataclass" in map(decorator, node.decorator_list):
            yield from (
                (node.name, one.target.id)
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            )


def decorator(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def test_a_name_that_is_only_written_is_not_read() -> None:
    code = """
        LIMIT = 3
        class Seen:
            'Holds LIMIT.'
        def see(it):
            it.at, other.before = it.now, "app:main"
    """
    found = set(names_read(ast.parse(textwrap.dedent(code))))
    assert found == {"it", "other", "now", "app", "main"}


def names_made(node: ast.stmt) -> Iterator[str]:
    if (
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.decorator_list
    ) or isinstance(node, ast.ClassDef):
        yield node.name
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.Try | ast.If):
        parts = [*node.body, *node.orelse, *getattr(node, "finalbody", ())]
        handlers = [one for handler in getattr(node, "handlers", ()) for one in handler.body]
        yield from (name for one in (*parts, *handlers) for name in names_made(one))
