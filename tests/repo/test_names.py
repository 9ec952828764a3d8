"""One name has one meaning inside one process: no two modules of a process define the same one.

And every name of a module has a reader.
"""

import ast
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("services", "runtime", "simulator")
TEXTS = {
    ".py",
    ".md",
    ".lua",
    ".proto",
    ".toml",
    ".yaml",
    ".yml",
    ".js",
    ".html",
    ".c",
    ".h",
    ".cu",
    "",
}
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
}
SAME_MEANING = {
    "BatchKey": "the same pair of ids",
    "TaskKey": "the same pair of ids",
    "ErrorBody": "the door's name for the API's body",
    "Json": "any JSON value",
    "Request": "a program's run in its box; the client's, in a worker host without a store",
    "Result": "the client's, of a worker host without a store",
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
    """Public classes, and aliases of types."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id


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


def words() -> Counter[str]:
    """How often each word occurs in the texts of the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    found = Counter[str]()
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if path.suffix in TEXTS and path.is_file() and "_pb2" not in name:
            found.update(re.findall(r"\w+", path.read_text("utf-8", errors="replace")))
    return found


def test_every_name_of_a_module_is_read_somewhere() -> None:
    """Functions, classes, constants and aliases; what a decorator takes is read by it."""
    count = words()
    unread = [
        f"{module}: {name}"
        for module in modules()
        if "_pb2" not in module
        for node in read(module).body
        for name in names_made(node)
        if count[name] == 1
    ]
    assert unread == []


def names_made(node: ast.stmt) -> Iterator[str]:
    if (
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.decorator_list
    ) or isinstance(node, ast.ClassDef):
        yield node.name
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))
