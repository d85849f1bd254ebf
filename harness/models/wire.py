"""Read the JSON that servers and clients send, whatever it holds, and write what every server takes back."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.models.endpoint import Api
from harness.models.messages import (
    Choice,
    Generation,
    Message,
    ModelReply,
    Role,
    ToolSchema,
    Usage,
    read_count,
)
from harness.models.server_errors import MalformedReplyError

# No useful reply has more calls of tools. The others are dropped, as if the model had not made them.
MOST_CALLS = 1000
# The rest of a longer reply is in no transcript.
MOST_KEPT_CHARACTERS = 1024 * 1024
MOST_PARTS = 1000
# Longer ones are parsed again for each request, because all that are remembered stay in memory.
_SHORT_ARGUMENTS = 10_000
ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}


# The bytes of text for each token of a reply that was cut off before the server counted its tokens. Source:
# programs and JSON in the tokenizers of several models.
BYTES_PER_TOKEN = 3


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object, an empty one for any other value."""
    return value if isinstance(value, Mapping) else {}


def mappings(values: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a list, nothing for any other value."""
    return (value for value in values if isinstance(value, Mapping)) if isinstance(values, list) else iter(())


def short_text(value: Any) -> str:
    """Return the start of a text that is a name or an id, "" for any other value."""
    return value[:200] if isinstance(value, str) else ""


def read_role(message: Mapping[str, Any]) -> Role:
    """Return the role of a client's message, the user's for an unknown one."""
    return ROLES.get(short_text(message.get("role")), Role.USER)


def join_parts(content: Any) -> str:
    """Return the text of a client's message. A part without text is named by its type."""
    if isinstance(content, str):
        return content
    parts = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            parts.append(part)
            continue
        text = mapping(part).get("text", mapping(part).get("refusal"))
        parts.append(
            text if isinstance(text, str) else f"[{short_text(mapping(part).get('type')) or 'part'}]"
        )
    return "".join(parts)


def read_parts(raw: Any, name: str) -> list[Any]:
    """Return the list that holds the content of a reply. Raises MalformedReplyError."""
    if not isinstance(raw, Mapping):
        raise MalformedReplyError(f"the reply is a JSON {type(raw).__name__}, not an object")
    found = raw.get(name)
    # Chat Completions has a choice in each reply.
    if not isinstance(found, list) or (name == "choices" and not found):
        raise MalformedReplyError(f"the reply has no {name}, only: {', '.join(sorted(map(str, raw)))}")
    return found


def make_reply(raw: Mapping[str, Any], choices: tuple[Choice, ...], usage: Usage) -> ModelReply:
    """Return the reply with these choices."""
    model = raw.get("model")
    return ModelReply(choices, usage, model if isinstance(model, str) else "", raw)


def read_usage(usage: Any, read: str, written: str) -> Usage:
    """Return the usage in OpenAI's JSON, with None for each number that it lacks.

    `read` and `written` are the first words of its names for input and output, such as `prompt`.
    """
    counts = mapping(usage)
    output, prompt = (
        mapping(counts.get(f"{written}_tokens_details")),
        mapping(counts.get(f"{read}_tokens_details")),
    )
    return Usage(
        read_count(counts.get(f"{read}_tokens")),
        read_count(counts.get(f"{written}_tokens")),
        read_count(output.get("reasoning_tokens")),
        read_count(prompt.get("cached_tokens")),
    )


def name_call(identity: Any, number: int, taken: Collection[str]) -> str:
    """Return the id of a call: the server's, unless it sent none or has used it for another call.

    Two calls with one id would make the next request invalid, and the agent is not to blame for that.
    """
    name = identity if isinstance(identity, str) and identity else f"call_{number}"
    while name in taken:
        name = f"{name}_{number}"
    return name


def read_arguments(arguments: Any) -> str:
    """Return the arguments of a call as text.

    llama.cpp may send an object, and others send null for a tool without arguments.
    """
    if isinstance(arguments, str):
        return arguments
    return json.dumps({} if arguments is None else arguments)


def repair_arguments(arguments: str) -> str:
    """Return arguments that a server takes back: as they are, or an empty object if they are not JSON.

    llama.cpp answers 500 to every later request with arguments that are not JSON.
    """
    # Each request repeats the calls of the whole conversation.
    parses = _is_short_object if len(arguments) <= _SHORT_ARGUMENTS else _parses_as_object
    return arguments if parses(arguments) else "{}"


def repair_name(name: str) -> str:
    """Return a name of a tool that a server takes back, because OpenAI refuses all others."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"


@functools.lru_cache(maxsize=4096)
def _is_short_object(text: str) -> bool:
    return _parses_as_object(text)


def _parses_as_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


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
    # The client's parameters of generation that override the run's.
    generation: Generation = field(default_factory=Generation)
    # The bound of the reply that the client has asked for. It counts where the run and the budget have none.
    fallback_max_tokens: int | None = None
    # Further fields of the entry in the transcript, such as parts that were withheld.
    notes: Mapping[str, Any] = field(default_factory=dict)


class StreamedReply:
    """A streamed reply of one API, put together from its events. Each codec has its own kind.

    The events go to the client as they come. This copy is for the budgets, the transcript and the counts, so
    it keeps a bounded part of the texts.
    """

    def __init__(self) -> None:
        # The usage that the server has reported so far.
        self.usage = Usage()
        # Whether the server has ended the reply, rather than the connection.
        self.is_complete = False
        self.texts = StreamedTexts()

    def add(self, data: Mapping[str, Any]) -> None:
        """Add the JSON of an event."""
        raise NotImplementedError

    def build(self) -> dict[str, Any]:
        """Return the JSON of the reply as the API sends it to a client that asks for no stream."""
        raise NotImplementedError


class StreamedTexts:
    """Texts that arrive in pieces, by a key. All together have a bound."""

    def __init__(self) -> None:
        # The bytes of text that the model has written so far.
        self.bytes = 0
        self._pieces: dict[Any, list[str]] = {}
        self._kept = 0

    def add(self, key: Any, piece: Any) -> None:
        """Add a piece of a text. Anything but a text is left out."""
        if not isinstance(piece, str) or not piece:
            return
        self.bytes += len(piece.encode("utf-8", "replace"))
        room = MOST_KEPT_CHARACTERS - self._kept
        if room > 0 and (key in self._pieces or len(self._pieces) < MOST_PARTS):
            kept = piece[:room]
            # An entry of a list costs more memory than a short text.
            self._kept += len(kept) + 64
            self._pieces.setdefault(key, []).append(kept)

    def join(self, key: Any) -> str:
        """Return a text, as far as it was kept."""
        return "".join(self._pieces.get(key, ()))


def encode_body(body: dict[str, Any]) -> bytes:
    """Return the bytes of a request. A lone surrogate becomes a question mark, as UTF-8 cannot carry it."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
