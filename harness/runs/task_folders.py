"""The parts of attempts at task folders: their steps, the rules of their machines, and their artifacts.

The names and the contents of artifacts come from an agent. Each name is made printable, no file is a program
of another user, and only links that stay inside are made as links.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from harness.core.errors import SandboxError
from harness.core.text import escape_text, shorten
from harness.core.types import Submission
from harness.environments.base import MachineRules
from harness.environments.container.changes import FoundArtifact, find_artifacts
from harness.environments.container.environment import ContainerEnvironment
from harness.environments.os.file_entries import FileEntry, UnreadableFiles
from harness.runs.attempt_ends import NOT_OF_AGENT, mention_turns
from harness.runs.attempt_parts import MOST_PAUSE_SECONDS, AttemptPart, TimeIsOver, Try, limit_agent
from harness.runs.run_files import create_run_file, link_in_run_folder, remove_run_folder
from harness.runs.settings.attempts import MAX_TASK_SECONDS
from harness.runs.transcripts import transcript_name
from harness.sandbox.limits import MIB

if TYPE_CHECKING:
    from harness.core.types import Task, Verdict
    from harness.environments.base import Steps
    from harness.runs.agents.agent import AttemptContext

    Act = Callable[[AttemptContext], Awaitable[Submission]]

ARTIFACTS, MANIFEST, STEPS = "artifacts", "manifest.json", "steps"
MAX_BYTES = 1024 * MIB
MAX_FILES = 20_000
PIECE_BYTES = 16 * MIB
# A file name may have 255 bytes, and a path 4,096.
MAX_NAME_BYTES, MAX_PATH_BYTES = 200, 2000
_PROBLEM_CHARACTERS = 300


class StepsPart(AttemptPart):
    """Lets the agent make each step of a task that has steps, each in its own time.

    The agent's time stops while a step is graded. An agent whose time is over, or that fails, is judged by
    what it has left. After a failure no further step begins.
    """

    def __init__(self, task: Task) -> None:
        self.most_pause_seconds = MOST_PAUSE_SECONDS + 2 * (task.tests_seconds or 0.0)

    @contextlib.asynccontextmanager
    async def enter(self, attempt: Try) -> AsyncIterator[None]:
        if attempt.environment is not None and attempt.environment.steps is not None:
            steps, seconds = attempt.environment.steps, attempt.seconds
            attempt.act = partial(_make_steps, attempt, steps, seconds, attempt.act)
            # Each step has a clock of its own, and the whole must not end the gradings between them.
            attempt.seconds += self.most_pause_seconds
        yield


async def _make_steps(
    attempt: Try, steps: Steps, seconds: float, act: Act, context: AttemptContext
) -> Submission:
    """Return the submission of the last step. Raises as the agent does, and TimeIsOver."""
    submission, late = Submission("", agent_output=""), None
    plan = steps.plan()
    # The run may have changed the limit of the whole task.
    share = seconds / min(sum(step.seconds for step in plan), MAX_TASK_SECONDS)
    turns = None if attempt.environment is None else attempt.environment.turns
    for number, step in enumerate(plan):
        if not await steps.begin(number):
            break
        task = mention_turns(replace(context.task, prompt=step.prompt), turns)
        own_seconds = step.seconds * share
        try:
            async with limit_agent(attempt, own_seconds):
                submission = await act(replace(context, task=task, seconds=own_seconds))
        except TimeIsOver as error:
            late = error
        except NOT_OF_AGENT:
            raise
        except Exception:
            await steps.end()
            raise
        if not await steps.end():
            break
    if late is not None:
        raise late
    return submission


async def _hand_in_nothing(_context: AttemptContext) -> Submission:
    return Submission("", agent_output="")


class TaskMachinePart(AttemptPart):
    """Gives the environment the rules, and reports the differences of its machine from the published one."""

    def __init__(self, rules: MachineRules) -> None:
        self._rules = rules
        self._facts: Mapping[str, Any] = {}

    async def prepare(self, attempt: Try) -> None:
        attempt.environment_context = replace(attempt.environment_context, machine_rules=self._rules)

    @contextlib.asynccontextmanager
    async def enter(self, attempt: Try) -> AsyncIterator[None]:
        self._facts = getattr(attempt.environment, "facts", {})
        is_unproven = getattr(attempt.environment, "seal_level", "work") is None
        if is_unproven and not getattr(attempt.settings.agent, "acts_unproven", False):
            # Nothing that the agent does could be graded.
            attempt.act = _hand_in_nothing
        yield

    def metrics(self, verdict: Verdict) -> Mapping[str, Any]:
        return self._facts


class ArtifactsPart(AttemptPart):
    """Keeps the artifacts of a task when its agent has ended, and after each step of a task with steps."""

    def __init__(self) -> None:
        self._kept: list[dict[str, Any]] = []

    @contextlib.asynccontextmanager
    async def enter(self, attempt: Try) -> AsyncIterator[None]:
        environment, self._kept = attempt.environment, []
        # A node of a cluster has no run folder.
        folder: Path | None = getattr(attempt.settings.transcripts, "folder", None)
        if isinstance(environment, ContainerEnvironment) and folder is not None:
            name = transcript_name(*attempt.planned.key).removesuffix(".jsonl")
            place = _Place(folder, f"{ARTIFACTS}/{name}")
            await asyncio.to_thread(remove_run_folder, folder, place.name)
            environment.keep_artifacts = partial(self._keep, environment, place)
            # The attempt's processes are dead when this is called, and its machine is there.
            attempt.stack.push_async_exit(partial(self._end, environment))
        yield

    async def _end(self, environment: ContainerEnvironment, error: object, *_: object) -> None:
        if error is None and environment.steps is None:
            await environment.keep_artifacts(None)

    async def _keep(self, environment: ContainerEnvironment, place: _Place, step: str | None) -> None:
        """Keep the artifacts at this moment. A machine that is lost has none, which changes no verdict."""
        try:
            found = await find_artifacts(environment.machine, environment.folder.toml.artifacts)
            kept = [await place.keep(environment, each, step) for each in found]
        except (SandboxError, UnreadableFiles) as error:
            kept = [{"problem": shorten(escape_text(str(error)), _PROBLEM_CHARACTERS)}]
        self._kept += [each if step is None else {"step": step, **each} for each in kept]
        if self._kept:
            await place.describe(self._kept)

    def metrics(self, verdict: Verdict) -> Mapping[str, Any]:
        return {"artifacts": self._kept} if self._kept else {}


class _Place:
    """The folder of one attempt's artifacts below a run folder, with the room that is left."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._folder = folder
        self._bytes = MAX_BYTES
        self._files = MAX_FILES

    async def keep(
        self, environment: ContainerEnvironment, found: FoundArtifact, step: str | None
    ) -> dict[str, Any]:
        """Store the files of an artifact, and return its facts for the record. Raises as reading does."""
        parts = [] if step is None else [STEPS, step]
        root = [*parts, *(() if found.destination == "." else found.destination.split("/"))]
        top = "/".join(map(_make_safe, root)) or "."
        facts: dict[str, Any] = {"source": found.source, "path": f"{self.name}/{top}", "files": 0, "bytes": 0}
        if found.problem is not None:
            return {**facts, "problem": shorten(escape_text(found.problem), _PROBLEM_CHARACTERS)}
        left_out = 0
        for entry in found.entries:
            if entry.kind == "folder":
                continue
            below = entry.path.removeprefix(found.source).strip("/")
            name = "/".join(map(_make_safe, [*root, *(below.split("/") if below else ())]))
            if not await self._store(environment, entry, name):
                left_out += 1
                continue
            facts["files"] += 1
            facts["bytes"] += entry.size
        return {**facts, "left_out": left_out} if left_out else facts

    async def _store(self, environment: ContainerEnvironment, entry: FileEntry, name: str) -> bool:
        """Store a file or a link, and return whether it was stored. Raises UnreadableFiles, SandboxError."""
        place = f"{self.name}/{name}"
        if entry.size > self._bytes or self._files <= 0 or len(place) > MAX_PATH_BYTES or name == MANIFEST:
            return False
        try:
            if entry.kind == "link":
                if not _stays_inside(name, entry.to):
                    return False
                await asyncio.to_thread(link_in_run_folder, self._folder, place, entry.to)
            elif entry.kind == "file":
                await self._copy(environment, entry, place)
            else:
                return False
        except OSError as error:
            raise UnreadableFiles(f"{name} cannot be kept: {error.strerror}") from error
        self._files -= 1
        self._bytes -= entry.size
        return True

    async def _copy(self, environment: ContainerEnvironment, entry: FileEntry, place: str) -> None:
        opened = await asyncio.to_thread(create_run_file, self._folder, place)
        with os.fdopen(opened, "wb") as file:
            for start in range(0, entry.size, PIECE_BYTES):
                piece = (entry.path, start, min(PIECE_BYTES, entry.size - start))
                data = await environment.machine.sandbox.read_ranges([piece])
                await asyncio.to_thread(file.write, data)

    async def describe(self, kept: Sequence[Mapping[str, Any]]) -> None:
        """Write the list of what was kept."""
        data = json.dumps(kept, indent=2).encode()
        opened = await asyncio.to_thread(create_run_file, self._folder, f"{self.name}/{MANIFEST}")
        with os.fdopen(opened, "wb") as file:
            file.write(data)


def _make_safe(name: str) -> str:
    """Return a name that is one printable file name. Equal results have equal names.

    Other characters are quoted as in an address, and a long name ends in digits of its SHA-256.
    """
    safe = "".join(
        each
        if each.isprintable() and each not in "%\\/" and not "\ud800" <= each <= "\udfff"
        else "".join(f"%{byte:02X}" for byte in os.fsencode(each))
        for each in name
    )
    safe = {".": "%2E", "..": "%2E%2E"}.get(safe, safe)
    if len(safe.encode()) <= MAX_NAME_BYTES:
        return safe
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    return f"{safe.encode()[: MAX_NAME_BYTES - 17].decode(errors='ignore')}-{digest}"


def _stays_inside(name: str, target: str) -> bool:
    """Return whether a link with this name cannot lead out of the folder, whatever other such links do.

    `..` may only come first, because behind a name it could follow another link.
    """
    parts = PurePosixPath(target).parts
    safe = "/".join(part if part == ".." else _make_safe(part) for part in parts)
    if not parts or target.startswith("/") or target != safe:
        return False
    climbs = sum(part == ".." for part in parts)
    return ".." not in parts[climbs:] and climbs < len(PurePosixPath(name).parts)
