"""A docstring says more than its name, or is not there.

No docstring has fewer than `WORDS_MIN` words or only the words of the name. "See `Port.method`"
belongs to the methods that implement a protocol or an abstract class; the text is there.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
AREAS = ("services", "runtime", "simulator", "benchmarks", "examples", "scripts", "tests")
WORDS_MIN = 3
FILLERS = frozenset(
    {"a", "an", "the", "of", "one", "this", "its", "it", "is", "are", "for", "to", "and", "with"}
    | {"as", "by", "in", "that"}
)
FRAGMENT = re.compile(r"(?:Of|Those|These|Whatever|All of it|One of them)\b")
FRAGMENT_WORDS = 5
"""A docstring that begins so has a subject, or more words than these."""
PORTS = frozenset({"Protocol", "ABC"})


class Documented(NamedTuple):
    """A function or a class with a docstring."""

    where: str
    name: str
    text: str
    is_method: bool


class Read(NamedTuple):
    """What this test needs of a module."""

    documented: list[Documented]
    ports: dict[str, set[str]]
    """The methods of protocols and abstract classes, with the names of their bases."""


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definitions(
    body: list[ast.stmt], *, of_class: bool = False
) -> Iterator[tuple[Definition, bool]]:
    """Each definition, and whether it is in the body of a class; expressions have none."""
    for one in body:
        if isinstance(one, Definition):
            yield one, of_class
            yield from definitions(one.body, of_class=isinstance(one, ast.ClassDef))
        elif isinstance(one, ast.If | ast.Try | ast.With | ast.AsyncWith | ast.For):
            yield from definitions(one.body, of_class=of_class)
            yield from definitions(getattr(one, "orelse", []), of_class=of_class)


def read(code: str, where: str) -> Read:
    found, ports = [], {}
    for one, is_method in definitions(ast.parse(code).body):
        text = " ".join((ast.get_docstring(one) or "").split())
        if text:
            found.append(Documented(f"{where}:{one.lineno}", one.name, text, is_method))
        if isinstance(one, ast.ClassDef):
            bases = {ast.unparse(base).partition("[")[0].split(".")[-1] for base in one.bases}
            if bases & PORTS:
                ports[one.name] = {own.name for own in one.body if hasattr(own, "name")} | bases
    return Read(found, ports)


@cache
def modules(area: str) -> list[Read]:
    return [
        read(path.read_text("utf-8"), str(path.relative_to(ROOT)))
        for path in sorted((ROOT / area).rglob("*.py"))
        if "_pb2" not in path.name
    ]


@cache
def all_ports() -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    for area in AREAS:
        for module in modules(area):
            for name, methods in module.ports.items():
                known[name] = known.get(name, set()) | methods
    return known


def has(port: str, method: str, known: dict[str, set[str]]) -> bool:
    """Whether a port, or one that it extends, has the method."""
    names = known.get(port, set())
    return method in names or any(
        has(base, method, known) for base in (names & set(known)) - {port}
    )


def fault(one: Documented, known: dict[str, set[str]]) -> str:
    """What is wrong with a docstring; empty: nothing."""
    words = re.findall(r"\w+", one.text.lower())
    name = {word.lower().rstrip("s") for word in re.findall(r"[A-Za-z][a-z0-9]*", one.name)}
    if reference := re.match(r"See `([\w.]+)`", one.text):
        owner, _, last = reference[1].rpartition(".")
        is_port = has(last, one.name, known) or (
            last == one.name and has(owner.rpartition(".")[2], last, known)
        )
        return (
            "" if one.is_method and is_port else "refers to what is not a port that it implements"
        )
    if len(words) <= FRAGMENT_WORDS and FRAGMENT.match(one.text):
        return "does not say of what"
    if len(words) < WORDS_MIN:
        return f"fewer than {WORDS_MIN} words"
    if {word.rstrip("s") for word in words if word not in FILLERS} <= name:
        return "only repeats the name"
    return ""


@pytest.mark.parametrize("area", AREAS)
def test_a_docstring_says_more_than_the_name(area: str) -> None:
    faults = [
        f"{one.where} {one.name}: {one.text!r} {why}"
        for module in modules(area)
        for one in module.documented
        if (why := fault(one, all_ports()))
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ('def close():\n    """Close."""', "fewer than 3 words"),
        ('class BatchResult:\n    """The result of one batch."""', "only repeats the name"),
        ('def dtype():\n    """Of its elements."""', "does not say of what"),
        ('def dtype():\n    """Of its elements, as numpy spells their type."""', ""),
        ('class Kept:\n    def put(self):\n        """See `Store.put`."""', ""),
        ('class Kept:\n    def put(self):\n        """See `Larger`."""', ""),
        (
            'class Kept:\n    def get(self):\n        """See `Store.put`."""',
            "refers to what is not",
        ),
        (
            'class Kept:\n    def put(self):\n        """See `Thing.put`."""',
            "refers to what is not",
        ),
        ('def put():\n    """See `Store.put`."""', "refers to what is not"),
        ('def put():\n    """Keep it as long as its batch."""', ""),
    ],
)
def test_faults_are_found(code: str, why: str) -> None:
    known = read(
        "class Store(Protocol):\n    def put(self): ...\n"
        "class Larger(Store, Protocol): ...\n"
        "class Thing:\n    def put(self): ...\n",
        "ports",
    ).ports
    (found,) = read(code, "x").documented
    assert fault(found, known).startswith(why)
    assert bool(fault(found, known)) == bool(why)
