"""Names of months and days of the week, in the languages in which answers are written."""

from typing import Final

_ENGLISH: Final = (
    "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul",
    "august aug", "september sep sept", "october oct", "november nov", "december dec",
)  # fmt: skip
_OTHERS: Final = (
    "januar janvier enero gennaio janeiro",
    "februar f\u00e9vrier fevrier febrero febbraio fevereiro",
    "m\u00e4rz maerz mars marzo mar\u00e7o",
    "avril abril aprile",
    "mai mayo maggio maio",
    "juni juin junio giugno junho",
    "juli juillet julio luglio julho",
    "ao\u00fbt aout agosto",
    "septembre septiembre settembre setembro",
    "oktober octobre octubre ottobre outubro",
    "novembre noviembre novembro",
    "dezember d\u00e9cembre decembre diciembre dicembre dezembro",
)
"""German, French, Spanish, Italian and Portuguese, where they are written otherwise."""
MONTHS: Final = {
    name: number
    for listed in (_ENGLISH, _OTHERS)
    for number, names in enumerate(listed, 1)
    for name in names.split()
}
"""In small letters."""
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHORT: Final = ("mon", "tue tues", "wed", "thu thur thurs", "fri", "sat", "sun")
WEEKDAYS: Final = {name: at for at, name in enumerate(_DAYS)} | {
    name: at for at, names in enumerate(_SHORT) for name in names.split()
}
"""In small letters; Monday is 0."""
_WORDS: Final = frozenset({"sat", "sun"})
"""Short names that are also words."""
FULL_DAY: Final = {
    name: _DAYS[at] for name, at in WEEKDAYS.items() if len(name) < 6 and name not in _WORDS
}
