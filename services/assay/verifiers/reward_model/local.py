"""The stage `reward_model.local`: a sequence classifier that the worker holds itself.

Responses that wait together are padded to batches of similar length, so that a batch has at most
`batch_tokens_max` places. The model sees each text by itself: a score does not depend on what it is
batched with, except for rounding. Only safetensors and tokenizers' own code are loaded.
"""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from assay.config.settings import LocalRewardModel
from assay.core.outcome import Outcome
from assay.core.tools.rewards import weighted_sum
from assay.core.verdict import Component, Ended, Evidence, StageVerdict
from assay.verifiers.judge.asking import question_of, shown
from assay.verifiers.port import HandlerContext, Work, resource_limited
from assay.verifiers.reward_model.calls import filled
from assay.verifiers.reward_model.definition import TEXT_CHARS_MAX

if TYPE_CHECKING:
    from assay.verifiers.reward_model.definition import (
        LocalModelSettings,
        RewardModelReference,
    )

EXTRA: Final = "reward-model"


class ModelError(Exception):
    """The operator's model cannot judge; no response is at fault."""


class LocalModelHandler:
    """Holds each model that a task has named."""

    def __init__(self, context: HandlerContext) -> None:
        self._configured = context.verifiers.reward_models
        self._models: dict[str, Classifier] = {}

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Score all, those of each model together."""
        verdicts: dict[int, StageVerdict] = {}
        for name in dict.fromkeys(work.settings.model for work in works):
            places = [at for at, work in enumerate(works) if work.settings.model == name]
            found = self._judged(name, [works[at] for at in places])
            verdicts |= zip(places, found, strict=True)
        return [verdicts[at] for at in range(len(works))]

    def close(self) -> None:
        """Release the models."""
        self._models.clear()

    def _judged(self, name: str, works: Sequence[Work]) -> list[Ended]:
        model = self._model(name)
        texts = [None if _is_long(one) else _text_of(one, model) for one in works]
        rows = [None if text is None else model.tokens(text) for text in texts]
        fitting = [row for row in rows if row is not None]
        scores = iter(model.scores(fitting))
        return [
            resource_limited(settings=work.settings, evidence=Evidence(verdict="too_long"))
            if row is None
            else _ended(work.settings, next(scores))
            for work, row in zip(works, rows, strict=True)
        ]

    def _model(self, name: str) -> "Classifier":
        """The model of this name.

        Raises:
            ModelError: there is none, or it cannot be loaded.
        """
        if name not in self._models:
            if name not in self._configured:
                raise ModelError(f"verifiers.reward_models: no {name!r}")
            self._models[name] = Classifier(name, self._configured[name])
        return self._models[name]


class Classifier:
    """A sequence classifier of transformers with its tokenizer."""

    def __init__(self, name: str, settings: LocalRewardModel) -> None:
        """Load it.

        Raises:
            ModelError: the extra is missing, or the folder holds no such model.
        """
        self._name = name
        self._settings = settings
        try:
            import torch
            from transformers import AutoModelForSequenceClassification, AutoTokenizer
        except ImportError as error:
            message = f"{name}: pip install 'assay[{EXTRA}]': {error}"
            raise ModelError(message) from error
        self._torch: Any = torch
        folder = str(settings.path)
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            model: Any = AutoModelForSequenceClassification.from_pretrained(
                folder,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=getattr(torch, settings.dtype),
            )
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"{name}: {folder}: {str(error)[:500]}") from error
        self._model: Any = model.to(settings.device).eval()
        # Models without a padding token find the end of each text by its number.
        self._padding = self._tokenizer.pad_token_id
        if self._padding is None:
            self._padding = self._tokenizer.eos_token_id or 0
        self._model.config.pad_token_id = self._padding
        places = getattr(self._model.config, "max_position_embeddings", None)
        self._tokens_max = min(settings.tokens_max, places or settings.tokens_max)

    def chat(self, question: str, response: str) -> str:
        """The conversation in the model's own template.

        Raises:
            ModelError: it has none.
        """
        turns = [
            {"role": "user", "content": question},
            {"role": "assistant", "content": response},
        ]
        if not self._tokenizer.chat_template:
            raise ModelError(f"{self._name}: the tokenizer has no chat template")
        return str(self._tokenizer.apply_chat_template(turns, tokenize=False))

    def tokens(self, text: str) -> list[int] | None:
        """Numbers of its tokens; `None`: more than the model takes."""
        found: list[int] = self._tokenizer(text)["input_ids"] or [self._padding]
        return found if len(found) <= self._tokens_max else None

    def scores(self, rows: Sequence[list[int]]) -> list[list[float]]:
        """The outputs for each text.

        Raises:
            ModelError: one is not finite.
        """
        found: dict[int, list[float]] = {}
        for places in batches([len(row) for row in rows], self._settings.batch_tokens_max):
            outputs = self._outputs([rows[at] for at in places])
            found |= zip(places, outputs, strict=True)
        if not all(math.isfinite(value) for values in found.values() for value in values):
            raise ModelError(f"{self._name}: a score is not finite")
        return [found[at] for at in range(len(rows))]

    def _outputs(self, rows: Sequence[list[int]]) -> list[list[float]]:
        torch, length = self._torch, max(map(len, rows))
        padded = [row + [self._padding] * (length - len(row)) for row in rows]
        mask = [[1] * len(row) + [0] * (length - len(row)) for row in rows]
        device = self._settings.device
        with torch.inference_mode():
            logits = self._model(
                input_ids=torch.tensor(padded, device=device),
                attention_mask=torch.tensor(mask, device=device),
            ).logits
        values: list[list[float]] = logits.float().cpu().tolist()
        return values


def batches(lengths: Sequence[int], tokens_max: int) -> Iterator[list[int]]:
    """Places of texts, grouped by similar length: each group padded has at most `tokens_max`
    tokens, or one text."""
    group: list[int] = []
    longest = 0
    for at in sorted(range(len(lengths)), key=lambda at: lengths[at]):
        longest = max(longest, lengths[at])
        if group and longest * (len(group) + 1) > tokens_max:
            yield group
            group, longest = [], lengths[at]
        group.append(at)
    if group:
        yield group


def _is_long(work: Work) -> bool:
    return len(work.response) > TEXT_CHARS_MAX


def _text_of(work: Work, model: Classifier) -> str:
    settings: LocalModelSettings = work.settings
    reference: RewardModelReference = work.reference
    question, response = question_of(work, reference.question), shown(work.response)
    if settings.chat:
        return model.chat(question, response)
    return filled(settings.template, question, response)


def _ended(settings: "LocalModelSettings", outputs: Sequence[float]) -> Ended:
    if settings.label >= len(outputs):
        raise ModelError(f"label: {settings.label} of {len(outputs)} outputs")
    score = outputs[settings.label]
    return Ended(
        outcome=Outcome.SCORED,
        reward=weighted_sum([(settings.scale, score), (1.0, settings.offset)]),
        evidence=Evidence(verdict="scored"),
        components=(Component(name="score", value=score),),
        rescorable=False,
    )
