"""An environment on the host: a world that answers texts, where no program of an agent runs.

Its state and the target of its task stay in this process. An agent only sends the arguments of its tools.
They are bounded here. An environment compares them, and never evaluates them, formats them into a query, or
uses them as a path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from harness.core.tools import SUBMIT, Observation, Tool
from harness.environments.base import Environment, EnvironmentContext, Handler

State = TypeVar("State")
# The largest text that an agent may send as an argument of a tool, in characters.
MAX_ARGUMENT_CHARACTERS = 4096
# The largest arguments of a call in all, in characters of texts and names, and in values.
MAX_CALL_SIZE = 8 * MAX_ARGUMENT_CHARACTERS
# The transcript has this in the place of larger arguments, because it must not grow by megabytes with each
# call that is refused.
TOO_LARGE = {"too large": f"more than {MAX_CALL_SIZE:,} characters"}


class HostEnvironment(Environment, Generic[State]):
    """A live environment on the host. Its grader reads `state`, which the handlers of its tools change."""

    def __init__(self, state: State, handlers: Mapping[Tool, Handler], context: EnvironmentContext) -> None:
        super().__init__(handlers, context)
        self.state = state
        self._acted = False

    @property
    def agent_acted(self) -> bool:
        return self._acted

    def note_acting(self) -> None:
        self._acted = True

    async def _run_tool(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        if name != SUBMIT.name:
            if not _is_small(arguments):
                return Observation(
                    f"the arguments are larger than {MAX_CALL_SIZE:,} characters in all", refused=True
                )
            for argument, value in arguments.items():
                if isinstance(value, str) and len(value) > MAX_ARGUMENT_CHARACTERS:
                    return Observation(
                        f"'{argument[:100]}' has {len(value):,} characters; the limit is "
                        f"{MAX_ARGUMENT_CHARACTERS:,}",
                        refused=True,
                    )
        return await super()._run_tool(name, arguments)

    def _show_arguments(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if name != SUBMIT.name and not _is_small(arguments):
            return dict(TOO_LARGE)
        return super()._show_arguments(name, arguments)


def make_too_large() -> dict[str, str]:
    """Return arguments that are refused as too large, to repeat a call whose arguments were left out."""
    return {"too large": "-" * (MAX_CALL_SIZE + 1)}


def _is_small(arguments: Mapping[str, Any]) -> bool:
    """Return whether arguments are within MAX_CALL_SIZE. No more of them is looked at than fits."""
    left = MAX_CALL_SIZE
    waiting: list[Any] = [arguments]
    while waiting:
        value = waiting.pop()
        # A digit of an integer has more than three bits.
        size = value.bit_length() // 3 if isinstance(value, int) else 1
        left -= len(value) if isinstance(value, str | bytes | Mapping | list | tuple) else size
        if left < 0:
            return False
        if isinstance(value, Mapping):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            waiting += value
    return True


def open_without_world(context: EnvironmentContext) -> HostEnvironment[None]:
    """Return an environment whose only tool is `submit`, for a task that is graded by its answer alone."""
    return HostEnvironment(None, {}, context)
