"""The passing on of one request: to the server in the bytes of its API, and the reply back as it comes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, field

from harness.models.codecs import CODECS, decode_reply
from harness.models.concurrency import AdaptiveLimit
from harness.models.connection import NoReplyError, OpenReply, make_malformed, raise_error_inside
from harness.models.endpoint import Api, Endpoint
from harness.models.messages import Finish, ModelReply, Usage, map_texts, read_server_json
from harness.models.server_errors import MalformedReplyError, ModelError, PageReplyError
from harness.models.streamed_replies import (
    THREAD_BYTES,
    Event,
    EventReader,
    ReplyTooLongError,
    decode_event,
    receive_reply,
)
from harness.models.wire import BYTES_PER_TOKEN, StreamedReply

# A longer stream is not kept in the cache.
MOST_CACHED_BYTES = 8 * 1024 * 1024
# The events that may follow each other without a pause for the rest of the run.
_EVENTS_WITHOUT_PAUSE = 100
JSON_TYPE, STREAM_TYPE = "application/json", "text/event-stream"


@dataclass(frozen=True, slots=True)
class ForwardedReply:
    """A reply on its way to the client. The key is in none of its pieces."""

    content_type: str
    pieces: AsyncGenerator[bytes, None]


@dataclass(slots=True)
class Passage:
    """One request that is passed on, and all that is known of its reply so far."""

    endpoint: Endpoint
    # Replaces the key in a text of the server.
    hide_key: Callable[[str], str]
    # The limit of requests at the endpoint, which is told of a reply that breaks off.
    limit: AdaptiveLimit
    api: Api
    is_stream: bool
    # Whether the events that only report the usage go to the client.
    wants_usage: bool
    # Called after each event with the usage so far. Its exceptions end the stream.
    check: Callable[[Usage], None]
    keeps_bytes: bool
    content: bytes = b""
    # Whether the server has got the request, so that it is paid for.
    is_posted: bool = False
    is_complete: bool = False
    is_cached: bool = False
    streamed: StreamedReply | None = None
    whole: ModelReply | None = None
    seconds: float = 0.0
    waiting_seconds: float = 0.0
    retries: int = 0
    passed: bytearray = field(default_factory=bytearray)

    async def begin(self, reply: OpenReply) -> AsyncGenerator[bytes, None]:
        """Return the pieces for the client, after all that a further try could still replace.

        Raises MalformedReplyError, ReplyTooLongError, ErrorReply and NoReplyError.
        """
        if not self.is_stream:
            content = await self._read_whole(reply)
            if self.keeps_bytes:
                self.passed = bytearray(content)
            return _yield_once(content)
        kind = reply.content_type.partition(";")[0].strip().lower()
        if kind == "text/html":
            raise PageReplyError("it answers with a web page and not with a stream")
        if kind != STREAM_TYPE:
            raise MalformedReplyError(f"the server answered a request for a stream with '{kind[:100]}'")
        events = self._read_events(reply, self.endpoint.try_seconds)
        streamed = self.streamed = CODECS[self.api].Streamed()
        first = await anext(events, None)
        if first is None:
            raise MalformedReplyError("the stream has no event")
        raise_error_inside(first.data)
        return self._pass_events(first, events, streamed)

    def read_kept(self, content: bytes) -> AsyncGenerator[bytes, None]:
        """Return the pieces of a reply from the cache. Raises MalformedReplyError if it is damaged."""
        if self.is_stream:
            streamed, reader = CODECS[self.api].Streamed(), EventReader()
            for raw in (*reader.read(content), *reader.end()):
                event = raw.decode(self.hide_key)
                if isinstance(event.data, dict):
                    streamed.add(event.data)
            if not streamed.is_complete:
                raise MalformedReplyError("the stream has no end")
            self.streamed = streamed
        else:
            try:
                self.whole = decode_reply(self.api, json.loads(content))
            except (ValueError, RecursionError) as error:
                raise MalformedReplyError(str(error)) from None
        self.is_complete = self.is_cached = True
        return _yield_once(content)

    @property
    def can_be_kept(self) -> bool:
        """Whether the reply is complete and no refusal, which another request may not get."""
        reply = self.find_reply() if self.is_complete and self.keeps_bytes else None
        return reply is not None and reply.choices[0].finish is not Finish.REFUSAL

    def find_usage(self) -> tuple[Usage, bool]:
        """Return the usage of the request, and whether it is an estimate because the reply was cut off."""
        known = self.whole.usage if self.whole else self.streamed.usage if self.streamed else Usage()
        is_known = known.total_tokens is not None
        if self.is_cached or not self.is_posted or (self.is_complete and is_known):
            return known, False
        # A program chooses the API and the stream. A server that counts nothing there must not end the run.
        written = self._count_text_bytes() // BYTES_PER_TOKEN
        read, output = known.input_tokens, known.output_tokens or 0
        return Usage(
            len(self.content) // BYTES_PER_TOKEN if read is None else read,
            max(output, written) if not self.is_complete or known.output_tokens is None else output,
            known.reasoning_tokens or 0,
            known.cached_tokens or 0,
        ), True

    def _count_text_bytes(self) -> int:
        if self.streamed is not None:
            return self.streamed.texts.bytes
        if self.whole is None:
            return 0
        message = self.whole.choices[0].message
        reasoning = "" if message.reasoning is None else message.reasoning.text or ""
        texts = (message.text, reasoning, *(call.arguments for call in message.tool_calls))
        return sum(len(text.encode("utf-8", "replace")) for text in texts)

    def find_reply(self) -> ModelReply | None:
        """Return the reply, as far as it has come. None if nothing of it can be read."""
        if self.whole is not None or self.streamed is None:
            return self.whole
        try:
            return decode_reply(self.api, self.streamed.build())
        except (MalformedReplyError, RecursionError):
            return None

    async def _read_whole(self, reply: OpenReply) -> bytes:
        received = await receive_reply(reply.pieces)
        if len(received) > THREAD_BYTES:
            content, self.whole = await asyncio.to_thread(self._clean, received)
        else:
            content, self.whole = self._clean(received)
        self.is_complete = True
        return content

    def _clean(self, received: bytes) -> tuple[bytes, ModelReply]:
        text = received.decode("utf-8-sig", "replace")
        try:
            raw = map_texts(read_server_json(text), self.hide_key)
        except (ValueError, RecursionError) as error:
            raise make_malformed(received, self.hide_key(str(error)), self.hide_key) from None
        raise_error_inside(raw)
        reply = decode_reply(self.api, raw)
        # An escape sequence can hide a key from a search of the text, so the JSON is then written anew.
        is_plain = "\\" not in text and self.hide_key(text) == text
        return (text if is_plain else json.dumps(raw)).encode("utf-8", "replace"), reply

    async def _read_events(self, reply: OpenReply, seconds: float) -> AsyncGenerator[Event, None]:
        reader = EventReader()
        number = 0
        deadline = asyncio.get_running_loop().time() + seconds
        async with contextlib.aclosing(reply.pieces) as pieces:
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        piece = await anext(pieces, None)
                except TimeoutError:
                    raise NoReplyError(f"the reply took longer than {seconds:g} s") from None
                for raw in reader.end() if piece is None else reader.read(piece):
                    number += 1
                    if number % _EVENTS_WITHOUT_PAUSE == 0:
                        # A piece may hold thousands of events, and none of the steps has to wait.
                        await asyncio.sleep(0)
                    yield await decode_event(raw, self.hide_key)
                if piece is None:
                    return

    async def _pass_events(
        self, first: Event, events: AsyncGenerator[Event, None], streamed: StreamedReply
    ) -> AsyncGenerator[bytes, None]:
        try:
            async with contextlib.aclosing(events):
                for text in self._pass_event(first, streamed):
                    yield text
                async for event in events:
                    for text in self._pass_event(event, streamed):
                        yield text
        except (NoReplyError, ReplyTooLongError) as error:
            # The client has the beginning, so no other try can replace it.
            raise self._break_off(f"the reply broke off: {error}") from None
        if not streamed.is_complete:
            raise self._break_off("the reply broke off before its end")
        self.is_complete = True

    def _pass_event(self, event: Event, streamed: StreamedReply) -> Iterator[bytes]:
        if isinstance(event.data, dict):
            streamed.add(event.data)
            self.check(streamed.usage)
            if not self.wants_usage and event.data.get("usage") and event.data.get("choices") == []:
                return
        if self.keeps_bytes:
            self.passed += event.text
            if len(self.passed) > MOST_CACHED_BYTES:
                self.keeps_bytes = False
                self.passed.clear()
        yield event.text

    def _break_off(self, reason: str) -> ModelError:
        self.limit.report_server_error()
        error = ModelError(f"model '{self.endpoint.model}' at {self.endpoint.base_url}: {reason}")
        error.reply = reason
        return error


async def _yield_once(content: bytes) -> AsyncGenerator[bytes, None]:
    yield content
