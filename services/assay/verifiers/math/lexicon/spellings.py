r"""Spellings in plain text and rarer LaTeX, with the normalised spelling of each.

Regular expressions that are applied in this order; all are linear in the text.
"""

import re
from fractions import Fraction
from typing import Final

from assay.verifiers.math.lexicon.units import COUNTERS

_SYSTEM: Final = re.compile(
    r"(?:(?:\\left\s?)?\\\{\s*)?\\begin\{"
    r"(?P<kind>cases|aligned|align\*?|gathered|split|array)\}(?:\{[clr| ]*\})?"
    r"(?P<rows>(?:(?!\\(?:begin|end)\{).|(?!))*+)\\end\{(?P=kind)\}",
    re.DOTALL,
)
_CONTINUES: Final = re.compile(r"=|<|>|\\(?:approx|le|ge|leq|geq)(?![A-Za-z])")
_BASIS: Final = re.compile(
    r"\\(?:mathbf|boldsymbol|bm|textbf|vec|hat|widehat|overrightarrow|mathbf)\s*"
    r"(?:\{\s*(?:\\(?:mathbf|boldsymbol|bm|vec|hat)\s*\{?\s*)?\\?([ijk])(?:math)?\s*\}(?:\s*\})?"
    r"|\s\\?([ijk])(?:math)?(?![A-Za-z]))"
)
"""Unit vectors; `\\imath` and `\\jmath` too."""


_DEGREE_SIGN: Final = r"(?:\^\s?\{?\s?\\circ(?![A-Za-z])\s?\}?|\u00b0|\^?\s?\\degree(?![A-Za-z]))"
_DEGREES: Final = rf"-?\d{{1,9}}(?:\.\d{{1,9}})?\s?{_DEGREE_SIGN}"
_TURNED: Final = re.compile(
    r"(?a)\\(?P<of>sin|cos|tan|cot|sec|csc)(?P<power>\s?\^\s?\{?\d\}?)?\s?"
    rf"(?:\(\s?(?P<a>{_DEGREES})\s?\)|\{{\s?(?P<b>{_DEGREES})\s?\}}|(?P<c>{_DEGREES}))"
)
"""A trigonometric function of degrees, which is a number."""
_CIS: Final = re.compile(
    r"(?a)(?:\\(?:operatorname|text|mathrm)\s?\{\s?cis\s?\}|\\cis(?![A-Za-z])"
    r"|(?<![A-Za-z\\])cis(?![A-Za-z]))"
    rf"\s{{0,4}}(?:\((?P<a>[^()]{{1,99}})\)|\{{(?P<b>[^{{}}]{{1,99}})\}}"
    rf"|(?P<c>-?[\d.]{{1,18}}\s?{_DEGREE_SIGN})"
    r"|(?P<d>-?\d{0,9}\\frac\s?\{[^{}]{1,40}\}\s?\{[^{}]{1,40}\}(?:\s?\\pi)?)"
    r"|(?P<e>-?[\d.]{0,18}\s?\\pi(?:\s?/\s?\d{1,9})?))"
)
"""`r \\operatorname{cis} \\theta`."""
_DEGREE_SIGN_AT_END: Final = re.compile(rf"\s?{_DEGREE_SIGN}\s?$")
_SIZED: Final = re.compile(r"\\(?:left|right)\s?(?=[()])")
_BRACED_POWER: Final = re.compile(r"(?a)\^\{(-?\d)\}")
_IN_DEGREES: Final = re.compile(rf"(?a)^\s?(-?[\d.]{{1,18}})\s?{_DEGREE_SIGN}\s?$")


def _radians(match: re.Match[str]) -> str:
    turn = _DEGREE_SIGN_AT_END.sub("", match["a"] or match["b"] or match["c"])
    return f"\\{match['of']}{match['power'] or ''}(\\frac{{{turn} \\pi}}{{180}})"


def _polar(match: re.Match[str]) -> str:
    """`\\cos t + i \\sin t`."""
    angle = next(filter(None, match.group("a", "b", "c", "d", "e"))).strip()
    turn = _IN_DEGREES.fullmatch(angle)
    if turn is not None:
        angle = f"\\frac{{{turn[1]} \\pi}}{{180}}"
    return f"(\\cos({angle}) + i \\sin({angle}))"


def _listed(match: re.Match[str]) -> str:
    """A system of equations as a list; a row that begins with a sign continues the last one."""
    rows = match["rows"]
    if "=" not in rows or (match["kind"] == "cases" and "&" in match["rows"]):
        return match[0]
    parts: list[str] = []
    said = (re.sub(r"\\?&", " ", row).strip(" ,;\n") for row in rows.split("\\\\"))
    for row in filter(None, said):
        if parts and _CONTINUES.match(row):
            parts[-1] = f"{parts[-1]} {row}"
        else:
            parts.append(row)
    return ", ".join(parts)


_CHINESE_BOUNDS: Final = (
    (
        r"\u5927\u4e8e(?:\u6216)?\u7b49\u4e8e|\u4e0d\u5c0f\u4e8e|\u4e0d\u5c11\u4e8e|\u4e0d\u4f4e\u4e8e|\u81f3\u5c11(?:\u662f|\u4e3a)?",
        "\\ge ",
    ),
    (
        r"\u5c0f\u4e8e(?:\u6216)?\u7b49\u4e8e|\u4e0d\u5927\u4e8e|\u4e0d\u591a\u4e8e|\u4e0d\u9ad8\u4e8e|\u4e0d\u8d85\u8fc7|\u81f3\u591a(?:\u662f|\u4e3a)?",
        "\\le ",
    ),
    (r"(?<!\u4e0d)(?:\u5927\u4e8e|\u591a\u4e8e|\u8d85\u8fc7)", "> "),
    (r"(?<!\u4e0d)(?:\u5c0f\u4e8e|\u5c11\u4e8e)", "< "),
)
_POWERS: Final = {
    "hundred": 2,
    "thousand": 3,
    "lakh": 5,
    "million": 6,
    "crore": 7,
    "billion": 9,
    "trillion": 12,
}
_SCALED: Final = re.compile(
    r"(?a)(?<![\w.,])(?P<value>\d{1,15}(?:,\d{3}){0,5}(?:\.\d{1,15})?)(?:\s|~|\\[,;: ]){0,3}"
    r"(?P<open>\\(?:text\w{0,6}|math\w{1,6}|mbox)\s?\{\s?)?"
    rf"(?P<scale>{'|'.join(_POWERS)})s?(?![A-Za-z])(?P<close>\s?\}})?"
)
"""`2.5 million`, `2.5 \\text{ million dollars}`."""


_DOZENS: Final = re.compile(
    r"(?ai)(?<![\w.,/}])(?P<value>\d{1,9}(?:\.\d{1,4})?)(?:\s|~|\\[,;: ]){0,3}"
    r"(?P<open>\\(?:text\w{0,6}|math\w{1,6}|mbox)\s?\{\s?)?dozens?(?:\sof)?(?![A-Za-z])(?P<close>\s?\})?"
)
"""`3 dozen eggs`, `3 \\text{ dozen}`: an amount, and no unit that may be left out."""


def _in_ones(match: re.Match[str]) -> str:
    count = Fraction(match["value"]) * 12
    if count.denominator != 1:
        return match[0]
    return f"{count} " + (match["open"] or "" if not match["close"] else "")


def _between(match: re.Match[str]) -> str:
    sign = "\\le" if match["ends"] else "<"
    return f"{match['low']} {sign} {match['name'] or 'x'} {sign} {match['high']}"


def _power_of_ten(match: re.Match[str]) -> str:
    said = f"{match['value']} \\times 10^{{{_POWERS[match['scale']]}}} "
    if match["open"] and not match["close"]:
        return said + match["open"]
    return said + (match["close"] or "" if not match["open"] else "")


_OHMS: Final = {"m": "milli", "k": "kilo", "M": "mega", "G": "giga"}
_TRANSPOSED: Final = (
    r"\s?\^\s?\{?\s?(?:T|\\top|\\intercal|\\(?:mathrm|text|mathsf)\s?\{\s?T\s?\})\s?\}?\s?$"
)
"""At the end: a vector is the same as a row and as a column."""
_MAPS_TO: Final = r"\\(?:long)?mapsto(?![A-Za-z])"
_LETTERS: Final = r"\(?\s?[A-J]\s?\)?"
_CHINESE_LEAD: Final = re.compile(
    r"^(?:(?:\u6240\u4ee5|\u56e0\u6b64|\u6545|\u5373|\u5219)[,\uff0c]?\s?)?"
    r"(?:\u4e00\u5171\u6709?|\u603b\u5171\u6709?|\u5171\u6709?|\u6709|\u662f|\u7b49\u4e8e)\s?(?=[-\d$\\])"
)
"""`So there are`, in front of a number."""
_CURRENCIES: Final = {"USD": "\\$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹"}
_MYRIADS: Final = {"\u4e07": 4, "\u842c": 4, "\u4ebf": 8, "\u5104": 8}
_AT_LEAST: Final = {
    "greater than or equal to": "\\ge", "at least": "\\ge", "no less than": "\\ge",
    "less than or equal to": "\\le", "at most": "\\le", "no more than": "\\le",
    "greater than": ">", "more than": ">", "less than": "<",
}  # fmt: skip
_BOUND: Final = (
    rf"(?P<sign>{'|'.join(_AT_LEAST)})\s+\$?(?P<bound>-?[\w./\\{{}}]{{1,30}}?)\$?\s*[.]?\s*$"
)
SPELLINGS: Final = (
    (
        re.compile(
            r"(?a)(?<![\w.,])(\d{1,15}(?:\.\d{1,9})?)\s?([\u4e07\u842c\u4ebf\u5104])(?![\u4e07\u842c\u4ebf\u5104\d])"
        ),
        lambda m: f"{m[1]} \\times 10^{{{_MYRIADS[m[2]]}}} ",
    ),
    (
        re.compile(r"^\s*(?:\u65b9\u7a0b)?\u65e0(?:\u5b9e\u6570)?\u89e3[.\u3002]?\s*$"),
        lambda _: "no solution",
    ),
    (re.compile(r"^\s*\\mathbf\s*\{?\s*R\s*\}?\s*$"), lambda _: "\\mathbb{R}"),
    (
        re.compile(rf"^\s*(?:all\s+)?(?:real\s+)?numbers?\s+(?:that\s+(?:is|are)\s+)?{_BOUND}"),
        lambda m: f"x {_AT_LEAST[m['sign']]} {m['bound']}",
    ),
    (
        re.compile(rf"^\s*\$?(?P<name>[a-z])\$?\s+(?:is|must be|has to be)\s+{_BOUND}"),
        lambda m: f"{m['name']} {_AT_LEAST[m['sign']]} {m['bound']}",
    ),
    (
        re.compile(
            r"(?a)(?<![\d,.])(\d{1,9}),(\d{2})(?=\s*(?:\u20ac|euros?(?![a-z])|EUR(?![A-Z])))"
        ),
        lambda m: f"{m[1]}.{m[2]}",
    ),
    (
        re.compile(r"(?a)\u20b9\s?(\d{1,2}(?:,\d{2}){0,5},\d{3})(?![\d,])"),
        lambda m: f"\u20b9{m[1].replace(',', '')}",
    ),
    (
        re.compile(
            r"(?<=[\d}$\u500b\u679a\u5186\uac1c\uba85\uc6d0])\s*"
            r"(?:\u3067\u3059|\uc785\ub2c8\ub2e4|\uc774\ub2e4)[.\u3002]?$"
        ),
        lambda _: "",
    ),
    (
        re.compile(
            r"(?i)^\s*(?:\$?(?P<name>[a-z])\$?\s+(?:is|lies|must be)\s+)?(?:strictly\s+)?"
            r"between\s+\$?(?P<low>[^\s,$]{1,30})\$?\s+and\s+\$?(?P<high>[^\s,$]{1,30}?)\$?"
            r"(?:,?\s*\(?(?:exclusive|(?P<ends>inclusive))\)?)?\s*\.?$"
        ),
        _between,
    ),
    # Chinese: minus, percent, fractions whose denominator stands first.
    (re.compile(r"^\u8d1f(?=\d)"), lambda _: "-"),
    (re.compile(r"\u767e\u5206\u4e4b(\d{1,9}(?:\.\d{1,9})?)(?!\d)"), lambda m: f"{m[1]}%"),
    (
        re.compile(r"(?<![\d\u53c8])(\d{1,9})\u5206\u4e4b(\d{1,9})(?!\d)"),
        lambda m: f"{m[2]}/{m[1]}",
    ),
    (re.compile(r"(?<=\d)\s*\u5186"), lambda _: " \\text{yen}"),
    (
        re.compile(r"(?<=[\w}])\s*\\cup\s*(?=[a-z]\s*(?:[<>]|\\[lg]e))"),
        lambda _: " or ",
    ),
    (
        re.compile(r"(?a)(=\s*-?[\w./\\{}]{1,40})\s*(?:\\q?quad|\\\\(?=\s))\s*(?=[a-z]\s*=)"),
        lambda m: m[0] if "\\begin" in m.string else f"{m[1]}, ",
    ),
    (re.compile(r"(?i)(?<![A-Za-z])per cent(?![A-Za-z])"), lambda _: "percent"),
    (
        re.compile(r"(?ai)(?<![A-Za-z])plus[- ]or[- ]minus\s+(?=[\d\\$(A-Za-z])"),
        lambda _: "\\pm ",
    ),
    (re.compile(r"\\angle\s*([A-Z])(?=\s*=)"), lambda m: m[1]),
    (re.compile(r"\\mathcal\s?\{?\s?([NO])\s?\}?(?=\s?\()"), lambda m: m[1]),
    (re.compile(r"\\[lr]Vert(?![A-Za-z])"), lambda _: "\\|"),
    (re.compile(r"(P\s?\([^()|\\]{1,30}?)\s*\\mid\s*(?![A-Za-z]{2})"), lambda m: f"{m[1]}|"),
    (
        re.compile(r"\\operatorname\s?\{\s?floor\s?\}\s?\(([^()]{1,60})\)"),
        lambda m: f"\\lfloor {m[1]} \\rfloor ",
    ),
    (re.compile(r"\\lg(?![A-Za-z])"), lambda _: "\\log_{10} "),
    (
        re.compile(
            rf"^(?P<open>[\s$]*)(?P<f>[A-Za-z])\s*(?::|\\colon(?![A-Za-z]))\s*(?P<x>[A-Za-z])\s*{_MAPS_TO}"
        ),
        lambda m: f"{m['open']}{m['f']}({m['x']}) = ",
    ),
    (
        re.compile(
            r"^(?P<f>[\s$]*[A-Za-z]\s?\(\s?[A-Za-z]\s?\)\s*)\\equiv(?![A-Za-z])(?!.*mod)", re.DOTALL
        ),
        lambda m: f"{m['f']}= ",
    ),
    (
        re.compile(r"\\(?:thin|med|thick|negthin|no|en)(?:break)?space(?![A-Za-z])\s*"),
        lambda _: "\\,",
    ),
    (
        re.compile(
            r"\\(?:hspace|vspace)\*?\s*\{[^{}]*\}|\\(?:hskip|kern|mkern"
            r"|mskip)\s*-?[\d.]+\s*(?:em|ex|pt|mm|cm|mu)"
        ),
        lambda _: " ",
    ),
    (
        re.compile(r"\\(?:tag\*?|label|vphantom|hphantom)\s*\{[^{}]*\}|\\nonumber(?![A-Za-z])"),
        lambda _: "",
    ),
    (re.compile(r"(\\mathbb\s?\{?R\}?)\s*-\s*(?=\\\{)"), lambda m: f"{m[1]} \\setminus "),
    (
        re.compile(
            r"^\s*\$?(?:\\text\s*\{\s*)?(?:all\s+)?real(?:\s+number)?s\s+except(?:\s+for)?\s*\}?"
            r"\s*\$?\s*([-\w\\{}/.]{1,30}?)\s*\$?\s*$"
        ),
        lambda m: f"\\mathbb{{R}} \\setminus \\{{{m[1]}\\}}",
    ),
    (
        re.compile(
            r"\\(?:left\s*\\)?\{\s*(?P<name>[a-z])\s*(?:\\in\s*\\mathbb\s?\{?R\}?\s*)?"
            r"(?:\\(?:mid|vert)(?![A-Za-z])|\||:)\s*(?P=name)\s*\\neq?(?![A-Za-z])\s*"
            r"(?P<value>[-\w./]{1,20}|-?\\[dt]?frac\s?\{\d{1,9}\}\s?\{\d{1,9}\})\s*\\(?:right\s*\\)?\}"
        ),
        lambda m: f"\\mathbb{{R}} \\setminus \\{{{m['value']}\\}}",
    ),
    (
        re.compile(
            r"(?a)\\equiv\s*\\pm\s*(\d{1,9})(?=\s*(?:\\[pb]?mod|\(\s*(?:\\text\s*\{\s*)?mod))"
        ),
        lambda m: f"\\equiv {m[1]}, -{m[1]} ",
    ),
    (re.compile(rf"^([\[(][^\[\]()]*,[^\[\]()]*[\])]){_TRANSPOSED}"), lambda m: m[1]),
    (
        re.compile(
            r"^\\begin\{([bp]?matrix)\}((?:(?!\\\\|\\begin|\\end).|(?!))*+)\\end\{\1\}"
            + _TRANSPOSED
        ),
        lambda m: f"({m[2].replace('&', ',')})",
    ),
    (
        re.compile(r"\\(?:overrightarrow|vec)\s?\{\s?([A-Z]{2})\s?\}(?=\s?=)"),
        lambda m: m[1],
    ),
    (
        re.compile(
            rf"^\\(?:text|mathrm)(?:bf|rm)?\s?\{{\s?({_LETTERS}"
            rf"(?:\s?(?:,\s?(?:and\s)?|and\s|\\?&)\s?{_LETTERS}){{1,9}})\s?\}}$"
        ),
        lambda m: m[1],
    ),
    (
        re.compile(
            r"\\(?:text|mathrm|mbox)\s?\{\s{0,3}(\u6216\u8005?|\u4e14|\u548c|\u4e0e|\u53ca)\s{0,3}\}"
        ),
        lambda m: m[1],
    ),
    (re.compile(r"(?<=[\w$})\]])\s*\u4e14\s*(?=[\w$\\({\[-])"), lambda _: " and "),
    (
        re.compile(
            r"(?<=[\w$})\]])\s{0,3}(?:\u6216\u8005?|\u548c|\u4e0e|\u53ca)\s{0,3}(?=[\w$\\({\[-])"
        ),
        lambda _: " or ",
    ),
    (
        re.compile(rf"(?<=[}})$])\s?({COUNTERS.pattern})\s?[.\u3002]?$"),
        lambda m: f"\\text{{{m[1]}}}",
    ),
    (_CHINESE_LEAD, lambda _: ""),
    (
        re.compile(
            r"^(?:\u6240\u4ee5|\u56e0\u6b64|\u6545|\u5373|\u5219|\u89e3\u5f97)[,:\uff0c\uff1a]?\s?(?=[$\\A-Za-z(-])"
        ),
        lambda _: "",
    ),
    (re.compile(r"\\smash\s*(?:\[[bt]\])?\s*\{([^{}]*)\}"), lambda m: m[1]),
    (
        re.compile(r"(?a)\\(?:text|mathrm)\s*\{\s*Rs\.?\s*\}\s*(?=\d)|(?<![A-Za-z])Rs\.?\s*(?=\d)"),
        lambda _: "₹",
    ),
    (re.compile(r"\\num\s*\{([^{}]*)\}"), lambda m: m[1]),
    (
        re.compile(r"\\(?:SI|qty)\s*\{([^{}]*)\}\s*\{([^{}]*)\}"),
        lambda m: f"{m[1]} \\text{{{m[2]}}}",
    ),
    (re.compile(r"\\ang\s*\{([^{};]*)\}"), lambda m: f"{m[1]}^\\circ "),
    (re.compile(r"(?a)(?<![A-Za-z])US\s?(?=\\?\$)"), lambda _: ""),
    (
        re.compile(r"(?a)(?<![A-Za-z])(USD|EUR|GBP|JPY|INR)\s*(?=\d)"),
        lambda m: _CURRENCIES[m[1]],
    ),
    (
        re.compile(
            r"(?a)\\(?:text\w{0,6}|math\w{1,6}|mbox)\s?\{\s?(?:US\s?)?(?P<said>USD|EUR|GBP|JPY|INR|\\?[$€£¥₹])"
            r"\s?\}(?:\s|~|\\[,;:! ])*(?=\d)"
        ),
        lambda m: _CURRENCIES.get(m["said"]) or m["said"].replace("\\", "").replace("$", "\\$"),
    ),
    (re.compile(r"\\textdollar(?![A-Za-z])\s?"), lambda _: "\\$"),
    (_SCALED, _power_of_ten),
    (
        # Markdown sets nothing in bold type with spaces on both sides of the mark.
        re.compile(
            r"(?a)(?<=[\w)}\]])\s\*\*\s(-?\d{1,9}(?![\w.])|[A-Za-z](?!\w)|\([^()*]{1,40}\))"
        ),
        lambda m: f"^{{{m[1]}}}",
    ),
    # Chinese bounds before a number, or between a name and a number.
    *(
        (re.compile(rf"(?:{words})\s*(?=-?[\d$\\])"), lambda _, sign=sign: sign)
        for words, sign in _CHINESE_BOUNDS
    ),
    (_DOZENS, _in_ones),
    (re.compile(r"(?a)(?:\^|(?<!\s))\s*\\degree(?![A-Za-z])"), lambda _: "^\\circ "),
    (re.compile(r"\\(?:left|right)\s?\."), lambda _: " "),
    (re.compile(r"\\textcolor\s*\{\w+\}|\\color\s*\{\w+\}|\\phantom\s*\{[^{}]*\}"), lambda _: ""),
    (re.compile(r"\\(?:mathrm|text|operatorname)\s*\{([ei])\}"), lambda m: m[1]),
    (_TURNED, _radians),
    (_SIZED, lambda _: ""),
    (_CIS, _polar),
    (re.compile(r"(?a)\\(?:text|mathrm)\s*\{\s*([-+:])\s*\}"), lambda m: m[1]),
    (re.compile(r"\\(vec|bar|hat)\s+([A-Za-z])(?![A-Za-z])"), lambda m: f"\\{m[1]}{{{m[2]}}}"),
    (
        re.compile(
            r"(?a)\\(?:text|mathrm)\s?\{[A-Za-z /,;\\~^*\d-]{0,40}"
            r"(?:\^\{-?\d\}[A-Za-z /,;\\~^*\d-]{0,40}){1,6}\}"
        ),
        lambda m: _BRACED_POWER.sub(r"^\1", m[0]),
    ),
    (re.compile(r"(?<!\\)\\ "), lambda _: " "),
    (re.compile(r"(?<!\\)\\$"), lambda _: ""),
    (re.compile(r"(?:\\cdot|(?<=\d)\s*\*)\s*i(?![A-Za-z])"), lambda _: " i"),
    (_SYSTEM, _listed),
    (re.compile(r"\\mathbb\s+([A-Z])(?![A-Za-z])"), lambda m: f"\\mathbb{{{m[1]}}}"),
    (_BASIS, lambda m: f"\\basis{m[1] or m[2]} "),
    (
        re.compile(
            r"(?a)(?<![A-Za-z)}\]])(?:\{\s*\})?(?:_\{?(\d+)\}?|\^\{?(\d+)\}?)\s?C_\{?(\d+)\}?"
        ),
        lambda m: f"\\binom{{{m[1] or m[2]}}}{{{m[3]}}}",
    ),
    (re.compile(r"(?a)\\sqrt\s?\[(\d+)\]\s?(\w)"), lambda m: f"\\sqrt[{m[1]}]{{{m[2]}}}"),
    (re.compile(r"(?a)\u221b\s?(\d+|[A-Za-z])"), lambda m: f"\\sqrt[3]{{{m[1]}}}"),
    (re.compile(r"(?a)(?<![\\A-Za-z])cbrt\s?\(([^()]*)\)"), lambda m: f"\\sqrt[3]{{{m[1]}}}"),
    (re.compile(r"\\abs\s?\{([^{}]*)\}"), lambda m: f"|{m[1]}|"),
    (re.compile(r"(?<![\^_A-Za-z])\{\s?-\s?\}"), lambda _: "-"),
    (re.compile(r"(?a)(?<=\d)\{,\}(?=(?:\d{1,2}|\d{4,})(?!\d))"), lambda _: "."),
    (
        re.compile(
            r"\\(?:text|mathrm|rm)\s?\{\s?(?P<a>[kMGm])\s?(?:\}\s?\\Omega(?![A-Za-z])|\\Omega\s?\})"
            r"|(?<=[\d\s~}])(?P<b>[kMG])\s?\\Omega(?![A-Za-z])"
        ),
        lambda m: f" \\text{{{_OHMS[m['a'] or m['b']]}ohm}}",
    ),
    (
        re.compile(r"(?a)(?<=\d)\s*\\?\s?[Oo]hms?(?![A-Za-z])|(?<=[\d ,;}~])\\Omega(?![A-Za-z])"),
        lambda _: " \\text{ohm}",
    ),
    (
        re.compile(
            r"(?<=[\d ,;}~])\\mu\s?(?:\\(?:text|mathrm)\s*\{)?\s?(m|s|g|F|A|L|C|V|W)(?![A-Za-z])\}?"
        ),
        lambda m: f" \\text{{micro{m[1]}}}",
    ),
    (
        re.compile(
            r"(?a)(\d|\})(?:\s|\\,)*\$?\s*(?:\u00b0|\^\s*\{?\\circ\}?)\s*(?:\\(?:text"
            r"|mathrm)\s*\{)?\s?([CF])(?![A-Za-z]|\s*[\^_])\}?"
        ),
        lambda m: f"{m[1]} \\text{{deg{m[2]}}}",
    ),
    (
        re.compile(r"(?a)(?<![\w.])(\d{1,15})\s+out\s+of\s+(\d{1,15})(?![\w.]|\s*\w)"),
        lambda m: f"\\frac{{{m[1]}}}{{{m[2]}}}",
    ),
    (re.compile(r"(?<=[,+])\s*(?:\.{3}|\u2026)"), lambda _: " \\ldots "),
    (
        re.compile(r"(?a)(?<![!\w)}])(\w|\([^()]{1,40}\))!(?=\s?\^)"),
        lambda m: f"({m[1]}!)",
    ),
    (re.compile(r"\\not\s*="), lambda _: "\\neq "),
    (re.compile(r"\\cr(?![A-Za-z])"), lambda _: "\\\\"),
    (re.compile(r"\\\\\[-?[\d.]+\s*(?:pt|em|ex|mm|cm)\]"), lambda _: "\\\\"),
    (
        re.compile(r"(?a)\\[dt]?binom\s?([A-Za-z\d])\s?([A-Za-z\d])(?![A-Za-z\d])"),
        lambda m: f"\\binom{{{m[1]}}}{{{m[2]}}}",
    ),
    (
        re.compile(
            r"(?a)(?<![\w\\+-])([\dA-Za-z+-]{1,12}|\([^()]{1,20}\))\s{1,2}choose\s{1,2}"
            r"([\dA-Za-z+-]{1,12}|\([^()]{1,20}\))(?!\w|\s+[a-z]{2})"
        ),
        lambda m: f"\\binom{{{m[1].strip('()')}}}{{{m[2].strip('()')}}}",
    ),
    (
        re.compile(r"(?a)(?<![\w\\])(\d{0,3}[a-z])C([a-z]|\d{1,2})(?!\w)"),
        lambda m: f"\\binom{{{m[1]}}}{{{m[2]}}}",
    ),
    (re.compile(r"\{([^{}]*)\\choose([^{}]*)\}"), lambda m: f"\\binom{{{m[1]}}}{{{m[2]}}}"),
    (re.compile(r"(?a)(?<=[\w)\]}])\*\*(?=[\w({-])"), lambda _: "^"),
    (re.compile(r"\+\s?/\s?-"), lambda _: "\\pm "),
    (
        re.compile(
            r"(?a)(?<![\\A-Za-z])(ln|log|exp|sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan)"
            r"(?=\s?[({^_\d]|\s(?:\\[a-z]|[A-Za-z](?![A-Za-z])))"
        ),
        lambda m: f"\\{m[1]}",
    ),
    (
        re.compile(
            r"(?a)\\(?:(?:text|mathrm)\s?\{\s?(?:(?P<a>a|arc)?(?P<b>sin|cos|tan|cot|csc|ln|log|exp))\s?\}"
            r"(?=\s?[\\({^_\dA-Za-z])"
            r"|operatorname\s?\{\s?(?P<c>a|arc)?(?P<d>sin|cos|tan|cot|csc|sec|ln|log|exp)\s?\})"
        ),
        lambda m: f"\\{'arc' if m['a'] or m['c'] else ''}{m['b'] or m['d']} ",
    ),
    (re.compile(r"(?a)(?<![\\A-Za-z])sqrt(?=\s?[({\d])"), lambda _: "\\sqrt"),
    (
        re.compile(
            r"(?a)(?<=[\d})])\s?\\text\s?\{\s?(?P<unit>[A-Za-z]{1,12})\s(?P<joiner>and|or)\s?\}(?=\s*[-\d\\])"
        ),
        lambda m: f" \\text{{{m['unit']}}} \\text{{ {m['joiner']} }}",
    ),
    (
        re.compile(
            r"\\(?:mathbb|mathbf|mathrm)\s?\{?\s?R\s?\}?\s?"
            r"(?:_\s?\{?\s?(?:(?P<closed>\\ge(?:q|qslant)?|>=)|>)\s?0\s?\}?|\^\s?\{?\s?\+\s?\}?)"
        ),
        lambda m: f"{'[' if m['closed'] else '('}0, \\infty)",
    ),
    (
        re.compile(
            r"(?a)\\(?:text|math|mbox)\w{0,6}\s*\{\s*[Ii]nfinity\s*\}"
            r"|(?<![\\A-Za-z])(?:[Ii]nfinity|infty)(?![A-Za-z])"
        ),
        lambda _: "\\infty ",
    ),
    (re.compile(r"(?a)(?<![\\A-Za-z])pi(?![A-Za-z])"), lambda _: "\\pi "),
    (re.compile(r"(?a)(?<=[)\]])\s*(?:U|\\text\s?\{\s?U\s?\})\s*(?=[(\[])"), lambda _: "\\cup "),
    (re.compile(r"(?a)\\log_(?:e|\{e\})(?![A-Za-z])"), lambda _: "\\ln "),
    (
        re.compile(r"(?ai)(?<=\d)(?:\s+to\s+|\s?\\text\s?\{\s?to\s?\}\s?)(?=\d)"),
        lambda _: ":",
    ),
    (re.compile(r"(?a)\\pi\s?(?=\(\d{1,9}(?:\.\d{1,9})?\)\s?\^)"), lambda _: "\\pi \\cdot "),
    (
        re.compile(r"(?a)\\root\s?\{?(\d{1,3})\}?\s?\\of\s?(?:\{([^{}]{1,60})\}|(\w))"),
        lambda m: f"\\sqrt[{m[1]}]{{{m[2] or m[3]}}}",
    ),
)
"""Spellings in plain text and rarer LaTeX, with the normalised spelling of each."""
