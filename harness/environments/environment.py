"""What an environment is: the kind of world that a task lives in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.environments.opening import Opening
from harness.environments.tool import Tool
from harness.environments.world import World
from harness.model import Task
from harness.sandbox.limits import Limits

# Opens the world of a task: (opening, task, rounds, deadline_seconds, record).
OpenWorld = Callable[
    [Opening, Task, int | None, float, Callable[[Mapping[str, Any]], None]],
    contextlib.AbstractAsyncContextManager[World],
]


@dataclass(frozen=True, slots=True)
class Environment:
    """A kind of world. `image` is None where no task of it needs a sandbox of its own.

    `timeout_seconds` is the wall limit of an attempt where the config names none: 180 to 600.
    `grading_seccomp` is the filter of system calls for sandboxes that only grade. `limits` hold where
    the config says nothing else. Where agents act in a world of a task, `open_world` opens one,
    `tools` are what it offers beside `submit`, and `rounds` how many calls an attempt may make.
    """

    name: str
    image: str | None
    description: str
    timeout_seconds: int = 180
    grading_seccomp: Literal["default", "strict"] = "default"
    limits: Limits = field(default_factory=Limits)
    tools: tuple[Tool, ...] = ()
    rounds: int | None = None
    open_world: OpenWorld | None = None
