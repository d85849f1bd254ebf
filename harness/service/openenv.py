"""`/ws`: tasks of the loaded benchmarks as environments, in the protocol of OpenEnv.

Each message is `{"type": ..., "data": ...}`. A client sends `reset`, `step`, `state` and `close`, one at a
time. A WebSocket has one episode at a time, which ends with it.

Source: https://github.com/meta-pytorch/OpenEnv, `openenv-core` 0.3.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from collections.abc import AsyncIterator, Awaitable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, model_validator
from starlette.websockets import WebSocket, WebSocketDisconnect

from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import HarnessError, UsageError, unknown_name, unknown_task
from harness.core.invalid_values import describe_first_error
from harness.core.logger import get_logger
from harness.core.types import TEXT_FIELDS, Status, Task, Verdict
from harness.environments import environment_spec
from harness.host.episode import MOST_SNAPSHOT_BYTES, Episode, EpisodeSnapshot, bound_life
from harness.service.errors import BusyError, InvalidRequestError, ServiceError, ShareUsedError, explain
from harness.service.operations import Call, encode_reply, read_json
from harness.service.sandboxes.models import SnapshotRequest
from harness.service.service import Service
from harness.service.verdicts.samples import Deadline, Work, grade_work

_LOGGER = get_logger(__name__)

# How long the start of an episode may wait, and its grading.
_WAIT_SECONDS = 30.0
_GRADING_WAIT_SECONDS = 600.0
T = TypeVar("T")
PATH = "/ws"
_IDLE_SECONDS = 600.0
_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step: the text that the agent sees, and the verdict if the episode has ended."""

    text: str
    verdict: Verdict | None = None


class ServedEpisode:
    """An episode of a client. Its gradings take places in the queue of the service."""

    def __init__(self, service: Service, client: str, episode: Episode, episode_id: str) -> None:
        self.id = episode_id
        self.episode = episode
        self.steps = 0
        self.verdict: Verdict | None = None
        self._service = service
        self._client = client

    async def step(self, action: StepData) -> StepResult:
        """Carry out an action and return its result.

        Raises ServiceError if the action cannot be used, or if the episode has no verdict by a fault of the
        service. Raises SandboxError for a fault of a sandbox.
        """
        if self.verdict is not None:
            raise InvalidRequestError("the episode has ended; reset to begin another one")
        if self.episode.is_expired:
            seconds = bound_life(self.episode.task)
            message = f"the episode has lasted for {seconds:g} s, its limit; reset to begin another one"
            raise InvalidRequestError(message, code="episode_expired", status=410)
        if self.episode.environment is None:
            result = await self._answer(action)
        else:
            result = await self._act(action)
        self.steps += 1
        if result.verdict is not None:
            if self.episode.environment is not None:  # `grade_work` has counted the others
                self._service.metrics.verdicts.labels(result.verdict.status.value).inc()
            if not result.verdict.status.has_score:
                raise ServiceError(503, result.verdict.status.value, self._explain(result.verdict))
            self.verdict = result.verdict
        return result

    def _explain(self, verdict: Verdict) -> str:
        """Return why an episode has no score. The output of a task's own tests stays in the log."""
        if verdict.status is not Status.GRADER_ERROR:
            return verdict.evidence or "no verdict"
        _LOGGER.warning("no reward for %s: %s", self.episode.task.id, verdict.evidence)
        return "the tests of the task gave no reward; the log of the service has the reason"

    async def _answer(self, action: StepData) -> StepResult:
        if action.field is None:
            raise InvalidRequestError(f"the task takes a text: one of {', '.join(TEXT_FIELDS)}", status=422)
        benchmark, task = self.episode.benchmark, self.episode.task
        seconds = float(environment_spec(task.environment).timeout_seconds)
        submission = benchmark.submission(task, action.field, action.text)
        work = Work(benchmark.references[task.id].target, submission, benchmark)
        call = Call(self._service, self._client)
        verdict = await grade_work(work, call, Deadline.start(seconds + _WAIT_SECONDS, seconds))
        return StepResult("", verdict)

    async def _act(self, action: StepData) -> StepResult:
        if action.tool is not None:
            observation = await self.episode.call(action.tool, action.arguments)
        elif action.field != "reply":
            message = "the task takes a call: 'tool' with 'arguments', or the 'reply' of a model"
            raise InvalidRequestError(message, status=422)
        else:
            observation = await self.episode.reply(action.text)
        return StepResult(observation.text, self.episode.verdict)


@contextlib.asynccontextmanager
async def open_episode(
    service: Service,
    client: str,
    benchmark: Benchmark,
    task: Task,
    *,
    seed: int,
    episode_id: str | None = None,
    start: EpisodeSnapshot | None = None,
) -> AsyncIterator[ServedEpisode]:
    """Yield an episode, whose environment is destroyed at the end of the block.

    It starts from the state `start` of another one, by default from the task's.

    Raises ServiceError if there is no room for its sandboxes, and HarnessError if it cannot be opened.
    """
    spec = environment_spec(task.environment)
    async with contextlib.AsyncExitStack() as stack:
        if spec.open_environment is not None:
            sandboxes = 0 if spec.image is None else 1 + spec.nested_sandboxes
            limits = await asyncio.to_thread(spec.find_limits, task, spec.limits)
            holding = service.sessions.budget.hold(
                client, sandboxes * limits.memory_mb, sandboxes * limits.processes
            )
            stack.enter_context(holding)
        # A wait in vain would cost the verdict, because the agent's processes are dead.
        waiting = partial(service.work, client, wait_seconds=_GRADING_WAIT_SECONDS)
        opening = service.host.environment(
            *(benchmark, task.id),
            seed=seed,
            machine_rules=service.settings.machine_rules,
            before_grading=waiting,
            start=start,
        )
        needs_place = spec.open_environment is not None and spec.image is not None
        async with service.work(client, wait_seconds=_WAIT_SECONDS) if needs_place else nullcontext():
            episode = await stack.enter_async_context(opening)
        yield ServedEpisode(service, client, episode, episode_id or secrets.token_urlsafe(12))


Model = TypeVar("Model", bound=BaseModel)


class Message(BaseModel):
    """A message of a client."""

    model_config = ConfigDict(extra="ignore")

    type: str
    data: dict[str, Any] = {}


class ResetData(BaseModel):
    """The data of `reset`: the task of the new episode. Other parameters are ignored, as OpenEnv does."""

    model_config = ConfigDict(extra="ignore")

    benchmark: str | None = None
    # The ids of MBPP are numbers.
    task_id: StrictInt | str | None = None
    seed: int | None = Field(default=None, ge=0, le=_LARGEST_SEED)
    episode_id: str | None = Field(default=None, max_length=200)
    # The name of a snapshot, which has the task.
    snapshot: str | None = None

    @model_validator(mode="after")
    def _require_one_task(self) -> ResetData:
        given = [name for name in ("benchmark", "task_id", "seed") if getattr(self, name) is not None]
        if self.snapshot is not None and given:
            raise ValueError(f"the snapshot has the task, so leave out {', '.join(given)}")
        return self


class StepData(BaseModel):
    """The data of `step`: the call of a tool, or a text."""

    model_config = ConfigDict(extra="forbid")

    tool: str | None = None
    arguments: dict[str, Any] = {}
    reply: str | None = None
    completion: str | None = None
    solution: str | None = None
    answer: str | None = None
    snapshot: SnapshotRequest | None = None
    metadata: dict[str, Any] = {}

    @model_validator(mode="after")
    def _require_one(self) -> StepData:
        given = [name for name in ("tool", *TEXT_FIELDS, "snapshot") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"needs exactly one of tool, {', '.join(TEXT_FIELDS)}, snapshot")
        return self

    @property
    def field(self) -> str | None:
        """The kind of the text, None for the call of a tool."""
        return next((name for name in TEXT_FIELDS if getattr(self, name) is not None), None)

    @property
    def text(self) -> str:
        return "" if self.field is None else str(getattr(self, self.field))


class Result(BaseModel):
    """The data of an `observation`."""

    observation: dict[str, Any]
    reward: float | None = None
    done: bool = False


class Reply(BaseModel):
    """A message of the service."""

    type: Literal["observation", "state", "error"]
    data: dict[str, Any]


async def serve_openenv(websocket: WebSocket, service: Service) -> None:
    """Serve a WebSocket until its client closes it. Raises ServiceError and WebSocketDisconnect."""
    if not service.benchmarks:
        raise InvalidRequestError(
            "the service has no benchmark; start it with harness serve -b BENCH",
            code="no_benchmark",
            status=404,
        )
    await websocket.accept()
    async with _Session(websocket, service) as session:
        while (message := await session.receive()) is not None:
            await websocket.send_text(encode_reply(await session.answer(message)).decode())
    await websocket.close()


class _Session:
    """The conversation over one WebSocket, and its episode."""

    def __init__(self, websocket: WebSocket, service: Service) -> None:
        self._websocket = websocket
        self._service = service
        self._client = str(websocket.state.client)
        self._held = contextlib.AsyncExitStack()
        self._episode: ServedEpisode | None = None
        # A client sends the next message after the reply, so more than one waits only if it breaks that rule.
        self._messages: asyncio.Queue[str | bytes | None] = asyncio.Queue(maxsize=2)
        self._gone = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    async def __aenter__(self) -> _Session:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._release()

    async def _release(self) -> None:
        """Destroy the environment of the episode."""
        try:
            await self._held.aclose()
        except HarnessError as error:
            # The end of the service removes what is left, and the verdict counts.
            _LOGGER.warning("the end of an episode failed: %s", error.message)

    async def _read(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                self._gone.set()
                await self._messages.put(None)
                return
            text = message.get("text")
            await self._messages.put(message.get("bytes") or b"" if text is None else text)

    async def receive(self) -> Message | ServiceError | None:
        """Return the next message, the error in it, or None after `close`.

        Raises WebSocketDisconnect once the client is gone, and ServiceError if it is silent for too long.
        """
        try:
            async with asyncio.timeout(_IDLE_SECONDS):
                received = await self._messages.get()
        except TimeoutError:
            message = f"the client sent no message for {_IDLE_SECONDS:g} s"
            raise InvalidRequestError(message, code="idle", status=408) from None
        if received is None:
            raise WebSocketDisconnect
        content = received.encode("utf-8", "surrogatepass") if isinstance(received, str) else received
        try:
            message_read = read_json(Message, content)
        except ServiceError as error:
            return error
        return None if message_read.type == "close" else message_read

    async def answer(self, message: Message | ServiceError) -> Reply:
        """Return the reply to a message. Raises WebSocketDisconnect if the client goes away meanwhile."""
        try:
            if isinstance(message, ServiceError):
                raise message
            match message.type:
                case "reset":
                    work: Awaitable[Reply] = self._reset(_read_data(ResetData, message.data))
                case "step":
                    work = self._step(_read_data(StepData, message.data))
                case "state":
                    return self._describe_state()
                case _:
                    text = f"there is no message of the type {message.type[:40]!r}"
                    return _make_error("UNKNOWN_TYPE", text)
            return await self._run_until_gone(work)
        except ServiceError as error:
            return _make_error(_choose_code(error), str(error))
        except UsageError as error:
            return _make_error("VALIDATION_ERROR", explain(error))
        except HarnessError as error:
            self._service.metrics.faults.inc()
            _LOGGER.error("fault: %s", error.message)
            return _make_error("EXECUTION_ERROR", error.message)

    async def _run_until_gone(self, work: Awaitable[T]) -> T:
        working = asyncio.ensure_future(work)
        watching = asyncio.create_task(self._gone.wait())
        try:
            await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise WebSocketDisconnect
            return working.result()
        finally:
            for task in (working, watching):
                task.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)

    async def _reset(self, data: ResetData) -> Reply:
        self._episode = None
        await self._release()
        with contextlib.ExitStack() as stack:
            if data.snapshot is None:
                benchmark, task, seed = _choose_task(self._service, data)
                start = None
            else:
                start = stack.enter_context(self._service.snapshots.use(data.snapshot, EpisodeSnapshot))
                benchmark = self._service.benchmarks[start.benchmark.name].benchmark
                task, seed = self._service.benchmarks[benchmark.name].tasks[start.task_id], start.seed
            opening = open_episode(
                *(self._service, self._client, benchmark, task),
                seed=seed,
                episode_id=data.episode_id,
                start=start,
            )
            self._episode = await self._held.enter_async_context(opening)
        return Reply(
            type="observation", data=Result(observation=_describe_start(self._episode.episode)).model_dump()
        )

    async def _step(self, data: StepData) -> Reply:
        if self._episode is None:
            raise InvalidRequestError("there is no episode; send a reset first")
        if data.snapshot is not None:
            return await self._keep(self._episode.episode, data.snapshot.idle_seconds)
        result = await self._episode.step(data)
        if result.verdict is not None:
            await self._release()
        return Reply(type="observation", data=_describe_result(result).model_dump())

    async def _keep(self, episode: Episode, idle_seconds: float) -> Reply:
        """Hold the state of the episode for resets with its name."""
        name, kept = await self._service.snapshots.keep(
            self._client, episode.snapshot(), most_bytes=MOST_SNAPSHOT_BYTES, idle_seconds=idle_seconds
        )
        described = {"name": name, "bytes": kept.size_bytes, "idle_seconds": idle_seconds}
        result = Result(observation={"text": "", "snapshot": described})
        return Reply(type="observation", data=result.model_dump())

    def _describe_state(self) -> Reply:
        episode = self._episode
        if episode is None:
            return Reply(type="state", data={"episode_id": None, "step_count": 0})
        verdict = episode.verdict
        state = {
            "episode_id": episode.id,
            "step_count": episode.steps,
            "benchmark": episode.episode.benchmark.name,
            "task_id": episode.episode.task.id,
            "done": verdict is not None,
            "status": None if verdict is None else verdict.status.value,
        }
        return Reply(type="state", data=state)


def _choose_task(service: Service, data: ResetData) -> tuple[Benchmark, Task, int]:
    """Return the benchmark, the task and the seed of an episode. Raises UsageError for an unknown name."""
    served = service.benchmarks
    if data.benchmark is not None and data.benchmark not in served:
        raise unknown_name("benchmark", data.benchmark[:100], served)
    if data.benchmark is None and len(served) > 1:
        raise UsageError(f"'benchmark' is missing; the service has {', '.join(served)}")
    chosen = served[data.benchmark or next(iter(served))]
    # No secret depends on the seed, and a client that names one gets the same task again.
    draw = random.Random(data.seed)
    seed = draw.getrandbits(63)
    if data.task_id is None:
        sound = [task for task in chosen.benchmark.tasks if task.id not in chosen.benchmark.quarantined]
        return chosen.benchmark, draw.choice(sound or chosen.benchmark.tasks), seed
    task_id = str(data.task_id)
    if task_id not in chosen.tasks:
        raise unknown_task(task_id[:100], chosen.tasks, place=chosen.benchmark.name)
    return chosen.benchmark, chosen.tasks[task_id], seed


def _describe_start(episode: Episode) -> dict[str, Any]:
    environment = episode.environment
    described: dict[str, Any] = {
        "text": episode.task.prompt,
        "benchmark": episode.benchmark.name,
        "task_id": episode.task.id,
        "tools": [],
        "instructions": episode.task.instruction,
        "turns": None,
    }
    if environment is not None:
        described["tools"] = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in environment.tools.values()
        ]
        described["instructions"] = environment.text_protocol.instructions()
        # Every call uses one, `submit` included.
        described["turns"] = environment.turns
    return described


def _describe_result(result: StepResult) -> Result:
    verdict = result.verdict
    if verdict is None:
        return Result(observation={"text": result.text})
    return Result(
        observation={"text": result.text, "status": verdict.status.value}, reward=verdict.score, done=True
    )


def _read_data(model: type[Model], values: dict[str, Any]) -> Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise InvalidRequestError(describe_first_error(error), status=422) from None


def _choose_code(error: ServiceError) -> str:
    if isinstance(error, BusyError | ShareUsedError):
        return "CAPACITY_REACHED"
    if error.code == "invalid_json":
        return "INVALID_JSON"
    return "VALIDATION_ERROR" if isinstance(error, InvalidRequestError) else "EXECUTION_ERROR"


def _make_error(code: str, message: str) -> Reply:
    return Reply(type="error", data={"message": message, "code": code})
