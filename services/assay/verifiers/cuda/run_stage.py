"""The stage `cuda.run`: a candidate against its reference on one GPU, held by nothing else.

A GPU that is not there, a driver that does not work and a side that a control explains are never a
reward: they raise. A reference that fails by itself is refused by name.
"""

import hashlib
import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from assay.config.settings import SandboxSettings
from assay.core.outcome import Outcome
from assay.core.tools.lru import TenantCache
from assay.core.verdict import Component, Ended, Evidence, ResourceUse, StageVerdict
from assay.edge.clock import Clock
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.packages import Packages, find_packages
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import HarnessResult, HarnessRun, Limits, SandboxError
from assay.verifiers.code.scoring import bounded_text
from assay.verifiers.cuda import trial_harness
from assay.verifiers.cuda.compile_stage import broke_the_run, program_in
from assay.verifiers.cuda.control import EXTENSION, Control
from assay.verifiers.cuda.definition import WARM_UPS, CudaReference, CudaSettings, RewardForm
from assay.verifiers.cuda.gpus import find_gpus, leased
from assay.verifiers.cuda.measure import Trial, speed_up
from assay.verifiers.cuda.tools import tools_in
from assay.verifiers.port import HandlerContext, ReferenceAudit, Work, resource_limited, scored
from assay.verifiers.total import total

_HARNESS: Final = "trial"
TORCH_SIDE: Final = Path(trial_harness.__file__).with_name("torch_side.py")
_SEED_BITS: Final = 62
_SEEDS_MORE: Final = 1 + WARM_UPS
"""Seeds beside those of the timed trials: of the weights and of the warm-ups."""
_CPU_CORES: Final = 8.0
_PROCESSES: Final = 512
_OPEN_FILES: Final = 1_024
_ADDRESS_BYTES: Final = 1 << 46
"""A driver reserves addresses for all memory of all devices."""
_SCRATCH_BYTES: Final = 4 << 30
"""For the extension that a candidate builds."""
_SOUND_MAX: Final = 4_096
"""References that a process remembers as sound."""


class InvalidProblem(Exception):
    """The reference fails by itself; the message names the field."""


class HostBuildsNothing(SandboxError):
    """The control of a build fails: compilers, driver or torch do not work on this host."""


class Trials:
    """Runs both sides in a box and reads the report."""

    def __init__(
        self,
        sandbox: SandboxSettings,
        *,
        side: str,
        packages: Packages,
        devices: tuple[str, ...] = (),
        device: str = "cuda",
        tools: Path | None = None,
    ) -> None:
        """Start the zygote.

        Args:
            sandbox: the host's.
            side: text of the module with the class `Side`.
            packages: what sides import.
            devices: files in `/dev` that boxes show.
            device: of torch, on which both sides compute.
            tools: folder of programs that sides start by name.

        Raises:
            IsolationUnavailable: this host cannot isolate untrusted code.
        """
        shown = () if tools is None else (tools,)
        inside = Inside(
            packages=replace(packages, folders=(*packages.folders, *shown)),
            gpu_devices=devices,
            harnesses={_HARNESS: Path(trial_harness.__file__)},
        )
        self._side, self._device, self._tools = side, device, tools
        wide = max(sandbox.scratch_bytes_max, _SCRATCH_BYTES)
        sandbox = sandbox.model_copy(update={"scratch_bytes_max": wide})
        self._launcher = ZygoteLauncher(sandbox, Clock(), inside=inside)

    def run(
        self, candidate: str, reference: CudaReference, settings: CudaSettings
    ) -> tuple[dict[str, Any], HarnessResult]:
        """The report of a run.

        Raises:
            SandboxError: the box or the harness broke.
        """
        seeds = [secrets.randbits(_SEED_BITS) for _ in range(settings.trials + _SEEDS_MORE)]
        order = {
            "side": self._side,
            "candidate": candidate,
            "problem": reference.problem,
            "device": self._device,
            "tools": str(self._tools or ""),
            "runs": WARM_UPS + settings.trials,
            "warm_ups": WARM_UPS,
            "load_s": settings.load_s,
            "call_s": settings.call_s,
            "absolute": settings.absolute_tolerance,
            "relative": settings.relative_tolerance,
            "output_bytes_max": settings.output_bytes,
        }
        result = self._launcher.run_harness(
            HarnessRun(
                module=_HARNESS,
                payload=json.dumps(order).encode("ascii"),
                sealed=json.dumps(seeds).encode("ascii"),
                limits=_limits(settings),
            )
        )
        if result.status.is_limit:
            return {}, result
        try:
            return json.loads(result.channel), result
        except ValueError:
            tail = result.stderr[-300:].decode("utf-8", "replace")
            raise SandboxError(f"no report of a trial: {result.status.value} {tail}") from None

    def close(self) -> None:
        """End the zygote."""
        self._launcher.close()


def _limits(settings: CudaSettings) -> Limits:
    """Bounds of the whole box; the harness bounds every step."""
    steps_s = 2 * settings.load_s + 8 * (settings.trials + _SEEDS_MORE) * settings.call_s
    return Limits(
        cpu_s=steps_s * _CPU_CORES,
        blocked_s=steps_s,
        wall_s=2 * steps_s + 60.0,
        memory_bytes=settings.memory_bytes,
        address_bytes=_ADDRESS_BYTES,
        processes=_PROCESSES,
        open_files=_OPEN_FILES,
        file_bytes=settings.output_bytes,
        disk_bytes=_SCRATCH_BYTES,
        cpu_cores=_CPU_CORES,
    )


class Judge:
    """Turns runs into verdicts; knows nothing of GPUs.

    Args:
        trials: run both sides.
        control: what this host must load where a candidate fails to be loaded; None: nothing.
    """

    def __init__(self, trials: Trials, control: Control | None = None) -> None:
        self._trials = trials
        self._control = control
        self._sound: TenantCache[str, bool] = TenantCache(weight_max=_SOUND_MAX)

    def judge(
        self, program: str, reference: CudaReference, settings: CudaSettings, tenant: str = ""
    ) -> Ended:
        """Judge one program.

        Raises:
            SandboxError: nothing can be run here, not the reference either.
            HostBuildsNothing: the program does not end its trials, and nor does the control.
        """
        try:
            return total(
                lambda: self._judged(program, reference, settings, tenant),
                control=lambda: self._check(reference, settings, tenant),
                at_fault=lambda error: broke_the_run(error, settings, program),
                unblamed=(HostBuildsNothing,),
            )
        except InvalidProblem as invalid:
            return _invalid(str(invalid))

    def _judged(
        self, program: str, reference: CudaReference, settings: CudaSettings, tenant: str
    ) -> Ended:
        report, result = self._trials.run(program, reference, settings)
        use = ResourceUse(cpu_s=result.cpu_s, memory_bytes_peak=result.memory_bytes_peak)
        candidate = report.get("candidate", {"state": result.status.value})
        if candidate["state"] != "ok":
            self._check(reference, settings, tenant)
            self._check_host()  # some compile when they are loaded, some (Triton) when called
            return broken(candidate, settings, program, use)
        _require(report["reference"])
        if not all(one["equal"] for one in report["reference"]["compared"]):
            self._check(reference, settings, tenant)
        return _verdict(report, settings, program, use)

    def _check(self, reference: CudaReference, settings: CudaSettings, tenant: str) -> None:
        """Judge the reference as a response to itself, once per tenant and process: what
        fails then is not the response's.

        Raises:
            InvalidProblem: it fails by itself, or has other outputs for the same inputs.
            SandboxError: it cannot be run.
        """
        text = reference.problem + settings.model_dump_json()
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        if self._sound.get(tenant, key):
            return
        itself = f"{reference.problem}\nModelNew = Model\n"
        report, result = self._trials.run(itself, reference, settings)
        if not report:
            raise InvalidProblem(f"reference.problem: it breaks a limit ({result.status.value})")
        _require(report["candidate"])
        _require(report["reference"])
        for one in report["reference"]["compared"]:
            if not one["equal"]:
                message = f"it is not equal to itself on the same inputs: {one['error']}"
                raise InvalidProblem(f"reference.problem: {message}")
        self._sound.put(tenant, key, True)  # noqa: FBT003 - a value

    def _check_host(self) -> None:
        """Load the control and compare it with its reference, until it passed once.

        Raises:
            HostBuildsNothing: it does not pass.
        """
        if self._control is None:
            return
        reference = CudaReference(problem=self._control.problem)
        report, result = self._trials.run(self._control.program, reference, CudaSettings())
        side = report.get("candidate", {"state": result.status.value})
        if side["state"] != "ok" or not all(
            one["equal"] for one in report["reference"].get("compared", [{"equal": False}])
        ):
            error = f"{side['state']} in {side.get('step', '')}: {side.get('error', '')[-300:]}"
            raise HostBuildsNothing(f"this host builds no extension: {error}")
        self._control = None


def _invalid(message: str) -> Ended:
    evidence = Evidence(verdict="invalid_reference", error=bounded_text(message))
    return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence)


_VERDICTS: Final = {
    "failed": "runtime_error",
    "died": "crashed",
    "hung": "gpu_time_limit",
    "too_large": "output_limit",
}


def broken(
    candidate: dict[str, Any], settings: CudaSettings, program: str, use: ResourceUse
) -> Ended:
    """End a response whose side did not end its trials, as the report says of it."""
    state = candidate["state"]
    evidence = Evidence(
        verdict=_VERDICTS.get(state, state),
        error=bounded_text(f"{candidate.get('step', '')}: {candidate.get('error', '')}"),
        extracted=bounded_text(program),
    )
    if state in {"failed", "died"}:
        return scored(passed=False, settings=settings, evidence=evidence, use=use)
    return resource_limited(settings=settings, evidence=evidence, use=use)


def _require(reference: dict[str, Any]) -> None:
    """Raise what a reference's failure means.

    Raises:
        InvalidProblem: its own text is at fault.
        SandboxError: its process died or did not answer, which a device does too, or the
            platform's own comparison failed.
    """
    if reference["state"] == "ok":
        return
    message = f"{reference['state']} in {reference['step']}: {reference['error']}"
    if reference["state"] in {"failed", "too_large"} and reference["step"] != "compare":
        raise InvalidProblem(f"reference.problem: {message}")
    raise SandboxError(f"the reference {message}")


def _verdict(
    report: dict[str, Any], settings: CudaSettings, program: str, use: ResourceUse
) -> Ended:
    """Of a run that both sides ended."""
    compared = report["reference"]["compared"]
    failed = [at for at, one in enumerate(compared) if not one["equal"]]
    audits = settings.reference_audit is ReferenceAudit.REFUSE
    if audits and all(one["trivial"] for one in compared):
        return _invalid("reference.problem: outputs of zeros pass under these tolerances")
    evidence = Evidence(
        verdict="wrong_answer" if failed else "pass",
        tests_passed=len(compared) - len(failed),
        tests_total=len(compared),
        failed_test=failed[0] if failed else None,
        error=bounded_text(str(compared[failed[0]]["error"])) if failed else "",
        extracted=bounded_text(program),
    )
    if failed:
        return scored(passed=False, settings=settings, evidence=evidence, use=use)
    own, reference = (
        [Trial(*times) for times in report[side]["times"]] for side in ("candidate", "reference")
    )
    gain = speed_up(own, reference)
    ended = scored(passed=True, settings=settings, evidence=evidence, use=use)
    if settings.reward_form is RewardForm.SPEEDUP:
        ended = replace(ended, reward=min(gain, settings.speedup_max))
    elif settings.reward_form is RewardForm.FASTER and gain < settings.speedup_min:
        slow = replace(evidence, verdict="too_slow")
        ended = scored(passed=False, settings=settings, evidence=slow, use=use)
    # A time decides: judged again, on another day or device, it is another.
    return replace(
        ended, rescorable=False, components=(Component(name="speedup", value=gain, weight=0.0),)
    )


class RunHandler:
    """Judges on this host's GPUs, one run per GPU at a time."""

    def __init__(self, context: HandlerContext) -> None:
        """Nothing is opened before the first request: a host of all stages need not have a GPU."""
        self._sandbox = context.sandbox
        self._scratch = context.scratch
        self._locks = context.shared or context.scratch
        self._judges: dict[str, tuple[Trials, Judge]] = {}

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge each program.

        Raises:
            GpuMissing: this host has no GPU.
            GpuBusy: other runs held all of them for an hour.
            SettingError: torch is not installed.
            IsolationUnavailable: this host cannot isolate untrusted code.
        """
        gpus = find_gpus()
        verdicts: list[StageVerdict] = []
        for work in works:
            with leased(gpus, self._locks, time.sleep) as gpu:
                judge = self._judge(gpu.device, gpu.devices())
                verdicts.append(_one(judge, work))
        return verdicts

    def close(self) -> None:
        """End the zygotes."""
        for trials, _ in self._judges.values():
            trials.close()

    def _judge(self, device: str, devices: tuple[str, ...]) -> Judge:
        if device not in self._judges:
            packages = find_packages(("torch", "numpy"), setting="the stage cuda.run")
            side = TORCH_SIDE.read_text("utf-8")
            trials = Trials(
                self._sandbox,
                side=side,
                packages=packages,
                devices=devices,
                tools=tools_in(self._scratch),
            )
            self._judges[device] = trials, Judge(trials, EXTENSION)
        return self._judges[device][1]


def _one(judge: Judge, work: Work) -> Ended:
    settings: CudaSettings = work.settings
    program = program_in(work)
    if program is None:
        return scored(passed=False, settings=settings, evidence=Evidence(verdict="no_program"))
    return judge.judge(program, work.reference, settings, work.tenant)
