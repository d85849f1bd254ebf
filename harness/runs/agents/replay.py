"""The agent `replay`, which does the recorded actions of a run again and compares the observations.

It asks no model. An observation is equal if its text and its refusal are exactly as recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.core.errors import DataError, SandboxError, UsageError
from harness.core.shield import complete
from harness.core.text import escape_terminal, shorten
from harness.core.tools import AgentEnvironment, Observation
from harness.core.types import Submission
from harness.environments.base import TOO_LARGE, HostEnvironment, make_too_large
from harness.runs.agents.agent import (
    REPEATABLE_ENDS,
    AgentError,
    AgentSettings,
    AttemptContext,
    RepeatedEnd,
)
from harness.runs.agents.recording import (
    RecordedAttempt,
    RecordedCall,
    RecordedReference,
    RecordedStep,
    Recording,
)
from harness.runs.stored_result import SHOWN_DIFFERENCE, Outcome

# The characters that a difference shows before and after the place where two texts part.
BEFORE, AFTER = 40, 200
# Begins the error of an attempt that ends as the recorded one, once, also in the replay of a replay.
AS_RECORDED = "as recorded: "
# The most characters of a text and of a tool's name in the metrics of an attempt.
SHOWN_TEXT, SHOWN_NAME = 80, 60


class Replay:
    """Does the recorded actions of a run again, and names the first difference in each attempt."""

    reads = frozenset({"replay_from"})
    # Neither a model nor a judge is asked, because the recorded replies take their place.
    waits = False

    def __init__(self, settings: AgentSettings) -> None:
        if settings.recording is None:
            raise UsageError(
                "agent 'replay' needs a recorded run", hint="add --from RUN, such as --from latest"
            )
        self.recording: Recording = settings.recording
        self._comparisons: dict[tuple[str, int], _Comparison] = {}

    async def attempt(self, context: AttemptContext) -> Submission:
        """Do the recorded actions, and return the recorded submission.

        Raises RepeatedEnd if the recorded attempt handed nothing in, and AgentError if the recorded attempt
        cannot be repeated.
        """
        key = context.task.id, context.number
        # A later try of the attempt replaces the comparison of an earlier one.
        comparison = self._comparisons[key] = _Comparison()
        try:
            comparison.recorded = await complete(asyncio.to_thread(self.recording.read_attempt, *key))
            if context.environment is not None:
                await self._act(context, context.environment, comparison)
        except DataError as error:
            raise AgentError(f"the recorded attempt cannot be repeated: {error.message}") from error
        return comparison.end()

    def take_metrics(self, task_id: str, number: int) -> Mapping[str, Any]:
        """Return the metrics of a replayed attempt, and forget them. Empty if it has not begun."""
        comparison = self._comparisons.pop((task_id, number), None)
        return {} if comparison is None else comparison.metrics()

    async def _act(
        self, context: AttemptContext, environment: AgentEnvironment, comparison: _Comparison
    ) -> None:
        with self.recording.open_steps(context.task.id, context.number) as read_step:
            # A long observation is read on a thread, because other attempts would wait.
            while (step := await complete(asyncio.to_thread(read_step))) is not None:
                if isinstance(step, RecordedCall) and step.is_foreign:
                    # The server may answer otherwise now, and it does not belong to the environment.
                    entry: dict[str, Any] | None = {"kind": "not_repeated", "round": step.round}
                else:
                    entry = await _do(step, environment, comparison)
                if entry is not None:
                    context.transcript.write(entry)


@dataclass(slots=True)
class _Comparison:
    """The comparison of one attempt with its recording, so far."""

    recorded: RecordedAttempt | None = None
    observations: int = 0
    differing: int = 0
    first: str | None = None
    is_complete: bool = False

    def compare(self, step: RecordedStep, observation: Observation) -> dict[str, Any] | None:
        """Count the observation of a step, and return the transcript's entry if it is the first to differ."""
        self.observations += 1
        refused = step.refused if isinstance(step, RecordedCall) else False
        if (step.observation, refused) == (observation.text, observation.refused):
            return None
        return self.note(step, observation)

    def note(self, step: RecordedStep, observation: Observation) -> dict[str, Any] | None:
        """Count a difference, and return the transcript's entry for the first one."""
        self.differing += 1
        if self.first is not None:
            return None
        entry = describe_difference(step, observation)
        self.first = _show_difference(entry)
        return entry

    def end(self) -> Submission:
        """Return the recorded submission once all steps are done.

        Raises RepeatedEnd if the recorded agent itself was the end of its attempt, and AgentError for an end
        that the steps had to bring about.
        """
        recorded = self.recorded
        if recorded is None:
            raise ValueError("the recorded attempt was not read")
        if recorded.submission is None and recorded.status not in REPEATABLE_ENDS:
            raise AgentError(
                f"the recorded attempt ended as {recorded.status}, which the same actions did not bring about"
            )
        self.is_complete = True
        if recorded.submission is not None:
            return recorded.submission
        reason = (recorded.error or recorded.status).removeprefix(AS_RECORDED)
        message = f"{AS_RECORDED}{reason}"
        raise RepeatedEnd(recorded.status, message, recorded.limit)

    def metrics(self) -> dict[str, Any]:
        if self.recorded is None:
            return {"replay": Outcome.INCOMPLETE.value, "observations": 0, "observations_differing": 0}
        outcome = Outcome.EQUAL if self.is_complete else Outcome.INCOMPLETE
        metrics = {
            "replay": (Outcome.DIFFERENT if self.differing else outcome).value,
            "observations": self.observations,
            "observations_differing": self.differing,
            "recorded_status": self.recorded.status.value,
            "recorded_score": self.recorded.score,
        }
        return metrics if self.first is None else {**metrics, "first_difference": self.first}


async def _do(
    step: RecordedStep, environment: AgentEnvironment, comparison: _Comparison
) -> dict[str, Any] | None:
    """Repeat a step, and return an entry for the transcript if it brings the first difference.

    Raises as `AgentEnvironment.call` does.
    """
    if isinstance(step, RecordedReference):
        return comparison.compare(step, Observation(await _play(step.text, environment)))
    was_left_out = step.arguments == TOO_LARGE and isinstance(environment, HostEnvironment)
    arguments = make_too_large() if was_left_out else step.arguments
    try:
        observation = await environment.call(step.tool, arguments)
    except SandboxError as error:
        # The recorded call may have ended its sandbox in the same way.
        if step.ended != type(error).__name__:
            comparison.note(step, Observation(f"the call ended its sandbox: {error.message}"))
        else:
            comparison.is_complete = True
        raise
    if step.ended is None:
        return comparison.compare(step, observation)
    # The recorded agent's time was over, or the agent gave up waiting. Both are not part of the environment.
    if step.ended in ("CancelledError", "TimeoutError"):
        return None
    return comparison.note(step, observation)


async def _play(sql: str, environment: AgentEnvironment) -> str:
    """Run the SQL of a reference as the oracle did, and return the observation. Raises DataError."""
    from harness.environments.db.environment import Database, play  # only one environment has it

    if not isinstance(environment, Database):
        raise DataError("its transcript has SQL of the reference, but the task has no database")
    # The text is from a run folder and not from our reference, so it counts as an agent's.
    environment.note_acting()
    return await play(environment, sql)


def find_parting(one: str, other: str) -> int:
    """Return the number of characters that both texts begin with.

    Slices are compared, because a loop over the characters of a long text would block other attempts.
    """
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def describe_difference(step: RecordedStep, observation: Observation) -> dict[str, Any]:
    """Return the transcript's entry for an observation that differs. Both texts are bounded."""
    parting = find_parting(step.observation, observation.text)
    start = max(parting - BEFORE, 0)
    call = step if isinstance(step, RecordedCall) else None
    return {
        "kind": "difference",
        "round": None if call is None else call.round,
        "tool": "reference" if call is None else shorten(call.tool, SHOWN_NAME),
        "character": parting,
        "recorded": step.observation[start : parting + AFTER],
        "recorded_characters": len(step.observation),
        "recorded_refused": call is not None and call.refused,
        "recorded_ended": None if call is None or call.ended is None else shorten(call.ended, SHOWN_NAME),
        "observed": observation.text[start : parting + AFTER],
        "observed_characters": len(observation.text),
        "observed_refused": observation.refused,
    }


def _show_difference(entry: Mapping[str, Any]) -> str:
    """Return a difference on one line, safe to print."""
    place = entry["tool"] if entry["round"] is None else f"round {entry['round']}, {entry['tool']}"
    if entry["recorded_ended"]:
        found = f"the recorded call ended with {entry['recorded_ended']}, and this one has an observation"
    elif entry["recorded_refused"] != entry["observed_refused"]:
        states = {True: "was refused", False: "was not refused"}
        found = (
            f"the recorded call {states[entry['recorded_refused']]}, "
            f"and this one {states[entry['observed_refused']]}"
        )
    else:
        # Both excerpts begin at the same place, and part after the same number of characters.
        shared = min(entry["character"], BEFORE)
        recorded, observed = (
            escape_terminal(entry[name][shared:], SHOWN_TEXT) if entry[name][shared:] else "nothing"
            for name in ("recorded", "observed")
        )
        found = f"from character {entry['character'] + 1:,}: recorded {recorded}, observed {observed}"
    return escape_terminal(f"{place}: {found}", SHOWN_DIFFERENCE)


AGENTS = (("replay", Replay),)
