"""Settings of `assay` in the simulator's comparisons, where pools have hundreds of slots."""

from typing import Final

from assay.config.planning import PlanSettings

LARGE_POOLS: Final = PlanSettings(spare_slots=5, tick_s=5.0)
"""The defaults are for one machine; these have fewer spare slots and a finer grain."""
