"""docs/architecture.md names every package and no other, and files that are there; rules of imports
that import-linter cannot express."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest
from scripts.count_lines import package_of
from tests.edge import every_call

import assay.client
from assay.core import answers
from assay.v1 import access_pb2

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
SOURCES = ("services", "runtime", "simulator", "proto")
MODULES_MAX = 14
FILES_MAX = 5
LINES_OFF_MAX, LINES_OFF_SHARE = 100, 0.04
CANDIDATES = {"tests/verifiers/solutions"}
"""Folders of responses that tests send, not of modules."""


def packages() -> dict[str, Path]:
    """Every package by its dotted name."""
    found = {}
    for source in SOURCES:
        for init in (ROOT / source / "assay").rglob("__init__.py"):
            name = ".".join(init.parent.relative_to(ROOT / source).parts)
            found[name] = init.parent
    return found


def test_the_page_names_every_package() -> None:
    named = re.findall(r"^\| `(assay\.[\w.]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(packages())


def test_the_files_to_touch_are_there() -> None:
    page = PAGE.read_text("utf-8").partition("## To change X")[2]
    files = re.findall(r"`([\w.]+/[\w./]+)`", page)
    assert len(files) > 25
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_a_change_touches_at_most_five_files() -> None:
    section = PAGE.read_text("utf-8").partition("## To change X")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (an? [^|]*|the [^|]*|KV[^|]*) \| (.*) \|$", section, re.MULTILINE)
    assert len(rows) >= 12
    for what, touched in rows:
        files = re.findall(r"`([\w.]+/[\w./]+)`(?! or)", touched)
        assert 1 <= len(files) <= FILES_MAX, f"{what}: {files}"


def tables_of(names: set[str], path: Path) -> list[list[str]]:
    """The literals of a module that list more than one of these names."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        entries = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        listed = [one.value for one in entries if isinstance(one, ast.Constant)]
        found.append([name for name in listed if name in names])
    return [table for table in found if len(table) > 1]


def test_only_the_contract_and_the_module_that_serves_it_list_rpcs() -> None:
    """A new RPC has no line to add to a table elsewhere: who may call it is an option of it."""
    names = {method.name for method in every_call.methods()}
    listing = {
        f"{path.relative_to(ROOT)}: {table}"
        for source in SOURCES
        for path in (ROOT / source).rglob("*.py")
        for table in tables_of(names, path)
        if path.name != "servicer.py" and "_pb2" not in path.name
    }
    assert listing == set()


def test_what_the_contract_defines_has_no_code_at_the_doors() -> None:
    methods = [
        one for one in every_call.methods() if one.containing_service.name == "RewardService"
    ]
    by_contract = {one.name for one in methods if one.GetOptions().Extensions[access_pb2.http]}
    doors = [ROOT / "services/assay/reward" / name for name in ("servicer.py", "http.py")]
    words = {word for door in doors for word in re.findall(r"\w+", door.read_text("utf-8"))}
    assert {"Submit", "ListPipelines"} <= words
    assert len(by_contract) >= 5
    assert by_contract & words == set()


def test_an_answer_is_exported_by_its_definition_alone() -> None:
    defined = {name for name, one in vars(answers).items() if is_dataclass(one)}
    assert defined == set(answers.__all__)
    assert defined <= set(assay.client.__all__)
    listed = [
        path
        for path in (ROOT / "services/assay/client").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.List)
        and defined & {one.value for one in node.elts if isinstance(one, ast.Constant)}
    ]
    assert listed == []


def folders_of_modules() -> Iterator[tuple[str, list[str]]]:
    """Every folder with the modules that are imported or run: generated ones and tests are not."""
    for top in (*SOURCES, "benchmarks", "scripts", "tests"):
        for folder in (ROOT / top, *(ROOT / top).rglob("*/")):
            name = str(folder.relative_to(ROOT))
            modules = [
                path.name
                for path in folder.glob("*.py")
                if not path.name.startswith("test_")
                and path.name not in {"__init__.py", "conftest.py"}
                and "_pb2" not in path.name
            ]
            if modules and name not in CANDIDATES:
                yield name, modules


@pytest.mark.parametrize(("name", "modules"), sorted(folders_of_modules()))
def test_a_package_is_small_enough_to_read(name: str, modules: list[str]) -> None:
    assert len(modules) <= MODULES_MAX, f"{name}: {modules}"


def test_every_folder_of_modules_is_looked_at() -> None:
    found = dict(folders_of_modules())
    assert {"services/assay/store", "benchmarks/planner", "tests/mutation"} <= found.keys()


def test_the_page_names_every_package_of_benchmarks() -> None:
    named = re.findall(r"^\| `(benchmarks\.\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    folders = [path.parent.name for path in (ROOT / "benchmarks").glob("*/__init__.py")]
    assert sorted(named) == sorted(f"benchmarks.{name}" for name in folders)


def test_the_table_of_lines_is_at_most_a_few_hundredths_old() -> None:
    """`python scripts/count_lines.py c71bd28 HEAD` prints it again."""
    section = PAGE.read_text("utf-8").partition("## Lines by package")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\w. ]+) \| [\d,]+ \| ([\d,]+) \|", section, re.MULTILINE)
    told = {name: int(count.replace(",", "")) for name, count in rows}
    found = lines_there()
    found["all packages"] = sum(n for name, n in found.items() if name.startswith("assay."))
    assert told.keys() == found.keys()
    stale = {
        name: f"{told[name]:,} lines in the table, {found[name]:,} in the tree"
        for name in told
        if abs(told[name] - found[name]) > max(LINES_OFF_MAX, LINES_OFF_SHARE * found[name])
    }
    assert stale == {}


def lines_there() -> Counter[str]:
    """Lines by package of the files that git tracks, as they are in the working tree."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    found: Counter[str] = Counter()
    for name in listed.stdout.decode().split("\0"):
        package = package_of(name)
        if package is not None and (ROOT / name).is_file():
            found[package] += (ROOT / name).read_bytes().count(b"\n")
    return found


def imported_on_import(tree: ast.AST) -> Iterator[str]:
    """The modules that importing a file imports: not those of functions, nor for types only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from (name for other in node.orelse for name in imported_on_import(other))
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from imported_on_import(node)


TRAINERS_OWN = {"roll_worker.py": {"roll", "torch"}, "verl_manager.py": {"verl"}}
"""Modules that a trainer loads by their path, for a class that is derived from its own."""


def test_what_an_adapter_imports_by_itself_is_assay_and_the_standard_library() -> None:
    """A trainer's package, numpy and torch are imported inside of functions only."""
    known = {"assay", *sys.stdlib_module_names}
    strangers = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "services/assay/integrations").rglob("*.py"))
        for name in imported_on_import(ast.parse(path.read_text("utf-8")))
        if name.partition(".")[0] not in known | TRAINERS_OWN.get(path.name, set())
    ]
    assert strangers == []


def test_no_module_imports_what_only_a_trainer_loads() -> None:
    own = {name.removesuffix(".py") for name in TRAINERS_OWN}
    importing = [
        f"{path.relative_to(ROOT)}: {node.module}"
        for source in SOURCES
        for path in sorted((ROOT / source).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        and own & {(node.module or "").rpartition(".")[2], *(alias.name for alias in node.names)}
    ]
    assert importing == []


def contracts_of_imports() -> list[dict[str, Any]]:
    """The contracts that `lint-imports` checks."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return found


def test_import_contracts_name_packages() -> None:
    """A new module of a package is held by the package's contracts, without a line for it."""
    named = {
        name
        for one in contracts_of_imports()
        for key in ("source_modules", "forbidden_modules", "containers")
        for name in one.get(key, ())
        if name.partition(".")[0] == "assay"
    }
    assert len(named) >= 20
    assert sorted(named - packages().keys()) == []


LAYERED = ("assay.planner", "assay.rollout")
"""Packages whose own packages are layers; the modules beside these are above all of them."""


def layers() -> set[str]:
    """The packages that a contract of layers has."""
    contracts = [one for one in contracts_of_imports() if one["type"] == "layers"]
    return {name for one in contracts for layer in one["layers"] for name in layer.split(" | ")}


def test_import_contracts_have_no_exemptions_and_layers_are_packages() -> None:
    contracts = contracts_of_imports()
    assert len(contracts) >= 10
    assert [one["name"] for one in contracts if "ignore_imports" in one] == []
    assert [one["name"] for one in contracts if one.get("exhaustive_ignores")] == []
    assert [one["name"] for one in contracts if one.get("containers")] == []
    assert sorted(layers() - packages().keys()) == []


@pytest.mark.parametrize("package", LAYERED)
def test_each_package_of_a_layered_one_is_a_layer(package: str) -> None:
    own = {name for name in packages() if name.rpartition(".")[0] == package}
    assert len(own) >= 4
    assert sorted(own - layers()) == []


@pytest.mark.parametrize("package", LAYERED)
def test_no_package_imports_the_modules_above_it(package: str) -> None:
    """`build` and `__main__` are not layers, because layers are packages; nothing is above them."""
    folder = packages()[package]
    above = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert "__main__" in above
    importing = [
        f"{path.relative_to(ROOT)}: {node.module}"
        for path in sorted(folder.rglob("*/*.py"))
        if path.parent != folder
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        and (
            (node.module == package and above & {alias.name for alias in node.names})
            or (node.module or "") in {f"{package}.{name}" for name in above}
        )
    ]
    assert importing == []
