"""Fenced blocks that the text around them takes back, for `code`, `sql` and `json_schema`."""

import time
from typing import Any

import pytest

from assay.verifiers.code.source.choices import PYTHON, BlockChoice, Extraction
from assay.verifiers.code.source.programs import program_of
from assay.verifiers.sql.definition import WORDS as SQL
from assay.verifiers.text.around.blocks import BLOCKS_MAX, BlockContent, standing
from assay.verifiers.text.json_text import fenced

NOUNS = {"json": ("json", "JSON"), "sql": ("query", "sql"), "python": ("code", "program")}
CONTENT = {"json": '{"a": 1}', "sql": "SELECT 1", "python": "print(1)"}
OTHER = {"json": '{"b": 2}', "sql": "SELECT 2", "python": "print(2)"}

BEHIND = """
Wait, that is wrong.
Wait, that's wrong.
Wait, this is not right.
Hmm, that's incorrect.
Oops, this is wrong.
No, that is a mistake.
Actually, that is not correct.
Wait, no.
No, wait.
That is wrong.
This is incorrect.
This does not work.
It doesn't work.
which is wrong.
Scratch that.
Ignore that.
Please ignore this.
Disregard that.
Ignore the above.
Please disregard the above.
Ignore the block above.
Ignore the NOUN above.
Please ignore the above NOUN.
Ignore the previous NOUN.
Ignore my last answer.
Ignore that NOUN.
Disregard the previous block.
Do not use the NOUN above.
Don't use that.
Forget the above.
The NOUN above is wrong.
The above NOUN is incorrect.
This NOUN is wrong.
My answer is wrong.
My solution above is incorrect.
That answer was wrong.
I made a mistake.
I made an error. Let me redo this.
I made a mistake: the second part is missing.
I was wrong.
Oh wait, that is wrong, because the end is missing.
Wait, that is wrong: it needs another part. I should have looked at the edge cases first.
Sorry, that's wrong. It has to be the other way round.
Hmm. That is wrong.
*Wait, that is wrong.*
**Ignore the above.**
(Ignore that.)
On second thought, that is wrong.
Edit: that is wrong.
I forgot a part. Wait, that is wrong.
Let me check it again. Hmm, this is not correct.
"""
STAYS = """
That is it.
This is not wrong.
That is right.
I hope this helps!
Note that an empty list would be wrong here.
Wait, that is wrong only if there are no rows.
This is wrong if the table is empty, so keep an index.
Some people sort first. That is incorrect, because equal ones move.
Wait, that is wrong. Let me check it again. No, it is right.
Wait, that is wrong? Never mind, it works.
Wait, is that wrong? I look again: all is as expected.
Ignore the warning that it prints.
The previous version was wrong because it left out the last one.
The original NOUN was wrong, and this is the mend.
A common mistake is to leave out the end.
Do not use this with Python 2.
It does not work on paper, but here it does.
If you see an error, ignore it.
I was wrong about the name in my first message, so I changed it here.
The result is a false value, as is asked.
It is false.
The answer is incorrect in the book.
This avoids the mistake.
Wrong values are left out.
No, really: this is all.
Actually, it is that short.
No need to wait.
Forget about sorting: it is done above.
This is wrong for the naive approach, which is why we do not do so.
"""
BEFORE = """
Wrong:
Wrong answer:
**Wrong:**
### Wrong
Incorrect:
Incorrect NOUN:
The wrong NOUN:
The wrong way:
A wrong version would be:
An incorrect solution:
A bad example:
NOUN (wrong):
My first attempt (wrong):
First attempt, which was buggy. Buggy version:
Do not do this:
Don't do this:
Do not write this:
Never do this:
Avoid this:
Don't use:
Please do not submit this:
What not to do:
Here is what not to do:
How not to do it:
An example of what not to do:
This is an example of what not to do:
This would be wrong:
The following is wrong:
The following NOUN is incorrect:
This is incorrect:
Not this:
Instead of:
Instead of this:
A common mistake:
A common mistake is:
A typical error would be:
\u274c Wrong:
\u274c Before:
- \u274c
**\u274c Bad**
Falsche Antwort:
R\u00e9ponse incorrecte :
"""
LEADS = """
Here it is:
Right:
The right NOUN:
This fixes the wrong result:
To avoid this mistake, I write:
The NOUN was wrong, so here is the mend:
That was wrong. This is right:
Wrong answers are left out:
Instead of a loop, I use one statement:
Do not forget the end:
Not all are equal:
\u2705 Right:
I will not do this by hand:
Bad input is skipped:
My first attempt:
Here is how to find the mistake:
"""


def _lines(text: str, language: str) -> list[str]:
    return [
        line.replace("NOUN", noun)
        for line in text.strip().split("\n")
        for noun in (NOUNS[language] if "NOUN" in line else ("",))
    ]


def _fence(content: str, language: str, *, word: bool = True) -> str:
    return f"```{language if word else ''}\n{content}\n```"


def _read(response: str, language: str) -> str | None:
    """What is read, without the white space around it; `None`: nothing that was in a block."""
    if language == "json":
        read = fenced(response).strip()
        return read if read in {CONTENT["json"], OTHER["json"]} else None
    words = SQL if language == "sql" else PYTHON
    program = program_of(response, Extraction.AUTO, BlockChoice.LAST, words)
    return program if program is None else program.strip()


@pytest.mark.parametrize("language", NOUNS)
def test_what_stands_behind_a_block_takes_it_back(language: str) -> None:
    one, other = _fence(CONTENT[language], language), _fence(OTHER[language], language, word=False)
    for said in _lines(BEHIND, language):
        assert _read(f"{one}\n{said}", language) is None, said
        assert _read(f"{one}\n\n{said}\n\n", language) is None, said
        assert (
            _read(f"So:\n{one}\n{said}\n\nThis is the right one:\n{other}", language)
            == OTHER[language]
        ), said


@pytest.mark.parametrize("language", NOUNS)
def test_what_says_something_else_behind_a_block_leaves_it(language: str) -> None:
    one = _fence(CONTENT[language], language)
    for said in _lines(STAYS, language):
        assert _read(f"{one}\n{said}", language) == CONTENT[language], said
        assert _read(f"{one}\n\n{said} So it is done.", language) == CONTENT[language], said


@pytest.mark.parametrize("language", NOUNS)
def test_a_heading_calls_a_block_wrong(language: str) -> None:
    one, other = _fence(CONTENT[language], language, word=False), _fence(OTHER[language], language)
    for said in _lines(BEFORE, language):
        assert _read(f"{said}\n{one}", language) is None, said
        assert _read(f"Right:\n{one}\n\n{said}\n\n{other}", language) == CONTENT[language], said


@pytest.mark.parametrize("language", NOUNS)
def test_other_words_before_a_block_leave_it(language: str) -> None:
    one = _fence(CONTENT[language], language)
    for said in _lines(LEADS, language):
        assert _read(f"{said}\n{one}", language) == CONTENT[language], said


STRUCK = (
    *(
        ("~~\n", "\n~~"),
        ("~~", "~~"),
        ("<del>\n", "\n</del>"),
        ("<s>", "</s>"),
        ("<DEL>", "</DEL>"),
    ),
    *(("<strike>\n", "\n</strike>"), ("<del class='x'>\n\n", "\n\n</del>"), ("<!--\n", "\n-->")),
    *(("~~So:\n", "\n~~"), ("I think ~~so:\n\n", "\nor so~~"), ("**~~**\n", "\n~~ done.")),
)
NOT_STRUCK = (
    *(("~~old~~\n", "\n~~old~~"), ("~~5 rows\n", "\n~~x~~"), ("~~\n~~\n", ""), ("<s>\n", "")),
    *(("<del>old</del>\n", "\n<del>x</del>"), ("</del>\n", "\n<del>")),
    *(("<!-- a -->\n", "\n<!-- b -->"), ("x ~~ y\n", "\n x ~~y")),
    *(("about ~~ ten\n", "\nabout ~~ ten"), ("~~ 5\n", "\n6 ~~ 7.")),
)


@pytest.mark.parametrize("language", NOUNS)
def test_a_block_that_is_struck_through_or_hidden_is_none(language: str) -> None:
    one, other = _fence(CONTENT[language], language), _fence(OTHER[language], language, word=False)
    for before, behind in STRUCK:
        assert _read(f"{before}{one}{behind}", language) is None, before
        text = f"{other}\n\n{before}{one}{behind}"
        assert _read(text, language) == OTHER[language], before
        text = f"{before}{one}{behind}\n\nSo:\n{_fence(OTHER[language], language)}"
        assert _read(text, language) == OTHER[language], before
    for before, behind in NOT_STRUCK:
        assert _read(f"{before}{one}{behind}", language) == CONTENT[language], before


@pytest.mark.parametrize("language", NOUNS)
def test_a_struck_block_glued_to_its_marks_hides_no_other(language: str) -> None:
    one, other = _fence(CONTENT[language], language), _fence(OTHER[language], language)
    for before, behind in (("~~", "~~"), ("<strike>", "</strike>"), ("<s>", "</s>.")):
        text = f"{before}{one}{behind}\nThat is old.\n\nSo:\n{other.replace('```', '~~~')}\nDone."
        assert _read(text, language) == OTHER[language], text


def test_marks_within_blocks_strike_nothing() -> None:
    code = 'x = "~~"\ny = "<del>"\n# Wait, that is wrong.'
    assert _read(_fence(code, "python") + "\nand `~~`", "python") == code
    said = '{"a": "~~ <s> ignore the above"}'
    assert fenced(_fence(said, "json") + "\nThe end ~~").strip() == said


def test_a_comment_in_its_first_line_calls_a_block_wrong() -> None:
    right, wrong = _fence("print(1)", "python"), _fence("# Wrong: twice\nprint(2)", "python")
    assert _read(f"{right}\n\n{wrong}", "python") == "print(1)"
    noted = _fence("# wrong input is skipped\nprint(2)", "python")
    assert _read(f"{right}\n\n{noted}", "python") == "# wrong input is skipped\nprint(2)"


def test_words_at_the_end_take_back_all_blocks_unless_they_name_one() -> None:
    one, use = _fence("def f(): return 1", "python"), _fence("print(f())", "python")
    text = f"{one}\nIt is used so:\n{use}\n"
    for said, read in (
        ("Wait, that is wrong.", None),
        ("Ignore all of the above.", None),
        ("Wait, that example is wrong.", "def f(): return 1"),
        ("Ignore the second block.", "def f(): return 1"),
        ("Ignore the block above. It is old.", "def f(): return 1"),
        ("Ignore the code above.", None),
        ("Wait, that is wrong: it leaves out the last one.", None),
        ("That is it.", "print(f())"),
    ):
        program = program_of(text + said, Extraction.AUTO, BlockChoice.LAST, PYTHON)
        assert (program and program.strip()) == read, said


def test_a_draft_in_a_thought_does_not_stand_in_for_a_block_that_is_taken_back() -> None:
    draft = f"<think>\n{_fence('print(1)', 'python')}\n</think>\n"
    answer = _fence("print(2)", "python")
    assert _read(f"{draft}{answer}", "python") == "print(2)"
    assert _read(f"{draft}{answer}\nWait, that is wrong.", "python") is None

    define, use = _fence("def f(): return 1", "python"), _fence("print(f())", "python")
    text = f"<think>\n{define}\n</think>\n{define}\nWait, that is wrong.\nIt is used so:\n{use}"
    program = program_of(text, Extraction.AUTO, BlockChoice.LAST, PYTHON, ("f",))
    assert program == "print(f())\n"


def test_a_page_in_html_is_taken_back_as_well() -> None:
    page = "<pre><code>\nprint(1)\n</code></pre>"
    assert _read(page, "python") == "print(1)"
    for text in (f"<del>\n{page}\n</del>", f"{page}\nWait, that is wrong.", f"Wrong:\n{page}"):
        assert _read(text, "python") != "print(1)"


def test_the_first_of_several_blocks_is_the_first_that_stands() -> None:
    text = f"{_fence('print(1)', 'python')}\nWait, that is wrong.\n{_fence('print(2)', 'python')}"
    text += f"\nOr:\n{_fence('print(3)', 'python')}"
    program = program_of(text, Extraction.AUTO, BlockChoice.FIRST, PYTHON)
    assert program == "print(2)\n"


@pytest.mark.parametrize("pipeline", ["json_schema", "sql", "code.python"])
def test_no_pipeline_rewards_a_block_that_is_taken_back(bench: Any, pipeline: str) -> None:
    right, word, reference = {
        "json_schema": ('{"a": 1}', "json", {"schema": {"required": ["a"]}}),
        "sql": ("SELECT 1", "sql", {"databases": [{}], "query": "SELECT 1"}),
        "code.python": (
            "def f():\n    return 1",
            "python",
            {"asserts": {"code": ["assert f() == 1"]}},
        ),
    }[pipeline]
    block = f"```{word}\n{right}\n```"
    assert bench.judge(pipeline, block, reference).reward == 1.0
    for text in (f"{block}\nWait, that is wrong.", f"~~\n{block}\n~~", f"Wrong:\n{block}"):
        assert bench.judge(pipeline, text, reference).reward == 0.0, text


def test_a_text_with_many_blocks_is_read_in_linear_time() -> None:
    for unit in ("~~ ", "<s> ", "Wait, that is wrong. ", "The code above is ", "ignore the " * 3):
        around = [unit * 200] * (BLOCKS_MAX + 1)
        began_s = time.process_time()
        standing(around, [""] * BLOCKS_MAX, BlockContent.PROGRAM)
        assert time.process_time() - began_s < 2.0, unit
