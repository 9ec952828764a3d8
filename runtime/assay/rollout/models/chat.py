"""Chat templates of Hugging Face models: a conversation becomes the text of a prompt.

The environment is that of `transformers`: sandboxed Jinja with loop controls, `tojson` without HTML
escapes, `raise_exception` and `strftime_now`, so that a model's own template renders as it did in
its training.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from assay.core.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from jinja2.sandbox import ImmutableSandboxedEnvironment

    Message = Mapping[str, Any]


_OF_DICT = frozenset(dir(dict))


class TemplateRefused(InvalidRequest):
    """The template raised: this conversation is not one that the model knows."""


class ChatTemplate:
    """A compiled template; rendering is a function of its arguments and, in some, of the date."""

    def __init__(
        self,
        source: str,
        *,
        tokens: Mapping[str, str] | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        """Compile a template.

        Args:
            source: the Jinja text.
            tokens: variables such as `bos_token` and `eos_token`.
            now: the date for templates that write it; None: they get an empty text.

        Raises:
            InvalidRequest: it is not a template.
        """
        from jinja2 import TemplateError

        self.source = source
        self._tokens = dict(tokens or {})
        try:
            self._template = _environment(now).from_string(source)
            self._template.globals = dict(self._template.globals)  # a ChainMap copies slowly
        except TemplateError as error:
            message = f"chat_template: {error}"
            raise InvalidRequest(message, field="chat_template") from None

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        for_reply: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The text of a conversation.

        Args:
            messages: `role`, `content`, and `tool_calls` or `name` where they apply; arguments of
                tool calls are objects, as templates expect them.
            tools: function definitions in OpenAI's form.
            for_reply: end with the head of the assistant's next message.
            variables: more variables of the template: `enable_thinking`.

        Raises:
            TemplateRefused: the template raised an error; `field` is `messages`.
        """
        from jinja2 import TemplateError

        try:
            return self._template.render(
                **{
                    **self._tokens,
                    **(variables or {}),
                    "messages": messages,
                    "tools": tools or None,
                    "add_generation_prompt": for_reply,
                }
            )
        except (TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            message = f"messages: the model's chat template refused them: {error}"
            raise TemplateRefused(message, field="messages") from None


def _environment(now: Callable[[], datetime] | None) -> ImmutableSandboxedEnvironment:
    from jinja2 import TemplateError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def strftime_now(form: str) -> str:
        return "" if now is None else now().strftime(form)

    class Environment(ImmutableSandboxedEnvironment):
        def getattr(self, obj: Any, attribute: str) -> Any:  # noqa: ANN401 - as in Jinja
            """`message.role` of a dictionary, without the exceptions of a missing attribute.

            Every message of a conversation is asked for attributes that most do not have.
            """
            if type(obj) is dict and attribute not in _OF_DICT:
                if attribute in obj:
                    return obj[attribute]
                return self.undefined(obj=obj, name=attribute)
            return super().getattr(obj, attribute)

    environment = Environment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = strftime_now
    return environment


def _to_json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - called by templates
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
