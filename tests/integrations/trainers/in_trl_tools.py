"""Trains a small random model that calls tools, for five steps, with TRL's GRPOTrainer.

`in_trl_tools.py environment|ors URL`: the environment is Assay's adapter, or TRL's own
`OpenRewardSpec` for the URL of a platform. Each token of the model is a whole call of the tool
`submit`, so that a random model submits. Prints rewards and advantages of each step as JSON.
"""

import json
import sys
import tempfile
from typing import Any

from datasets import Dataset
from in_trl import GROUP, STEPS, Seen  # type: ignore[import-not-found]  # beside this program
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig
from trl.chat_template_utils import qwen3_chat_template

SPECIAL = ["<pad>", "<unk>", "<|im_start|>", "<|im_end|>"]
ANSWERS = ["\\boxed{5}", "\\boxed{6}"]


def call(argument: str, answer: str) -> str:
    """A call in the form of Qwen 3."""
    said = json.dumps({"name": "submit", "arguments": {argument: answer}})
    return f"<tool_call>\n{said}\n</tool_call>"


def tokenizer(said: list[str]) -> PreTrainedTokenizerFast:
    """One token for each that the model says, the last ones; other words are unknown."""
    words = [*SPECIAL, "user", "assistant", "tool", *said]
    level = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    level.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(
        tokenizer_object=level,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
        padding_side="left",
    )
    made.chat_template = qwen3_chat_template
    return made


def model(vocabulary: int) -> LlamaForCausalLM:
    """Two layers, random."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            pad_token_id=0,
            eos_token_id=3,
            bos_token_id=3,
        )
    )


def environment(kind: str, url: str) -> tuple[dict[str, Any], str]:
    """The trainer's options for rewards, and the name of the tool's argument."""
    if kind == "ors":
        from trl.experimental.openreward import OpenRewardSpec

        spec = OpenRewardSpec(url, env_name="sums.tool", num_tasks=1)
        options = {
            "train_dataset": spec.train_dataset.select([0] * 8),
            "environment_factory": spec.environment_factory,
            "reward_funcs": spec.reward_funcs,
        }
        return options, "response"
    from assay.integrations.trainers.trl import SubmitEnvironments

    rows = {"prompt": [[{"role": "user", "content": "2 + 3?"}]] * 8, "answer": ["5"] * 8}
    factory = SubmitEnvironments("math", reference="answer", step_size=GROUP)
    return {"train_dataset": Dataset.from_dict(rows), "environment_factory": factory}, "answer"


def main(kind: str, url: str = "") -> None:
    options, argument = environment(kind, url)
    words = tokenizer([call(argument, one) for one in ANSWERS])
    first = len(words) - len(ANSWERS)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Seen(
            model=model(len(words)),
            args=GRPOConfig(
                output_dir=folder,
                max_steps=STEPS,
                per_device_train_batch_size=GROUP,
                num_generations=GROUP,
                max_completion_length=64,
                max_tool_calling_iterations=1,
                generation_kwargs={"suppress_tokens": list(range(first)), "max_new_tokens": 1},
                scale_rewards="none",
                use_cpu=True,
                bf16=False,
                report_to=[],
                save_strategy="no",
                logging_steps=1,
                disable_tqdm=True,
            ),
            processing_class=words,
            **options,
        )
        trainer.train()
    print(json.dumps({"rewards": trainer.rewards, "advantages": trainer.advantages}))


if __name__ == "__main__":
    main(*sys.argv[1:])
