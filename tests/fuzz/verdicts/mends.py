"""Mends that the fuzzer has to miss: each one taken out, it finds the class of defects again.

A mend is what stands between a response and a reward that is forged, voided, inverted or starved.
Where two layers hold the same class (a run that nothing explains is judged again beside a control),
both are taken out: either alone leaves every verdict true.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

_VERIFIERS: Final = "services/assay/verifiers"
_CODE: Final = f"{_VERIFIERS}/code"
_REFEREE: Final = f"{_CODE}/referee"
_TEXT: Final = f"{_VERIFIERS}/text"
_MATH: Final = f"{_VERIFIERS}/math"
_DIES: Final = "__import__('os')._exit(1)"
"""What a referee that is not total does: it ends without a word."""


class Change(NamedTuple):
    """One change of one file; the old text occurs exactly once in it."""

    file: str
    old: str
    new: str


class Mend(NamedTuple):
    """What is taken out, and which generators draw its class."""

    what: str
    only: tuple[str, ...]
    changes: tuple[Change, ...]
    shown_by: str
    """Regular expression of the kinds of cases that show it, by pipeline and kind."""
    on_platform: bool = False
    """The class is only seen in workers of a platform, not in a process that judges alone."""


_CONTROL: Final = Change(
    f"{_VERIFIERS}/total.py",
    "            runs += 1\n            control()",
    "            raise\n            control()",
)
_PYTHON: Final = ("python", "lies", "unusual", "shapes", "forgers", "crossings")
_ANSWERS: Final = ("answers",)

MENDS: Final[Mapping[str, Mend]] = {
    # Verdicts that a candidate gives itself.
    "record_names": Mend(
        "the fields of a named tuple are attributes of its class",
        ("python", "lies"),
        (
            Change(
                f"{_REFEREE}/values.py",
                "    return Record(word, fields, items)\n\n\ndef _is_field",
                "    for at, field in enumerate(fields):\n"
                "        at_field = property(lambda self, at=at: tuple.__getitem__(self, at))\n"
                "        setattr(Record, field, at_field)\n"
                "    return Record(word, fields, items)\n\n\ndef _is_field",
            ),
            Change(f"{_REFEREE}/values.py", '        and not name.startswith("_")\n', ""),
            Change(f"{_REFEREE}/values.py", "        and not hasattr(tuple, name)\n", ""),
        ),
        shown_by=r"agreeable value$",
    ),
    "undefined_names": Mend(
        "a name that the tests leave undefined is the program's",
        ("forgers", "python"),
        (
            Change(
                f"{_REFEREE}/names.py",
                '        module, _, attribute = self._library.get(name, "").partition(":")\n',
                "        try:\n            return self._program.lookup(name)\n        except NameError:\n            pass\n"
                '        module, _, attribute = self._library.get(name, "").partition(":")\n',
            ),
        ),
        shown_by=r"undefined: names$",
    ),
    # Responses that make themselves unscorable.
    "control": Mend(
        "a run that nothing explains is the platform's fault, without a control",
        ("judges", "readers", "judged", "unusual"),
        (_CONTROL,),
        on_platform=True,
        shown_by=r"^python_function/",
    ),
    "constructors": Mend(
        "a class `Solution` whose constructor raises ends the referee",
        _PYTHON,
        (
            _CONTROL,
            Change(
                f"{_REFEREE}/run.py",
                "        records.judged(0, _raised(link, error))\n        return\n",
                f"        {_DIES}\n",
            ),
        ),
        shown_by=r"constructor$",
    ),
    "printed_errors": Mend(
        "the referee prints the exceptions of the program",
        _PYTHON,
        (
            _CONTROL,
            Change(
                f"{_REFEREE}/errors.py",
                '    text = error.__dict__.get("_assay_text")\n',
                "    text = str(error)\n",
            ),
            Change(
                f"{_REFEREE}/candidate.py",
                "            text = str.__str__(str(error))[:TEXT_CHARS_MAX]\n",
                "            text = str(error)\n",
            ),
            Change(
                f"{_REFEREE}/candidate.py",
                '            blank = ["raise", "Exception", None, ["l", 0, []], "", self._numbered(None), None]\n'
                "            self._frames.send(blank)\n",
                '            self._frames.send(["raise"])\n',
            ),
            Change(
                f"{_REFEREE}/link.py",
                '        if message[0] == "raise" and len(message) == 7:\n',
                '        if message == ["raise"]:\n'
                f"            {_DIES}\n"
                '        if message[0] == "raise" and len(message) == 7:\n',
            ),
        ),
        shown_by=r"exception|patches",
    ),
    "large_results": Mend(
        "a result of more than 32 MiB ends the referee",
        _PYTHON,
        (
            _CONTROL,
            Change(
                f"{_REFEREE}/frames.py",
                "        if len(body) > FRAME_BYTES_MAX:\n            message =",
                "        if False:\n            message =",
            ),
            Change(
                f"{_REFEREE}/frames.py",
                '            message = f"a message of {length} bytes"\n            raise Malformed(message)\n',
                f"            {_DIES}\n",
            ),
        ),
        shown_by=r"descriptors|huge$",
    ),
    "lengths": Mend(
        "a value that says another length than it has ends the referee",
        _PYTHON,
        (
            _CONTROL,
            Change(
                f"{_REFEREE}/values.py",
                "    if len(set(fields)) != len(fields) or len(fields) != len(items):\n        return tuple(items)\n",
                f"    if len(set(fields)) != len(fields) or len(fields) != len(items):\n        {_DIES}\n",
            ),
        ),
        shown_by=r"agreeable",
    ),
    "told_lengths": Mend(
        "an object may say another length for each question",
        _PYTHON,
        (
            Change(
                f"{_REFEREE}/operations.py",
                "        known = self._told.setdefault(number, length)\n",
                "        known = length\n",
            ),
        ),
        shown_by=r"forger$",
    ),
    "own_iterators": Mend(
        "an iterator of the program is its own iterator, whatever its class says",
        _PYTHON,
        (
            Change(
                f"{_REFEREE}/proxies.py",
                '        found: Iterator[Any] = self._assay_link.ask("iter", self)\n        said = None if',
                "        found: Iterator[Any] = self\n        said = None if",
            ),
        ),
        shown_by=r"shape: Count",
    ),
    "imported_classes": Mend(
        "a class that tests import is no class under test",
        _PYTHON,
        (
            Change(
                f"{_CODE}/source/entry_points.py",
                "    reading.imported |= _imported_from_program(tree)\n",
                "",
            ),
        ),
        shown_by=r"shape: (Stack|Money)",
    ),
    "multiples": Mend(
        "`multipleOf` as the library computes it",
        ("schema", "documents", "keywords"),
        (Change(f"{_TEXT}/dialects.py", '    "multipleOf": _multiple_of,\n', ""),),
        shown_by=r"schema: (odd|multiple)$",
    ),
    "deep_json": Mend(
        "JSON is read on the stack of the thread",
        ("schema", "documents", "keywords"),
        (
            Change(
                f"{_TEXT}/json_schema.py",
                "        return on_deep_stack(judge)\n",
                "        raise\n",
            ),
        ),
        shown_by=r"schema: deep$",
    ),
    "cold_modules": Mend(
        "modules of the computer algebra are imported when they are needed",
        ("operations",),
        (
            Change(
                f"{_MATH}/warm/modules.py",
                '            for path in sorted(_modules(list(package.__path__), f"{name}.")):\n',
                "            for path in () if package else ():\n",
            ),
            # A confined process may read Python's own files, so that it can import them late.
            Change(
                "services/assay/sandbox/confine.py",
                "{*system, sys.prefix, sys.base_prefix, *sys.path, *(",
                "{*system, *(",
            ),
        ),
        on_platform=True,
        shown_by=r"operation: integral$",
    ),
    "killed_compilers": Mend(
        "the compiler's text says whether it was killed",
        ("cpp",),
        (
            _CONTROL,
            Change(
                f"{_CODE}/cpp/compiler.py",
                "    part_killed = result.files.get(_KILLED) == _SIGKILLED and not result.status.is_limit\n",
                '    part_killed = b"Killed signal terminated program" in result.stderr\n',
            ),
            Change(
                f"{_CODE}/cpp/compiler.py",
                "            if _compiler_killed(result):\n                self.check(settings)\n",
                "            if _compiler_killed(result):\n                raise SandboxError('the compiler was killed')\n",
            ),
            Change(
                f"{_CODE}/cpp/compiler.py",
                "from assay.sandbox.port import ",
                "from assay.sandbox.port import SandboxError\nfrom assay.sandbox.port import ",
            ),
        ),
        shown_by=r"cpp: message$",
    ),
    # Answers that are read wrongly.
    "minus_apart": Mend(
        "a minus that stands apart is lost",
        _ANSWERS,
        (
            Change(
                f"{_MATH}/grammar/numbers.py",
                r'rf"(?a)(?P<sign>[-+]?)\s*(?P<money>[{notation.CURRENCY}',
                r'rf"(?a)(?:[-+]\s+)?(?P<sign>[-+]?)(?P<money>[{notation.CURRENCY}',
            ),
        ),
        shown_by=r"^math/integer",
    ),
    "minus_sign": Mend(
        "U+2212 is dropped, as invisible characters are",
        _ANSWERS,
        (
            Change(f"{_MATH}/lexicon/unicode.py", '"-": "MINUS SIGN,EN DASH,', '"-": "EN DASH,'),
            # math-verify reads the sign itself where it gets to see it.
            Change(
                f"{_MATH}/lexicon/unicode.py",
                '"": "ZERO WIDTH SPACE,',
                '"": "MINUS SIGN,ZERO WIDTH SPACE,',
            ),
        ),
        shown_by=r"^math/(integer|percent|unit|set)",
    ),
    "lists": Mend(
        "of several values the last one is the answer",
        _ANSWERS,
        (
            Change(
                f"{_MATH}/grammar/lists.py",
                '    found = read_items("list", parts, text, reader)\n    if found is not None:\n',
                '    found = read_items("list", parts, text, reader)\n    if found is not None and reader.depth == 0:\n        return found.items[-1]\n    if found is not None:\n',
            ),
        ),
        shown_by=r"^math/list: other$",
    ),
    "ways": Mend(
        "of answers that are marked in different ways, one is the answer",
        ("ways",),
        (
            Change(
                f"{_TEXT}/answers.py",
                "_extracted(_with_neighbours(response, run, strategy, strategies), strategy)",
                "_extracted(_texts(run, strategy), strategy)",
            ),
        ),
        shown_by=r"ways: guess$",
    ),
    "layout": Mend(
        "HTML, environments, greetings and marks around an answer are a part of it",
        ("wrappings",),
        (
            Change(
                f"{_MATH}/extract.py",
                "denials.without_struck(layout.plain(answer_part(response)))",
                "denials.without_struck(answer_part(response))",
            ),
        ),
        shown_by=r"wrapped .*: right$",
    ),
    "withdrawn": Mend(
        "an answer that the last sentence takes back is the answer",
        ("wrappings", "wrapped_labels"),
        (
            Change(
                f"{_TEXT}/around/withdrawn.py",
                "    if last is None:\n        return False\n",
                "    if last is None or True:\n        return False\n",
            ),
        ),
        shown_by=r"retracted$",
    ),
    "denied_in_type": Mend(
        "an answer that is denied is found again as the last value of the text",
        ("wrappings",),
        (
            Change(
                f"{_TEXT}/answers.py",
                "markers.without_denied(text[-_DENIED_CHARS_MAX:])",
                "text[-_DENIED_CHARS_MAX:]",
            ),
        ),
        shown_by=r"retracted$",
    ),
    "glued_fences": Mend(
        "two blocks with their fences on one line are one block",
        ("fences",),
        (
            Change(
                f"{_CODE}/source/blocks.py",
                "not (_BEHIND_CODE.search(text) or _GLUED.search(text))",
                "not _BEHIND_CODE.search(text)",
            ),
        ),
        shown_by=r"fences: glued$",
    ),
    "opened_by_prompt": Mend(
        "a closing mark whose first one the prompt has written is part of the program",
        ("openings",),
        (
            Change(
                f"{_CODE}/source/openings.py",
                "    fences = list(_FENCE.finditer(said))",
                "    return said\n    fences = list(_FENCE.finditer(said))",
            ),
        ),
        shown_by=r"openings: \w+, (closed|documented|draft)$",
    ),
    "stripped_bodies": Mend(
        "a continued function keeps the indentation of its first line",
        ("openings",),
        (
            Change(
                f"{_CODE}/python_stage.py",
                "    if _is_stripped_body(lines):",
                "    if not _is_stripped_body and lines:",
            ),
        ),
        shown_by=r"openings: human_eval, stripped$",
    ),
    "any_number": Mend(
        "an operator's function returns floats and integers, or nothing",
        ("numbers",),
        (
            Change(
                "services/assay/verifiers/function/harness.py",
                "    if isinstance(value, (str, bytes, bytearray, memoryview)):",
                "    if type(value) not in (int, float):",
            ),
        ),
        shown_by=r"numbers: right$",
    ),
    "marked_answers": Mend(
        "a judge's answer is one of the choices, letter for letter",
        ("judges",),
        (
            Change(
                f"{_VERIFIERS}/judge/rubric.py",
                "    found = bare.get(said, []) if said else []",
                "    found: list[str] = []",
            ),
        ),
        shown_by=r"judge: (right|forged right)$",
        on_platform=True,
    ),
    "offers": Mend(
        "what a sentence offers in place of a box is no answer",
        ("offers",),
        (
            Change(
                f"{_TEXT}/answers.py",
                "    other = alternatives.alternative(response, run[-1].start, last, value)\n",
                "    other = None\n",
            ),
        ),
        shown_by=r"offers: another$",
    ),
    "around": Mend(
        "relations and brackets around a box say nothing about it",
        ("around",),
        (
            Change(
                f"{_TEXT}/around/operands.py",
                "    if relations.is_side(response, start, end) or",
                "    if False and",
            ),
        ),
        shown_by=r"around: (?:relation|bracket)$",
    ),
    "beside": Mend(
        "a value alone behind a box is no answer, whatever its kind",
        ("offers",),
        (
            Change(
                f"{_TEXT}/announcements/alternatives.py",
                "    return None if found is None else Alternative(",
                "    return None if True else Alternative(",
            ),
        ),
        shown_by=r"beside: another$",
    ),
    "fractions_listed": Mend(
        "fractions in a list are one expression",
        _ANSWERS,
        (
            Change(
                f"{_MATH}/grammar/lists.py",
                "    parts = non_empty(notation.split(text, SEMICOLON))\n    if len(parts) < 2:\n",
                '    if "/" in text or "frac" in text:\n        return None\n    parts = non_empty(notation.split(text, SEMICOLON))\n    if len(parts) < 2:\n',
            ),
        ),
        shown_by=r"list of fractions: same$",
    ),
    "times": Mend(
        "a time is a ratio",
        _ANSWERS,
        (
            Change(
                f"{_MATH}/grammar/read.py",
                "    read_time,\n    read_union,\n",
                "    read_union,\n",
            ),
        ),
        shown_by=r"^math/time: same$",
    ),
    "numbers_apart": Mend(
        "of numbers with spaces between them the last one is the answer",
        _ANSWERS,
        (
            Change(
                f"{_MATH}/grammar/lists.py",
                "    if _SPACED_NUMBERS.fullmatch(text) and not any(\n",
                "    if False and not any(\n",
            ),
            Change(
                f"{_MATH}/search.py",
                r"(?:{notation.JOINERS})\s+|\s*[,;]\s*|[ ]+|",
                r"(?:{notation.JOINERS})\s+|\s*[,;]\s*|",
            ),
        ),
        shown_by=r"^math/list: (same|echo)$",
    ),
    "comments": Mend(
        "of a value and a comment behind it, the last number is the answer",
        ("comments",),
        (
            Change(
                f"{_MATH}/reading.py",
                "        if commented is not None:\n",
                "        if False:\n",
            ),
        ),
        shown_by=r"comment: stated$",
    ),
    "label_a": Mend(
        "`A` before a word in lower case is an article",
        ("choice", "labels", "selections"),
        (
            Change(
                f"{_TEXT}/choices/labels.py",
                "        return follows.match(text, match.end()) is None\n",
                "        return True\n",
            ),
        ),
        shown_by=r"selection: selected$",
    ),
    "instead_of": Mend(
        "`instead of` rejects nothing",
        ("choice", "labels", "selections"),
        (
            Change(
                f"{_TEXT}/choices/labels.py",
                'r"|instead[ ]of|rather[ ]than|',
                'r"|rather[ ]than|',
            ),
        ),
        shown_by=r"label: adornment$",
    ),
    "not_a_label": Mend(
        "`not` rejects nothing",
        ("choice", "labels", "selections"),
        (
            Change(
                f"{_TEXT}/choices/labels.py",
                r'r"(?:\b(?:not|never|neither|nor|cannot',
                r'r"(?:\b(?:never|neither|nor|cannot',
            ),
        ),
        shown_by=r"label: adornment$",
    ),
    # Where a response puts its JSON, its query or its words.
    "json_behind_words": Mend(
        "a fence behind words opens no block of JSON",
        ("json_places",),
        (
            Change(
                f"{_TEXT}/json_text.py",
                "    lines = _lines(response)\n",
                '    lines = response.split("\\n")\n',
            ),
        ),
        shown_by=r"place: blocks$",
    ),
    "other_blocks": Mend(
        "a block in another language is as good as one without a name",
        ("json_places",),
        (
            Change(
                f"{_TEXT}/json_text.py",
                "    return int(words.strip().lower() in _MAY_HOLD)\n",
                "    return 1\n",
            ),
        ),
        shown_by=r"place: blocks$",
    ),
    "unended_drafts": Mend(
        "a block in a thought without an end is the answer",
        ("json_places",),
        (
            Change(
                f"{_TEXT}/json_text.py",
                "    response = response[begin:end]\n",
                "    response = response[begin:]\n",
            ),
        ),
        shown_by=r"place: unended$",
    ),
    "marks_in_strings": Mend(
        "a mark of a thought in a string of JSON ends a thought",
        ("json_places",),
        (
            Change(
                f"{_TEXT}/json_text.py",
                "answer_span(_STRINGS.sub(_masked, response))",
                "answer_span(response)",
            ),
        ),
        shown_by=r"place: ",
    ),
    "blocks_without_result": Mend(
        "the last block of SQL is the query, whatever it is",
        ("query_places",),
        (
            Change(
                f"{_VERIFIERS}/sql/stage.py",
                "        begins = CHANGES if reference.check else QUERIES\n",
                '        begins = ""\n',
            ),
        ),
        shown_by=r"place: (?:result|change)$",
    ),
    "open_order": Mend(
        "rows that an order by no column leaves open have their places",
        ("query_places",),
        (
            Change(
                f"{_VERIFIERS}/sql/stage.py",
                " if columns is not None else widened(query, reply.names)\n",
                " if columns is not None else None\n",
            ),
        ),
        shown_by=r"place: ties$",
    ),
    "limit_ties": Mend(
        "of rows that are equal in the order, a LIMIT leaves those that the reference's leaves",
        ("query_places",),
        (
            Change(
                f"{_VERIFIERS}/sql/stage.py",
                "        cut = unlimited(wide.query)\n",
                "        cut = None\n",
            ),
        ),
        shown_by=r"place: ties$",
    ),
    "offset_ties": Mend(
        "an OFFSET leaves out the rows that the reference's leaves out",
        ("open_rows",),
        (Change(f"{_VERIFIERS}/sql/order.py", "int(skipped or 0))\n", "0)\n"),),
        shown_by=r"open rows: (?:plain|filtered)$",
    ),
    "distinct_ties": Mend(
        "rows that are distinct have their places",
        ("open_rows",),
        (
            Change(
                f"{_VERIFIERS}/sql/order.py",
                "len(selects) != 1 or _DISTINCT_ON",
                'len(selects) != 1 or "distinct" in head.mask.lower() or _DISTINCT_ON',
            ),
        ),
        shown_by=r"open rows: distinct$",
    ),
    "nested_numbers": Mend(
        "numbers in lists are texts",
        ("nested",),
        (
            Change(
                f"{_VERIFIERS}/sql/nested.py",
                '        numbers.append(value)\n        yield "#"\n',
                "        yield value\n",
            ),
        ),
        shown_by=r"nested$",
    ),
    "withdrawn_blocks": Mend(
        "a block stands, whatever is said behind it",
        ("withdrawn_blocks",),
        (
            Change(
                f"{_TEXT}/around/blocks.py",
                "        if not _HINT.search(behind) or not _taken_back(behind, content, is_last=is_last):\n",
                "        if behind is not None:\n",
            ),
        ),
        shown_by=r"blocks: withdrawn$",
    ),
    "abroad": Mend(
        "sentences that take an answer back are read in English only",
        ("abroad",),
        (
            Change(
                f"{_TEXT}/abroad/english.py",
                "        if any(hint in folded for hint in _hints(at, is_ascii=is_ascii)):\n",
                "        if language is None:\n",
            ),
        ),
        shown_by=r"abroad: (?:taken back|corrected)$",
    ),
    "bracketed_units": Mend(
        "units that are multiplied and divided are no units of measure",
        ("quotients",),
        (
            Change(
                f"{_VERIFIERS}/math/lexicon/units.py",
                "    if match is None or not is_one:\n",
                "    if match is None or is_one or not is_one:\n",
            ),
        ),
        shown_by=r"quotient: ",
    ),
    "errors_without_text": Mend(
        "an error whose text cannot be made is raised again",
        ("brittle",),
        (
            Change(
                f"{_VERIFIERS}/total.py",
                "        return str(error)\n    except Exception as problem:",
                "        return str(error)\n    except ZeroDivisionError as problem:",
            ),
        ),
        shown_by=r"brittle: always$",
    ),
    "wrong_blocks": Mend(
        "a heading calls no block wrong",
        ("withdrawn_blocks",),
        (
            Change(
                f"{_TEXT}/around/blocks.py",
                "        if _announced_wrong(around[at], content) or _COMMENT.match(firsts[at]):\n",
                "        if _COMMENT.match(firsts[at]):\n",
            ),
        ),
        shown_by=r"blocks: called wrong$",
    ),
    "struck_blocks": Mend(
        "what is struck through is a block",
        ("withdrawn_blocks",),
        (
            Change(
                f"{_TEXT}/around/blocks.py",
                "    for at in _struck(around):\n",
                "    for at in _struck(around)[:0]:\n",
            ),
        ),
        shown_by=r"blocks: struck$",
    ),
    "remarks": Mend(
        "a remark is part of the words before it",
        ("remarks",),
        (Change(f"{_TEXT}/match.py", "        if is_plain:\n", "        if not is_plain:\n"),),
        shown_by=r"remarks: remark$",
    ),
    "words_instead": Mend(
        "words that a last sentence corrects are the answer",
        ("remarks",),
        (
            Change(
                f"{_TEXT}/match.py",
                "corrections.words_instead(said) if corrects else None\n",
                "corrections.words_instead(said) if not corrects else None\n",
            ),
        ),
        shown_by=r"remarks: doubt$",
    ),
    "marked_words": Mend(
        "marks around words are part of them",
        ("words",),
        (
            Change(
                f"{_TEXT}/match.py",
                "        tried = [*marks.layers(text)]\n",
                "        tried = [text]\n",
            ),
        ),
        shown_by=r"words: marked$",
    ),
    "words_taken_back": Mend(
        "words that are taken back are an answer",
        ("words",),
        (
            Change(
                f"{_TEXT}/match.py",
                "    return None if withdrawn.is_withdrawn(said) else said\n",
                "    return said\n",
            ),
        ),
        shown_by=r"words: taken back$",
    ),
    "long_thoughts": Mend(
        "a long thought makes a response too long",
        ("long_thoughts",),
        (
            Change(
                f"{_TEXT}/match.py",
                "            read = _part_read(work, self._response_chars_max)\n",
                "            read = work.response\n",
            ),
            Change(
                f"{_MATH}/extract.py",
                "        told = end_of(answer_part(work.response), self._response_chars_max)\n",
                "        told = work.response[: self._response_chars_max]\n",
            ),
        ),
        shown_by=r"long thought: right$",
    ),
    "chat_ends": Mend(
        "the marks of a chat template are part of a response",
        ("forms", "json_places"),
        (
            Change(
                f"{_TEXT}/around/chat.py",
                "    found = _MARKS.search(end) if ",
                "    found = _MARKS.search(end) if False and ",
            ),
        ),
        shown_by=r"^shape/",
    ),
    "dialects": Mend(
        "every schema is one of draft 2020-12",
        ("schema", "documents", "keywords"),
        (
            Change(
                f"{_TEXT}/schemas.py",
                '    named = dialect_named(schema["$schema"])\n',
                '    named = Dialect.DRAFT_2020_12 if dialect_named(schema["$schema"]) else None\n',
            ),
            Change(
                f"{_TEXT}/schemas.py",
                '    if not isinstance(schema, dict) or "$schema" not in schema:\n        return default\n',
                '    if not isinstance(schema, dict) or "$schema" not in schema:\n        return Dialect.DRAFT_2020_12\n',
            ),
        ),
        shown_by=r"keyword: draft",
    ),
    "boolean_schemas": Mend(
        "`true` and `false` are no schemas",
        ("schema", "documents", "keywords"),
        (
            Change(
                f"{_TEXT}/schemas.py",
                "            if isinstance(inner, bool):\n                continue\n",
                "            if isinstance(inner, bool):\n                raise SchemaRefused('a truth value', place.path)\n",
            ),
        ),
        shown_by=r"schema: fits$",
    ),
    # Load that changes rewards, and tolerance where there is none.
    "wall_time": Mend(
        "time on a core and the wait for one are blocked time",
        ("loads",),
        (
            Change(
                "services/assay/sandbox/accounting/blocked.py",
                "    idle_ns = interval.wall_ns - late_ns - interval.ran_ns - interval.delayed_ns\n",
                "    idle_ns = interval.wall_ns\n",
            ),
        ),
        shown_by=r"computes",
    ),
    "exact_integers": Mend(
        "an expected integer has the tolerance of a float",
        ("python", "shapes", "unusual"),
        (
            Change(
                f"{_REFEREE}/equality.py",
                "return type_of(other) is float and close(",
                "return close(",
            ),
        ),
        shown_by=r"calls: wrong$",
    ),
    # Any bytes are a response.
    "any_bytes": Mend(
        "a response is UTF-8",
        ("texts", "exact", "answers"),
        (
            Change(
                "services/assay/core/tools/response.py",
                'response.decode("utf-8", "surrogateescape")\n',
                'response.decode("utf-8")\n',
            ),
        ),
        shown_by=r"^math/",
    ),
    "nul": Mend(
        "a NUL in a program ends what stands before it",
        ("python",),
        (
            Change(
                f"{_REFEREE}/candidate.py",
                'payload.partition("\\0")\n',
                'payload.rpartition("\\0")\n',
            ),
            # What stands before the last NUL is compiled too, as a preamble, and has a NUL then.
            Change(
                f"{_REFEREE}/candidate.py",
                'compile(preamble, "preamble"',
                'compile(preamble.partition("\\0")[0], "preamble"',
            ),
        ),
        shown_by=r"NUL$",
    ),
}
"""By name."""
