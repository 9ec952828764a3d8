"""House rules of the layout that no linter knows."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = ("services", "runtime", "simulator", "proto")
LINES_MAX = 60
FILE_LINES_MAX = 500
LONG_FOR_A_REASON = frozenset(
    {
        # A compiled recursion: in parts it is slower.
        ("services/assay/model/queueing.py", "serve"),
    }
)


def test_no_portion_of_the_namespace_has_an_init_module() -> None:
    hiding = [root for root in SOURCE_ROOTS if (ROOT / root / "assay" / "__init__.py").exists()]
    assert hiding == [], "an __init__.py here hides the other portions of the namespace"


def test_a_source_root_holds_nothing_but_the_namespace() -> None:
    for root in SOURCE_ROOTS:
        strays = [p.name for p in (ROOT / root).iterdir() if p.name not in {"assay", "__pycache__"}]
        assert strays == [], f"{root}/ is on sys.path of an editable install"


def test_every_package_is_typed() -> None:
    packages = [
        init.parent
        for root in SOURCE_ROOTS
        for init in (ROOT / root / "assay").glob("*/__init__.py")
    ]
    assert packages
    assert [p.name for p in packages if not (p / "py.typed").exists()] == []


def sources(*folders: str) -> Iterator[tuple[str, str]]:
    """The Python files of these folders that are written by hand, with their text."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "_pb2" not in path.name:
                yield str(path.relative_to(ROOT)), path.read_text("utf-8")


def test_nothing_is_imported_from_a_conftest() -> None:
    form = re.compile(
        r"^ *(from \S*\bconftest|from tests\S* import .*\bconftest|import \S*conftest)", re.M
    )
    importing = [path for path, text in sources("tests", "benchmarks") if form.search(text)]
    assert importing == [], "a conftest.py has fixtures; what tests import is a module beside it"


def test_functions_are_short() -> None:
    long = [
        f"{path}: {node.name} ({length} lines)"
        for path, text in sources(*SOURCE_ROOTS, "tests", "benchmarks", "examples", "scripts")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > LINES_MAX
        and (path, node.name) not in LONG_FOR_A_REASON
    ]
    assert long == []


def test_files_are_short() -> None:
    """Generated files aside; a page of a manual or of tests may be longer."""
    long = [
        f"{path.relative_to(ROOT)}: {length} lines"
        for root in SOURCE_ROOTS
        for path in sorted((ROOT / root).rglob("*"))
        if path.suffix in {".py", ".c", ".h", ".lua"} and "_pb2" not in path.name
        if (length := path.read_text("utf-8").count("\n")) > FILE_LINES_MAX
    ]
    assert long == []


def test_pauses_double_in_one_place() -> None:
    """Back-off is `assay.core.tools.backoff`; the client's, which draws, is its own."""
    doubling = re.compile(r"2(?:\.0)? ?\*\* ?min\(|<< ?min\(")
    found = {
        str(path.relative_to(ROOT))
        for source in ("services", "runtime", "simulator")
        for path in (ROOT / source).rglob("*.py")
        if doubling.search(path.read_text("utf-8"))
    }
    assert found == {"services/assay/core/tools/backoff.py"}
