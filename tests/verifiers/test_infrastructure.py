"""What breaks on our side is never a verdict."""

from typing import Any

import pytest

from assay.sandbox.port import RunStatus, SandboxError
from assay.verifiers.local import LocalPipelines

TESTS = {"tests": [{"stdout": ""}]}
CALLS = {"calls": {"function": "f", "cases": [{"expected": 1}]}}


def broken(*_: Any, **__: Any) -> Any:
    raise SandboxError("the box broke")


@pytest.mark.parametrize(
    ("pipeline", "stage", "method", "reference"),
    [
        ("code.python", 0, "run_python", TESTS),
        ("code.python", 0, "run_harness", CALLS),
        ("code.cpp", 1, "run", TESTS),
    ],
)
def test_a_broken_sandbox_is_raised(
    bench: LocalPipelines,
    monkeypatch: pytest.MonkeyPatch,
    pipeline: str,
    stage: int,
    method: str,
    reference: dict[str, Any],
) -> None:
    definition = next(each for name, each in bench.pipelines.items() if name == pipeline)
    handler: Any = bench.handler(definition.stages[stage])
    monkeypatch.setattr(handler._launcher, method, broken)
    with pytest.raises(SandboxError):
        bench.judge(pipeline, "int main() {}", reference)


def test_a_broken_compilation_is_raised_and_nothing_is_kept(
    bench: LocalPipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = next(each for name, each in bench.pipelines.items() if name == "code.cpp")
    handler: Any = bench.handler(definition.stages[0])
    made = bench.artifacts.made
    with monkeypatch.context() as patch:
        patch.setattr(handler._compiler._launcher, "run", broken)
        with pytest.raises(SandboxError):
            bench.judge("code.cpp", "int main() { return 0 * 77; }", TESTS)
    assert bench.artifacts.made == made
    assert bench.judge("code.cpp", "int main() { return 0 * 77; }", TESTS).reward == 1.0


@pytest.mark.parametrize(
    "channel",
    [
        b"",
        b'{"nonce": "guessed", "test": 0, "verdict": "pass"}\n{"nonce": "guessed", "done": true}\n',
    ],
)
def test_a_referee_that_does_not_finish_is_no_verdict(
    bench: LocalPipelines, monkeypatch: pytest.MonkeyPatch, channel: bytes
) -> None:
    definition = next(each for name, each in bench.pipelines.items() if name == "code.python")
    handler: Any = bench.handler(definition.stages[0])
    run_harness = handler._launcher.run_harness

    def forged(run: Any) -> Any:
        from dataclasses import replace

        return replace(run_harness(run), channel=channel, status=RunStatus.EXITED)

    monkeypatch.setattr(handler._launcher, "run_harness", forged)
    with pytest.raises(SandboxError):
        bench.judge("code.python", "def f(): return 1", CALLS)
