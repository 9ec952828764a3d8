"""Of each instruction of IFEval: arguments, a response that follows it, and ones that do not."""

from typing import Any

Case = tuple[dict[str, Any], str, list[str]]
CASES: dict[str, Case] = {
    "keywords:existence": ({"keywords": ["cat", "dog"]}, "A Cat, a dog", ["a cat", "dog"]),
    "keywords:frequency": (
        {"keyword": "cat", "frequency": 2, "relation": "less than"},
        "one cat",
        ["cat cat", "Cat concat cat"],
    ),
    "keywords:forbidden_words": ({"forbidden_words": ["cat"]}, "concat", ["a CAT", "x cat."]),
    "keywords:letter_frequency": (
        {"letter": "c", "let_frequency": 2, "let_relation": "at least"},
        "Cic",
        ["c", "kk"],
    ),
    "length_constraints:number_words": (
        {"num_words": 3, "relation": "at least"},
        "a b, c",
        ["a b", "a-b"],
    ),
    "length_constraints:number_sentences": (
        {"num_sentences": 3, "relation": "less than"},
        "Dr. Who came. He left at 5 p.m. again.",
        ["One. Two. Three.", "One! Two? Three. Four."],
    ),
    "length_constraints:number_paragraphs": (
        {"num_paragraphs": 2},
        "a\n***\nb",
        ["a", "a***b***c"],
    ),
    "length_constraints:nth_paragraph_first_word": (
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "cat"},
        "a\n\nCat b",
        ["cat\n\nb", "a\n\ncat\n\nb"],
    ),
    "detectable_content:number_placeholders": ({"num_placeholders": 2}, "[a] [b]", ["[a]", "[a"]),
    "detectable_content:postscript": ({"postscript_marker": "P.S."}, "a\nP. S. b", ["PS b"]),
    "detectable_format:constrained_response": ({}, "My answer is no.", ["My answer is No.", "no"]),
    "detectable_format:title": ({}, "<<A title>>\na", ["<A>", "<< >>"]),
    "detectable_format:multiple_sections": (
        {"section_spliter": "Section", "num_sections": 2},
        "Section 1 a Section 2 b",
        ["Section 1", "Section A Section B"],
    ),
    "detectable_format:number_bullet_lists": ({"num_bullets": 2}, "* a\n- b", ["* a", "* a\n" * 3]),
    "detectable_format:number_highlighted_sections": ({"num_highlights": 2}, "*a* *b*", ["*a*"]),
    "detectable_format:json_format": ({}, '```json\n{"a": [1]}\n```', ["{a: 1}", '{"a": 1} b']),
    "combination:repeat_prompt": ({"prompt_to_repeat": "Say a."}, " say A. b", ["b Say a."]),
    "combination:two_responses": ({}, "a ****** b", ["a ****** a", "a b", "a ****** b ****** c"]),
    "startend:end_checker": ({"end_phrase": "The end."}, 'b the END."', ["The end. b"]),
    "startend:quotation": ({}, ' "a" ', ['"a', "a"]),
    "punctuation:no_comma": ({}, "a; b", ["a, b"]),
    "change_case:english_capital": ({}, "THE CAT, 1.", ["The CAT", "LE CHAT EST DANS LA RUE"]),
    "change_case:english_lowercase": ({}, "it's the cat", ["It is", "le chat est dans la rue"]),
    "change_case:capital_word_frequency": (
        {"capital_frequency": 2, "capital_relation": "at least"},
        "The NASA, a USA-EU",
        ["The NASA", "Nasa Usa"],
    ),
    "language:response_language": (
        {"language": "de"},
        "Das ist nicht schwer.",
        ["This is not hard.", "Dat is niet moeilijk voor een mens.", "xyz", "это не трудно"],
    ),
}
