"""Trains a small random model for two steps with TRL's GRPOTrainer and the example as its reward.

Run as a program with the path of the example, so that nothing of TRL reaches the tests' process.
Prints the rewards of every step as JSON: lists with a number, or null where the reward was None.
"""

import importlib.util
import json
import sys
import tempfile
from typing import Any

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

WORDS = ["<pad>", "<eos>", *"0123456789", "+", "=", "\\boxed{5}", "what", "is"]
GROUP = 4


def tokenizer() -> PreTrainedTokenizerFast:
    """One token per word."""
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )


def model() -> LlamaForCausalLM:
    """Two layers, random."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(WORDS),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=1,
        )
    )


def main(path: str) -> None:
    spec = importlib.util.spec_from_file_location("trl_reward", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    seen: list[list[float | None]] = []

    def reward(**arguments: Any) -> list[float | None]:
        seen.append(example.reward(**arguments))
        return seen[-1]

    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model(),
            reward_funcs=reward,
            args=GRPOConfig(
                output_dir=folder,
                max_steps=2,
                per_device_train_batch_size=GROUP,
                num_generations=GROUP,
                max_completion_length=4,
                use_cpu=True,
                bf16=False,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_dict(
                {"prompt": ["what is 2 + 3 ="] * 8, "answer": ["5"] * 8}
            ),
            processing_class=tokenizer(),
        )
        trainer.train()
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
