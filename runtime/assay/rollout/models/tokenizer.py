"""Tokenizers on the host's side, incremental text, and stop strings.

Nothing here runs per token in the worker: the native worker stops by ids, counts and token bytes
(`token_bytes`, passed to a `Runtime` once); text is made on the host from completions.
"""

from __future__ import annotations

import json
import re
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from assay.rollout.models import gguf_file
from assay.rollout.models.chat import ChatTemplate
from assay.rollout.models.errors import CorruptModel, UnsupportedModel, reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import tokenizers

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
ALONE_CHARS_MAX = 4_096
"""Longer texts are encoded in a way that lets other threads run meanwhile."""


class Tokenizer(Protocol):
    """Tokenizer interface of the host."""

    vocab_size: int
    bos_id: int | None
    eos_ids: tuple[int, ...]

    @property
    def piece_bytes_max(self) -> int:
        """Bytes of the longest token's text."""
        ...

    def encode(self, text: str, *, bos: bool = False) -> list[int]:
        """Token ids; special tokens written out in the text are recognised."""
        ...

    def decode(self, ids: list[int]) -> str:
        """Text, without special tokens; incomplete UTF-8 becomes U+FFFD."""
        ...

    def token_bytes(self, vocab_size: int) -> list[bytes]:
        """Bytes that each of the model's ids adds to the text; empty for special and unused ids."""
        ...


class HuggingFaceTokenizer:
    """A `tokenizers.Tokenizer` with the model's ids and chat template."""

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        bos_id: int | None,
        eos_ids: tuple[int, ...],
        chat_template: str | None = None,
        named: Mapping[str, str] | None = None,
    ) -> None:
        """`named`: special tokens by the names that chat templates use, such as `bos_token`."""
        self._backend = backend
        self.vocab_size = backend.get_vocab_size(with_added_tokens=True)
        self.bos_id = bos_id
        self.eos_ids = eos_ids
        self.chat_template = chat_template
        self._named = dict(named or {})

    @cached_property
    def piece_bytes_max(self) -> int:
        """Of the longest token, as its vocabulary writes it."""
        vocab = self._backend.get_vocab(with_added_tokens=True)
        return max((len(piece.encode()) for piece in vocab), default=1)

    def encode(self, text: str, *, bos: bool = False) -> list[int]:
        if len(text) <= ALONE_CHARS_MAX:
            found = self._backend.encode(text, add_special_tokens=False)
        else:
            [found] = self._backend.encode_batch([text], add_special_tokens=False)
        ids = list(found.ids)
        return [self.bos_id, *ids] if bos and self.bos_id is not None else ids

    def decode(self, ids: list[int]) -> str:
        return str(self._backend.decode(ids, skip_special_tokens=True))

    def token_bytes(self, vocab_size: int) -> list[bytes]:
        spec = json.loads(self._backend.to_str())
        special = {token["id"] for token in spec["added_tokens"] if token["special"]}
        plain = {token["id"] for token in spec["added_tokens"] if not token["special"]}
        to_bytes = _byte_level if "ByteLevel" in json.dumps(spec["decoder"]) else _sentence_piece
        table = [b""] * vocab_size
        for piece, token in self._backend.get_vocab(with_added_tokens=True).items():
            if token < vocab_size and token not in special:
                table[token] = piece.encode() if token in plain else to_bytes(piece)
        return table

    @cached_property
    def boundaries(self) -> tuple[str, ...]:
        """Special tokens at which a text can be cut: its parts, encoded one by one, give its ids.

        Empty where that is not certain: a tokenizer that adds a space before a text.
        """
        spec = json.loads(self._backend.to_str())
        before = json.dumps([spec["normalizer"], spec["pre_tokenizer"]])
        if '"ByteLevel"' not in before or '"add_prefix_space": true' in before:
            return ()
        flags = ("lstrip", "rstrip", "single_word", "normalized")
        return tuple(
            token["content"]
            for token in spec["added_tokens"]
            if token["special"] and not any(token[flag] for flag in flags)
        )

    @cached_property
    def template(self) -> ChatTemplate | None:
        """The compiled chat template.

        Raises:
            InvalidRequest: the model's template is not one.
        """
        if self.chat_template is None:
            return None
        return ChatTemplate(self.chat_template, tokens=self._named)

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The prompt of a conversation ({"role", "content"} each), ready for the response."""
        if self.template is None:
            raise UnsupportedModel("this model comes without a chat template")
        return self.template.render(messages)


def _byte_alphabet() -> dict[str, int]:
    """Characters that byte-level BPE writes bytes with: printable ones represent themselves, the
    others are numbered from 256."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTE_OF = _byte_alphabet()


def _byte_level(piece: str) -> bytes:
    return bytes(_BYTE_OF[char] for char in piece)


def _sentence_piece(piece: str) -> bytes:
    """A piece with its own sign for a space; a byte that is not a character is written <0x0A>."""
    if len(piece) == 6 and piece.startswith("<0x"):
        return bytes([int(piece[3:5], 16)])
    return piece.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode()


def read_hugging_face(folder: Path) -> HuggingFaceTokenizer:
    """From tokenizer.json, with ids and template from config.json and tokenizer_config.json.

    Raises:
        UnsupportedModel: there is no tokenizer.json.
        CorruptModel: it is no tokenizer.
        OSError: a file cannot be read.
    """
    from tokenizers import Tokenizer as Backend

    file = folder / "tokenizer.json"
    if not file.exists():
        raise UnsupportedModel(f"{folder} holds no {file.name}")
    with reading(file.name):
        backend = Backend.from_str(file.read_text("utf-8"))
    config = _json(folder / "config.json")
    more = _json(folder / "tokenizer_config.json")
    generation = _json(folder / "generation_config.json")
    eos = generation.get("eos_token_id", config.get("eos_token_id"))
    eos_ids = [eos] if isinstance(eos, int) else list(eos or [])
    named = more.get("eos_token")
    named = named.get("content") if isinstance(named, dict) else named
    named_id = backend.token_to_id(named) if named else None
    if named_id is not None and named_id not in eos_ids:
        eos_ids.append(named_id)
    return HuggingFaceTokenizer(
        backend,
        bos_id=config.get("bos_token_id"),
        eos_ids=tuple(eos_ids),
        chat_template=_chat_template(folder, more.get("chat_template")),
        named=_named(more),
    )


def _chat_template(folder: Path, configured: Any) -> str | None:  # noqa: ANN401 - JSON
    """A file of its own, a text, or a list of named ones."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text("utf-8")
    if isinstance(configured, list):
        by_name = {one.get("name"): one.get("template") for one in configured}
        configured = by_name.get("tool_use") or by_name.get("default")
    return configured if isinstance(configured, str) else None


def _named(config: Mapping[str, Any]) -> dict[str, str]:
    """Special tokens of tokenizer_config.json, each a text or an object with its `content`."""
    found = {}
    for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
        token = config.get(name)
        content = token.get("content") if isinstance(token, dict) else token
        if isinstance(content, str):
            found[name] = content
    return found


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.is_file() else {}


# Splitting rules by GGUF's name for them, as in the models' own tokenizer.json.
_GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2_WORDS = _LLAMA3_WORDS.replace(r"\p{N}{1,3}", r"\p{N}")
_WORDS = {
    "gpt-2": [_GPT2_WORDS],
    "default": [_GPT2_WORDS],
    "smollm": [r"\p{N}", _GPT2_WORDS],
    "llama-bpe": [_LLAMA3_WORDS],
    "qwen2": [_QWEN2_WORDS],
}
_CONTROL, _USER_DEFINED = 3, 4


def read_gguf(path: Path) -> HuggingFaceTokenizer:
    """Byte-level BPE from a GGUF file's metadata."""
    from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Backend

    file = gguf_file.open_gguf(path)
    metadata = file.metadata
    kind, words = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2" or words not in _WORDS:
        raise UnsupportedModel(
            f"GGUF tokenizer {kind}/{words}: gpt2 with {sorted(_WORDS)} is known"
        )
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    if len(tokens) != len(kinds):
        raise CorruptModel("tokenizer.ggml.tokens and token_type differ in length")
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    backend = Backend(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    splits = [
        pre_tokenizers.Split(Regex(word), behavior="isolated", invert=False)
        for word in _WORDS[words]
    ]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])
    backend.decoder = decoders.ByteLevel()
    typed = list(zip(tokens, kinds, strict=True))
    backend.add_special_tokens([AddedToken(t, normalized=False) for t, k in typed if k == _CONTROL])
    backend.add_tokens([AddedToken(t, normalized=False) for t, k in typed if k == _USER_DEFINED])
    return HuggingFaceTokenizer(
        backend,
        bos_id=metadata.get("tokenizer.ggml.bos_token_id"),
        eos_ids=gguf_file.eos_ids(metadata),
        chat_template=metadata.get("tokenizer.chat_template"),
        named={
            f"{name}_token": tokens[metadata[key]]
            for name in ("bos", "eos")
            if isinstance(metadata.get(key := f"tokenizer.ggml.{name}_token_id"), int)
        },
    )


def text_bytes_max(tokenizer: Tokenizer, tokens_max: int) -> int:
    """Bytes of the longest text that this many tokens can be: what is longer is not encoded."""
    return tokens_max * tokenizer.piece_bytes_max


class PartEncoder:
    """Encodes texts whose parts come again, as in conversations that grow by a message.

    A text is cut at the tokenizer's `boundaries`; ids of parts are kept, the last used ones.
    """

    PARTS_MAX = 4_096
    PART_CHARS_MAX = 8_192
    """A longer part is not kept."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        cuts = sorted(getattr(tokenizer, "boundaries", ()), key=len, reverse=True)
        self._tokenizer = tokenizer
        self._cut = re.compile("(" + "|".join(map(re.escape, cuts)) + ")") if cuts else None
        self._kept = lru_cache(maxsize=self.PARTS_MAX)(self._encoded)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, as `Tokenizer.encode` gives them."""
        if self._cut is None:
            return self._tokenizer.encode(text)
        ids: list[int] = []
        for part in self._cut.split(text):
            if part:
                short = len(part) <= self.PART_CHARS_MAX
                ids += self._kept(part) if short else self._encoded(part)
        return ids

    @cached_property
    def ends(self) -> dict[str, int]:
        """Stop tokens at which a text can be cut, by their text."""
        found = {
            cut: self._tokenizer.encode(cut) for cut in getattr(self._tokenizer, "boundaries", ())
        }
        stops = [[token] for token in self._tokenizer.eos_ids]
        return {cut: ids[0] for cut, ids in found.items() if ids in stops}

    def is_one_part(self, text: str) -> bool:
        """Whether a text has no token at which it is cut."""
        return self._cut is not None and self._cut.search(text) is None

    def _encoded(self, part: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(part))


class TextStream:
    """Text of a growing list of tokens; `push` returns the text that is final.

    Characters whose bytes span tokens are held back until complete. Only the tail since the last
    final text is decoded again, so the cost of a stream is linear.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._context = 0
        self._certain = 0

    def push(self, *tokens: int) -> str:
        """New text after these tokens; may be empty."""
        self._ids += tokens
        before = self._shown()
        now = self._tokenizer.decode(self._ids[self._context :])
        if now.endswith(_REPLACEMENT) or len(now) <= len(before):
            return ""
        self._context, self._certain = self._certain, len(self._ids)
        return now[len(before) :]

    def flush(self) -> str:
        """The text held back, with U+FFFD for incomplete characters."""
        if self._certain == len(self._ids):
            return ""
        before = self._shown()
        now = self._tokenizer.decode(self._ids[self._context :])
        self._context = self._certain = len(self._ids)
        return now[len(before) :]

    def _shown(self) -> str:
        """The end of the final text, which the tokens after it are decoded with."""
        ids = self._ids[self._context : self._certain]
        return self._tokenizer.decode(ids) if ids else ""


class StopStrings:
    """Finds the first stop string in streamed text, also across pieces.

    `push` returns text that can no longer be part of a stop string. Once `matched` is set, it
    returns nothing more; the stop string itself is never returned.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if any(not stop for stop in stops):
            raise ValueError("a stop string must not be empty")
        self._stops = tuple(stops)
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> str:
        """Add text; return what is safe to show."""
        if self.matched is not None:
            return ""
        self._held += text
        found = [(at, stop) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            at, self.matched = min(found, key=lambda pair: (pair[0], -len(pair[1])))
            safe, self._held = self._held[:at], ""
            return safe
        keep = self._could_begin()
        safe, self._held = self._held[: len(self._held) - keep], self._held[-keep:] if keep else ""
        return safe

    def flush(self) -> str:
        """The text held back because a stop string might begin in it."""
        held, self._held = self._held, ""
        return held

    def _could_begin(self) -> int:
        """Length of the longest end of the held text that begins a stop string."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for n in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-n:]) for stop in self._stops):
                return n
        return 0
