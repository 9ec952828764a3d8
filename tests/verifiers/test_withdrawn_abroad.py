"""Sentences of many languages that take an answer back, and those that only sound like it."""

import time
from collections.abc import Callable

import pytest

from assay.core.verdict import Ended
from assay.verifiers.text.abroad.english import announced_in_english, in_english
from assay.verifiers.text.around.withdrawn import is_withdrawn, may_be_inside, reason

Judge = Callable[..., Ended]
LABELS = {"answer": "A", "choices": ["A", "B", "C"]}
EXACT = {"strategies": ["tag", "boxed", "answer_is", "answer_colon"]}

WITHDRAWALS = """
Moment, das ist falsch.
Das stimmt leider nicht.
Bitte ignorieren Sie die obige Antwort.
Ich habe mich verrechnet. Lass mich das noch einmal rechnen.
Attendez, c'est faux.
Je me suis tromp\u00e9.
Veuillez ignorer la r\u00e9ponse ci-dessus.
Espera, eso es incorrecto.
Me equivoqu\u00e9.
Espere, isso est\u00e1 errado.
Aspetta, \u00e8 sbagliato.
Wacht, dat is fout.
Czekaj, to jest b\u0142\u0119dne.
\u0421\u0442\u043e\u043f, \u044d\u0442\u043e \u043e\u0448\u0438\u0431\u043a\u0430.
Bekle, bu yanl\u0131\u015f.
Tunggu, itu salah.
Khoan, \u0111i\u1ec1u n\u00e0y sai.
\u7b49\u7b49\uff0c\u8fd9\u662f\u9519\u7684\u3002
\u8bf7\u5ffd\u7565\u4e0a\u9762\u7684\u7b54\u6848\u3002
\u7b49\u4e00\u4e0b\uff0c\u8fd9\u4e0d\u5bf9\u3002\u8ba9\u6211\u518d\u7b97\u4e00\u904d\u3002
\u3044\u3084\u3001\u3053\u308c\u306f\u9593\u9055\u3044\u3067\u3059\u3002
\uc7a0\uae50, \uc774\uac83\uc740 \ud2c0\ub838\uc2b5\ub2c8\ub2e4.
Wait, this is wrong, because I forgot the last term.
Wait \u2014 that is wrong.
I take that back.
I retract this answer.
Nope, wrong.
The above is wrong.
This answer should be ignored.
No, that's incorrect: a case is missing.
Actually I think I made a mistake in step 2.
Hmm, I forgot to divide, so this is wrong.
On checking, the answer does not satisfy the equation.
Here we divide by two. That is wrong.
I made some assumptions. That is wrong.
"""
STAYS = """
Das ist richtig.
Ist das falsch? Nein.
Das ist falsch, wenn x negativ ist.
Manche sagen, es sei kleiner. Das ist falsch.
C'est faux si x est n\u00e9gatif.
Eso es incorrecto si x es negativo.
\u5982\u679c\u5217\u8868\u4e3a\u7a7a\uff0c\u8fd9\u662f\u9519\u7684\u3002
\u8fd9\u662f\u9519\u7684\u5417\uff1f\u4e0d\u662f\u3002
Some would say 80. That is wrong.
One might say 80. That is wrong.
It may be tempting to add first. That is a mistake.
Many students forget the sign. That is a mistake.
Some books add first. That is wrong, because signs differ.
If this is wrong, let me know.
Wait, that is wrong only if x is negative.
Wait, that is wrong? It is correct, as a check shows.
No rounding is needed.
No other value fits.
No est\u00e1 mal.
No es un error.
N\u00e3o est\u00e1 errado.
N\u00e3o \u00e9 um erro.
Non \u00e8 sbagliato.
Nie jest to b\u0142\u0105d.
Ce n'est pas faux.
Das ist nicht falsch.
\u042d\u0442\u043e \u043d\u0435 \u043e\u0448\u0438\u0431\u043a\u0430.
Dit is niet fout.
Bu yanl\u0131\u015f de\u011fil.
\u8fd9\u6ca1\u6709\u9519\u3002
"""


def lines(text: str) -> list[str]:
    return (
        text.strip().encode().decode("unicode_escape").splitlines()
        if "\\u" in text
        else (text.strip().splitlines())
    )


@pytest.mark.parametrize("said", lines(WITHDRAWALS))
def test_an_answer_that_is_taken_back_is_none(judge: Judge, said: str) -> None:
    ends = [
        judge("math", f"\\boxed{{85}}\n\n{said}", {"answers": ["85"]}),
        judge("choice", f"\\boxed{{A}}\n\n{said}", LABELS),
        judge("exact", f"\\boxed{{Paris}}\n\n{said}", {"answers": ["Paris"]}, **EXACT),
    ]
    assert [ended.reward for ended in ends] == [0.0] * 3, said


@pytest.mark.parametrize("said", lines(WITHDRAWALS))
def test_the_answer_behind_it_is_the_answer(judge: Judge, said: str) -> None:
    ends = [
        judge("math", f"\\boxed{{7}}\n\n{said}\n\n\\boxed{{85}}", {"answers": ["85"]}),
        judge("choice", f"\\boxed{{B}}\n\n{said}\n\n\\boxed{{A}}", LABELS),
    ]
    assert [ended.reward for ended in ends] == [1.0] * 2, said


VERBS = ("ignore", "disregard", "scratch", "strike", "discard", "forget", "do not use", "don't use")
THINGS = (
    "that",
    "this answer",
    "the answer",
    "my previous answer",
    "the above",
    "the above answer",
)
SAID = (
    *(f"Please {verb} {thing}." for verb in VERBS for thing in THINGS),
    *(f"{it} {must} be {done}." for it in ("It", "That", "My answer") for must in ("must", "should")
      for done in ("ignored", "discarded")),
    *(f"I {verb} {thing}." for verb in ("retract", "revoke", "reject") for thing in THINGS),
)  # fmt: skip


@pytest.mark.parametrize("said", SAID)
def test_a_label_that_is_taken_back_in_any_words_gives_way_to_the_next(
    judge: Judge, said: str
) -> None:
    assert may_be_inside(said)
    for stated in ("\\boxed{{{}}}", "The answer is {}.", "<answer>{}</answer>", "Answer: {}"):
        for between in (" ", "\n", "\n\n"):
            first, last = (stated.format(label) for label in "BA")
            response = f"{first}\n{said}{between}{last}"
            assert judge("choice", response, LABELS).reward == 1.0, response
    one_sentence = f"\\boxed{{B}}\n{said[:-1]}; the answer is A."
    assert judge("choice", one_sentence, LABELS).reward == 1.0, one_sentence
    for end in (f"{said}\n\n", said[:-1] + "; "):
        mixed = f"\\boxed{{A}}\n{end}The answer is B."
        assert judge("choice", mixed, LABELS).reward == 0.0, mixed


@pytest.mark.parametrize("said", lines(STAYS))
def test_what_only_sounds_like_it_leaves_the_answer(judge: Judge, said: str) -> None:
    ends = [
        judge("math", f"\\boxed{{85}}\n\n{said}", {"answers": ["85"]}),
        judge("exact", f"\\boxed{{Paris}}\n\n{said}", {"answers": ["Paris"]}, **EXACT),
    ]
    assert [ended.reward for ended in ends] == [1.0] * 2, said


@pytest.mark.parametrize(
    ("response", "right", "wrong"),
    [
        ("\\boxed{40}\n\nMoment, das ist falsch.\n\nDie richtige Antwort ist 42.", "42", "40"),
        ("\\boxed{40}\n\nAttendez, c'est faux.\n\nLa bonne r\u00e9ponse est 42.", "42", "40"),
        ("\\boxed{40}\n\nAspetta, \u00e8 sbagliato. La risposta corretta \u00e8 42.", "42", "40"),
    ],
)
def test_a_box_before_words_that_correct_it_is_intermediate(
    judge: Judge, response: str, right: str, wrong: str
) -> None:
    assert judge("math", response, {"answers": [right]}).reward == 1.0
    assert judge("math", response, {"answers": [wrong]}).reward == 0.0


@pytest.mark.parametrize("gold", ["falsch", "faux", "Das ist falsch.", "\u9519", "\u4e0d\u5bf9"])
def test_words_that_may_be_an_answer_are_one(judge: Judge, gold: str) -> None:
    for place in ("{}", "\\boxed{{{}}}", "<answer>{}</answer>", "#### {}"):
        assert judge("math", place.format(gold), {"answers": [gold]}).reward == 1.0, place
    assert judge("exact", f"<answer>{gold}</answer>", {"answers": [gold]}, **EXACT).reward == 1.0


@pytest.mark.parametrize(
    ("response", "label"),
    [
        ("Das ist falsch.", "falsch"),
        ("This is false.", "False"),
        ("The answer is Lyon. Wait, that's wrong, Paris fits better.", "Paris"),
        ("The answer is Oslo. Please ignore the above answer. The answer is Paris.", "Paris"),
        ("The answer is Oslo. I take that back. The answer is Paris.", "Paris"),
    ],
)
def test_a_label_in_such_a_sentence_or_behind_it_is_chosen(
    judge: Judge, response: str, label: str
) -> None:
    names = ["True", "False", "wahr", "falsch"] if label[0] in "Ff" else ["Paris", "Lyon", "Oslo"]
    assert judge("choice", response, {"answer": label, "choices": names}).reward == 1.0


@pytest.mark.parametrize(
    ("said", "english"),
    [
        ("Der Code oben ist falsch.", "the above code is wrong."),
        ("Ignorez la requ\u00eate ci-dessus !", "ignore the above query !"),
        ("Mein JSON war falsch:", "the above JSON is wrong:"),
        ("Korrektur: 5", "Correction: 5"),
        ("Ja. Warte, da ist ein Fehler!", "Ja. Wait, that is wrong!"),
        ("das ist falsch geschrieben", "das ist falsch geschrieben"),
        ("Sie sagt, das ist falsch.", "Sie sagt, das ist falsch."),
    ],
)
def test_whole_clauses_are_put_into_english(said: str, english: str) -> None:
    assert in_english(said) == english


def test_an_announcement_is_put_into_english_unless_it_denies() -> None:
    assert announced_in_english("Also: Die Antwort lautet 5.") == "Also: The answer is 5."
    assert announced_in_english("Die Antwort ist nicht 5.") == "Die Antwort ist nicht 5."


def test_a_reason_that_may_state_something_is_none() -> None:
    assert reason("\\boxed{5}\n\nWait, that is wrong, because I forgot a case.")
    assert not reason("\\boxed{5}\n\nWait, that is wrong, because the sum is 7.")
    assert not is_withdrawn("\\boxed{5}\n\nWait, that is wrong, so it is B.")


@pytest.mark.parametrize(
    "unit",
    [
        "Moment, ",
        "nein, ",
        "wait, ",
        "das ist ",
        "\u7b49\u7b49\uff0c",
        "(",
        "*\n",
        "die obige Antwort ist ",
    ],
)
def test_it_takes_linear_time(unit: str) -> None:
    in_english(unit)
    text = (unit * 50_000)[:50_000]
    began_s = time.process_time()
    is_withdrawn(in_english(text, affirms=True))
    assert time.process_time() - began_s < 1.0
