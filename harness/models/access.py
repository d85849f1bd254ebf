"""The model of a run, which all attempts share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from harness.core.errors import HarnessError
from harness.core.types import Transcript
from harness.models.client import ModelClient
from harness.models.concurrency import Waiting
from harness.models.connection import API_PATHS
from harness.models.endpoint import Api
from harness.models.forwarding import Passage
from harness.models.judge import Judgement, ask_until_valid
from harness.models.messages import Generation, Message, ModelReply, ModelRequest, ReplySchema, Role, Usage
from harness.models.probe import probe_tools
from harness.models.raw_conversation import encode_raw_request
from harness.models.reply_cache import ReplyCache
from harness.models.sampling import SampleMerger
from harness.models.server_errors import (
    ContextTooLongError,
    InvalidRequestError,
    ModelError,
    ModelRefusedError,
    UnspokenApiError,
)
from harness.models.session import ModelSession
from harness.models.settings import list_own_parameters
from harness.models.spending import Budget, Spending
from harness.models.wire import RawRequest, encode_body

# The request of the run that shows whether a server answers at all.
PLAIN_TOKENS = 16
_PLAIN_TEXT = "Answer with the single word: ready"
_PLAIN_MESSAGES = {"messages": [{"role": "user", "content": _PLAIN_TEXT}]}
PLAIN_BODIES: Mapping[Api, Mapping[str, Any]] = {
    "chat": _PLAIN_MESSAGES,
    "responses": {"input": _PLAIN_TEXT},
    "messages": _PLAIN_MESSAGES,
}

ToolMode = Literal["native", "text"]


class Payer(Hashable, Protocol):
    """The attempt that has caused a request of the run."""

    def require_rest(self) -> None:
        """Raise BudgetReached if nothing is left of its budget."""

    def pay(self, usage: Usage) -> None:
        """Count a request, and charge its usage."""


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """The model of a run, which all attempts share."""

    client: ModelClient
    generation: Generation = field(default_factory=Generation)
    attempt_budget: Budget = field(default_factory=Budget)
    # The spending of the whole run.
    spending: Spending = field(default_factory=Spending)
    cache: ReplyCache | None = None
    merger: SampleMerger = field(default_factory=SampleMerger)
    # Whether a program's parameters of generation override the run's.
    keeps_client_generation: bool = False
    # The tool mode that the run has used before it was resumed, None if it is unknown.
    known_tool_mode: ToolMode | None = None
    # Called once with the tool mode of the run, as soon as an agent asks for it.
    keep_tool_mode: Callable[[ToolMode], None] = lambda mode: None
    _tool_mode: _ToolMode = field(default_factory=lambda: _ToolMode())

    async def find_tool_mode(self) -> ToolMode:
        """Return how the model calls tools. If the endpoint leaves it open, one request of the run finds out.

        Raises BudgetReached, ModelError, ModelRefusedError and UnknownSpendingError.
        """
        return await self._tool_mode.find(self._choose_tool_mode)

    async def _choose_tool_mode(self) -> ToolMode:
        mode = self.client.endpoint.tool_mode
        if mode == "auto":
            # A resumed run must not mix two modes, so the first answer counts.
            mode = self.known_tool_mode or await probe_tools(self._ask)
        self.keep_tool_mode(mode)
        return mode

    async def require_valid_parameters(self, error: InvalidRequestError) -> None:
        """Raise ModelRefusedError if the server also refuses a plain request, and has answered none so far.

        Then the parameters of the run are invalid, and all attempts would fail alike. `error` is the refusal.
        The plain request has only the run's parameters, because one agent's parameters must not end the run.
        """
        if self.client.has_succeeded:
            return
        message = Message(Role.USER, _PLAIN_TEXT)
        plain = ModelRequest((message,), generation=self.generation)
        try:
            await self._ask(plain, most_tries=1)
        except InvalidRequestError:
            endpoint = self.client.endpoint
            raise ModelRefusedError(
                f"model '{endpoint.model}' at {endpoint.base_url} refuses all requests: {error}",
                hint="check the parameters of generation and the endpoint's extra_body",
            ) from error
        except (ModelError, ContextTooLongError):
            return

    async def find_blame(self, api: Api, error: ModelError | ModelRefusedError, payer: Payer) -> Exception:
        """Return the failure of a request that an agent has written, by plain requests of the run.

        If the server answers one, the agent's request was to blame, and nothing else has failed. An API in
        which the server has answered nothing so far is a choice of the agent, which must not become a fault
        of the server. So the run also asks in the API of its endpoint.
        `payer` is charged, because the agent has caused the requests.
        """
        endpoint = self.client.endpoint
        # A plain request adds an API to those that the server has answered in.
        is_chosen = api != endpoint.api and not self.client.has_answered_at(api)
        if await self._answers_plainly(api, payer):
            return InvalidRequestError(error.reply)
        if is_chosen and await self._answers_plainly(endpoint.api, payer):
            return UnspokenApiError(
                f"the server of the model '{endpoint.model}' does not answer at /{API_PATHS[api]}, so an "
                f"agent that speaks this API needs another server: {error.reply}"
            )
        return error

    async def _answers_plainly(self, api: Api, payer: Payer) -> bool:
        """Return whether the server answers a plain request, or refuses it for its parameters alone."""
        endpoint = self.client.endpoint
        request = RawRequest(api, PLAIN_BODIES[api], fallback_max_tokens=PLAIN_TOKENS)
        generation = replace(self.generation, max_tokens=PLAIN_TOKENS)
        dialect = self.client.find_dialect(api)
        body = encode_raw_request(
            request, generation, dialect, own=frozenset(), model=endpoint.model, extra=endpoint.extra_body
        )
        client = self.client
        passage = Passage(
            client.endpoint,
            client.hide_key,
            client.limit,
            api,
            is_stream=False,
            wants_usage=False,
            check=lambda usage: None,
            keeps_bytes=False,
        )
        try:
            async with self.client.open_raw(
                api,
                encode_body(body),
                begin=passage.begin,
                waiting=contextlib.nullcontext,
                permit=payer.require_rest,
                most_tries=1,
                owner=payer,
            ):
                payer.pay(passage.find_usage()[0])
                return True
        except InvalidRequestError:
            return True
        except (ModelError, ModelRefusedError, ContextTooLongError):
            return False

    async def _ask(self, request: ModelRequest, *, most_tries: int | None = None) -> ModelReply:
        """Return the reply to a request of the run itself, which counts against the budget of no attempt.

        Raises as `ModelClient.ask` does, BudgetReached and UnknownSpendingError.
        """
        permit = self.spending.require_rest
        permit()
        own = list_own_parameters(request.generation, self.generation)
        request = replace(request, own_parameters=own)
        reply = await self.client.ask(request, most_tries=most_tries, permit=permit)
        self.spending.charge(reply.usage, self.client.endpoint.prices)
        return reply

    def open_session(
        self,
        *,
        number: int,
        seed: int,
        transcript: Transcript,
        waiting: Waiting = contextlib.nullcontext,
        asking: Waiting = contextlib.nullcontext,
        group: Hashable | None = None,
        earlier: ModelSession | None = None,
    ) -> ModelSession:
        """Return the access of an attempt.

        Args:
            number: the number of the attempt at its task.
            seed: the seed that is sent with each request.
            transcript: each request is written here.
            waiting: returns a context that pauses the agent's time.
            asking: returns a context that surrounds each request, with all of its tries.
            group: the first requests of sessions with the same group may be merged into one. None for none.
            earlier: the session of an earlier try of the attempt, whose use of the model counts as well.
        """
        session = ModelSession(self, number, seed, transcript, waiting, group, asking)
        if earlier is not None:
            session.continue_counts(earlier)
        return session


class _ToolMode:
    """The tool mode of a run, which is found once while all attempts wait."""

    def __init__(self) -> None:
        self._task: asyncio.Task[ToolMode] | None = None

    async def find(self, choose: Callable[[], Coroutine[Any, Any, ToolMode]]) -> ToolMode:
        if self._task is None:
            self._task = asyncio.create_task(choose())
        # One attempt may end while the others still wait.
        return await asyncio.shield(self._task)


class Judge:
    """The judge as the environment of one attempt sees it."""

    def __init__(
        self,
        access: ModelAccess,
        *,
        number: int,
        seed: int,
        transcript: Transcript,
        pause: Waiting,
        asking: Waiting = contextlib.nullcontext,
        earlier: Judge | None = None,
    ) -> None:
        """Ask for one attempt.

        Args:
            access: the model, which all attempts of the run share.
            number: the number of the attempt at its task.
            seed: the seed that is sent with each request.
            transcript: each request is written here, as an entry of the kind `judge`.
            pause: returns a context that pauses the agent's time.
            asking: returns a context that surrounds each request, with all of its tries.
            earlier: the judge of an earlier try of the attempt, whose requests count as well.
        """
        self._session: ModelSession = access.open_session(
            number=number,
            seed=seed,
            transcript=_JudgeTranscript(transcript),
            asking=asking,
            earlier=None if earlier is None else earlier._session,
        )
        self._pause = pause
        # The failure that ended the last request. An agent may catch it and submit something, but the
        # submission would count as its own.
        self.failure: Exception | None = None

    @property
    def metrics(self) -> dict[str, Any]:
        """The use of the model so far, under names that begin with `judge_`. Empty before a request."""
        return {f"judge_{name.removeprefix('model_')}": each for name, each in self._session.metrics.items()}

    async def ask(
        self, messages: Sequence[Message], schema: ReplySchema | None, read: Callable[[str], Judgement]
    ) -> Judgement:
        """Return the judgement that `read` finds in the model's reply. The agent's time is paused.

        Args:
            messages: the whole request.
            schema: the form of the reply, None for free text.
            read: returns the judgement in a reply, and raises ValueError for a malformed one. The model then
                gets another chance.

        Raises:
            ModelError: if the server fails, or the model writes no valid reply.
            ModelRefusedError: if the server refuses every request.
        """
        if self.failure is not None:
            raise self.failure
        try:
            with self._pause():
                return await self._ask(messages, schema, read)
        except (ContextTooLongError, InvalidRequestError) as error:
            self.failure = ModelError(f"the judge refuses a request: {error}")
            raise self.failure from error
        except HarnessError as error:
            self.failure = error
            raise

    async def _ask(
        self, messages: Sequence[Message], schema: ReplySchema | None, read: Callable[[str], Judgement]
    ) -> Judgement:
        async def ask(asked: Sequence[Message]) -> Message:
            return (await self._session.ask(asked, reply_schema=schema)).choices[0].message

        return await ask_until_valid(ask, messages, read, schema, name=self._session.endpoint.model)


class _JudgeTranscript:
    """A transcript that tells the requests to the judge from the agent's own."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript

    def write(self, entry: Mapping[str, Any], *, is_end: bool = False) -> None:
        is_request = entry.get("kind") == "model"
        self._transcript.write({**entry, "kind": "judge"} if is_request else entry, is_end=is_end)
