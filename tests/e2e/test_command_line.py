"""The README's commands, run as a user runs them: real processes, store, workers, sandbox."""

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.commands import ASSAY, HANGS_S, ROOT, assay, environment, platform_up

from assay.client import Client, Outcome, Request

EXPECTED = {"p1": [1, 0, 1, 0], "p2": [1, 1, 1, 0], "p3": [1, 1, 0, 0]}


def test_the_main_job_scores_a_file_and_a_rerun_resumes(tmp_path: Path) -> None:
    output = tmp_path / "rewards.jsonl"
    command = ("score", ROOT / "examples" / "answers.jsonl", "--pipeline", "math", "--out", output)
    # A user's folder may hold files of any name: none of them is a module of the platform.
    for name in ("types", "random", "grpc", "assay"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong file')")
    first = assay(*command, "--json", data_dir=tmp_path, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    summary = json.loads(first.stdout)
    assert (summary["rows"], summary["scored"], summary["groups"]) == (12, 12, 3)
    results = {r["request_id"]: r for r in map(json.loads, output.read_text().splitlines())}
    for group, rewards in EXPECTED.items():
        assert [results[f"step1/{group}:k{k}"]["reward"] for k in range(4)] == rewards, group
    lines = output.read_text().splitlines(keepends=True)
    wrong = ("score", command[1], "--pipeline", "maths", "--out", output)
    refused = assay(*wrong, data_dir=tmp_path)
    assert (refused.returncode, output.read_text()) == (2, "".join(lines)), refused.stderr
    assert "no pipeline 'maths'" in refused.stderr
    output.write_text("".join(lines[:5]) + lines[5][:20])
    again = json.loads(assay(*command, "--json", data_dir=tmp_path).stdout)
    assert (again["resumed"], again["scored"]) == (5, 7)
    assert len(output.read_text().splitlines()) == 12


MATH_STAGES = '["math.verify"]'
BAD_ROWS = [
    b'{"request_id": "good", "response": "1", "reference": {"answers": ["1"]}}',
    b"no row",
    b'{"request_id": "form", "response": "x", "reference": {"answer": "1"}}',
    b'{"request_id": "good", "response": "2", "reference": "2"}',
    b'{"request_id": "type", "response": 5, "reference": "1"}',
    b'{"request_id": "last", "response": "2", "reference": "2"}',
]


def test_bad_rows_are_told_by_line_and_the_others_are_scored(tmp_path: Path) -> None:
    rows, output = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    rows.write_bytes(b"\n".join(BAD_ROWS))
    command = ("score", rows, "--pipeline", "math", "--out", output, "--json")
    run = assay(*command, data_dir=tmp_path, ASSAY_WORKER__STAGES=MATH_STAGES)
    assert run.returncode == 5, run.stderr
    summary = json.loads(run.stdout)
    assert (summary["rows"], summary["bad_rows"], summary["scored"]) == (6, 4, 2)
    lines = {line["line"]: line for line in map(json.loads, output.read_text().splitlines())}
    assert {n: lines[n]["reward"] for n in (1, 6)} == {1: 1.0, 6: 1.0}
    assert {n: lines[n]["field"] for n in (2, 3, 4, 5)} == {
        2: "",
        3: "reference.answers",
        4: "request_id",
        5: "response",
    }
    for number in (2, 3, 4, 5):
        assert f"line {number}: " in run.stderr
    assert "Traceback" not in run.stderr


def test_a_row_is_scored_with_its_own_settings(tmp_path: Path) -> None:
    rows, output = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    plain = {"response": "PARIS", "reference": "Paris"}
    own: tuple[dict[str, Any], ...] = ({}, {"ignore_case": True}, {}, {"ignore_case": "perhaps"})
    rows.write_text("".join(json.dumps({**plain, "settings": one}) + "\n" for one in own))
    command = ("score", rows, "--pipeline", "exact", "--out", output, "--json")
    run = assay(*command, data_dir=tmp_path, ASSAY_WORKER__STAGES='["match"]')
    assert run.returncode == 5, run.stderr
    lines = {line["line"]: line for line in map(json.loads, output.read_text().splitlines())}
    assert {n: line["reward"] for n, line in lines.items()} == {1: 0.0, 2: 1.0, 3: 0.0, 4: None}
    assert "ignore_case" in lines[4]["field"]
    again = json.loads(assay(*command, data_dir=tmp_path).stdout)
    assert (again["resumed"], again["scored"], again["bad_rows"]) == (3, 0, 1)


@pytest.mark.parametrize(("bad", "said"), [(1, "line 2: not JSON"), (2, "line 2: reference.answ")])
def test_a_strict_run_stops_before_anything_is_scored(tmp_path: Path, bad: int, said: str) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(BAD_ROWS[0] + b"\n" + BAD_ROWS[bad])
    command = ("score", rows, "--pipeline", "math", "--out", tmp_path / "o", "--strict")
    run = assay(*command, data_dir=tmp_path)
    assert run.returncode == 2
    assert said in run.stderr
    assert not (tmp_path / "o").exists()
    assert not (tmp_path / "run").exists()


def test_what_keeps_a_platform_from_starting_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        run = assay("up", "--plain", data_dir=tmp_path, ASSAY_REWARD__HTTP_PORT=port)
        assert run.returncode == 2
        assert run.stderr.count("\n") == 1
        assert "reward.http_port" in run.stderr
        assert port in run.stderr
        store = assay("up", "--plain", data_dir=tmp_path, ASSAY_STORE__URL="redis://h:1:2")
        assert store.stderr.count("\n") == 1
        assert "store.url" in store.stderr


@contextmanager
def own_processes(marker: str) -> Iterator[Callable[[], list[int]]]:
    """Processes whose environment has the marker; what is left is killed."""

    def found() -> list[int]:
        pids = []
        for folder in Path("/proc").iterdir():
            with suppress(OSError):
                if folder.name.isdigit() and marker.encode() in (folder / "environ").read_bytes():
                    pids.append(int(folder.name))
        return pids

    try:
        yield found
    finally:
        for pid in found():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
async def test_nothing_is_left_of_a_score_that_is_ended_at_whatever_moment(
    tmp_path: Path, number: signal.Signals
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    marker = f"ASSAY_TOKEN=mark-{seed}"
    command = ("score", ROOT / "examples" / "answers.jsonl", "--pipeline", "math")
    with own_processes(marker) as left:
        process = await asyncio.create_subprocess_exec(
            *(*ASSAY, *map(str, command), "--out", str(tmp_path / "out.jsonl")),
            env={
                **environment(tmp_path),
                "ASSAY_TOKEN": f"mark-{seed}",
                "ASSAY_WORKER__STAGES": MATH_STAGES,
            },
            stderr=asyncio.subprocess.DEVNULL,
        )
        await asyncio.sleep(random.Random(seed).uniform(1.0, 8.0))
        with suppress(ProcessLookupError):
            process.send_signal(number)
        async with asyncio.timeout(HANGS_S):
            await process.wait()
            while left():
                await asyncio.sleep(0.1)


async def test_up_serves_and_drains_and_status_sees_it(tmp_path: Path) -> None:
    async with platform_up(tmp_path) as addresses, Client(addresses["grpc"]) as client:
        scores = await client.score(
            [
                Request(
                    request_id="sum",
                    response="```python\nprint(sum(map(int, input().split())))\n```",
                    reference={"tests": [{"stdin": "1 2\n", "stdout": "3\n"}]},
                )
            ],
            pipeline="code.python",
        )
        assert scores.results[0].outcome is Outcome.SCORED
        assert scores.rewards == [1.0]
        status = await asyncio.to_thread(assay, "status", "--json", data_dir=tmp_path)
        stages = {stage["stage"]: stage for stage in json.loads(status.stdout)["stages"]}
        assert stages["python.run"]["slots_ready"] == 1
        resized = await asyncio.to_thread(
            assay, "pool", "resize", "python.run", "2", "--json", data_dir=tmp_path
        )
        assert json.loads(resized.stdout)["slots_desired"] == 2
        second = await asyncio.to_thread(assay, "up", "--plain", data_dir=tmp_path)
        assert second.returncode == 2
        assert "another process uses" in " ".join(second.stderr.split())
    assert not (tmp_path / "run" / "reward.json").exists()


def sum_of(number: int) -> Request:
    return Request(
        request_id=f"r{number}",
        response="```python\nprint(sum(map(int, input().split())))\n```",
        reference={"tests": [{"stdin": f"1 {number}\n", "stdout": f"{number + 1}\n"}]},
    )


async def until_said(data_dir: Path, *arguments: str, field: str) -> dict[str, Any]:
    """Ask again until the answer has that."""
    async with asyncio.timeout(HANGS_S):
        while True:
            run = await asyncio.to_thread(assay, *arguments, "--json", data_dir=data_dir)
            if run.returncode == 0 and (said := json.loads(run.stdout)).get(field):
                return dict(said)
            await asyncio.sleep(0.2)


async def test_a_plan_is_explained_drawn_and_replayed(tmp_path: Path) -> None:
    async with platform_up(tmp_path) as addresses, Client(addresses["grpc"]) as client:
        await until_said(tmp_path, "plan", "show", field="leading")
        task = await client.register_task("sums", pipeline="code.python", batch_size=6)
        for number in range(2):
            batch = await client.open_batch(task, size=6)
            said = await until_said(tmp_path, "plan", "explain", batch.batch_id, field="plans")
            assert said["plans"][0]["batches"][0]["batch_id"] == batch.batch_id, number
            await batch.submit([sum_of(n) for n in range(6)])
            assert len([result async for result in batch.results()]) == 6
        picture = tmp_path / "plan.png"
        told = await asyncio.to_thread(
            assay, "plan", "explain", batch.batch_id, "--plot", picture, data_dir=tmp_path
        )
        assert told.returncode == 0, told.stderr
        assert "own history" in told.stdout
        assert picture.read_bytes().startswith(b"\x89PNG")
        status = await asyncio.to_thread(assay, "status", "--json", data_dir=tmp_path)
        assert json.loads(status.stdout)["planner"].startswith("leading")
        traces = tmp_path / "traces.jsonl"
        exported = await asyncio.to_thread(
            assay, "history", "export", traces, "--task", "sums", "--json", data_dir=tmp_path
        )
        assert json.loads(exported.stdout) == {"tasks": 1, "batches": 2, "requests": 12}
    replay = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "assay.sim", "--replay", str(traces)],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert replay.returncode == 0, replay.stderr
    assert "1 tasks, 1 batches" in replay.stdout
    assert "assay " in replay.stdout


def test_without_a_planner_the_plan_commands_say_so(tmp_path: Path) -> None:
    run = assay("plan", "show", data_dir=tmp_path)
    assert run.returncode == 2
    assert "no planner runs here" in " ".join(run.stderr.split())


def test_without_a_platform_status_says_how_to_start_one(tmp_path: Path) -> None:
    run = assay("status", data_dir=tmp_path)
    assert run.returncode == 2
    assert "assay up" in " ".join(run.stderr.split())


@pytest.mark.parametrize("command", ["pipelines", "doctor"])
def test_every_table_also_comes_as_json(tmp_path: Path, command: str) -> None:
    run = assay(command, "--json", data_dir=tmp_path)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)


def test_scored_rows_are_judged_again_and_differences_are_told(tmp_path: Path) -> None:
    rows = [
        {"request_id": "same", "response": "Paris", "reference": "Paris"},
        {"request_id": "changed", "response": "paris", "reference": "Paris"},
        {"request_id": "stateful", "response": "Paris", "reference": "Paris"},
        {"request_id": "new", "response": "Paris", "reference": "Paris"},
    ]
    file, first, second = (tmp_path / name for name in ("rows.jsonl", "first", "second"))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows[:3]))
    common = ("--pipeline", "exact")
    loose = ("--settings", '{"ignore_case": true}')
    scored = assay("score", file, *common, *loose, "--out", first, data_dir=tmp_path / "data")
    assert scored.returncode == 0, scored.stderr
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    for line in lines:
        line["rescorable"] = line["request_id"] != "stateful"
    first.write_text("".join(json.dumps(line) + "\n" for line in lines))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    again = assay(
        *("rescore", file, first, *common, "--out", second, "--json"),
        data_dir=tmp_path / "data",
    )
    assert again.returncode == 6, again.stderr
    found = json.loads(again.stdout)
    assert (found["same"], found["refused"]) == (1, {"state_gone": 1, "no_result": 1})
    assert found["changes"] == [{"request_id": "changed", "before": 1.0, "now": 0.0}]
    assert found["versions_before"].keys() != found["versions_now"].keys()
