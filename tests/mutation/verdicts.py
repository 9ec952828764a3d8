# ruff: noqa: E501 - the old text has to stand as it is in its file
"""Small faults to put into the verdict rules, one at a time: do the verifiers' tests see?

What is accepted, which failure becomes which outcome, tolerances, order, limits. Each names its
place by a text that occurs exactly once in its file, and the tests that have to fail.
"""

from typing import Final, NamedTuple

_VERIFIERS: Final = "services/assay/verifiers"
CODE: Final = "services/assay/verifiers/code"
REFEREE: Final = f"{CODE}/referee"
TEXT: Final = "services/assay/verifiers/text"
MATH: Final = "services/assay/verifiers/math"
_TESTS: Final = "tests/verifiers"


class VerdictMutant(NamedTuple):
    """One change of one file."""

    kind: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def _of(
    kind: str, file: str, tests: tuple[str, ...], *changes: tuple[str, str]
) -> list[VerdictMutant]:
    paths = tuple(f"{_TESTS}/test_{name}.py" for name in tests)
    return [VerdictMutant(kind, file, old, new, paths) for old, new in changes]


ACCEPTED: Final = [
    *_of(
        "accepted",
        f"{REFEREE}/equality.py",
        ("rules", "compare", "code_values"),
        (
            "        if type_of(other) is list:\n            if type_of(one) not in _LISTS or len(one) != len(other):",
            "        if type_of(other) is list:\n            if type_of(one) not in _LISTS:",
        ),
        (
            "return type_of(one) is type_of(other) and type_of(other) in kinds and bool(one == other)",
            "return type_of(other) in kinds and bool(one == other)",
        ),
        ("return found if len(found) == len(value) else None", "return found"),
        ("tuple: (tuple, Record)", "tuple: (tuple, list, Record)"),
        ("or one.keys() != other.keys()", "or not one.keys() >= other.keys()"),
    ),
    *_of(
        "accepted",
        f"{CODE}/compare.py",
        ("compare",),
        ("return len(given) == len(wanted) and all(", "return all("),
        (
            "if not tolerance or not (_NUMBER.fullmatch(one) and _NUMBER.fullmatch(other)):",
            "if not tolerance or not _NUMBER.fullmatch(one):",
        ),
        (
            "        return actual == expected.encode",
            "        return actual.strip() == expected.strip().encode",
        ),
        ("lines = [line.rstrip() for", "lines = [line.strip() for"),
        ("given, wanted = given.casefold(), wanted.casefold()", "given = given.casefold()"),
    ),
    *_of(
        "accepted",
        f"{REFEREE}/proxies.py",
        ("operators_of_classes", "rules", "referee_shapes", "code_forgery"),
        (
            "            return NotImplemented\n        result = self._assay_link",
            "            pass\n        result = self._assay_link",
        ),
        (
            "        if not _is_object(self) or not _is_programs(other):\n            return NotImplemented\n",
            "",
        ),
        (
            "return ended and not self._assay_link.control.skips_assertions(trace)\n\n    async",
            "return ended\n\n    async",
        ),
        (
            "return any(found is item or found == item for found in self)",
            "return bool(self._assay_link.ask('operator', 'contains', self, item))",
        ),
        ("if is_told or made_by._assay_told:", "if is_told:"),
    ),
    *_of(
        "accepted",
        f"{REFEREE}/errors.py",
        ("operators_of_classes", "rules", "referee_shapes", "code_forgery"),
        ("        if iterates or any(", "        if True or any("),
        (
            'asserts = name.startswith("assert") or name in asserting',
            'asserts = name.startswith("assert")',
        ),
    ),
    *_of(
        "accepted",
        f"{REFEREE}/values.py",
        ("referee_codec", "code_forgery"),
        ('        and not name.startswith("_")\n', ""),
        ('            raise ValueError("an object")', "            return form"),
        ("int: lambda value: int.__add__(value, 0)", "int: lambda value: value.__int__()"),
    ),
    *_of(
        "accepted",
        f"{REFEREE}/operations.py",
        ("operators_of_classes", "rules", "referee_shapes", "code_forgery"),
        ("        return bool(one == stranger(one))", "        return False"),
    ),
    *_of(
        "accepted",
        f"{TEXT}/match.py",
        ("rules", "text_pipelines", "text_choice"),
        (
            "passed = reading.labels == {reference.answer}",
            "passed = bool(reading.labels)",
        ),
        ("if len(reading.labels) > 1:", "if len(reading.labels) > 2:"),
        (
            "pattern.fullmatch(text) if reference.whole else pattern.search(text)",
            "pattern.search(text)",
        ),
        ("return text.casefold() if settings.ignore_case else text", "return text.casefold()"),
        ('verdict="pass" if empty_is_right else "no_answer"', 'verdict="no_answer"'),
    ),
    *_of(
        "accepted",
        f"{TEXT}/choices/options.py",
        ("text_choice", "rules"),
        ("or follows or not _BLANK_LINE.search(between)", "or not _BLANK_LINE.search(between)"),
        ("or not _COMMENT.search(line)", "or True"),
        ("(first_is_judged or ", "("),
    ),
    *_of(
        "accepted",
        f"{TEXT}/choice.py",
        ("text_choice",),
        (
            "if not labels.lists.begins(plain[begin:last], said - begin):",
            "if True:",
        ),
    ),
    *_of(
        "accepted",
        f"{TEXT}/json_text.py",
        ("text_json_schema", "text_pipelines"),
        (
            '    raise ValueError(f"{word} is not JSON")',
            "    return None  # type: ignore[return-value]",
        ),
        (
            "return [block.text for block in left if block.kind == best][-1] if left",
            "return [block.text for block in left][-1] if left",
        ),
    ),
]
TOLERANCE: Final = [
    *_of(
        "tolerance",
        f"{REFEREE}/equality.py",
        ("rules", "compare", "code_values"),
        ("return type_of(other) is float and close(", "return close("),
        (
            "scale = max(Fraction(1), abs(exact), abs(wanted))",
            "scale = Fraction(1) + abs(exact) + abs(wanted)",
        ),
        (
            "abs(exact - wanted) <= Fraction(tolerance) * scale",
            "abs(exact - wanted) < Fraction(tolerance) * scale",
        ),
        ("if not tolerance or not (_is_finite(one) and _is_finite(other)):", "if not tolerance:"),
        ("return both_nan or _number_equal", "return _number_equal"),
    ),
    *_of(
        "tolerance",
        f"{MATH}/equality/numbers.py",
        ("rules", "math_answers", "math"),
        (
            "return round(gold, places) == round(answer, places)",
            "return abs(gold - answer) < Fraction(1, 10**places)",
        ),
        ("if not is_decimal or not gold:", "if not gold:"),
        ("if abs(gold) < _SMALL:", "if False:"),
        ("right = right * hundredth if answer.is_percent else right", "right = right * hundredth"),
        ("return not (units.is_known_unit(left) and units.is_known_unit(right))", "return True"),
    ),
]
ORDER: Final = [
    *_of(
        "order",
        f"{MATH}/equality/comparison.py",
        ("rules", "math_answers", "math"),
        (
            "            return self._in_order(gold, answer)\n        if forms.are_of",
            "            return self._any_order(gold.items, answer.items)\n        if forms.are_of",
        ),
        (
            "            if found is None:\n                return False\n",
            "            if found is None:\n                continue\n",
        ),
        ("at in met or any(", "True or any("),
        (
            '        answer = forms.coordinates(answer) if gold.kind == "tuple" else answer\n',
            "",
        ),
    ),
    *_of(
        "order",
        f"{MATH}/equality/numbers.py",
        ("rules", "math_answers", "math"),
        ("and (right[at] > 0) == (left[at] > 0)", ""),
        (
            "gold.seconds == answer.seconds and gold.half == answer.half",
            "gold.seconds == answer.seconds",
        ),
    ),
]
OUTCOMES: Final = [
    *_of(
        "outcomes",
        f"{CODE}/scoring.py",
        ("rules", "code_python", "code_cpp", "total"),
        ("    if status is RunStatus.SIGNALED:\n", "    if False:\n"),
        ("    if exit_code:\n", "    if exit_code and exit_code > 1:\n"),
        ('"not_run" if passed < total else', "PASS if passed < total else"),
        ("if evidence.verdict in LIMITS and not credit:", "if evidence.verdict in LIMITS:"),
        (
            "share = credit / total",
            "share = passed / len(outcomes)",
        ),
        ("    if evidence.verdict in LIMITS and not", "    if False and not"),
    ),
    *_of(
        "outcomes",
        "services/assay/verifiers/total.py",
        ("rules", "total", "infrastructure"),
        ("            control()\n", ""),
        ("            if runs == RUNS_MAX:", "            if runs > 0:"),
        ("        except (HeldUp, HostAtFault):\n            raise\n", ""),
    ),
    *_of(
        "outcomes",
        f"{CODE}/repeat.py",
        ("killed_from_outside",),
        ("        if not killed(result):\n            break\n", "        break\n"),
    ),
    *_of(
        "outcomes",
        f"{CODE}/python_stage.py",
        ("rules", "code_python", "code_hostile", "infrastructure"),
        ("            if self._are_unusable(tests, settings):", "            if True:"),
        (
            '        if outcomes and outcomes[-1].verdict == "crashed":\n            outcomes[-1] = limit\n        elif',
            "        if",
        ),
        ("            if budget.is_spent or (", "            if False or ("),
    ),
    *_of(
        "outcomes",
        f"{REFEREE}/run.py",
        ("rules", "code_python", "referee_shapes", "code_forgery"),
        (
            '    except MemoryError as error:\n        verdict = ("memory_limit", _place(error))\n',
            "",
        ),
        (
            "    if link.gone is not None:\n        return link.gone.verdict, link.gone.error\n    return verdict",
            "    return verdict",
        ),
        ("    if link.asked == 0:\n", "    if False:\n"),
        (
            '"an expected failure passed") if result.unexpectedSuccesses else PASS',
            '"") if False else PASS',
        ),
        ("        verdict = _unittest_verdict(namespace, known)", "        verdict = PASS"),
    ),
    *_of(
        "outcomes",
        f"{TEXT}/json_schema.py",
        ("text_json_schema", "text_pipelines"),
        (
            'validator))\n    except json_text.NotJson as error:\n        return Evidence(verdict="not_json"',
            'validator))\n    except json_text.NotJson as error:\n        return Evidence(verdict="nesting_limit"',
        ),
        (
            'verdict="nesting_limit", error=str(error)[:500], extracted=shown)\n    except',
            'verdict="pass", error=str(error)[:500], extracted=shown)\n    except',
        ),
        ("    if violation is None:\n", "    if violation is not None:\n"),
    ),
    *_of(
        "outcomes",
        f"{TEXT}/match.py",
        ("text_pipelines", "text_json_schema"),
        ("if evidence.verdict in (_CPU_LIMIT, *LIMIT_VERDICTS):", "if False:"),
        ("        if broken or (failed and", "        if (failed and"),
    ),
]
LIMITS: Final = [
    *_of(
        "limits",
        f"{REFEREE}/link.py",
        ("rules", "code_python", "code_hostile", "bounds"),
        (
            "        if self._cpu_s() > self._ends_s[0]:",
            "        if self._cpu_s() > self._ends_s[0] * 100:",
        ),
        (
            "        if self._depth >= CALLS_NESTED_MAX:",
            "        if self._depth >= 100 * CALLS_NESTED_MAX:",
        ),
    ),
    *_of(
        "limits",
        f"{MATH}/extract.py",
        ("math", "math_answers", "answers"),
        ("    if repeats(response):", "    if False:"),
        ("    if unfinished(response):", "    if False:"),
        ("_ENDS_WITH_RESPONSE and is_cut(found.text)", "_ENDS_WITH_RESPONSE and False"),
        ("        if len(found.text) > settings.answer_chars_max and", "        if False and"),
    ),
    *_of(
        "limits",
        f"{MATH}/extract.py",
        ("math_endings",),
        ("return found.strategy is Strategy.TAIL and breaks_off(response)", "return False"),
        ("return found.strategy is Strategy.TAIL and breaks_off", "return breaks_off"),
    ),
    *_of(
        "limits",
        f"{TEXT}/endings.py",
        ("math_endings",),
        ("    if opened or text.count", "    if text.count"),
        ('or text.count("$$") % 2 or', "or"),
        (" or len(_FENCE.findall(text)) % 2", ""),
        ("_LEADS_ON.search(text) is not None or ", ""),
        (" or _ends_within_item(text)", ""),
        ("            return _ITEM_END.match(ended_before) is None", "            return True"),
    ),
    *_of(
        "limits",
        f"{MATH}/grammar/leads.py",
        ("math_endings",),
        ("    if _TOLD.match(rest) is None and not", "    if not"),
        ("rest.removesuffix(mark) if rest.count(mark) == 1 else rest", "rest"),
    ),
    *_of(
        "limits",
        f"{MATH}/grammar/words.py",
        ("math_endings",),
        ("    if form in _TRUTHS:", "    if False:"),
        ('{"true": "yes", "false": "no"}', '{"true": "yes", "false": "yes"}'),
    ),
]
DENIED: Final = [
    *_of(
        "denied",
        f"{MATH}/search.py",
        ("math_disguises",),
        ("    if len(values) != 1:\n        return False\n", "    return False\n"),
        (" or _BOUND.match(text) is not None", ""),
    ),
    *_of(
        "denied",
        f"{MATH}/grammar/quantities.py",
        ("math_disguises",),
        (
            "        or not units.NOT_UNITS.isdisjoint(_WORDS.findall(said))\n",
            "",
        ),
        (
            '_UNIT_FRACTION.sub(r"\\g<value>\\g<top>/\\g<below>", text)',
            "text",
        ),
    ),
    *_of(
        "denied",
        f"{MATH}/grammar/relations.py",
        ("math_disguises",),
        ("and not _may_be_equal(one, two):", "and False:"),
        ("    if one.unit or two.unit:\n        return True\n", ""),
    ),
    *_of(
        "denied",
        f"{MATH}/equality/comparison.py",
        ("math_disguises",),
        (
            "        if any(pattern.search(text) for pattern in _BY_FORM for text in (left, right)):",
            "        if False:",
        ),
    ),
    *_of(
        "denied",
        f"{MATH}/notation.py",
        ("math_disguises",),
        ('    return _STRUCK.sub(" ", text)', "    return text"),
        ('JOINERS: Final = "and|or|maybe|', 'JOINERS: Final = "and|or|'),
    ),
    *_of(
        "denied",
        f"{TEXT}/choices/plain.py",
        ("text_choice",),
        ('_HIDDEN.sub(lambda match: " " * len(match[0]), text)', "text"),
        ('_NOT_SIGN.sub(lambda match: "\\u2260".rjust(len(match[0])), blank)', "blank"),
    ),
    *_of(
        "denied",
        f"{TEXT}/choices/labels.py",
        ("text_choice",),
        ("as(?![ ]+well)", "as"),
        ("(?!\\s{0,4}(?i:or)\\b)", ""),
        (
            "(?!\\s*[(\\[]?[A-Z][)\\]]?\\s*(?:[.,;\\n]|$|(?:too|also|as[ ]well)\\b))",
            "",
        ),
    ),
    *_of(
        "denied",
        f"{TEXT}/match.py",
        ("rules", "text_pipelines"),
        ("text.casefold() if settings.ignore_case else text", "text"),
        ('" ".join(text.split()) if settings.ignore_space else text.strip()', "text.strip()"),
    ),
    *_of(
        "denied",
        f"{CODE}/python_stage.py",
        ("code_python",),
        ("{_FUTURE.sub('pass', program)}", "{program}"),
    ),
]
STATED_TWICE: Final = [
    *_of(
        "stated twice",
        f"{MATH}/agreement.py",
        ("math_remarks",),
        ("return -unit / 2 * _SLACK <= over", "return -unit * 2 <= over"),
        ("return () if contradict and _are_far_apart(sides) else None", "return None"),
        (
            "    if not all(numeric.near(found[0], value) for value in found):\n        return False\n    return all(_rounds",
            "    return all(_rounds",
        ),
    ),
    *_of(
        "stated twice",
        f"{MATH}/grammar/remarks.py",
        ("math_remarks",),
        ("    if _DOUBTS.search(said):\n", "    if False:\n"),
        ("        return is_apart and _rejects_another(said, value)", "        return True"),
        ("return is_mathematics(other) and not are_same(value, other)", "return True"),
    ),
    *_of(
        "stated twice",
        f"{MATH}/search.py",
        ("math_remarks",),
        (
            '    found = find(_REJECTED.sub(withdrawn, _ALTERED.sub(" ; ", text)))',
            "    found = find(text)",
        ),
    ),
    *_of(
        "stated twice",
        f"{TEXT}/markers.py",
        ("math_remarks",),
        (
            "        if not is_blank(box.text) and not is_rejected(response, box.start, box.end)\n",
            "        if not is_blank(box.text)\n",
        ),
    ),
]
SYSTEMS: Final = [
    *_of(
        "systems",
        f"{MATH}/equality/systems.py",
        ("math_relations",),
        ('sum(_is_plain(side) and "(" not in _form(side) for side in sides) >= 2', "False"),
        ("any(one.isdisjoint(other) for one, other in combinations(found, 2))", "False"),
        ("return len(one) == len(other) and all(", "return all("),
        ("return len(left) == len(right) and all(", "return all("),
        ("                found.remove(one)\n", ""),
        ("len(given) in counts and all(", "all("),
    ),
    *_of(
        "systems",
        f"{MATH}/grammar/relations.py",
        ("math_relations",),
        ("is_region and float(low) < float(high1)", "True"),
        ("is_written_so = halves[0][2] == halves[1][0]", "is_written_so = False"),
    ),
    *_of(
        "systems",
        f"{MATH}/equality/comparison.py",
        ("math_relations",),
        ('left.count("\\\\equiv") != right.count("\\\\equiv")', "False"),
    ),
    *_of(
        "accepted",
        f"{REFEREE}/library.py",
        ("code_values",),
        ("return [PATH, str(value)] if type(value) is _CONCRETE else None", "return None"),
    ),
    *_of(
        "accepted",
        f"{REFEREE}/library.py",
        ("referee_codec",),
        ("not all(map(is_name, vars(value)))", "False"),
        ("type(value) is not SimpleNamespace", "not isinstance(value, SimpleNamespace)"),
    ),
]
SLOW: Final = [
    *_of(
        "slow",
        f"{MATH}/audit.py",
        ("math_answers",),
        (
            "            if time.process_time() - began_s < _SLOW_CPU_S:\n                return",
            "            if True:\n                return",
        ),
    ),
    *_of(
        "slow",
        f"{MATH}/notation.py",
        ("long_texts",),
        ('r"(?a)(?<!\\d)(\\d*\\.)(\\d+)', 'r"(?a)(\\d*\\.)(\\d+)'),
        (
            "for token in tokens(text, start):",
            "for token in list(tokens(text, start)):",
        ),
    ),
    *_of(
        "slow",
        f"{MATH}/lexicon/spellings.py",
        ("long_texts",),
        ("(?:\\^|(?<!\\s))\\s*\\\\degree", "\\^?\\s*\\\\degree"),
        ("(?:(?!\\\\(?:begin|end)\\{).|(?!))*+)", ".*?=.*?)"),
    ),
    *_of(
        "slow",
        f"{MATH}/lexicon/unicode.py",
        ("long_texts",),
        ('"(?<![0-9])([0-9]+)', '"([0-9]+)'),
    ),
    *_of(
        "limits",
        f"{TEXT}/choices/labels.py",
        ("rules",),
        (
            "ending = END.search(text, at, at + STATEMENT_CHARS_MAX)",
            "ending = END.search(text, at)",
        ),
    ),
    *_of(
        "slow",
        f"{TEXT}/choices/labels.py",
        ("long_texts",),
        (
            'head = r"\\s*+(?:(?:the|option|choice|letter|answer)\\s++)*[(\\[]?\\s*+"',
            'head = r"\\s*(?:(?:the|option|choice|letter|answer)\\s+)*[(\\[]?\\s*"',
        ),
    ),
]
EQUIVALENT: Final = [
    *_of(
        "equivalent",
        f"{MATH}/equality/residues.py",
        ("math_classes",),
        (
            "return (one.modulus, one.remainders) == (two.modulus, two.remainders)",
            "return one.remainders == two.remainders",
        ),
    ),
    *_of(
        "equivalent",
        f"{MATH}/lexicon/measures.py",
        ("math_classes",),
        (
            "if one is None or two is None or one.powers != two.powers:",
            "if one is None or two is None:",
        ),
        ("size *= base.size**power", "size *= base.size"),
    ),
    *_of(
        "equivalent",
        f"{CODE}/source/notebook.py",
        ("notebook",),
        ("is_inside = at < len(spans) and spans[at].start < match.start()", "is_inside = False"),
        (
            "        if any(span.start < match.start() < span.end for span in strings):\n            continue\n",
            "",
        ),
    ),
]
NAMES: Final = [
    *_of(
        "names",
        f"{MATH}/equality/letters.py",
        ("math_symbols",),
        (
            "for pattern in (_DERIVATIVE, _PRIMED, _NO_CONSTANT):",
            "for pattern in (_DERIVATIVE, _NO_CONSTANT):",
        ),
        (
            "for pattern in (_DERIVATIVE, _PRIMED, _NO_CONSTANT):",
            "for pattern in (_PRIMED, _NO_CONSTANT):",
        ),
        ('(_TURNED.sub("{(T)}", text) for text', "(text for text"),
        (
            "    if not any(letter.swapcase() in side for side in sides for letter in side):\n",
            "    if True:\n",
        ),
        ('        letters.add("I")\n', "        pass\n"),
        ("if gold == answer or not _NO_LABEL.search(gold):", "if gold or answer:"),
        ('sorted((match["one"], match["two"]))', '[match["one"], match["one"]]'),
    ),
    *_of(
        "names",
        f"{MATH}/equality/symbolic.py",
        ("math_symbols",),
        ("operands = sorted(flat)", "operands = flat"),
        ('frozenset({"cup",', 'frozenset({"to", "-", "cup",'),
        (
            "        if len(set(signs)) > 1 or (signs[0] not in _SYMMETRIC and len(signs) > 1):\n",
            "        if False:\n",
        ),
    ),
    *_of(
        "names",
        f"{MATH}/equality/formulas.py",
        ("math_symbols",),
        (
            "    if wanted == said:\n        return True",
            "    if wanted and said:\n        return True",
        ),
        ("tuple(sorted(map(_charged, side)))", "tuple(map(_charged, side))"),
    ),
    *_of(
        "names",
        f"{MATH}/lexicon/regions.py",
        ("math_symbols",),
        ("        first += 1\n", "        pass\n"),
        ("        last -= 1\n", "        pass\n"),
        ("    if not low < out < high:\n", "    if False:\n"),
        ("return 1 if ", "return 0 if "),
    ),
    *_of(
        "cases",
        f"{MATH}/equality/piecewise.py",
        ("math_functions", "math_symbols"),
        ("        if one is None and two is None:\n", "        if one is None or two is None:\n"),
        ("            applies = found is None\n", "            applies = True\n"),
        ("return not is_equal", "return True"),
        ('sign = "+" if match["of"] == "max" else "-"', 'sign = "+"'),
    ),
    *_of(
        "words",
        f"{MATH}/lexicon/spelled.py",
        ("math_spelled",),
        ("return None if value is None else -value", "return value"),
        (
            "return before + place if before and before % step == 0 else None",
            "return before + place if before else None",
        ),
        (
            'return _ROMAN.index(match["roman"]) + 1, match["noun"]',
            'return _ROMAN.index(match["roman"]), match["noun"]',
        ),
    ),
    *_of(
        "polar",
        f"{MATH}/lexicon/spellings.py",
        ("math_functions", "math_symbols"),
        (
            'return f"(\\\\cos({angle}) + i \\\\sin({angle}))"',
            'return f"(\\\\cos({angle}) - i \\\\sin({angle}))"',
        ),
    ),
    *_of(
        "denied",
        f"{TEXT}/denials.py",
        ("denials",),
        ("return _BEHIND.match(text, at) is not None", "return False"),
        ("return _BEGINS.match(text) is not None", "return False"),
    ),
]
STAGES: Final = [
    *_of(
        "tolerance",
        f"{_VERIFIERS}/sql/compare.py",
        ("sql",),
        ("if not tolerance or integers == 2:", "if not tolerance:"),
        ("relative = min(_ROUNDING, allowed) if integers else allowed", "relative = allowed"),
        (
            "        if at in chosen or column in seen or budget[0] < 0:\n",
            "        if at in chosen:\n",
        ),
        ("            budget[0] -= _weight(left[place])\n", "            budget[0] -= 0\n"),
        ("    if abs(error - allowed) <= _CLEAR * allowed or", "    if"),
    ),
    *_of(
        "outcome",
        f"{_VERIFIERS}/judge/stage.py",
        ("llm_judge",),
        (
            "control=lambda: self._vote(replace(work, response=TRIVIAL)),",
            "control=lambda: self._vote(work),",
        ),
    ),
    *_of(
        "outcome",
        f"{_VERIFIERS}/judge/pairs.py",
        ("llm_judge",),
        (
            "self._can_be_compared(one, trivial) - self._can_be_compared(other, trivial)",
            "self._can_be_compared(other, trivial) - self._can_be_compared(one, trivial)",
        ),
    ),
    *_of(
        "outcome",
        f"{_VERIFIERS}/judge/lists.py",
        ("llm_judge_lists",),
        ("return [*filter(None, kept), broken]", "return [broken, *filter(None, kept)]"),
    ),
    *_of(
        "accepted",
        f"{_VERIFIERS}/judge/conversation.py",
        ("llm_judge",),
        ('if stop > at and value.get("id") == nonce:', "if stop > at:"),
    ),
    *_of(
        "outcome",
        f"{_VERIFIERS}/judged/stage.py",
        ("judged_programs",),
        (
            "        limits = self._settings.limits(self._settings.cpu_s)\n        empty",
            "        limits = self._settings.limits(0.01, 0.01)\n        empty",
        ),
        ("return self._left_s > 0", "return True"),
    ),
    *_of(
        "accepted",
        f"{_VERIFIERS}/harbor/rewards.py",
        ("harbor",),
        ("return named or (JSON_FILE, TEXT_FILE)", "return JSON_FILE, TEXT_FILE"),
    ),
    *_of(
        "accepted",
        f"{_VERIFIERS}/shaping/rules.py",
        ("shaping",),
        ('["" if _BLANK.fullmatch(part) else part for part', "[part.strip() for part"),
    ),
    *_of(
        "outcome",
        f"{_VERIFIERS}/intake.py",
        ("intake",),
        (
            "return response_text(response_bytes(_last_content(messages)))",
            "return _last_content(messages)",
        ),
    ),
    *_of(
        "limits",
        f"{_VERIFIERS}/code/repeat.py",
        ("killed_from_outside",),
        ("cpu_s=sum(one.cpu_s for one in runs)", "cpu_s=last.cpu_s"),
        ("    if not was_killed(last):\n        return last\n", ""),
    ),
]
READINGS: Final = [
    *_of(
        "readings",
        f"{MATH}/equality/numbers.py",
        ("math_styles",),
        (
            """            if found is not None and found["apart"] and not unit:\n                return None\n""",
            "",
        ),
        ("return not year or said <= {", "return True or said <= {"),
        ("Fraction(time.seconds, 60)", "Fraction(time.seconds, 3_600)"),
        ("if not isinstance(other, Number) or not (", "if not isinstance(other, Number) or ("),
    ),
    *_of(
        "readings",
        f"{MATH}/equality/comparison.py",
        ("math_styles",),
        ("        if not self.has_names:\n", "        if True:\n"),
        (
            "return ranked == forms.labels(answer)",
            "return sorted(ranked) == sorted(forms.labels(answer))",
        ),
        (
            "return value is not None and numbers.is_rounded_from(gold, Fraction(value))",
            "return value is not None and abs(value - float(gold.value)) < 0.1",
        ),
        ("return not forms.are_values_and_bounds(gold, answer) and self", "return self"),
    ),
    *_of(
        "readings",
        f"{MATH}/grammar/calendar.py",
        ("math_styles",),
        ("return (two, one) if two > _MONTHS_MAX >= one else (0, 0)", "return (two, one)"),
    ),
    *_of(
        "readings",
        f"{MATH}/lexicon/units.py",
        ("math_styles",),
        ('said == "m" and parts and parts[-1][1] == "h"', 'said == "m" and not parts'),
    ),
    *_of(
        "readings",
        f"{MATH}/lexicon/spellings.py",
        ("math_styles",),
        ('count = Fraction(match["value"]) * 12', 'count = Fraction(match["value"])'),
    ),
    *_of(
        "readings",
        f"{MATH}/algebra.py",
        ("math_styles",),
        ("if isinstance(name, Symbol) and not value.free_symbols:", "if not name and not value:"),
        (
            "abs(ratio / ratios[0] - 1) < _COMPLEX_ROUNDING for",
            "abs(ratio / ratios[0] - 1) < 10 for",
        ),
    ),
    *_of(
        "readings",
        f"{MATH}/equality/letters.py",
        ("math_styles",),
        ('return one["name"] != two["name"] and', 'return one["name"] == two["name"] and'),
    ),
    *_of(
        "readings",
        f"{MATH}/equality/forms.py",
        ("math_styles",),
        (
            "return None if is_nothing(answer.items[0]) else answer.items[0]",
            "return answer.items[0]",
        ),
    ),
    *_of(
        "readings",
        f"{MATH}/equality/formulas.py",
        ("math_styles",),
        ("return False if _is_chemistry(one) or _is_chemistry(two) else None", "return None"),
    ),
    *_of(
        "readings",
        f"{MATH}/reading.py",
        ("math_styles",),
        (
            'return replace(found, kind="tuple", brackets="()") if is_gold else found',
            "return found",
        ),
        (
            'return replace(found, kind="tuple", brackets="()") if is_gold else found',
            'return replace(found, kind="tuple", brackets="()")',
        ),
    ),
    *_of(
        "readings",
        f"{MATH}/lexicon/orders.py",
        ("math_styles",),
        ("if found is None or _DENIED.search(text[: found.start()]):", "if found is None:"),
        ("len(steps) > 2 and all(map(_STEP", "len(steps) > 1 and all(map(_STEP"),
    ),
    *_of(
        "readings",
        f"{MATH}/lexicon/typefaces.py",
        ("math_styles",),
        ("    if arrows[0] | bold[0] != arrows[1] | bold[1]:\n        return None\n", ""),
        ("if any(one and other for one, other in zip(arrows, bold, strict=True)) or not", "if not"),
    ),
    *_of(
        "readings",
        f"{TEXT}/choice.py",
        ("text_choice",),
        ("    ending = _HASHES.search(plain)\n", "    ending = _HASHED.search(plain)\n"),
        ("len(plain) if ending is None else ending.start()", "len(plain)"),
        (
            "not markers.is_blank(text[match.end() : end - 1])",
            "text[match.end() : end - 1].strip()",
        ),
    ),
    *_of(
        "readings",
        f"{TEXT}/markers.py",
        ("math_endings",),
        ("        if not is_blank(box.text) and not", "        if box.text and not"),
    ),
    *_of(
        "readings",
        f"{TEXT}/choices/labels.py",
        ("text_choice",),
        ("|(?:second|next)[ -]best|runner-up)", ")"),
        ("(?:any|every)\\w*[ ](?:but|besides)", "(?:any|every)\\w*[ ]but"),
        (
            """    r"|(?:no[ ]?one|no(?:body))(?:[ ](?:would|should|could|can|will|ever)){0,2}"\n""",
            "",
        ),
    ),
    *_of(
        "readings",
        f"{MATH}/equality/numbers.py",
        ("math_readings",),
        ("if not _is_fraction(gold) and _close(", "if _close("),
        ("places < _SHORT_PLACES_MIN or value.denominator > _SHORT_BELOW_MAX", "False"),
        ("is_alike and not answer.is_decimal and _is_short(", "is_alike and _is_short("),
    ),
    *_of(
        "readings",
        f"{MATH}/equality/letters.py",
        ("math_readings",),
        ("if len(ours) != len(theirs) or free & {*ours}:", "if len(ours) != len(theirs):"),
        ('if not _INTEGERS.fullmatch(match["of"]):', "if True:"),
        ("    gold, answer = _renamed(_DIVISOR, gold, answer, free)\n", ""),
    ),
    *_of(
        "readings",
        f"{MATH}/equality/comparison.py",
        ("math_readings",),
        (
            "fits = answer.base == _DECIMAL or (answer.base == 2 and self._is_binary(gold))",
            "fits = True",
        ),
        (
            "                if forms.is_based_so(text, gold):\n                    return True\n",
            "",
        ),
        ("return forms.is_based_so(text, answer)", "return False"),
    ),
    *_of(
        "readings",
        f"{MATH}/equality/forms.py",
        ("math_readings",),
        ('said = labels(gold) if len(labels(gold)) > 2 else ""', 'said = ""'),
    ),
    *_of(
        "readings",
        f"{MATH}/algebra.py",
        ("math_readings",),
        ("    if _NOT_WORKED_OUT.search(text):", "    if False:"),
        (
            "    if not gold and answer.is_zero:\n        return Number(0), Number(0)",
            "    if False:\n        return Number(0), Number(0)",
        ),
        ("    _parsed.cache_clear()\n    clear_cache()", "    clear_cache()"),
    ),
    *_of(
        "readings",
        f"{MATH}/verify.py",
        ("math_readings",),
        (
            "        with cpu_time(ANSWER_CPU_S_MAX):\n            return judge(",
            "        if True:\n            return judge(",
        ),
        (
            "        return Judged(passed=False, answer=Read(text, Prose(text))",
            "        return Judged(passed=True, answer=Read(text, Prose(text))",
        ),
    ),
    *_of(
        "readings",
        f"{MATH}/notation.py",
        ("math_readings",),
        ("if not rest and half > 1 and digits[:half] == digits[half:]:", "if False:"),
        (
            "if not rest and half > 1 and digits[:half] == digits[half:]:",
            "if not rest and half > 1:",
        ),
    ),
    *_of(
        "readings",
        f"{MATH}/grammar/numbers.py",
        ("math_readings",),
        (
            'if not (digits[0].isdigit() or (base == _HEXADECIMAL and _CAPITALS.match(match["digits"]))):',
            "if not digits[0].isdigit():",
        ),
    ),
    *_of(
        "readings",
        f"{MATH}/reading.py",
        ("math_readings",),
        ("        return Read(form, answer)  # all of it is invisible", "        pass"),
    ),
    *_of(
        "readings",
        f"{TEXT}/choices/labels.py",
        ("text_choice",),
        ("is_a_quantity(text, start, end) or self._is_only", "self._is_only"),
        ("        or _CONDITION_AFTER.match(text, mention.end) is not None\n", ""),
        ("        or _OTHERWISE.search(before) is not None\n", ""),
    ),
    *_of(
        "readings",
        f"{TEXT}/choices/quantities.py",
        ("text_choice",),
        ("    if _OPTION_BEFORE.search(before) is not None:", "    if False:"),
        ("    if _INTRODUCED.search(before) or", "    if"),
        (" or _DEFINED_AFTER.match(text, end):", ":"),
    ),
    *_of(
        "readings",
        f"{MATH}/grammar/lists.py",
        ("math_readings",),
        (
            "    is_parted = any(at % size for at in _alternatives_end_at(text))",
            "    is_parted = False",
        ),
        (
            "    if len(groups) == 1:\n        return replace(found, joined=joined)",
            "    if len(groups) >= 1:\n        return replace(found, joined=joined)",
        ),
        ('form = f"{found.form} or" if is_either else found.form', "form = found.form"),
    ),
    *_of(
        "readings",
        f"{MATH}/equality/forms.py",
        ("math_readings",),
        ('in {("", "or"), ("and", "or"), ("or", "and")}', 'in {("", "or"), ("and", "or")}'),
        ('in {("", "or"), ("and", "or"), ("or", "and")}', 'in {("or", "and")}'),
        ("return not _DIGIT.search(gold.partition", "return not _LN.search(gold.partition"),
        ("and match[1].upper() == other.digits", ""),
        ('gold.kind == "tuple" or any(_are_of_names(one)', "any(_are_of_names(one)"),
    ),
    *_of(
        "readings",
        f"{MATH}/grammar/quantities.py",
        ("math_readings",),
        ('Fraction(turn["minutes"]) / 60', 'Fraction(turn["minutes"]) / 100'),
        ('Fraction(turn["seconds"] or 0) / 3_600', 'Fraction(turn["seconds"] or 0) / 60'),
        ('value = -value if turn["sign"] else value', "pass"),
        ('12 * Fraction(said["feet"])', '10 * Fraction(said["feet"])'),
    ),
    *_of(
        "readings",
        f"{MATH}/grammar/words.py",
        ("math_readings",),
        ('kind = _SETS[others["kind"].lower()]', 'kind = "Z"'),
    ),
    *_of(
        "readings",
        f"{MATH}/grammar/relations.py",
        ("math_readings",),
        ('loose = _ARGUMENT.sub("", _INDEX', 'loose = str("" + _INDEX'),
    ),
    *_of(
        "readings",
        f"{TEXT}/choice.py",
        ("text_choice",),
        ("if len({one.casefold() for one in bare}) == len(choices):", "if False:"),
        ("if len({one.casefold() for one in bare}) == len(choices):", "if bare:"),
    ),
    *_of(
        "readings",
        f"{MATH}/equality/systems.py",
        ("math_readings",),
        (' or (isinstance(answer, Items) and answer.joined == "or"):', ":"),
    ),
    *_of(
        "readings",
        f"{MATH}/equality/comparison.py",
        ("math_judged",),
        (" or forms.repeats(gold)", ""),
        ("        gold = forms.coordinates(gold) if answer", "        gold = gold if answer"),
    ),
    *_of(
        "readings",
        f"{MATH}/equality/letters.py",
        ("math_judged",),
        (r"(?P<name>[a-z])\)(?(in)\))", r"(?P<name>[a-z])\)\)?"),
        ("_DEFINED.fullmatch(text) or _TERM.fullmatch(text)", "_DEFINED.fullmatch(text)"),
    ),
    *_of(
        "readings",
        f"{MATH}/algebra.py",
        ("math_judged",),
        ("    if isinstance(gold, Ne) and isinstance(answer, Ne):", "    if False:"),
    ),
    *_of(
        "readings",
        f"{MATH}/grammar/leads.py",
        ("math_judged",),
        ("|exactly|precisely|in total", "|in total"),
    ),
    *_of(
        "readings",
        f"{MATH}/grammar/numbers.py",
        ("math_judged",),
        ("decimal=mixed)", "decimal=None)"),
        ("isinstance(both, Number) and 0 < part.value < 1 else", "isinstance(both, Number) else"),
    ),
    *_of(
        "readings",
        f"{MATH}/equality/numbers.py",
        ("math_readings",),
        ("    if right in _MARKS and not left:", "    if False:"),
    ),
    *_of(
        "readings",
        f"{MATH}/algebra.py",
        ("math_readings",),
        ("    if any(map(_is_wide, found.atoms(Pow))):", "    if False:"),
        ("_EXPANDED_BYTES_MAX: Final = 2**24", "_EXPANDED_BYTES_MAX: Final = 2**12"),
    ),
]
FORMS: Final = [
    *_of(
        "forms",
        f"{MATH}/lexicon/regions.py",
        ("math_forms",),
        (
            """    return (point["out"], f"-{point['out']}") if""",
            """    return (point["out"],) if""",
        ),
        ("        elif outs and _ALSO.fullmatch(part):", "        elif False:"),
    ),
    *_of(
        "forms",
        f"{MATH}/equality/solutions.py",
        ("math_forms",),
        ("    if len(values) != count or (", "    if len(values) > count or ("),
        ("members is not None and members == set(values)", "bool(members)"),
        ("    if (gold.kind, gold.sign) != (answer.kind, answer.sign):", "    if False:"),
    ),
    *_of(
        "forms",
        f"{MATH}/equality/residues.py",
        ("math_forms",),
        ("said.is_named or said.is_class or value < said.modulus", "True"),
        ("    return value >= said.modulus and int", "    return int"),
    ),
    *_of(
        "forms",
        f"{MATH}/equality/numbers.py",
        ("math_forms",),
        (" and math.gcd(*gold.terms) == 1", ""),
    ),
    *_of(
        "forms",
        f"{MATH}/equality/comparison.py",
        ("math_forms",),
        ("return forms.is_either(gold) or not forms.is_either(answer)", "return True"),
    ),
    *_of(
        "forms",
        f"{MATH}/lexicon/units.py",
        ("math_forms",),
        ('    said = _BRACED.sub(r"^\\1", said)', "    said = str(said)"),
    ),
    *_of(
        "forms",
        f"{MATH}/grammar/relations.py",
        ("math_forms",),
        ("and not _SEVERAL.search(text):", 'and "," not in text:'),
    ),
    *_of(
        "forms",
        f"{MATH}/grammar/lists.py",
        ("math_forms",),
        ("is_told = is_either and not named and all", "is_told = False and all"),
    ),
    *_of(
        "forms",
        f"{TEXT}/choices/quantities.py",
        ("text_choice_things",),
        ("    if _PLACE_BEFORE.search(before) or ", "    if "),
        ("        end = joined.end()", "        end += 0"),
        (" or _IS_PLACED.match(text, end):", ":"),
    ),
]
COMMENTS: Final = [
    *_of(
        "comments",
        f"{MATH}/search.py",
        ("math_comments",),
        (
            "    if is_it is None and (comment is None or _OPERATES.search(comment[0])):\n        return (None,)\n",
            "",
        ),
        ("    if _LEAVES_OPEN.search(rest):\n        return (None,)\n", ""),
        (" or _GOES_ON.search(rest):", ":"),
        ('_GIVEN.sub(" for ", text', '(lambda _, rest: rest)("", text'),
        ("    return _ONE_CASE.match(text) is not None", "    return False"),
        ("(?:halves|thirds|", "(?:thirds|"),
    ),
    *_of(
        "comments",
        f"{MATH}/search.py",
        ("math_disguises",),
        ("isinstance(value, Prose) or any(", "isinstance(value, Prose) and any("),
    ),
    *_of(
        "comments",
        f"{MATH}/reading.py",
        ("math_comments",),
        ("        if commented is not None:", "        if False and commented:"),
    ),
    *_of(
        "comments",
        f"{MATH}/equality/comparison.py",
        ("math_comments",),
        ("if len(ours) > 1 and ours.keys() == theirs.keys():", "if False:"),
    ),
    *_of(
        "comments",
        f"{TEXT}/markers.py",
        ("math_comments",),
        ("        if not operands.is_operand(response, box.start, box.end)\n", ""),
    ),
    *_of(
        "comments",
        f"{TEXT}/around/operands.py",
        ("math_comments",),
        ('    return "=" not in response[end :', '    return "" in response[end :'),
    ),
    *_of(
        "comments",
        f"{TEXT}/denials.py",
        ("math_comments",),
        ('{HEADING}|{CLAUSE}|{_OTHERS}"', '{HEADING}|{CLAUSE}"'),
        ("|by\\s+mistake|", "|"),
    ),
]
SEVERAL: Final = [
    *_of(
        "several",
        f"{TEXT}/answers.py",
        ("several_answers",),
        (
            "_extracted(_with_neighbours(response, run, strategy, strategies), strategy)",
            "_extracted(_texts(run, strategy), strategy)",
        ),
        ("        said.insert(0, markers.unboxed(nearest.text))\n", ""),
        ("        said.append(markers.unboxed(nearest.text))\n", ""),
        (
            "        if one.text and not markers.is_comment(one.text)\n",
            "        if one.text\n",
        ),
        ("    return is_sentence and number is not None and", "    return number is not None and"),
        (" and _OR.search(text) is None", ""),
    ),
    *_of(
        "several",
        f"{TEXT}/markers.py",
        ("several_answers",),
        ("    return _HEADING.fullmatch(text) is not None or (", "    return ("),
        ("(has_below and is_words(text))", "False"),
    ),
    *_of(
        "several",
        f"{TEXT}/choice.py",
        ("several_answers",),
        (
            "                read |= _named_otherwise(part, strategy, strategies, labels) if read else set()\n",
            "",
        ),
        ("        said += _hashes_before(part, said)\n", "        pass\n"),
        (
            "    listed = [one for kind in explicit if kind is not by",
            "    alone = []\n    listed = [one for kind in explicit if kind is not by",
        ),
    ),
    *_of(
        "several",
        f"{MATH}/verify.py",
        ("several_answers",),
        (
            "        if not found.parts:\n",
            "        if found.parts:\n            return self._judge_stated(work, found.parts[-1], found.strategy)\n        if not found.parts:\n",
        ),
        (
            "            said = self._judge_stated(work, found.text, found.strategy)\n            listed",
            "            said = judged[0]\n            listed",
        ),
        (
            "        if all(is_sentence_with(part, right) or self._rounds(work, right, part) for part in others):",
            "        if not list(others):",
        ),
    ),
    *_of(
        "several",
        f"{MATH}/extract.py",
        ("quoted_answers",),
        (
            "        if not all(_says(head, one, wanted) for one in stated(head, strategies)):",
            "        if False:",
        ),
    ),
    *_of(
        "several",
        f"{TEXT}/match.py",
        ("several_answers",),
        (
            "passed=again or is_right(found.text)",
            "passed=is_right((found.parts or (found.text,))[-1])",
        ),
        ("passed=again or is_right(found.text)", "passed=is_right(found.text)"),
    ),
    *_of(
        "announced",
        f"{TEXT}/answers.py",
        ("announcements",),
        (
            "            announcements = _stated_last(response, strategies) if text else []\n",
            "            announcements: list[str] = []\n",
        ),
        ("            said = []\n", "            pass\n"),
        (
            "        if run and not _is_title(response, run, strategies):\n",
            "        if run:\n",
        ),
        (
            "        near = [one for one in near if not _is_titled(response, one)]\n",
            "        pass\n",
        ),
        (
            "    if _reads_words(strategies):\n        begin, end = _bounds(",
            "    if not strategies:\n        begin, end = _bounds(",
        ),
        (
            "[corrections.corrected(markers.unboxed(text)) for text in texts]",
            "list(map(markers.unboxed, texts))",
        ),
        (
            "        bare = corrections.bare(response, last) if other is None else other.statement\n",
            "        bare = None if other is None else other.statement\n",
        ),
    ),
    *_of(
        "announced",
        f"{TEXT}/answers.py",
        ("alternatives",),
        (
            "        bare = corrections.bare(response, last) if other is None else other.statement\n",
            "        bare = corrections.bare(response, last)\n",
        ),
        ("        said[-1:] = [one + other.unit for one in said[-1:]]\n", "        pass\n"),
        (" if other is None else other.statement\n        if corr", "\n        if corr"),
        ("announced(response[begin:], with_options=True)", "announced(response[begin:])"),
        ("strategies), *found[:-1]]", "strategies)]"),
        ("rest.end() if rest else end, len", "end, len"),
        (" or lines.values(response)\n", "\n"),
    ),
    *_of(
        "announced",
        f"{TEXT}/definition.py",
        ("text_pipelines",),
        ("CONTROL_TRIES: Final = 2\n", "CONTROL_TRIES: Final = 1\n"),
    ),
    *_of(
        "announced",
        f"{TEXT}/announcements/lines.py",
        ("alternatives",),
        (' or (label and found["label"] != label):\n', ":\n"),
        ("if 1 < len(said) <= _LINES_MAX else", "if 1 < len(said) else"),
        ("        if not line.strip():\n            continue\n", ""),
    ),
    *_of(
        "announced",
        f"{TEXT}/announcements/alternatives.py",
        ("alternatives",),
        (
            '(found["name"] in (None, name) or (is_number and found.re is patterns.offered)):\n',
            "True:\n",
        ),
        (" or (is_number and found.re is patterns.offered)):\n", "):\n"),
        ("    is_number = not name and patterns is _VALUES\n", "    is_number = True\n"),
        (" and found.re is patterns.offered)", ")"),
        ("alone = None if is_equation else _alone(text, found)", "alone = None"),
        ("alone = None if is_equation else _alone(text, found)", "alone = _alone(text, found)"),
        ("_HAS_NAME.search(text[start:end]) or kinds", "kinds"),
        (" or kinds.HAS_TERMS.search(before))", ")"),
        ("    if is_list or not _IS_BARE.fullmatch(value):\n", "    if is_list:\n"),
        ('rf"(?:{_DIGITS}|{_IN_WORDS})"', "_DIGITS"),
        (' and _is_own(found["before"]):\n', ":\n"),
        ("    if found := patterns.again.match(text, end, until):\n", "    if found := None:\n"),
        (", ends=_CALLED_BEHIND)", ")"),
        ("is_open=_OPENS.search(lead[0]) is not None", "is_open=False"),
        (" or _NAMED_WITHIN.match(text, at)", ""),
        ("    if _IS_LETTER.fullmatch(content):\n", "    if not content:\n"),
        ("    return _WORDS if _IS_WORD.fullmatch(content) else", "    return"),
        ("    if needs_case and (case is None or", "    if needs_case and case and ("),
        ('case["case"].lower() != lead["case"].lower()', "False"),
        ('needs_case=found["else"] is None', "needs_case=True"),
        ("    if not value or is_of_another or", "    if not value or"),
        (
            '    return bool(name) and (said == name or value.partition("=")[0].strip() == name)\n',
            "    return False\n",
        ),
        ("    while value and kinds.is_unopened(value):\n", "    while False:\n"),
        (" or _OF_OTHERS.search(value):\n", ":\n"),
        ('(text[lead.end() - 1] == "$" and "$" not in rest)', "0"),
        ('said[: close.start()].rstrip(" .") if close else said', "said"),
        ("    return value if is_brief and", "    return value if"),
        ("not _OF_OTHERS.search(words) and", ""),
        (" and not _DIGIT.search(words)", ""),
    ),
    *_of(
        "announced",
        f"{TEXT}/announcements/alternatives.py",
        ("kinds",),
        ("return None if found is None else Alternative(", "return None if True else Alternative("),
        ("    if is_list or not _IS_BARE", "    if not _IS_BARE"),
        ('r"(?<!\\\\)\\$|', 'r"\\$|'),
    ),
    *_of(
        "announced",
        f"{TEXT}/announcements/kinds.py",
        ("kinds",),
        (
            "    if _EQUALS.search(joint[0]) and (has_terms or not",
            "    if _EQUALS.search(joint[0]) and (has_terms or bool(0) and not",
        ),
        ("    return not has_operator or _IS_CLOSED", "    return True or _IS_CLOSED"),
        ("            if _ITEM.fullmatch(text, begin, stop):\n                continue\n", ""),
        ("or (is_corrected and _names_number(kinds, answer))", ""),
        ("any(map(_PLAIN_NAME.fullmatch, names)) and", "names and"),
        ("_LEADING_WORD: Final = _NO_NAME + (", "_LEADING_WORD: Final = (_NO_NAME and '') + ("),
        ("_OFFERING_WORD: Final = _NO_NAME + (", "_OFFERING_WORD: Final = (_NO_NAME and '') + ("),
        ("[$({;,|&:]\\s?(?P<sign>", "[$({;,|&]\\s?(?P<sign>"),
        (" or (_PLAIN_NUMBER in said and is_number)", ""),
        ("    yield from range(end, begin - 1, -1)\n", "    yield end\n"),
        ("|tag|label)", ")"),
        ("    if _OTHER_RELATION.search(bare):\n        return set()\n", ""),
        (
            "    if not all(_is_among(_kinds(value), answer) for value in values):\n        return None\n",
            "",
        ),
        ('    said = [_LEAD.sub("", pieces[0]), *pieces', "    said = [pieces[0], *pieces"),
        ("    if len(pieces) < 2 or pieces[-1].strip(_MARKS):\n", "    if len(pieces) < 2:\n"),
        ("    if _NO_EXPRESSION.search(bare):\n        return set()\n", ""),
        ('("relation", _INDEX.sub("", left), is_equal)', '("relation", left, is_equal)'),
        ('("relation", _INDEX.sub("", left), is_equal)', '("relation", _INDEX.sub("", left))'),
        ('        return {("formula", names)}\n', '        return {("formula",)}\n'),
        ("        answer.add(_relation(name, is_equal=True))\n", "        pass\n"),
        (' and ":" not in bare\n', "\n"),
        (" if _MATRIX.fullmatch(text) else set()", ""),
    ),
    *_of(
        "announced",
        f"{TEXT}/announcements/objects.py",
        ("kinds", "alternatives"),
        ("    if said and not _LABEL.fullmatch(said[0].text):\n", "    if not said:\n"),
        (" if is_value(one.text)]", "]"),
        (", texts if len(texts) > 1 else ())", ")"),
        ("found if found is not None else _loaded(_strict(raw))", "found"),
        ("    text = _SINGLE_QUOTED.sub(", "    _SINGLE_QUOTED.sub("),
        ('_LAST_COMMA.sub("", _BARE', '("" or str)(_BARE'),
        ('    raw = _BACKSLASH.sub(r"\\\\\\\\", text)\n', "    raw = text\n"),
        ("        if _depth(text) > _DEPTH_MAX:\n            return None\n", ""),
    ),
    *_of(
        "announced",
        f"{MATH}/verify.py",
        ("kinds",),
        (
            "            return self._judge_stated(work, listed, found.strategy)\n",
            "            return said\n",
        ),
    ),
    *_of(
        "announced",
        f"{MATH}/agreement.py",
        ("alternatives",),
        ("    if amounts is not None:\n", "    if amounts is not None and not amounts:\n"),
        ("(value == side.value or _is_rounded(value, side))", "(value == side.value)"),
        (
            "if value is None or not (value == side.value or _is_rounded(value, side)):",
            "if value is None:",
        ),
        (
            "    if isinstance(side, Element) and (said := _SYMBOL",
            "    if not side and (said := _SYMBOL",
        ),
    ),
    *_of(
        "announced",
        f"{MATH}/grammar/chains.py",
        ("alternatives",),
        (" and len({one.unit for one in decimals}) == 1:", ":"),
        (r"(?=[\d.\\{notation.CURRENCY}-])", r"(?=[\d.\\-])"),
    ),
    *_of(
        "announced",
        f"{MATH}/search.py",
        ("alternatives",),
        (r"|\s?[.?!]\s+(?:or|alternatively)\s+)", ")"),
    ),
    *_of(
        "announced",
        f"{TEXT}/announcements/search.py",
        ("announcements", "denials", "math_remarks"),
        ("        return begins_line and leads is not None\n", "        return True\n"),
        (
            "        if _IS_CALLED.match(value) and is_value(value):\n",
            "        if is_value(value):\n",
        ),
        ('        said = _CONCLUDES.sub("", clause)\n', "        said = clause\n"),
        (", *called])", "])"),
        (
            "    return leads is not None and (not is_sentence or",
            "    return leads is not None or (not is_sentence or",
        ),
        ("(not is_sentence or _FINAL.search(leads + word) is not None)", "True"),
        (
            "    return _SOLVES.search(said) is None and is_value(said)\n",
            "    return is_value(said)\n",
        ),
        ('joint["modal"] is None', "is_brief"),
        (
            "    if start < 0 or denied or markers.is_rejected(",
            "    if start < 0 or markers.is_rejected(",
        ),
        (" or markers.is_rejected(text, start, stop) or", " or"),
        ("    if _HEDGES.search(text) is not None:\n        return False\n", ""),
        ("and few_words and", "and"),
        ("if _is_balanced(lines[: one.start()], pairs)", "if True"),
        (
            "    if joint is None or _is_part_of_word(text, begin):\n",
            "    if joint is None:\n",
        ),
    ),
    *_of(
        "announced",
        f"{TEXT}/markers.py",
        ("announcements", "math_answers", "math_classes"),
        ("        if _FENCE.fullmatch(said) and newline >= 0:\n", "        if False:\n"),
        (r"\.(?=(?:\[\^?\w{1,3}\])?[*_`]*(?:\s|$))", r"\.(?=[*_`]*(?:\s|$))"),
    ),
    *_of(
        "announced",
        f"{TEXT}/around/operands.py",
        ("announcements", "math_answers", "math_classes"),
        ("(_ADDED_ENDS) and _ADDED_BEFORE.search(before):\n", "(()):\n"),
        (
            "        if equation is not None and not _GIVES.search(equation[0]):\n            return False\n",
            "",
        ),
        (
            "        if equation is not None and not _GIVES.search(equation[0]):\n",
            "        if equation is not None:\n",
        ),
    ),
    *_of(
        "announced",
        f"{TEXT}/around/operands.py",
        ("around_answers",),
        ("relations.is_side(response, start, end) or ", ""),
        (" or relations.is_member(response, start, end)", ""),
        ("        or _WORDS_BEHIND.match(response, end)\n", ""),
        ("        or _is_altered(before)\n", ""),
    ),
    *_of(
        "announced",
        f"{TEXT}/around/relations.py",
        ("around_answers",),
        ("        return bool(_names(side)) or not _has_digit(side)\n", "        return True\n"),
        (
            "    return bool(_names(side) & said) or (len(members) > 1 and _is_closed(members[0]))\n",
            "    return True\n",
        ),
        (" or (len(members) > 1 and _is_closed(members[-1]))", ""),
        (" or _MATRIX_ENDS.search(before, begun.end())", ""),
    ),
    *_of(
        "announced",
        f"{TEXT}/announcements/corrections.py",
        ("announcements",),
        ("    if not words_max and _AND.match(lead[0]) is None:\n", "    if not words_max:\n"),
        ("    return len(words) <= words_max and", "    return"),
        ('        "\\n" in lead[0] and _ITEM.fullmatch(line)\n', "        False\n"),
        ("    return -1 if found is None else found.end()\n", "    return -1\n"),
    ),
    *_of(
        "announced",
        f"{MATH}/extract.py",
        ("announcements",),
        (
            "denials.without_struck(layout.plain(answer_part(response)))",
            "layout.plain(answer_part(response))",
        ),
    ),
    *_of(
        "announced",
        f"{TEXT}/choice.py",
        ("announcements", "several_answers"),
        ("        said += _announced(part)\n", "        pass\n"),
        (
            "    for find in (markers.answers_is, announced):\n",
            "    for find in (markers.answers_is,):\n",
        ),
        ("        if _GOES_ON.match(part, one.end) is None\n", ""),
    ),
    *_of(
        "announced",
        f"{TEXT}/choice.py",
        ("alternatives",),
        ("        said += _in_place_of(part, by)\n", "        pass\n"),
    ),
    *_of(
        "announced",
        f"{MATH}/verify.py",
        ("announcements",),
        (" or self._rounds(work, right, part) for part", " for part"),
    ),
    *_of(
        "announced",
        f"{MATH}/verify.py",
        ("alternatives",),
        (" or _has_unit(one, part)", ""),
    ),
    *_of(
        "announced",
        f"{TEXT}/announcements/words.py",
        ("alternatives",),
        (r"|,\s{0,9}(?=[\"'])", ""),
    ),
]
INSTRUCTED: Final = [
    *_of(
        "instructed",
        f"{_VERIFIERS}/instructions/ifeval.py",
        ("ifeval", "instructions"),
        (
            "return not has_letters(value) or language(value) == code",
            "return language(value) == code",
        ),
        ("words_min=2) in", "words_min=1) in"),
        (' in {"en", None}', ' == "en"'),
        ("value.isupper() and _is_english(value)", "value.isupper()"),
        ("value.islower() and _is_english(value)", "value.islower()"),
        ('>= given["number"]) is', '> given["number"]) is'),
        ("given.get(relation, _RELATIONS[0]) == _RELATIONS[0]}", "True}"),
        ("if given.get(relation, _RELATIONS[0]) not in _RELATIONS:", "if False:"),
        ("re.compile(written, re.DOTALL)", "re.compile(written)"),
        ('    return value.partition("-")[0].lower()\n', "    return value\n"),
    ),
    *_of(
        "instructed",
        f"{_VERIFIERS}/instructions/languages.py",
        ("ifeval",),
        ("if counts[_KANA] >= _KANA_SHARE_MIN * han else", "if counts[_KANA] > han / 2 else"),
        (
            "return _HAN if counts[_HAN] + counts[_KANA] > counts[script] else script",
            "return script",
        ),
        ("return said if score >= words_min else None", "return said"),
        ("if len(said) == 1 or script != _LATIN else None", "if len(said) == 1 else None"),
        ("(said[0] if len(said) == 1 or script != _LATIN else None)", "said[0]"),
        ("            yield code, count\n", "            yield code, 0\n"),
    ),
    *_of(
        "instructed",
        f"{_VERIFIERS}/instructions/language.py",
        ("ifeval",),
        ("if word.isdecimal() and first[:1].islower():", "if word.isdecimal():"),
        ("if word.isdecimal() and first[:1].islower():", "if False:"),
    ),
]
CONFINED: Final = [
    *_of(
        "confined",
        "services/assay/verifiers/total.py",
        ("total",),
        ("except (HeldUp, HostAtFault):", "except HeldUp:"),
        ("        unblamed=(MemoryError,),\n", ""),
        ('return trivial if keeps else replace(trivial, handover=b"")', "return trivial"),
        ("if isinstance(handler, TrustingHandler):", "if False:"),
    ),
]

VERDICT_MUTANTS: Final = (
    *ACCEPTED,
    *TOLERANCE,
    *ORDER,
    *OUTCOMES,
    *LIMITS,
    *DENIED,
    *STATED_TWICE,
    *SYSTEMS,
    *SLOW,
    *EQUIVALENT,
    *NAMES,
    *STAGES,
    *READINGS,
    *FORMS,
    *COMMENTS,
    *SEVERAL,
    *INSTRUCTED,
    *CONFINED,
)
"""All of them."""
