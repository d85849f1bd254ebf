"""An operation of the service: its path, the models of its request and reply, and the function behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import BaseModel

if TYPE_CHECKING:
    from harness.service.service import Service


@dataclass(frozen=True, slots=True)
class Call:
    """One request that was admitted."""

    service: Service
    # The client whose share of the service the request uses.
    client: str
    # The parts of the path that the operation leaves open.
    path: dict[str, str] = field(default_factory=dict)
    # The parameters behind the question mark.
    query: dict[str, str] = field(default_factory=dict)
    # The headers, with names in lower case.
    headers: dict[str, str] = field(default_factory=dict)


class ReplyParts(Protocol):
    """The parts of a streamed reply, such as an asynchronous generator."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the iterator over the parts."""

    def aclose(self) -> Awaitable[None]:
        """End the work behind the parts."""


@dataclass(frozen=True, slots=True)
class StreamedReply:
    """A reply that is sent while it is made. The service closes `parts` when the client goes away."""

    parts: ReplyParts
    media_type: str = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class RawReply:
    """A reply that is not JSON."""

    content: bytes
    media_type: str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Reply = BaseModel | StreamedReply | RawReply | None


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, as clients and the OpenAPI page see it.

    `handle` gets the request, which is None without a model, and the call. It is cancelled when the client
    goes away. It may raise ServiceError.
    """

    method: Literal["GET", "POST", "PUT", "DELETE"]
    # With open parts in braces, as Starlette has them: `/v1/sandboxes/{id}`.
    path: str
    # One line for the OpenAPI page.
    summary: str
    handle: Callable[[Any, Call], Awaitable[Reply]]
    request: type[BaseModel] | None = None
    reply: type[BaseModel] | None = None
    # The name in metrics and logs.
    name: str = ""
    # The body is bytes for `handle`, and not JSON.
    takes_bytes: bool = False
    # The media type of a reply that is no JSON.
    media_type: str = "application/json"
    # The media type of the stream that a client can have instead of the reply.
    stream_type: str | None = None
    # The parameters behind the question mark: their meanings by their names.
    query: Mapping[str, str] = field(default_factory=dict)
    # The status of a reply without fault.
    status: int = 200
    # Whether a request without a token may enter. Such an operation must show nothing of clients.
    is_public: bool = False

    @property
    def label(self) -> str:
        return self.name or self.path.split("{")[0].strip("/")
