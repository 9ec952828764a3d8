"""An agent that knows nothing of training: a loop with one tool on the `openai` package.

    OPENAI_BASE_URL=... OPENAI_API_KEY=... python calculator.py "What is 2 + 3?"

It prints its answer. Pointed at a session of the gateway by these two variables, it is trainable.
"""

import json
import sys

import openai

TURNS_MAX = 8
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
}


def add(arguments: str) -> str:
    """Run the tool; an error goes to the model."""
    try:
        given = json.loads(arguments)
        return str(given["a"] + given["b"])
    except (ValueError, KeyError, TypeError) as error:
        return f"error: {error!r}"


def answer(question: str) -> str:
    """Ask, call tools, ask again, until the model answers in words."""
    client = openai.OpenAI()
    messages = [{"role": "user", "content": question}]
    for _ in range(TURNS_MAX):
        reply = client.chat.completions.create(model="gpt-5", messages=messages, tools=[ADD])
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return message.content or ""
        for call in message.tool_calls:
            content = add(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    return ""


if __name__ == "__main__":
    print(answer(sys.argv[1]))
