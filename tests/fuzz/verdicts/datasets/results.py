"""Values that functions return: the expected one in another type, and others that look like it.

The rules of `calls` say which types are one: a tuple for a list, a number for one of the same value,
JSON's texts for keys, and whatever a class of the program derives from these.
"""

import json
import random
from typing import TYPE_CHECKING, Any, Final

from tests.fuzz.verdicts.case import Case, Expected

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD: Final = """
import array, collections, decimal, enum, fractions, itertools, types, typing
D, F = decimal.Decimal, fractions.Fraction
class N(int): pass
class R(float): pass
class S(str): pass
class L(list): pass
class M(dict): pass
class T(tuple): pass
class Same(int):
    def __eq__(self, other): return True
    __ne__ = __lt__ = lambda self, other: False
    __hash__ = int.__hash__
class SameText(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
class SameList(list):
    def __eq__(self, other): return True
    def __iter__(self): return iter({value!r})
    def __len__(self): return 1
class Any_:
    def __eq__(self, other): return True
    def __getattr__(self, name): return lambda *a: True
    def __index__(self): return 7
    def __iter__(self): return iter({value!r})
def pair(a, b): return collections.namedtuple('P', 'a b')(a, b)
"""
_SETTINGS: Final = {"cpu_s": 1.0, "memory_bytes": 256 << 20}


def result_case(rng: random.Random) -> Case:
    """A nested value, returned as it is, in other types, or with one thing in it changed."""
    value = _drawn(rng, 3)
    by_literals = rng.random() < 0.3
    kind = rng.choice(("alike", "alike", "changed", "foreign"))
    if kind == "alike":
        made = repr(value) if by_literals else _alike(rng, value)
    elif kind == "changed":
        made = repr(_changed(rng, value))
    else:
        made = _with_foreign(rng, value)
    how = rng.choice(_HOWS)
    expected = repr(value) if by_literals else value
    calls: dict[str, Any] = {"function": "f", "cases": [{"args": [], "expected": expected}]}
    if by_literals:
        calls["values"] = "python"
    return Case(
        pipeline="code.python",
        kind=f"result: {kind}",
        response=f"```python\n{_HEAD.format(value=[value])}{how.format(made)}\n```",
        reference={"calls": calls},
        expected=Expected.RIGHT if kind == "alike" else Expected.WRONG,
        settings=_SETTINGS,
    )


_HOWS: Final = (
    "def f(): return {}",
    "x = {}\ndef f(): return x",
    "class Solution:\n    def f(self): return {}",
    "f = lambda: {}",
    "class Solution:\n    @staticmethod\n    def f(): return {}",
    "def f(*a, **k):\n    try:\n        return {}\n    finally:\n        print('[1]', flush=True)",
    "class C:\n    def __call__(self): return {}\nf = C()",
)


def _drawn(rng: random.Random, depth: int) -> Any:
    kinds: list[Callable[[], Any]] = [
        lambda: rng.randint(-9, 99),
        lambda: rng.choice((2**53 + 1, -(10**17) - 3, 7**40, 123456789)),
        lambda: rng.choice((0.25, -1.5, 3.0, 1e-3, 12345.678)),
        lambda: rng.choice(("", "a", "7", "true", "é\u0301", "\U0001f600", "a\nb", "[1]")),
        lambda: rng.choice((True, False, None)),
    ]
    if depth:
        kinds += [
            lambda: [_drawn(rng, depth - 1) for _ in range(rng.randint(1, 4))],
            lambda: {
                rng.choice(("a", "b", "1", "true", "0.5", "x y")): _drawn(rng, depth - 1)
                for _ in range(rng.randint(1, 3))
            },
        ] * 2
    return rng.choice(kinds)()


def _alike(rng: random.Random, value: Any) -> str:
    """Python for a value that is the same by the rules."""
    plain = repr(value)
    if isinstance(value, bool) or value is None:
        return plain
    if isinstance(value, int):
        ways = [plain, plain, f"N({plain})", f"F({plain})", f"D('{plain}')"]
        if abs(value) < 2**53:
            ways.append(f"float({plain})")
        return rng.choice([*ways, f"enum.IntEnum('E', {{'A': {plain}}}).A"])
    if isinstance(value, float):
        own = f"enum.Enum('E', {{'A': {plain}}}, type=float).A"
        near = repr(value * (1 + 1e-9))
        return rng.choice((plain, f"R({plain})", f"F({plain})", f"D({plain})", near, own))
    if isinstance(value, str):
        return rng.choice((plain, plain, f"S({plain})", f"enum.StrEnum('E', {{'A': {plain}}}).A"))
    if isinstance(value, list):
        parts = ", ".join(_alike(rng, each) for each in value)
        ways = [f"[{parts}]", f"[{parts}]", f"({parts},)", f"L([{parts}])", f"T([{parts}])"]
        return rng.choice(ways + ([f"pair({parts})"] if len(value) == 2 else []))
    parts = ", ".join(f"{_key(rng, key)}: {_alike(rng, each)}" for key, each in value.items())
    ways = ["{}", "M({})", "collections.OrderedDict({})", "collections.defaultdict(list, {})"]
    return rng.choice(ways).format(f"{{{parts}}}")


def _key(rng: random.Random, key: str) -> str:
    own = {"1": "1", "0.5": "0.5"}.get(key)
    return own if own is not None and rng.random() < 0.5 else repr(key)


def _changed(rng: random.Random, value: Any) -> Any:
    """Another value of the same shape."""
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        ways: list[Any] = [[*value, value[0]], value[:-1], [value], (*value, 0)]
        if value[::-1] != value:
            ways.append(value[::-1])
        ways += [[*value[:at], _changed(rng, value[at]), *value[at + 1 :]]] * 3
        return rng.choice(ways)
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(list(value))
        rest = {name: each for name, each in value.items() if name != key}
        return rng.choice(
            (rest, {**value, "other": 0}, {**rest, f"{key} ": value[key]}, list(value))
            + ({**value, key: _changed(rng, value[key])},) * 3
        )
    if isinstance(value, bool) or value is None:
        return rng.choice((not value, 0.5, "", str(value), json.dumps(value), int(not value)))
    if isinstance(value, int):
        return rng.choice(
            (
                value + 1,
                -value - 1,
                str(value),
                value + 0.001,
                [value],
                value << 1 | 1 if value else 5,
            )
        )
    if isinstance(value, float):
        return rng.choice(
            (value * 1.001 + 1e-3, -value, str(value), float("nan"), float("inf"), None)
        )
    if isinstance(value, str):
        return rng.choice(
            (f"{value} ", f"{value}\0", value.encode("utf-8"), f"x{value}", [value], None)
        )
    return {"other": value}


_FOREIGN: Final = (
    "Any_()", "SameList([])", "SameText('no such text')", "Same(-77777)", "object()", "Any_", "{-77777}", "f", "...", "NotImplemented",
    "b'7'", "type('X', (), {'__eq__': lambda s, o: True})()", "enum.Enum('E', 'A').A", "1j", "float('nan')", "D('sNaN')", "D('NaN')", "D('Infinity')",
    "D('1e999999')", "10**6000 + 7", "-(10**6000)", "F(1, 10**3000)", "types.SimpleNamespace(a=1)", "typing.Any", "array.array('d', [0.5])", "memoryview(b'7')", "frozenset()",
    "(yield_ for yield_ in [-77777])", "itertools.repeat(-77777)", "itertools.count()", "collections.ChainMap()", "types.MappingProxyType({})", "slice(7)", "range(0)", "'\\ud800'", "[[[...]]]", "SystemExit(0)",
)  # fmt: skip
"""No value of `_drawn` is any of these."""


def _with_foreign(rng: random.Random, value: Any) -> str:
    """Python for the value with something else in one place."""
    foreign = rng.choice(_FOREIGN)
    if isinstance(value, list) and value and rng.random() < 0.6:
        parts = [repr(each) for each in value]
        at = rng.randrange(len(parts))
        parts[at] = _with_foreign(rng, value[at])
        return f"[{', '.join(parts)}]"
    if isinstance(value, dict) and value and rng.random() < 0.6:
        changed = rng.choice(list(value))
        parts = [
            f"{key!r}: {_with_foreign(rng, each) if key == changed else repr(each)}"
            for key, each in value.items()
        ]
        return f"{{{', '.join(parts)}}}"
    return foreign
