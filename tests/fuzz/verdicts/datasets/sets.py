"""Rows as data sets publish them, through their converters, with programs in the forms they ask for.

HumanEval, LeetCodeDataset, MBPP in both versions, APPS and TACO, LiveCodeBench with packed tests,
CodeContests. What a converter refuses here is a fault of it.
"""

import base64
import json
import pickle
import random
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.fuzz.verdicts.case import Case, Expected, one_of
from tests.fuzz.verdicts.code.hostile import spoiler, value_program
from tests.fuzz.verdicts.code.problems import PROBLEMS, Problem

from assay.datasets.port import DataRow
from assay.datasets.registry import SOURCES

_SETTINGS: Final = {"cpu_s": 1.0, "memory_bytes": 256 << 20}
_LEETCODE: Final = (
    "import random\nimport collections\nimport math\nfrom typing import *\nfrom collections import *\n"
    "from itertools import *\nfrom functools import *\ninf = float('inf')\n\n"
)
_JSON_PROBLEMS: Final = [one for one in PROBLEMS if one.parameters != "n"]
"""Arguments and results that JSON has exactly, whatever reads it."""
Record = tuple[str, dict[str, Any]]
Sample = tuple[Any, ...]


def set_case(rng: random.Random) -> Case:
    """A row of a data set, and a right, wrong or hostile program."""
    problem = rng.choice(_JSON_PROBLEMS)
    name = rng.choice(("f", "solveIt", "get_it"))
    samples = [problem.draw(rng) for _ in range(rng.randint(1, 4))]
    form = rng.choice(list(_FORMS))
    source, record = _FORMS[form](rng, problem, name, samples)
    row = SOURCES[source].convert(record, 1, "code.python")
    if not isinstance(row, DataRow):
        raise TypeError(f"{source} has no row")
    kind = one_of(rng, {"right": 4, "wrong": 2, "value": 1, "spoiler": 1})
    if kind == "value":
        program = value_program(rng, name)
    elif kind == "spoiler":
        program = spoiler(rng, name)[1]
    else:
        body = rng.choice(problem.right if kind == "right" else problem.wrong)
        program = _program(rng, form, problem, name, body)
    return Case(
        pipeline=row.pipeline,
        kind=f"set: {form}, {kind}",
        response=rng.choice(_LAYOUTS).format(program),
        reference=row.reference,
        expected=Expected.RIGHT if kind == "right" else Expected.WRONG,
        settings={**row.settings, **_SETTINGS},
    )


_LAYOUTS: Final = (
    "{}",
    "```python\n{}\n```",
    "Here is my solution.\n\n```python\n{}\n```\n\nIt is linear.",
    "<think>\nLet me see.\n</think>\n\n```python\n{}\n```",
    "### Answer:\n```python\n{}\n```\n",
    "```\n{}\n```",
)


def _program(rng: random.Random, form: str, problem: Problem, name: str, body: str) -> str:
    function = f"def {name}({problem.parameters}):\n    {body}\n"
    if "stdin" in form or form == "contests":
        return rng.choice(_READERS).format(function=function, name=name)
    if form in ("leetcode", "functional") or (form == "calls" and rng.random() < 0.5):
        method = function.replace(f"def {name}(", f"def {name}(self, ")
        inner = "".join(f"    {line}\n" for line in method.splitlines())
        return rng.choice(_SOLUTIONS).format(inner)
    return rng.choice(_PLAIN).format(function)


_READERS: Final = (
    "import json\n{function}\nprint(json.dumps({name}(*json.loads(input()))))",
    "import sys, json\n{function}\nif __name__ == '__main__':\n    json.dump({name}(*json.load(sys.stdin)), sys.stdout)",
    "import json\n{function}\ndef main():\n    for line in open(0):\n        print(json.dumps({name}(*json.loads(line))))\nmain()",
    "import os, json\n{function}\nos.write(1, json.dumps({name}(*json.loads(os.read(0, 99999)))).encode())",
    "import sys, json, threading\n{function}\ndef main():\n    print(json.dumps({name}(*json.loads(sys.stdin.readline()))))\n"
    "threading.stack_size(1 << 26)\nt = threading.Thread(target=main)\nt.start()\nt.join()",
    "import json, sys\ninput = sys.stdin.readline\n{function}\nprint(json.dumps({name}(*json.loads(input()))), flush=True)\nsys.exit(0)",
)
_SOLUTIONS: Final = (
    "class Solution:\n{}",
    "class Solution(object):\n{}",
    "from typing import List\n\nclass Solution:\n    def __init__(self):\n        self.memo = {{}}\n\n{}",
    "class Solution:\n    limit: Optional[int] = None\n{}",
    "class Helper:\n    pass\n\nclass Solution:\n{}\nif __name__ == '__main__':\n    print(Solution())",
)
_PLAIN: Final = (
    "{}",
    "import math\nfrom collections import Counter\n\n{}",
    "{}\nprint('done')",
    "{}\nif __name__ == '__main__':\n    print(input())",
    "def helper(*a):\n    return a\n\n{}",
)


def _human_eval(rng: random.Random, problem: Problem, name: str, samples: list[Sample]) -> Record:
    checks = "".join(
        f"    assert {_call('candidate', one)} == {problem.solve(*one)!r}\n" for one in samples
    )
    head = rng.choice(("", "from typing import List, Tuple\n\n\n", "import math\n\n"))
    record = {
        "task_id": "HumanEval/7",
        "prompt": f'{head}def {name}({problem.parameters}):\n    """ Do it.\n    >>> {name}()\n    """\n',
        "entry_point": name,
        "canonical_solution": f"    {problem.right[0]}\n",
        "test": f"\n\nMETADATA = {{\n    'author': 'jt'\n}}\n\n\ndef check(candidate):\n{checks}",
    }
    return "humaneval", record


def _leetcode(_rng: random.Random, problem: Problem, name: str, samples: list[Sample]) -> Record:
    names = [one.strip() for one in problem.parameters.split(",")]
    calls = [
        ", ".join(f"{key} = {value!r}" for key, value in zip(names, one, strict=True))
        for one in samples
    ]
    checks = "".join(
        f"    assert candidate({call}) == {problem.solve(*one)!r}\n"
        for call, one in zip(calls, samples, strict=True)
    )
    record = {
        "task_id": "two-sum",
        "prompt": _LEETCODE,
        "entry_point": f"Solution().{name}",
        "test": f"def check(candidate):\n{checks}",
    }
    return "humaneval", record


def _mbpp(rng: random.Random, problem: Problem, name: str, samples: list[Sample]) -> Record:
    tests = [f"assert {_call(name, one)} == {problem.solve(*one)!r}" for one in samples]
    record: dict[str, Any] = {"task_id": 2, "test_list": tests}
    if rng.random() < 0.5:
        record |= {"text": "Do it.", "test_setup_code": "", "challenge_test_list": tests[:1]}
        record["code"] = f"def {name}({problem.parameters}):\r\n    {problem.right[0]}"
    else:
        record |= {"prompt": "Do it.", "test_imports": ["import math"]}
    return "mbpp", record


def _calls(rng: random.Random, problem: Problem, name: str, samples: list[Sample]) -> Record:
    wanted = [_plain(problem.solve(*one)) for one in samples]
    tests: dict[str, Any] = {"fn_name": name}
    if rng.random() < 0.5:
        tests |= {"inputs": [list(one) for one in samples], "outputs": [[one] for one in wanted]}
    else:
        tests["inputs"] = ["\n".join(map(json.dumps, one)) for one in samples]
        tests["outputs"] = [json.dumps(one) for one in wanted]
    return "apps", {"problem_id": 7, "question": "Do it.", "input_output": json.dumps(tests)}


def _stdin(rng: random.Random, problem: Problem, _name: str, samples: list[Sample]) -> Record:
    lines = [f"{json.dumps(one)}\n" for one in samples]
    wanted = [f"{json.dumps(_plain(problem.solve(*one)))}\n" for one in samples]
    tests: dict[str, Any] = {"inputs": lines, "outputs": wanted}
    if rng.random() < 0.3:
        tests = {key: [one.split("\n") for one in texts] for key, texts in tests.items()}
    return "apps", {
        "id": 3,
        "question": "",
        "input_output": tests,
        "starter_code": "",
        "solutions": "[]",
    }


def _bench(
    rng: random.Random, problem: Problem, name: str, samples: list[Sample], kind: str
) -> Record:
    ends = "" if kind == "functional" else "\n"
    tests = [
        {
            "input": ("\n".join(map(json.dumps, one)) if kind == "functional" else json.dumps(one))
            + ends,
            "output": json.dumps(_plain(problem.solve(*one))) + ends,
            "testtype": kind,
        }
        for one in samples
    ]
    hidden = json.dumps(tests[1:])
    packed = base64.b64encode(zlib.compress(pickle.dumps(hidden))).decode()
    record = {
        "question_id": "1873_A",
        "question_content": "Do it.",
        "public_test_cases": json.dumps(tests[:1]),
        "private_test_cases": packed if rng.random() < 0.7 else hidden,
        "starter_code": f"class Solution:\n    def {name}(self, {problem.parameters}):\n        ",
        "metadata": json.dumps({"func_name": name}),
    }
    return "livecodebench", record


def _contests(rng: random.Random, problem: Problem, name: str, samples: list[Sample]) -> Record:
    del name
    pairs = [
        (f"{json.dumps(one)}\n", f"{json.dumps(_plain(problem.solve(*one)))}\n") for one in samples
    ]
    as_lists = {"input": [one for one, _ in pairs], "output": [two for _, two in pairs]}
    as_objects = [{"input": one, "output": two} for one, two in pairs]
    record: dict[str, Any] = {
        "name": "1_A. Sum",
        "description": "Do it.",
        "public_tests": as_lists if rng.random() < 0.5 else as_objects,
        "private_tests": {"input": [], "output": []},
        "generated_tests": None,
        "time_limit": rng.choice(({"seconds": 1, "nanos": 0}, None)),
        "memory_limit_bytes": 256000000,
        "input_file": "",
    }
    return "code_contests", record


_FORMS: Final[Mapping[str, Callable[[random.Random, Problem, str, list[Sample]], Record]]] = {
    "human_eval": _human_eval,
    "leetcode": _leetcode,
    "mbpp": _mbpp,
    "calls": _calls,
    "stdin": _stdin,
    "functional": lambda rng, problem, name, samples: _bench(
        rng, problem, name, samples, "functional"
    ),
    "bench stdin": lambda rng, problem, name, samples: _bench(rng, problem, name, samples, "stdin"),
    "contests": _contests,
}


def _call(name: str, sample: Sample) -> str:
    return f"{name}({', '.join(map(repr, sample))})"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
