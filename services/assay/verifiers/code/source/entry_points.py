"""Classifies the names that test code uses but does not define.

A pure function of the tests; it does not read any program, so none can influence it. A name is

* the program's: an *entry point*, which the tests exercise;
* the library's: a module, or a public name of one, for tests with a missing import;
* or undefined: using it raises `NameError`.

If the reference lists its entry points (`functions`), there are no others. Otherwise they are the
undefined names that the tests call, take attributes of, pass on, catch, or derive from, or that
they only compare with literals (`assert CACHE == {1: 2}`), and that are neither the library's nor
*trusted* by the tests (`judges.py`: `check_equal(f(2), 4)`, `f(2) == expected(2)`), nor begin with
`assert`. A name that could
belong to both the program and the library (`gcd`, `Counter`), or a builtin (`sum`), is the
library's, with two exceptions: an assertion that would otherwise not test the program
(`assert gcd(12, 8) == 4`), and tests that would exercise nothing at all.
"""

import ast
import builtins
import importlib
import symtable
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType, ModuleType
from typing import Final

from assay.verifiers.code.source.data_names import DATA_NAMES
from assay.verifiers.code.source.judges import judges_in

TESTS_REMEMBERED_MAX: Final = 256
_PACKAGES: Final = MappingProxyType(
    dict.fromkeys(("np", "numpy"), "numpy")
    | dict.fromkeys(("pd", "pandas"), "pandas")
    | {"sp": "sympy", "nx": "networkx", "plt": "matplotlib.pyplot", "tf": "tensorflow"}
    | {name: name for name in ("scipy", "sympy", "torch", "pytest", "networkx", "tensorflow")}
)
_SOURCES: Final = (
    *("collections", "math", "itertools", "functools", "heapq", "bisect", "fractions", "decimal"),
    *("copy", "datetime", "string", "unittest", "typing"),
)
"""Modules whose public names tests may use without an import, in order of precedence."""
_HELPERS: Final = frozenset(
    {"isclose", "isnan", "isinf", "isfinite", "inf", "nan", "approx", "deepcopy", "TestCase"}
    | {"Counter", "OrderedDict", "defaultdict", "deque", "namedtuple", "Fraction", "Decimal"}
)
"""Names for comparisons: always the library's."""
_TAKE_FUNCTIONS: Final = frozenset(
    {"map", "filter", "sorted", "callable", "isinstance", "issubclass", "type", "getattr"}
)
_TAKE_CLASSES: Final = frozenset(
    {"assertRaises", "assertRaisesRegex", "assertWarns", "assertIsInstance", "assertNotIsInstance"}
)
_ANSWERED: Final = frozenset({"repr", "str", "len", "hash", "bool", "abs", "int", "float"})
"""Builtins that ask an object about itself."""
_PROGRAM: Final = "solution"
"""The module by which tests import the program."""
_COMPARE: Final = ("assert", "close", "equal", "approx")
"""Substrings of the names of methods that compare their arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names that the tests leave undefined."""

    program: tuple[str, ...]
    """Entry points."""
    classes: tuple[str, ...]
    """Entry points named like classes on whose objects the tests use attributes that data lacks."""
    library: Mapping[str, str]
    """Name -> `module` or `module:attribute`."""


@dataclass(slots=True)
class _Uses:
    """How a name is used."""

    called: bool = False
    attribute: bool = False
    passed: bool = False
    """Caught, raised, entered, derived from, or passed to a call that may call it."""
    passed_to: set[str] = field(default_factory=set)
    """Functions that are called with this name."""

    def exercised(self, defined: Set[str]) -> bool:
        """Whether the tests do more than read its value."""
        called_on = self.passed_to & (defined | _TAKE_FUNCTIONS)
        return self.called or self.attribute or self.passed or bool(called_on)


@dataclass(slots=True)
class _Reading:
    """Names that several pieces of code define and use."""

    defined: set[str] = field(default_factory=set)
    used: dict[str, _Uses] = field(default_factory=dict)
    """Used names in the order of their first use."""
    asserted: list[set[str]] = field(default_factory=list)
    """The names in each assertion."""
    objects: set[str] = field(default_factory=set)
    """Names on whose results the tests use attributes that data types do not have."""
    data: set[str] = field(default_factory=set)
    """Names whose results the tests compare with data."""
    loads: Counter[str] = field(default_factory=Counter)
    """How often each name is read."""
    stated: Counter[str] = field(default_factory=Counter)
    """How often it is one side of a comparison in whose other sides there is no name."""
    judges: dict[str, set[str]] = field(default_factory=dict)
    """Trusted name -> names whose results it decides about."""
    imported: dict[str, str] = field(default_factory=dict)
    """What the tests call it -> a name that they import from the program."""

    def undefined(self) -> dict[str, _Uses]:
        return {name: uses for name, uses in self.used.items() if name not in self.defined}


@lru_cache(maxsize=TESTS_REMEMBERED_MAX)
def names_of(code: Sequence[str], setup: str, functions: Sequence[str]) -> Names:
    """Classify the undefined names of these tests.

    Args:
        code: the tests; a tuple.
        setup: the code that runs before them.
        functions: entry points that the reference lists; a tuple.

    Returns:
        Only `functions` for code that does not compile.
    """
    reading = _Reading()
    try:
        for text in (setup, *code):
            _read(text, reading)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Names(program=tuple(functions), classes=(), library=MappingProxyType({}))
    undefined = reading.undefined()
    library = {
        name: place
        for name, uses in undefined.items()
        if not hasattr(builtins, name) and (place := _library_place(name, uses))
    }
    program = functions or _entry_points(undefined, library, reading)
    kept = {name: place for name, place in library.items() if name not in program}
    called = {**{name: name for name in program}, **reading.imported}
    classes = [
        name
        for local, name in called.items()
        if name[:1].isupper() and "_" not in name and local in reading.objects - reading.data
    ]
    return Names(program=tuple(program), classes=tuple(classes), library=MappingProxyType(kept))


def _entry_points(
    undefined: Mapping[str, _Uses], library: Mapping[str, str], reading: _Reading
) -> list[str]:
    own = [name for name in undefined if name not in library and not hasattr(builtins, name)]
    own = [
        name
        for name in own
        if not name.startswith("assert")
        and not reading.judges.get(name, set()) & (set(own) - {name})
    ]
    exercised = [name for name in own if undefined[name].exercised(reading.defined)]
    if exercised or own:
        stated = [name for name in own if 0 < reading.loads[name] == reading.stated[name]]
        found = list(dict.fromkeys((*exercised, *stated))) if exercised else own
        return found + _subjects(undefined, library, reading)
    borrowed = [name for name in library if undefined[name].called]
    functions = [name for name in borrowed if name not in _HELPERS]
    return functions or borrowed or _shadowed_builtin(undefined)


def _subjects(
    undefined: Mapping[str, _Uses], library: Mapping[str, str], reading: _Reading
) -> list[str]:
    """Library names in assertions about nothing else."""
    able = {name for name in library if undefined[name].called and name not in _HELPERS}
    neutral = {name for name in library if name not in able} | set(dir(builtins))
    found = [names & able for names in reading.asserted if names <= able | neutral]
    return sorted(set().union(*found))


def _shadowed_builtin(undefined: Mapping[str, _Uses]) -> list[str]:
    """The builtin function that the tests call, if they call nothing else."""
    called = [
        name
        for name, uses in undefined.items()
        if uses.called and callable(getattr(builtins, name, None))
    ]
    is_type = [isinstance(getattr(builtins, name), type) for name in called]
    return called if len(called) == 1 and not is_type[0] else []


def _library_place(name: str, uses: _Uses) -> str:
    """Where the library defines it; empty if it does not."""
    if name in _PACKAGES and not uses.called:
        return _PACKAGES[name]
    if name in sys.stdlib_module_names and not uses.called:
        return name
    place = _public_names().get(name, "")
    if place.startswith("typing:") and uses.called:
        return ""  # a class under test; types for annotations are not called
    if not place and uses.called and name in sys.stdlib_module_names:
        return f"{name}:{name}" if _has(name, name) else ""
    return place


@lru_cache(maxsize=1)
def _public_names() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for source in _SOURCES:
        module = importlib.import_module(source)
        for name in _public(module):
            found.setdefault(name, f"{source}:{name}")
    return MappingProxyType(found)


def _public(module: ModuleType) -> Iterable[str]:
    listed: Iterable[str] = getattr(module, "__all__", None) or vars(module)
    return (
        name
        for name in listed
        if not name.startswith("_") and not isinstance(getattr(module, name, None), ModuleType)
    )


def _has(module: str, name: str) -> bool:
    """Import only modules that are safe and cheap to import."""
    return module in {"glob", "pprint", "time", "random", "copy", "bisect", "datetime"} and hasattr(
        importlib.import_module(module), name
    )


# --- reading -----------------------------------------------------------------------------------


def _read(text: str, reading: _Reading) -> None:
    tree = ast.parse(text)
    loaded: set[str] = set()
    _read_scope(symtable.symtable(text, "tests", "exec"), reading.defined, loaded)
    reading.imported |= _imported_from_program(tree)
    objects, data = _objects_in(_with_bare_names(tree, text))
    reading.objects |= objects
    reading.data |= data
    for judge, judged in judges_in(tree).items():
        reading.judges.setdefault(judge, set()).update(judged)
    for parent in ast.walk(tree):
        if isinstance(parent, ast.Name) and isinstance(parent.ctx, ast.Load):
            reading.loads[parent.id] += 1
        reading.stated.update(_stated_by(parent))
        if _is_assertion(parent):
            names = {node.id for node in ast.walk(parent) if isinstance(node, ast.Name)}
            reading.asserted.append(names - {"self"})
        for child, use in _names_under(parent):
            if child.id in loaded:
                uses = reading.used.setdefault(child.id, _Uses())
                if use.startswith("to "):
                    uses.passed_to.add(use.removeprefix("to "))
                elif use:
                    setattr(uses, use, True)


def _imported_from_program(tree: ast.AST) -> dict[str, str]:
    """What the tests call it -> its name in the program; for `import solution` all that they use
    of it."""
    found = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == _PROGRAM
        for alias in node.names
    }
    modules = _program_modules(tree)
    return found | {
        node.attr: node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in modules
    }


def _program_modules(tree: ast.AST) -> set[str]:
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == _PROGRAM
    }


class _BareNames(ast.NodeTransformer):
    """`solution.T` becomes `T`."""

    def __init__(self, modules: Set[str]) -> None:
        self._modules = modules

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in self._modules:
            return ast.Name(id=node.attr, ctx=node.ctx)
        return node


def _with_bare_names(tree: ast.AST, text: str) -> ast.AST:
    """The tree of `text`, with names of the program as they are there."""
    modules = _program_modules(tree)
    found: ast.AST = _BareNames(modules).visit(ast.parse(text)) if modules else tree
    return found


def _read_scope(scope: symtable.SymbolTable, defined: set[str], loaded: set[str]) -> None:
    """Classify the names of a scope and its nested scopes; only global ones count."""
    top = scope.get_type() == "module"
    for symbol in scope.get_symbols():
        is_global = top or symbol.is_global()
        if not is_global:
            continue
        if symbol.is_assigned() or symbol.is_imported() or (top and symbol.is_namespace()):
            defined.add(symbol.get_name())
        if symbol.is_referenced():
            loaded.add(symbol.get_name())
    for inner in scope.get_children():
        _read_scope(inner, defined, loaded)


def _objects_in(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Names whose results are used as objects, and names whose results are compared with data.

    Uses as objects: `T(2).area`, `t = T(2)` or `self.t = T(2)` with `t.area` or `self.t.area` (data
    types have no `area`), and
    `2 * T(3) == T(6)`, where the tests make the expected object themselves. A name on both sides
    proves no more than that: in `F(2) - 4 == (F(2) - 4) * 0`, `F` may be a function.
    """
    made: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        for target, value in _assigned(node):
            if (name := _called_name(value)) and (place := _dotted(target)):
                made.setdefault(place, set()).add(name)
    objects: set[str] = set()
    data: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr not in DATA_NAMES:
            objects |= made.get(_dotted(node.value), set()) | _bare_calls(node.value)
        sides = _compared(node)
        called = [_bare_calls(side) for side in sides]
        if len(sides) == 2:
            objects |= called[0] & called[1] & (_made_by(sides[0]) | _made_by(sides[1]))
        if any(not _names_in(side) for side in sides):
            data.update(*map(_valued, sides))
    return objects, data


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets and what is assigned to them."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr


def _dotted(node: ast.expr) -> str:
    """`t` or `self.t`; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _compared(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    return node.args if isinstance(node, ast.Call) and _is_assertion(node) else []


def _stated_by(node: ast.AST) -> Iterator[str]:
    """Names about whose value a comparison with literals says something."""
    sides = _compared(node)
    for at, side in enumerate(sides):
        if not any(_names_in(other) for other in sides[:at] + sides[at + 1 :]):
            inner = side
            if isinstance(side, ast.Call) and _called_name(side) == "len" and len(side.args) == 1:
                inner = side.args[0]
            elif isinstance(side, ast.Subscript) and not _names_in(side.slice):
                inner = side.value
            if isinstance(inner, ast.Name) and len(sides) > 1:
                yield inner.id


def _names_in(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Name) for inner in ast.walk(node))


def _made_by(side: ast.AST) -> set[str]:
    """The name whose call is the whole side, or each element of it."""
    parts = side.elts if isinstance(side, ast.List | ast.Tuple) else [side]
    names = {_called_name(part) for part in parts}
    return names - {""} if len(names) == 1 else set()


def _bare_calls(node: ast.AST) -> set[str]:
    """Names that are called in `node`, except if an attribute of the result is used."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        if not isinstance(inner, ast.Attribute):
            found.add(_called_name(inner))
            waiting.extend(ast.iter_child_nodes(inner))
    return found - {""}


def _valued(node: ast.AST) -> set[str]:
    """As `_bare_calls`, without names whose object only answers for itself, without an operand:
    `len(T(2)) == 3` and `T(2)[0] == 4` do not say that `T(2)` is data; `abs(T(2) - 4) < 1` does."""
    found: set[str] = set()
    waiting = [(node, True)]
    while waiting:
        inner, is_value = waiting.pop()
        if isinstance(inner, ast.Attribute):
            continue
        if is_value:
            found.add(_called_name(inner))
        if isinstance(inner, ast.BinOp):
            is_value = True
        elif isinstance(inner, ast.Subscript) or _called_name(inner) in _ANSWERED:
            is_value = False
        waiting.extend((child, is_value) for child in ast.iter_child_nodes(inner))
    return found - {""}


def _called_name(node: ast.AST) -> str:
    called = node.func if isinstance(node, ast.Call) else None
    return called.id if isinstance(called, ast.Name) else ""


def _names_under(parent: ast.AST) -> Iterator[tuple[ast.Name, str]]:
    """The names directly below a node, and how the node uses each."""
    if isinstance(parent, ast.Call):
        yield from _names([parent.func], "called")
        given = [*parent.args, *(word.value for word in parent.keywords)]
        yield from _names(given, _passing(parent.func))
    elif isinstance(parent, ast.Attribute):
        yield from _names([parent.value], "attribute")
    elif isinstance(parent, ast.ExceptHandler) and isinstance(parent.type, ast.Tuple):
        yield from _names(parent.type.elts, "passed")
    elif isinstance(
        parent, (ast.ExceptHandler, ast.Raise, ast.ClassDef, ast.withitem, ast.Starred)
    ):
        yield from _names(ast.iter_child_nodes(parent), "passed")
    else:
        yield from _names(ast.iter_child_nodes(parent), "")


def _is_assertion(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert):
        return True
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr.startswith("assert")


def _passing(called: ast.expr) -> str:
    """The use of a name that is an argument of this call."""
    if isinstance(called, ast.Name):
        return f"to {called.id}"
    if isinstance(called, ast.Attribute) and called.attr not in _TAKE_CLASSES:
        return "" if any(word in called.attr.lower() for word in _COMPARE) else "passed"
    return "passed"


def _names(nodes: Iterable[ast.AST], use: str) -> Iterator[tuple[ast.Name, str]]:
    return ((node, use) for node in nodes if isinstance(node, ast.Name))
