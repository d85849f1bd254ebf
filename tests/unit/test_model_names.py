"""The name of a model in the list of runs and in comparisons is that at its server."""

from __future__ import annotations

from typing import Any

from case_checks import each_case

from harness.runs.manifest import read_model_name

LOCAL = {"local": {"model": "qwen2.5-coder", "base_url": "http://localhost/v1"}}


@each_case(
    ("config", "name"),
    [
        ({"model": "gpt-5-mini", "endpoints": {}}, "gpt-5-mini"),
        ({"model": "local", "endpoints": LOCAL}, "qwen2.5-coder"),
        ({"model": "other", "endpoints": LOCAL}, "other"),
        ({"model": None, "endpoints": LOCAL}, None),
        ({}, None),
        ({"model": ["local"], "endpoints": 3}, None),
    ],
)
def test_an_endpoint_is_replaced_by_its_model(config: dict[str, Any], name: str | None) -> None:
    assert read_model_name(config) == name
