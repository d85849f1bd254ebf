"""Agents of the user: a file, an importable name, an entry point, or a Python object.

A user's agent is an `async def attempt(context)`, or a class with this method. It returns a Submission or the
text of a reply. It runs on the host with the rights of the user, on a thread apart from the harness.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.core.discovery import import_user_file, names_python_file
from harness.core.errors import UsageError
from harness.core.invalid_values import quote_value
from harness.core.types import Submission, Task
from harness.models.messages import ModelReply
from harness.runs.agents.agent import (
    Agent,
    AgentError,
    AgentSettings,
    AttemptContext,
    ChoosesSamples,
)
from harness.runs.agents.attempt_access import AgentThread, Returned, open_access
from harness.runs.settings import AGENT_SETTINGS

Attempt = Callable[[AttemptContext], Awaitable[Any]]
# The attributes that a user's agent may have, what each must be, and the check.
_VALID: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "reads": (
        f"a set of names among: {', '.join(sorted(AGENT_SETTINGS))}",
        lambda value: (
            isinstance(value, (set, frozenset, list, tuple))
            and all(isinstance(name, str) and name in AGENT_SETTINGS for name in value)
        ),
    ),
    "needs_model": ("True or False", lambda value: type(value) is bool),
    "waits": ("True or False", lambda value: type(value) is bool),
    "max_concurrent": ("a whole number from 1", lambda value: type(value) is int and value >= 1),
}
_HINT = "an agent is an `async def attempt(context)`, or a class that has this method"


class OutsideAgent:
    """A user's agent, which runs on its own thread. The benchmark turns its replies into submissions.

    `source_sha256` is the SHA-256 of its source file, None if it has none.
    """

    def __init__(self, agent: Any, attempt: Attempt, settings: AgentSettings) -> None:
        self._attempt = attempt
        self._settings = settings
        self._thread: AgentThread | None = None
        self.source_sha256 = _hash_source(agent)
        for name in _VALID:
            if hasattr(agent, name):
                setattr(self, name, getattr(agent, name))

    async def attempt(self, context: AttemptContext) -> Submission:
        """Return the submission of the user's agent.

        Raises AgentError if the agent raised an exception, or returned anything but a reply. Raises the
        exception of a tool call if that is what ended the agent.
        """
        if self._thread is None:
            self._thread = AgentThread()
        with open_access(context) as access:
            outcome = await self._thread.run(self._act(access.context), access.find_failure)
        if isinstance(outcome, Returned):
            return outcome.value
        if outcome.failure is not None:
            raise outcome.failure
        raise AgentError(outcome.message, outcome.traceback)

    def close(self) -> None:
        """End the agent's thread."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    async def _act(self, context: AttemptContext) -> Submission:
        """Return the submission. This runs on the agent's thread."""
        reply = await self._attempt(context)
        if isinstance(reply, Submission):
            return Submission(_require_text(reply.text), agent_output=_require_text(reply.agent_output))
        environment = context.environment
        if environment is None:
            # An agent usually returns the reply of a chat model as it is, with prose and fences. The rule for
            # replies also takes a program or a continuation of the prompt without a fence.
            return self._settings.submit(context.task, "reply", _require_text(reply))
        if environment.submitted is None:
            await environment.submit(_require_text(reply))
        answer = str(environment.submitted)
        return Submission(answer, agent_output=answer)


class SamplingOutsideAgent(OutsideAgent):
    """A user's agent that decides how many attempts each task gets."""

    def __init__(self, agent: Any, attempt: Attempt, settings: AgentSettings) -> None:
        super().__init__(agent, attempt, settings)
        self._choose_samples = agent.samples

    def samples(self, task: Task) -> list[int | None]:
        """Return the user's choice. Raises UsageError unless it has an entry, and all are lines or None."""
        try:
            chosen = list(self._choose_samples(task))
        except Exception as error:  # the user's code may raise anything
            raise UsageError(f"samples of task {task.id}: {type(error).__name__}: {error}") from error
        if not chosen:
            raise UsageError(
                f"samples of task {task.id}: the agent chose no attempt, but every selected task counts",
                hint="return [None] for one attempt without a sample, or select fewer tasks with -t or -n",
            )
        wrong = [entry for entry in chosen if entry is not None and (type(entry) is not int or entry < 1)]
        if wrong:
            raise UsageError(
                f"samples of task {task.id}: {quote_value(wrong[0])} is not a line from 1, or None"
            )
        return chosen


def wrap_outside_agent(agent: Any, settings: AgentSettings, *, name: str) -> Agent:
    """Return a user's function, class or object as an agent. Raises UsageError for anything else."""
    if isinstance(agent, type):
        agent = _build(agent, name)
    attempt = getattr(agent, "attempt", agent)
    if not callable(attempt):
        raise UsageError(f"agent '{name}' is {_describe(agent)}, not an agent", hint=_HINT)
    if not inspect.iscoroutinefunction(attempt) and not inspect.iscoroutinefunction(type(attempt).__call__):
        raise UsageError(
            f"agent '{name}': its `attempt` is not an `async def`",
            hint="write `async def attempt(context)`, and await asyncio.to_thread(...) for blocking calls",
        )
    for attribute, (requirement, is_valid) in _VALID.items():
        if hasattr(agent, attribute) and not is_valid(getattr(agent, attribute)):
            value = quote_value(getattr(agent, attribute))
            raise UsageError(f"agent '{name}': `{attribute}` must be {requirement}, not {value}")
    kind = SamplingOutsideAgent if isinstance(agent, ChoosesSamples) else OutsideAgent
    return kind(agent, attempt, settings)


def name_agent(agent: Any) -> str:
    """Return the name `module:Name` that identifies a Python object in a manifest."""
    named = agent if hasattr(agent, "__qualname__") else type(agent)
    return f"{named.__module__}:{named.__qualname__}"


def names_outside_agent(name: str) -> bool:
    """Return whether a name has the form `FILE.py` or `module:Name`."""
    return names_python_file(name) or ":" in name


def load_outside_agent(name: str) -> Any:
    """Import and return the agent that `FILE.py` or `module:Name` names. Raises UsageError."""
    if names_python_file(name):
        if not Path(name).is_file():
            raise UsageError(f"agent '{name}': the file does not exist", hint=_HINT)
        return _find_agent(import_user_file(Path(name), subject=f"agent '{name}'"), name)
    module_name, _, attribute = name.partition(":")
    # Like `python -m`, find modules in the current folder.
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise UsageError(f"agent '{name}': {type(error).__name__}: {error}", hint=_HINT) from error
    return found


def _find_agent(module: ModuleType, name: str) -> Any:
    """Return the function `attempt` of a module, or its only class with such a method."""
    if inspect.isfunction(getattr(module, "attempt", None)):
        return module.attempt
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and hasattr(value, "attempt")
    ]
    if len(classes) != 1:
        found = ", ".join(each.__name__ for each in classes) or "none"
        raise UsageError(
            f"agent '{name}': the file must define one agent, but defines {len(classes)}: {found}", hint=_HINT
        )
    return classes[0]


def _build(agent: type, name: str) -> Any:
    try:
        return agent()
    except Exception as error:  # the user's code may raise anything
        raise UsageError(f"agent '{name}': {agent.__name__}(): {type(error).__name__}: {error}") from error


def _hash_source(agent: Any) -> str | None:
    for named in (agent, type(agent)):
        with contextlib.suppress(TypeError, OSError):
            return hashlib.sha256(Path(inspect.getfile(named)).read_bytes()).hexdigest()
    return None


def _require_text(reply: Any) -> str:
    if not isinstance(reply, str):
        hint = "; return its `text`" if isinstance(reply, ModelReply) else ""
        raise AgentError(f"the agent returned {_describe(reply)}, not text or a Submission of texts{hint}")
    # Return an exact `str`, because a subclass could claim to equal the reference.
    return str.__str__(reply)


def _describe(value: Any) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"
