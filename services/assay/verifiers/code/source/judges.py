"""Undefined names whose results the tests trust: they are not the program's.

A pure function of the tests. A program that could define one would choose its own verdict. Three
kinds of names are trusted:

* a *judge*: its verdict on another function's result and something else is all that is looked at;
* an *agreement*, by its name (`is_close`, `utils.almost_equal`): the same wherever it is written,
  and on a result that was put into a variable first;
* an *oracle*, by its name: what a result is compared with (`expected(2)`, `gold.value`,
  `approx(4)`), or what the tests loop over (`cases.items()`).
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_AGREEMENT: Final = frozenset(
    {"close", "isclose", "allclose", "approx", "approximately", "almost", "near", "nearly"}
    | {"equal", "equals", "same", "identical", "differ", "differs", "agree", "agrees", "within"}
)
_CHECKS: Final = frozenset(
    {"check", "compare", "judge", "grade", "expect", "correct", "is_correct", "is_right", "ok"}
    | {f"check_{what}" for what in ("answer", "result", "output", "solution")}
)
"""Agreements where no number or text is compared with their result."""
_ROUNDED: Final = frozenset({"close", "approx", "approximately", "almost"})
_ORACLE: Final = _ROUNDED | {"expected", "oracle", "brute", "bruteforce", "gold", "golden", "truth"}
_ORACLES: Final = frozenset({"reference", "reference_solution"})
_CASES: Final = frozenset(
    {"cases", "test_cases", "testcases", "tests", "test_data", "testdata", "fixtures", "examples"}
    | {"expected", "answers"}
)
_PASSES: Final = 3
"""Assignments of variables to variables that are followed."""

Trusts = dict[str, set[str]]
"""Trusted name -> the names whose results it decides about."""
Judgements = Sequence[tuple[str, set[str]]]
Variables = Mapping[str, set[str]]
"""Variable of the tests -> the names whose results it holds."""


def judges_in(tree: ast.AST) -> Trusts:
    """Trusted names and the names whose results they decide about, wherever those are defined."""
    found: Trusts = {}
    made, looped = _variables(tree)
    measured = _measured(tree)
    for node in ast.walk(tree):
        trusted = _judged_under(node)
        if isinstance(node, ast.Call):
            trusted = (*trusted, *_agreement(node, made, looped, is_measured=id(node) in measured))
        for judge, judged in (*trusted, *_oracles(node, made)):
            found.setdefault(judge, set()).update(judged - {judge})
    everything = {name for node in ast.walk(tree) for name in _called(node)}
    for name in _looped_over(tree):
        found.setdefault(name, set()).update(everything - {name})
    return found


# --- by position -------------------------------------------------------------------------------


def _judged_under(node: ast.AST) -> Judgements:
    """Functions called for their truth or exceptions, with the names whose results they judge."""
    if not isinstance(node, (ast.Expr, ast.Assert)):
        return ()
    trusted = []
    waiting: list[ast.expr] = [node.value if isinstance(node, ast.Expr) else node.test]
    while waiting:
        found = waiting.pop()
        if isinstance(found, ast.UnaryOp):
            waiting.append(found.operand)
        elif isinstance(found, ast.BoolOp):
            waiting.extend(found.values)
        elif isinstance(found, ast.Compare) and _is_truth(found.comparators[-1]):
            waiting.append(found.left)
        elif isinstance(found, ast.Call) and isinstance(found.func, ast.Name):
            given = _given(found)
            called = [each.func for each in given if isinstance(each, ast.Call)]
            if len(given) > 1:
                names = {each.id for each in called if isinstance(each, ast.Name)}
                trusted.append((found.func.id, {name for name in names if name[:1].islower()}))
    return trusted


def _is_truth(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (bool, type(None)))


# --- by name -----------------------------------------------------------------------------------


def _agreement(
    call: ast.Call, made: Variables, looped: Variables, *, is_measured: bool
) -> Judgements:
    """A call that says by its name that it compares a result with something that is not one."""
    root = _root(call.func)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else root
    says = not _AGREEMENT.isdisjoint(_words(name)) or (name in _CHECKS and not is_measured)
    if root in ("", "self") or not says:
        return ()
    given = _given(call)
    if len(given) == 1 and isinstance(given[0], ast.Starred):
        given = getattr(given[0].value, "elts", [])
    results = [_results(each, {**looped, **made}) for each in given]
    is_other = [not _results(each, made) for each in given]
    states = len(given) == 1 and isinstance(given[0], ast.Compare | ast.BoolOp)
    if states or (any(results) and any(is_other) and len(given) > 1):
        return [(root, set().union(*results))]
    return ()


def _oracles(node: ast.AST, made: Variables) -> Judgements:
    """Names in a comparison that say that they hold what is expected of the others."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        sides = node.args if "assert" in node.func.attr.lower() else []
    else:
        return ()
    trusted = []
    for at, side in enumerate(sides):
        others = set().union(*(_results(other, made) for other in sides[:at] + sides[at + 1 :]))
        roots = _roots(side) | _results(side, made)
        trusted += [(root, others - {root}) for root in roots if _is_oracle(root)]
    return trusted


def _is_oracle(name: str) -> bool:
    return name in _ORACLES or not _ORACLE.isdisjoint(_words(name))


def _looped_over(tree: ast.AST) -> Iterator[str]:
    """Names of cases: the program would choose what it is tested with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            yield from (name for name in _roots(node.iter) if name in _CASES)


# --- expressions -------------------------------------------------------------------------------


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(name)}


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(word.value for word in call.keywords)]


def _root(node: ast.expr) -> str:
    """`a` of `a`, `a.b` and `a.b.c`; empty for anything else."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _called(node: ast.AST) -> set[str]:
    return {_root(node.func)} - {""} if isinstance(node, ast.Call) else set()


def _inner(node: ast.AST) -> Iterator[ast.AST]:
    """The node and what it consists of, without functions that may never be called."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        if not isinstance(found, ast.Lambda):
            waiting.extend(ast.iter_child_nodes(found))


def _results(node: ast.AST, made: Variables) -> set[str]:
    """Names whose results are in this expression, also by way of a variable."""
    found: set[str] = set()
    for inner in _inner(node):
        found |= _called(inner)
        if isinstance(inner, ast.Name):
            found |= made.get(inner.id, set())
    return found


def _roots(node: ast.AST) -> set[str]:
    return {inner.id for inner in _inner(node) if isinstance(inner, ast.Name)}


def _variables(tree: ast.AST) -> tuple[Variables, Variables]:
    """Variables and the names whose results they hold: assigned ones, and those of loops.

    Of a loop, every name in what it runs over counts: `map(f, cases)` has results of `f`.
    """
    made: dict[str, set[str]] = {}
    looped: dict[str, set[str]] = {}
    assigned = [pair for node in ast.walk(tree) for pair in _assigned(node)]
    for _ in range(_PASSES):
        for name, value in assigned:
            made.setdefault(name, set()).update(_results(value, made))
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            for inner in ast.walk(node.target):
                if isinstance(inner, ast.Name):
                    looped.setdefault(inner.id, set()).update(_roots(node.iter))
    return made, looped


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    targets: Sequence[ast.expr] = ()
    value: ast.expr | None = None
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
        targets, value = [node.target], node.value
    if value is not None:
        yield from ((target.id, value) for target in targets if isinstance(target, ast.Name))


def _measured(tree: ast.AST) -> set[int]:
    """`id` of sides of comparisons with anything but a truth: `compare(f(2), 4) == 0`."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if not any(map(_is_truth, sides)):
                found.update(map(id, sides))
    return found
