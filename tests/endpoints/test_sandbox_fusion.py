"""SandboxFusion's API over a running platform: real processes, sandbox and compiler."""

import asyncio
import base64
import json
import os
import re
from pathlib import Path
from typing import Any

import httpx
from tests.e2e.commands import platform_up
from tests.endpoints.labelled import labelled
from tests.integrations.interpreters import run_program
from tests.verifiers.benches import SHARED_DATA

from assay.reward.endpoints.sandbox_fusion_bodies import LANGUAGES, NOT_HERE
from assay.verifiers.languages.language import ALL_LANGUAGES
from assay.verifiers.languages.toolchains import ToolMissing, find_toolchain

ROUNDS = """
#include <bits/stdc++.h>
int main() { long long a, b; std::cin >> a >> b; std::cout << a * b << std::endl; }
"""
SUM = "```python\nprint(sum(map(int, input().split())))\n```"
HUMAN_EVAL = {
    "task_id": "HumanEval/x",
    "prompt": 'def double(x: int) -> int:\n    """Twice x."""\n',
    "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(0) == 0\n",
}
MBPP = {
    "id": 11,
    "content": "",
    "labels": '{"test_setup_code": ""}',
    "test_list": ["assert double(2) == 4", "assert double(0) == 0"],
    "test_setup_code": "",
}


def oj(*tests: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"input": {"stdin": given}, "output": {"stdout": wanted}} for given, wanted in tests]


def made(metrics: str) -> float:
    """Artifacts that the platform has made."""
    found = re.findall(r'^assay_artifact\w*\{[^}]*result="made"[^}]*\} (\S+)$', metrics, re.M)
    assert found, "no metric of artifacts"
    return sum(map(float, found))


async def test_sandbox_fusions_clients_over_a_running_platform(tmp_path: Path) -> None:
    async with (
        platform_up(tmp_path) as addresses,
        httpx.AsyncClient(base_url=f"{addresses['http']}/v1/sandboxfusion", timeout=240) as http,
    ):
        assert (await http.get("/v1/ping")).json() == "pong"
        await one_submission_as_verl_sends_it(http, addresses["http"])
        await what_programs_do(http)
        await languages(http)
        await data_sets(http)
        await labelled_requests(http)
        await the_client_of_pypi(f"{addresses['http']}/v1/sandboxfusion")


async def one_submission_as_verl_sends_it(http: httpx.AsyncClient, url: str) -> None:
    """Ten tests of one program at once: all right, compiled once."""

    async def run(number: int) -> dict[str, Any]:
        body = {
            "compile_timeout": 60,
            "run_timeout": 60,
            "code": ROUNDS,
            "stdin": f"{number} {number}\n",
            "memory_limit_MB": 1024,
            "language": "cpp",
            "files": {},
            "fetch_files": [],
        }
        answer = await http.post("/run_code", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    answers = await asyncio.gather(*map(run, range(10)))
    for number, answer in enumerate(answers):
        assert answer["status"] == "Success", answer
        assert answer["compile_result"]["return_code"] == 0
        assert answer["run_result"]["stdout"] == f"{number * number}\n"
        assert answer["run_result"]["return_code"] == 0
    metrics = (await http.get(f"{url}/metrics")).text
    assert made(metrics) == 1 + len(answers), "one program, and a report of each run"


async def what_programs_do(http: httpx.AsyncClient) -> None:
    async def run(code: str, language: str = "python", **limits: Any) -> dict[str, Any]:
        body = {"code": code, "language": language, **limits}
        found: dict[str, Any] = (await http.post("/run_code", json=body)).json()
        return found

    failed = await run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (failed["status"], failed["run_result"]["return_code"]) == ("Failed", 3)
    assert (failed["run_result"]["stdout"], failed["run_result"]["stderr"]) == ("out\n", "err\n")
    slow = await run("while True: pass", run_timeout=0.3)
    assert (slow["status"], slow["run_result"]["status"]) == ("Failed", "TimeLimitExceeded")
    assert slow["run_result"]["return_code"] is None
    greedy = await run("x = bytearray(10**9)", memory_limit_MB=64)
    # Without a cgroup it is addresses that run out, and the interpreter says so itself.
    ended = -9 if os.geteuid() == 0 else 1
    assert (greedy["status"], greedy["run_result"]["return_code"]) == ("Failed", ended)
    broken = await run("int main() {", "cpp")
    assert (broken["status"], broken["run_result"]) == ("Failed", None)
    assert broken["compile_result"]["return_code"] == 1


PROGRAMS = {
    "c": """
#include <stdio.h>
int main() { int a, b; scanf("%d %d", &a, &b); printf("%d\\n", a + b); }
""",
    "java": """
import java.util.Scanner;
public class Main { public static void main(String[] a) {
  Scanner in = new Scanner(System.in); System.out.println(in.nextInt() + in.nextInt()); } }
""",
    "nodejs": "const [a, b] = require('fs').readFileSync(0, 'utf8').trim().split(' ').map(Number);"
    "\nconsole.log(a + b);",
    "typescript": "const s: string = require('fs').readFileSync(0, 'utf8').trim();\n"
    "console.log(s.split(' ').map(Number).reduce((a: number, b: number) => a + b));",
    "go": """
package main
import "fmt"
func main() { var a, b int; fmt.Scan(&a, &b); fmt.Println(a + b) }
""",
    "rust": """
use std::io::*;
fn main() { let mut s = String::new(); stdin().read_to_string(&mut s).unwrap();
  println!("{}", s.split_whitespace().map(|x| x.parse::<i64>().unwrap()).sum::<i64>()); }
""",
    "bash": "read a b; echo $((a + b))",
}
"""Print the sum of two numbers."""


def lacks_tools(language: str) -> bool:
    try:
        find_toolchain(ALL_LANGUAGES[language])
    except ToolMissing:
        return True
    return False


async def languages(http: httpx.AsyncClient) -> None:
    """Judged right and wrong where the tools are; otherwise no verdict at all."""
    row = {"id": 7, "test": oj(("1 2", "3"), ("2 2", "4"))}
    for name, program in PROGRAMS.items():
        missing = lacks_tools(LANGUAGES[name].name)
        run = {"code": program, "language": name, "stdin": "1 2\n", "compile_timeout": 60}
        answer = await http.post("/run_code", json=run)
        assert answer.status_code == 200, (name, answer.text)
        ran = answer.json()
        wrong = program.replace("sum", "product") if name == "rust" else program.replace("+", "-")
        submitted = []
        for code in (program, wrong):
            config = {"dataset_type": "CommonOJDataset", "language": name, "provided_data": row}
            block = f"```{LANGUAGES[name].name}\n{code}\n```"
            body = {"dataset": "mine", "id": 7, "completion": block, "config": config}
            submitted.append(await http.post("/submit", json=body))
        if missing:
            assert ran["status"] == "SandboxError", (name, ran)
            assert {one.status_code for one in submitted} <= {503, 504}, name
        else:
            assert ran["run_result"]["stdout"] == "3\n", (name, ran)
            assert (ran["compile_result"] is not None) == LANGUAGES[name].compiled
            assert [one.json()["accepted"] for one in submitted] == [True, False], name
    for name in NOT_HERE:
        never = (await http.post("/run_code", json={"code": "", "language": name})).json()
        assert never["status"] == "SandboxError", name
        assert name in never["message"]


async def data_sets(http: httpx.AsyncClient) -> None:
    async def submit(kind: str, row: Any, completion: str, **extra: Any) -> dict[str, Any]:
        config = {"dataset_type": kind, "language": "python", "provided_data": row, "extra": extra}
        body = {"dataset": "mine", "id": 7, "completion": completion, "config": config}
        answer = await http.post("/submit", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        assert found["id"] == 7
        return found

    row: dict[str, Any] = {"id": 7, "test": oj(("1 2", "3"), ("1 1", "3"), ("2 2", "4"))}
    first = await submit("CommonOJDataset", row, SUM)
    assert first["accepted"] is False
    assert [test["passed"] for test in first["tests"]] == [True, False]
    assert first["tests"][1]["test_info"] == row["test"][1]
    every = await submit(
        "CommonOJDataset", {**row, "test": json.dumps(row["test"])}, SUM, run_all_cases=True
    )
    assert [test["passed"] for test in every["tests"]] == [True, False, True]
    right = await submit("CommonOJDataset", {"test": oj(("1 2", " 3 \n"))}, SUM)
    assert right["accepted"] is True
    assert right["extracted_code"].startswith("print(sum")
    double = "```python\ndef double(x):\n    return 2 * x\n```"
    for kind, given in (("HumanEvalDataset", HUMAN_EVAL), ("MBPPDataset", MBPP)):
        assert (await submit(kind, given, double))["accepted"] is True, kind
        wrong = await submit(kind, given, double.replace("2 * x", "3 * x"))
        assert wrong["accepted"] is False, kind
    assert (await submit("HumanEvalDataset", HUMAN_EVAL, "    return x + x\n"))["accepted"] is True
    await judged_by_files(submit, double)
    leaves = "```python\nimport sys\ndef double(x):\n    sys.exit(0)\n```"
    assert (await submit("MBPPDataset", MBPP, leaves))["accepted"] is False


def unittest_row(kind: str) -> dict[str, Any]:
    """A row judged by test cases: BigCodeBench's form, or Aider's."""
    cases = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n"
    cases += "        self.assertEqual(double(2), 4)\n"
    if kind == "HumanEvalDataset":
        return {"content": "def double(x):\n    '''Twice.'''", "test": cases} | {
            "labels": {"entry_point": "double"}
        }
    code = f"from twice import double\n{cases}unittest.main()\n"
    return {"test": {"code": "#<INSERT>", "asset": {"twice_test.py": in_base64(code)}}}


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def judged_by_files(submit: Any, double: str) -> None:
    """Rows whose tests are in files, and those of `unittest`."""
    for kind in ("HumanEvalDataset", "AiderBenchmarkDataset"):
        row = unittest_row(kind)
        assert (await submit(kind, row, double))["accepted"] is True, kind
        assert (await submit(kind, row, double.replace("2", "3")))["accepted"] is False, kind
    continued = unittest_row("HumanEvalDataset")
    body = "    return 2 * x\n\ndef never_closed("
    assert (await submit("HumanEvalDataset", continued, body))["accepted"] is True
    row = {"test": {"asset": {"answer.json": in_base64('{"gt": "1,250"}')}}}
    for value, right in (("1250", True), ("'1250.01'", True), ("12.5", True), ("1260", False)):
        solution = f"```python\ndef solution():\n    return {value}\n```"
        assert (await submit("PalMathDataset", row, solution))["accepted"] is right, value


async def labelled_requests(http: httpx.AsyncClient) -> None:
    """SandboxFusion's own labelled requests, as far as their rows are there."""
    folder = SHARED_DATA / "sandboxfusion"
    if not folder.is_dir():
        return
    samples = Path(os.environ.get("SANDBOX_FUSION_SAMPLES", folder))
    found = labelled(folder / "submit_labels.jsonl", samples)
    assert len(found) >= 4
    for one in found:
        answer = await http.post("/submit", json=one.request)
        if one.why_not:
            assert not answer.json().get("accepted"), one.name
        elif "evoeval" not in one.name:  # needs numpy
            assert answer.json()["accepted"] == one.accepted, one.name


async def the_client_of_pypi(endpoint: str) -> None:
    """`sandbox-fusion`, unchanged, if there is one."""
    path = Path(__file__).with_name("in_sandbox_fusion.py")
    await run_program(path, "sandbox-fusion", endpoint, environment={})
