"""The same agent on the package `openai-agents`; see calculator.py.

OPENAI_BASE_URL=... OPENAI_API_KEY=... python calculator_sdk.py "What is 2 + 3?"
"""

import sys

from agents import (
    Agent,
    Runner,
    function_tool,
    set_default_openai_api,
    set_tracing_disabled,
)


@function_tool
def add(a: float, b: float) -> str:
    """Add two numbers."""
    return f"{a + b:g}"


if __name__ == "__main__":
    set_default_openai_api("chat_completions")
    set_tracing_disabled(disabled=True)
    agent = Agent(name="calculator", tools=[add], model="gpt-5")
    print(Runner.run_sync(agent, sys.argv[1]).final_output)
