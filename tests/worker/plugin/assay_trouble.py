"""A package of pipelines whose responses say what shall go wrong; installed for the tests only."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.core.verdict import Ended, Evidence, HandedOver, ResourceUse, StageVerdict
from assay.verifiers.port import (
    GroupWork,
    HandlerContext,
    PipelineDefinition,
    RateLimits,
    Reference,
    StageDefinition,
    Work,
    scored,
)

MIB = 1024 * 1024


class NoReference(Reference):
    """Nothing is compared."""


class AuditedReference(Reference):
    """Says what an audit of it finds, and where to count audits."""

    log: str = ""
    finds: str = "sound"
    """`sound`, `weak`, `exception`, `death` or `spin`."""
    waits_for: str = ""
    """A file without which the audit does not end."""
    number: int = 0


def stage(name: str, handler: str = "TroubleHandler", **spec: object) -> StageDefinition:
    confined, audits = bool(spec.pop("confined", False)), bool(spec.pop("audits", False))
    trusts = bool(spec.pop("trusts", False))
    finds_faults = bool(spec.pop("finds_faults", False))
    artifacts = str(spec.pop("artifacts", ""))
    fields = {"timeout_s": 20.0, "lease_s": 1.5, **spec}
    return StageDefinition(
        spec=StageSpec(name=StageName(name), **fields),  # type: ignore[arg-type]  # by the callers
        handler=f"assay_trouble:{handler}",
        confined=confined,
        audits=audits,
        trusts=trusts,
        finds_faults=finds_faults,
        artifacts=artifacts,
    )


AUDITS = ("assay_trouble:AuditHandler", "assay_trouble:FaultHandler")
STAGES = {
    "single": stage("single", timeout_s=1.5),
    # Tests tell it when to end; a planner that they wait for may take a minute to start.
    "patient": stage("patient", timeout_s=120.0),
    "batch": stage("batch", batch_max=8, timeout_s=1.5),
    "cpu": stage("cpu", batch_max=8, cpu_s_max=0.3),
    "confined": stage(
        "confined", batch_max=4, confined=True, resources=Resources(memory_bytes=256 * MIB)
    ),
    "quiet": stage("quiet", handler="QuietTrouble", batch_max=4, confined=True),
    "certain": stage("certain"),
    "sharing": stage("sharing", artifacts="assay_trouble:artifacts_of"),
    "rare": stage("rare", on_demand=True),
    "waking": stage("waking", on_demand=True),
    "woken": stage("woken", on_demand=True),
    "broken": stage("broken", handler="BrokenHandler"),
    "audited": stage("audited", handler="AuditHandler", audits=True),
    "faults": stage(
        "faults", handler="FaultHandler", finds_faults=True, batch_max=2, cpu_s_max=0.3
    ),
    "faults.many": stage(
        "faults.many", handler="FaultHandler", finds_faults=True, batch_max=16, cpu_s_max=0.3
    ),
    "pretends": stage("pretends", handler="AuditHandler"),
    "first": stage("first", handler="FirstHandler"),
    "group": stage(
        "group",
        handler="TrivialTrouble",
        gathers=True,
        confined=True,
        cpu_s_max=0.3,
        batch_max=4,
        resources=Resources(memory_bytes=256 * MIB),
    ),
    "group.strict": stage("group.strict", handler="GroupTrouble", gathers=True, confined=True),
    "group.trusting": stage("group.trusting", handler="TrustingTrouble", gathers=True, trusts=True),
    "group.service": stage("group.service", handler="GroupTrouble", gathers=True),
}
GROUPS = ("group", "group.strict", "group.trusting", "group.service")


def define_pipelines(_settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """A pipeline of the same name for every stage, and one of two stages."""
    found: list[tuple[str, tuple[StageDefinition, ...]]] = [
        (name, (each,)) for name, each in STAGES.items() if name not in (*GROUPS, "first", "waking")
    ]
    found.append(("two", (STAGES["patient"], STAGES["batch"])))
    found.append(("waking", (STAGES["waking"], STAGES["woken"])))
    found += [(name, (STAGES["first"], STAGES[name])) for name in GROUPS]
    return [
        PipelineDefinition(
            spec=PipelineSpec(
                name=PipelineName(name),
                description="For tests.",
                stages=tuple(each.spec.name for each in stages),
            ),
            stages=stages,
            deterministic=name == "certain",
            reference=NoReference if stages[0].handler not in AUDITS else AuditedReference,
        )
        for name, stages in found
    ]


class TroubleHandler:
    """Does what the response says: a word, and arguments for it."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context
        self._words: dict[str, Callable[..., str]] = {
            name.removeprefix("do_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("do_")
        }

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        return [self._one(work) for work in works]

    def close(self) -> None:
        """Nothing is held."""

    def _one(self, work: Work) -> StageVerdict:
        if work.response == "hand over":
            return (
                HandedOver(artifact=b"from before", use=ResourceUse(cpu_s=1.0))
                if not work.handover
                else self._pass(work, work.handover.decode())
            )
        word, *arguments = work.response.split()
        self._work = work
        return self._pass(work, self._words[word](*arguments))

    def _pass(self, work: Work, said: str) -> StageVerdict:
        return scored(
            passed=True,
            settings=work.settings,
            evidence=Evidence(verdict="pass", extracted=said),
            use=ResourceUse(cpu_s=0.5),
        )

    # -- words ---------------------------------------------------------------------------------
    def do_pass(self, *_: str) -> str:
        return str(os.getpid())

    def do_log(self, log: str, go: str = "") -> str:
        with open(log, "a") as file:
            file.write("judged\n")
        while go and not Path(go).exists():
            time.sleep(0.01)
        return str(os.getpid())

    def do_log_and_fail_once(self, log: str) -> str:
        self.do_log(log)
        if len(Path(log).read_text().splitlines()) == 1:
            raise ValueError("the handler broke")
        return ""

    def do_raise(self) -> str:
        raise ValueError("the handler broke")

    def do_exit(self) -> str:
        os._exit(3)

    def do_die(self) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    def do_die_once(self, marker: str) -> str:
        return self._once(marker, self.do_die)

    def do_stop_once(self, marker: str) -> str:
        def stop() -> str:
            os.kill(os.getpid(), signal.SIGSTOP)
            return ""

        return self._once(marker, stop)

    def _once(self, marker: str, act: Callable[[], str]) -> str:
        if Path(marker).exists():
            return "again"
        Path(marker).touch()
        return act()

    def do_spin(self) -> str:
        while True:
            pass

    def do_sleep(self, seconds: str) -> str:
        time.sleep(float(seconds))
        return str(os.getpid())

    def do_wait_for(self, begun: str, go: str) -> str:
        Path(begun).touch()
        while not Path(go).exists():
            time.sleep(0.01)
        return "went"

    def do_family(self, pids: str) -> str:
        """Start a child in a session of its own, with a child of its own, and never end."""
        program = "import subprocess as s; s.Popen(['sleep', '1000']); s.run(['sleep', '1000'])"
        child = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
        while len(below := _below(child.pid)) < 2:
            time.sleep(0.01)
        found = " ".join(map(str, [os.getpid(), child.pid, *below]))
        Path(f"{pids}.new").write_text(found)
        Path(f"{pids}.new").rename(pids)
        threading.Event().wait()
        return ""

    def do_nonsense(self) -> str:
        for channel in _sockets():
            os.write(channel, b"\xff" * 1_000)
        time.sleep(30)
        return ""

    def do_memory(self) -> str:
        return str(len(bytearray(1024 * MIB)))

    def do_environment(self) -> str:
        return " ".join(sorted(os.environ))

    def do_permit(self, provider: str, tenant: str = "") -> str:
        """Ask for a permit of one call per minute; returns the seconds to wait."""
        permits = self._context.permits
        assert permits is not None
        limits = RateLimits(requests_per_minute=2)
        return str(permits.take(tenant or self._work.tenant, provider, limits, 1))

    def do_make(self, key: str, log: str, how: str = "good", *_: str) -> str:
        def make() -> bytes:
            with open(log, "a") as file:
                file.write("made\n")
            time.sleep(0.2)
            if how == "die_once" and len(Path(log).read_text().splitlines()) == 1:
                self.do_die()
            if how == "raise":
                self.do_raise()
            return f"content of {key}".encode()

        return self._context.artifacts.get_or_make(key, make).decode()

    def do_find(self, key: str, *_: str) -> str:
        found = self._context.artifacts.get(key)
        return "nothing" if found is None else found.decode()

    def do_scratch(self) -> str:
        (self._context.scratch / "file").write_text("mine")
        return str(self._context.scratch)


class FirstHandler:
    """Hands every response over to the stage that judges its group."""

    def __init__(self, context: HandlerContext) -> None:
        """Nothing to set up."""

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        return [HandedOver(artifact=work.response.encode()) for work in works]

    def close(self) -> None:
        """Nothing is held."""


class GroupTrouble(TroubleHandler):
    """Does what each member's hand-over says. `together`: the group is of two or more; an empty
    response without a hand-over fails."""

    def run_groups(self, groups: Sequence[GroupWork]) -> Sequence[Sequence[StageVerdict]]:
        return [[self._member(work, group.works) for work in group.works] for group in groups]

    def _member(self, work: Work, group: Sequence[Work]) -> StageVerdict:
        word, *arguments = work.handover.decode().split()
        if word == "together":
            if len(group) == 1:
                raise ValueError("a group of one")
            return self._pass(work, str(len(group)))
        self._words[word](*arguments)
        return self._pass(work, str(len(group)))


class TrivialTrouble(GroupTrouble):
    """A trivial response, of which no hand-over was made, passes."""

    def _member(self, work: Work, group: Sequence[Work]) -> StageVerdict:
        if not work.handover:
            return self._pass(work, str(len(group)))
        return super()._member(work, group)


class TrustingTrouble(GroupTrouble):
    """Knows a member that is harmless."""

    def trusted(self, work: Work) -> Work:
        return replace(work, response="", handover=b"pass")


class QuietTrouble(TroubleHandler):
    """A trivial response passes."""

    def _one(self, work: Work) -> StageVerdict:
        if work.response in {"", "0"}:
            return self._pass(work, "")
        return super()._one(work)


class AuditHandler(TroubleHandler):
    """Every pass depends on an audit."""

    def _one(self, work: Work) -> StageVerdict:
        verdict = super()._one(work)
        return replace(verdict, unaudited=True) if isinstance(verdict, Ended) else verdict

    def lets_pass(self, work: Work) -> bool | None:
        with open(work.reference.log, "a") as file:
            file.write(f"{os.getpid()}\n")
        while work.reference.waits_for and not Path(work.reference.waits_for).exists():
            time.sleep(0.01)
        if work.reference.finds == "exception":
            self.do_raise()
        if work.reference.finds == "death":
            self.do_die()
        return bool(work.reference.finds == "weak")


class FaultHandler(AuditHandler):
    """Judges by what it learns about the reference, or finds out itself."""

    def _one(self, work: Work) -> StageVerdict:
        fault = self.fault(work) if work.fault is None else work.fault
        return self._pass(work, f"{os.getpid()} {fault}".strip())

    def fault(self, work: Work) -> str:
        if work.reference.finds == "spin" and work.response == "":
            self.do_spin()
        return "reference: weak" if self.lets_pass(work) else ""


def artifacts_of(work: Work) -> Sequence[str]:
    """A response may make what its last word names, whatever its second word asks for."""
    return [f"shared-{work.response.split()[-1]}-"]


def _below(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def _sockets() -> list[int]:
    descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
    return [fd for fd in descriptors if fd > 2 and _is_socket(fd)]


def _is_socket(descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    except OSError:
        return False


class BrokenHandler:
    """Cannot be made until a file is there."""

    def __init__(self, context: HandlerContext) -> None:
        if not (context.scratch.parents[3] / "repaired").exists():
            raise RuntimeError("needs repair")

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        return [
            scored(passed=True, settings=work.settings, evidence=Evidence(verdict="pass"))
            for work in works
        ]

    def close(self) -> None:
        """Nothing is held."""
