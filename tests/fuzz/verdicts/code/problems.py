"""Small functions with known results: how they are solved rightly, and how wrongly."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A function `f`; bodies are indented by four blanks and see its parameters."""

    parameters: str
    draw: Callable[[random.Random], tuple[Any, ...]]
    solve: Callable[..., Any]
    right: tuple[str, ...]
    """Bodies that return the very type that `solve` returns."""
    alike: tuple[str, ...] = ()
    """Bodies that return a subclass of it; they are right wherever `==` decides."""
    wrong: tuple[str, ...] = ()


def _numbers(rng: random.Random) -> list[int]:
    return [rng.randint(-999, 999) for _ in range(rng.randint(5, 9))]


def _word(rng: random.Random) -> str:
    return "".join(rng.choice("abcdexyz") for _ in range(rng.randint(5, 12))) + "q"


def _counted(text: str) -> dict[str, int]:
    return {letter: text.count(letter) for letter in text}


PROBLEMS: tuple[Problem, ...] = (
    Problem(
        parameters="a, b",
        draw=lambda rng: (rng.randint(5, 10**6), rng.randint(5, 10**6)),
        solve=lambda a, b: a + b,
        right=("return a + b", "return sum((a, b))", "c = a\n    c += b\n    return c"),
        alike=(
            "class N(int):\n        pass\n    return N(a + b)",
            "import enum\n    return enum.IntEnum('E', {'X': a + b}).X",
        ),
        wrong=(
            "return a - b",
            "return a + b + 1",
            "return str(a + b)",
            "return float(a + b) + 0.5",
            "return (a + b) * (1 + 8e-7)",
        ),
    ),
    Problem(
        parameters="xs",
        draw=lambda rng: (_numbers(rng),),
        solve=lambda xs: xs[::-1],
        right=(
            "return xs[::-1]",
            "return list(reversed(xs))",
            "out = []\n    for x in xs:\n        out.insert(0, x)\n    return out",
        ),
        alike=("class L(list):\n        pass\n    return L(xs[::-1])",),
        wrong=("return xs", "return xs[::-1] + [0]", "return None", "return xs[::-1][:-1]"),
    ),
    Problem(
        parameters="text",
        draw=lambda rng: (_word(rng),),
        solve=lambda text: text.upper() + "!",
        right=("return text.upper() + '!'", "return ''.join(c.upper() for c in text) + '!'"),
        alike=("class S(str):\n        __slots__ = ()\n    return S(text.upper() + '!')",),
        wrong=("return text", "return text.upper()", "return (text.upper() + '!').encode()"),
    ),
    Problem(
        parameters="text",
        draw=lambda rng: (_word(rng),),
        solve=_counted,
        right=(
            "return {c: text.count(c) for c in text}",
            "from collections import Counter\n    return dict(Counter(text))",
        ),
        alike=(
            "from collections import Counter\n    return Counter(text)",
            "from collections import defaultdict\n    d = defaultdict(int)\n"
            "    for c in text:\n        d[c] += 1\n    return d",
            "from collections import OrderedDict\n"
            "    return OrderedDict((c, text.count(c)) for c in text)",
        ),
        wrong=("return {}", "return {c: 0 for c in text}", "return dict.fromkeys(text, '1')"),
    ),
    Problem(
        parameters="xs",
        draw=lambda rng: (_numbers(rng),),
        solve=lambda xs: sum(xs) / len(xs) + 0.25,
        right=(
            "return sum(xs) / len(xs) + 0.25",
            "from statistics import fmean\n    return fmean(xs) + 0.25",
        ),
        alike=("class F(float):\n        pass\n    return F(sum(xs) / len(xs) + 0.25)",),
        wrong=("return sum(xs)", "return sum(xs) / len(xs) + 1.5", "return float('nan')"),
    ),
    Problem(
        parameters="xs",
        draw=lambda rng: (_numbers(rng),),
        solve=lambda xs: (min(xs) - 1000, max(xs) + 1000),
        right=(
            "return (min(xs) - 1000, max(xs) + 1000)",
            "s = sorted(xs)\n    return s[0] - 1000, s[-1] + 1000",
        ),
        alike=(
            "from collections import namedtuple\n"
            "    return namedtuple('R', 'low high')(min(xs) - 1000, max(xs) + 1000)",
            "from typing import NamedTuple\n    class R(NamedTuple):\n        low: int\n"
            "        high: int\n    return R(min(xs) - 1000, max(xs) + 1000)",
        ),
        wrong=("return (max(xs) + 1000, min(xs) - 1000)", "return (0, 0)", "return ()"),
    ),
    Problem(
        parameters="n",
        draw=lambda rng: (rng.randint(20, 200),),
        solve=lambda n: 7**n,
        right=(
            "return 7 ** n",
            "return pow(7, n)",
            "r = 1\n    for _ in range(n):\n        r *= 7\n    return r",
        ),
        wrong=("return float(7 ** n) * 1.01", "return 7 ** n + 1", "return 0"),
    ),
    Problem(
        parameters="xs",
        draw=lambda rng: (
            [[rng.randint(0, 9) for _ in range(3)] for _ in range(rng.randint(2, 4))],
        ),
        solve=lambda xs: [list(row) for row in zip(*xs, strict=True)],
        right=(
            "return [list(r) for r in zip(*xs)]",
            "return [[r[i] for r in xs] for i in range(len(xs[0]))]",
        ),
        wrong=("return xs + [[0]]", "return []", "return [[9.5]]"),
    ),
)
