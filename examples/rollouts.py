"""K rollouts of one prompt, decoded by the persistent worker, scored by a running platform.

    pip install -e '.[rollout]'
    ./run up &
    python examples/rollouts.py MODEL --prompt "What is 2 + 3?" --answer 5 [--k 8]

MODEL is a Hugging Face folder or a GGUF file of a chat model. The group's prompt is prefilled once;
each response goes to the reward service as soon as it ends, while its siblings go on.
"""

import argparse
from pathlib import Path

from assay.client import Request, SyncClient
from assay.rollout.interface.rollouts import Sampling
from assay.rollout.local.options import RuntimeOptions
from assay.rollout.local.runtime import Runtime
from assay.rollout.models import Engine, load_model, load_tokenizer
from assay.rollout.models.tokenizer import HuggingFaceTokenizer

WAIT_S = 5.0


def rollouts(chosen: argparse.Namespace, client: SyncClient) -> None:
    """Decode and score one group, and show it."""
    tokenizer = load_tokenizer(chosen.model)
    if not isinstance(tokenizer, HuggingFaceTokenizer):
        raise SystemExit("the model comes without a chat template")
    prompt = tokenizer.encode(tokenizer.chat([{"role": "user", "content": chosen.prompt}]))
    settings = {"strategies": ["last_number"]}
    task = client.register_task("example", pipeline="math", settings=settings)
    batch = client.open_batch(task, size=chosen.k, group_size=chosen.k)
    options = RuntimeOptions(seq_len_max=len(prompt) + chosen.tokens)
    with (
        Engine.create(load_model(chosen.model)) as engine,
        Runtime(engine, slots=chosen.k, options=options) as runtime,
    ):
        refs = runtime.submit(
            prompt,
            max_tokens=chosen.tokens,
            seeds=range(chosen.k),
            sampling=Sampling(temperature=0.8, top_p=0.95),
            stop_ids=tokenizer.eos_ids,
        )
        submitted = 0
        while submitted < chosen.k:
            runtime.wait(WAIT_S)
            ended = runtime.poll_rewards()
            batch.submit(
                Request(
                    request_id=str(one.reward_id),
                    group_id="prompt",
                    response=tokenizer.decode(list(one.tokens[len(prompt) :])),
                    reference={"answers": [chosen.answer]},
                )
                for one in ended
            )
            submitted += len(ended)
        for result in batch.results():
            if result.reward is None:  # not a zero: it could not be judged
                runtime.cancel(refs[int(result.request_id)])
            else:
                runtime.score(refs[int(result.request_id)], result.reward)
        done = runtime.drain(WAIT_S)
    for one in sorted(done, key=lambda one: one.user_id):
        text = tokenizer.decode(list(one.tokens)).strip().replace("\n", " ")
        print(f"reward {one.reward}  logp {sum(one.logps):8.2f}  {text[:90]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--prompt", default="What is 2 + 3?")
    parser.add_argument("--answer", default="5")
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--url", default="127.0.0.1:8470")
    chosen = parser.parse_args()
    if not chosen.model.exists():
        parser.error(f"{chosen.model} does not exist")
    with SyncClient(chosen.url) as sync_client:
        rollouts(chosen, sync_client)
