"""Objects of the tests that the program received, and the operations it may request on them.

The program names an object by number and an operation from the table below. Invariants: no name
that begins with an underscore is read or set. Attributes are read or set only on objects whose
class the tests define or the list below contains. So no frame, module or class of the referee can
be reached. The methods by which a mock or a test case judges, or learns what to find, are the
tests' own: `mock.configure_mock(assert_called_with=...)` would replace the judgement.
"""

from __future__ import annotations

import importlib
import io
import operator
import os
import random
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from assay.verifiers.code.referee.stand_ins import REPLACED, SPECIAL
from assay.verifiers.code.referee.values import Malformed, Value, WireForm, index_of, type_of

if TYPE_CHECKING:
    from collections.abc import Callable

LENT_MAX: Final = 200_000
TESTS: Final = "tests"
"""Module name of the classes and functions that the tests define."""
_STATE: Final = random.getstate
_ENVIRON: Final = type_of(os.environ)
_PATCHED: Final = re.compile(r"""patch(?:\.dict)?\(\s*['"]([A-Za-z_][\w.]*\.\w+)['"]""")
_PATCHED_OBJECT: Final = re.compile(r"""patch\.object\(\s*([A-Za-z_][\w.]*)\s*,\s*['"](\w+)['"]""")
_JUDGES: Final = frozenset({"unittest.mock", "unittest.case", "unittest.async_case"})
"""Modules whose classes judge the program."""
_OPEN_TYPES: Final = (SimpleNamespace, io.StringIO, io.BytesIO, re.Pattern, re.Match)
_COMPARED: Final = frozenset(
    {"eq", "lt", "le", "gt", "ge", "add", "sub", "mul", "truediv", "mod", "contains"}
)


class Lent:
    """The objects; each keeps its number until the run ends."""

    def __init__(self) -> None:
        self._objects: list[Any] = []
        self._number_of: dict[int, int] = {}

    def form(self, value: Value) -> WireForm | None:
        """The form in which an object is sent to the program; `None` if it cannot be sent."""
        tag = _tag(value)
        if not tag:
            return None
        name: Value = getattr(value, "__name__", None) or type_of(value).__name__
        kind = type_of(value)
        special = [method for method in SPECIAL if _defines(kind, method)] if tag == "o" else []
        return [tag, self.number(value), str(name)[:80], special]

    def number(self, value: Value) -> int:
        """The object's number."""
        number = self._number_of.get(id(value))
        if number is None:
            number = len(self._objects)
            if number >= LENT_MAX:
                raise Malformed("too many objects of the tests")
            self._objects.append(value)
            self._number_of[id(value)] = number
        return number

    def resolve(self, number: WireForm) -> Value:
        """The object with the number that the program sent."""
        try:
            return self._objects[index_of(number, len(self._objects))]
        except ValueError:
            raise Malformed("an unknown object of the tests") from None

    def touch(self, number: WireForm, operation: WireForm, operands: list[Value]) -> Value:
        """Carry out the operation that the program requests.

        Raises:
            Malformed: the operation is unknown or not allowed.
        """
        value = self.resolve(number)
        if type_of(operation) is not str or operation not in _OPERATIONS or not _tag(value):
            raise Malformed("an unknown operation")
        if operation in ("get", "set"):
            _check_attribute(value, operands[0])
        return _OPERATIONS[operation](value, *operands)


def _tag(value: Value) -> str:
    """`k` is callable, `I` is an iterator, `o` has attributes; empty if none of these."""
    kind = type_of(value)
    if _is_open(value):
        return "k" if callable(value) and not isinstance(value, type) else "o"
    if callable(value):
        return "k"
    return "I" if hasattr(kind, "__next__") else ""


def _is_open(value: Value) -> bool:
    kind = type_of(value)
    return kind in _OPEN_TYPES or kind.__module__ in (TESTS, "unittest.mock")


def _defines(kind: type, method: str) -> bool:
    found = getattr(kind, method, None)
    return found is not None and found is not getattr(object, method, None)


def _check_attribute(value: Value, name: Value) -> None:
    if type_of(name) is not str or name.startswith("_") or not _is_open(value):
        raise Malformed("a forbidden attribute")
    if _judges(type_of(value), name):
        raise Malformed("a method that judges the program")


def _judges(kind: type, name: str) -> bool:
    """Whether `name` is a method that a mock or a test case has from its library class."""
    found = getattr(kind, name, None)
    bases = [base for base in kind.__mro__ if name in vars(base)]
    return callable(found) and bool(bases) and bases[0].__module__ in _JUDGES


def _set(value: Value, name: Value, given: Value) -> None:
    """Set an attribute; methods of the tests and attributes of their mocks cannot be replaced."""
    if type_of(value).__module__ == "unittest.mock" or callable(
        getattr(type_of(value), name, None)
    ):
        raise Malformed("the replacement of a method of the tests")
    setattr(value, name, given)


def _operated(value: Value, name: Value, other: Value) -> Value:
    if type_of(name) is not str or name not in _COMPARED:
        raise Malformed("an unknown operator")
    return getattr(operator, name)(value, other)


def _called(value: Value, arguments: Value, keywords: Value) -> Value:
    if not callable(value):
        raise Malformed("a call of an object that is not callable")
    return value(*arguments, **{str(word): given for word, given in keywords.items()})


_OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "call": _called,
    "get": lambda value, name: getattr(value, name),
    "set": _set,
    "next": lambda value: next(value),
    "iter": lambda value: iter(value),
    "getitem": lambda value, key: value[key],
    "setitem": lambda value, key, given: operator.setitem(value, key, given),
    "delitem": lambda value, key: operator.delitem(value, key),
    "contains": lambda value, item: item in value,
    "operator": _operated,
    "enter": lambda value: value.__enter__(),
    "exit": lambda value: value.__exit__(None, None, None),
    "len": lambda value: len(value),
    "bool": lambda value: bool(value),
    "str": lambda value: str(value),
    "repr": lambda value: repr(value),
    "hash": lambda value: hash(value),
    "int": lambda value: int(value),
    "float": lambda value: float(value),
    "index": lambda value: operator.index(value),
}


class Streams:
    """What the tests substituted for the referee's own streams and for functions of the library."""

    def __init__(self, lent: Lent, texts: str) -> None:
        """Remember what is there before the tests run.

        Args:
            texts: theirs; what they patch by name is looked at too.
        """
        self._lent = lent
        self._own = (sys.stdin, sys.stdout, sys.stderr)
        named = {(module, name) for module, names in REPLACED.items() for name in names}
        self._functions = [
            (vars(found), module, name, vars(found)[name])
            for module, name in sorted(named | _patched(texts))
            if (found := sys.modules.get(module)) is not None and name in vars(found)
        ]

    def form(self) -> WireForm:
        """Whether output is captured, the substitute for stdin, and those for functions."""
        stdin, stdout, stderr = self._own
        return [
            sys.stdout is not stdout,
            None if sys.stdin is stdin else self._lent.form(sys.stdin),
            [
                [module, name, form]
                for names, module, name, own in self._functions
                if (found := names.get(name)) is not own
                and (form := self._lent.form(found)) is not None
            ],
            sys.stderr is not stderr,
        ]


def _patched(texts: str) -> set[tuple[str, str]]:
    """Modules and names of theirs that the tests patch; the modules are imported."""
    found = set()
    for dotted in [*_PATCHED.findall(texts), *map(".".join, _PATCHED_OBJECT.findall(texts))]:
        module, _, name = dotted.rpartition(".")
        try:
            module = importlib.import_module(module).__name__
        except (ImportError, ValueError):
            continue
        if module != "solution":
            found.add((module, name))
    return found


class Surroundings:
    """What tests change for the program without a call: variables, arguments, the directory, and
    the seed of `random`. It goes to the program only; nothing of the program's comes back."""

    def __init__(self, texts: str) -> None:
        """Remember what is there before the tests run; `texts` are theirs."""
        self._env = dict(os.environ)
        self._seen = _environment()
        self._argv = list(sys.argv)
        self._moves = "chdir" in texts
        self._cwd = str(Path.cwd())
        self._seeded = False
        if "random" in texts:
            for name in ("seed", "setstate", "getstate"):
                vars(random)[name] = self._watched(vars(random)[name])

    def news(self) -> list[WireForm]:
        """What changed since the last request."""
        news: list[WireForm] = []
        if (seen := _environment()) != self._seen:
            env = dict(os.environ)
            names = {name for name, _ in env.items() ^ self._env.items()}
            news += [["env", name, env.get(name)] for name in sorted(names)]
            self._env, self._seen = env, seen
        if sys.argv != self._argv:
            self._argv = list(sys.argv)
            if all(type_of(word) is str for word in self._argv):
                news.append(["argv", self._argv])
        cwd = str(Path.cwd()) if self._moves else self._cwd
        if cwd != self._cwd:
            news.append(["cwd", cwd])
        if self._seeded:
            version, numbers, gauss = _STATE()
            news.append(["random", version, list(numbers), gauss])
        self._cwd, self._seeded = cwd, False
        return news

    def _watched(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """The program resumes from the state in which the tests are at their next request."""

        def watched(*given: Value, **named: Value) -> Value:
            self._seeded = True
            return own(*given, **named)

        return watched


def _environment() -> dict[Any, Any]:
    """The variables to compare, not yet decoded: that would be paid at each request.

    Tests may have put a dict in place of `os.environ`.
    """
    return dict(vars(os.environ)["_data"] if type_of(os.environ) is _ENVIRON else os.environ)
