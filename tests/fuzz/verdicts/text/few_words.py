"""Responses to instructions as models send them: behind thoughts, before marks of a chat template;
answers of a few words in some language; keywords that are regular expressions."""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected
from tests.fuzz.verdicts.text.instructed import FAMILIES

_PHRASES: Final = {
    "es": ("Buenos días", "Muchas gracias", "Feliz cumpleaños", "Claro que sí", "Hasta pronto", "Tortilla española", "Corazón valiente"),
    "fr": ("Merci beaucoup", "Joyeux anniversaire", "Bonsoir madame", "Fromage râpé", "Soupe à l'oignon", "Petit déjeuner", "Bon voyage"),
    "de": ("Vielen Dank", "Guten Morgen", "Frohe Weihnachten", "Schönes Wochenende", "Herzlich willkommen", "Viel Erfolg", "Blaues Haus"),
    "it": ("Grazie mille", "Tanti auguri", "Buona sera", "Gatto nero", "Spaghetti al pomodoro", "Cuore coraggioso", "Arrivederci amici"),
    "pt": ("Muito obrigado", "Feliz aniversário", "Arroz e feijão", "Coração valente", "Tudo bem", "Bom dia", "Cervejas geladas"),
    "pl": ("Dzień dobry", "Wszystkiego najlepszego", "Zupa pomidorowa", "Szerokiej drogi", "Zielone światło", "Kocham cię", "Czarny kot"),
    "vi": ("Chào buổi sáng", "Cảm ơn nhiều", "Mèo đen", "Chúc mừng sinh nhật", "Phở bò", "Chúc may mắn", "Canh chua"),
    "sw": ("Habari za asubuhi", "Asante sana", "Paka mweusi", "Chakula kitamu", "Safari njema", "Karibu nyumbani", "Supu ya nyanya"),
    "fi": ("Hyvää huomenta", "Paljon kiitoksia", "Musta kissa", "Tervetuloa kotiin", "Hyvää matkaa", "Sininen talo", "Rakastan sinua"),
    "ru": ("Доброе утро", "Спасибо", "Чёрный кот"), "uk": ("Доброго ранку", "Дякую", "Чорний кіт"), "bg": ("Добро утро", "Благодаря"),
    "hi": ("धन्यवाद", "नमस्ते"), "ar": ("شكرا", "صباح الخير"), "ja": ("東京", "ありがとう"), "zh": ("谢谢", "早上好"), "ko": ("감사합니다",), "el": ("Καλημέρα",),
}  # fmt: skip
_ENGLISH: Final = ("Good morning", "Happy birthday", "Elephants eat grass", "Fresh lemonade", "Strong coffee", "Kids love pizza", "Winter holidays", "Blue house", "Old castle ruins", "Thank everyone")  # fmt: skip
_THOUGHTS: Final = (("<think>", "</think>"), ("<thinking>\n", "\n</thinking>\n"), ("[THINK]", "[/THINK]"), ("", "</think>\n\n"), ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"))  # fmt: skip
_ENDS: Final = ("", "", "<|im_end|>", "</s>", "<|eot_id|>", "<end_of_turn>\n")
_FACES: Final = ("{}", "{}!", "**{}**", "- {}", "\u201c{}\u201d", "{}.", "# {}")


def few_words_case(rng: random.Random) -> Case:
    """One to three phrases of a language, asked for in it or in one that they are not of."""
    code = rng.choice(list(_PHRASES))
    is_right = rng.random() < 0.6
    asked = code
    if is_right:
        words = rng.sample(_PHRASES[code], min(len(_PHRASES[code]), rng.randint(1, 3)))
    else:
        words = rng.sample(_ENGLISH, rng.randint(1, 3))
        if rng.random() < 0.3:  # another script
            words, asked = [rng.choice(_PHRASES[rng.choice(("ru", "hi", "ko", "el"))])], "es"
    said = rng.choice(_FACES).format(rng.choice((", ", "; ", "\n")).join(words))
    opening, closing = rng.choice(_THOUGHTS)
    before = f"{opening}I think in English, of course.{closing}" if rng.random() < 0.3 else ""
    return Case(
        pipeline="instructions",
        kind=f"few words: {'asked' if is_right else 'other'}",
        response=f"{before}{said}{rng.choice(_ENDS)}",
        reference={
            "instructions": [{"id": "language:response_language", "kwargs": {"language": asked}}]
        },
        expected=Expected.RIGHT if is_right else Expected.WRONG,
    )


def instructed_place_case(rng: random.Random) -> Case:
    """A response of the other generator behind a thought that says the opposite, with an end."""
    name = rng.choice(list(FAMILIES))
    arguments, followed, broken = FAMILIES[name](rng)
    is_right = rng.random() < 0.5
    said, other = (followed, broken) if is_right else (broken, followed)
    kind = rng.choice(("thought", "unended", "plain"))
    opening, closing = rng.choice(_THOUGHTS)
    text = said
    if kind == "thought":
        text = f"{opening}{other}{closing}{said}"
    elif kind == "unended":
        text, is_right = f"{opening or '<think>'}{followed}", False
    return Case(
        pipeline="instructions",
        kind=f"places: {kind}",
        response=text + rng.choice(_ENDS),
        reference={"instructions": [{"id": name, "kwargs": arguments}]},
        expected=Expected.RIGHT if is_right else Expected.WRONG,
    )
