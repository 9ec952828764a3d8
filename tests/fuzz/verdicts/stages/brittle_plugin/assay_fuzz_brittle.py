"""A pipeline whose handler fails as the response says; installed for the fuzzer only.

A response is `right` or `wrong`, and before that it may name a failure and the number of times that
it happens. The reference may say that the handler fails for every response: then the host is at
fault.
"""

import gc
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NoReturn

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.core.verdict import Evidence, HandedOver, StageVerdict
from assay.verifiers.port import (
    HandlerContext,
    PipelineDefinition,
    Reference,
    StageDefinition,
    Work,
    scored,
)

MIB: Final = 1 << 20


class BrittleReference(Reference):
    """Whether the host works."""

    sound: bool = True


class WithoutText(Exception):
    """An error that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def _raise(error: BaseException) -> Callable[[], NoReturn]:
    def fail() -> NoReturn:
        raise error

    return fail


def _deep() -> None:
    _deep()


def _nested() -> None:
    value: object = None
    for _ in range(500_000):
        value = [value]
    repr(value)


def _spin() -> None:
    while True:
        pass


def _fill() -> None:
    kept = []
    gc.disable()
    while True:
        kept.append(bytearray(4 * MIB))


FAILURES: Final[dict[str, Callable[[], object]]] = {
    "value": _raise(ValueError("\ud800 no such value \0")),
    "lookup": _raise(KeyError(("a", 1))),
    "stop": _raise(StopIteration()),
    "text": _raise(WithoutText()),
    "long": _raise(RuntimeError("x" * 1_000_000)),
    "group": _raise(ExceptionGroup("several", [ValueError("a"), OSError(5, "b")])),
    "os": _raise(OSError(28, "No space left on device")),
    "assertion": _raise(AssertionError()),
    "unicode": _raise(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "what")),
    "deep": _deep,
    "nested": _nested,
    "spin": _spin,
    "memory": _fill,
    "exit": _raise(SystemExit(3)),
    "interrupt": _raise(KeyboardInterrupt()),
    "leaves": lambda: os._exit(7),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "aborts": os.abort,
}
ENDS_SLOT: Final = frozenset({"spin", "memory", "exit", "interrupt", "leaves", "killed", "aborts"})
"""What no handler can catch, so that the slot ends or retires."""


def define_pipelines(_settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """One whose controls are trivial responses, one with its own, and one of two stages."""
    plain = _stage("fuzz.brittle", "BrittleHandler")
    trusting = _stage("fuzz.brittle.trusting", "TrustingHandler")
    first = _stage("fuzz.brittle.first", "FirstHandler")
    stages = {"plain": (plain,), "trusting": (trusting,), "two": (first, trusting)}
    return [
        PipelineDefinition(
            spec=PipelineSpec(
                name=PipelineName(f"fuzz_brittle.{name}"),
                description="For the fuzzer.",
                stages=tuple(each.spec.name for each in several),
            ),
            stages=several,
            reference=BrittleReference,
        )
        for name, several in stages.items()
    ]


def _stage(name: str, handler: str) -> StageDefinition:
    return StageDefinition(
        spec=StageSpec(
            name=StageName(name),
            timeout_s=20.0,
            lease_s=5.0,
            batch_max=4,
            cpu_s_max=0.5,
            on_demand=True,
            resources=Resources(memory_bytes=256 * MIB),
        ),
        handler=f"assay_fuzz_brittle:{handler}",
        confined=True,
    )


class BrittleHandler:
    """Fails as the response says, and judges it otherwise."""

    def __init__(self, context: HandlerContext) -> None:
        self._failed: Counter[str] = Counter()

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        return [self._one(work) for work in works]

    def close(self) -> None:
        """Nothing is held."""

    def _one(self, work: Work) -> StageVerdict:
        reference: BrittleReference = work.reference
        if not reference.sound:
            raise RuntimeError("nothing works here")
        *failure, said = work.response.split() or [""]
        if failure:
            name, times = failure
            self._failed[work.response] += 1
            if self._failed[work.response] <= int(times):
                FAILURES[name]()
        evidence = Evidence(verdict="pass" if said == "right" else "wrong_answer")
        return scored(passed=said == "right", settings=work.settings, evidence=evidence)


class TrustingHandler(BrittleHandler):
    """Names the response of its control."""

    def trusted(self, work: Work) -> Work:
        return replace(work, response="wrong", handover=b"")


class FirstHandler(BrittleHandler):
    """Hands over what it has judged."""

    def _one(self, work: Work) -> StageVerdict:
        super()._one(work)
        return HandedOver(artifact=b"seen")
