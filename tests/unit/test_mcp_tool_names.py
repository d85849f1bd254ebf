"""The names and schemas under which an agent sees the tools of the user's MCP servers."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from case_checks import each_case
from mcp_types import Tool

from harness.models.relay.mcp_servers import tool_names
from harness.models.relay.mcp_servers.tool_names import (
    ListedTool,
    clean_schema,
    name_aliases,
    name_tools,
    prefix_name,
    read_tools,
)


def list_tools(*names: str) -> list[ListedTool]:
    return [ListedTool(name, "", {"type": "object"}) for name in names]


def test_only_a_name_that_collides_gets_the_server_in_front() -> None:
    named, left_out = name_tools(
        {"one": list_tools("add", "look"), "two": list_tools("add", "submit")}, ["submit"]
    )
    assert [each.tool.name for each in named] == [
        "mcp__one__add",
        "look",
        "mcp__two__add",
        "mcp__two__submit",
    ]
    assert left_out == []


def test_a_prefixed_name_is_one_that_models_take() -> None:
    assert prefix_name("files", "read.file") == "mcp__files__read_file"
    long = prefix_name("files", "a" * 200)
    assert len(long) == 64
    assert long != prefix_name("files", "a" * 199)


def test_a_tool_with_an_endless_name_is_left_out() -> None:
    named, left_out = name_tools({"test": list_tools("x" * 10**6)}, ["submit"])
    assert named == []
    assert len(left_out[0][1]) <= 100
    assert "longer than 200 characters" in left_out[0][2]


def test_a_long_name_leads_to_the_tool_with_the_short_one() -> None:
    named, _ = name_tools({"one": list_tools("add", "look"), "two": list_tools("add")}, [])
    assert name_aliases(named, []) == {"mcp__one__look": "look"}


def test_a_long_name_that_two_tools_share_leads_to_neither() -> None:
    named, left_out = name_tools({"a": list_tools("b__find"), "a__b": list_tools("find", "look")}, [])
    assert left_out == []
    assert name_aliases(named, []) == {"mcp__a__b__look": "look"}


def test_a_long_name_that_another_tool_has_leads_to_that_tool() -> None:
    named, _ = name_tools({"a": list_tools("find"), "other": list_tools("mcp__a__find")}, [])
    assert name_aliases(named, []) == {"mcp__other__mcp__a__find": "mcp__a__find"}
    assert "mcp__a__find" not in name_aliases(named[:1], ["mcp__a__find"])


def test_a_deep_schema_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(2000):
        schema = {"type": "object", "properties": {"a": schema}}
    assert isinstance(clean_schema(schema), str)


@each_case(
    ("schema", "fault"),
    [
        ({"type": "object", "allOf": [{}] * 16_000}, "more than 5,000 values"),
        ({"type": "object", "properties": {"a": {"type": [*range(10_500), "a"]}}}, "more than 5,000 values"),
        ({"type": "object", "properties": {"a": {"type": [*range(1000), "a"]}}}, "a list of more than 1,000"),
    ],
    ids=["subschemas", "values", "list"],
)
def test_a_schema_whose_check_would_take_long_is_refused_unchecked(
    monkeypatch: pytest.MonkeyPatch, schema: dict[str, Any], fault: str
) -> None:
    monkeypatch.setattr("jsonschema.Draft202012Validator.check_schema", None)
    assert fault in str(clean_schema(schema))


def test_a_schema_with_many_properties_and_choices_is_kept() -> None:
    choices = [f"choice {number}" for number in range(600)]
    properties = {f"field{number}": {"type": "string"} for number in range(200)}
    cleaned = clean_schema({"properties": {**properties, "choice": {"enum": [*choices, None]}}})
    assert isinstance(cleaned, dict)
    assert len(cleaned["properties"]) == 201


async def test_a_schema_that_many_attempts_list_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from jsonschema import Draft202012Validator

    checked: list[Any] = []
    monkeypatch.setattr(Draft202012Validator, "check_schema", checked.append)
    tool_names._find_fault.cache_clear()
    tools = [Tool(name=name, input_schema={"type": "object", "title": "listed"}) for name in ("a", "b")]
    first, second = await read_tools(tools), await read_tools(tools)
    assert first == second
    assert checked == [{"type": "object", "title": "listed"}]
    tool_names._find_fault.cache_clear()


async def test_attempts_share_no_schema_that_one_of_them_could_change() -> None:
    tools = [Tool(name="a", input_schema={"type": "object"})]
    (first,), (second,) = await read_tools(tools), await read_tools(tools)
    assert first.schema is not second.schema


async def test_a_cancelled_check_ends_after_the_schema_at_which_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began, goes_on = threading.Event(), threading.Event()
    checked: list[Any] = []

    def check(schema: Any) -> None:
        checked.append(schema)
        began.set()
        goes_on.wait()

    monkeypatch.setattr("jsonschema.Draft202012Validator.check_schema", check)
    tool_names._find_fault.cache_clear()
    tools = [Tool(name=name, input_schema={"title": name}) for name in ("a", "b")]
    reading = asyncio.create_task(read_tools(tools))
    await asyncio.to_thread(began.wait)
    # The loop is free while the thread checks, so that the limit of the start can cancel it.
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    goes_on.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert checked == [{"title": "a"}]
    tool_names._find_fault.cache_clear()
