"""The messages between the process of a run and its nodes: plain data, without functions and open files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.evaluation.progress import Stage


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The facts of a node before it gets any work."""

    harness_version: str
    # The SHA-256 of the package's code.
    code_sha256: str
    cores: int
    # The id by which an engine names itself, None if the run needs no engine.
    engine_id: str | None


@dataclass(frozen=True, slots=True)
class ImageContent:
    """The content of an image, which is the same on every engine, whatever id the engine gives it."""

    tag: str
    # The SHA-256 over the layers, the architecture and the settings of its processes.
    sha256: str


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Everything from which a node prepares for the attempts of a run. No key of a model is in it."""

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
    # How many first attempts in which the agent cannot start stop the run.
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
    """The reason for which a node can make no further attempt."""

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
    """The reason for which a node takes no part in a run."""

    message: str
    hint: str | None = None
