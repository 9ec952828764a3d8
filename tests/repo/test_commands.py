"""Every command of README and docs is accepted as it is written.

Commands stand in `sh` blocks, in indented blocks and between backticks. Each is given to the real
parser of its program, which then ends: what is tested is that program, options and the form of
their values exist, not what the command does. Capital words stand for values of the reader's.
"""

import ast
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from assay.cli.main import app
from assay.edge.lifecycle import CHECK

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAM = re.compile(r"(\./run|assay|python|make|pip|\.ci/run|scripts/\S+)( |$)")
PLACEHOLDERS = {"N": "1", "M": "1", "B": "b"}
"""Values for capital words that are no names of files."""
PROGRAMS = """
import argparse, contextlib, importlib, json, os, runpy, sys, tempfile, traceback
parse = argparse.ArgumentParser.parse_args
def parsed(what, name, given):
    def parse_all_and_end(self, *_, **__):
        for one in given:
            print("refused:", one, file=sys.stderr)
            parse(self, one)
        raise SystemExit(0)
    argparse.ArgumentParser.parse_args = parse_all_and_end
    sys.argv = [name, *given[0]]
    if what == "file":
        sys.path.insert(0, name.rpartition("/")[0])
    runpy.run_module(name, run_name="__main__", alter_sys=True) if what == "module" else (
        runpy.run_path(name, run_name="__main__"))
def status_of(*asked):
    try:
        parsed(*asked)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    with tempfile.TemporaryFile() as said:
        if (child := os.fork()) == 0:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            status = status_of(*json.loads(line))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        print(json.dumps([status, said.read().decode(errors="replace")]), flush=True)
"""
"""Reads one program per line and runs it up to its `parse_args`, which takes each list of
arguments, in a child that has what most programs import."""
IMPORTED = (
    "assay.cli.main",
    "assay.client.client",
    "assay.reward.server",
    "assay.rollout.service",
    "assay.sim.laboratory.__main__",
    "hypothesis",
    "pytest",
)
SERVICES = {"assay.reward", "assay.worker", "assay.planner"}
"""Modules that take no argument and serve until they are stopped."""
TRAINERS = {"openrlhf", "slime", "verl"}
"""Packages and checkouts whose commands pages show, and that are not installed with the project."""


def commands(page: str) -> Iterator[str]:
    """Yield what a page shows as a command, one logical line each."""
    page = re.sub(r"\\\n *", " ", page)  # one line per command
    blocks = re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    indented = re.findall(r"^    (\S.*)$", page, re.MULTILINE)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.M))
    lines = "\n".join([*blocks, *indented]).splitlines()
    for line in [*lines, *inline]:
        if PROGRAM.match(line.strip()):
            yield line.strip()


def words(command: str) -> Sequence[str]:
    """Split a command; brackets mark what may be left out, `...` what may be repeated."""
    plain = re.sub(r"\[(-[^\]]*)\]", r"\1", command)
    found = shlex.split(plain, comments=True)
    return [PLACEHOLDERS.get(word, word).removesuffix("...") for word in found]


ALL = sorted({(page.name, one) for page in PAGES for one in commands(page.read_text("utf-8"))})


def of(*programs: str) -> list[object]:
    return [
        pytest.param(words(text)[1:], id=f"{page}: {text}"[:90])
        for page, text in ALL
        if words(text)[0] in programs
    ]


def of_python(*, module: bool) -> list[object]:
    """One case per program, with the arguments of all its commands: a program starts slowly."""
    found: defaultdict[str, list[list[str]]] = defaultdict(list)
    for _, text in ALL:
        program, *arguments = words(text)
        # Options of the interpreter before `-c` name no program either.
        if program != "python" or not arguments or "-c" in takewhile(is_option, arguments):
            continue
        if module == (arguments[0] == "-m"):
            name, *rest = arguments[1:] if module else arguments
            found[name].append(rest)
    return [pytest.param(name, given, id=name) for name, given in sorted(found.items())]


def is_option(word: str) -> bool:
    return word.startswith("-")


@pytest.mark.parametrize("arguments", of("assay", "./run"))
def test_assay_takes_the_command(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not arguments or arguments[0] == "test" or arguments == ["check"]:
        return  # of the script ./run; see below
    monkeypatch.chdir(tmp_path)
    for word in arguments:
        if not word.startswith("-"):  # it may be a file that has to exist
            (tmp_path / word).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / word).touch()
    if arguments == ["--help"]:
        return  # it ends the process
    context = typer.main.get_group(app).make_context("assay", list(arguments))
    command: Any = context.command
    rest = [*context._protected_args, *context.args]
    while rest and isinstance(command, typer.core.TyperGroup):
        _, command, rest = command.resolve_command(context, rest)
        if not rest:
            return  # a mention of the command, without what it needs
        context = command.make_context(command.name, list(rest), parent=context)
        rest = [*context._protected_args, *context.args]


def test_the_script_runs_tests_and_checks_and_leaves_the_check_of_a_file_to_assay() -> None:
    labels = re.findall(r"^([\"*].*)\)(?:  #.*)?$", (ROOT / "run").read_text(), re.MULTILINE)
    assert labels == ['"test "*', '"check 1"', '"demo "*', "*"]


@pytest.fixture(scope="module")
def programs() -> Iterator[subprocess.Popen[str]]:
    """The process whose children are the programs: each would import the same for seconds."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAMS, *IMPORTED],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as started:  # fmt: skip
        yield started


@pytest.mark.parametrize(("name", "given"), of_python(module=False))
def test_a_script_takes_its_arguments(
    programs: subprocess.Popen[str], name: str, given: list[list[str]]
) -> None:
    if name.partition("/")[0] in TRAINERS:
        return
    path = ROOT / name
    assert path.exists()
    if "ArgumentParser" not in path.read_text(encoding="utf-8"):
        assert not any(given) or "sys.argv" in path.read_text(encoding="utf-8")
        return
    parse(programs, "file", str(path), given)


@pytest.mark.parametrize(("name", "given"), of_python(module=True))
def test_a_module_takes_its_arguments(
    programs: subprocess.Popen[str], name: str, given: list[list[str]]
) -> None:
    if name.partition(".")[0] in TRAINERS:
        return
    if name in SERVICES:
        assert [one for one in given if one not in ([], [CHECK])] == []
        assert any((ROOT / "services" / name.replace(".", "/")).glob("__main__.py"))
        return
    found = importlib.util.find_spec(name)
    assert found is not None
    source = (
        importlib.util.find_spec(f"{name}.__main__") if found.submodule_search_locations else found
    )
    assert source is not None
    if "ArgumentParser" in Path(source.origin or "").read_text(encoding="utf-8"):
        parse(programs, "module", name, given)


def parse(
    programs: subprocess.Popen[str], what: str, name: str, given: Sequence[Sequence[str]]
) -> None:
    """Run a program up to its `parse_args`, which takes each list of arguments; then it ends."""
    assert programs.stdin is not None
    assert programs.stdout is not None
    print(json.dumps([what, name, given]), file=programs.stdin, flush=True)
    status, said = json.loads(programs.stdout.readline())
    assert status == 0, said[-2_000:]


def texts() -> Iterator[tuple[str, str]]:
    """What is written by hand and tracked, with its name."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().split("\0"):
        if Path(name).suffix in {".py", ".md", ".toml", ".yml", ".yaml", ""} and name:
            path = ROOT / name
            if path.is_file() and path != Path(__file__):
                yield name, path.read_text("utf-8", errors="replace")


def test_a_measurement_is_named_as_the_module_that_is_run() -> None:
    """A dotted name everywhere, of a module that exists; never the path of a file."""
    by_path = re.compile(r"python\S*\s+benchmarks/")
    named = re.compile(r"(?<![\w/.])benchmarks\.(\w+)\.(\w+)")
    wrong = [
        f"{name}: {match[0]}"
        for name, text in texts()
        for match in (*by_path.finditer(text), *named.finditer(text))
        if not match.re.groups or not (ROOT / "benchmarks" / match[1] / f"{match[2]}.py").exists()
    ]
    assert wrong == []


@pytest.mark.parametrize("arguments", of("make"))
def test_make_has_the_target(arguments: list[str]) -> None:
    done = subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", of("pip"))
def test_pip_installs_what_is_there(arguments: list[str]) -> None:
    extras = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    )
    for word in arguments:
        named = re.fullmatch(r"(?:assay|\.)\[([\w,-]+)\]", word)
        assert named is None or set(named[1].split(",")) <= extras
        assert not word.startswith("./") or (ROOT / word / "pyproject.toml").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_are_python(page: Path) -> None:
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.M):
        compile(block, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_commands_are_found() -> None:
    assert len(ALL) > 60
