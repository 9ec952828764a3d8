"""Equal versions mean equal judges: what can change a reward changes the version."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName
from assay.verifiers.port import PipelineDefinition, Tools
from assay.verifiers.registry import load_pipelines
from assay.verifiers.version import (
    VERSION_CHARS,
    Versions,
    hash_of_packages,
    version_after,
)

MATH, FUNCTION, CPP = map(PipelineName, ("math", "python_function", "code.cpp"))


class Time:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def versions(settings: VerifierSettings | None = None) -> Versions:
    used = settings or VerifierSettings()
    return Versions(load_pipelines(used), used, now_s=Time())


def test_it_is_the_same_for_the_same_judge_and_differs_by_pipeline_settings_and_limits() -> None:
    own = versions().of(MATH, b"{}")
    assert len(own) == VERSION_CHARS
    assert versions().of(MATH, b"{}") == own
    assert versions().of(MATH, b'{"strict": false}') != own
    assert versions().of(CPP, b"{}") != own
    assert versions(VerifierSettings(math_cpu_s=9)).of(MATH, b"{}") != own
    assert versions().of(PipelineName("none"), b"{}") == ""


def test_an_operators_file_that_changes_while_the_host_runs_changes_it(tmp_path: Path) -> None:
    settings = VerifierSettings(function_paths=(tmp_path,))
    time = Time()
    found = Versions(load_pipelines(settings), settings, now_s=time)
    seen = [found.of(FUNCTION, b"{}")]
    for name, text in [("mine.py", "1"), ("mine.py", "22"), ("inner/other.py", "1")]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        time.now += 3_600
        seen.append(found.of(FUNCTION, b"{}"))
    assert len(set(seen)) == 4
    assert found.of(MATH, b"{}") == versions().of(MATH, b"{}")


def test_a_program_that_is_replaced_changes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    absent = versions().of(CPP, b"{}")
    program = tmp_path / "g++"
    program.write_text("12")
    program.chmod(0o755)
    first = versions().of(CPP, b"{}")
    program.write_text("13.1")
    assert len({absent, first, versions().of(CPP, b"{}")}) == 3


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's package that no process has imported."""
    folder = tmp_path / "some_judges"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    hash_of_packages.cache_clear()
    sys.modules.pop("some_judges", None)


def test_it_covers_the_users_own_package_and_declared_distributions(package: Path) -> None:
    noop = load_pipelines()[PipelineName("noop")]
    stage = replace(noop.stages[0], handler="some_judges.inner:Handler")

    def version(definition: PipelineDefinition) -> str:
        hash_of_packages.cache_clear()  # as another process
        known = {definition.spec.name: definition}
        found = Versions(known, VerifierSettings(), now_s=Time())
        return found.of(definition.spec.name, b"{}")

    mine = replace(noop, stages=(stage,))
    seen = [version(noop), version(mine)]
    (package / "inner.py").write_text("x = 1")
    seen.append(version(mine))
    (package / "table.json").write_text("{}")
    seen.append(version(mine))
    seen.append(version(replace(mine, tools=Tools(distributions=("pydantic",)))))
    assert len(set(seen)) == 5


def test_stages_of_two_versions_are_a_third() -> None:
    assert version_after("", "b") == "b"
    assert version_after("b", "b") == "b"
    mixed = version_after("a", "b")
    assert mixed not in {"a", "b", version_after("b", "a")}
