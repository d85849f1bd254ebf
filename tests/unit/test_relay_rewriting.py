"""The rules of the relay on arbitrary JSON: a request passes rewritten, or it is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from case_checks import each_case
from effort import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.models.endpoint import Api
from harness.models.messages import ToolSchema
from harness.models.relay.errors import RelayError
from harness.models.relay.model_routes import rewrite_request

FIELDS = [
    *(
        "messages",
        "input",
        "instructions",
        "system",
        "tools",
        "tool_choice",
        "functions",
        "content",
        "output",
    ),
    *("role", "type", "name", "function", "custom", "source", "url", "image_url", "file_data", "file_id"),
    *("include", "text", "format", "stream_options", "max_tokens", "stop", "reasoning"),
]
LOOK = {"name": "look", "description": "Look around."}
SCHEMA = {"type": "object", "properties": {"where": {"type": "string"}}}
KINDS = [
    *("function", "custom", "text", "image", "image_url", "input_image", "file", "input_file"),
    *("tool_result", "message", "web_search", "namespace"),
]
LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from([*KINDS, "https://example.com/secret"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
@settings(max_examples=EXAMPLES)
@given(body=st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=2, max_size=8))
def test_any_json_is_rewritten_or_refused(api: Api, body: dict[str, Any]) -> None:
    for keeps in (False, True):
        try:
            request = rewrite_request(api, body, keeps_parameters=keeps, marks={})
        except RelayError:
            continue
        json.dumps(request.body)


@each_case("api", ["chat", "responses", "messages"])
def test_no_address_in_a_place_of_media_passes(api: Api) -> None:
    address = "HTTPS://example.com/secret"
    parts: list[Any] = [
        {"type": "image_url", "image_url": {"url": address}},
        {"type": "image_url", "image_url": address},
        {"type": "image_url", "image_url": {"url": f"{address}?data:"}},
        {"type": "file", "file": {"file_data": address}},
        {"type": "file", "file": {"file_url": address}},
        {"type": "input_image", "image_url": address},
        {"type": "input_file", "file_url": address},
        {"type": "input_file", "file_data": address},
        {"type": "image", "source": {"type": "url", "url": address}},
        {"type": "document", "source": {"type": "url", "url": address}},
        {"type": "image", "source": {"type": "base64", "url": address, "data": "AAAA"}},
        {
            "type": "tool_result",
            "tool_use_id": "t",
            "content": [{"type": "image", "source": {"url": address}}],
        },
        {"type": "video_url", "video_url": {"url": address}},
        {"type": "input_audio", "input_audio": {"data": address}},
        {"type": "file", "file": {"file_data": " " * 5000 + address}},
    ]
    # A content that is neither a text nor a list.
    source = {"type": "image", "source": {"type": "url", "url": address}, "image_url": {"url": address}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": source}
    contents: list[Any] = [*([part] for part in parts), source, [result]]
    messages = [{"role": "user", "content": content} for content in contents]
    items = [{"type": "function_call_output", "call_id": "c", "output": source}]
    body = {"messages": messages, "input": [*messages, *items], "max_tokens": 5}
    request = rewrite_request(api, body, keeps_parameters=False, marks={})
    assert "example.com" not in json.dumps(request.body)


@each_case(
    ("api", "tool"),
    [
        ("chat", {"type": "function", "function": {**LOOK, "parameters": SCHEMA}}),
        ("responses", {"type": "function", **LOOK, "parameters": SCHEMA}),
        ("messages", {**LOOK, "input_schema": SCHEMA}),
    ],
)
def test_the_transcript_gets_the_definition_of_each_tool(api: Api, tool: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "Look."}]
    body = {"messages": messages, "input": "Look.", "max_tokens": 10, "tools": [tool]}
    request = rewrite_request(api, body, keeps_parameters=False, marks={})
    assert request.tools == (ToolSchema("look", "Look around.", SCHEMA),)


@each_case("value", [None, 3, ["x"], "x"])
def test_a_definition_of_another_form_is_left_out_of_the_transcript(value: Any) -> None:
    tool = {"type": "function", "name": "look", "description": [value], "parameters": value}
    body = {"input": "Look.", "tools": [tool]}
    request = rewrite_request("responses", body, keeps_parameters=False, marks={})
    assert request.tools == (ToolSchema("look", "", {}),)


def test_a_group_of_tools_passes_without_those_of_the_provider() -> None:
    own = {"type": "function", "name": "bash", "parameters": {}, "strict": False}
    custom = {"type": "custom", "name": "patch"}
    inside = [own, {"type": "web_search"}, custom, {"type": "mcp", "server_url": "https://example.com"}]
    tools = [
        {"type": "namespace", "name": "mine", "description": "", "tools": inside, "server_url": "x"},
        {"type": "namespace", "name": "nested", "tools": [{"type": "namespace", "tools": [own]}]},
        {"type": "namespace", "name": "local", "tools": [{"type": "local_shell"}]},
        {"type": "namespace", "name": "empty", "tools": []},
        {"type": "namespace", "name": "none"},
    ]
    call = {"type": "function_call", "call_id": "1", "name": "bash", "namespace": "mine", "arguments": "{}"}
    body = {"input": [call], "tools": tools}
    request = rewrite_request("responses", body, keeps_parameters=False, marks={})
    assert request.body["tools"] == [
        {"type": "namespace", "name": "mine", "description": "", "tools": [own, custom]}
    ]
    assert request.body["input"] == [call]
    assert [tool.name for tool in request.tools] == ["mine.bash", "mine.patch"]
    withheld = request.notes["withheld"]
    assert {"tool web_search: web_search", "tool mcp: mcp", "tools.server_url"} <= set(withheld)
    assert {f"tool namespace: {name}" for name in ("nested", "local", "empty", "none")} <= set(withheld)
