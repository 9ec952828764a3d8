"""Plays episodes with the `openreward` client, unchanged."""

import json
import sys
from typing import Any

import openreward
from openreward.api.environments.client import ToolFailed


def main(url: str, texts: list[str]) -> None:
    client = openreward.OpenReward(api_key="", base_url=url)
    environment = client.environments.get("sums")
    assert environment.list_splits() == ["train", "test"]
    assert environment.num_tasks("train") == 2
    [first, _] = environment.list_tasks("train")
    rewards: list[float | None] = []
    for text in texts:
        with environment.session(task=first) as session:
            [block] = session.get_prompt()
            assert block.text == "2 + 3?"
            assert session.is_assistant_message_final()
            try:
                output: Any = session.call_terminal_tool(text)
            except ToolFailed:
                rewards.append(None)
            else:
                rewards.append(output.reward)
                assert output.finished
    print(json.dumps(rewards))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
