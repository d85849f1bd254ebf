"""The messages between the process of a run and its nodes: plain data, without functions and open files."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness.runs.progress import Stage
from harness.runs.records import PlannedAttempt

Unit = Sequence[PlannedAttempt]
"""Attempts that follow each other on one node."""


@cache
def hash_code() -> str:
    """Return the SHA-256 (hex) of all Python files of this package, by their paths."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"\0{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The facts of a node before it gets any work."""

    harness_version: str
    # The SHA-256 of the package's code.
    code_sha256: str
    cores: int
    # The id that an engine gives itself, None if the run needs no engine.
    engine_id: str | None


@dataclass(frozen=True, slots=True)
class ImageContent:
    """The content of an image, which is the same on every engine, whatever id the engine gives it."""

    tag: str
    # The SHA-256 over the layers, the architecture and the settings of its processes.
    sha256: str


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Everything that a node needs before the attempts of a run. No key of a model is in it."""

    run_id: str
    # The config as JSON.
    config: Mapping[str, Any]
    # The inputs of the run by their names, each with a SHA-256, or None for one that it does not have.
    inputs: Mapping[str, str | None]
    # The reason for each task that a rehearsal has quarantined, by task id.
    unsound: Mapping[str, str]
    # The images by their names.
    images: Mapping[str, ImageContent]
    # How long the node waits for its engine when that stops responding.
    wait_seconds: float
    # The run stops if the agent cannot start in this many first attempts.
    start_tries: int


@dataclass(frozen=True, slots=True)
class Lease:
    """One attempt that a node has to make."""

    task_id: str
    number: int
    # Whether the node gets another attempt at this task next, so that its sandbox stays open.
    is_followed: bool


@dataclass(frozen=True, slots=True)
class Stop:
    """The reason why a node can make no further attempt."""

    message: str
    hint: str | None
    # Whether attempts on other nodes would not fail.
    of_machine: bool


@dataclass(frozen=True, slots=True)
class Report:
    """News of an attempt under way. The last report has a record or a stop."""

    stage: Stage
    notes: tuple[str, ...] = ()
    # The next bytes of the transcript, and whether they are its first ones.
    transcript: bytes = b""
    begins_transcript: bool = False
    # The record as a line of JSON.
    record: str | None = None
    stop: Stop | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a node takes no part in a run."""

    message: str
    hint: str | None = None


class LeaseBook:
    """Lends units of attempts to places on nodes. Each attempt gets exactly one record.

    A place takes a unit when it is free, so that a fast node makes more attempts than a slow one, and no node
    holds more units than it has places. While there are fewer units than free places, the node with the most
    free places gets the next one. A lost node gives its units back. They are lent again before all others,
    because they have waited longest.
    """

    def __init__(self, units: Iterable[Unit]) -> None:
        self._waiting: deque[Unit] = deque(units)
        self._open = {planned.key for unit in self._waiting for planned in unit}
        self._tries: Counter[tuple[str, int]] = Counter()
        # The free places of each node that has any.
        self._free: defaultdict[str, deque[asyncio.Future[Unit | None]]] = defaultdict(deque)
        self._is_lending = False
        self._done = asyncio.Event()
        self._note_end()

    async def take(self, node: str = "") -> Unit | None:
        """Return the next unit for a place of a node, or None once every attempt has a record.

        It waits while all open attempts are under way, because a lost node may give some of them back.
        """
        free: asyncio.Future[Unit | None] = asyncio.get_running_loop().create_future()
        self._free[node].append(free)
        self._lend_soon()
        try:
            return await free
        except asyncio.CancelledError:
            if not free.cancelled() and (unit := free.result()) is not None:
                self.give_back(unit)
            raise

    def _lend_soon(self) -> None:
        """Lend once all places that are free now have asked, so that the load of their nodes is known."""
        if not self._is_lending:
            self._is_lending = True
            asyncio.get_running_loop().call_soon(self._lend)

    def _lend(self) -> None:
        self._is_lending = False
        while self._free and (unit := self._find_unit()) is not None:
            node = self._choose_node(unit)
            place = self._free[node].popleft()
            if not self._free[node]:
                del self._free[node]
            if place.done():
                self._waiting.appendleft(unit)  # the place was cancelled meanwhile
            else:
                place.set_result(unit)
        if not self._open:
            for place in itertools.chain.from_iterable(self._free.values()):
                if not place.done():
                    place.set_result(None)
            self._free.clear()

    def _choose_node(self, unit: Unit) -> str:
        """Return the node with the most free places.

        A node that has died idle has the most. A unit that has lost its node must not meet such nodes one
        after the other, so it gets the node that was the last to work.
        """
        if any(self._tries[planned.key] for planned in unit):
            return next(reversed(self._free))
        return max(self._free, key=lambda node: len(self._free[node]))

    def _find_unit(self) -> Unit | None:
        while self._waiting:
            if unit := [planned for planned in self._waiting.popleft() if planned.key in self._open]:
                return unit
        return None

    def begin(self, planned: PlannedAttempt) -> int:
        """Note a try of an attempt and return its number, from 1."""
        self._tries[planned.key] += 1
        return self._tries[planned.key]

    def finish(self, planned: PlannedAttempt) -> bool:
        """Return whether the record of an attempt is its first one. A late duplicate must be dropped."""
        if planned.key not in self._open:
            return False
        self._open.remove(planned.key)
        self._note_end()
        return True

    async def wait_until_done(self) -> None:
        """Return once every attempt has a record."""
        await self._done.wait()

    def give_back(self, unit: Iterable[PlannedAttempt]) -> int:
        """Lend the attempts of a unit again that have no record. Return how many there are."""
        lost = [planned for planned in unit if planned.key in self._open]
        if lost:
            self._waiting.appendleft(lost)
            self._lend_soon()
        return len(lost)

    def _note_end(self) -> None:
        if not self._open:
            self._done.set()
            if self._free:
                self._lend_soon()
