"""Small real models: one of random weights, and one that says what a test sets."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import tokenizers
from tests.rollout.engine.exact import random_model

from assay.rollout.models import Model, ModelConfig, Tensor, TensorKind
from assay.rollout.models.tokenizer import HuggingFaceTokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VOCAB = 331
START, END, REPLY, FINAL = "<|im_start|>", "<|im_end|>", "<|reply|>", "<|final|>"
END_ID = 1
CALL = '{"name": "add", "arguments": {"a":2,"b":3}}'
"""Spaced otherwise than a template would write it."""
ANSWER = '<tool_call>{"name": "final_answer", "arguments": {"answer": "5"}}</tool_call>'
PHRASES = ["<tool_call>", CALL, "</tool_call>", ANSWER, "The sum is ", "5.", " Bye.", "STOP"]
TOOL_SCRIPT = {REPLY: ["<tool_call>", CALL, "</tool_call>"], FINAL: [ANSWER]}
TEXT_SCRIPT = {REPLY: ["The sum is ", "5.", " Bye."]}

TEMPLATE = """\
{%- if tools %}<|im_start|>system
{{ tools | tojson }}<|im_end|>
{% endif -%}
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{%- if m.role == 'assistant' -%}
{{ '<|final|>' if loop.index0 and messages[loop.index0 - 1].role == 'tool' else '<|reply|>' }}
{%- else %}{{ '\\n' }}{% endif -%}
{{ m.content }}
{%- for call in m.tool_calls or [] -%}
<tool_call>{{ call.function | tojson }}</tool_call>
{%- endfor -%}
<|im_end|>{{ '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant{{ '<|final|>' if messages[-1].role == 'tool' else '<|reply|>' }}
{%- endif -%}
"""


def tokenizer() -> HuggingFaceTokenizer:
    """Byte-level pairs, four special tokens, and some whole phrases."""
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCAB - len(PHRASES),
        special_tokens=[START, END, REPLY, FINAL],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(["system user assistant tool the sum of and is answer"], trainer)
    backend.add_tokens([tokenizers.AddedToken(one, normalized=False) for one in PHRASES])
    made = HuggingFaceTokenizer(backend, bos_id=None, eos_ids=(END_ID,), chat_template=TEMPLATE)
    assert backend.token_to_id(END) == END_ID
    assert made.vocab_size <= VOCAB
    return made


def random() -> Model:
    """Says anything: bytes that are not text, so that its text never tokenizes to its tokens."""
    return random_model("qwen3")


def scripted(said_after: Mapping[str, Sequence[str]], own: HuggingFaceTokenizer) -> Model:
    """A model whose next token depends on the last one only; greedy, it says these phrases."""
    next_of: dict[int, int] = {}
    for head, phrases in said_after.items():
        steps = [head, *phrases, END]
        for before, after in itertools.pairwise(steps):
            [here], [there] = own.encode(before), own.encode(after)
            assert next_of.setdefault(here, there) == there
    config = ModelConfig(
        dim=96,
        n_layers=1,
        hidden_dim=96,
        vocab_size=VOCAB,
        positions_max=16_384,
        rms_eps=1e-6,
        n_heads=6,
        n_kv_heads=2,
        head_dim=16,
    )
    rng = np.random.default_rng(7)
    tensors: dict[Any, Tensor] = {}
    for kind, layer, shape in config.tensor_shapes():
        values = np.ones(shape) if len(shape) == 1 else np.zeros(shape)
        tensors[kind, layer] = Tensor.of(values)
    embeddings = rng.normal(0, 1, (VOCAB, 96))
    normed = embeddings / np.sqrt((embeddings**2).mean(1, keepdims=True) + 1e-6)
    wanted = np.zeros((len(next_of), VOCAB))
    wanted[np.arange(len(next_of)), list(next_of.values())] = 40.0
    to_logits = (np.linalg.pinv(normed[list(next_of)]) @ wanted).T
    tensors[TensorKind.EMBED, 0] = Tensor.of(embeddings)
    tensors[TensorKind.LM_HEAD, 0] = Tensor.of(to_logits)
    return Model(config, tensors)
