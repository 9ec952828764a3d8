"""`reward_model.local`: a tiny random classifier of transformers, really run."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.config.settings import LocalRewardModel, VerifierSettings
from assay.core.outcome import Outcome
from assay.verifiers.reward_model.local import LocalModelHandler, ModelError, batches

if TYPE_CHECKING:
    from assay.verifiers.port import Work

WORDS = ["[PAD]", "[UNK]", "the", "a", "good", "bad", "answer", "is", "42", "user", "assistant"]
TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama with random weights and a tokenizer of words, in transformers' own form."""
    torch = pytest.importorskip("torch", reason="the extra `reward-model` is not installed")
    transformers = pytest.importorskip("transformers", reason="needs the extra `reward-model`")
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    made = tmp_path_factory.mktemp("model")
    words = Tokenizer(WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(made)
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        num_labels=2,
        pad_token_id=0,
        initializer_range=1.0,
    )
    transformers.LlamaForSequenceClassification(config).save_pretrained(made)
    return made


@pytest.fixture
def bench(folder: Path, new_bench: Any) -> Any:
    small = LocalRewardModel(path=folder, batch_tokens_max=40)
    gone = LocalRewardModel(path=folder / "nothing")
    with new_bench(VerifierSettings(reward_models={"rm": small, "gone": gone})) as made:
        yield made


def test_a_score_is_the_models_own(bench: Any, folder: Path) -> None:
    import torch
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    ids = [WORDS.index(word) for word in ("good", "answer", "the", "answer", "is", "42")]
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids])).logits[0].tolist()
    task = {"model": "rm", "template": "{question} {response}"}
    row = {"question": "good answer"}
    ended = bench.judge("reward_model.local", "the answer is 42", row, **task)
    assert (ended.outcome, ended.rescorable) == (Outcome.SCORED, False)
    assert ended.reward == pytest.approx(logits[0], abs=1e-4)
    other = bench.judge("reward_model.local", "the answer is 42", row, label=1, scale=2.0, **task)
    assert other.reward == pytest.approx(2 * logits[1], abs=1e-4)


def test_the_chat_template_is_the_tokenizers(bench: Any) -> None:
    row, text = {"question": "good"}, "user {question} assistant {response}"
    chat = bench.judge("reward_model.local", "the answer", row, model="rm", chat=True)
    told = bench.judge("reward_model.local", "the answer", row, model="rm", template=text)
    assert chat.reward == pytest.approx(told.reward, abs=1e-4)


def test_a_score_does_not_depend_on_what_it_is_batched_with(bench: Any) -> None:
    """Texts of all lengths in one call, and each alone."""
    texts = [" ".join(WORDS[2 + (at * n) % 9] for n in range(1 + at % 20)) for at in range(32)]
    alone = [bench.judge("reward_model.local", text, {}, model="rm").reward for text in texts]
    works: list[Work] = [bench.work("reward_model.local", one, {}, model="rm") for one in texts]
    handler = LocalModelHandler(bench._context)
    together = [verdict.reward for verdict in handler.run(works)]  # type: ignore[union-attr]
    assert together == pytest.approx(alone, abs=1e-4)
    assert len({round(reward, 3) for reward in alone}) > 10


def test_texts_beyond_the_models_positions_are_a_limit_and_never_cut(bench: Any) -> None:
    long = bench.judge("reward_model.local", "good " * 65, {}, model="rm")
    assert (long.outcome, long.evidence.verdict) == (Outcome.RESOURCE_LIMIT, "too_long")
    works = [
        bench.work("reward_model.local", t, {}, model="rm") for t in ("good", "a " * 99, "bad")
    ]
    verdicts = LocalModelHandler(bench._context).run(works)
    assert [verdict.outcome.value for verdict in verdicts] == [  # type: ignore[union-attr]
        "SCORED",
        "RESOURCE_LIMIT",
        "SCORED",
    ]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"model": "unknown"}, "no 'unknown'"),
        ({"model": "gone"}, "nothing"),
        ({"model": "rm", "label": 2}, "label"),
    ],
)
def test_a_model_that_cannot_judge_is_a_failure_and_never_a_reward(
    bench: Any, task: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        bench.judge("reward_model.local", "good", {}, **task)


def test_a_score_that_is_not_finite_is_a_failure(
    folder: Path, new_bench: Any, tmp_path: Path
) -> None:
    import shutil

    import torch

    files = pytest.importorskip("safetensors.torch")
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    weights = files.load_file(broken / "model.safetensors")
    weights["score.weight"] = torch.full_like(weights["score.weight"], float("nan"))
    files.save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    settings = VerifierSettings(reward_models={"rm": LocalRewardModel(path=broken)})
    with new_bench(settings) as bench, pytest.raises(ModelError, match="not finite"):
        bench.judge("reward_model.local", "good", {}, model="rm")


def test_without_the_extra_the_failure_names_it(
    new_bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    settings = VerifierSettings(reward_models={"rm": LocalRewardModel(path=tmp_path)})
    with new_bench(settings) as bench, pytest.raises(ModelError, match=r"assay\[reward-model\]"):
        bench.judge("reward_model.local", "good", {}, model="rm")


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 120))
def test_batches_hold_each_text_once_within_their_bound(lengths: list[int], most: int) -> None:
    groups = list(batches(lengths, most))
    assert sorted(at for group in groups for at in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or max(lengths[at] for at in group) * len(group) <= most
