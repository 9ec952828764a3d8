"""What one run is counted and limited with: the account of a run, and the backend that opens it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from assay.sandbox.port import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Usage of a run over all its processes."""

    cpu_s: float
    memory_bytes_peak: int
    oom_kills: int


class Account(ABC):
    """Counts one run, and limits it if the backend can."""

    sample_s: float | None = None
    """How often to call `usage` during the run, in seconds; `None` if the kernel counts."""

    @abstractmethod
    def set_limits(self, limits: Limits, *, own_processes: int) -> None:
        """Limit the run.

        Args:
            limits: the limits of the program.
            own_processes: number of Assay's own processes in the account.
        """

    @property
    @abstractmethod
    def joins(self) -> list[int]:
        """Descriptors, which stay the account's; writing `0` to each moves the writer into it."""

    @abstractmethod
    def watch(self, pid: int) -> None:
        """Set the root process of the run."""

    @abstractmethod
    def pids(self) -> Iterable[int]:
        """The processes of the run, including Assay's own."""

    @abstractmethod
    def cpu_s(self) -> float:
        """CPU time so far."""

    @abstractmethod
    def usage(self) -> Usage:
        """Usage of the run so far."""

    @abstractmethod
    def box_is_dead(self) -> None:
        """No process can join any more, so what counts this run may count another."""

    @abstractmethod
    def close(self) -> None:
        """Kill the remaining processes; the account counts nothing more.

        Raises:
            SandboxError: a process in it cannot be killed.
        """


class Backend(ABC):
    """Creates accounts, one per run."""

    kind: str
    limits: frozenset[str]
    """Which of `memory`, `processes`, `cpu_time`, `cpu_share` it limits or counts for a tree."""

    @abstractmethod
    def create(self) -> Account:
        """Create an account for one run."""

    @abstractmethod
    def trim(self) -> None:
        """Remove what is kept for later runs."""

    @abstractmethod
    def close(self) -> None:
        """Remove everything that this process created."""
