"""The access that an agent on its own thread has to its attempt: the tools and the transcript.

Each call crosses to the event loop of the harness, which alone touches the sandbox. The access ends with the
attempt, so that a task or a thread that the agent leaves behind can no longer act.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from harness.core.tools import AgentEnvironment, Observation, Tool
from harness.models.messages import Generation, Message, ModelReply, ToolSchema
from harness.models.reply_cache import copy_generation, copy_messages, copy_tools
from harness.runs.agents.agent import AgentError, AgentModel, AttemptContext
from harness.sandbox.failures import SandboxClosed

T = TypeVar("T")
# An agent that calls a blocking client with `asyncio.to_thread` waits in one of these threads.
MAX_THREADS = 1024
# The time that an agent has to clean up at the end of the run.
END_SECONDS = 5.0
# An exception with more causes, counted with its groups' causes, is shown without them.
MAX_CAUSES = 100
MAX_MESSAGE_CHARACTERS = 10_000
_UNKNOWN = "an exception that cannot be shown"


@dataclass(frozen=True, slots=True)
class Returned(Generic[T]):
    """The work returned a value."""

    value: T


@dataclass(frozen=True, slots=True)
class Raised:
    """The work raised an exception.

    The exception itself stays on the agent's thread, because any use of it may run the agent's code.
    """

    # The type and the message, or the message alone for an AgentError.
    message: str
    # None for an AgentError.
    traceback: str | None = None
    # The failure of the harness that led to the exception.
    failure: BaseException | None = None


FindFailure = Callable[[BaseException], BaseException | None]


class AgentThread:
    """A daemon thread whose event loop runs all attempts of one agent."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._executor = ThreadPoolExecutor(MAX_THREADS, "harness-agent")
        self._loop.set_default_executor(self._executor)
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="harness-agent", daemon=True)
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, T], find_failure: FindFailure) -> Returned[T] | Raised:
        """Run `work` on the thread and return how it ended.

        `find_failure` returns the failure of the harness that led to an exception, None without one. A
        cancellation reaches the work, but the caller does not wait until the work obeys.
        """
        captured = _capture(work, find_failure)
        outcome = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(captured, self._loop))
        try:
            await asyncio.wait([outcome])
        except asyncio.CancelledError:
            outcome.cancel()
            raise
        if outcome.cancelled():
            work.close()
            return Raised("the agent cancelled its attempt before it began")
        return outcome.result()

    def close(self) -> None:
        """Cancel all tasks and end the thread. An agent that does not end in END_SECONDS is left behind."""
        self._is_closing.set()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._is_closing.is_set():
            # A SystemExit in a child task leaves `run_forever`, and the agent may also call `loop.stop()`.
            with contextlib.suppress(BaseException):
                self._loop.run_forever()
        with contextlib.suppress(BaseException):
            self._loop.run_until_complete(self._end_tasks())
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._loop.close()

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_asyncgens()


def list_causes(error: BaseException) -> list[BaseException]:
    """Return an exception and those that led to it: causes, contexts and members of groups.

    The list ends after MAX_CAUSES + 1. An exception in several groups counts several times.
    """
    found, pending = list[BaseException](), [error]
    while pending and len(found) <= MAX_CAUSES:
        each = pending.pop()
        found.append(each)
        pending += [cause for cause in (each.__cause__, each.__context__) if cause is not None]
        if isinstance(each, BaseExceptionGroup):
            pending += each.exceptions[:MAX_CAUSES]
    return found


async def _capture(work: Coroutine[Any, Any, T], find_failure: FindFailure) -> Returned[T] | Raised:
    process = os.getpid()
    try:
        outcome: Returned[T] | Raised = Returned(await work)
    except BaseException as error:
        outcome = _describe(error, find_failure)
    if os.getpid() != process:
        # The agent forked. The child shares the pipes of both loops, so it must not return to them.
        os._exit(1)
    return outcome


def _describe(error: BaseException, find_failure: FindFailure) -> Raised:
    """Return the description of an exception in exact `str`, whatever the agent's code does meanwhile."""
    try:
        failure = find_failure(error)
        message = _read_message(error)
        if isinstance(error, AgentError):
            return Raised(message, failure=failure)
        name = str.__str__(type(error).__name__)
        return Raised(f"{name}: {message}", _format_traceback(error), failure)
    except BaseException:
        return Raised(_UNKNOWN)


def _read_message(error: BaseException) -> str:
    try:
        return str.__str__(str(error))[:MAX_MESSAGE_CHARACTERS]
    except Exception as fault:
        return f"({str.__str__(type(fault).__name__)} in its __str__)"


def _format_traceback(error: BaseException) -> str:
    if len(list_causes(error)) > MAX_CAUSES:
        return "".join([*traceback.format_tb(error.__traceback__), f"(more than {MAX_CAUSES} causes)\n"])
    return "".join(traceback.format_exception(error))


# The largest arguments of a tool, and the largest entry of a transcript, as JSON.
MAX_CHARACTERS = 64 * 1024 * 1024


class AttemptAccess:
    """Passes the calls of an agent's thread on to the event loop where the attempt runs.

    `context` is the attempt as the agent sees it.
    """

    def __init__(self, context: AttemptContext) -> None:
        environment = None if context.environment is None else _RemoteEnvironment(self, context.environment)
        model = None if context.model is None else _RemoteModel(self, context.model)
        transcript = _GuardedTranscript(self, context)
        # A workspace belongs to the event loop of the harness.
        self.context = replace(
            context, environment=environment, transcript=transcript, model=model, open_workspace=None
        )
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._is_over = False
        self._calls: set[Future[Any]] = set()
        self._failures: list[BaseException] = []

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the event loop of the harness and return its result. Runs on the agent's thread.

        Raises SandboxClosed once the attempt is over.
        """
        with self._lock:
            if self._is_over:
                work.close()
                raise SandboxClosed()
            running = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._calls.add(running)
        try:
            return await asyncio.wrap_future(running)
        except Exception as error:
            self._failures.append(error)
            raise
        finally:
            with self._lock:
                self._calls.discard(running)

    def write(self, write: Callable[[], None]) -> None:
        """Run a blocking write on the calling thread, unless the attempt is over."""
        with self._lock:
            if self._is_over:
                raise SandboxClosed()
            try:
                write()
            except Exception as error:
                self._failures.append(error)
                raise

    def find_failure(self, error: BaseException) -> BaseException | None:
        """Return the failure of a tool call or a write that led to `error`, None if the agent caused it.

        An agent's own task group wraps the failure in an exception group, and an agent may raise its own
        exception from it.
        """
        for each in list_causes(error):
            if any(each is failure for failure in self._failures):
                return each
        return None

    def end(self) -> None:
        """Refuse all further calls, and cancel those under way."""
        with self._lock:
            self._is_over = True
            calls = list(self._calls)
        for call in calls:
            call.cancel()


@contextlib.contextmanager
def open_access(context: AttemptContext) -> Iterator[AttemptAccess]:
    """Yield the access to an attempt. It ends with the block."""
    access = AttemptAccess(context)
    try:
        yield access
    finally:
        access.end()


class _RemoteEnvironment:
    """The environment of the attempt, for calls from the agent's thread."""

    def __init__(self, access: AttemptAccess, environment: AgentEnvironment) -> None:
        self._access = access
        self._environment = environment
        self.tools: Mapping[str, Tool] = dict(environment.tools)
        self.turns = environment.turns
        self.text_protocol = environment.text_protocol

    @property
    def turns_used(self) -> int:
        return self._environment.turns_used

    @property
    def submitted(self) -> str | None:
        return self._environment.submitted

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        return await self._access.call(self._environment.call(str.__str__(name), _make_plain(arguments)))

    async def submit(self, answer: str) -> None:
        await self._access.call(self._environment.submit(str.__str__(answer)))


class _RemoteModel:
    """The model of the attempt, for requests from the agent's thread."""

    def __init__(self, access: AttemptAccess, model: AgentModel) -> None:
        self._access = access
        self._model = model
        # A copy, because the agent could change the fields that each request of the run carries.
        self.endpoint = model.endpoint.model_copy(deep=True)

    async def find_tool_mode(self) -> Literal["native", "text"]:
        return await self._access.call(self._model.find_tool_mode())

    async def ask(
        self,
        messages: str | Sequence[Message],
        *,
        tools: Sequence[ToolSchema | Tool] = (),
        generation: Generation | None = None,
    ) -> ModelReply:
        plain = str.__str__(messages) if isinstance(messages, str) else copy_messages(messages)
        settings = None if generation is None else copy_generation(generation)
        return await self._access.call(self._model.ask(plain, tools=copy_tools(tools), generation=settings))


class _GuardedTranscript:
    """The transcript of the attempt, which takes no entry after the end of the attempt."""

    def __init__(self, access: AttemptAccess, context: AttemptContext) -> None:
        self._access = access
        self._transcript = context.transcript

    def write(self, entry: Mapping[str, Any], *, is_end: bool = False) -> None:
        # The mark keeps an agent from writing entries that a replay takes for calls or for a judge's replies.
        plain = {**_make_plain(entry, default=str), "by": "agent"}
        self._access.write(lambda: self._transcript.write(plain))


def _make_plain(values: Mapping[str, Any], *, default: Callable[[Any], Any] | None = None) -> dict[str, Any]:
    """Return a copy that holds only plain data, as JSON does. It is made on the agent's thread.

    Raises TypeError for a value that JSON cannot hold, and ValueError for more than MAX_CHARACTERS of JSON.
    """
    text = json.dumps(dict(values), default=default)
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"{len(text):,} characters of JSON are more than {MAX_CHARACTERS:,}")
    plain: dict[str, Any] = json.loads(text)
    return plain
