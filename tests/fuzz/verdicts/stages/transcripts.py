"""Cases whose response is the last message of a transcript, in the forms that trainers send."""

import random
from dataclasses import replace
from typing import Any, Final

from tests.fuzz.verdicts.case import Case, Expected, one_of
from tests.fuzz.verdicts.stages.forms import form_case
from tests.fuzz.verdicts.stages.programs import LANGUAGES_HERE
from tests.fuzz.verdicts.text.texts import choice_case, exact_case, regex_case, schema_case

_ODD: Final = (
    "", "\ud800", "\udcff\udc80", "\0", "\ufeff", "\U0001f600", "\ud83d", "é\u0301", "\u2028", "\\", '"',
)  # fmt: skip
_NO_TEXTS: Final[tuple[Any, ...]] = (
    None, "", [], [{}], [{"type": "image_url", "image_url": {"url": "data:,"}}], 7, True, {"text": "x"}, [None, 3, "text"], [{"type": "text", "text": None}], [{"text": ["x"]}],
)  # fmt: skip
_COMMENTS: Final = {"python": "#", "bash": "#", "javascript": "//", "c": "//"}
_SUMS: Final = {
    "python": "print(sum(map(int, input().split())))",
    "bash": "read a b; echo $((a + b))",
    "javascript": "const [a, b] = require('fs').readFileSync(0, 'utf8').split(' ').map(Number); console.log(a + b);",
    "c": '#include <stdio.h>\nint main() { int a, b; scanf("%d %d", &a, &b); printf("%d", a + b); }',
}  # fmt: skip


def transcript_case(rng: random.Random) -> Case:
    """A case of another pipeline, its response in a transcript; or a transcript without one."""
    if rng.random() < 0.5:
        case = _program_case(rng)
    else:
        made = one_of(rng, {choice_case: 1, exact_case: 1, regex_case: 1, schema_case: 1, form_case: 1})  # fmt: skip
        case = made(rng)
    said = case.response
    if isinstance(said, bytes):
        try:
            said = said.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # no JSON has such a text
            return case
    if not said:
        return case
    content: Any = said
    if rng.random() < 0.3:
        at = rng.randint(0, len(said))
        content = [{"type": "text", "text": part} for part in (said[:at], said[at:])]
        content.insert(rng.randint(0, 2), rng.choice(({"type": "image_url"}, None, 3)))
    before: list[dict[str, Any]] = [
        {"role": "user", "content": rng.choice(_ODD)},
        {"role": "assistant", "content": rng.choice(_NO_TEXTS), "tool_calls": [{"id": "\ud800"}]},
        {"role": "tool", "content": rng.choice(_ODD) * 3},
    ]
    after = [{"role": "user", "content": "ok"}] if rng.random() < 0.2 else []
    last = {"role": "assistant", "content": content}
    return replace(
        case,
        kind=f"transcript: {case.kind}",
        response="",
        messages=[*before[: rng.randint(0, 3)], last, *after],
    )


def _program_case(rng: random.Random) -> Case:
    language = rng.choice([name for name in _SUMS if name in {"python", *LANGUAGES_HERE}])
    program = f"{_SUMS[language]}\n{_COMMENTS[language]} {rng.choice(_ODD)}\n"
    a, b = rng.randint(1, 99), rng.randint(1, 99)
    is_right = rng.random() < 0.6
    tests = [{"stdin": f"{a} {b}\n", "stdout": f"{a + b + (not is_right)}\n"}]
    reference: dict[str, Any] = {"tests": tests}
    pipeline, settings = f"code.{language}", dict[str, Any]()
    if rng.random() < 0.4:
        settings = {"components": {"tests": {"pipeline": pipeline}}}
        pipeline, reference = "composite", {"components": {"tests": reference}}
    # Some interpreters refuse a source with NUL or with bytes that are no UTF-8, even in a comment.
    is_plain = not any(odd in program for odd in ("\0", "\ud800", "\udcff", "\ud83d"))
    right = Expected.RIGHT if is_plain else Expected.EITHER
    return Case(
        pipeline=pipeline,
        kind=f"program in {language}",
        response=program,
        reference=reference,
        expected=right if is_right else Expected.WRONG,
        settings=settings,
    )
