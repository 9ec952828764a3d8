"""Accounts without cgroups: `/proc` is read during the run.

Memory is checked by sampling (a page that several processes map counts once), and per-process
resource limits do the rest. Memory that no sample sees is refused (files in memory: see
`seccomp.py`) or bounded (the scratch file system).
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Final

from assay.sandbox.accounting.account import Account, Backend, Usage
from assay.sandbox.accounting.blocked import tree
from assay.sandbox.accounting.directories import read
from assay.sandbox.port import Limits

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_SHARED_LOOKS: Final = 3
"""Number of consecutive sums over the limit before one is trusted: a process that ends between two
reads makes a single sum too large."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class _ProcAccount(Account):
    """Sums the usage of the run's tree from `/proc`; a process that ends between two samples is
    counted by its parent's total of reaped children."""

    sample_s = 0.02

    def __init__(self) -> None:
        self._root: int | None = None
        self._cpu_s = 0.0
        self._peak = 0
        self._looks_over = 0
        self._memory_bytes_max = 0
        self._over = 0

    def set_limits(self, limits: Limits, *, own_processes: int) -> None:
        del own_processes
        self._memory_bytes_max = limits.memory_bytes

    @property
    def joins(self) -> list[int]:
        return []

    def watch(self, pid: int) -> None:
        self._root = pid

    def pids(self) -> Iterable[int]:
        return tree(self._root) if self._root is not None else ()

    def cpu_s(self) -> float:
        return self._sample().cpu_s

    def usage(self) -> Usage:
        return self._sample()

    def box_is_dead(self) -> None:
        pass

    def close(self) -> None:
        self._root = None

    def _sample(self) -> Usage:
        ticks = resident = 0
        pages: dict[int, int] = {}
        for pid, fields in _tree(self._root) if self._root is not None else ():
            ticks += sum(int(value) for value in fields[11:15])
            pages[pid] = int(fields[21])
        resident = sum(pages.values()) * _PAGE_BYTES
        if len(pages) > 1 and resident > max(self._peak, self._memory_bytes_max):
            # The sum counts shared pages once per process. Only now is the exact figure needed.
            resident = self._shared(pages)
        self._cpu_s = max(self._cpu_s, ticks / _TICKS_PER_S)
        self._peak = max(self._peak, resident)
        self._over = int(self._peak > self._memory_bytes_max)
        return Usage(cpu_s=self._cpu_s, memory_bytes_peak=self._peak, oom_kills=self._over)

    def _shared(self, pages: dict[int, int]) -> int:
        """Memory of the tree with shared pages counted once; 0 while a sum is not trusted."""
        resident = sum(_proportional_bytes(pid, count) for pid, count in pages.items())
        self._looks_over = self._looks_over + 1 if resident > self._memory_bytes_max else 0
        return resident if not 0 < self._looks_over < _SHARED_LOOKS else 0


def _tree(root: int) -> Iterator[tuple[int, list[str]]]:
    """Yield pid and the `/proc/<pid>/stat` fields after the name, for `root` and descendants."""
    for pid in tree(root):
        with contextlib.suppress(OSError):
            yield pid, read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _proportional_bytes(pid: int, resident_pages: int) -> int:
    """Memory of a process in which a page that n processes map counts as 1/n.

    A process that cannot be inspected (it can prevent that) is charged all that it maps.
    """
    try:
        told = read(f"/proc/{pid}/smaps_rollup")
    except PermissionError:
        return resident_pages * _PAGE_BYTES
    except OSError:  # it has ended
        return 0
    kilobytes = next((line.split()[1] for line in told.splitlines() if line[:4] == "Pss:"), "0")
    return int(kilobytes) * 1_024


class Proc(Backend):
    """Limits nothing; counts by sampling."""

    kind = "none"
    limits: frozenset[str] = frozenset()

    def create(self) -> Account:
        return _ProcAccount()

    def trim(self) -> None:
        pass

    def close(self) -> None:
        pass
