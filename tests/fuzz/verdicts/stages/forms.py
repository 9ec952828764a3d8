"""Cases of `shape`: responses in the wanted form, and those whose parts only seem to be there."""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected

_SEEN: Final = (
    "so", "2 + 2 = 4", "\\boxed{4}", ".", "思", "a\u200bb", "e\u0301", "\U0001f914", "\ud800x", "<b>", "x" * 5_000, "\ufeff7", "-", "\\", "0\0",
)  # fmt: skip
_UNSEEN: Final = (
    "", " ", "\n\n", "\t", "\u200b", "\u200d\u200c", "\u2060", "\ufeff", "\u00ad", "\u034f", "\u3164", "\u115f\u1160", "\uffa0", "\u2800", "\x07", "\0", "\x1b", "\x7f", "\x85", "\u202e\u202c", "\u2066\u2069", "\u2028",
    "\u00a0", "\u3000", "\ufe0f", "\U000e0020", "\u061c", "\u180e", "\u200b" * 3_000,
)  # fmt: skip
_ENDS: Final = (
    "<|im_end|>",
    "</s>",
    "<|eot_id|>\n",
    " <|endoftext|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)
_MANGLED: Final = (
    "{a}", "<think>{a}", "{a}</think>{b}", "<THINK>{a}</THINK>{b}", "<think>{a}<think>{b}</think>{a}", "<think>{a}</think>{b}</think>{a}", "< think>{a}</think>{b}", "<think>{a}</think >{b}", "\uff1cthink\uff1e{a}\uff1c/think\uff1e{b}",
    "</think>{a}<think>{b}", "{a}<think>{a}</think>{b}", "<thi\u200bnk>{a}</think>{b}", "&lt;think&gt;{a}&lt;/think&gt;{b}", "<think/>{a}{b}",
)  # fmt: skip


def form_case(rng: random.Random) -> Case:
    """A text whose form is right, or has a part that cannot be seen, or has tags of its own."""
    form = rng.choice(("think", "opened_think", "think_answer"))
    kind = rng.choice(("right", "right", "empty", "mangled"))
    thought, answer = rng.choice(_SEEN), rng.choice(_SEEN)
    if kind == "empty":
        thought, answer = rng.choice(
            ((rng.choice(_UNSEEN), answer), (thought, rng.choice(_UNSEEN)))
        )
    ending = rng.choice(_ENDS) if rng.random() < 0.3 else ""
    around = [rng.choice(_UNSEEN[:9]) for _ in range(3)]
    if form == "think_answer":
        text = f"{around[0]}<think>{thought}</think>{around[1]}<answer>{answer}</answer>{around[2]}"
    elif form == "opened_think":
        text = f"{thought}</think>{answer}"
    else:
        text = f"{around[0]}<think>{thought}</think>{answer}"
    if kind == "mangled":
        text = rng.choice(_MANGLED).format(a=thought, b=answer)
        form = "think_answer" if form == "think_answer" else "think"
    text += ending
    return Case(
        pipeline="shape",
        kind=f"{form}: {kind}",
        response=text.encode("utf-8", "surrogatepass"),
        reference={},
        expected=Expected.RIGHT if kind == "right" else Expected.WRONG,
        settings={"form": form},
    )
