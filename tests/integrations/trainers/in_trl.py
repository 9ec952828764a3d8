"""Trains a small random model for five steps with TRL's GRPOTrainer and Assay's rewards.

Run as a program, so that nothing of TRL reaches the tests' process: `in_trl.py sync|async|method`.
Prints, as JSON, the rewards and the advantages of every step, and TRL's own metric of unscored
samples.
"""

import json
import sys
import tempfile
from typing import Any

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from assay.integrations.trainers.trl import AsyncReward, Reward

WORDS = ["<pad>", "<eos>", *"0123456789", "+", "=", "\\boxed{5}", "what", "is"]
GROUP = 4
STEPS = 5


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


class Seen(GRPOTrainer):  # type: ignore[misc]
    """Remembers the rewards and the advantages of each step."""

    def __init__(self, **options: Any) -> None:
        self.rewards: list[list[float | None]] = []
        self.advantages: list[list[float]] = []
        super().__init__(**options)

    def _calculate_rewards(self, *arguments: Any) -> Any:
        found = super()._calculate_rewards(*arguments)
        self.rewards.append([None if one != one else one for one in found[:, 0].tolist()])
        return found

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        found = super()._generate_and_score_completions(inputs)
        self.advantages.append(found["advantages"].tolist())
        return found


def main(mode: str) -> None:
    reward = (Reward if mode == "sync" else AsyncReward)("math", reference="answer")
    with tempfile.TemporaryDirectory() as folder:
        trainer = Seen(
            model=model(),
            reward_funcs=reward.__call__ if mode == "method" else reward,
            args=GRPOConfig(
                output_dir=folder,
                max_steps=STEPS,
                per_device_train_batch_size=GROUP,
                num_generations=GROUP,
                max_completion_length=4,
                scale_rewards="none",
                use_cpu=True,
                bf16=False,
                report_to=[],
                save_strategy="no",
                logging_steps=1,
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_dict(
                {"prompt": ["what is 2 + 3 ="] * 8, "answer": ["5"] * 8}
            ),
            processing_class=tokenizer(),
        )
        trainer.train()
        shares = [row.get("assay/unscored_share") for row in trainer.state.log_history]
    found = {"rewards": trainer.rewards, "advantages": trainer.advantages, "shares": shares}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
