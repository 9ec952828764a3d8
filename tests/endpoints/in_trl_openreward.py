"""Plays episodes as TRL's `OpenRewardSpec` makes them."""

import json
import sys

from trl.experimental.openreward import OpenRewardSpec


def main(url: str, texts: list[str]) -> None:
    spec = OpenRewardSpec(url, env_name="sums.tool")
    rows = spec.train_dataset
    make = spec.environment_factory
    environments = [make() for _ in texts]
    for environment, text in zip(environments, texts, strict=True):
        prompt = environment.reset(**rows[0])
        assert prompt == "2 + 3?", prompt
        environment.submit(response=text)
    print(json.dumps({"rows": len(rows), "rewards": spec.reward_funcs(environments)}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
