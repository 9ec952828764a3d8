"""Trains a small random model for five steps with TRL's GRPOTrainer on a rollout service.

`in_trl_rollouts.py`: the service of `ASSAY_ROLLOUT_URL` generates with the trainer's weights, the
platform of `ASSAY_URL` judges. Prints, as JSON, rewards and advantages of each step, the policy
versions, and the largest difference between the service's log-probs and those of the trainer's own
model at that step.
"""

import json
import tempfile
from typing import Any

import torch
from datasets import Dataset
from in_trl import GROUP, STEPS, Seen  # type: ignore[import-not-found]  # beside this program
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig

from assay.integrations.trainers.trl import Reward
from assay.integrations.trainers.trl_rollouts import Rollouts

VOCABULARY = 331
TEMPERATURE = 0.9


def tokenizer() -> PreTrainedTokenizerFast:
    """A word per token id."""
    level = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, "w0"))
    level.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=level, pad_token="w0", eos_token="w1", padding_side="left"
    )


def model() -> Qwen3ForCausalLM:
    """The shape of the service's model, with weights of its own: none were pushed yet."""
    torch.manual_seed(11)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=96,
            intermediate_size=176,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=1,
            head_dim=128,
            rms_norm_eps=1e-6,
            rope_theta=10_000.0,
            tie_word_embeddings=True,
            max_position_embeddings=256,
            initializer_range=0.12,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=1,
        )
    )


class Compared(Seen):  # type: ignore[misc]
    """Compares what was sampled with the trainer's own model, before it is trained on it."""

    def __init__(self, **options: Any) -> None:
        self.differences: list[float] = []
        self.versions: list[list[int]] = []
        self.lengths: list[int] = []
        super().__init__(**options)

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        found = super()._generate_and_score_completions(inputs)
        ids = torch.cat([found["prompt_ids"], found["completion_ids"]], dim=1)
        mask = torch.cat([found["prompt_mask"], found["completion_mask"]], dim=1)
        with torch.no_grad():
            logits = self.model(input_ids=ids, attention_mask=mask).logits.float() / TEMPERATURE
        first = found["prompt_ids"].shape[1] - 1
        own = torch.log_softmax(logits[:, first:-1], dim=-1)
        own = own.gather(2, found["completion_ids"].unsqueeze(2)).squeeze(2)
        apart = (own - found["sampling_per_token_logps"]).abs() * found["completion_mask"]
        self.differences.append(float(apart.max()))
        self.lengths.append(int(found["completion_mask"].sum()))
        return found


def main() -> None:
    words, versions = tokenizer(), []
    generate = Rollouts()

    def watched(prompts: Any, trainer: Any) -> dict[str, list[Any]]:
        found = generate(prompts, trainer)
        versions.append(found["policy_version"])
        return found

    with tempfile.TemporaryDirectory() as folder:
        trainer = Compared(
            model=model(),
            rollout_func=watched,
            reward_funcs=Reward("math", reference="answer"),
            args=GRPOConfig(
                output_dir=folder,
                max_steps=STEPS,
                learning_rate=1e-2,  # so that a step without a push of its weights is seen
                per_device_train_batch_size=GROUP,
                num_generations=GROUP,
                max_completion_length=12,
                temperature=TEMPERATURE,
                scale_rewards="none",
                use_cpu=True,
                bf16=False,
                report_to=[],
                save_strategy="no",
                logging_steps=1,
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_dict({"prompt": ["w3 w14 w15"] * 8, "answer": ["5"] * 8}),
            processing_class=words,
        )
        trainer.train()
        generate.close()
    found = {
        "rewards": trainer.rewards,
        "advantages": trainer.advantages,
        "differences": trainer.differences,
        "lengths": trainer.lengths,
        "versions": versions,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
