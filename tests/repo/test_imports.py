"""No module imports, at any place and by any way, a module that imports it.

Imports inside of functions and those for types only count: they delay a circle, and a reader goes
around in it all the same. What a module needs of one that uses it, it is given: a function, or a
protocol that it defines itself.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("services", "runtime", "simulator")


@cache
def modules() -> Mapping[str, Path]:
    """Every module written by hand, by its dotted name."""
    found = {}
    for source in SOURCES:
        for path in sorted((ROOT / source / "assay").rglob("*.py")):
            parts = path.relative_to(ROOT / source).with_suffix("").parts
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


def imported(name: str, tree: ast.AST, known: Mapping[str, object]) -> set[str]:
    """The known modules that this one imports by their names."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update({one if one in known else node.module for one in inside})
    return (found & known.keys()) - {name}


def circles(graph: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """For each module on a circle, the shortest way from it back to it."""
    for start in sorted(graph):
        ways = [[start]]
        seen: set[str] = set()
        for way in ways:  # grows while it is read
            for following in sorted(graph[way[-1]]):
                if following == start:
                    yield [*way, start]
                    ways.clear()
                    break
                if following not in seen:
                    seen.add(following)
                    ways.append([*way, following])


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = modules()
    graph = {
        name: imported(name, ast.parse(path.read_text("utf-8")), known)
        for name, path in known.items()
    }
    assert sum(map(len, graph.values())) > 2_000
    assert [" > ".join(way) for way in circles(graph)] == []


def test_a_circle_is_found_wherever_its_imports_are() -> None:
    texts = {
        "a": "def late():\n    from b import c\n",
        "b": "",
        "b.c": "if TYPE_CHECKING:\n    import d\n",
        "d": "from a import late",
        "e": "import a",
    }
    graph = {name: imported(name, ast.parse(text), texts) for name, text in texts.items()}
    assert list(circles(graph)) == [
        ["a", "b.c", "d", "a"],
        ["b.c", "d", "a", "b.c"],
        ["d", "a", "b.c", "d"],
    ]
