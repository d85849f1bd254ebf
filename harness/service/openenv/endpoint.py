"""`/ws`: tasks of the loaded benchmarks as environments, in the protocol of OpenEnv.

Each message is `{"type": ..., "data": ...}`. A client sends `reset`, `step`, `state` and `close`, one at a
time. A WebSocket has one episode at a time, which ends with it.

Source: https://github.com/meta-pytorch/OpenEnv, `openenv-core` 0.3.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, model_validator
from starlette.websockets import WebSocket, WebSocketDisconnect

from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import HarnessError, UsageError, describe_first_error, unknown_name, unknown_task
from harness.core.logger import get_logger
from harness.core.types import TEXT_FIELDS, Task
from harness.host.episode import MOST_SNAPSHOT_BYTES, Episode, EpisodeSnapshot
from harness.service.body import encode_reply, read_json
from harness.service.errors import BusyError, InvalidRequestError, ServiceError, ShareUsedError, explain
from harness.service.openenv.episodes import Action, ServedEpisode, StepResult, open_episode
from harness.service.sandboxes.models import SnapshotRequest
from harness.service.service import Service

_LOGGER = get_logger(__name__)
T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)
PATH = "/ws"
_IDLE_SECONDS = 600.0
_LARGEST_SEED = 2**63 - 1


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

    def read(self) -> Action:
        """Return the action."""
        field = next((name for name in TEXT_FIELDS if getattr(self, name) is not None), None)
        return Action(self.tool, self.arguments, field, "" if field is None else getattr(self, field))


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
        result = await self._episode.step(data.read())
        if result.verdict is not None:
            await self._release()
        return Reply(type="observation", data=_describe_result(result).model_dump())

    async def _keep(self, episode: Episode, idle_seconds: float) -> Reply:
        """Hold the state of the episode for resets with its name."""
        name, kept = await self._service.snapshots.keep(
            self._client,
            episode.snapshot(),
            most_bytes=MOST_SNAPSHOT_BYTES,
            idle_seconds=idle_seconds,
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
