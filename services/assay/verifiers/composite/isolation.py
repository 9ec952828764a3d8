"""Runs a confined stage for another stage: in a child process with the same confinement.

A stage that reads hostile text without a sandbox has a worker process that gave up network, files
and rights (`StageDefinition.confined`). Inside of another stage's process it gets a child that has
given them up too. There is one child per request, forked from this process, in which the handler is
warm. Verdicts come back as packed data. A response with which the child dies again and again, while
a control's child does not, is wrong, as in a worker.
"""

import os
import select
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Never

from assay.config.settings import SandboxSettings
from assay.core.codec import evidence_fields, evidence_from, pack, unpack
from assay.core.outcome import Outcome
from assay.core.verdict import Component, Ended, Evidence, HandedOver, ResourceUse, StageVerdict
from assay.sandbox import linux
from assay.sandbox.confine import confine_process
from assay.verifiers.port import StageDefinition, StageHandler, Work, resource_limited
from assay.verifiers.total import broke_the_run, judge_trusted, judged, total

_LOOK_S: Final = 0.05
_NO_MEMORY: Final = b"memory"
_CPU_SLACK_S: Final = 1.0
"""Beyond the stage's limit, for what the child does beside the handler."""
_FRAME_BYTES_MAX: Final = 64 * 1024**2
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class HandlerFailed(RuntimeError):
    """The handler raised in the child, where a control failed too."""


class ConfinedChild:
    """One confined stage."""

    def __init__(
        self, stage: StageDefinition, handler: StageHandler, sandbox: SandboxSettings
    ) -> None:
        """Args:
        stage: whose limits hold.
        handler: holds only memory, so that a child can inherit it.
        sandbox: the operator's settings.
        """
        self._stage = stage
        self._handler = handler
        self._sandbox = sandbox
        self._pid = 0

    def run(self, work: Work) -> StageVerdict:
        """Judge one request.

        Raises:
            HandlerFailed: the handler raised, for a control as well.
            RuntimeError: its process died, with a control as well.
        """
        return total(
            lambda: self._once(work),
            control=lambda: judge_trusted(self._handler, work, self._once),
            at_fault=lambda error: broke_the_run(work, error),
            unblamed=(HandlerFailed,),
        )

    def _once(self, work: Work) -> StageVerdict:
        channel = self._begin(work)
        reply = self._await(channel)
        if reply is None:
            limit_s = self._stage.spec.cpu_s_max or 0.0
            return resource_limited(
                settings=work.settings,
                evidence=Evidence(verdict="cpu_limit"),
                use=ResourceUse(cpu_s=limit_s),
            )
        if reply == _NO_MEMORY:
            return resource_limited(
                settings=work.settings, evidence=Evidence(verdict="memory_limit")
            )
        return _verdict(reply)

    def _begin(self, work: Work) -> socket.socket:
        """Fork a child for this request: it inherits the work."""
        ours, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            ours.close()
            self._be_child(theirs, work)
        theirs.close()
        return ours

    def _be_child(self, channel: socket.socket, work: Work) -> Never:
        try:
            # It must not speak to the host in this slot's name, nor to a sandbox's zygote.
            linux.close_all_but([0, 1, 2, channel.fileno()])
            try:
                memory_bytes = self._stage.spec.resources.memory_bytes + _data_bytes()
                confine_process(self._sandbox, memory_bytes=memory_bytes)
                reply = pack(_fields(judged(self._handler, work)))
            except MemoryError:
                reply = _NO_MEMORY
            except Exception as error:  # noqa: BLE001 - reported to the parent
                reply = pack(("failed", f"{type(error).__name__}: {error}"[-2_000:]))
            channel.sendall(len(reply).to_bytes(8, "big") + reply)
        finally:
            os._exit(0)

    def _await(self, channel: socket.socket) -> bytes | None:
        """The reply; `None` if the child used up its CPU time.

        Raises:
            RuntimeError: it died without one.
        """
        limit_s = (self._stage.spec.cpu_s_max or self._stage.spec.timeout_s) + _CPU_SLACK_S
        data = bytearray()
        try:
            while len(data) < 8 or len(data) < 8 + int.from_bytes(data[:8], "big"):
                ready, _, _ = select.select([channel], [], [], _LOOK_S)
                if not ready:
                    if _cpu_s(self._pid) > limit_s:
                        return None
                    continue
                part = channel.recv(1 << 20)
                if not part or len(data) > _FRAME_BYTES_MAX:
                    raise RuntimeError(f"the process of {self._stage.spec.name} died")
                data += part
            return bytes(data[8:])
        finally:
            channel.close()
            self.close()

    def close(self) -> None:
        """End the child."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0


def _data_bytes() -> int:
    """Private memory that this process has inherited."""
    return int(Path("/proc/self/statm").read_bytes().split()[5]) * _PAGE_BYTES


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _fields(verdict: StageVerdict) -> tuple[object, ...]:
    use = (verdict.use.cpu_s, verdict.use.memory_bytes_peak)
    if isinstance(verdict, HandedOver):
        return ("handed_over", verdict.artifact, *use)
    parts = [(part.name, part.value, part.weight) for part in verdict.components]
    evidence = evidence_fields(verdict.evidence)
    kept = (verdict.rescorable, verdict.unaudited)
    return ("ended", verdict.outcome.value, verdict.reward, evidence, parts, *kept, *use)


def _verdict(reply: bytes) -> StageVerdict:
    """Read what the child sent.

    Raises:
        HandlerFailed: it says so.
        RuntimeError: it is something else.
    """
    match unpack(reply):
        case ["handed_over", bytes() as artifact, int() | float() as cpu_s, int() as memory]:
            return HandedOver(
                artifact=artifact, use=ResourceUse(cpu_s=cpu_s, memory_bytes_peak=memory)
            )
        case [
            "ended",
            str() as outcome,
            None | int() | float() as reward,
            list() as evidence,
            list() as parts,
            bool() as rescorable,
            bool() as unaudited,
            int() | float() as cpu_s,
            int() as memory,
        ]:
            return Ended(
                outcome=Outcome(outcome),
                reward=reward,
                evidence=evidence_from(evidence),
                components=_components(parts),
                rescorable=rescorable,
                unaudited=unaudited,
                use=ResourceUse(cpu_s=cpu_s, memory_bytes_peak=memory),
            )
        case ["failed", str() as message]:
            raise HandlerFailed(message)
    raise RuntimeError("a confined process sent something that is not a verdict")


def _components(parts: Sequence[object]) -> tuple[Component, ...]:
    found = []
    for part in parts:
        match part:
            case [str() as name, int() | float() as value, int() | float() as weight]:
                found.append(Component(name=name, value=value, weight=weight))
            case _:
                raise RuntimeError("a confined process sent something that is not a component")
    return tuple(found)
