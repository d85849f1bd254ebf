"""The log of inspect_ai as JSON, version 2, which `inspect view` and `read_eval_log` read.

Source: https://inspect.aisi.org.uk/eval-logs.html and the class `inspect_ai.log.EvalLog`, whose readers need
its fields in this order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, TextIO

from harness.core.types import AttemptRecord, Phase, Status
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
    Prompt,
    Request,
    Tokens,
    ToolCall,
    Turn,
)
from harness.runs.manifest import read_grading_version

SUFFIXES = (".json",)
_VERSION = 2
# The name of our grader as a scorer of inspect.
_SCORER = "harness"
# The name that inspect gives to a run without a model.
_NO_MODEL = "none/none"
_STOPS = {"stop": "stop", "length": "max_tokens", "tool_calls": "tool_calls", "refusal": "content_filter"}
# The limits of harness in the words of inspect. The time of an agent stops while its request waits for
# a place at the server or for the next try, and inspect calls such a limit a limit on working time.
_LIMITS = {
    "timeout_seconds": "working",
    "rounds": "turn",
    "output_tokens": "token",
    "total_tokens": "token",
    "cost": "cost",
}
_ERRORS = (Status.GRADER_ERROR, Status.INFRA_ERROR, Status.AGENT_ERROR, Status.CANCELLED)


def write_export(run: ExportedRun, stream: TextIO) -> None:
    """Write the log, one attempt at a time. An attempt is a sample, and its number is the epoch, from 1."""
    head = json.dumps(run.portable.clean(_build_head(run)), indent=2)
    stream.write(head.removesuffix("\n}") + ',\n  "samples": [')
    for number, attempt in enumerate(run.read_attempts()):
        stream.write("," if number else "")
        stream.write("\n    " + json.dumps(build_sample(run, attempt)))
    stream.write("\n  ]\n}\n")


def name_file(run: ExportedRun) -> str:
    """Return the name of the log as inspect writes it: the time, the task and the id of the run.

    In a folder, inspect takes only files of such names for logs (`is_log_file` of `inspect_ai.log`).
    """
    created = format_time(run.started)[:19].replace(":", "-")
    # The parts of a name end at `_`, and a suffix begins with `-`.
    task, run_id = (re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-") for text in (run.benchmark, run.run_id))
    return f"{created}+00-00_{task}_{run_id.replace('-', '')}.json"


def _build_head(run: ExportedRun) -> dict[str, Any]:
    stored, manifest = run.stored, run.manifest
    created = format_time(run.started)
    data = manifest["data"]
    return {
        "version": _VERSION,
        "status": _name_status(run),
        "eval": {
            "eval_id": run.run_id,
            "run_id": run.run_id,
            "created": created,
            "task": run.benchmark,
            "task_id": run.run_id,
            "solver": run.agent,
            "dataset": {
                "name": run.benchmark,
                "location": data["location"],
                "samples": stored.summary.total,
                "shuffled": False,
            },
            "model": run.model or _NO_MODEL,
            "model_generate_config": dict(run.generation),
            "config": {"epochs": max(1, -(-stored.summary.attempts // max(1, stored.summary.total)))},
            "packages": {"harness": __version__},
            "metadata": {
                "source": manifest["source"],
                "data_sha256": data["sha256"],
                "split": manifest.get("split"),
                "seed": manifest.get("seed"),
                "grading_version": read_grading_version(manifest),
                "git_revision": manifest.get("git_revision"),
                "images": manifest["images"],
            },
            "scorers": [{"name": _SCORER}],
        },
        "plan": {"name": "plan", "steps": [{"solver": run.agent, "params": {}}]},
        "results": _build_results(run),
        "stats": {
            "started_at": created,
            "completed_at": "" if run.ended is None else format_time(run.ended),
            "model_usage": _describe_usage(run.model, stored.summary.model),
        },
    }


def _name_status(run: ExportedRun) -> str:
    if run.stored.is_running:
        return "started"
    return (
        "cancelled"
        if run.stored.unfinished or run.stored.summary.statuses.get(Status.CANCELLED)
        else "success"
    )


def _build_results(run: ExportedRun) -> dict[str, Any]:
    summary = run.stored.summary
    without = sum(number for status, number in summary.statuses.items() if not status.has_score)
    metrics = {"accuracy": summary.rate}
    metrics |= {f"pass_at_{k}": value for k, value in summary.pass_at_k.items() if value is not None}
    return {
        "total_samples": summary.attempts,
        "completed_samples": summary.attempts - without,
        "scores": [
            {
                "name": _SCORER,
                "scorer": _SCORER,
                "scored_samples": summary.attempts - without,
                "unscored_samples": without,
                "metrics": {name: {"name": name, "value": value} for name, value in metrics.items()},
                "metadata": {"accuracy": "the mean over all tasks of the share of attempts that passed"},
            }
        ],
    }


def build_sample(run: ExportedRun, attempt: ExportedAttempt) -> dict[str, Any]:
    """Return an attempt as a sample. Raises DataError for a damaged transcript."""
    record = attempt.record
    model = run.model or _NO_MODEL
    log = _Conversation(model, attempt)
    for part in attempt.read_parts():
        if isinstance(part, Prompt):
            log.set_prompt(part)
        elif isinstance(part, Turn):
            log.add_turn(part)
        else:
            log.add_note(part)
    log.finish()
    sample = {
        "id": record.task_id,
        "epoch": record.attempt + 1,
        "input": log.prompt,
        "target": record.expected_output,
        "messages": log.pool[log.first :],
        "output": log.output,
        "scores": None if record.score is None else {_SCORER: _build_score(record)},
        "metadata": describe_record(record),
        "events": log.events,
        "events_data": {"messages": log.pool, "calls": []},
        "model_usage": _describe_usage(run.model, record.metrics),
        "started_at": format_time(attempt.started),
        "completed_at": format_time(attempt.ended),
        "total_time": max(record.duration_seconds, 0.0),
        "uuid": name_attempt(run, record),
        "limit": _describe_limit(record),
    }
    if record.status in _ERRORS:
        message = record.error or record.status.value
        sample["error"] = {"message": message, "traceback": message, "traceback_ansi": message}
    return drop_none(sample)


class _Conversation:
    """The messages and events of a sample, while the parts of its attempt are read.

    A request is stored as the range of its messages in `pool`, as inspect does, because a copy of them for
    each request would grow with the square of their number.
    """

    def __init__(self, model: str, attempt: ExportedAttempt) -> None:
        self.prompt = ""
        self.pool: list[dict[str, Any]] = []
        # The place in `pool` where the conversation begins, after the agent has rewritten it.
        self.first = 0
        self.events: list[dict[str, Any]] = []
        self.output: dict[str, Any] = {"model": model, "choices": []}
        self._model = model
        self._started = attempt.started
        # The results that no request has held yet.
        self._results: list[dict[str, Any]] = []

    def set_prompt(self, prompt: Prompt) -> None:
        self.prompt = prompt.text

    def add_turn(self, turn: Turn) -> None:
        request = turn.request
        if request is None:
            self.finish()
            calls, stop = turn.calls, "stop"
        else:
            if request.replaces:
                self.first = len(self.pool)
            # The messages of the request hold the results as the model got them.
            self.pool.extend(self._describe(message, message.calls) for message in request.messages)
            calls, stop = turn.reply.calls, _STOPS.get(request.finish or "", "unknown")
        reply = {**self._describe(turn.reply, calls), "model": self._model}
        self.output = {"model": self._model, "choices": [{"message": reply, "stop_reason": stop}]}
        if request is not None:
            self.output |= {"usage": _describe_tokens(request.tokens), "time": request.seconds}
            self._add_model_event(turn, request)
        self.pool.append(reply)
        self._results = []
        for seen in turn.observations:
            self._add_observation(seen, is_shown=request is None or seen.is_written)

    def finish(self) -> None:
        """Add the prompt if no request had it, and the results that no request has held."""
        if not self.pool:
            self.pool.append({"role": "user", "content": self.prompt})
        self.pool.extend(self._results)
        self._results = []

    def add_note(self, note: Note) -> None:
        self._add_event("info", note.time, 0.0, source=f"harness {note.kind}", data=dict(note.data))

    def _add_model_event(self, turn: Turn, request: Request) -> None:
        self._add_event(
            "model",
            turn.time,
            request.seconds,
            model=self._model,
            input=[],
            input_refs=[[self.first, len(self.pool)]],
            tools=[],
            tool_choice="auto",
            config={},
            output=self.output,
            retries=request.retries,
            **({"cache": "read"} if request.cached else {}),
        )

    def _add_observation(self, seen: Observation, *, is_shown: bool) -> None:
        text = seen.text if seen.text is not None else f"no observation: the call ended with {seen.ended}"
        error = {"type": "unknown", "message": text[:1000]} if seen.refused or seen.text is None else None
        call = seen.call
        if is_shown:
            message = {
                "role": "tool",
                "content": text,
                "tool_call_id": call.id,
                "function": call.name,
                "error": error,
            }
            self._results.append(drop_none(message))
        self._add_event(
            "tool",
            seen.time,
            seen.seconds,
            id=call.id,
            function=call.name,
            arguments=dict(call.arguments),
            result=text,
            **({} if error is None else {"error": error}),
        )

    def _add_event(self, name: str, time: float | None, seconds: float, **fields: Any) -> None:
        """Add an event that began `seconds` before `time`."""
        ended = self._started if time is None else time
        begun = max(ended - seconds, self._started)
        if name in ("model", "tool"):
            fields |= {"completed": format_time(ended), "working_time": seconds}
        self.events.append(
            {
                "event": name,
                "timestamp": format_time(begun),
                "working_start": round(begun - self._started, 4),
                **fields,
            }
        )

    def _describe(self, message: Message, calls: Iterable[ToolCall]) -> dict[str, Any]:
        content: Any = message.text
        if message.reasoning:
            content = [
                {"type": "reasoning", "reasoning": message.reasoning},
                {"type": "text", "text": message.text},
            ]
        described: dict[str, Any] = {"role": message.role, "content": content}
        if listed := [
            {"id": call.id, "function": call.name, "arguments": dict(call.arguments), "type": "function"}
            for call in calls
        ]:
            described["tool_calls"] = listed
        if message.role == "tool":
            described["tool_call_id"] = message.answers
        return described


def _build_score(record: AttemptRecord) -> dict[str, Any]:
    answer = record.submission if record.submission is not None else record.agent_output
    return {
        "value": record.score,
        "answer": answer,
        "explanation": record.error,
        "metadata": {"status": record.status.value, "resolved": record.resolved},
    }


def _describe_limit(record: AttemptRecord) -> dict[str, Any] | None:
    """Return the limit that stopped the agent, None if it was not or the number is unknown.

    A limit that ended the submitted program is not a limit of the agent.
    """
    kind, value = _LIMITS.get(str(record.metrics.get("limit"))), record.metrics.get("limit_value")
    if kind is None or type(value) not in (int, float) or record.metrics.get("phase") != Phase.AGENT:
        return None
    return drop_none({"type": kind, "limit": value, "reason": record.error})


def _describe_usage(model: str | None, figures: Any) -> dict[str, Any]:
    """Return the tokens of a model by its name, {} if they are unknown."""
    names = ("input", "output", "cached", "reasoning")
    usage = _describe_tokens(Tokens(*(read_count(figures.get(f"{name}_tokens")) for name in names)))
    return {} if model is None or usage is None else {model: usage}


def _describe_tokens(tokens: Tokens) -> dict[str, Any] | None:
    if tokens.input is None or tokens.output is None:
        return None
    usage = {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "input_tokens_cache_read": tokens.cached,
        "reasoning_tokens": tokens.reasoning,
    }
    return drop_none(usage)
