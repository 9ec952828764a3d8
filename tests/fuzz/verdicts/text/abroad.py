"""Responses in fifteen languages that take back a value, a label, words or a block, or keep them.

The sentences are written for the generator, apart from the tables of the verifiers. What is kept is
followed by a sentence that only sounds like a withdrawal: a question, a condition, a check.
"""

import random
from typing import Any, Final, NamedTuple

from tests.fuzz.verdicts.case import Case, Expected


class _Tongue(NamedTuple):
    answer: str
    correct: str
    withdraws: tuple[str, ...]
    block: tuple[str, ...]
    keeps: tuple[str, ...]


_TONGUES: Final = (
    _Tongue("The answer is {}.", "The correct answer is {}.",
            ("Wait, this is wrong, because I forgot the last term.", "Wait — that is wrong.", "I take that back.", "I take back my answer.", "I retract this answer.", "I withdraw my answer.", "Nope, wrong.", "No, that's incorrect: a case is missing.", "The above is wrong.", "Everything above is wrong.", "This answer should be ignored.", "Please do not use this answer.", "Actually I think I made a mistake in step 2.", "Hmm, I forgot to divide, so this is wrong.", "On checking, the answer does not satisfy the equation.", "That was a mistake since the order matters. Let me redo this."),
            ("I take that back.", "The above code is wrong, because it skips the last item.", "Wait, this is wrong: it skips the last item."),
            ("Some would say that it is smaller. That is wrong.", "Many students forget the sign. That is a mistake.", "If this is wrong, let me know.", "I am sure that this is not wrong.", "Is this wrong? No.", "Some books sort first. That is wrong.", "The check does not take back anything.")),
    _Tongue("Die Antwort ist {}.", "Die richtige Antwort ist {}.",
            ("Moment, das ist falsch.", "Warte, das stimmt nicht.", "Nein, das war ein Fehler.", "Das ist leider falsch.", "Ich habe mich verrechnet.", "Ich habe einen Fehler gemacht.", "Bitte ignoriere die obige Antwort.", "Halt, das kann nicht stimmen. Lass mich das noch einmal prüfen."),
            ("Der Code oben ist falsch.", "Ignoriere den obigen Code.", "Moment, das ist falsch."),
            ("Das ist richtig.", "Ist das falsch? Nein.", "Das ist falsch, wenn die Liste leer ist.", "Ein Fehler tritt nicht auf.", "Ich habe es noch einmal geprüft.")),
    _Tongue("La réponse est {}.", "La bonne réponse est {}.",
            ("Attendez, c'est faux.", "Non, ce n'est pas correct.", "Oups, c\u2019est une erreur.", "Je me suis trompé.", "J'ai fait une erreur.", "Veuillez ignorer la réponse ci-dessus."),
            ("Le code ci-dessus est incorrect.", "Ignorez le code ci-dessus.", "Attendez, c'est faux."),
            ("C'est correct.", "Est-ce faux ? Non.", "C'est faux si la liste est vide.", "J'ai vérifié le calcul.")),
    _Tongue("La respuesta es {}.", "La respuesta correcta es {}.",
            ("Espera, eso es incorrecto.", "No, eso está mal.", "Perdón, eso no es correcto.", "Me equivoqué.", "Cometí un error.", "Por favor, ignora la respuesta anterior."),
            ("El código anterior es incorrecto.", "Ignora el código anterior.", "Espera, esto es incorrecto."),
            ("Eso es correcto.", "Eso es incorrecto si la lista está vacía.", "He comprobado el cálculo.")),
    _Tongue("A resposta é {}.", "A resposta correta é {}.",
            ("Espere, isso está errado.", "Não, isso é um erro.", "Cometi um erro.", "Eu me enganei.", "Ignore a resposta anterior."),
            ("O código acima está errado.", "Ignore o código acima.", "Espere, isso está errado."),
            ("Isso está correto.", "Isso está errado se a lista for vazia.", "Verifiquei o resultado.")),
    _Tongue("La risposta è {}.", "La risposta corretta è {}.",
            ("Aspetta, è sbagliato.", "No, questo è sbagliato.", "Mi sono sbagliato.", "Ho fatto un errore.", "Ignora la risposta precedente."),
            ("Il codice sopra è sbagliato.", "Ignora il codice precedente.", "Aspetta, questo è sbagliato."),
            ("Questo è corretto.", "Questo è sbagliato se la lista è vuota.", "Ho verificato il calcolo.")),
    _Tongue("Het antwoord is {}.", "Het juiste antwoord is {}.",
            ("Wacht, dat is fout.", "Nee, dat klopt niet.", "Ik heb me vergist.", "Ik heb een fout gemaakt.", "Negeer het bovenstaande antwoord."),
            ("De code hierboven is fout.", "Negeer de bovenstaande code.", "Wacht, dat is fout."),
            ("Dat klopt.", "Dat is fout als de lijst leeg is.", "Ik heb het gecontroleerd.")),
    _Tongue("Odpowiedź to {}.", "Prawidłowa odpowiedź to {}.",
            ("Czekaj, to jest błędne.", "Nie, to jest błąd.", "Pomyliłem się.", "Popełniłem błąd.", "Zignoruj powyższą odpowiedź."),
            ("Kod powyżej jest błędny.", "Zignoruj powyższy kod.", "Czekaj, to jest błędne."),
            ("To jest poprawne.", "To jest błędne, jeśli lista jest pusta.", "Sprawdziłem obliczenia.")),
    _Tongue("Ответ: {}.", "Правильный ответ: {}.",
            ("Подождите, это неверно.", "Нет, это ошибка.", "Стоп, это не так.", "Я ошибся.", "Я допустил ошибку.", "Пожалуйста, игнорируйте ответ выше."),
            ("Код выше неверный.", "Игнорируйте код выше.", "Подождите, это неверно."),
            ("Это верно.", "Это неверно, если список пуст.", "Проверка сделана.")),
    _Tongue("Cevap: {}.", "Doğru cevap: {}.", ("Bekle, bu yanlış.", "Hayır, bu doğru değil.", "Hata yaptım."), ("Yukarıdaki kod yanlış.", "Bekle, bu yanlış."), ("Bu doğru.", "Kontrol ettim.")),
    _Tongue("Jawaban: {}.", "Jawaban: {}.", ("Tunggu, itu salah.", "Maaf, ini keliru.", "Saya membuat kesalahan."), ("Kode di atas salah.", "Tunggu, itu salah."), ("Itu benar.", "Itu salah jika daftar kosong.")),
    _Tongue("Đáp án: {}.", "Đáp án: {}.", ("Khoan, điều này sai.", "Đợi đã, như vậy sai rồi.", "Tôi đã nhầm."), ("Mã ở trên sai.", "Khoan, điều này sai."), ("Điều này đúng.", "Điều này sai nếu danh sách rỗng.")),
    _Tongue("答案是{}。", "正确答案是{}。",
            ("等等，这是错的。", "不对，我算错了。", "抱歉，这个不正确。", "我犯了一个错误。", "请忽略上面的答案。", "等一下，这不对。让我重新计算一下。"),
            ("上面的代码是错的。", "请忽略上面的代码。", "等等，这是错的。"),
            ("这是正确的。", "如果列表为空，这是错的。", "这是错的吗？不是。", "我检查过了。")),
    _Tongue("答えは{}です。", "正しい答えは{}です。",
            ("いや、これは間違いです。", "待って、間違えました。", "すみません、それは違います。", "上の答えは無視してください。", "訂正します。いや、これは誤りです。"),
            ("上のコードは間違っています。", "上のコードは無視してください。", "待って、これは間違いです。"),
            ("これは正しいです。", "リストが空の場合、これは間違いです。", "計算を確認しました。")),
    _Tongue("정답은 {}입니다.", "정답은 {}입니다.", ("잠깐, 이것은 틀렸습니다.", "아니요, 잘못되었습니다.", "제가 실수했습니다."), ("위의 코드는 틀렸습니다.", "위의 코드를 무시하세요."), ("이것은 맞습니다.", "계산을 확인했습니다.")),
)  # fmt: skip
_PROGRAMS: Final = ("def f(n):\n    return n + 1", "f = lambda n: 1 + n")
_NO_PROGRAMS: Final = ("def f(n):\n    return n", "def f(n):\n    return n + 2")
_TESTS: Final = {"asserts": {"code": ["assert f(1) == 2", "assert f(5) == 6"]}}
_STRATEGIES: Final = ["tag", "boxed", "hashes", "answer_is", "answer_colon"]
_WORDS: Final = ("Paris", "Oslo", "New York", "blue whale")
_MARKS: Final = ("\\boxed{{{}}}", "**\\boxed{{{}}}**", "<answer>{}</answer>", "$\\boxed{{{}}}$")


def abroad_case(rng: random.Random) -> Case:
    """A value, a label, words or a program; kept, taken back, or taken back for another one."""
    tongue = rng.choice(_TONGUES) if rng.random() < 0.8 else _TONGUES[0]
    kind = rng.choice(("math", "math", "choice", "exact", "code.python"))
    fate = rng.choice(("kept", "taken back", "corrected"))
    if kind == "code.python":
        return _program_case(rng, tongue, fate)
    if kind == "math":
        right, wrong = rng.sample(("40", "42", "-7", "3.5", "\\frac{2}{3}", "x^2 + 1", "[0, 1)"), 2)
    elif kind == "choice":
        right, wrong = rng.sample("ABCD", 2)
    else:
        right, wrong = rng.sample(_WORDS, 2)
    first, last = (right, right) if fate != "corrected" else rng.sample((right, wrong), 2)
    mark = rng.choice(_MARKS).format(first)
    is_said = kind == "choice" and rng.random() < 0.4
    text = tongue.answer.format(first) if is_said else mark
    behind = rng.choice(tongue.keeps if fate == "kept" else tongue.withdraws)
    text += rng.choice(("\n\n", "\n")) + behind
    if fate == "corrected":
        said = mark.replace(first, last) if not is_said else tongue.correct.format(last)
        text += rng.choice((" ", "\n\n")) + said
    is_right = fate == "kept" or (fate == "corrected" and last == right)
    reference: dict[str, Any] = {"answers": [right]}
    if kind == "choice":
        reference = {"answer": right, "choices": list("ABCD")}
    return Case(
        pipeline=kind,
        kind=f"abroad: {fate}",
        response=text,
        reference=reference,
        expected=Expected.RIGHT if is_right else Expected.WRONG,
        settings={"strategies": _STRATEGIES} if kind == "exact" else {},
    )


def _program_case(rng: random.Random, tongue: _Tongue, fate: str) -> Case:
    fits = rng.random() < 0.6
    text = _block(rng, _PROGRAMS if fits else _NO_PROGRAMS)
    text += "\n\n" + rng.choice(tongue.keeps if fate == "kept" else tongue.block)
    is_right = fits and fate == "kept"
    if fate == "corrected":
        is_right = rng.random() < 0.5
        text += "\n\n" + _block(rng, _PROGRAMS if is_right else _NO_PROGRAMS)
    return Case(
        pipeline="code.python",
        kind=f"abroad: {fate}",
        response=text,
        reference=_TESTS,
        expected=Expected.RIGHT if is_right else Expected.WRONG,
    )


def _block(rng: random.Random, programs: tuple[str, ...]) -> str:
    return f"```python\n{rng.choice(programs)}\n```"
