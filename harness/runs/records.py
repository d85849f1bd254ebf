"""Attempts as data: planned ones with their list in a manifest, and finished ones as lines of JSON.

Only this module converts records between objects and JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json as parse_quickly

from harness.core.inputs.json_text import MAX_DEPTH, parse_json
from harness.core.types import AttemptRecord, Reference, Status, Submission, Task, Verdict, explain_verdict

MAX_LISTED_BYTES = 2 * 1024 * 1024
"""The maximum size of the list of task ids as JSON. Each command that names the run reads its manifest."""
_LIST, _HASH = "task_ids", "task_ids_sha256"
AGENT_OUTPUT_CHARACTERS = 500
# A character takes up to 12 bytes of JSON. A line with two such texts must stay under MAX_LINE_BYTES.
MAX_TEXT_CHARACTERS = 2_500_000
_WHOLE_TEXTS = ("agent_output_full", "submission")
# Only some records have these fields.
_OPTIONAL = (*_WHOLE_TEXTS, "cluster")
_STATUSES = {status.value: status for status in Status}
# The fields whose values the two parsers may read differently.
_DEEP = ("metrics", "score", "duration_seconds", "agent_output_cut", "expected_output_cut")
# The names and the types of the values of records that have passed `_require_fields`.
_known_shapes: set[tuple[Any, ...]] = set()
_MOST_SHAPES = 1000
_FIELDS = tuple(field.name for field in fields(AttemptRecord))
_NUMBER = (int, float)
_TEXT_OR_NONE = (str, type(None))
# Types are compared exactly, because a boolean is an instance of int.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "task_id": (str,),
    "attempt": (int,),
    "sample_line": (int, type(None)),
    "category": _TEXT_OR_NONE,
    "resolved": (bool,),
    "status": (str,),
    "score": (*_NUMBER, type(None)),
    "metrics": (dict,),
    "agent_output": (str,),
    "expected_output": (str,),
    "duration_seconds": _NUMBER,
    "error": _TEXT_OR_NONE,
}
# Records of earlier versions lack these fields.
_LATER_TYPES: Mapping[str, tuple[type, ...]] = {
    "agent_output_cut": (int,),
    "expected_output_cut": (int,),
    "agent_output_full": _TEXT_OR_NONE,
    "submission": _TEXT_OR_NONE,
    "started_at": _TEXT_OR_NONE,
    "cluster": _TEXT_OR_NONE,
}


@dataclass(frozen=True, slots=True)
class PlannedAttempt:
    """One attempt to make. `number` counts from 0 within its task, `sample_line` from 1 in the file.

    Its seeds are computed when they are used, because a plan may have very many attempts.
    """

    task: Task
    number: int
    sample_line: int | None
    run_seed: int = 0
    # The cluster of its task if the run clusters tasks by a field, else None.
    cluster: str | None = None

    @property
    def seed(self) -> int:
        """The seed that the agent gets."""
        return _derive_seed(f"{self.run_seed}/{self.task.id}/{self.number}")

    @property
    def environment_seed(self) -> int:
        """The seed of what the environment draws. The agent does not get it."""
        return _derive_seed(f"environment/{self.run_seed}/{self.task.id}/{self.number}")

    @property
    def key(self) -> tuple[str, int]:
        return self.task.id, self.number


def list_task_ids(plan: Sequence[PlannedAttempt]) -> list[str]:
    """Return the ids of the tasks in a plan, each once, in the order of the plan."""
    return list(dict.fromkeys(planned.task.id for planned in plan))


def _derive_seed(name: str) -> int:
    """Return the seed of this name, from 0 to 2**31 - 1, which every model API accepts."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:4]) >> 1


def describe_planned(plan: Sequence[PlannedAttempt]) -> dict[str, Any]:
    """Return the field `planned` of a manifest: the number of tasks and attempts, and the tasks.

    `task_ids` lists the tasks. If the list has more than MAX_LISTED_BYTES, `task_ids_sha256` has its hash
    instead.
    """
    ids = list_task_ids(plan)
    listed = _encode(ids)
    tasks = {_LIST: ids} if len(listed) <= MAX_LISTED_BYTES else {_HASH: _hash(listed)}
    return {"tasks": len(ids), "attempts": len(plan), **tasks}


def has_same_tasks(planned: Any, plan: Sequence[PlannedAttempt]) -> bool:
    """Return whether a plan has the tasks of the field `planned` of a manifest, in the same order.

    The manifest of an earlier version records no tasks, so that any plan agrees with it.
    """
    if not isinstance(planned, Mapping):
        return True
    if planned.get(_LIST) is not None:
        return bool(planned[_LIST] == list_task_ids(plan))
    return planned.get(_HASH) is None or planned[_HASH] == _hash(_encode(list_task_ids(plan)))


def _encode(ids: Sequence[str]) -> bytes:
    """Return the ids as ASCII, because half a surrogate pair in an id has no encoding in UTF-8."""
    return json.dumps(ids, separators=(",", ":")).encode("ascii")


def _hash(listed: bytes) -> str:
    return hashlib.sha256(listed).hexdigest()


def build_record(
    planned: PlannedAttempt,
    reference: Reference,
    verdict: Verdict,
    *,
    submission: Submission | None,
    duration_seconds: float,
    started_at: float | None = None,
) -> AttemptRecord:
    """Return the record of a finished attempt.

    `submission` is None if the agent submitted nothing. `started_at` is in seconds since 1970.
    """
    agent_output = "" if submission is None else submission.agent_output
    return AttemptRecord(
        task_id=planned.task.id,
        attempt=planned.number,
        sample_line=planned.sample_line,
        category=planned.task.category,
        resolved=verdict.resolved,
        status=verdict.status,
        score=verdict.score,
        metrics=verdict.recorded_metrics,
        agent_output=agent_output[:AGENT_OUTPUT_CHARACTERS],
        expected_output=reference.expected_output[:AGENT_OUTPUT_CHARACTERS],
        duration_seconds=round(duration_seconds, 4),
        error=explain_verdict(verdict, submission).evidence,
        agent_output_cut=max(len(agent_output) - AGENT_OUTPUT_CHARACTERS, 0),
        expected_output_cut=max(len(reference.expected_output) - AGENT_OUTPUT_CHARACTERS, 0),
        agent_output_full=None if submission is None else _cut_for_line(agent_output),
        submission=None if submission is None else _cut_for_line(submission.text),
        started_at=None if started_at is None else _format_time(started_at),
        cluster=planned.cluster,
    )


def _format_time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cut_for_line(text: str) -> str:
    if len(text) <= MAX_TEXT_CHARACTERS:
        return text
    return f"{text[:MAX_TEXT_CHARACTERS]}... ({len(text)} characters in all)"


def to_json(record: AttemptRecord) -> str:
    """Return a record as one line of JSON, without the whole texts if the record has none.

    Lone surrogates stay escaped, so the line is always UTF-8. Metrics that JSON cannot hold are left out,
    because one unreadable line would make the whole file unreadable.
    """
    try:
        line = json.dumps(_values(record), allow_nan=False, default=_to_plain)
        # Only the metrics hold values of any type and depth.
        parse_json(json.dumps(record.metrics, allow_nan=False, default=_to_plain))
    except (ValueError, TypeError, RecursionError) as error:
        named = {"unreadable": f"metrics that are not plain JSON: {type(error).__name__}"}
        line = json.dumps(_values(replace(record, metrics=named)), allow_nan=False)
    return line


def _values(record: AttemptRecord) -> dict[str, Any]:
    values = ((name, getattr(record, name)) for name in _FIELDS)
    return {name: value for name, value in values if name not in _OPTIONAL or value is not None}


def _to_plain(value: Any) -> Any:
    """Return a dataclass in the metrics as a dictionary. Raises TypeError for any other object."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def from_json(line: str | bytes, *, whole: bool = False) -> AttemptRecord:
    """Return the record in a line of JSON, with its whole texts only if `whole` is true.

    Raises ValueError, TypeError or KeyError for anything that is not a record.
    """
    values = _parse_fast(line)
    if values is None:
        values = require_record(parse_json(line))
    if not whole:
        for name in _WHOLE_TEXTS:
            values.pop(name, None)
    values["status"] = _STATUSES[values["status"]]
    return AttemptRecord(**values)


def _parse_fast(line: str | bytes) -> dict[str, Any] | None:
    """Return the values of a record, None if the strict parser must read the line.

    A run may have a million lines, and this parser takes a third of the time.
    """
    try:
        values = parse_quickly(line, allow_inf_nan=False)
        require_record(values)
        if _is_plain(map(values.get, _DEEP), MAX_DEPTH - 1):
            return dict(values)
    except (ValueError, TypeError, KeyError):
        pass
    return None


def _is_plain(values: Any, depth: int) -> bool:
    """Return whether both parsers accept the values.

    The fast one also takes deeper values, integers with more digits, and floats that are infinite.
    """
    for value in values:
        kind = type(value)
        if kind is str:
            continue
        if kind is int:
            is_plain = -(2**63) <= value < 2**63
        elif kind is float:
            is_plain = math.isfinite(value)
        elif kind is dict:
            is_plain = depth > 0 and _is_plain(value.values(), depth - 1)
        else:
            is_plain = kind is not list or (depth > 0 and _is_plain(value, depth - 1))
        if not is_plain:
            return False
    return True


def require_record(values: Any) -> dict[str, Any]:
    """Return the values of a line of JSON, which are a record's.

    Raises ValueError, TypeError or KeyError for anything else.
    """
    if not isinstance(values, dict):
        raise TypeError("the line is not a JSON object")
    # The records of a run have few shapes, and each is looked at once.
    shape = (*values, *map(type, values.values()))
    if shape not in _known_shapes:
        _require_fields(values)
        if len(_known_shapes) < _MOST_SHAPES:
            _known_shapes.add(shape)
    for name in ("attempt", "sample_line"):
        if not -(2**63) <= (values[name] or 0) < 2**63:
            raise ValueError(f"'{name}' needs more than 64 bits")
    status = _STATUSES.get(values["status"]) or Status(values["status"])
    if values["resolved"] != (status is Status.PASSED):
        raise ValueError(f"'resolved' is {str(values['resolved']).lower()}, but 'status' is '{status}'")
    return values


def _require_fields(values: Mapping[str, Any]) -> None:
    """Raise TypeError or KeyError unless values have the fields of a record with their types."""
    for name, types in _TYPES.items():
        if type(values[name]) not in types:
            raise TypeError(f"'{name}' is a {type(values[name]).__name__}")
    for name in values.keys() - _TYPES.keys():
        if name not in _LATER_TYPES:
            raise TypeError(f"a record has no field {name!r}")
        if type(values[name]) not in _LATER_TYPES[name]:
            raise TypeError(f"'{name}' is a {type(values[name]).__name__}")
