"""Trajectories in ATIF 1.8, which Harbor reads: a JSON object on each line, one for each attempt.

Source: https://www.harborframework.com/docs/agents/trajectory-format and the models in
`harbor.models.trajectories`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TextIO

from harness.core.types import AttemptRecord
from harness.core.version import __version__
from harness.reports.recorded_attempts import read_count
from harness.reports.trajectories.attempts import (
    ExportedAttempt,
    ExportedRun,
    describe_record,
    drop_none,
    format_time,
    name_attempt,
)
from harness.reports.trajectories.turns import (
    Message,
    Note,
    Observation,
    Part,
    Prompt,
    Request,
    ToolCall,
    Turn,
)
from harness.runs.manifest import read_grading_version

SUFFIXES = (".jsonl", ".json")
_VERSION = "ATIF-v1.8"


def write_export(run: ExportedRun, stream: TextIO) -> None:
    """Write a trajectory for each attempt, each on its own line."""
    for attempt in run.read_attempts():
        stream.write(json.dumps(build_trajectory(run, attempt)) + "\n")


def build_trajectory(run: ExportedRun, attempt: ExportedAttempt) -> dict[str, Any]:
    """Return the trajectory of an attempt. Raises DataError for a damaged transcript."""
    steps = _Steps()
    for part in attempt.read_parts():
        steps.add(part)
    agent = {
        "name": run.agent,
        "version": f"harness {__version__}",
        "model_name": run.model,
        "tool_definitions": steps.tool_definitions or None,
    }
    return {
        "schema_version": _VERSION,
        "session_id": run.run_id,
        "trajectory_id": name_attempt(run, attempt.record),
        "agent": drop_none(agent),
        "steps": steps.finish(),
        "final_metrics": drop_none(_describe_use(attempt.record, len(steps.all))),
        "extra": {
            "benchmark": run.benchmark,
            "grading_version": read_grading_version(run.manifest),
            "started_at": format_time(attempt.started),
            "verdict": describe_record(attempt.record),
            "notes": steps.notes,
        },
    }


class _Steps:
    """The steps of a trajectory, while its parts are read."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        # The entries that are not part of the conversation, with the step that they follow.
        self.notes: list[dict[str, Any]] = []
        # The tools that the model could call, in the form of OpenAI's function calling.
        self.tool_definitions: list[dict[str, Any]] = []
        self._prompt: Prompt | None = None
        self._seen: set[tuple[str, str]] = set()
        # The last step of the agent, which gets later observations, and its texts.
        self._last: dict[str, Any] = {}
        self._observed: set[str] = set()

    def add(self, part: Part) -> None:
        if isinstance(part, Prompt):
            self._prompt = part
        elif isinstance(part, Note):
            self.notes.append({"after_step": len(self.all), "kind": part.kind, "entry": dict(part.data)})
        else:
            self._add_turn(part)

    def finish(self) -> list[dict[str, Any]]:
        """Return all steps. There is at least one, because a trajectory must not be empty."""
        self._flush_prompt(())
        if not self.all:
            self._append("agent", "", None, llm_call_count=0)
        return self.all

    def _add_turn(self, turn: Turn) -> None:
        request = turn.request
        if request is not None and request.tools and not self.tool_definitions:
            self.tool_definitions = [
                {"type": "function", "function": tool.as_function()} for tool in request.tools
            ]
        self._flush_prompt(() if request is None else request.messages)
        for message in () if request is None else request.messages:
            self._add_message(message, is_repeated=request is not None and request.replaces)
        reply = turn.reply
        self._seen.add((reply.role, reply.text))
        self._last = self._append(
            "agent",
            reply.text,
            turn.time,
            reasoning_content=reply.reasoning or None,
            tool_calls=_list_calls(turn.calls) or None,
            observation=_describe_observations(turn.observations),
            llm_call_count=0 if request is None else 1,
            metrics=None if request is None else drop_none(_describe_request(request)),
        )
        self._observed = {each.text.strip() for each in turn.observations if each.text}

    def _add_message(self, message: Message, *, is_repeated: bool) -> None:
        """Add a message that an agent sent to its model, unless an earlier step has it."""
        key = (message.role, message.text)
        if message.role == "tool":
            self._add_result(message)
        elif is_repeated and key in self._seen:
            pass
        elif message.role == "assistant":
            # An example in the prompt, or a reply that the agent has rewritten: no model wrote it now.
            calls = _list_calls(message.calls) or None
            self._append(
                "agent", message.text, None, tool_calls=calls, is_copied_context=True, llm_call_count=0
            )
        elif message.text.strip() not in self._observed:
            self._append(message.role, message.text, None)
        self._seen.add(key)

    def _add_result(self, message: Message) -> None:
        """Add the result of a tool that the agent's own program ran, to the step that called it."""
        calls = {call["tool_call_id"] for call in self._last.get("tool_calls", ())}
        results = self._last.get("observation", {}).get("results", [])
        done = {result["source_call_id"] for result in results}
        if message.answers in calls - done:
            results.append({"source_call_id": message.answers, "content": message.text})
            self._last["observation"] = {"results": results}

    def _flush_prompt(self, messages: Iterable[Message]) -> None:
        """Add the prompt as a step, unless the first messages to the model hold it."""
        prompt, self._prompt = self._prompt, None
        if prompt is not None and not any(prompt.text.strip() in message.text for message in messages):
            self._append("user", prompt.text, prompt.time)

    def _append(self, source: str, message: str, time: float | None, **fields: Any) -> dict[str, Any]:
        step: dict[str, Any] = {
            "step_id": len(self.all) + 1,
            "timestamp": None if time is None else format_time(time),
            "source": source,
            "message": message,
            **fields,
        }
        self.all.append(drop_none(step))
        return self.all[-1]


def _list_calls(calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    return [
        {"tool_call_id": call.id, "function_name": call.name, "arguments": dict(call.arguments)}
        for call in calls
    ]


def _describe_observations(observations: Iterable[Observation]) -> dict[str, Any] | None:
    results = []
    for each in observations:
        extra = drop_none({"seconds": each.seconds, "refused": each.refused or None, "ended": each.ended})
        results.append(drop_none({"source_call_id": each.call.id, "content": each.text, "extra": extra}))
    return {"results": results} if results else None


def _describe_request(request: Request) -> dict[str, Any]:
    extra = {
        "seconds": request.seconds,
        "finish": request.finish,
        "retries": request.retries or None,
        "reasoning_tokens": request.tokens.reasoning,
        "cached_reply": request.cached or None,
        "refusal": request.refusal or None,
    }
    return {
        "prompt_tokens": request.tokens.input,
        "completion_tokens": request.tokens.output,
        "cached_tokens": request.tokens.cached,
        "extra": drop_none(extra),
    }


def _describe_use(record: AttemptRecord, steps: int) -> dict[str, Any]:
    """Return the sums of an attempt. The cost is not in `total_cost_usd`, because its currency is unknown."""
    metrics = record.metrics
    sums = {
        f"total_{name}": read_count(metrics.get(metric))
        for name, metric in (
            ("prompt_tokens", "input_tokens"),
            ("completion_tokens", "output_tokens"),
            ("cached_tokens", "cached_tokens"),
        )
    }
    cost = metrics.get("cost")
    return {**sums, "total_steps": steps, "extra": None if cost is None else {"cost": cost}}
