"""The program inside a response: right block, right language, linear time, any text."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.code.source.choices import CPP, MAIN, PYTHON, BlockChoice, Extraction
from assay.verifiers.code.source.programs import program_of
from assay.verifiers.languages.language import ALL_LANGUAGES, BASH, GO, JAVA, JAVASCRIPT, RUST, C
from assay.verifiers.sql.definition import WORDS as SQL

AUTO, FENCED, RAW = Extraction.AUTO, Extraction.FENCED, Extraction.RAW
LAST, FIRST = BlockChoice.LAST, BlockChoice.FIRST
FENCES_INSIDE = "f\n    ```python\n    g\n    ```\nh\n"


NAMES = {
    "python": (PYTHON, "python Python3.12 py pypy3 cpython ipython3 sage main.py"),
    "cpp": (CPP, "cpp C++17 c++2a gnu++20 g++ g++-13 cplusplus hpp h++ a.cpp cxx"),
    "c": (C.words, "c C11 gnu17 gcc ansi-c main.c"),
    "java": (JAVA.words, "java Java17 Main.java"),
    "javascript": (JAVASCRIPT.words, "js jsx node.js ecmascript es6 es2020 solution.mjs"),
    "rust": (RUST.words, "rust rs rust2021 rust-lang"),
    "bash": (BASH.words, "bash sh zsh ksh shellscript shell-script posix run.sh"),
    "sql": (SQL, "sql pgsql psql tsql t-sql plsql plpgsql mariadb bigquery query.sql"),
}
PREFIXES = ("", "language-", "lang-", "highlight-")
PROGRAMS = {
    "c": (
        C,
        ["int main(void) { return 0; }", "main()\n{\n}", "#include <x>\nint\nmain (int c) {}"],
    ),
    "cpp": (ALL_LANGUAGES["cpp"], ["signed main() {}", "auto main() -> int {}", "int main( ){}"]),
    "java": (
        JAVA,
        ["class A {\n  public static void main(String[] a) {}\n}", "static void main (X... x)"],
    ),
    "go": (GO, ["package main\n\nfunc main() {}", "package main\nfunc  main () {\n}"]),
    "rust": (RUST, ["fn main() {}", "pub fn main() -> X {}", "async fn main() {}"]),
}
PARTS = ["x = a + b;", "// called by main()", "/* main() */ f();", "for (;;) {}", 'puts("main(");']


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_program_that_is_explained_is_not_the_program(name: str, part: str) -> None:
    language, programs = PROGRAMS[name]
    shown = f"The heart of it:\n```{name}\n{part}\n```\n"
    for program, choice in itertools.product(programs, (LAST, FIRST)):
        block = f"```{name}\n{program}\n```\n"
        for response in (block + shown, shown + block, shown + block + shown):
            found = program_of(response, AUTO, choice, language.words, begins=language.begins)
            assert found == f"{program}\n", response
        thought = f"<think>\n{block}</think>\n{shown}"
        found = program_of(thought, AUTO, choice, language.words, begins=language.begins)
        assert found == f"{program}\n"
        two = f"```{name}\n// 1\n{program}\n```\n{block}"
        found = program_of(two, AUTO, LAST, language.words, begins=language.begins)
        assert found == f"{program}\n"
    assert program_of(shown, AUTO, LAST, language.words, begins=language.begins) == f"{part}\n"


SAMPLE = "\nPrints:\n```\n5\n```\n```text\n5\n```\n"


@pytest.mark.parametrize("language", NAMES)
def test_a_block_is_found_by_every_name_of_its_language(language: str) -> None:
    words, names = NAMES[language]
    for name in names.split():
        for prefix in PREFIXES:
            response = f"Here:\n```{prefix}{name}\nx\n```\n{SAMPLE}"
            assert program_of(response, AUTO, LAST, words) == "x\n", (prefix, name)


@pytest.mark.parametrize("word", ["solution", "code", "my_answer", "submission.final", "réponse"])
@pytest.mark.parametrize("closed", [True, False])
def test_a_word_that_names_no_language_hides_no_program(word: str, *, closed: bool) -> None:
    block = f"```{word}\nx" + ("\n```\n" if closed else "")
    assert program_of(f"Here:\n{block}", FENCED, LAST, PYTHON) == "x\n"
    thought = f"<think>\n```a\ny\n```\n</think>\n{block}"
    assert program_of(thought, AUTO, LAST, PYTHON) == ("x\n" if closed else "y\n")
    assert program_of(f"```\na\n```\n{block}", AUTO, LAST, PYTHON) == "a\n"
    assert program_of(f"```py\na\n```\n{block}", AUTO, LAST, PYTHON) == "a\n"


@pytest.mark.parametrize("language", NAMES)
def test_a_block_with_the_name_of_another_language_is_never_used(language: str) -> None:
    words, _ = NAMES[language]
    others = {name.split()[0] for key, (_, name) in NAMES.items() if key != language} - words
    for other in [*others, "text", "output", "json", "C#", "pycon", "kotlin", "haskell", "ruby3"]:
        for name in (other, f"lang-{other}"):
            assert program_of(f"```{name}\nx\n```", AUTO, LAST, words) is None, name


@pytest.mark.parametrize(
    "end",
    [
        *("```.", "```;", "``` ```", "```\u200b", "```**", "``` .", "```!)"),
        *(
            "```The answer is 5.",
            "``` That is all.",
            "```\\boxed{5}",
            "```</answer>",
            "```Output: 5",
        ),
    ],
)
@pytest.mark.parametrize("behind", ["", "\nThat is all.", "\n\n**Note** it is fast.\n"])
def test_a_closing_fence_may_have_words_behind_it(end: str, behind: str) -> None:
    for fence in ("```", "~~~"):
        response = f"Here:\n{fence}python\nx\n{end.replace('```', fence)}{behind}"
        assert program_of(response, AUTO, LAST, PYTHON) == "x\n"
    inside = f"```python\nx\n{end}\ny\n```{behind}"
    if end != "```\u200b":
        assert program_of(inside, AUTO, LAST, PYTHON) == f"x\n{end}\ny\n"


@pytest.mark.parametrize(
    ("response", "extraction", "choice", "program"),
    [
        ("x = 1", AUTO, LAST, "x = 1"),
        ("x = 1", FENCED, LAST, None),
        ("```python\nx\n```", AUTO, LAST, "x\n"),
        ("```Python3 title=x\nx\n```", AUTO, LAST, "x\n"),
        ("```\nx\n```", AUTO, LAST, "x\n"),
        ("~~~py\nx\n~~~", AUTO, LAST, "x\n"),
        ("  ```python\n  x\n    y\n  ```", AUTO, LAST, "x\n  y\n"),
        ("  ```python\n x\n  ```", AUTO, LAST, "x\n"),
        ("```python\n\ufeffx\n```", AUTO, LAST, "x\n"),
        ("\ufeffx", AUTO, LAST, "x"),
        ("<code>\nx\n  y\n</code>", AUTO, LAST, "x\n  y\n"),
        ("[PYTHON]\nx\n[/PYTHON]", AUTO, LAST, "x\n"),
        ("<answer>\n  x\n</answer>\n", AUTO, LAST, "  x\n"),
        ("<think>a</think>\n<answer>\nx\n</answer>", AUTO, LAST, "x\n"),
        ("<answer>y</answer> x", AUTO, LAST, "<answer>y</answer> x"),
        ("[BEGIN]\n  x\n[DONE]\n", AUTO, LAST, "  x\n"),
        ("[BEGIN]\nx", AUTO, LAST, "[BEGIN]\nx"),
        ("  x\n<|eot_id|>", AUTO, LAST, "  x\n"),
        ("x</s>", AUTO, LAST, "x"),
        ("```python\nx\n```<|eot_id|>", AUTO, LAST, "x\n"),
        ("x # </s> y", AUTO, LAST, "x # </s> y"),
        ("```python\na\n```\n```python\nb\n```", AUTO, LAST, "b\n"),
        ("```python\na\n```\n```python\nb\n```", AUTO, FIRST, "a\n"),
        ("```python\na\n```\nOutput:\n```\nb\n```", AUTO, LAST, "a\n"),
        ("```python\na\n```\n```cpp\nb\n```", AUTO, LAST, "a\n"),
        ("```cpp\nb\n```", AUTO, LAST, None),
        ("```python\na\n```\n```python\nb", AUTO, LAST, "a\n"),
        ("```python\nb", AUTO, LAST, "b\n"),
        ("````python\n```\na\n```\n````", AUTO, LAST, "```\na\n```\n"),
        ("```python\n~~~\n```", AUTO, LAST, "~~~\n"),
        ("```python\n```", AUTO, LAST, ""),
        ("```python\na\n``` trailing\nb\n```", AUTO, LAST, "a\n``` trailing\nb\n"),
        ("```python\nx\n```", RAW, LAST, "```python\nx\n```"),
        ("", AUTO, LAST, ""),
        # Fences in a docstring, a closing fence that is indented, a fence opened by chance.
        ("```python\nf\n    ```python\n    g\n    ```\nh\n```", AUTO, LAST, FENCES_INSIDE),
        ("```python\nx\n    ```\n", AUTO, LAST, "x\n"),
        ("``` or so\ntext\n```python\nx\n```", AUTO, LAST, "x\n"),
        ("```python\na\n```text\nb\n```", AUTO, LAST, "a\n```text\nb\n"),
        # Words of a fence.
        ("```python3.11\nx\n```", AUTO, LAST, "x\n"),
        ("```py-3.10\nx\n```", AUTO, LAST, "x\n"),
        ("```python:src/a.py\nx\n```", AUTO, LAST, "x\n"),
        ("```python=\nx\n```", AUTO, LAST, "x\n"),
        ("```python,linenos\nx\n```", AUTO, LAST, "x\n"),
        ("```solution.py\nx\n```", AUTO, LAST, "x\n"),
        ("```pycon\nx\n```", AUTO, LAST, None),
        ("\u200b```python\nx\n```", AUTO, LAST, "x\n"),
        # Fences that are no lines of their own.
        ("Here it is: ```python\nx\n```", AUTO, LAST, "x\n"),
        ("So:```python\nx\n```\nOutput:\n```\n6\n```", AUTO, LAST, "x\n"),
        ("In `C`: ```python\nx\n```", AUTO, LAST, "x\n"),
        ("```python\nf(x)```", AUTO, LAST, "f(x)\n"),
        ("```python\nf(x)```\nOutput:\n```\n6\n```", AUTO, LAST, "f(x)\n"),
        ("```\nf(x)```\nDone.", AUTO, LAST, "f(x)\n"),
        ("```python\ns = '```'\ng\n```", AUTO, LAST, "s = '```'\ng\n"),
        ("```python f(x) ```", AUTO, LAST, "f(x) \n"),
        ("> ```python\n> if x:\n>     y\n> ```\n", AUTO, LAST, "if x:\n    y\n"),
        ("- ```python\n  if x:\n    y\n  ```", AUTO, LAST, "if x:\n  y\n"),
        ("1. ```python\n   x\n   ```", AUTO, LAST, "x\n"),
        ("```python\nx\n- ```\ny\n```", AUTO, LAST, "x\n- ```\ny\n"),
        # Line ends.
        ("```python\r\nx\r\ny\r\n```", AUTO, LAST, "x\ny\n"),
        ("x\r\ny\r\n", AUTO, LAST, "x\ny\n"),
        ("x\r\ny\n", AUTO, LAST, "x\r\ny\n"),
        ("x\r\ny", RAW, LAST, "x\r\ny"),
        # Sessions.
        ("```python\nx\n```\n```python\n>>> x\n6\n```", AUTO, LAST, "x\n"),
        ("```python\n>>> x\n6\n```", AUTO, LAST, ">>> x\n6\n"),
        # Thought aloud.
        ("<think>hm</think>x = 1", AUTO, LAST, "x = 1"),
        ("x = '<think></think>'", AUTO, LAST, "x = '<think></think>'"),
        ("<think>\n```python\na\n```\n</think>\n```python\nb\n```", AUTO, FIRST, "b\n"),
        ("<think>\n```python\na\n</think>\n```python\nb\n```", AUTO, LAST, "b\n"),
        ("<think>so ```python\na\n``` hm</think>\n```Python\nb\n```\n", AUTO, LAST, "b\n"),
        ("<think>\n```python\na\n```\n</think>\nAs above.", AUTO, LAST, "a\n"),
        ("hm\n</think>\n\nx = 1\n", AUTO, LAST, "\n\nx = 1\n"),
        ("```python\nprint('</think>')\n```", AUTO, LAST, "print('</think>')\n"),
        ("print('</think>')", AUTO, LAST, "print('</think>')"),
    ],
)
def test_program_of(
    response: str, extraction: Extraction, choice: BlockChoice, program: str | None
) -> None:
    assert program_of(response, extraction, choice, PYTHON) == program


SUM = "def f(xs):\n    return sum(xs)\n"
BODY = "    return sum(xs)\n"
DOCUMENTED = 'def f(xs):\n    """Sum.\n\n{fences}\n    """\n    return sum(xs)\n'


@pytest.mark.parametrize("program", [SUM, BODY, f"# sums\nimport math\n{SUM}", f"@cache\n{SUM}"])
@pytest.mark.parametrize(
    "behind",
    [
        *("```", "```\n", "~~~", "```<|im_end|>", "```\n\nThis sums `xs`.\n"),
        *("```\nOutput:\n```\n3\n```",),
        *("```\nFor example:\n```python\nprint(f([1]))\n```\n", "[DONE]", "[/PYTHON]\n", "</code>"),
        *("</answer>", "</code>\n</answer>", "</solution><|im_end|>", "```\n</answer>"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("thought", ["", "<think>\nso\n</think>\n"])
def test_the_prompt_may_have_written_the_first_mark(
    program: str, behind: str, thought: str
) -> None:
    found = program_of(f"{thought}{program}{behind}", AUTO, LAST, PYTHON, ("f",))
    assert found is not None
    assert found.strip("\n") == program.strip("\n")


@pytest.mark.parametrize(
    "words",
    [
        *("Here:", "for this we sum:", "if you want it:", "# Sum", "With x = 5", "Input: 1 2"),
        *("- step", "1 2", "def", "import the module", "def f(xs): wrong", "x = 5", " So:"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("language", ["", "python"])
def test_a_fence_behind_words_opens_a_block(words: str, language: str) -> None:
    for names in (("f",), ()):
        response = f"{words}\n```{language}\n{SUM}```\nThat is all."
        assert program_of(response, AUTO, LAST, PYTHON, names) == SUM


@pytest.mark.parametrize(
    "fences",
    [
        *("    ```\n    f([1])\n    ```", "```\nf([1])\n```", "    ```python\n    f([1])\n    ```"),
        "    ````\n    f([1])\n    ````",
    ],
)
def test_fences_in_a_string_of_a_program_without_a_fence(fences: str) -> None:
    program = DOCUMENTED.format(fences=fences)
    for thought in ("", "<think>\n```python\ndef f(xs):\n    return 0\n```\n</think>\n"):
        for example in ("", "\n```\nf([1])\n```\n", "\n```python\nf([1])\n```\nso\n"):
            response = f"{thought}{program}{example}"
            found = program_of(response, AUTO, LAST, PYTHON, ("f",))
            assert found is not None
            assert found.strip("\n") == program.strip("\n")


@pytest.mark.parametrize("language", ["", "python", "text"])
def test_an_example_in_a_fence_behind_a_program_without_one(language: str) -> None:
    response = f"{SUM}\n```{language}\nprint(f([1, 2]))\n```\nIt prints 3.\n"
    found = program_of(response, AUTO, LAST, PYTHON, ("f",))
    assert found is not None
    assert found.strip("\n") == SUM.strip("\n")
    body = f"def f(xs):\n```{language}\n{BODY}```\n"  # the block continues the prompt
    if language != "text":
        assert program_of(body, AUTO, LAST, PYTHON, ("f",)) == BODY
    one = f'int main() {{ puts("x"); }}\n```{language}\nx\n```\n'
    assert program_of(one, AUTO, LAST, CPP, begins=MAIN) == one.partition("```")[0]


def test_a_program_without_a_fence_behind_a_draft_with_one() -> None:
    draft = "<think>\n```python\ndef f(xs):\n    return 0\n```\n</think>\n"
    for names in (("f",), ()):
        program = SUM if names else f"{SUM}print(f([1]))\n"
        found = program_of(f"{draft}{program}", AUTO, LAST, PYTHON, names)
        assert found is not None
        assert found.strip("\n") == program.strip("\n")
    assert program_of(f"{draft}As above, f([1]) = 0.", AUTO, LAST, PYTHON, ("f",)) == (
        "def f(xs):\n    return 0\n"
    )


def test_the_language_is_the_pipelines() -> None:
    response = "```python\na\n```\n```c++\nb\n```"
    assert program_of(response, AUTO, LAST, CPP) == "b\n"


@given(
    st.text() | st.text(alphabet="`~python \n\tx"),
    st.sampled_from(Extraction),
    st.sampled_from(BlockChoice),
)
def test_any_text_gives_a_part_of_itself_or_nothing(
    response: str, extraction: Extraction, choice: BlockChoice
) -> None:
    program = program_of(response, extraction, choice, PYTHON)
    assert program is None or all(line in response for line in program.split("\n"))


@pytest.mark.parametrize(
    ("response", "program"),
    [
        ("```python\ndef f():\n    g\n```\n```python\nprint(f())\n```", "def f():\n    g\n"),
        ("```python\ndef f(): 1\n```\n```python\ndef f(): 2\n```", "def f(): 2\n"),
        ("```python\nclass f: 1\n```\n```python\nassert f() == 1\n```", "class f: 1\n"),
        ("```python\nf = 1\n```\n```python\nf == 1\n```", "f = 1\n"),
        ("```python\ndef g(): 1\n```\n```python\ndef ff(): 2\n```", "def ff(): 2\n"),
        ("```python\nasync def f(): 1\n```\n```\nf()\n```", "async def f(): 1\n"),
        ("```python\ndef f(): 1\n```\n</think>\n```python\nf()\n```", "def f(): 1\n"),
        ("```python\ndef f(): 1\n```\n</think>\n```python\ndef f(): 2\n```", "def f(): 2\n"),
    ],
)
def test_an_example_of_its_use_is_not_the_program(response: str, program: str) -> None:
    assert program_of(response, AUTO, LAST, PYTHON, ("f",)) == program


@pytest.mark.parametrize(
    "unit",
    [
        *("`", "```\n", "```python\n", "~", " ", "\n", "``` x", "```\n~~~\n", "x```python\n"),
        *("```python x```\n", "x", "> ```\n", "- ", "x)```\n", "```python x ", "9"),
        *("x = 1\n```\n", "# x\n", "f(x)\n", '"""\n```\n', ")", "for :", "a(b)"),
    ],
)
def test_extraction_is_linear(unit: str) -> None:
    response = unit * (1_000_000 // len(unit))
    began_s = time.process_time()
    program_of(response, AUTO, LAST, PYTHON)
    assert time.process_time() - began_s < 2.0


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    "unit", ["main ", "main", "main\n", " ", "\n", "fn main", "func ", "a b ", "\t"]
)
def test_the_search_for_a_beginning_is_linear(name: str, unit: str) -> None:
    language, _ = PROGRAMS[name]
    response = f"```{name}\n{unit * (400_000 // len(unit))}\n```\n```{name}\nx\n```\n"
    began_s = time.process_time()
    program_of(response, AUTO, LAST, language.words, begins=language.begins)
    assert time.process_time() - began_s < 2.0
