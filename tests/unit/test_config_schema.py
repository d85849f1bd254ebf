"""The JSON schema of a config agrees with what `harness run -c` reads."""

from __future__ import annotations

from typing import Any

import pytest
from case_checks import each_case

from harness.runs.config import RunConfig
from harness.runs.config_guide import build_config_schema

SCHEMA = build_config_schema()


def is_valid(values: dict[str, Any]) -> bool:
    # It has no types that mypy could check.
    jsonschema: Any = pytest.importorskip("jsonschema")
    return bool(jsonschema.Draft202012Validator(SCHEMA).is_valid(values))


def test_it_is_a_schema() -> None:
    jsonschema: Any = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_key_has_a_description() -> None:
    keys = SCHEMA["properties"]
    assert set(keys) == {*RunConfig.model_fields, "extends"}
    assert [name for name, key in keys.items() if not key.get("description")] == []


@each_case(
    "values",
    [
        {},
        {"benchmark": "mbpp", "agent": None, "extends": ["a.yaml"]},
        {"sample_size": "${N:-4}", "limits": {"memory_mb": "${MEMORY}"}, "k": "${KS}"},
        {"task_ids": [11, "12"], "filter_difficulty": [5], "sampling": "stratified", "isolation": "${LEVEL}"},
        {"mcp_servers": [{"name": "a", "command": "a"}]},
        {"mcp_servers": {"a": {"command": "a", "tool_timeout_ms": 1000}}},
        {"endpoints": {"fast": {"model": "m", "prices": {"input": 1, "output": 2}}}, "options": {"any": 1}},
    ],
)
def test_what_a_run_reads_is_valid(values: dict[str, Any]) -> None:
    assert is_valid(values)


@each_case(
    "values",
    [
        {"bench": "mbpp"},
        {"sample_size": 0},
        {"sample_size": "5"},
        {"timeout_seconds": 100},
        {"sampling": "best"},
        {"limits": {"memory": 5}},
        {"mcp_servers": [{"command": "a"}]},
        {"mcp_servers": {"a": {"comand": "a"}}},
        {"extends": []},
    ],
)
def test_what_a_run_refuses_is_not_valid(values: dict[str, Any]) -> None:
    assert not is_valid(values)
