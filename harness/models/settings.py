"""The settings of a model in a config: its endpoint by name, and the parameters of generation."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.core.errors import UsageError
from harness.core.secret_forms import HIDDEN_KEY as HIDDEN_KEY
from harness.core.setting import Option
from harness.models.endpoint import Api, Endpoint, find_default_url
from harness.models.messages import Generation, Message, ModelReply, ToolSchema

OPENAI_URL_VARIABLE = "OPENAI_BASE_URL"
ANTHROPIC_URL_VARIABLE = "ANTHROPIC_BASE_URL"
# A shorter key could be an ordinary word, which must stay as it is in a reply.
SHORTEST_HIDDEN_KEY = 8


class GenerationSettings(BaseModel):
    """The parameters of generation. One that is not set is not sent, so the server's default applies."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )

    temperature: Annotated[
        float | None, Field(ge=0, le=5), Option("Temperature. Default: the server's.", "T")
    ] = None
    """Default: the server's own."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: Annotated[
        int | None, Field(ge=1), Option("Maximum tokens of one reply, with reasoning.", "N")
    ] = None
    """The largest number of tokens of one reply, reasoning included."""
    stop: list[str] = Field(default_factory=list, max_length=16)
    reasoning_effort: Annotated[
        str | None, Option("How much a reasoning model thinks: low, ...", "LEVEL")
    ] = None

    def as_generation(self) -> Generation:
        return Generation(**{**self.model_dump(), "stop": tuple(self.stop)})


def choose_endpoint(
    model: str, base_url: str | None, endpoints: Mapping[str, Endpoint], api: Api | None = None
) -> Endpoint:
    """Return the endpoint that `model` names: one of the config's, or else a model at `base_url`.

    Without a URL, the variable OPENAI_BASE_URL decides, or ANTHROPIC_BASE_URL for the API `messages`. Without
    that it is OpenAI's or Anthropic's own. Without an API it is `chat`.

    Raises UsageError for a named endpoint that is given a URL or an API, and for an invalid URL.
    """
    if model in endpoints:
        for key, value in (("base_url", base_url), ("api", api)):
            if value is not None:
                option = f"--{key.replace('_', '-')}"
                raise UsageError(
                    f"{option} cannot be used: endpoint '{model}' has its own {key}",
                    hint=f"change it in the config, or leave out {option}",
                )
        return endpoints[model]
    api = api or "chat"
    url = base_url or _read_url(api) or find_default_url(api)
    try:
        return Endpoint(model=model, base_url=url, api=api)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        variable = ANTHROPIC_URL_VARIABLE if api == "messages" else OPENAI_URL_VARIABLE
        setting = "--base-url" if base_url else f"the environment variable {variable}"
        # The error of the library would quote the URL, which may hold a password.
        raise UsageError(
            f"{setting} is not the URL of a server: it {reason}",
            hint="name one such as http://localhost:8000/v1, without a query",
        ) from None


def _read_url(api: Api) -> str | None:
    """Return the URL that the environment names for an API, None if it names none."""
    if api != "messages":
        return os.environ.get(OPENAI_URL_VARIABLE) or None
    url = os.environ.get(ANTHROPIC_URL_VARIABLE)
    # Anthropic's library appends the version to this variable.
    return f"{url.rstrip('/').removesuffix('/v1')}/v1" if url else None


class HiddenKey:
    """A key that must be in no text of a server, plain or encoded, in capitals or in small letters.

    A server that cuts its key into pieces can still show it.
    """

    def __init__(self, key: str) -> None:
        forms = _list_forms(key) if len(key) >= SHORTEST_HIDDEN_KEY else []
        self._forms = [form.lower() for form in forms]
        self._pattern = re.compile("|".join(map(re.escape, forms)), re.IGNORECASE)

    def is_in(self, text: str) -> bool:
        """Return whether a text holds the key."""
        # The search for a plain text is far faster than that for a pattern, and almost no text has the key.
        lowered = text.lower()
        return any(form in lowered for form in self._forms)

    def remove_from(self, text: str) -> str:
        """Return the text without the key."""
        if not self.is_in(text):
            return text
        return self._pattern.sub(HIDDEN_KEY, text)


def _list_forms(key: str) -> list[str]:
    """Return the key and its usual encodings, the longest first."""
    encoded = key.encode()
    forms = {key, quote(key, safe=""), encoded.hex()}
    for before in range(3):
        # The text around a key shifts its base64 by up to two bytes. The groups inside stay the same.
        whole = encoded[(3 - before) % 3 :]
        whole = whole[: len(whole) // 3 * 3]
        if len(whole) >= SHORTEST_HIDDEN_KEY - 2:
            forms |= {base64.b64encode(whole).decode(), base64.urlsafe_b64encode(whole).decode()}
    return sorted(forms, key=len, reverse=True)


def list_own_parameters(
    generation: Generation, of_run: Generation, *, among: Generation | None = None
) -> frozenset[str]:
    """Return the names of the parameters whose values differ from the run's, restricted to `among`."""
    values, others = generation.as_values(), of_run.as_values()
    chosen = values if among is None else among.as_values()
    return frozenset(
        name for name, value in values.items() if value != others.get(name) and value == chosen.get(name)
    )


def describe_message(message: Message) -> dict[str, Any]:
    """Return a message as JSON values, in the form of a transcript."""
    values: dict[str, Any] = {"role": message.role.value, "text": message.text}
    if message.tool_calls:
        values["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        values["tool_call_id"] = message.tool_call_id
    if message.reasoning is not None and message.reasoning.text:
        values["reasoning"] = message.reasoning.text
    return values


def describe_tool(tool: ToolSchema) -> dict[str, Any]:
    """Return the definition of a tool as JSON values, in the form of a transcript."""
    return {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}


def describe_reply(reply: ModelReply) -> dict[str, Any]:
    """Return the first choice of a reply as JSON values, in the form of a transcript."""
    choice = reply.choices[0]
    answer: dict[str, Any] = {**describe_message(choice.message), "finish": choice.finish.value}
    del answer["role"]
    if choice.refusal is not None:
        answer["refusal"] = choice.refusal
    return answer
