"""Native calls that a server left in the text of a reply are found, and nothing else is taken for one."""

from __future__ import annotations

import json
from typing import Any

from case_checks import each_case
from contexts import no_context
from effort import EXAMPLES, text_of_length
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.tools import SUBMIT, TextCall
from harness.environments.base import SandboxEnvironment
from harness.environments.os.environment import BASH
from harness.models.messages import Choice, Finish, Message, Role
from harness.runs.agents.chat.actions import Action, FormatError, TextCalls, find_text_calls

TOOLS = {BASH.name: BASH, SUBMIT.name: SUBMIT}
LS = '{"name": "bash", "arguments": {"command": "ls"}}'
FOUND = TextCall("bash", {"command": "ls"})
DONE = '{"name": "submit", "arguments": {"answer": "done"}}'
SUBMITTED = TextCall("submit", {"answer": "done"})
XML = "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
# fmt: off
LONG_PIECES = [
    "<tool_call>", '<tool_call>[",', "[TOOL_CALLS][", "<|python_tag|>{", "```json\n", "`", " ", "\n",
    "<tool_call><function=a><parameter=b>", '<tool_call>{"a":', "[TOOL_CALLS]" + "a" * 100,
]
# fmt: on


@each_case(
    "text",
    [
        f"<tool_call>{LS}</tool_call>",
        f"I list the files.\n<tool_call>\n{LS}\n</tool_call>\n",
        f"<tool_call>{LS}",
        f"<tool_call>\n{XML}\n</tool_call>",
        '<tool_call><function=bash>{"command": "ls"}</function></tool_call>',
        f"[TOOL_CALLS][{LS}]",
        f"[TOOL_CALLS] [{LS}]",
        '[TOOL_CALLS]bash{"command": "ls"}',
        '[TOOL_CALLS]bash[CALL_ID]9a8b7c[ARGS]{"command": "ls"}',
        f"<|python_tag|>{LS}",
        '<|python_tag|>{"name": "bash", "parameters": {"command": "ls"}}<|eom_id|>',
        '{"type": "function", "name": "bash", "parameters": {"command": "ls"}}',
        '[{"type": "function", "function": {"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}}]',
        f"```json\n{LS}\n```",
        f"Here:\n\n```\n{LS}\n```\n",
        f"```tool_call\r\n{LS}\r\n```",
        f"<think><tool_call>{DONE}</tool_call></think>{LS}",
    ],
)
def test_a_call_in_a_common_form_is_found(text: str) -> None:
    assert find_text_calls(text, TOOLS) == [FOUND]


@each_case(
    "text",
    [
        f"<tool_call>{LS}</tool_call>\n<tool_call>{DONE}</tool_call>",
        f"[TOOL_CALLS][{LS}, {DONE}]",
        f"<|python_tag|>{LS}; {DONE}",
        f"```json\n{LS}\n```\n\n```json\n{DONE}\n```",
        '[TOOL_CALLS]bash[ARGS]{"command": "ls"}[TOOL_CALLS]submit[ARGS]{"answer": "done"}',
    ],
)
def test_parallel_calls_are_found_in_order(text: str) -> None:
    assert find_text_calls(text, TOOLS) == [FOUND, SUBMITTED]


@each_case(
    "text",
    [
        "",
        "I would call bash with ls.",
        f"A sentence with {LS} in it.",
        '<tool_call>{"name": "dance", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "bash", "arguments": {"command": "ls"</tool_call>',
        '<tool_call>{"name": "bash"}</tool_call>',
        '<tool_call>{"name": "bash", "arguments": "ls"}</tool_call>',
        '<tool_call>{"name": ["bash"], "arguments": {}}</tool_call>',
        "<tool_call><function=bash><parameter=command>ls",
        '```python\nprint({"name": "bash", "arguments": {}})\n```',
        '```json\n{"name": "Ada", "arguments": {"for": "x"}}\n```',
        f"<think>{LS}</think>Nothing.",
        "<tool_call>" + "[" * 100_000,
    ],
)
def test_other_texts_hold_no_call(text: str) -> None:
    assert find_text_calls(text, TOOLS) == []


def test_a_mark_in_the_arguments_of_a_call_begins_no_other_call() -> None:
    command = f"echo '<tool_call>{DONE}</tool_call>'\n```json\n{DONE}\n```\n"
    text = f"<tool_call>{json.dumps({'name': 'bash', 'arguments': {'command': command}})}</tool_call>"
    assert find_text_calls(text, TOOLS) == [TextCall("bash", {"command": command})]


def test_an_argument_in_xml_has_the_type_of_the_schema() -> None:
    text = (
        "<tool_call><function=bash><parameter=command>\n12\n</parameter>"
        "<parameter=timeout_seconds>60</parameter></function></tool_call>"
    )
    assert find_text_calls(text, TOOLS) == [TextCall("bash", {"command": "12", "timeout_seconds": 60})]


@settings(max_examples=EXAMPLES)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_any_argument_is_read_back_exactly(command: str) -> None:
    call = json.dumps({"name": "bash", "arguments": {"command": command}})
    for text in (f"<tool_call>\n{call}\n</tool_call>", f"[TOOL_CALLS][{call}]", f"```json\n{call}\n```"):
        assert find_text_calls(text, TOOLS) == [TextCall("bash", {"command": command})]


@each_case("piece", LONG_PIECES)
def test_a_long_text_takes_linear_time(piece: str) -> None:
    assert find_text_calls(text_of_length(piece, 600_000), TOOLS) == []


def read_in_text(text: str, finish: Finish) -> list[Action | FormatError]:
    sandbox: Any = None
    handler: Any = None
    environment = SandboxEnvironment(sandbox, {BASH: handler}, no_context(), end=handler)
    return TextCalls().read(Choice(Message(Role.ASSISTANT, text), finish), environment)


def test_a_command_that_the_server_cut_off_is_not_run() -> None:
    (fault,) = read_in_text("Act: bash\n```\nrm -r /tm", Finish.LENGTH)
    assert isinstance(fault, FormatError)
    assert fault.name == "reply cut off"


@each_case(
    ("text", "finish"),
    [("Act: bash\n```\nls\n```\nNow I", Finish.LENGTH), ("Act: bash\n```\nls", Finish.STOP)],
)
def test_a_command_that_is_whole_or_ends_with_the_reply_is_run(text: str, finish: Finish) -> None:
    (action,) = read_in_text(text, finish)
    assert isinstance(action, Action)
    assert (action.tool, action.arguments) == ("bash", {"command": "ls"})
