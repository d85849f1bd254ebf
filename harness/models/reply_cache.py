"""A cache of replies on disk, so that an identical request is paid for once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import NoneType
from typing import Any

from pydantic import TypeAdapter

from harness.core.tools import Tool
from harness.models.codecs import decode_reply
from harness.models.endpoint import Api, Endpoint
from harness.models.messages import (
    Finish,
    Generation,
    Message,
    ModelReply,
    ModelRequest,
    Role,
    ToolCall,
    ToolSchema,
    describe_request,
    describe_tool,
)
from harness.models.server_errors import MalformedReplyError

_MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)
_TOOLS: TypeAdapter[list[ToolSchema]] = TypeAdapter(list[ToolSchema])
_GENERATION: TypeAdapter[Generation] = TypeAdapter(Generation)


class ReplyCache:
    """Replies in one file each, named by a hash of the whole request. Processes may share a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, api: Api, key: str) -> ModelReply | None:
        """Return the kept reply of an API, or None if it is missing or its file is damaged."""
        try:
            return decode_reply(api, json.loads(self._path(key).read_bytes()))
        except (OSError, ValueError, RecursionError, MalformedReplyError):
            return None

    def find_bytes(self, key: str) -> bytes | None:
        """Return a kept reply in the bytes that were passed on, or None if it is missing."""
        try:
            return self._path(key).read_bytes()
        except OSError:
            return None

    def keep_bytes(self, key: str, data: bytes) -> None:
        """Keep a whole reply in the bytes that were passed on. On a full disk nothing is kept."""
        path = self._path(key)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._folder) as folder:
                written = Path(folder) / path.name
                written.write_bytes(data)
                os.replace(written, path)

    def keep(self, key: str, reply: ModelReply) -> None:
        """Keep a reply, unless the model refused. A full disk only means that nothing is kept."""
        if any(choice.finish is Finish.REFUSAL for choice in reply.choices):
            return
        self.keep_bytes(key, json.dumps(reply.raw).encode())

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"


def hash_request(endpoint: Endpoint, request: ModelRequest, number: int) -> str:
    """Return the key of a request: a hash of the endpoint, the whole request and the attempt's number.

    The number keeps the samples of a task apart, which would otherwise all be the same.
    """
    whole = [
        endpoint.model_dump(mode="json", include={"model", "base_url", "api", "extra_body"}),
        request,
        number,
    ]
    return hashlib.sha256(describe_request(whole).encode()).hexdigest()


def hash_raw_request(endpoint: Endpoint, api: Api, content: bytes, number: int) -> str:
    """Return the key of a request in the JSON of an API, which no other kind of request has."""
    whole = [endpoint.model_dump(mode="json", include={"model", "base_url"}), "raw", api, number]
    return hashlib.sha256(json.dumps(whole).encode() + content).hexdigest()


def copy_messages(messages: Sequence[Message]) -> list[Message]:
    """Return plain copies. Raises ValueError for anything but messages."""
    return [_copy_plain_message(each) or _MESSAGE.validate_python(_copy(each)) for each in messages]


def copy_tools(tools: Sequence[ToolSchema | Tool]) -> list[ToolSchema]:
    """Return plain copies of tools as schemas. Raises ValueError for anything but tools."""
    return _TOOLS.validate_python([_copy(describe_tool(tool)) for tool in tools])


def copy_generation(generation: Generation) -> Generation:
    """Return a plain copy. Raises ValueError for anything but parameters of generation."""
    return _GENERATION.validate_python(_copy(generation))


def _copy_plain_message(message: Message) -> Message | None:
    """Return a copy of a message whose values have the exact types of plain data, None for another one.

    Each request holds the whole conversation, so most messages are copied many times.
    """
    if type(message) is not Message:
        return None
    # Each value is read once, because the agent's thread may change it meanwhile.
    role, text, calls, identity = message.role, message.text, message.tool_calls, message.tool_call_id
    if message.reasoning is not None or type(role) is not Role or type(text) is not str:
        return None
    if type(calls) is not tuple or type(identity) not in (str, NoneType):
        return None
    copied = tuple(found for call in calls if (found := _copy_plain_call(call)) is not None)
    return Message(role, text, copied, identity) if len(copied) == len(calls) else None


def _copy_plain_call(call: ToolCall) -> ToolCall | None:
    if type(call) is not ToolCall:
        return None
    identity, name, arguments = call.id, call.name, call.arguments
    if not (type(identity) is type(name) is type(arguments) is str):
        return None
    return ToolCall(identity, name, arguments)


def _copy(value: Any) -> Any:
    plain = asdict(value) if hasattr(type(value), "__dataclass_fields__") else value
    # JSON makes an exact `str` of a subclass, whose methods are the agent's code.
    return json.loads(json.dumps(plain))
