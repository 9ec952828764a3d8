"""Lines for a notebook and blocks in HTML around a program."""

import ast

from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.code.source.choices import PYTHON, BlockChoice, Extraction
from assay.verifiers.code.source.notebook import html_blocks, without_magics
from assay.verifiers.code.source.programs import program_of

_PIECES = st.sampled_from(
    [
        *("%%time", "%timeit f()", "!pip install x", "?f", "  %matplotlib inline", "%d"),
        *('"""', "'''", "(", ")", "[", "]", "\\", "#", "'", '"', "x = 1", "f'{x}'", "% y", "r'\\'"),
        *(
            "\n",
            "\n",
            "\n",
            "def f():\n    return 1\n",
            "s = '%s' % x\n",
            'print("""\n%%time\n""")\n',
        ),
    ]
)


@given(st.lists(_PIECES, max_size=30).map("".join))
def test_what_is_python_stays_as_it_is(text: str) -> None:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        assert without_magics(text).count("\n") == text.count("\n")
    else:
        assert without_magics(text) == text


_INSIDE = st.sampled_from(
    [
        '"""{}"""',
        "r'''{}'''",
        'f(\n"""{}""")',
        "['(', '''{}''']",
        'x = f"""{}"""',
        "# '''\n'''{}'''",
    ]
)
_SAID = st.lists(
    st.sampled_from(["%%time", "%d", "!ls", "  %pylab", "?f", "text", '\\"', "(", "]", "#"]),
    min_size=1,
)


@given(_INSIDE, _SAID)
def test_lines_inside_of_a_string_stay_as_they_are(string: str, said: list[str]) -> None:
    text = string.format("\n" + "\n".join(said) + "\n")
    ast.parse(text)
    assert without_magics(text) == text


@given(st.sampled_from(["%", "% "]), st.integers(1, 5))
def test_an_operator_at_the_beginning_of_a_line_stays(sign: str, depth: int) -> None:
    text = f"x = {'(' * depth}7\n{sign}y\n{')' * depth}\nz = 7 \\\n%y\n"
    ast.parse(text)
    assert without_magics(text) == text


def test_magics_become_comments_and_lines_keep_their_numbers() -> None:
    said = "%%time\n!pip install numpy\nif True:\n    %matplotlib inline\n%time x = f()\n"
    expected = "# %%time\n# !pip install numpy\nif True:\n    pass\nx = f()\n"
    assert without_magics(said) == expected


def _program(response: str) -> str | None:
    return program_of(response, Extraction.AUTO, BlockChoice.LAST, PYTHON)


def test_a_block_in_html_is_a_fence() -> None:
    said = (
        'Here is it:\n<pre><code class="language-python">if a &lt; b &amp;&amp; c:\n</code></pre>\n'
    )
    assert _program(said) == "if a < b && c:\n"
    assert _program("<pre>\nx = 1\n</pre>") == "x = 1\n"
    assert _program('<pre><code class="lang-js">let x</code></pre>') is not None
    fenced = f"```python\ny = 2\n```\n{said}"
    assert _program(fenced) == "y = 2\n"


def test_html_in_a_string_of_a_program_is_none() -> None:
    said = 'PAGE = """\n<pre><code>\nx &lt; 1\n</code></pre>\n"""\nprint(PAGE)\n'
    assert _program(said) == said
    assert list(html_blocks(said)) == []
