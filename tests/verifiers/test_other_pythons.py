"""Another Python of this machine finds the same by every regular expression of the verifiers."""

import ast
import importlib
import json
import pkgutil
import platform
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import assay.verifiers

HERE = Path(__file__).parent
TEXTS_EACH = 300
SEARCH = """
import json, re, sys
told = json.load(sys.stdin)
found = []
for pattern, flags, numbers in told["searches"]:
    search = re.compile(pattern, flags).search
    seen = (search(told["texts"][number]) for number in numbers)
    found.append([one and [one.span(), *one.regs] for one in seen])
json.dump(found, sys.stdout)
"""


@cache
def others() -> list[str]:
    """Interpreters beside ours of which one may run the platform elsewhere."""
    found = []
    for one in sorted(Path("/usr/bin").glob("python3.[0-9]*")):
        told = subprocess.run([str(one), "-V"], capture_output=True, text=True, check=False)
        version = re.fullmatch(r"Python 3\.(\d+)\.\d+\s*", told.stdout)
        if (
            version
            and int(version[1]) >= 11
            and told.stdout.split()[1] != platform.python_version()
        ):
            found.append(str(one))
    return found


def texts() -> list[str]:
    """Every string of the tests beside this one: most are responses and answers."""
    found: dict[str, None] = {}
    for file in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found[node.value] = None
    return list(found)


def patterns() -> dict[tuple[str, int], None]:
    """Those that modules of the verifiers hold, with what they hold them in."""
    found: dict[tuple[str, int], None] = {}
    for one in pkgutil.walk_packages(assay.verifiers.__path__, "assay.verifiers."):
        if not one.name.startswith("assay.verifiers.cuda"):
            for value in vars(importlib.import_module(one.name)).values():
                for pattern in _patterns_in(value, depth=3):
                    if isinstance(pattern.pattern, str):
                        found[pattern.pattern, pattern.flags] = None
    return found


def _patterns_in(value: object, depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict):
        for one in value.values():
            yield from _patterns_in(one, depth - 1)
    elif depth and isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _patterns_in(one, depth - 1)


@pytest.mark.skipif(not others(), reason="/usr/bin has no other Python")
def test_patterns_find_the_same_in_another_python() -> None:
    said, seed = texts(), random.Random(1)
    searches = [
        (pattern, flags, seed.sample(range(len(said)), min(TEXTS_EACH, len(said))))
        for pattern, flags in patterns()
    ]
    assert len(searches) > 500
    told = json.dumps({"texts": said, "searches": searches})
    ours, *theirs = (
        json.loads(
            subprocess.run(
                [python, "-I", "-c", SEARCH], input=told, capture_output=True, text=True, check=True
            ).stdout
        )
        for python in (sys.executable, *others())
    )
    for python, found in zip(others(), theirs, strict=True):
        differ = [one[0] for one, a, b in zip(searches, ours, found, strict=True) if a != b]
        assert differ == [], python
