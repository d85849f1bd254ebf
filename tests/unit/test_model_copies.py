"""The copies of an agent's messages, which hold only plain data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from case_checks import each_case

from harness.models.messages import Message, Reasoning, Role, ToolCall
from harness.models.reply_cache import copy_messages


class OwnText(str):
    """The text of an agent, whose methods are the agent's code."""


CALL = ToolCall("call_1", "bash", '{"command": "ls"}')
PLAIN = Message(Role.ASSISTANT, "text", (CALL,), "call_0")


@each_case("message", [PLAIN, replace(PLAIN, reasoning=Reasoning("thought", {"reasoning": ["thought"]}))])
def test_a_copy_is_equal_and_shares_no_object_that_an_agent_could_change(message: Message) -> None:
    (copied,) = copy_messages([message])
    assert copied == message
    assert copied is not message
    assert copied.tool_calls[0] is not message.tool_calls[0]
    if copied.reasoning is not None and message.reasoning is not None:
        assert copied.reasoning.fields is not message.reasoning.fields


@each_case(
    "message",
    [
        replace(PLAIN, text=OwnText("text")),
        replace(PLAIN, tool_call_id=OwnText("call_0")),
        replace(PLAIN, role=cast(Role, OwnText("assistant"))),
        replace(PLAIN, tool_calls=(replace(CALL, arguments=OwnText(CALL.arguments)),)),
        replace(PLAIN, tool_calls=cast(Any, [CALL])),
    ],
    ids=["text", "id", "role", "arguments", "calls"],
)
def test_a_copy_holds_exact_types(message: Message) -> None:
    (copied,) = copy_messages([message])
    assert copied == PLAIN
    assert type(copied.role) is Role
    assert type(copied.tool_calls) is tuple
    texts = [copied.text, copied.tool_call_id, copied.tool_calls[0].arguments]
    assert {type(text) for text in texts} == {str}


@each_case(
    "other", ["text", None, 3, replace(PLAIN, text=cast(Any, 3)), replace(PLAIN, tool_calls=cast(Any, (3,)))]
)
def test_other_than_messages_are_refused(other: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 pydantic's own message
        copy_messages([other])
