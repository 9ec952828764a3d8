"""docs/glossary.md and the code use the same words.

The page's tables are read; each word in their columns must be there: messages, fields and methods
of the proto, names that the code defines, labels and names of metrics, keys of log events.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

import pytest

from assay.core.outcome import Outcome
from assay.core.records import BatchState
from assay.edge.metrics import Metrics
from assay.v1 import common_pb2, planner_pb2, reward_pb2, rollout_pb2, worker_pb2

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
SOURCES = ("services", "runtime", "simulator")
PROTO_FILES: tuple[Any, ...] = (
    common_pb2.DESCRIPTOR,
    planner_pb2.DESCRIPTOR,
    reward_pb2.DESCRIPTOR,
    rollout_pb2.DESCRIPTOR,
    worker_pb2.DESCRIPTOR,
)
LOG_CALLS = frozenset(
    {"debug", "info", "warning", "error", "critical", "exception", "bound", "bind_contextvars"}
)

Row = Mapping[str, str]


def rows(*first_columns: str) -> list[Row]:
    """The rows of the page's table whose first columns are called that."""
    lines = GLOSSARY.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(head_of(first_columns)))
    head = cells(lines[start])
    table: list[Row] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        table.append(dict(zip(head, cells(line), strict=True)))
    return table


def head_of(columns: tuple[str, ...]) -> str:
    return f"| {' | '.join(columns)} |"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def words(column: str) -> list[str]:
    """All that stands in backticks in a column of the first table."""
    return [word for row in rows("word") for word in re.findall(r"`([^`]+)`", row[column])]


def proto_names() -> set[str]:
    names = set()
    for file in PROTO_FILES:
        names |= {*file.message_types_by_name, *file.enum_types_by_name, *file.services_by_name}
        for message in file.message_types_by_name.values():
            names |= {field.name for field in message.fields}
        for service in file.services_by_name.values():
            names |= {method.name for method in service.methods}
    return names


def modules() -> Iterator[ast.Module]:
    for root in SOURCES:
        for path in sorted((ROOT / root / "assay").rglob("*.py")):
            yield ast.parse(path.read_text(encoding="utf-8"))


@cache
def python_names() -> frozenset[str]:
    """Packages, classes, functions, members (`Lease.fence`), and what they are called in short."""
    names = {
        f"assay.{init.parent.name}"
        for root in SOURCES
        for init in (ROOT / root).glob("*/*/__init__.py")
    }
    for module in modules():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                members = set(members_of(node))
                names |= {node.name, *members, *(f"{node.name}.{one}" for one in members)}
            elif is_function(node):
                names.add(node.name)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                names.add(node.targets[0].id)
    return frozenset(names)


def members_of(node: ast.ClassDef) -> Iterator[str]:
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            yield one.target.id
        elif is_function(one):
            yield one.name


@cache
def log_keys() -> frozenset[str]:
    """Keys of log events: named in the call, or by a function whose dict the call unpacks."""
    keys: set[str] = set()
    for module in modules():
        dicts = {node.name: dict_keys(node) for node in ast.walk(module) if is_function(node)}
        for node in ast.walk(module):
            if not (isinstance(node, ast.Call) and called(node.func) in LOG_CALLS):
                continue
            keys |= {keyword.arg for keyword in node.keywords if keyword.arg}
            for value in (keyword.value for keyword in node.keywords if keyword.arg is None):
                keys |= (
                    dicts.get(called(value.func), set()) if isinstance(value, ast.Call) else set()
                )
    return frozenset(keys)


def is_function(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def called(function: ast.expr) -> str:
    return getattr(function, "attr", "") or getattr(function, "id", "")


def dict_keys(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    return {
        key.value
        for value in returned
        if isinstance(value, ast.Dict)
        for key in value.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


@cache
def metrics() -> Mapping[str, tuple[str, tuple[str, ...]]]:
    """Name -> type and labels."""
    collectors: list[Any] = list(Metrics().registry._collector_to_names)
    found = {}
    for collector in collectors:
        (family,) = collector.describe()
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = (family.type, tuple(collector._labelnames))
    return found


@cache
def help_texts() -> Mapping[str, str]:
    """Name -> help, as `/metrics` shows it."""
    collectors: list[Any] = list(Metrics().registry._collector_to_names)
    families = [family for collector in collectors for family in collector.describe()]
    return {
        f"{one.name}_total" if one.type == "counter" else one.name: one.documentation
        for one in families
    }


def test_every_word_of_the_proto_column_is_in_the_proto() -> None:
    known = proto_names()
    missing = [
        word
        for word in words("proto")
        if not any(re.fullmatch(word.replace("*", ".+"), n) for n in known)
    ]
    assert missing == []


def test_every_word_of_the_python_column_is_defined_in_the_code() -> None:
    missing = [
        word
        for word in words("Python")
        if not any(re.fullmatch(word.replace("*", ".+"), n) for n in python_names())
    ]
    assert missing == []


def test_every_word_of_the_metric_column_is_a_metric_a_label_or_a_log_key() -> None:
    known = {*metrics(), *(label for _, labels in metrics().values() for label in labels)}
    assert [
        word for word in words("metric label / log key") if word not in known | log_keys()
    ] == []


def test_a_word_has_one_row() -> None:
    names = [row["word"] for row in rows("word")]
    assert len(names) == len(set(names))


def test_the_outcomes_are_those_of_the_code_and_of_the_proto() -> None:
    page = [row["outcome"].strip("`") for row in rows("outcome", "whose doing")]
    assert page == [outcome.value for outcome in Outcome]
    values = common_pb2.DESCRIPTOR.enum_types_by_name["Outcome"].values
    assert [f"OUTCOME_{name}" for name in page] == [one.name for one in values if one.number]


def test_the_page_says_which_outcomes_have_a_reward() -> None:
    page = {
        row["outcome"].strip("`"): row["reward"].startswith("present")
        for row in rows("outcome", "whose doing")
    }
    assert page == {outcome.value: outcome.carries_reward for outcome in Outcome}


def test_the_states_of_a_batch_are_those_of_the_proto() -> None:
    values = reward_pb2.DESCRIPTOR.enum_types_by_name["BatchState"].values
    states = {f"BATCH_STATE_{state.name}" for state in BatchState}
    assert states == {one.name for one in values if one.number}


@pytest.mark.parametrize("name", sorted(metrics()))
def test_a_metric_is_named_with_its_unit_last(name: str) -> None:
    kind, _ = metrics()[name]
    ends = {"histogram": ("_seconds", "_bytes", "_versions"), "counter": ("_total",)}
    assert name.startswith("assay_")
    assert name.endswith(ends.get(kind, "")), "see the head of docs/glossary.md"


UNITS = {"_seconds": "seconds", "_versions": "versions", "_bytes": "bytes"}


@pytest.mark.parametrize("name", sorted(metrics()))
def test_the_help_of_a_metric_names_its_unit_and_its_labels(name: str) -> None:
    """A reader of `/metrics` alone sees what is counted, in which unit, and per what."""
    words = help_texts()[name].lower()
    for ending, unit in UNITS.items():
        assert not name.endswith(ending) or unit in words
    for label in metrics()[name][1]:
        assert label.removesuffix("_id") in words, f"{name}: {words}"


def test_every_metric_stands_in_the_pages_table() -> None:
    page = {row["metric"].strip("`") for row in rows("metric")}
    assert page == set(metrics())


def test_the_pages_labels_of_a_metric_are_its_labels() -> None:
    page = {
        row["metric"].strip("`"): tuple(re.findall(r"`(\w+)`", row["labels"]))
        for row in rows("metric")
    }
    assert page == {name: labels for name, (_, labels) in metrics().items()}
