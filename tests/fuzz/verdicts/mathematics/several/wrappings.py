r"""How an answer is laid out around its value: the product of places, typefaces and ends.

Nothing in a layout states, bounds or rejects a value, so the answer is right in all of them or in
none. A layout that takes the answer back (`RETRACTED`) makes a right one wrong.
"""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected
from tests.fuzz.verdicts.mathematics import answers, notations

_PLACES: Final = (
    *("Answer: {0}", "**Answer:** {0}", "**Answer**: {0}", "__Answer:__ {0}", "*Answer:* {0}"),
    *("Answer\n\n{0}", "## Answer\n\n{0}", "### Final Answer\n{0}", "**Final Answer**\n\n{0}"),
    *("Answer:\n{0}", "Answer:\n\n{0}", "Answer:\n* {0}", "**Answer:**\n\n> {0}", "> Answer: {0}"),
    *("- **Answer:** {0}", "* Answer: {0}", "1. We compute.\n2. Answer: {0}", "Final answer = {0}"),
    *("Answer (exact): {0}", "Answer (simplified): {0}", "Final Answer (in simplest form): {0}"),
    *("The answer is {0}", "The answer is: {0}", "The answer is\n\n{0}", "the final answer is {0}"),
    *("So the answer is **{0}**", "Therefore, the answer is {0}", "Hence our answer is {0}"),
    *("<b>Answer:</b> {0}", "<strong>Final Answer:</strong> {0}", "<p>Answer: {0}</p>"),
    *("<b>Final Answer</b><br><b>{0}</b>", "<h3>Answer</h3>\n<p>{0}</p>", "<h2>Answer</h2>{0}"),
    *("<div><b>Answer</b>: {0}</div>", "<p>The answer is <b>{0}</b>.</p>", "Answer: {0}<br/>"),
    *("<ul><li>Answer: {0}</li></ul>", "<span class=\"answer\">Answer: {0}</span>"),
    *("<answer>{0}</answer>", "<answer>\n{0}\n</answer>"),
    *("<answer><b>{0}</b></answer>", "<ANSWER>{0}</ANSWER>", "<answer>Answer: {0}</answer>"),
    *("<final_answer>{0}</final_answer>", "<answer><p>{0}</p></answer>"),
    *("| Answer |\n|---|\n| {0} |", "| | |\n|---|---|\n| Answer | {0} |", "| Answer | {0} |"),
    "| Step | Value |\n|---|---|\n| **Answer** | {0} |",
    *("\\boxed{{{1}}}", "$\\boxed{{{1}}}$", "$$\\boxed{{{1}}}$$", "\\[\\boxed{{{1}}}\\]"),
    *("\\[\n\\boxed{{{1}}}\n\\]", "**\\boxed{{{1}}}**", "$\\boxed{{ {1} }}$.", "`\\boxed{{{1}}}`"),
    *("\\begin{{equation*}}\n\\boxed{{{1}}}\n\\end{{equation*}}", "\\fbox{{${1}$}}"),
    *("\\begin{{align*}}\n&\\boxed{{{1}}}\n\\end{{align*}}", "\\begin{{center}}\\boxed{{{1}}}\\end{{center}}"),
    *("\\begin{{answer}}\n{0}\n\\end{{answer}}", "\\begin{{answer}}{0}\\end{{answer}}"),
    *("<p>\\(\\boxed{{{1}}}\\)</p>", "<center>$\\boxed{{{1}}}$</center>", "> $\\boxed{{{1}}}$"),
    *("The answer is $\\boxed{{{1}}}$", "- $\\boxed{{{1}}}$", "```\n\\boxed{{{1}}}\n```"),
    *("#### {0}", "####{1}", "We get it.\n#### {0}", "#### Answer: {0}", "#### **{0}**"),
    *("```\nAnswer: {1}\n```", "```text\nAnswer: {1}\n```", "Answer: `{1}`", "~~~\nAnswer: {1}\n~~~"),
    *("{{\"answer\": \"{2}\"}}", "```json\n{{\"answer\": \"{2}\"}}\n```", "answer: {1}"),
    *("\u7b54\u6848\uff1a{0}", "\u7b54\u6848\u662f {0}", "\u7b54\uff1a{0}\u3002", "R\u00e9ponse : {0}"),
    *("Antwort: {0}", "Respuesta: {0}", "Resposta: {0}", "\u041e\u0442\u0432\u0435\u0442: {0}"),
    *("Risposta: {0}", "\u7b54\u3048\u306f {0} \u3067\u3059\u3002", "\ub2f5: {0}", "Cevap: {0}"),
    *("\\textbf{{Answer:}} {0}", "\\textbf{{Final Answer: }} {0}", "\\text{{Answer: }} {1}"),
    *("$\\therefore \\boxed{{{1}}}$", "\u2234 \\boxed{{{1}}}", "\\(\\therefore\\) The answer is {0}"),
    *("Answer \u2192 {0}", "Answer => {0}", "Answer - {0}", "\u2705 **Answer:** {0}", "\U0001f449 Answer: {0}"),
)  # fmt: skip
"""`{0}` is the value in its type, `{1}` the value alone, `{2}` the same as a text of JSON."""
_FACES: Final = (
    *("{0}", "{0}", "${0}$", "${0}$", "\\({0}\\)", "**{0}**", "**${0}$**", "$\\mathbf{{{0}}}$"),
    *("`{0}`", "$\\displaystyle {0}$", "\\[{0}\\]", "$${0}$$", "$ {0} $", "${{{0}}}$"),
    *("<b>{0}</b>", "<strong>{0}</strong>", "<code>{0}</code>", "<i>{0}</i>", "*{0}*"),
    *('<span style="color:red">{0}</span>', "<u>{0}</u>", "<b>${0}$</b>", "\\textbf{{${0}$}}"),
    *("***{0}***", "\\boxed{{{0}}}", "$\\boxed{{{0}}}$", "\u201c{0}\u201d", "\\mathbf{{{0}}}"),
)
_ENDS: Final = (
    *("", "", "", "", ".", "\n", "\n\n", " ", "\n\nThanks!", "\n\nHope this helps!", "\n\n---"),
    *("\n\nQ.E.D.", " \u220e", "\n$\\blacksquare$", "\n\nLet me know if you have any questions."),
    *("\n\nI hope this helps.", "\n\n(Checked twice.)", "<br>", "\n<br/>\n", "\n</div>", "\n```"),
    *("<|im_end|>", "</s>", "<|eot_id|>", "\n\nI am confident in it.", "\n\n**Done.**", "\n\n:)"),
    *("\n\nThis completes the solution.", "\n\n\U0001f389", "\r\n", "\n\n&nbsp;", "\n\n* * *"),
)
RETRACTED: Final = (
    *("Answer: ~~{0}~~", "Answer: <s>{0}</s>", "<del>Answer: {0}</del>", "<!-- Answer: {0} -->"),
    *("Answer: {0}\n\nWait, this is wrong.", "The answer is {0}.\n\nNo, that cannot be right."),
    *("\\boxed{{{1}}}\n\nActually, this is wrong.", "\\cancel{{\\boxed{{{1}}}}}"),
    *("Answer: {0}\n\nCorrection: the answer is 987654.", "Answer: {0}\nEdit: 987654"),
    *("<answer>{0}</answer>\n\nSorry, <answer>987654</answer>", "Wrong answer: {0}"),
    *("\\boxed{{{1}}} is not the answer.", "The answer is not {0}.", "I doubt that the answer is {0}."),
    *("\\sout{{\\boxed{{{1}}}}}", "~~\\boxed{{{1}}}~~", "- [ ] ~~Answer: {0}~~", "It isn't \\boxed{{{1}}}."),
    *("\\boxed{{{1}}}\n\n\\boxed{{987654}}", "Answer: {0} or 987654", "Either \\boxed{{{1}}} or \\boxed{{987654}}"),
    *("| Answer | {0} |\n| Answer | 987654 |", "Answer 1: {0}\nAnswer 2: 987654"),
)  # fmt: skip
_BEFORE: Final = (
    "",
    "",
    "Some steps: $1 + 1 = 2$.\n\n",
    "<p>We think.</p>\n",
    "Step 1: think.\n\n",
)
_LATEX_ONLY: Final = ("\\", "^", "{")
_DELIMITED: Final = ("$", "\\(", "\\[", "`", "*", "_", "<", "\u201c", '"', "'", "|", "\n")


def _drawn(rng: random.Random, *, right: bool) -> tuple[str, str, str]:
    """Kind, gold and what is said."""
    if rng.random() < 0.5:
        notation = rng.choice(notations.NOTATIONS)
        spelled = notation(rng)
        return notation.__name__, spelled.gold, rng.choice(spelled.same if right else spelled.other)
    answer = answers.any_answer(rng)
    return (
        answer.kind,
        answer.gold,
        rng.choice((answer.same or (answer.gold,)) if right else answer.other),
    )


def _laid_out(rng: random.Random, place: str, said: str) -> str:
    face, end = rng.choice(_FACES), rng.choice(_ENDS)
    if any(mark in said for mark in _DELIMITED):
        face = "{0}"  # marks within marks are another text
    elif any(mark in said for mark in _LATEX_ONLY) and "$" not in face and "\\" not in face:
        face = f"{face[: face.index('{0}')]}${{0}}${face[face.index('{0}') + 3 :]}"
    quoted = said.replace("\\", "\\\\")
    return place.format(face.format(said), said, quoted) + end


def wrapping_case(rng: random.Random) -> Case:
    """A value in one layout."""
    kind = rng.choice(("right", "right", "wrong", "retracted"))
    name, gold, said = _drawn(rng, right=kind != "wrong")
    place = rng.choice(RETRACTED if kind == "retracted" else _PLACES)
    return Case(
        pipeline="math",
        kind=f"wrapped {name}: {kind}",
        response=rng.choice(_BEFORE) + _laid_out(rng, place, said),
        reference={"answers": [gold]},
        expected=Expected.RIGHT if kind == "right" else Expected.WRONG,
    )


_LABELS: Final = ("{}", "({})", "{}.", "{})", "\\text{{{}}}", "**{}**")


def wrapped_label_case(rng: random.Random) -> Case:
    """A label in one layout; what takes it back may name another one."""
    kind = rng.choice(("right", "right", "wrong", "retracted"))
    gold, other = rng.sample("ABCD", 2)
    label = other if kind == "wrong" else gold
    place = rng.choice(RETRACTED if kind == "retracted" else _PLACES).replace("987654", other)
    said = label if '"' in place else rng.choice(_LABELS).format(label)
    face = "{0}" if any(mark in said for mark in "*\\") else rng.choice(_FACES)
    return Case(
        pipeline="choice",
        kind=f"wrapped label: {kind}",
        response=rng.choice(_BEFORE)
        + place.format(face.format(said), said, said)
        + rng.choice(_ENDS),
        reference={"answer": gold, "choices": list("ABCD")},
        expected=Expected.RIGHT if kind == "right" else Expected.WRONG,
    )
