"""The access of one attempt to the model: it keeps the budgets and counts the use."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.core.errors import HarnessError
from harness.core.tools import Tool
from harness.core.types import Transcript
from harness.models.codecs import CODECS, list_unsent_parameters
from harness.models.concurrency import SharedPause, Waiting
from harness.models.endpoint import Api, Endpoint
from harness.models.forwarding import JSON_TYPE, STREAM_TYPE, ForwardedReply, Passage
from harness.models.messages import (
    Choice,
    Counts,
    Finish,
    Generation,
    Message,
    ModelReply,
    ModelRequest,
    ReplySchema,
    Role,
    ToolSchema,
    Usage,
    describe_tool,
)
from harness.models.output_rooms import OutputRooms
from harness.models.raw_conversation import ConversationLog, encode_raw_request, list_optional_parameters
from harness.models.reply_cache import ReplyCache, hash_raw_request, hash_request
from harness.models.sampling import Sample
from harness.models.server_errors import (
    ContextTooLongError,
    InvalidRequestError,
    MalformedReplyError,
    ModelError,
    ModelRefusedError,
    UnknownSpendingError,
    UnspokenApiError,
    find_refused_parameter,
)
from harness.models.settings import list_own_parameters
from harness.models.spending import BudgetReached, Spending, compute_cost
from harness.models.wire import RawRequest, encode_body

if TYPE_CHECKING:
    from harness.models.access import ModelAccess, ToolMode

_NO_REPLY = ModelReply((Choice(Message(Role.ASSISTANT), Finish.STOP),), Usage(), "", {})


class ModelSession:
    """The model as one attempt sees it. Requests may be under way at the same time."""

    def __init__(
        self,
        access: ModelAccess,
        number: int,
        seed: int,
        transcript: Transcript,
        waiting: Waiting,
        group: Hashable | None,
        asking: Waiting = contextlib.nullcontext,
    ) -> None:
        self._access = access
        self._number = number
        self._seed = seed
        self._transcript = transcript
        self._log = ConversationLog(transcript)
        self._waiting = waiting
        self._group = group
        self._asking = asking
        self._spending = Spending(access.attempt_budget, parent=access.spending)
        self._requests = 0
        self._counts = Counts()
        self._pause = SharedPause(waiting)
        self._rooms = OutputRooms(lambda limit: self._spending.find_rest(limit), self.endpoint.prices)
        # Parameters that the server has refused in a request of the agent.
        self._refused: dict[Api, frozenset[str]] = {}
        # The APIs that the server does not answer in, with the failure of their requests.
        self._unspoken: dict[Api, InvalidRequestError] = {}
        self._has_ended = asyncio.Event()
        # The failure that the agent is not to blame for, until a later request succeeds. An agent may catch
        # it and submit something, but the submission would count as its own.
        self.failure: Exception | None = None

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that this session asks. It holds no key."""
        return self._access.client.endpoint

    @property
    def keeps_client_generation(self) -> bool:
        """Whether a program's parameters of generation override the run's."""
        return self._access.keeps_client_generation

    async def ask(
        self,
        messages: str | Sequence[Message],
        *,
        tools: Sequence[ToolSchema | Tool] = (),
        generation: Generation | None = None,
        reply_schema: ReplySchema | None = None,
    ) -> ModelReply:
        """Return the model's reply to messages, or to a text as the message of a user.

        Args:
            messages: the whole conversation so far, because a model remembers nothing.
            tools: the tools that the model may call.
            generation: parameters that override the run's, unless they are None.
            reply_schema: the form of the reply, which a server may ignore.

        Raises:
            BudgetReached: if a budget of the attempt or of the run is used up.
            ContextTooLongError: if the messages do not fit into the model's context.
            InvalidRequestError: if the server refuses this request as invalid.
            ModelError: if the server failed until the time of the request was over.
            ModelRefusedError: if the server refuses every request.
        """
        with self._note_failure(), self._asking():
            return await self._ask(messages, tools, generation, reply_schema)

    async def _ask(
        self,
        messages: str | Sequence[Message],
        tools: Sequence[ToolSchema | Tool],
        generation: Generation | None,
        reply_schema: ReplySchema | None,
    ) -> ModelReply:
        self._spending.require_rest()
        whole = (Message(Role.USER, messages),) if isinstance(messages, str) else tuple(messages)
        asked = generation or Generation()
        chosen = self._choose_generation(asked, CODECS[self.endpoint.api].DEFAULT_MAX_TOKENS)
        # A seed or a limit that harness has set is not the agent's choice.
        own = list_own_parameters(chosen, self._access.generation, among=asked)
        request = ModelRequest(
            whole, tuple(map(describe_tool, tools)), chosen, reply_schema=reply_schema, own_parameters=own
        )
        self._requests += 1
        number = self._requests
        try:
            reply = await self._find_or_ask(request, is_first=number == 1)
        except InvalidRequestError as error:
            await self._access.require_valid_parameters(error)
            raise
        except (HarnessError, BudgetReached, ContextTooLongError):
            raise
        except Exception as error:
            # A defect of ours must not count against the agent, and a resumed run tries the attempt again.
            raise ModelError(f"a defect of harness: {type(error).__name__}: {error}") from error
        self._counts.add(reply, compute_cost(reply.usage, self.endpoint.prices))
        if not reply.is_cached:
            self._spending.charge(reply.usage, self.endpoint.prices)
        notes = self._list_unsent(chosen, own) if number == 1 else {}
        self._counts.truncations += self._log.write(number, request, reply, notes)
        return reply

    def _list_unsent(self, generation: Generation, own: frozenset[str]) -> dict[str, Any]:
        """Return the field of the transcript that names parameters without an effect, if there are any."""
        client = self._access.client
        names = list_unsent_parameters(client.endpoint.api, generation, client.dialect, own)
        return {"not_sent": names} if names else {}

    async def find_tool_mode(self) -> ToolMode:
        """Return whether the model calls tools by the protocol of the API, or in its text.

        Raises as `ask` does.
        """
        with self._note_failure(), self._asking(), self._waiting():
            return await self._access.find_tool_mode()

    @property
    def metrics(self) -> dict[str, Any]:
        """The use of the model so far, under the names of an attempt's metrics. Empty before a request."""
        return self._counts.metrics() if self._counts.requests or self._counts.cached else {}

    def continue_counts(self, earlier: ModelSession) -> None:
        """Count and charge further requests together with those of an earlier session."""
        self._spending, self._counts = earlier._spending, earlier._counts

    @contextlib.asynccontextmanager
    async def forward(self, request: RawRequest) -> AsyncIterator[ForwardedReply]:
        """Yield the reply to a request that a program has written, while it comes.

        A request that harness has not written is not retried by its agent's code, so a budget that is used up
        ends the attempt. See `wait_until_ended`.

        Raises as `ask` does. The pieces of the reply raise BudgetReached and ModelError.
        """
        with self._note_failure(keeps_budget=True), self._asking():
            self._spending.require_rest()
            self._requests += 1
            number = self._requests
            taken = self._rooms.take(self._choose_generation(request.generation), request)
            async with taken as generation:
                client = self._access.client
                passage = Passage(
                    client.endpoint,
                    client.hide_key,
                    client.limit,
                    request.api,
                    request.is_stream,
                    request.wants_usage,
                    lambda usage: self._spending.require_room(usage, self.endpoint.prices),
                    keeps_bytes=self._access.cache is not None,
                )
                try:
                    with self._pause.hold_request():
                        async with (
                            self._open_passage(request, generation, passage) as pieces,
                            contextlib.aclosing(pieces),
                        ):
                            yield ForwardedReply(STREAM_TYPE if request.is_stream else JSON_TYPE, pieces)
                except (HarnessError, BudgetReached, ContextTooLongError, InvalidRequestError) as error:
                    text = f"not answered: {error}"
                    self._transcript.write({"kind": "relay", "request": number, "text": text})
                    if passage.streamed is None and passage.whole is None:
                        raise
                    with contextlib.suppress(UnknownSpendingError):
                        self._end_passage(number, request, generation, passage)
                    if isinstance(error, ModelError):
                        # A request can also make a server break off its reply.
                        blamed = await self._find_blame(request.api, error)
                        if blamed is not error:
                            raise blamed from None
                    raise
                except BaseException:
                    # The client has gone, but the server has done its work.
                    if passage.is_posted or passage.is_cached:
                        with contextlib.suppress(UnknownSpendingError):
                            self._end_passage(number, request, generation, passage)
                    raise
                self._end_passage(number, request, generation, passage)

    async def wait_until_ended(self) -> Exception:
        """Return the failure that ends this session for further requests, as soon as there is one."""
        await self._has_ended.wait()
        assert self.failure is not None  # noqa: S101
        return self.failure

    @contextlib.asynccontextmanager
    async def _open_passage(
        self, request: RawRequest, generation: Generation, passage: Passage
    ) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        access, endpoint, cache = self._access, self.endpoint, self._access.cache
        own = list_own_parameters(generation, access.generation, among=request.generation)

        def permit() -> None:
            self._spending.require_rest()
            passage.is_posted = True

        while True:
            dialect = access.client.find_dialect(request.api)
            body = encode_raw_request(
                request, generation, dialect, own=own, model=endpoint.model, extra=endpoint.extra_body
            )
            left_out = self._refused.get(request.api, frozenset())
            content = encode_body({name: value for name, value in body.items() if name not in left_out})
            passage.content = content
            key = "" if cache is None else hash_raw_request(endpoint, request.api, content, self._number)
            if cache is not None and (pieces := await _find_kept(cache, key, passage)) is not None:
                yield pieces
                return
            async with contextlib.AsyncExitStack() as stack:
                opened = access.client.open_raw(
                    request.api,
                    content,
                    begin=passage.begin,
                    waiting=self._pause.wait,
                    permit=permit,
                    owner=self,
                )
                try:
                    tried = await stack.enter_async_context(opened)
                except InvalidRequestError as error:
                    await access.require_valid_parameters(error)
                    if access.client.find_dialect(request.api) == dialect and not self._refuse(
                        request.api, error, body
                    ):
                        raise
                    continue
                except (ModelError, ModelRefusedError) as error:
                    blamed = await self._find_blame(request.api, error)
                    if blamed is error:
                        raise
                    raise blamed from None
                passage.seconds, passage.waiting_seconds = tried.seconds, tried.waiting_seconds
                passage.retries = tried.retries
                yield tried.result
            if cache is not None and passage.can_be_kept:
                await asyncio.to_thread(cache.keep_bytes, key, bytes(passage.passed))
            return

    async def _find_blame(self, api: Api, error: ModelError | ModelRefusedError) -> Exception:
        """Return the failure of a request, as `ModelAccess.find_blame` does.

        An API that the server does not speak is found out once, because a program could ask in it without
        end, and each time the run would also ask the server.
        """
        if api in self._unspoken and not self._access.client.has_answered_at(api):
            return self._unspoken[api]
        blamed = await self._access.find_blame(api, error, self)
        if isinstance(blamed, UnspokenApiError):
            self._unspoken[api] = blamed
        return blamed

    def require_rest(self) -> None:
        """Raise BudgetReached if nothing is left of the attempt's budget."""
        self._spending.require_rest()

    def pay(self, usage: Usage) -> None:
        """Count a request of the run that this attempt has caused, and charge its usage."""
        self._counts.count_request(usage, compute_cost(usage, self.endpoint.prices))
        self._spending.charge(usage, self.endpoint.prices)

    def _refuse(self, api: Api, error: InvalidRequestError, body: Mapping[str, Any]) -> bool:
        """Leave out the parameter that an error names in its own field, and return whether there is one.

        The text of the error could quote the agent, which must not choose parameters in this way.
        """
        known = self._refused.get(api, frozenset())
        name = find_refused_parameter(error.body, "", (body.keys() & list_optional_parameters(api)) - known)
        if name is None:
            return False
        self._refused[api] = known | {name}
        return True

    def _end_passage(
        self, number: int, request: RawRequest, generation: Generation, passage: Passage
    ) -> None:
        usage, is_estimated = passage.find_usage()
        reply = replace(
            passage.find_reply() or _NO_REPLY,
            usage=usage,
            seconds=passage.seconds,
            waiting_seconds=passage.waiting_seconds,
            retries=passage.retries,
            is_cached=passage.is_cached,
        )
        self._counts.add(reply, compute_cost(usage, self.endpoint.prices))
        shown = ModelRequest(request.messages, request.tools, generation)
        notes = {"api": request.api, "streamed": request.is_stream, **request.notes}
        if not passage.is_complete:
            notes["cut_off"] = True
        if is_estimated or not passage.is_complete:
            notes["usage_is_estimated"] = is_estimated
        try:
            if not passage.is_cached:
                self._spending.charge(usage, self.endpoint.prices)
        finally:
            self._counts.truncations += self._log.write(number, shown, reply, notes)
            self._log.drop_last_reasoning()

    def note(self, text: str) -> None:
        """Write to the transcript that a request of a program was not passed on."""
        self._transcript.write({"kind": "relay", "text": text})

    def fail_by_defect(self, error: Exception) -> None:
        """Keep a defect of ours in `failure`, because it must not count against the agent."""
        self.failure = ModelError(f"a defect of harness: {type(error).__name__}: {error}")

    @contextlib.contextmanager
    def _note_failure(self, *, keeps_budget: bool = False) -> Iterator[None]:
        """Keep in `failure` whether a request has failed without the agent's fault.

        With `keeps_budget`, a budget of the attempt that is used up is kept, too, because no agent of ours
        has got the exception.
        """
        try:
            yield
        except (ModelError, ModelRefusedError, UnknownSpendingError) as error:
            self.failure = error
            if not isinstance(error, ModelError):
                self._has_ended.set()
            raise
        except BudgetReached as error:
            if error.is_of_run or keeps_budget:
                self.failure = error
                self._has_ended.set()
            raise
        if isinstance(self.failure, ModelError):
            self.failure = None

    def _choose_generation(self, own: Generation, default_max_tokens: int | None = None) -> Generation:
        """Return the run's parameters, overridden by the agent's, within the budget of output tokens."""
        given = {name: value for name in own.__slots__ if (value := getattr(own, name)) not in (None, ())}
        chosen = replace(self._access.generation, **given)
        if chosen.seed is None:
            chosen = replace(chosen, seed=self._seed)
        if chosen.max_tokens is None:
            chosen = replace(chosen, max_tokens=default_max_tokens)
        rest = self._spending.find_rest("output_tokens")
        if rest is not None:
            most = rest if chosen.max_tokens is None else min(chosen.max_tokens, rest)
            chosen = replace(chosen, max_tokens=int(most))
        return chosen

    async def _find_or_ask(self, request: ModelRequest, *, is_first: bool) -> ModelReply:
        cache, endpoint = self._access.cache, self.endpoint
        key = "" if cache is None else hash_request(endpoint, request, self._number)
        if cache is not None and (found := cache.find(endpoint.api, key)) is not None:
            return replace(found, is_cached=True)
        client = self._access.client
        if is_first and self._group is not None:
            sample = Sample(request, self._number, self._waiting, self._spending.require_rest)
            reply = await self._access.merger.ask(client.ask, self._group, sample)
        else:
            permit = self._spending.require_rest
            reply = await client.ask(request, waiting=self._waiting, permit=permit, owner=self)
        if cache is not None:
            cache.keep(key, reply)
        return reply


async def _find_kept(cache: ReplyCache, key: str, passage: Passage) -> AsyncGenerator[bytes, None] | None:
    """Return the pieces of a reply from the cache, None if it has none or a damaged one."""
    found = await asyncio.to_thread(cache.find_bytes, key)
    if found is None:
        return None
    try:
        return passage.read_kept(found)
    except MalformedReplyError:
        return None
