"""A request in the JSON of an API, which is passed on but for the parameters of generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.models import codecs
from harness.models.dialect import Dialect
from harness.models.endpoint import Api
from harness.models.messages import Generation, Message, ModelRequest, ToolSchema

# The parameters that a server may refuse, and without which a request still means the same.
OPTIONAL_PARAMETERS: Mapping[Api, frozenset[str]] = {
    **codecs.OPTIONAL_PARAMETERS,
    "chat": codecs.OPTIONAL_PARAMETERS["chat"] | {"stream_options"},
}


@dataclass(frozen=True, slots=True)
class RawRequest:
    """One request of a client."""

    api: Api
    # The JSON of the request without the model, the parameters of generation and the choice of a stream.
    body: Mapping[str, Any]
    # The same conversation as the transcript shows it, and its tools.
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSchema, ...] = ()
    is_stream: bool = False
    # Whether the client wants to know the usage at the end of a stream of Chat Completions.
    wants_usage: bool = False
    # The client's parameters of generation that override those of the run.
    generation: Generation = field(default_factory=Generation)
    # The bound of the reply that the client has asked for. It counts where the run and the budget have none.
    fallback_max_tokens: int | None = None
    # Further fields of the entry in the transcript, such as parts that were withheld.
    notes: Mapping[str, Any] = field(default_factory=dict)


def encode_raw_request(
    request: RawRequest,
    generation: Generation,
    dialect: Dialect,
    *,
    own: frozenset[str],
    model: str,
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the whole JSON of a request.

    Args:
        request: the request.
        generation: the parameters that it gets.
        dialect: the form of the protocol that the server has shown.
        own: the names of the parameters that the client has chosen.
        model: the name of the model at the server.
        extra: the fields of the endpoint.
    """
    shown = ModelRequest((), generation=generation, own_parameters=own)
    parameters = _encode_parameters(request, generation, dialect.choose_max_tokens_field(shown))
    left_out = dialect.find_left_out(shown)
    body = {**request.body, **_merge(request.body, parameters)}
    if request.is_stream:
        body["stream"] = True
        if request.api == "chat":
            # Without the usage no budget can be kept.
            body["stream_options"] = {"include_usage": True}
    body = {name: value for name, value in body.items() if value is not None and name not in left_out}
    return {**body, **extra, "model": model}


def _encode_parameters(request: RawRequest, generation: Generation, max_tokens_field: str) -> dict[str, Any]:
    bound, effort = generation.max_tokens, generation.reasoning_effort
    values: dict[str, Any] = {"temperature": generation.temperature, "top_p": generation.top_p}
    stop = list(generation.stop) or None
    match request.api:
        case "chat":
            values |= {max_tokens_field: bound, "stop": stop, "seed": generation.seed}
            values["reasoning_effort"] = effort
        case "responses":
            # The API has neither `stop` nor `seed`.
            values |= {"max_output_tokens": bound, "store": False}
            values["reasoning"] = None if effort is None else {"effort": effort}
        case "messages":
            values |= {"max_tokens": bound, "stop_sequences": stop}
            values["output_config"] = None if effort is None else {"effort": effort}
    return {name: value for name, value in values.items() if value is not None}


def _merge(body: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters, each joined with the field of the same name that holds more than a parameter."""
    return {
        name: {**body[name], **value}
        if isinstance(value, dict) and isinstance(body.get(name), dict)
        else value
        for name, value in parameters.items()
    }
