"""Words of other languages that call a value a wrong answer, or deny that it is the answer.

Fragments of regular expressions, without regard to case. English has its own in
`assay.verifiers.text.denials`.
"""

from typing import Final

WRONG_ANSWER: Final = (
    r"(?:(?:respuesta|soluci\u00f3n|opci\u00f3n|resposta|solu\u00e7\u00e3o|risposta|soluzione)\s"
    r"(?:incorrect[oa]|err\u00f3ne[oa]|errad[oa]|incorret[oa]|sbagliat[oa]|errat[oa]|fals[oa]|equivocad[oa])"
    r"|r\u00e9ponse\s(?:incorrecte|fausse|erron\u00e9e)|(?:mauvaise|fausse)\sr\u00e9ponse"
    r"|(?:falsche|unrichtige|inkorrekte)\s(?:antwort|l\u00f6sung)|(?:fout|verkeerde?|onjuiste?)\santwoord"
    r"|(?:\u043d\u0435\u043f\u0440\u0430\u0432\u0438\u043b\u044c\u043d\u044b\u0439|\u043d\u0435\u0432\u0435\u0440\u043d\u044b\u0439"
    r"|\u043e\u0448\u0438\u0431\u043e\u0447\u043d\u044b\u0439)\s\u043e\u0442\u0432\u0435\u0442"
    r"|(?:b\u0142\u0119dna|z\u0142a|niepoprawna)\sodpowied\u017a|yanl\u0131\u015f\scevap|jawaban\s(?:yang\s)?salah|\u0111\u00e1p\s\u00e1n\ssai"
    r"|\u9519\u8bef\u7684?\u7b54\u6848|\u932f\u8aa4\u7684?\u7b54\u6848|\u9593\u9055\u3063\u305f\u7b54\u3048|\u8aa4\u3063\u305f\u7b54\u3048|\u8aa4\u7b54"
    r"|\uc624\ub2f5|\ud2c0\ub9b0\s?\ub2f5|\u0917\u0932\u0924\s\u0909\u0924\u094d\u0924\u0930)"
)
"""A heading, or the subject of a sentence."""
STATES: Final = (
    r"(?:\s?[:\uff1a]|\s(?:es|est|ist|\u00e8|\u00e9|is|to|adalah|l\u00e0)\b|\s?[\u2014-]\s"
    r"|\s?(?:\u662f|\u4e3a|\u70ba|\u306f|\uc740|\ub294))"
)
"""Between such words and the value."""
NOT_BEFORE: Final = (
    r"(?:\bno\s(?:es|son|vale|puede\sser)|\bn['\u2019]est\spas|\bne\s(?:vaut|sera)\spas"
    r"|\b(?:ist|lautet|sind|betr\u00e4gt)\snicht|\bnon\s(?:\u00e8|sono|pu\u00f2\sessere)|\bn\u00e3o\s(?:\u00e9|s\u00e3o)|\b(?:(?:is|zijn)\s)?niet\b|\bnicht\b"
    r"|(?<!\w)\u043d\u0435(?:\s(?:\u0440\u0430\u0432\u0435\u043d|\u0440\u0430\u0432\u043d\u043e|\u044f\u0432\u043b\u044f\u0435\u0442\u0441\u044f))?"
    r"|\b(?:to\s)?nie(?:\sjest)?|\bkh\u00f4ng\sph\u1ea3i(?:\sl\u00e0)?|\bbukan(?:lah)?|(?<!\w)\u0644\u064a\u0633\u062a?"
    r"|\u4e0d(?:\u662f|\u7b49\u4e8e|\u53ef\u80fd\u662f|\u5e94\u8be5\u662f|\u5e94\u662f|\u4e3a)|\u5e76\u975e)"
    r"(?:\s?(?:la|el|le|les|il|lo|a|o|die|der|das|den|het|de|opci\u00f3n|option))?"
)
"""Directly before a value."""
NOT_BEHIND: Final = (
    r"(?:\s?(?:\u3067\u306f?|\u3058\u3083)(?:\u3042\u308a\u307e\u305b\u3093|\u306a\u3044|\u306a\u304f|\u306a\u3057)"
    r"|\s?(?:\uc740|\ub294|\uc774|\uac00)?\s?\uc544(?:\ub2c8|\ub2d9|\ub2d8|\ub2cc)|\s?\u0928\u0939\u0940\u0902|\sde\u011fil"
    r"|\s?\u662f?(?:\u4e0d\u6b63\u786e|\u4e0d\u5bf9|\u9519\u8bef\u7684?|\u9519\u7684?|\u4e0d\u662f(?:\u6b63\u786e)?\u7b54\u6848)"
    r"|\s(?:es|est|\u00e9|\u00e8|ist|est\u00e1|is)\s(?:incorrect[oae]|fals[oa]|falsch|faux|fausse|incorrecte|incorret[oa]|errad[oa]|errat[oa]"
    r"|sbagliat[oa]|err\u00f3ne[oa]|onjuist|fout|nicht\s(?:richtig|die)|pas\s(?:correcte?|la)|no\s(?:correct[oa]|la))\b"
    r"|\s(?:no\ses|n['\u2019]est\spas|n\u00e3o\s\u00e9|non\s\u00e8)\s(?:correct[oae]|la|a\s|correcte|corret[oa]|corrett[oa])"
    r"|\s?[\u2014-]?\s?\u043d\u0435(?:\u0432\u0435\u0440\u043d\w+|\u043f\u0440\u0430\u0432\u0438\u043b\u044c\u043d\w+))"
)
"""Directly behind a value."""
PARTS: Final = (
    *("fals", "falsch", "fauss", "mauvais", "errad", "errat", "sbagl", "equivoc", "unrich"),
    *("nkorrek", "fout", "verkeerd", "onjuist", "\u0142", "yanl", "salah", " sai", "\u9519\u8bef"),
    *("\u932f\u8aa4", "\u9593\u9055", "\u8aa4", "\uc624\ub2f5", "\ud2c0\ub9b0", "\u0917\u0932"),
    *("\u043d\u0435", "\u043e\u0448\u0438", "no ", "n\u2019est", "n'est", "ne ", "nicht", "non "),
    *("n\u00e3o", "niet", "nie", "kh\u00f4ng", "bukan", "\u0644\u064a\u0633", "\u4e0d", "\u5e76"),
    *("erron", "err\u00f3n", "niepo", "z\u0142a"),
)
"""One of them is in each text before a value that these patterns find."""
