"""The second judge: compares both answers as numbers at random points.

It has a separate parser and evaluator on the standard library's complex floats, without sympy,
latex2sympy or math-verify. The result is equal, different, or `None` if an answer cannot be read or
the values do not decide. Bounded: tokens, depth, points.
"""

import cmath
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from assay.verifiers.math.grammar import (
    Answer,
    Chain,
    Element,
    Items,
    Named,
    Number,
    Ratio,
    Words,
)
from assay.verifiers.math.memory import remembered

TOKENS_MAX: Final = 400
DEPTH_MAX: Final = 30
POINTS: Final = 4
_NEAR: Final = 1e-7
"""Maximum relative difference of equal values: above float errors, below real differences."""
SIZE_MAX: Final = 1e60
"""Larger values are not compared."""

_DEGREE: Final = math.pi / 180

Value = complex
Scope = Mapping[str, Value]
Tree = Callable[[Scope], Value]

_TOKEN: Final = re.compile(
    r"(?a)\s+|(?P<number>\d+(?:\.\d+)?|\.\d+)|(?P<command>\\[A-Za-z]+|\\.)|(?P<char>[^\s])"
)
_FUNCTIONS: Final[dict[str, Callable[[Value], Value]]] = {
    "\\sin": cmath.sin,
    "\\cos": cmath.cos,
    "\\tan": cmath.tan,
    "\\cot": lambda x: 1 / cmath.tan(x),
    "\\sec": lambda x: 1 / cmath.cos(x),
    "\\csc": lambda x: 1 / cmath.sin(x),
    "\\arcsin": cmath.asin,
    "\\arccos": cmath.acos,
    "\\arctan": cmath.atan,
    "\\sinh": cmath.sinh,
    "\\cosh": cmath.cosh,
    "\\tanh": cmath.tanh,
    "\\ln": cmath.log,
    "\\exp": cmath.exp,
}
_NAMES: Final = frozenset(
    [
        "\\alpha",
        "\\beta",
        "\\gamma",
        "\\delta",
        "\\epsilon",
        "\\varepsilon",
        "\\theta",
        "\\lambda",
        "\\mu",
        "\\nu",
        "\\rho",
        "\\sigma",
        "\\tau",
        "\\phi",
        "\\varphi",
        "\\omega",
        "\\psi",
        "\\xi",
        "\\eta",
        "\\zeta",
        "\\kappa",
        "\\chi",
        "\\ell",
    ]
)
_CONSTANTS: Final[dict[str, Value]] = {"\\pi": math.pi, "e": math.e, "i": 1j}


class Unread(Exception):
    """Beyond this parser."""


def judge(gold: Answer, answer: Answer, seed: str) -> bool | None:
    """Whether they have the same values at points drawn from `seed`; `None` if undecided."""
    try:
        left, right = _leaves(gold), _leaves(answer)
        names = sorted(set().union(*(tree.names for tree in (*left.trees, *right.trees))))
        if left.shape != right.shape:
            return None
        return _same(left, right, names, random.Random(seed))  # noqa: S311 - points, not secrets
    except (Unread, ArithmeticError, ValueError, RecursionError):
        return None


@remembered(1_024)
def approximate(text: str) -> float | None:
    """The value of an expression without variables."""
    try:
        expression = _parse(text)
        if expression.names:
            return None
        value = expression.tree({})
    except (Unread, ArithmeticError, ValueError, RecursionError):
        return None
    return value.real if abs(value.imag) < _NEAR * max(1.0, abs(value.real)) else None


# -- comparison ------------------------------------------------------------------------------------


class Expression:
    """A parsed expression, and the names in it."""

    __slots__ = ("names", "tree")

    def __init__(self, tree: Tree, names: frozenset[str]) -> None:
        self.tree = tree
        self.names = names


class _Leaves:
    __slots__ = ("in_order", "shape", "trees")

    def __init__(self, trees: Sequence[Expression], shape: str, *, in_order: bool) -> None:
        self.trees = trees
        self.shape = shape
        self.in_order = in_order


def _leaves(answer: Answer) -> _Leaves:
    match answer:
        case Items(kind=kind, items=items) if items and answer.decimal is None:
            trees = [leaf(item) for item in items]
            shape = "tuple" if kind == "tuple" else "list"
            return _Leaves(trees, f"{shape}{len(items)}", in_order=kind == "tuple")
        case Ratio(terms=terms) if len(terms) == 2:
            top, below = (leaf(term) for term in terms)
            return _Leaves(
                [
                    Expression(
                        lambda scope: top.tree(scope) / below.tree(scope), top.names | below.names
                    )
                ],
                "one",
                in_order=True,
            )
        case Named(value=value):
            return _leaves(value)
    return _Leaves([leaf(answer)], "one", in_order=True)


def leaf(answer: Answer) -> Expression:
    """Parse one value.

    Raises:
        Unread: this parser cannot read it.
    """
    match answer:
        case Number(is_percent=False):
            return constant(answer.value)
        case Element(text=text):
            return _parse(text)
        case Named(value=value):
            return leaf(value)
        case Chain(sides=sides):
            return leaf(sides[0])
        case Words():
            raise Unread
    raise Unread


def _same(left: _Leaves, right: _Leaves, names: list[str], draw: random.Random) -> bool | None:
    told = 0
    for _ in range(POINTS):
        scope: dict[str, Value] = {name: complex(draw.uniform(0.3, 2.7)) for name in names}
        ours, theirs = ([leaf.tree(scope) for leaf in side.trees] for side in (left, right))
        if not all(cmath.isfinite(value) and abs(value) < SIZE_MAX for value in (*ours, *theirs)):
            continue
        told += 1
        if not _match(ours, theirs, in_order=left.in_order):
            return False
    return True if told else None


def _match(ours: list[Value], theirs: list[Value], *, in_order: bool) -> bool:
    if in_order:
        return all(near(one, other) for one, other in zip(ours, theirs, strict=True))
    rest = list(theirs)
    for one in ours:
        at = next((index for index, other in enumerate(rest) if near(one, other)), None)
        if at is None:
            return False
        rest.pop(at)
    return True


def near(one: Value, other: Value) -> bool:
    """Equal up to errors of floats."""
    return abs(one - other) <= _NEAR * max(abs(one), abs(other)) or one == other


def constant(value: Fraction) -> Expression:
    """The expression of a number: no variable changes it."""
    said = complex(float(value))
    return Expression(lambda _: said, frozenset())


# -- parser ----------------------------------------------------------------------------------------


def _parse(text: str) -> Expression:
    parser = _Parser(text)
    tree = parser.sum(0)
    if parser.peek():
        raise Unread
    return Expression(tree, frozenset(parser.names))


class _Parser:
    """Precedence climbing: sum, product (implicit too), sign, power, atom."""

    def __init__(self, text: str) -> None:
        self._tokens = [match[0] for match in _TOKEN.finditer(text) if match[0].strip()]
        if len(self._tokens) > TOKENS_MAX:
            raise Unread
        self._at = 0
        self._functions = 0
        """Number of functions around the position."""
        self.names: set[str] = set()

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, wanted: str = "") -> str:
        said = self.peek()
        if not said or (wanted and said != wanted):
            raise Unread
        self._at += 1
        return said

    def sum(self, depth: int) -> Tree:
        if depth > DEPTH_MAX:
            raise Unread
        tree = self._product(depth + 1)
        while self.peek() in {"+", "-"}:
            operator = self._take()
            tree = _added(tree, self._product(depth + 1), -1 if operator == "-" else 1)
        return tree

    def _product(self, depth: int) -> Tree:
        tree = self._signed(depth)
        while True:
            said = self.peek()
            if said in {"*", "\\cdot", "\\times"}:
                self._take()
                tree = _times(tree, self._signed(depth))
            elif said in {"/", "\\div"}:
                self._take()
                tree = _over(tree, self._signed(depth))
            elif self._begins_atom(said):
                if said[0].isdigit() or self._is_mixed():
                    raise Unread  # two adjacent numbers are ambiguous
                tree = _times(tree, self._power(depth))
            else:
                return tree

    def _is_mixed(self) -> bool:
        """Whether a fraction of digits follows a number: `1\\frac12` is no product."""
        before, *ahead = self._tokens[self._at - 1 : self._at + 3]
        fraction = ahead[:1] == ["\\frac"] and "".join(ahead[1:]).lstrip("{")[:1].isdigit()
        return before[0].isdigit() and fraction

    def _begins_atom(self, said: str) -> bool:
        return bool(said) and (
            said[0].isalnum()
            or said in {"(", "{", "[", "\\frac", "\\sqrt", "\\pi", "\\log", "\\binom", "\\left"}
            or said in _FUNCTIONS
            or said in _NAMES
        )

    def _signed(self, depth: int) -> Tree:
        if depth > DEPTH_MAX:
            raise Unread
        if self.peek() == "-":
            self._take()
            inner = self._signed(depth + 1)
            return lambda scope: -inner(scope)
        if self.peek() == "+":
            self._take()
        return self._power(depth)

    def _power(self, depth: int) -> Tree:
        base = self._atom(depth + 1)
        while self.peek() == "!":
            self._take()
            base = _factorial(base)
        if self.peek() != "^":
            return base
        self._take()
        if self._take_degrees():
            return lambda scope: base(scope) * _DEGREE
        exponent = self._argument(depth + 1)
        return lambda scope: _raised(base(scope), exponent(scope))

    def _take_degrees(self) -> bool:
        """Degrees are angles inside a function, and nowhere else."""
        sign = self._tokens[self._at : self._at + 3]
        if sign[:1] == ["\\circ"] or sign == ["{", "\\circ", "}"]:
            if not self._functions:
                raise Unread
            self._at += 1 if sign[0] == "\\circ" else 3
            return True
        return False

    def _argument(self, depth: int) -> Tree:
        """A braced group, one digit, a signed argument, or an atom."""
        if self.peek() == "{":
            return self._group("{", "}", depth)
        said = self.peek()
        if said.isdigit() and len(said) > 1:
            self._tokens[self._at : self._at + 1] = [said[0], said[1:]]
        if said == "-":
            return self._signed(depth)
        return self._atom(depth + 1)

    def _group(self, opening: str, closing: str, depth: int) -> Tree:
        self._take(opening)
        tree = self.sum(depth + 1)
        self._take(closing)
        return tree

    def _atom(self, depth: int) -> Tree:
        if depth > DEPTH_MAX:
            raise Unread
        said = self.peek()
        for opening, closing in (("(", ")"), ("{", "}"), ("[", "]")):
            if said == opening:
                return self._group(opening, closing, depth)
        self._take()
        if said[0].isdigit() or said[0] == ".":
            value = complex(float(said))
            return lambda _: value
        if said in _FUNCTIONS:
            return self._function(_FUNCTIONS[said], depth)
        if said == "\\log":
            return self._logarithm(depth)
        if said == "\\frac":
            return _over(self._argument(depth), self._argument(depth))
        if said == "\\binom":
            return _choose(self._argument(depth), self._argument(depth))
        if said == "\\sqrt":
            return self._root(depth)
        return self._name(said)

    def _name(self, name: str) -> Tree:
        if not (name in _NAMES or name == "\\pi" or (len(name) == 1 and name.isalpha())):
            raise Unread
        if self.peek() == "_":
            self._take()
            if self.peek() == "{":
                end = self._tokens.index("}", self._at) if "}" in self._tokens[self._at :] else -1
                if end < 0:
                    raise Unread
                name += "_" + "".join(self._tokens[self._at + 1 : end])
                self._at = end + 1
            else:
                name += "_" + self._take()
        elif name in _CONSTANTS:
            value = complex(_CONSTANTS[name])
            return lambda _: value
        self.names.add(name)
        return lambda scope: scope[name]

    def _function(self, function: Callable[[Value], Value], depth: int) -> Tree:
        power: Tree | None = None
        if self.peek() == "^":
            self._take()
            power = self._argument(depth)
        self._functions += 1
        inner = self._operand(depth)
        self._functions -= 1
        if power is None:
            return lambda scope: function(inner(scope))
        raised = power
        return lambda scope: _trigonometric_power(function, inner(scope), raised(scope))

    def _operand(self, depth: int) -> Tree:
        """The argument of a function: a group, or factors up to the next sign."""
        if self.peek() in {"(", "{", "["}:
            return self._power(depth)
        tree = self._power(depth)
        while self._begins_atom(self.peek()) and self.peek() not in {*_FUNCTIONS, "\\log", "("}:
            tree = _times(tree, self._power(depth))
        return tree

    def _logarithm(self, depth: int) -> Tree:
        if self.peek() != "_":
            raise Unread  # the base is not given
        self._take()
        base = self._argument(depth)
        inner = self._operand(depth)
        return lambda scope: cmath.log(inner(scope)) / cmath.log(base(scope))

    def _root(self, depth: int) -> Tree:
        degree: Tree | None = None
        if self.peek() == "[":
            degree = self._group("[", "]", depth)
        inner = self._argument(depth)
        if degree is None:
            return lambda scope: cmath.sqrt(inner(scope))
        of = degree
        return lambda scope: _real_root(inner(scope), of(scope))


# -- operations ------------------------------------------------------------------------------------


def _added(left: Tree, right: Tree, sign: int) -> Tree:
    return lambda scope: left(scope) + sign * right(scope)


def _times(left: Tree, right: Tree) -> Tree:
    return lambda scope: left(scope) * right(scope)


def _over(left: Tree, right: Tree) -> Tree:
    return lambda scope: left(scope) / right(scope)


def _raised(base: Value, exponent: Value) -> Value:
    if abs(exponent) > 1e4:
        raise Unread
    if exponent.imag == 0 and exponent.real.is_integer():
        return base ** int(exponent.real)
    return base**exponent


def _real_root(value: Value, degree: Value) -> Value:
    if value.imag == 0 and value.real < 0 and degree.imag == 0 and degree.real % 2 == 1:
        return complex(-((-value.real) ** (1 / degree.real)))
    return value ** (1 / degree)


def _trigonometric_power(function: Callable[[Value], Value], x: Value, power: Value) -> Value:
    if power == -1:
        raise Unread  # an inverse function or a reciprocal
    return function(x) ** power


def _factorial(inner: Tree) -> Tree:
    def value(scope: Scope) -> Value:
        n = inner(scope)
        if n.imag or not n.real.is_integer() or not 0 <= n.real <= 40:
            raise Unread
        return complex(math.factorial(int(n.real)))

    return value


def _choose(upper: Tree, lower: Tree) -> Tree:
    def value(scope: Scope) -> Value:
        n, k = upper(scope), lower(scope)
        if n.imag or k.imag or not (n.real.is_integer() and k.real.is_integer()):
            raise Unread
        if not 0 <= k.real <= n.real <= 100:
            raise Unread
        return complex(math.comb(int(n.real), int(k.real)))

    return value
