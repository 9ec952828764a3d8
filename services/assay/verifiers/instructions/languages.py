"""The language of a text, among those that IFEval asks for. Pure, linear in the text.

Writing decides first: most languages have a script of their own. Those that share one differ in
letters and in their most frequent words, which are counted alike. There is no model and no chance
in it, so a verdict does not change from run to run. `docs/datasets.md` says how often it is right.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from assay.verifiers.instructions.language import listed
from assay.verifiers.instructions.vocabulary import WORDS, likeness

_KANA_SHARE_MIN: Final = 0.05
"""Of the characters of a Japanese text, at least."""
_FEW_WORDS_MAX: Final = 8
_FEW_HAN_MAX: Final = 10
_DOUBT: Final = 0.2
"""By so much a text in plain letters looks more like a language than like English."""
_KIN: Final = 0.6
"""By so much it may look more like another one: Spanish and Portuguese share words."""
_SIMPLIFIED: Final = frozenset(
    "\u4eec\u8fd9\u8bf4\u65f6\u5bf9\u8fc7\u8fd8\u4e3a\u4e48\u4ece\u52a8\u53d1\u5f00\u95e8\u95ee\u95f4"
    "\u8f66\u4e1c\u9a6c\u9e1f\u9c7c\u9f99\u4e66\u7535\u8bdd\u8bed\u8c22\u89c1\u4e70\u5356\u7ea2\u7eff"
    "\u70ed\u7231\u73b0\u957f\u5934\u6c14\u6837\u89c9\u8ba9\u8ba4\u8bc6\u8bf7\u8c01\u8bfe\u8fb9\u8fdc"
    "\u8fdb\u8fd0\u96be\u5e08\u5e26\u5e94\u8be5\u603b\u94b1\u94c1\u94f6\u9519\u9669\u9898\u98de\u996d\u9986"
)
"""Characters that Japanese writes in another way."""
_LATIN, _ARABIC, _CYRILLIC, _DEVANAGARI = "latin", "arabic", "cyrillic", "devanagari"
_HAN, _KANA = "han", "kana"
_SCRIPTS: Final[Mapping[str, str]] = {
    _LATIN: r"A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff",
    _CYRILLIC: r"\u0400-\u052f",
    _ARABIC: r"\u0620-\u064a\u066e-\u06d3\u06fa-\u06ff\u0750-\u077f",
    _DEVANAGARI: r"\u0900-\u097f",
    _HAN: r"\u3400-\u4dbf\u4e00-\u9fff",
    _KANA: r"\u3041-\u30ff",
    "el": r"\u0370-\u03ff",
    "he": r"\u05d0-\u05ea",
    "bn": r"\u0980-\u09ff",
    "pa": r"\u0a00-\u0a7f",
    "gu": r"\u0a80-\u0aff",
    "ta": r"\u0b80-\u0bff",
    "te": r"\u0c00-\u0c7f",
    "kn": r"\u0c80-\u0cff",
    "ml": r"\u0d00-\u0d7f",
    "th": r"\u0e01-\u0e4e",
    "ko": r"\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3",
}
"""Character ranges; a script of one language has the code of the language."""
_LETTERS: Final = re.compile("|".join(f"(?P<{name}>[{of}])" for name, of in _SCRIPTS.items()))
_WORD: Final = re.compile(r"[^\W\d_]+(?:[\u0300-\u036f\u0900-\u0903\u093a-\u094f]+[^\W\d_]*)*")
_OWN_LETTERS: Final[Mapping[str, Mapping[str, str]]] = {
    _LATIN: {
        "vi": "ăđơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
        "pl": "ąćęłńśźż",
        "de": "ß",
        "fr": "œèêëîûù",
        "es": "ñ",
        "pt": "ãõ",
    },
    _ARABIC: {"ur": "ٹڈڑںھہےۓپچژگکی", "fa": "پچژگکی", "ar": "ةكيىأإ"},
    _CYRILLIC: {"uk": "іїєґ", "ru": "ыэё", "bg": "ъ"},
    _DEVANAGARI: {"mr": "ळ"},
}
_WORDS: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    _LATIN: {
        "en": listed(
            "the of and to in is that it for you was with on are as this be have from or had "
            "by not but what were we when your can there an which their they i my me he she "
            "his her our its will would how all if been has who at so do no yes more about "
            "out up one them then hello where why know very just get like make want good"
        ),
        "de": listed(
            "der die und das ist nicht ich du sie wir ein eine einen einem einer zu den dem "
            "des mit auf für im sich auch es von wie aber oder wenn ja nein kann sind war "
            "haben wird bei nach so noch nur mehr hat werden sein ihre ihr uns über zum zur "
            "dass als an aus hallo wo wann wer was warum hier heute sehr gut muss müssen "
            "können"
        ),
        "fr": listed(
            "le la les des et est un une du que qui dans pour pas sur au aux avec ce ces "
            "cette il elle nous vous ils je tu ne se son sa ses par plus mais ou où être "
            "avoir sont été comme tout leur leurs oui non bonjour votre notre mon ma mes à "
            "quand quoi comment très bien aussi fait dit peut faire aujourd hui"
        ),
        "es": listed(
            "el la los las de que y en un una es por con para no se su sus lo como más pero "
            "al del le ha me si sin sobre este esta ya entre cuando todo ser son dos también "
            "fue había era muy hasta desde nos durante está están hola nuestro nuestra qué sí "
            "cómo dónde cuándo quién cuál porque aquí hoy bien hacer puede tiene"
        ),
        "pt": listed(
            "o a os as de que e em um uma é por com para não se seu sua seus suas do da dos "
            "das no na nos nas ao à mais mas como foi ele ela eles isso este esta já quando "
            "muito também são está ser tem até você nós meu minha olá sim pelo pela onde quem "
            "qual porque hoje aqui fica bem fazer pode deste desta neste nesta senhor senhora"
        ),
        "it": listed(
            "il lo la i gli le di che e è in un una uno per con non si sono del della dei "
            "delle nel nella al alla ai da dal dalla su come più ma anche questo questa ha "
            "hanno essere molto quando se io tu noi voi loro suo sua ciao sì perché dove chi "
            "cosa oggi qui bene fare può mio mia questi quella quello sta"
        ),
        "fi": listed(
            "ja on ei se että hän oli ovat ole tämä olen joka mutta kun niin myös kuin sen "
            "minä sinä me te he mitä tai jos kanssa hyvä hyvin voi vain sitten nyt mukaan "
            "jotka koska vielä ollut olla kaikki siitä tämän olemme hei kyllä missä mikä "
            "miksi kuinka paljon aina täällä siellä jossa onko minun sinun hänen meidän "
            "teidän tänä veljeni hänelle minulla tässä tuo nämä nuo menin olin olit"
        ),
        "pl": listed(
            "i w na z do nie się to jest że jak o ale co za po tak od przez dla czy był była "
            "są tego być już tylko może ja ty my wy oni jego jej ich który która które oraz "
            "przy pod bardzo ze a u cześć jestem mnie gdzie kiedy kto dlaczego dziś tutaj "
            "dobrze mój moja tej tym można trzeba"
        ),
        "vi": listed(
            "và của là có không cho các một với được những này trong để người như khi tôi bạn "
            "anh em đã sẽ rất cũng nhiều từ về tại ở đó thì hay vì nên chúng ta đến ra vào "
            "lên biết nào gì ai sao hôm nay đi món ăn"
        ),
        "sw": listed(
            "na ya wa kwa ni katika za la kuwa cha hii huo hiyo yake wake hayo lakini pia "
            "kama au sana ambayo ambao watu mtu si siyo ndiyo hapana mimi wewe sisi wao yeye "
            "kila hadi baada kabla hivyo vya zaidi ili yetu wetu yao habari kutoka kuna "
            "hakuna yangu wangu leo sasa hivi vile nini wapi ndani juu tu siku kazi mambo "
            "wakati"
        ),
        "nl": listed(
            "de het een en van is dat niet op te zijn voor met ik je hij aan er maar om ook als "
            "bij uit naar wel nog geen heeft wordt deze dit wat zo hebben worden"
        ),
        "sv": listed(
            "och att det som en på är av för med den till inte har om ett men jag du vi han "
            "från så var kan eller ska också när där"
        ),
        "da": listed(
            "og at det som en på er af for med den til ikke har om et men jeg du vi han fra så "
            "var kan eller skal også når der"
        ),
        "id": listed(
            "yang dan di dengan untuk tidak ini itu dari dalam akan pada juga saya ke karena "
            "ada kami kita mereka atau sebagai adalah oleh bisa"
        ),
        "tr": listed(
            "ve bir bu da de için ile çok ne ben sen biz daha gibi olarak var ama en o mi olan "
            "kadar sonra değil her"
        ),
        "ro": listed(
            "și în de la cu pe nu un o este care din mai pentru să ce că sunt al se au dar sau "
            "fi prin"
        ),
    },
    _DEVANAGARI: {
        "hi": listed(
            "है हैं का की के में और से को पर नहीं यह वह था थी थे एक हो भी तो कि जो लिए करने "
            "कर ने इस उस अपने साथ हम आप मैं मेरे या हूँ हूं गया होता बहुत कहाँ क्या कौन कब "
            "कैसे रहा रही रहे सकते सकता"
        ),
        "mr": listed(
            "आहे आहेत आणि हे ही हा तो ती ते मी तू आपण च्या साठी मध्ये नाही नाहीत होते होता "
            "होती या व पण तर काय असे कि की एक खूप मला तुम्ही आम्ही त्या त्यांच्या आपल्या करा "
            "करण्यासाठी म्हणून कुठे माझ्या माझा माझी आज केले केली गेले"
        ),
        "ne": listed(
            "छ छन् हो र मा को लाई ले पनि यो त्यो हामी म तपाईं गर्न गर्ने गरेको भएको छैन थियो "
            "एक हुन् हुन्छ धेरै अनि तर हाम्रो मेरो यस तथा लागि गर्नुहोस् बारे भने कहाँ आज गरे "
            "भयो"
        ),
    },
    _CYRILLIC: {
        "ru": listed(
            "и в не на что я с он как это по но они мы все из для так был вы к у за от то "
            "была были быть этот эта эти его её их мне вас нас где когда если или очень уже "
            "только можно нет да"
        ),
        "uk": listed(
            "і в не на що я з він як це та але вони ми для був ви у за від до про є й також "
            "була були бути цей ця ці його її їх мені вас нас де коли якщо або дуже вже "
            "тільки можна ні так"
        ),
        "bg": listed(
            "и в не на че аз с той като това за но те ние от да се е са ще до по най има си "
            "тази този тези няма може беше бях съм сме сте как къде какво много ли само след "
            "бъде"
        ),
    },
    _ARABIC: {
        "ar": listed(
            "في من على إلى أن هذا هذه التي الذي لا ما هو هي مع كان عن أو و كل بعد قد ذلك هل "
            "أين كيف جدا أنا"
        ),
        "fa": listed(
            "و در به از که این را با است برای آن یک تا خود می بر هم نیز شده ما شما من اما "
            "رفتم کجاست خیلی چه"
        ),
        "ur": listed(
            "کے کی میں ہے اور سے کا کو ہیں نے پر یہ کہ ایک وہ بھی نہیں تھا لیے ہم آپ تو جو "
            "کیا کہاں بہت آج"
        ),
    },
}
LANGUAGES: Final = frozenset(
    {"ja", "zh"}.union(name for name in _SCRIPTS if len(name) == 2).union(
        *map(set, _WORDS.values())
    )
)
"""Codes of all known languages."""


def language(text: str, *, words_min: int = 1) -> str | None:
    """The ISO 639-1 code of the language most of the text is in.

    `None` if fewer than `words_min` words tell it, or two languages equally. Of languages that
    share another script than the Latin one, the most widely used is taken then.
    """
    counts = _letters(text)
    if not counts:
        return None
    script = _script(counts)
    if script in {_HAN, _KANA}:
        han = counts[_HAN] + counts[_KANA]
        return "ja" if counts[_KANA] >= _KANA_SHARE_MIN * han else "zh"
    if script != _LATIN:
        return _likeliest(script, text.lower())[0] if script in _WORDS else script
    said, score = _likeliest(script, text.lower())
    return said if score >= words_min else None


def may_be(text: str, code: str) -> bool:
    """Whether a text of a few words that does not tell its language may be in this one.

    Of the Latin script: two languages have equal evidence and it is one of them, or none has any
    and the words look like this language and not like English. Of another script: nothing tells
    them apart. A few characters of Han may be Japanese, unless they are simplified ones.
    """
    words, counts = _WORD.findall(text.lower()), _letters(text)
    if not counts or len(words) > _FEW_WORDS_MAX:
        return False
    script = _script(counts)
    if script in {_HAN, _KANA}:
        is_han = counts[_HAN] <= _FEW_HAN_MAX and not counts[_KANA]
        return code == "ja" and is_han and not _SIMPLIFIED & set(text)
    if code not in _WORDS.get(script, ()):
        return False
    scores = _scores(script, text.lower())
    best = max(scores.values())
    tied = [one for one, score in scores.items() if score == best]
    if best and code in tied:
        return True
    if script != _LATIN:
        return not best
    return len(tied) > 1 and code in WORDS and _looks_like(text, code)


def _looks_like(text: str, code: str) -> bool:
    like = {one: likeness(text, one) for one in WORDS}
    english = like.pop("en")
    if code == "en":
        return text.isascii() and english >= max(like.values()) - _DOUBT
    apart = english + (_DOUBT if text.isascii() else 0)
    return like[code] >= apart and like[code] >= max(like.values()) - _KIN


def _letters(text: str) -> Counter[str]:
    """How many letters of each script there are."""
    return Counter(found.lastgroup or "" for found in _LETTERS.finditer(text))


def _script(counts: Counter[str]) -> str:
    """The script that most letters are of; `_HAN` if those of Han and kana are more together."""
    script = max(counts, key=lambda name: counts[name])
    return _HAN if counts[_HAN] + counts[_KANA] > counts[script] else script


def has_letters(text: str) -> bool:
    """Whether there is anything to tell a language by."""
    return any(map(str.isalpha, text))


def _likeliest(script: str, text: str) -> tuple[str | None, int]:
    """The language of a script with the most evidence, and how much; the first of equal ones.

    Two of the Latin script with equal evidence: none is returned.
    """
    scores = _scores(script, text)
    best = max(scores.values())
    said = [code for code, score in scores.items() if score == best]
    return (said[0] if len(said) == 1 or script != _LATIN else None), best


def _scores(script: str, text: str) -> dict[str, int]:
    scores: dict[str, int] = {}
    for code, weight in _evidence(script, text):
        scores[code] = scores.get(code, 0) + weight
    return scores


def _evidence(script: str, text: str) -> Iterator[tuple[str, int]]:
    words = Counter(_WORD.findall(text))
    for code, frequent in _WORDS[script].items():
        yield code, sum(words[word] for word in frequent & words.keys())
    for code, letters in _OWN_LETTERS.get(script, {}).items():
        if count := sum(map(text.count, letters)):
            yield code, count
