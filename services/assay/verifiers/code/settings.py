"""Settings of `code.python`, `code.cpp` and the pipelines of other languages."""

from typing import Final, Self

from pydantic import Field, field_validator

from assay.sandbox.port import MIB, Limits
from assay.verifiers.code.compare import OutputComparison, OutputRule
from assay.verifiers.code.source.choices import BlockChoice, Extraction
from assay.verifiers.code.source.preamble import Preamble
from assay.verifiers.port import PipelineSettings

PROGRAM_FILE: Final = "program"
"""Name of a compiled program in its box."""
TOTAL_CPU_S_MAX: Final = 300.0
TOTAL_BLOCKED_S_MAX: Final = 120.0
PREAMBLE_CHARS_MAX: Final = 50_000


def without_nul(text: str) -> str:
    """The code as it is; no program may contain a NUL."""
    if "\0" in text:
        raise ValueError("code contains a NUL character")
    return text


class CodeSettings(PipelineSettings):
    """Settings of both languages."""

    extraction: Extraction = Extraction.AUTO
    """Where in the response the program is."""
    block: BlockChoice = BlockChoice.LAST
    """Which block to use if there are several in the right language."""
    cpu_s: float = Field(default=4.0, gt=0, le=60)
    """CPU time of one test."""
    total_cpu_s: float = Field(default=60.0, gt=0, le=TOTAL_CPU_S_MAX)
    """CPU time of all tests of one response."""
    blocked_s: float = Field(default=5.0, gt=0, le=60)
    """Time that one test may sleep or be blocked by itself; waiting for a core never counts."""
    total_blocked_s: float = Field(default=20.0, gt=0, le=TOTAL_BLOCKED_S_MAX)
    """Blocked time of all tests of one response."""
    memory_bytes: int = Field(default=512 * MIB, ge=32 * MIB, le=8_192 * MIB)
    """Memory of the program's whole process tree."""
    output_bytes: int = Field(default=32 * MIB, gt=0, le=256 * MIB)
    """Bytes that the program may write to stdout, and as many to stderr."""
    partial_credit: bool = False
    """Reward the fraction of tests passed. All tests then run."""
    stop_at_first_failure: bool = True
    """Skip the tests after the first failure; has no effect with `partial_credit`."""
    compare: OutputRule = OutputRule.TOKENS
    """Which white space in stdout matters."""
    ignore_case: bool = False
    """Ignore upper and lower case in stdout."""
    stdout_float_tolerance: float = Field(default=0.0, ge=0, le=1)
    """Allowed absolute or relative error of a number in stdout; 0 compares digits as text."""

    @property
    def runs_all(self) -> bool:
        """Whether tests continue after a failed one."""
        return self.partial_credit or not self.stop_at_first_failure

    def budget(self) -> "Budget":
        """The time of one response, for all its tests."""
        return Budget(self)

    @property
    def comparison(self) -> OutputComparison:
        """How outputs are compared."""
        return OutputComparison(
            rule=self.compare,
            ignore_case=self.ignore_case,
            float_tolerance=self.stdout_float_tolerance,
        )

    def limits(self, cpu_s: float, blocked_s: float | None = None) -> Limits:
        """Bounds of a run with `cpu_s` and `blocked_s`; the defaults are those of one test."""
        return Limits(
            cpu_s=cpu_s,
            blocked_s=self.blocked_s if blocked_s is None else blocked_s,
            memory_bytes=self.memory_bytes,
            output_bytes=self.output_bytes,
        )


class Budget:
    """The remaining time budget of all tests of one response."""

    def __init__(self, settings: CodeSettings) -> None:
        self._settings = settings
        self._cpu_s = settings.total_cpu_s
        self._blocked_s = settings.total_blocked_s

    def next_limits(self) -> Limits:
        """Bounds of the next test."""
        cpu_s = min(self._settings.cpu_s, self._cpu_s)
        return self._settings.limits(cpu_s, min(self._settings.blocked_s, self._blocked_s))

    def spend(self, cpu_s: float, blocked_s: float) -> None:
        """Subtract the usage of a test."""
        self._cpu_s -= cpu_s
        self._blocked_s -= blocked_s

    @property
    def is_spent(self) -> bool:
        """No more tests may run."""
        return self._cpu_s <= 0 or self._blocked_s <= 0


class PythonSettings(CodeSettings):
    """Settings of `code.python`."""

    value_float_tolerance: float = Field(default=1e-6, ge=0, le=1)
    """Allowed absolute or relative error of a float that a call returns."""
    preamble: Preamble = Preamble.AUTO
    """Which names of the standard library a program may use without importing them."""
    preamble_text: str = Field(default="", max_length=PREAMBLE_CHARS_MAX)
    """Python text whose public names a program may use too."""

    @field_validator("preamble_text", mode="after")
    @classmethod
    def _no_nul(cls, text: str) -> str:
        return without_nul(text)


AUTO: Final = "auto"
STANDARDS: Final = ("c++17", "gnu++23", "gnu++14")
"""What a program whose standard is not said may be written in. Of two errors the first is shown:
newer programs need what C++20 brought, older ones names that C++17 took (`byte`)."""


class CppSettings(CodeSettings):
    """Settings of `code.cpp`."""

    standard: str = Field(default="auto", pattern=r"^auto$|^(c|gnu)\+\+(11|14|17|20|23)$")
    """`-std=` of the compiler; `auto`: the first of `STANDARDS` in which the program compiles."""
    optimize: str = Field(default="2", pattern=r"^[0123s]$")
    """`-O` of the compiler."""
    compile_cpu_s: float = Field(default=20.0, gt=0, le=120)
    """CPU time of the compilation."""
    compile_memory_bytes: int = Field(default=1_024 * MIB, ge=128 * MIB, le=8_192 * MIB)
    """Memory of the compilation."""

    def attempts(self) -> list[Self]:
        """These settings with each standard to try, in order."""
        if self.standard != AUTO:
            return [self]
        return [self.model_copy(update={"standard": one}) for one in STANDARDS]
