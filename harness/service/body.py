"""The body of a request, bounded in bytes, values and time, alone and together with all others."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from harness.core.errors import describe_first_error
from harness.core.inputs.json_text import MAX_DIGITS, BrokenJSONError, ValueCounter, parse_json
from harness.service.errors import InvalidRequestError, ServiceError
from harness.service.settings import ServiceLimits

if TYPE_CHECKING:
    from starlette.types import Receive


Model = TypeVar("Model", bound=BaseModel)


class HeldBody:
    """The body of a request. Its memory counts, with the values in its JSON, until `release`."""

    def __init__(self, bodies: Bodies, client: str) -> None:
        self._bodies = bodies
        self._client = client
        # The bytes that count, with the values in its JSON.
        self.size = 0
        self.content = b""

    def release(self) -> None:
        """Count the memory no more. A second call does nothing."""
        self._bodies.release(self._client, self.size)
        self.size = 0

    def hold(self, size: int) -> None:
        """Count more memory. Raises ServiceError if the requests under way have too much."""
        self.size += size
        self._bodies.hold(self._client, size)


class Bodies:
    """Reads the bodies of all requests of a service, and bounds their memory together."""

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self._held = 0
        self._held_by: Counter[str] = Counter()

    async def read(
        self, headers: Mapping[str, str], receive: Receive, *, client: str, is_json: bool = True
    ) -> HeldBody:
        """Return the body of a request. Release it after its last use.

        Raises ServiceError as soon as the body breaks a bound, so that the rest of it is not read.
        """
        most = self._limits.body_bytes
        announced = headers.get("content-length", "0")
        if not announced.isascii() or not announced.isdigit() or int(announced[:20]) > most:
            raise _refuse_size(most)
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise InvalidRequestError("the service takes no compressed body", status=415)
        body = HeldBody(self, client)
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body.content = await self._read(receive, body, ValueCounter() if is_json else None)
        except BaseException as error:
            body.release()
            if isinstance(error, TimeoutError):
                seconds = self._limits.body_seconds
                raise InvalidRequestError(
                    f"the body of the request took longer than {seconds:g} s", status=408
                ) from None
            raise
        return body

    async def _read(self, receive: Receive, body: HeldBody, values: ValueCounter | None) -> bytes:
        """Return the content of a body, and hold its memory meanwhile."""
        most = self._limits.body_bytes
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise InvalidRequestError("the body of the request ended early")
            piece = message.get("body", b"")
            size += len(piece)
            if size > most:
                raise _refuse_size(most)
            more = len(piece)
            if values is not None:
                before = values.memory_bytes
                values.add(piece)
                if values.structures > self._limits.body_structures:
                    raise _refuse_structures(self._limits.body_structures)
                more += values.memory_bytes - before
            body.hold(more)
            pieces.append(piece)
            if not message.get("more_body", False):
                return b"".join(pieces)

    def release(self, client: str, size: int) -> None:
        """Count memory of a client no more."""
        self._held -= size
        self._held_by[client] -= size
        # Otherwise the counter would keep every address that ever came.
        if not self._held_by[client]:
            del self._held_by[client]

    def hold(self, client: str, size: int) -> None:
        """Count more memory of a client. Raises ServiceError if there is too much."""
        self._held += size
        self._held_by[client] += size
        limits = self._limits
        share = max(2 * limits.body_bytes, int(limits.all_bodies_bytes * limits.client_bodies_share))
        if self._held > limits.all_bodies_bytes or self._held_by[client] > share:
            raise ServiceError(
                429,
                "too_many_bytes",
                "the requests under way are too large together; send fewer at a time",
                retry_seconds=1.0,
            )


def read_json(model: type[Model], body: bytes) -> Model:
    """Return the request in a body. Raises ServiceError that names the first fault and its place."""
    if not body:
        raise InvalidRequestError("the body is empty; send a JSON object, such as {}", code="invalid_json")
    try:
        values: Any = parse_json(body, max_digits=getattr(model, "max_digits", MAX_DIGITS))
    except BrokenJSONError as error:
        raise InvalidRequestError(f"the body is not JSON: {error}", code="invalid_json") from None
    try:
        return model.model_validate(values)
    except ValidationError as error:
        fault = describe_first_error(error, values)
        raise InvalidRequestError(
            fault if isinstance(values, dict) else f"the body {fault}", status=422
        ) from None


def encode_reply(reply: BaseModel) -> bytes:
    """Return a reply as JSON in UTF-8, whatever a client or an untrusted program has sent.

    JSON can escape half of a surrogate pair, so a request can hold one, and a reply may repeat it. UTF-8 has
    no form for it, so the JSON of such a reply is ASCII.
    """
    try:
        return reply.model_dump_json().encode()
    except (PydanticSerializationError, UnicodeEncodeError):
        return json.dumps(reply.model_dump(), default=str).encode()


def _refuse_size(most: int) -> ServiceError:
    return InvalidRequestError(
        f"the body of a request may have {most:,} bytes; send several smaller ones",
        code="body_too_large",
        status=413,
    )


def _refuse_structures(most: int) -> ServiceError:
    return InvalidRequestError(
        f"the body of a request may have {most:,} objects, lists and named fields; send several "
        "smaller ones, or give a program its data as text on standard input",
        code="body_too_large",
        status=413,
    )
