"""What the readers of exports demand, as JSON schemas of our own words.

They let tests without a network notice an export that no reader would take. `e2e/test_exports_in_readers.py`
loads such exports with the readers themselves.
"""

from __future__ import annotations

from typing import Any

TEXT: dict[str, Any] = {"type": "string"}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
NUMBER: dict[str, Any] = {"type": "number"}
OBJECT: dict[str, Any] = {"type": "object"}
TIME: dict[str, Any] = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$"}


def closed(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """Return the schema of an object that has no other fields."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def every(items: dict[str, Any], **bounds: int) -> dict[str, Any]:
    return {"type": "array", "items": items, **bounds}


_STEP = closed(
    {
        "step_id": {"type": "integer", "minimum": 1},
        "source": {"enum": ["system", "user", "agent"]},
        "message": TEXT,
    },
    timestamp=TIME,
    reasoning_content=TEXT,
    tool_calls=every(
        closed({"tool_call_id": TEXT, "function_name": TEXT, "arguments": OBJECT}, extra=OBJECT)
    ),
    observation=closed({"results": every(closed({}, source_call_id=TEXT, content=TEXT, extra=OBJECT))}),
    metrics=closed(
        {}, prompt_tokens=COUNT, completion_tokens=COUNT, cached_tokens=COUNT, cost_usd=COUNT, extra=OBJECT
    ),
    llm_call_count=COUNT,
    is_copied_context={"type": "boolean"},
    extra=OBJECT,
)
_TOOL = closed(
    {
        "type": {"const": "function"},
        "function": closed({"name": TEXT}, description=TEXT, parameters=OBJECT),
    }
)
ATIF = closed(
    {
        "schema_version": {"const": "ATIF-v1.8"},
        "agent": closed(
            {"name": TEXT, "version": TEXT}, model_name=TEXT, tool_definitions=every(_TOOL), extra=OBJECT
        ),
        "steps": every(_STEP, minItems=1),
    },
    session_id=TEXT,
    trajectory_id=TEXT,
    final_metrics=closed(
        {},
        total_prompt_tokens=COUNT,
        total_completion_tokens=COUNT,
        total_cached_tokens=COUNT,
        total_steps=COUNT,
        extra=OBJECT,
    ),
    extra=OBJECT,
)

_CALL = closed({"id": TEXT, "function": TEXT, "arguments": OBJECT, "type": {"const": "function"}})
_CONTENT = {
    "anyOf": [
        TEXT,
        every(
            {
                "anyOf": [
                    closed({"type": {"const": "text"}, "text": TEXT}),
                    closed({"type": {"const": "reasoning"}, "reasoning": TEXT}),
                ]
            }
        ),
    ]
}
_ERROR = closed({"type": {"const": "unknown"}, "message": TEXT})
_MESSAGE = closed(
    {"role": {"enum": ["system", "user", "assistant", "tool"]}, "content": _CONTENT},
    tool_calls=every(_CALL),
    tool_call_id={"type": ["string", "null"]},
    function=TEXT,
    model=TEXT,
    error=_ERROR,
)
_EVENT = {
    "type": "object",
    "required": ["event", "timestamp", "working_start"],
    "properties": {
        "event": {"enum": ["model", "tool", "info"]},
        "timestamp": TIME,
        "completed": TIME,
        "working_start": {"type": "number", "minimum": 0},
        "input_refs": every({"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2}),
    },
}
_SAMPLE = closed(
    {
        "id": TEXT,
        "epoch": {"type": "integer", "minimum": 1},
        "input": TEXT,
        "target": TEXT,
        "messages": every(_MESSAGE, minItems=1),
        "output": OBJECT,
        "metadata": OBJECT,
        "events": every(_EVENT),
        "events_data": closed({"messages": every(_MESSAGE), "calls": {"const": []}}),
        "model_usage": OBJECT,
        "started_at": TIME,
        "completed_at": TIME,
        "total_time": {"type": "number"},
        "uuid": TEXT,
    },
    scores=closed({"harness": OBJECT}),
    limit=closed({"type": {"enum": ["working", "turn", "token", "cost"]}, "limit": NUMBER}, reason=TEXT),
    error=closed({"message": TEXT, "traceback": TEXT, "traceback_ansi": TEXT}),
)
INSPECT = closed(
    {
        "version": {"const": 2},
        "status": {"enum": ["started", "success", "cancelled", "error"]},
        "eval": {
            "type": "object",
            "required": ["created", "task", "dataset", "model", "config"],
            "properties": {"created": TIME, "task": TEXT, "dataset": OBJECT, "model": TEXT, "config": OBJECT},
        },
        "plan": OBJECT,
        "results": OBJECT,
        "stats": OBJECT,
        "samples": every(_SAMPLE),
    }
)

_VALUE = {
    "oneOf": [
        closed({"stringValue": TEXT}),
        closed({"boolValue": {"type": "boolean"}}),
        closed({"intValue": {"type": "string", "pattern": r"^-?\d+$"}}),
        closed({"doubleValue": {"type": "number"}}),
        closed({"arrayValue": OBJECT}),
    ]
}
_ATTRIBUTES = every(closed({"key": TEXT, "value": _VALUE}))
_NANOSECONDS = {"type": "string", "pattern": r"^\d+$"}
_SPAN = closed(
    {
        "traceId": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        "spanId": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "name": TEXT,
        "kind": {"enum": [1, 3]},
        "startTimeUnixNano": _NANOSECONDS,
        "endTimeUnixNano": _NANOSECONDS,
        "attributes": _ATTRIBUTES,
        "events": every(closed({"name": TEXT, "timeUnixNano": _NANOSECONDS, "attributes": _ATTRIBUTES})),
        "status": closed({}, code={"const": 2}, message=TEXT),
    },
    parentSpanId={"type": "string", "pattern": "^[0-9a-f]{16}$"},
)
OTLP = closed(
    {
        "resourceSpans": every(
            closed(
                {
                    "resource": closed({"attributes": _ATTRIBUTES}),
                    "scopeSpans": every(closed({"scope": OBJECT, "spans": every(_SPAN, minItems=1)})),
                }
            )
        )
    }
)
