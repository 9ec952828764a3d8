"""When a process that died is started again, and when to give up. Pure.

A life is *healthy* when the process became ready and lived for `healthy_s`. After the death of a
healthy process, from whatever cause and however often, it is started again at once. Short lives in
a row are a crash loop: pauses between them double up to `pause_longest_s`, and after
`short_lives_max` of them the process is given up.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Limits for restarts of one process."""

    healthy_s: float = 5.0
    short_lives_max: int = 8
    """Give up after this many short lives in a row; with these pauses about 15 s of trying."""
    pause_first_s: float = 0.2
    pause_longest_s: float = 5.0

    def short_lives(self, before: int, *, lived_s: float, ready: bool) -> int:
        """Short lives in a row, including the one that just ended."""
        return 0 if ready and lived_s >= self.healthy_s else before + 1

    def pause_s(self, short_lives: int) -> float | None:
        """Seconds to wait before the next start; `None` = give up."""
        if short_lives >= self.short_lives_max:
            return None
        if short_lives == 0:
            return 0.0
        return min(self.pause_first_s * 2.0 ** (short_lives - 1), self.pause_longest_s)
