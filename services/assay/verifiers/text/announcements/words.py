"""Words that announce an answer, and what joins them to it.

Two tables and their product: every word with every joint. `ANSWERS` name the answer itself, in any
place of a sentence. `RESULTS` also name what a step arrives at, so they announce an answer only at
the beginning of a clause, directly before a value and nothing else. `OPTIONS` name one of several
values, as results do, in a response that says of none that it is the answer.
"""

import re
from typing import Final

ANSWERS: Final = (
    *("answer", "ans", "r\u00e9ponse", "reponse", "antwort", "respuesta", "risposta", "resposta"),
    *("antwoord", "odpowied\u017a", "odpowiedz", "odpov\u011b\u010f", "svar", "r\u0103spuns"),
    *("v\u00e1lasz", "vastaus", "cevap", "yan\u0131t", "jawaban", "\u0111\u00e1p \u00e1n"),
    *("\u0111\u00e1p s\u1ed1", "\u03b1\u03c0\u03ac\u03bd\u03c4\u03b7\u03c3\u03b7"),
    *("\u043e\u0442\u0432\u0435\u0442", "\u0432\u0456\u0434\u043f\u043e\u0432\u0456\u0434\u044c"),
    *("\u7b54\u6848", "\u7b54\u3048", "\u89e3\u7b54", "\u56de\u7b54", "\u6b63\u89e3"),
    *(
        "\ub2f5",
        "\u0627\u0644\u0625\u062c\u0627\u0628\u0629",
        "\u0627\u0644\u062c\u0648\u0627\u0628",
    ),
    *(
        "\u0909\u0924\u094d\u0924\u0930",
        "\u05ea\u05e9\u05d5\u05d1\u05d4",
        "\u067e\u0627\u0633\u062e",
    ),
)
RESULTS: Final = (
    *("solution", "result", "conclusion", "outcome", "final value", "final number", "final output"),
    *("correct value", "correct number", "correct output", "final response", "r\u00e9sultat"),
    *(
        "resultat",
        "l\u00f6sung",
        "ergebnis",
        "soluci\u00f3n",
        "resultado",
        "soluzione",
        "risultato",
    ),
    *(
        "solu\u00e7\u00e3o",
        "resultaat",
        "oplossing",
        "wynik",
        "v\u00fdsledek",
        "sonu\u00e7",
        "hasil",
    ),
    *("k\u1ebft qu\u1ea3", "\u0440\u0435\u0437\u0443\u043b\u044c\u0442\u0430\u0442"),
    *("\u0440\u0435\u0448\u0435\u043d\u0438\u0435", "\u0438\u0442\u043e\u0433", "\u7ed3\u679c"),
    *("\u7d50\u679c", "\uacb0\uacfc", "\u0627\u0644\u0646\u062a\u064a\u062c\u0629"),
)
OPTIONS: Final = (
    *("option", "possibility", "possible value", "candidate", "alternative", "guess", "attempt"),
    *("estimate", "possible answer", "opci\u00f3n", "m\u00f6glichkeit", "possibilit\u00e9"),
    *("\u9009\u9879", "\u53ef\u80fd"),
)
_IS: Final = (
    r"is(?:[ ]equal[ ]to)?|are|equals|(?P<modal>(?:will|should|must|has[ ]to)[ ]be)"
    r"|comes[ ](?:out[ ])?(?:to(?:[ ]be)?|as)|turns[ ]out[ ]to[ ]be|becomes|est|vaut|lautet|ist"
    r"|betr\u00e4gt|es|\u00e8|\u00e9|igual[ ]a|brzmi|wynosi|je|zn\u00ed|\u00e4r|er|este"
    r"|l\u00e0|adalah|\u0440\u0430\u0432\u0435\u043d|\u0440\u0430\u0432\u043d\u043e|\u044d\u0442\u043e"
    r"|\u0647\u064a|\u0647\u0648|\u05d4\u05d9\u05d0|\u03b5\u03af\u03bd\u03b1\u03b9"
)
_UNSPACED_IS: Final = (
    "\u5e94\u8be5\u662f|\u5e94\u4e3a|\u662f|\u4e3a|\u7b49\u4e8e|\u306f|\u3067\u3059"
    "|\uc740|\ub294|\uc774|\uac00"
)
_SIGNS: Final = (
    r"[:\uff1a](?!:)|=(?!=)|\u2192|\u21d2|\u27f6|->|=>|\\(?:long)?(?:right|Right)arrow(?![a-z])"
)
_ADJECTIVES: Final = (
    r"finale?|definitiva|corr?ec?t[ae]|correcte?|exacte?|exacta|esatta"
    r"|\u0627\u0644\u0646\u0647\u0627\u0626\u064a\u0629"
)
_MARKS: Final = r"[*_`\"' \t]"
_NUMBERED: Final = r"(?:[ ]?(?:\(\w{1,3}\)|#?\d{1,2}|[a-h](?=[ ]?[:=|])))?"
_ENDINGS: Final = r"(?:\(s\)|s|en|et|nya|ul)?"
_OF: Final = (
    r"(?:[ ](?:to|of|for)[ ](?:the|this|that|your|our)[ ]"
    r"(?:question|problem|exercise|task|equation))?"
)
_LINES: Final = r"(?:\n(?:[ \t]*\|[ \t|:-]*\|)?[ \t]*){1,3}"
"""To a line below, in a table over the line that ends its head."""
JOINT: Final = re.compile(
    rf"{_ENDINGS}(?![^\W\d_\u3040-\u9fff\uac00-\ud7af])"
    rf"(?:[ ](?:{_ADJECTIVES}))?{_NUMBERED}{_OF}{_MARKS}{{0,4}}"
    rf"(?:(?P<sign>{_SIGNS})|\s(?P<verb>{_IS})(?![\w'])[ \t]?:?|(?P<close>>)"
    rf"|(?P<unspaced>{_UNSPACED_IS})\s?[:\uff1a]?"
    rf"|(?P<heading>\|?[ \t*_]{{0,4}}{_LINES}(?:\|[ \t]*)?(?=\S))|(?P<cell>\|)"
    r"|(?P<dash>[-\u2013](?=[ ])|\u2014|[\])\u3011~\u2026]|[.;,](?=[ ])|\.{2,3}))",
    re.IGNORECASE,
)
"""From the end of a word to the value. The last three state something only on a line that begins
with the word."""
LEAD: Final = re.compile(
    r"[^\w\n]{0,12}(?:(?:the|my|our|so|thus|hence|then|therefore|finally|final|correct|right|exact"
    r"|numerical|overall|first|second|third|last|other|another|in|summary|conclusion|to|this|is|that"
    r"|la|le|les|notre|ma|votre|die|das|der|unsere|meine|end|el|los|mi|il|mia|o|a|minha|het|mijn|de"
    r"|\u6700\u7ec8|\u6700\u7d42|\u6b63\u786e|\u6240\u4ee5|\uc815|\ucd5c\uc885|\u043c\u043e\u0439"
    r"|\u043f\u0440\u0430\u0432\u0438\u043b\u044c\u043d\u044b\u0439)(?:[^\w\n]|_){0,4}|_){0,6}",
    re.IGNORECASE,
)
"""What may stand before the word, from the beginning of its clause."""
CLAUSE_BEGINS: Final = re.compile(r"[.!?;\u3002]\s|,\s{0,9}(?=[\"'])")
"""Each member of an object of JSON is one, too."""
