"""IFEval's instructions in the pipeline `instructions`: languages, counts, arguments."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.config.settings import VerifierSettings
from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.verifiers.instructions.arguments import ArgumentError
from assay.verifiers.instructions.languages import LANGUAGES, language, may_be
from assay.verifiers.instructions.rules import RULES, follows
from assay.verifiers.local import LocalPipelines

SAID = {
    "ar": "هذا يوم جميل في المدينة، والناس سعداء.",
    "bg": "Това е хубав ден и ние сме щастливи.",
    "bn": "আজ একটি সুন্দর দিন এবং আমরা সবাই খুশি।",
    "de": "Das ist ein schöner Tag, und wir sind glücklich.",
    "en": "This is a beautiful day and we are happy.",
    "es": "Hoy es un día muy bonito y todos estamos contentos.",
    "fa": "این یک روز زیبا است و ما همه خوشحال هستیم.",
    "fi": "Tämä on kaunis päivä ja me olemme iloisia.",
    "fr": "C'est une belle journée et nous sommes heureux.",
    "gu": "આજે એક સુંદર દિવસ છે અને આપણે ખુશ છીએ.",
    "he": "זה יום יפה ואנחנו שמחים.",
    "hi": "आज एक सुंदर दिन है और हम बहुत खुश हैं।",
    "it": "Oggi è una bella giornata e siamo tutti felici.",
    "ja": "今日はいい天気で、みんな幸せです。",
    "kn": "ಇಂದು ಸುಂದರ ದಿನ ಮತ್ತು ನಾವು ಸಂತೋಷವಾಗಿದ್ದೇವೆ.",
    "ko": "오늘은 아름다운 날이고 우리는 행복합니다.",
    "ml": "ഇന്ന് മനോഹരമായ ദിവസമാണ്, ഞങ്ങൾ സന്തുഷ്ടരാണ്.",
    "mr": "आज एक सुंदर दिवस आहे आणि आम्ही खूप आनंदी आहोत.",
    "ne": "आज एक राम्रो दिन हो र हामी धेरै खुसी छौं।",
    "pa": "ਅੱਜ ਇੱਕ ਸੁੰਦਰ ਦਿਨ ਹੈ ਅਤੇ ਅਸੀਂ ਖੁਸ਼ ਹਾਂ।",
    "pl": "To jest piękny dzień i wszyscy jesteśmy szczęśliwi.",
    "pt": "Hoje é um dia muito bonito e estamos todos felizes.",
    "ru": "Это прекрасный день, и мы все счастливы.",
    "sw": "Leo ni siku nzuri sana na sisi sote tuna furaha ya kuwa hapa.",
    "ta": "இன்று ஒரு அழகான நாள், நாங்கள் மகிழ்ச்சியாக இருக்கிறோம்.",
    "te": "ఈరోజు అందమైన రోజు మరియు మేము సంతోషంగా ఉన్నాము.",
    "th": "วันนี้เป็นวันที่สวยงามและเรามีความสุข",
    "uk": "Це чудовий день, і ми всі щасливі.",
    "ur": "یہ ایک خوبصورت دن ہے اور ہم سب خوش ہیں۔",
    "vi": "Hôm nay là một ngày đẹp trời và chúng tôi rất vui.",
    "zh": "今天是美好的一天，我们都很高兴。",
}
"""One sentence in each language that IFEval asks for."""


def followed(name: str, response: str, **arguments: Any) -> bool:
    rule = RULES[name]
    return follows(rule, rule.read(arguments), response, loose=False)


@pytest.mark.parametrize("code", sorted(SAID))
def test_a_sentence_is_in_its_language_and_in_no_other(code: str) -> None:
    for response in (SAID[code], SAID[code].upper(), f"1. **{SAID[code]}** (OK)"):
        for other in SAID:
            told = followed("language:response_language", response, language=other)
            assert told is (other == code), (response, other)


def test_the_language_of_most_of_a_text_counts() -> None:
    mixed = f"{SAID['en']} {SAID['de']} {SAID['de']}"
    assert language(mixed) == "de"
    assert language(f"{SAID['hi']} (AI) {SAID['hi']}") == "hi"
    assert language("東京都知事選挙で現職が当選確実") == "ja"
    assert language("OpenAI 東京会議室 でした") == "ja"
    assert followed("language:response_language", SAID["zh"], language="zh-CN")


def test_letters_of_one_language_tell_it_and_words_of_two_tell_none() -> None:
    for text, code in (("Phở bò", "vi"), ("Łódź", "pl"), ("Größe", "de"), ("El Niño", "es")):
        assert language(text) == code
    assert language("on") is language("de") is None


@pytest.mark.parametrize("text", ["", "123", "  ", "xyz", "\ud800", "İ", "Å"])
def test_nothing_tells_the_language_of_a_text_without_known_words(text: str) -> None:
    assert language(text) is None


@given(st.text(max_size=60))
def test_any_text_has_a_known_language_or_none(text: str) -> None:
    assert language(text) in {None, *LANGUAGES}


def test_of_languages_of_one_other_script_the_most_used_is_taken() -> None:
    for text, code in (("Привет", "ru"), ("شكرا", "ar"), ("धन्यवाद", "hi"), ("谢谢", "zh")):
        assert language(text) == code


SHORT = {
    "es": "Buenos días|Muchas gracias|Feliz cumpleaños|Gato negro|Mañana temprano|Encantado",
    "fr": "Merci beaucoup|Joyeux anniversaire|Chat noir|Enchanté|Volontiers|Bon voyage",
    "de": "Vielen Dank|Guten Morgen|Schwarze Katze|Herzlich willkommen|Apfelkuchen mit Sahne",
    "it": "Grazie mille|Buona sera|Gatto nero|Va bene|Arrivederci amici|Spaghetti al pomodoro",
    "pt": "Bom dia|Muito obrigado|Gato preto|Feliz aniversário|Tudo bem|Arroz e feijão",
    "pl": "Dzień dobry|Czarny kot|Wszystkiego najlepszego|Zupa pomidorowa|Naprzód|Kocham cię",
    "vi": "Chào buổi sáng|Cảm ơn nhiều|Mèo đen|Chúc mừng sinh nhật|Canh chua|Chúc may mắn",
    "sw": "Asante sana|Paka mweusi|Heri ya kuzaliwa|Kwaheri|Twende|Chakula kitamu|Safari njema",
    "fi": "Hyvää huomenta|Paljon kiitoksia|Musta kissa|Täydellistä|Tomaattikeitto|Mennään|Kippis",
    "ru": "Привет|Спасибо|Чёрный кот|Доброе утро",
    "uk": "Привіт|Дякую|Чорний кіт|Доброго ранку",
    "bg": "Благодаря|Черна котка|Добро утро",
    "ar": "شكرا|صباح الخير",
    "fa": "سلام|متشکرم",
    "ur": "شکریہ|صبح بخیر",
    "hi": "धन्यवाद|नमस्ते",
    "mr": "धन्यवाद|शुभ सकाळ",
    "ne": "धन्यवाद|शुभ प्रभात",
    "ja": "東京|日本語|ありがとう|お早う",
    "zh": "谢谢|北京|早上好",
}
"""Right answers of a few words, most of them without a frequent word of the language."""
OF_ENGLISH = (
    "Good morning|Happy birthday|Black cat|Grey elephant|Blue house|Photosynthesis|Machine learning"
    "|Cats chase mice|Elephants eat grass|Sunny Tuesday afternoon|Strong coffee|Fresh lemonade"
    "|Mountain bikes|Penguins swim fast|Basketball|Climate change|Winter holidays|Kids love pizza"
)


@pytest.mark.parametrize("code", SHORT)
def test_a_few_words_are_in_their_language(code: str) -> None:
    for response in SHORT[code].split("|"):
        for said in (response, f"{response}!", f"**{response}**"):
            assert followed("language:response_language", said, language=code), said


@pytest.mark.parametrize("code", sorted(SAID.keys() - {"en"}))
def test_a_few_words_of_english_are_in_no_other_language(code: str) -> None:
    for response in OF_ENGLISH.split("|"):
        assert not followed("language:response_language", response, language=code), response
        assert followed("language:response_language", response, language="en"), response


@pytest.mark.parametrize(
    ("response", "code"),
    [
        *(
            ("谢谢", "ja"),
            ("ありがとう", "zh"),
            ("Привіт", "ru"),
            ("Привет", "de"),
            ("Привет", "hi"),
        ),
        *(("Größe", "en"), ("Dzień dobry", "es"), ("Guten Morgen", "fr"), ("Hyvää huomenta", "it")),
        *(("Muchas gracias", "de"), ("Tudo bem", "pl"), ("Chúc may mắn", "fr"), ("سلام", "hi")),
        ("Paka mweusi, nyumba kubwa, chakula kitamu, safari njema, twende pamoja", "vi"),
    ],
)
def test_a_few_words_are_in_no_language_that_writes_otherwise(response: str, code: str) -> None:
    assert not followed("language:response_language", response, language=code)


def test_more_than_a_few_words_have_to_tell_their_language() -> None:
    few = "Gato negro " * 4
    assert followed("language:response_language", few, language="es")
    assert not followed("language:response_language", few + "gato", language="es")


@given(st.text(max_size=60), st.sampled_from(sorted(LANGUAGES)))
def test_any_text_may_be_in_a_language_or_not(text: str, code: str) -> None:
    assert may_be(text, code) in (True, False)


def test_text_without_letters_is_in_any_language() -> None:
    assert followed("language:response_language", "1 + 1 = 2", language="de")
    assert not followed("change_case:english_capital", "1 + 1 = 2")


@pytest.mark.parametrize(
    ("name", "response", "follows_it"),
    [
        ("english_capital", "ABIGAIL SMITH", True),
        ("english_capital", "YES", True),
        ("english_capital", "FARE INSIGHT ANALYTICS", True),
        ("english_capital", "\u041f\u0420\u0418\u0412\u0415\u0422", False),
        ("english_capital", "YES, it is", False),
        ("english_capital", SAID["de"].upper(), False),
        ("english_capital", SAID["ru"].upper(), False),
        ("english_lowercase", "etchings", True),
        ("english_lowercase", SAID["en"].lower(), True),
        ("english_lowercase", SAID["en"], False),
        ("english_lowercase", SAID["fr"].lower(), False),
        ("english_lowercase", SAID["zh"], False),
    ],
)
def test_case_and_language_have_to_be_right(name: str, response: str, *, follows_it: bool) -> None:
    assert followed(f"change_case:{name}", response) is follows_it


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1. solar kits: these help.\n2. lamps: so do these.", 2),
        ("1. The kits help.\n2. Lamps do.", 4),
        ("Dr. Who met J. R. Hartley at 5 p.m. in Rome.", 1),
        ("One! Two? Three... four", 3),
    ],
)
def test_sentences_are_counted(text: str, count: int) -> None:
    name = "length_constraints:number_sentences"
    for n, at_least in ((count, True), (count + 1, False)):
        assert followed(name, text, num_sentences=n, relation="at least") is at_least
        assert followed(name, text, num_sentences=n, relation="less than") is not at_least


def test_words_in_capitals_are_tokens() -> None:
    name = "change_case:capital_word_frequency"
    for text, count in (("DON'T PANIC, I said", 4), ("NASA and ESA (EU)", 3), ("None", 0)):
        given_ = {"capital_frequency": count, "capital_relation": "at least"}
        assert followed(name, text, **given_)
        assert not followed(name, text, **{**given_, "capital_frequency": count + 1})


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("language:response_language", {"language": "tlh"}, "language: not a language"),
        ("language:response_language", {}, "language: not a language"),
        ("keywords:existence", {}, "keywords: not a list of words"),
        ("keywords:existence", {"keywords": ["("]}, "keywords: not a regular expression"),
        ("keywords:frequency", {"keyword": "a", "frequency": -1}, "frequency: not between 0 and"),
        ("keywords:frequency", {"keyword": "a", "frequency": 1.5}, "frequency: not a whole number"),
        ("detectable_content:number_placeholders", {}, "num_placeholders: not a whole number"),
        ("length_constraints:number_words", {"num_words": 1, "relation": "about"}, "relation: an"),
        ("length_constraints:number_sentences", {"num_sentences": 1.5}, "num_sentences: not a"),
        (
            "change_case:capital_word_frequency",
            {"capital_frequency": 1, "capital_relation": "x"},
            "capital_relation: an unknown relation",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_named(
    name: str, arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ArgumentError, match=problem):
        RULES[name].read(arguments)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("keywords:frequency", {"keyword": "a", "frequency": 2}),
        ("keywords:letter_frequency", {"letter": "a", "let_frequency": 2}),
        ("length_constraints:number_words", {"num_words": 2}),
        ("detectable_content:number_placeholders", {"num_placeholders": 2}),
    ],
)
def test_a_whole_number_may_be_written_as_a_float(name: str, arguments: dict[str, Any]) -> None:
    """As tables write a column of whole numbers with gaps."""
    floats = {
        key: float(value) if isinstance(value, int) else value for key, value in arguments.items()
    }
    for said in ("[a] a [b] a", "[a]", "b"):
        assert followed(name, said, **arguments) == followed(name, said, **floats)


def test_a_prompt_of_several_instructions_is_judged_one_by_one(bench: Any) -> None:
    asked = [
        {"id": "change_case:english_lowercase", "kwargs": {"num_words": None}},
        {"id": "detectable_format:json_format"},
        {"id": "length_constraints:number_sentences", "kwargs": {"num_sentences": 1}},
    ]
    ended = bench.judge("instructions", '{"a": "the cat."}', {"instructions": asked})
    assert ended.reward == 1.0
    deep = "[" * 900 + "]" * 900
    ended = bench.judge("instructions", deep, {"instructions": asked[1:2]})
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 1.0)
    deep = "[" * 200_000
    ended = bench.judge("instructions", deep, {"instructions": asked[1:2]})
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
    with pytest.raises(InvalidRequest, match="language"):
        bench.judge(
            "instructions",
            "x",
            {"instructions": [{"id": "language:response_language", "kwargs": {"language": "x"}}]},
        )


SLOW = (r"(a+)+$", r"(\w+\s?)+$", "(x+x+)+y", r"([a-z]+)*\d$", "(.*)*q{3}")


@pytest.mark.parametrize("keyword", SLOW)
@pytest.mark.parametrize("name", ["existence", "forbidden_words", "frequency"])
def test_a_reference_with_a_slow_keyword_is_refused_by_name(
    tmp_path: Any, name: str, keyword: str
) -> None:
    given = {
        "existence": {"keywords": ["cat", keyword]},
        "forbidden_words": {"forbidden_words": [keyword]},
        "frequency": {"keyword": keyword, "frequency": 1},
    }[name]
    asked = [
        {"id": "punctuation:no_comma", "kwargs": {}},
        {"id": f"keywords:{name}", "kwargs": given},
    ]
    bench = LocalPipelines(scratch=tmp_path, verifiers=VerifierSettings(match_cpu_s=0.4))
    for response in ("cat", ""):
        told = bench.judge("instructions", response, {"instructions": asked})
        assert (told.outcome, told.reward) == (Outcome.REJECTED_INVALID, None)
        assert told.evidence.error.startswith(f"reference.instructions[1].kwargs: keywords:{name}")


def test_a_response_that_makes_a_keyword_slow_breaks_a_limit_and_others_are_judged(
    tmp_path: Any,
) -> None:
    asked = [{"id": "keywords:existence", "kwargs": {"keywords": ["(?:q|Q)(?:zz?)+[?]"]}}]
    bench = LocalPipelines(scratch=tmp_path, verifiers=VerifierSettings(match_cpu_s=0.4))
    reference = {"instructions": asked}
    assert bench.judge("instructions", "qz?", reference).reward == 1.0
    slow = bench.judge("instructions", "q" + "z" * 90, reference)
    assert (slow.outcome, slow.evidence.verdict) == (Outcome.RESOURCE_LIMIT, "cpu_limit")
    assert slow.evidence.error == "keywords:existence: more than 0.4 s of CPU time"
    assert bench.judge("instructions", "cat", reference).reward == 0.0


@pytest.mark.parametrize("keyword", ["climate.*change", "colou?r+", "cat|dog", "a{2}", "C++"])
def test_a_keyword_that_repeats_something_is_not_slow_for_that(bench: Any, keyword: str) -> None:
    asked = [{"id": "keywords:existence", "kwargs": {"keywords": [keyword]}}]
    response = "The climate will change; colorr, dog, aa, C."
    assert bench.judge("instructions", response, {"instructions": asked}).reward == 1.0


@pytest.mark.parametrize("parting", ["", "\n", "\n\n", " ", " \n\t\n"])
def test_what_parts_an_answer_from_a_thought_is_no_part_of_it(bench: Any, parting: str) -> None:
    asked = [{"id": "format:no_whitespace", "kwargs": {}}]
    for thought in ("<think>a b</think>", "a b</think>", "[THINK]a b[/THINK]"):
        for said, reward in (("a-b", 1.0), ("a b", 0.0), ("a\n", 0.0)):
            response = f"{thought}{parting}{said}"
            told = bench.judge("instructions", response, {"instructions": asked})
            assert told.reward == reward, response
    assert bench.judge("instructions", "\na-b", {"instructions": asked}).reward == 0.0
