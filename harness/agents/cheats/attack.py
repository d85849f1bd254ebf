"""What an attack is, and how it becomes a program for a task."""

from __future__ import annotations

import builtins
import keyword
import re
from dataclasses import dataclass
from enum import StrEnum

from harness.agents.cheats.prelude import PRELUDE
from harness.model import Task

_CALLED = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]*)\s*\(")
# What graders and tests call the function under test, whatever it is named.
_USUAL_NAMES = ("candidate", "solution", "solve", "main", "Solution")


class Kind(StrEnum):
    """The classes of attacks, by what they rely on."""

    LEAVING = "leaving early"
    LYING = "lying objects"
    REACHING = "reaching the trusted side"
    TAMPERING = "tampering with the ground"
    LEARNING = "learning the answers"
    EXHAUSTING = "exhausting resources"


@dataclass(frozen=True, slots=True)
class Attack:
    """A way to get a pass without solving the task. It is text to the host, which never runs it.

    `templates` are Python programs, handed in one after the other as samples of one task. Each runs
    after the prelude, and finds there `NAMES` (every name that a test may call), `ENTRY_POINT`, `TASK`
    (the task's id) and `SAMPLE` (its own place among the templates, from 0).
    """

    name: str
    kind: Kind
    description: str
    templates: tuple[str, ...]

    def programs(self, task: Task) -> tuple[str, ...]:
        """Return the programs of this attack on `task`, made from what an agent may see of it."""
        return tuple(_program(task, sample, template) for sample, template in enumerate(self.templates))


def _program(task: Task, sample: int, template: str) -> str:
    # The prompt itself stays out: one that shows tests would let an attack find them in its own text.
    return (
        f"TASK = {task.id!r}\nENTRY_POINT = {task.entry_point!r}\nNAMES = {_names(task)!r}\n"
        f"SAMPLE = {sample}\n{PRELUDE}\n{template.strip()}\n"
    )


def _names(task: Task) -> list[str]:
    """Every name that tests of this task may call, as far as its prompt tells."""
    called = {
        name
        for name in _CALLED.findall(task.prompt)
        if not keyword.iskeyword(name) and not hasattr(builtins, name)
    }
    return sorted(called | set(_USUAL_NAMES) | ({task.entry_point} if task.entry_point else set()))
