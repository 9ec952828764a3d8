"""Cases of `composite`: cases of other pipelines as a component, beside ones whose reward is known.

However the parts combine here, the whole has the full reward if and only if the drawn part has it.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tests.fuzz.verdicts.case import Case, Expected, one_of
from tests.fuzz.verdicts.code.python import stdio_case
from tests.fuzz.verdicts.code.wires import wire_case
from tests.fuzz.verdicts.datasets.results import result_case
from tests.fuzz.verdicts.mathematics.answers import answer_case, bomb_case
from tests.fuzz.verdicts.stages.brittle import brittle_case
from tests.fuzz.verdicts.stages.graded import graded_case
from tests.fuzz.verdicts.stages.judges import judge_case
from tests.fuzz.verdicts.stages.numbers import number_case
from tests.fuzz.verdicts.stages.programs import program_case
from tests.fuzz.verdicts.stages.queries import query_case
from tests.fuzz.verdicts.stages.readers import reader_case
from tests.fuzz.verdicts.stages.transcripts import transcript_case
from tests.fuzz.verdicts.text.documents import text_case
from tests.fuzz.verdicts.text.instructed import instructed_case
from tests.fuzz.verdicts.text.keywords import keyword_case
from tests.fuzz.verdicts.text.texts import choice_case, exact_case, regex_case, schema_case

_PARTS: Final[dict[Callable[[random.Random], Case], float]] = {
    answer_case: 4, bomb_case: 1, choice_case: 2, exact_case: 1, regex_case: 1, schema_case: 1,
    keyword_case: 1, text_case: 1, instructed_case: 1, stdio_case: 0.5, query_case: 0.5,
    brittle_case: 1, judge_case: 1, number_case: 1, reader_case: 1, transcript_case: 1, result_case: 1, wire_case: 0.2, program_case: 0.3, graded_case: 0.2,
}  # fmt: skip


def combined_case(rng: random.Random) -> Case:
    """A drawn case as the main component, alone or beside others."""
    part: Case = one_of(rng, _PARTS)(rng)
    while part.pipeline == "composite" or part.expected is Expected.UNJUDGED:
        part = one_of(rng, _PARTS)(rng)
    main = {"pipeline": part.pipeline, "settings": dict(part.settings)}
    components: dict[str, dict[str, Any]] = {"main": {**main, "weight": rng.choice((1, 3))}}
    references: dict[str, Any] = {"main": dict(part.reference)}
    combine = rng.choice(("mean", "min", "product"))
    if rng.random() < 0.3:
        components["main"]["gate"] = True
    if rng.random() < 0.7:
        components["beside"] = {"pipeline": "noop"}
        components["main"]["optional"] = rng.random() < 0.3
    if rng.random() < 0.5:
        components["again"] = main
        references["again"] = dict(part.reference)
    named = list(components.items())
    rng.shuffle(named)
    return replace(
        part,
        pipeline="composite",
        kind=f"composite: {part.pipeline}",
        reference={"components": references},
        settings={"components": dict(named), "combine": combine},
    )
