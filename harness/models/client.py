"""The client of an endpoint: it sends a request, retries what may succeed later, and returns the reply."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from harness.core.logger import get_logger
from harness.core.text import escape_terminal
from harness.models.codecs import (
    CODECS,
    Dialect,
    decode_reply,
    encode_request,
    find_refused_extra,
    find_refused_reasoning,
)
from harness.models.concurrency import AdaptiveLimit, Outage
from harness.models.connection import (
    Connection,
    ErrorReply,
    NoReplyError,
    OpenReply,
    open_connection,
    raise_error_inside,
)
from harness.models.endpoint import OPENAI_URL, PAGE, Api, Endpoint, describe_proxy, list_likely_urls
from harness.models.messages import ModelReply, ModelRequest
from harness.models.server_errors import (
    ContextTooLongError,
    ErrorKind,
    InvalidRequestError,
    MalformedReplyError,
    ModelError,
    ModelRefusedError,
    PageReplyError,
    classify_error,
    find_refused_parameter,
    read_retry_after,
)
from harness.models.streamed_replies import ReplyTooLongError

FIRST_BACKOFF_SECONDS = 1.0
MOST_BACKOFF_SECONDS = 60.0
# How long a run tries to reach a server that it has never reached.
UNREACHED_SECONDS = 60.0
# The model is paid for a reply that cannot be read, and the next one is likely to be as long as this one.
MOST_MALFORMED_REPLIES = 8
MOST_TOO_LONG_REPLIES = 2
_MESSAGE_CHARACTERS = 300
T = TypeVar("T")

_LOGGER = get_logger(__name__)


@dataclass(eq=False)
class _Retry(Exception):
    """The try failed in a way that may pass."""

    message: str
    # The pause in seconds that the server asks for.
    after: float | None = None
    # The number of replies that may fail in this way, None if only the time bounds them.
    most: int | None = None
    # Whether the next try is another request, which needs no pause.
    at_once: bool = False
    # Whether there was no connection to the server at all.
    is_unreached: bool = False
    # Whether the server may be down.
    is_outage: bool = False

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class Tried(Generic[T]):
    """The result of a try that succeeded."""

    result: T
    # From the first try to the result, with all waiting.
    seconds: float
    # The part of `seconds` that the request waited for a place, or between two tries.
    waiting_seconds: float
    retries: int


class ModelClient:
    """Asks one endpoint. One client serves all attempts of a run."""

    def __init__(self, endpoint: Endpoint, connection: Connection) -> None:
        self.endpoint = endpoint
        self.limit = AdaptiveLimit(endpoint.concurrency)
        self._connection = connection
        self._last_success = -math.inf
        # The APIs that the server has answered a forwarded request in.
        self._answered_apis: set[Api] = set()
        is_open = endpoint.api == "chat" and endpoint.max_tokens_field == "auto"
        # Whether any try has reached the server. A wrong address shows soon, and a server may come back.
        self._is_reached = False
        self._outage = Outage(endpoint)
        # The search for the right URL, once the server has shown that this one is wrong.
        self._right_url: asyncio.Task[str | None] | None = None
        self._dialect = Dialect(_choose_max_tokens_field(endpoint), tries_both_fields=is_open)

    @property
    def dialect(self) -> Dialect:
        """The form of the protocol that the server has shown so far."""
        return self._dialect

    def hide_key(self, text: str) -> str:
        """Return a text of the server without the key."""
        return self._connection.hide_key(text)

    def find_dialect(self, api: Api) -> Dialect:
        """Return how the server takes the parameters of requests of an API."""
        if api == self.endpoint.api:
            return self._dialect
        return Dialect("max_completion_tokens" if self.endpoint.base_url == OPENAI_URL else "max_tokens")

    @property
    def has_succeeded(self) -> bool:
        """Whether the server has answered any request."""
        return self._last_success > -math.inf

    def has_answered_at(self, api: Api) -> bool:
        """Return whether the server has answered a request of this API that was passed on."""
        return api in self._answered_apis

    async def ask(
        self,
        request: ModelRequest,
        *,
        waiting: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
        most_tries: int | None = None,
        permit: Callable[[], None] = lambda: None,
        owner: Hashable | None = None,
    ) -> ModelReply:
        """Return the reply to a request, after as many tries as its time allows.

        Args:
            request: the request.
            waiting: returns a context that surrounds each wait for a place at the endpoint and for the next
                try.
            most_tries: a smaller bound of the tries that fail.
            permit: called before each try. Its exceptions end the request, because thousands of requests may
                wait for a place while others use a budget up.
            owner: the attempt whose share of the places at the endpoint the request counts for.

        Raises:
            ModelError: if the tries are used up.
            ModelRefusedError: if the endpoint refuses every request.
            ContextTooLongError: if the messages do not fit into the model's context.
            InvalidRequestError: if the server refuses this request as invalid.
        """
        async with self._hold_place(
            lambda stack: self._try(request),
            waiting=waiting,
            most_tries=most_tries,
            permit=permit,
            owner=owner,
        ) as tried:
            return replace(
                tried.result,
                seconds=tried.seconds,
                waiting_seconds=tried.waiting_seconds,
                retries=tried.retries,
            )

    @contextlib.asynccontextmanager
    async def open_raw(
        self,
        api: Api,
        content: bytes,
        *,
        begin: Callable[[OpenReply], Awaitable[T]],
        waiting: Callable[[], AbstractContextManager[None]],
        permit: Callable[[], None],
        most_tries: int | None = None,
        owner: Hashable | None = None,
    ) -> AsyncIterator[Tried[T]]:
        """Yield the begun reply to a request in the JSON of an API. The request holds its place in the block.

        Args:
            api: the API of the request.
            content: the whole body.
            begin: reads the reply up to the point where a retry is no longer allowed. It may raise
                MalformedReplyError, ReplyTooLongError and ErrorReply.
            waiting: as in `ask`.
            permit: as in `ask`.
            most_tries: as in `ask`.
            owner: as in `ask`.

        Raises as `ask` does. An InvalidRequestError has the JSON of the server's error.
        """

        async def try_once(stack: contextlib.AsyncExitStack) -> T:
            with self._sort_faults():
                try:
                    # The exit of the connection must not raise within the block of the caller.
                    async with asyncio.timeout(self.endpoint.try_seconds):
                        reply = await stack.enter_async_context(self._connection.open(api, content))
                        return await begin(reply)
                except TimeoutError:
                    raise NoReplyError(f"no reply within {self.endpoint.try_seconds:g} s") from None
                except ErrorReply as error:
                    raise self._sort_error(error) or _make_invalid(error) from None

        async with self._hold_place(
            try_once, waiting=waiting, most_tries=most_tries, permit=permit, owner=owner
        ) as tried:
            self._answered_apis.add(api)
            yield tried

    @contextlib.asynccontextmanager
    async def _hold_place(
        self,
        try_once: Callable[[contextlib.AsyncExitStack], Awaitable[T]],
        *,
        waiting: Callable[[], AbstractContextManager[None]],
        most_tries: int | None,
        permit: Callable[[], None],
        owner: Hashable | None,
    ) -> AsyncIterator[Tried[T]]:
        """Yield the result of the first try that succeeds, whose place at the endpoint the block holds."""
        started, backoff, working = time.monotonic(), FIRST_BACKOFF_SECONDS, 0.0
        retries, failures, unreadable = 0, 0, 0
        while True:
            async with contextlib.AsyncExitStack() as stack:
                with waiting():
                    await stack.enter_async_context(self.limit.admit(owner))
                permit()
                begun = time.monotonic()
                try:
                    with self._outage.watch(self._connection.find_obstacle):
                        result = await try_once(stack)
                except _Retry as reason:
                    working += time.monotonic() - begun
                    failure = reason
                except ModelRefusedError as refused:
                    raise await self._point_to_address(refused) from None
                else:
                    self._is_reached = True
                    self._outage.end()
                    self.limit.report_success()
                    now = self._last_success = time.monotonic()
                    seconds, working = now - started, working + now - begun
                    yield Tried(result, seconds, seconds - working, retries)
                    return
            retries += 1
            self._is_reached |= not failure.is_unreached
            if failure.at_once:
                continue
            if failure.is_outage:
                self._outage.note(str(failure), at_once=failure.is_unreached)
            if not self._is_reached and time.monotonic() > started + UNREACHED_SECONDS:
                raise self._refuse_address(failure)
            failures += 1
            unreadable += failure.most is not None
            # All requests that a server sends away at the same time would otherwise return at the same time.
            jitter = backoff * random.uniform(0.5, 1.0)
            pause = jitter if failure.after is None else failure.after + jitter / 2
            backoff = min(2 * backoff, MOST_BACKOFF_SECONDS)
            is_unreadable = failure.most is not None and unreadable >= failure.most
            is_late = time.monotonic() + pause > started + self.endpoint.request_seconds
            if is_late or is_unreadable or failures == most_tries:
                raise self._give_up(failure, failures, started, is_unreadable=is_unreadable)
            # The text of the failure comes from a server.
            _LOGGER.info(
                "model '%s': try %d failed: %s; the next one begins in %.1f s",
                self.endpoint.model,
                failures,
                escape_terminal(str(failure)),
                pause,
            )
            with waiting():
                await asyncio.sleep(pause)

    def _refuse_address(self, failure: _Retry) -> ModelRefusedError:
        endpoint = self.endpoint
        return ModelRefusedError(
            f"model '{endpoint.model}': no server answers at {endpoint.base_url}, for more than "
            f"{UNREACHED_SECONDS:g} s: {failure}",
            hint=_name_proxy(
                endpoint,
                "start the server, or correct --base-url, OPENAI_BASE_URL, or base_url in the config",
            ),
        )

    async def _point_to_address(self, error: ModelRefusedError) -> ModelRefusedError:
        """Return a refusal with the likely right URL in its hint, if the refusal is about this one."""
        if not error.is_of_address or self.has_succeeded:
            return error
        likely = list_likely_urls(self.endpoint.base_url, error.reply)
        if self._right_url is None:
            self._right_url = asyncio.create_task(self._connection.find_base_url(likely))
        url = await asyncio.shield(self._right_url)
        if url is None and PAGE in error.reply and likely:
            url = likely[0]
        if url is None:
            return error
        hint = f"the right URL is likely to be --base-url {url}"
        pointed = ModelRefusedError(str(error), hint=_name_proxy(self.endpoint, hint))
        pointed.reply = error.reply
        return pointed

    def _give_up(self, failure: _Retry, failures: int, started: float, *, is_unreadable: bool) -> ModelError:
        times = "once" if failures == 1 else f"{failures} times"
        endpoint = self.endpoint
        error = ModelError(
            f"model '{endpoint.model}' at {endpoint.base_url} failed {times} in "
            f"{time.monotonic() - started:.0f} s; the last time: {failure}",
            hint=_name_proxy(
                endpoint,
                "check the server with: "
                f"harness doctor --model {endpoint.model} --base-url {endpoint.base_url}"
                + ("" if endpoint.api == "chat" else f" --api {endpoint.api}"),
            ),
        )
        error.reply = str(failure)
        # A server that sends replies is not down, even if they cannot be read.
        error.is_outage = not is_unreadable and self._last_success < started
        return error

    async def _try(self, request: ModelRequest) -> ModelReply:
        """Return the reply of one try. Raises _Retry and as `ask` does."""
        api = self.endpoint.api
        body = encode_request(api, request, model=self.endpoint.model, dialect=self._dialect)
        with self._sort_faults():
            try:
                raw = await self._connection.post(body)
                raise_error_inside(raw)
                reply = decode_reply(api, raw)
            except ErrorReply as error:
                raise self._explain(error, request, body) from None
        if request.n > 1:
            self._dialect = replace(self._dialect, returns_n=len(reply.choices) >= request.n)
        return reply

    @contextlib.contextmanager
    def _sort_faults(self) -> Iterator[None]:
        """Raise _Retry for each fault of a reply that a retry may mend."""
        try:
            yield
        except NoReplyError as error:
            self.limit.report_server_error()
            text = _shorten(str(error))
            raise _Retry(text, is_unreached=error.is_unreached, is_outage=True) from None
        except ReplyTooLongError as error:
            self.limit.report_server_error()
            raise _Retry(str(error), most=MOST_TOO_LONG_REPLIES) from None
        except PageReplyError as error:
            if not self.has_succeeded:
                raise self._refuse(str(error), is_of_address=True) from None
            self.limit.report_server_error()
            raise _Retry(str(error), most=MOST_MALFORMED_REPLIES) from None
        except (MalformedReplyError, RecursionError) as error:
            self.limit.report_server_error()
            message = f"the reply is malformed: {_shorten(str(error))}"
            raise _Retry(message, most=MOST_MALFORMED_REPLIES) from None

    def _explain(self, error: ErrorReply, request: ModelRequest, body: dict[str, Any]) -> Exception:
        """Return the exception for an error reply, and note in the limit and the dialect what it says."""
        known = self._sort_error(error)
        if known is not None:
            return known
        refused = self._adapt(error, request, body)
        if refused is None:
            return _make_invalid(error)
        return _Retry(f"the server does not support {refused}", at_once=True)

    def _sort_error(self, error: ErrorReply) -> Exception | None:
        """Return the exception for an error reply, None for an invalid request, and note it in the limit."""
        text, after = _shorten(str(error)), read_retry_after(error.headers)
        match classify_error(error.status, error.body, str(error)):
            case ErrorKind.RATE_LIMIT:
                self.limit.report_rate_limit(after)
                return _Retry(text, after)
            case ErrorKind.SERVER:
                self.limit.report_server_error()
                return _Retry(text, after, is_outage=True)
            case ErrorKind.CONTEXT:
                return ContextTooLongError(text)
            case ErrorKind.REFUSED:
                # Servers name the model that they do not have.
                is_path = error.status == 404 and "model" not in text.lower()
                return self._refuse(text, is_of_address=is_path or error.is_page)
        if (error.is_page or error.status == 405) and not self.has_succeeded:
            return self._refuse(text, is_of_address=True)
        return None

    def _refuse(self, text: str, *, is_of_address: bool) -> ModelRefusedError:
        endpoint = self.endpoint
        refused = ModelRefusedError(
            f"model '{endpoint.model}' at {endpoint.base_url} refuses all requests: {text}",
            hint=_name_proxy(endpoint, f"check the name, the URL, and the key in {endpoint.api_key_env}"),
        )
        refused.reply, refused.is_of_address = text, is_of_address
        return refused

    def _adapt(self, error: ErrorReply, request: ModelRequest, body: dict[str, Any]) -> str | None:
        """Note in the dialect which part of the request the server refuses, and return its name.

        Return None if the error names no part that a request can do without.
        """
        optional = body.keys() & CODECS[self.endpoint.api].OPTIONAL_PARAMETERS
        refused = find_refused_parameter(error.body, str(error), optional)
        if refused is not None:
            self._dialect = self._dialect.refuse(refused, request)
        elif (field_of_reasoning := find_refused_reasoning(str(error), body)) is not None:
            self._dialect = replace(self._dialect, replays_reasoning=False)
            refused = field_of_reasoning
        elif self._dialect.replays_extra and (own := find_refused_extra(str(error), request)) is not None:
            self._dialect = replace(self._dialect, replays_extra=False)
            refused = own
        return refused


@contextlib.asynccontextmanager
async def open_client(endpoint: Endpoint) -> AsyncIterator[ModelClient]:
    """Yield the client of an endpoint, and close its connections at the end of the block.

    Raises UsageError if the endpoint needs a key that the environment does not hold.
    """
    async with open_connection(endpoint) as connection:
        yield ModelClient(endpoint, connection)


def _make_invalid(error: ErrorReply) -> InvalidRequestError:
    invalid = InvalidRequestError(_shorten(str(error)))
    invalid.body = error.body
    return invalid


def _choose_max_tokens_field(endpoint: Endpoint) -> str:
    if endpoint.api == "responses":
        return "max_output_tokens"
    if endpoint.api == "messages":
        return "max_tokens"
    if endpoint.max_tokens_field != "auto":
        return endpoint.max_tokens_field
    # OpenAI takes the new field for all models. Other servers may ignore it without an error.
    return "max_completion_tokens" if endpoint.base_url == OPENAI_URL else "max_tokens"


def _name_proxy(endpoint: Endpoint, hint: str | None) -> str:
    return "; ".join(filter(None, (describe_proxy(endpoint.base_url), hint)))


def _shorten(text: str) -> str:
    if len(text) <= _MESSAGE_CHARACTERS:
        return text
    return f"{text[:_MESSAGE_CHARACTERS]} [... {len(text)} characters]"
