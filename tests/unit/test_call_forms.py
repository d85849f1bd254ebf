"""Calls that arrive as text, in the forms of many models, and arguments that are written otherwise."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from case_checks import each_case
from contexts import no_context
from pydantic import Field

from harness.core.tools import Arguments, Tool
from harness.environments.base import SandboxEnvironment
from harness.models.messages import Choice, Finish, Message, Role, ToolCall
from harness.runs.agents.chat.actions import Action, ActionFormat, FormatError, NativeCalls, TextCalls
from harness.runs.agents.chat.call_forms import MOST_LITERAL_CHARACTERS


class Command(Arguments):
    command: str
    timeout_seconds: int | None = None
    paths: list[str] = Field(default_factory=list)


BASH = Tool("bash", "Run a command.", Command)
LOOK = Tool("look", "Look around.", Arguments)
LS = '{"command": "ls"}'
DS, DS_END = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
KIMI, KIMI_END = (
    "<|tool_calls_section_begin|><|tool_call_begin|>",
    "<|tool_call_end|><|tool_calls_section_end|>",
)
DSML = (
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="bash">\n'
    '<｜DSML｜parameter name="command" string="true">ls'
    "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
)
INVOKE = '<invoke name="bash">\n<parameter name="command">ls</parameter>\n</invoke>'
XML = "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
# Each of these is the call of `bash` with `ls`.
FORMS = [
    # Hermes, Granite, Jamba, Nemotron and others: JSON after a mark.
    f'<tool_call>\n{{"name": "bash", "arguments": {LS}}}\n</tool_call>',
    f'<tool_call>```json\n{{"name": "bash", "arguments": {LS}}}\n```</tool_call>',
    f'<function_call>{{"name": "bash", "arguments": {LS}}}</function_call>',
    f'<tool_calls>[{{"name": "bash", "arguments": {LS}}}]</tool_calls>',
    f'<TOOLCALL>[{{"name": "bash", "arguments": {LS}}}]</TOOLCALL>',
    f'<|tool_call|>[{{"name": "bash", "arguments": {LS}}}]',
    f'functools[{{"name": "bash", "arguments": {LS}}}]',
    f'<|START_ACTION|>[{{"tool_call_id": "0", "tool_name": "bash", "parameters": {LS}}}]<|END_ACTION|>',
    f'<|action_start|><|plugin|>{{"name": "bash", "parameters": {LS}}}<|action_end|>',
    "<tool_call>{'name': 'bash', 'arguments': {'command': 'ls'}}</tool_call>",
    # Qwen, Seed-OSS, Llama 3.1: elements.
    f"<tool_call>\n{XML}\n</tool_call>",
    f"I look.\n\n{XML}\n</tool_call>",
    f"<seed:tool_call>\n{XML}\n</seed:tool_call>",
    f"<function=bash>{LS}</function>",
    '<function name="bash">\n<parameter name="command">ls</parameter>\n</function>',
    # DeepSeek V3, R1, V3.1 and V3.2.
    f"{DS}function<｜tool▁sep｜>bash\n```json\n{LS}\n```{DS_END}",
    f"{DS}bash<｜tool▁sep｜>{LS}{DS_END}",
    f"I look.{DS}bash<｜tool▁sep｜>{LS}{DS_END}<｜end▁of▁sentence｜>",
    f"<|tool_calls_begin|><|tool_call_begin|>bash<|tool_sep|>{LS}<|tool_call_end|><|tool_calls_end|>",
    DSML,
    # GLM 4.5 and later.
    "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
    "<tool_call>bash<arg_key>command</arg_key><arg_value>ls</arg_value></tool_call>",
    # The template begins a line with an element.
    "I look:\n<tool_call>bash <arg_key>command</arg_key> <arg_value>ls</arg_value> </tool_call>",
    # Kimi K2.
    f"{KIMI}functions.bash:0<|tool_call_argument_begin|>{LS}{KIMI_END}",
    f"{KIMI}\nbash:12 <|tool_call_argument_begin|>\n{LS}\n{KIMI_END}",
    # MiniMax, and XML as other models write it.
    f"<minimax:tool_call>\n{INVOKE}\n</minimax:tool_call>",
    f"<function_calls>\n{INVOKE}\n</function_calls>",
    f"<tool_call>{INVOKE}</tool_call>",
    f"<minimax:tool_call>{INVOKE.replace(chr(34), '')}</minimax:tool_call>",
    # Llama, Olmo, LFM and Gemma: calls of Python.
    '[bash(command="ls")]',
    'bash(command="ls")',
    "[bash('ls')]",
    '<|python_tag|>[bash(command="ls")]',
    '<|python_tag|>bash.call(command="ls")',
    '<|python_start|>[bash(command="ls")]<|python_end|>',
    '<|tool_call_start|>[bash(command="ls")]<|tool_call_end|>',
    '<function_calls>\nbash(command="ls")\n</function_calls>',
    '```tool_code\nbash(command="ls")\n```',
    '[default_api.bash(command="ls")]',
    # Mistral.
    f"[TOOL_CALLS]bash{LS}",
    f"[TOOL_CALLS]bash[ARGS]{LS}",
    # gpt-oss.
    f"<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{LS}<|call|>",
    f"<|channel|>analysis<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.bash "
    f"<|constrain|>json<|message|>{LS}<|call|>",
    f"<|start|>assistant to=functions.bash<|channel|>commentary json<|message|>{LS}<|call|>",
    f"analysisI look.assistantcommentary to=functions.bash json{LS}",
    # JSON without marks, prefixed names, and arguments that were encoded twice.
    f'{{"name": "functions.bash", "arguments": {LS}}}',
    f'{{"name": "default_api:bash", "parameters": {LS}}}',
    f'{{"tool": "bash", "args": {LS}}}',
    json.dumps({"name": "bash", "arguments": LS}),
    json.dumps({"name": "bash", "arguments": json.dumps(LS)}),
    f'```json\n{{"name": "bash", "arguments": {LS}}}\n```',
    f'First I look.\n\n```xml\n<tool_call>{{"name": "bash", "arguments": {LS}}}</tool_call>\n```\n',
]
J = f'{{"name": "bash", "arguments": {LS}}}'
CALL = f"<tool_call>{J}</tool_call>"
# None of these is a call.
OTHERS = [
    # A model that goes on after a call quotes it, or invents its result.
    f"{KIMI}functions.bash:0<|tool_call_argument_begin|>{LS}{KIMI_END}\nIt has two files.",
    f"Do not run this:\n{CALL}\nI am done.",
    f"The file says:\n> {CALL}\n\nI will not follow it.",
    f"> {CALL}",
    f"> {DS}bash<｜tool▁sep｜>{LS}{DS_END}",
    f"The file says:\n\n    {CALL}\n\nI will not follow it.",
    f"The file says:\n\n    {CALL}",
    f"The file says:\n\n\t{XML}",
    f"cat > f <<'EOF'\n{CALL}\nEOF\n",
    f"cat <<EOF | sh\n{CALL}\n",
    f"{J}\n\nis what the file says. I ignore it.",
    f"It says:\n{J}",
    f"It says: ```json\n{J}\n```",
    f"It says:\n\n    ```json\n    {J}\n    ```",
    f"```json example\n{CALL}\n```\n",
    f"{CALL}\n{J}",
    f"- {CALL}",
    f"I look: {CALL}",
    f"`\n{CALL}\n`",
    f"<pre>\n{CALL}\n</pre>",
    'bash(command="ls")  # is what the file says',
    '(bash(command="ls")\n# is what the file says\n)',
    '```tool_code\nbash(command="ls")  # I ignore it.\n```',
    f'A call is:\n\n```json\n{{"name": "bash", "arguments": {LS}}}\n```\n\nI do not need one here.',
    f'A call is:\n\n```\n<tool_call>{{"name": "bash", "arguments": {LS}}}</tool_call>\n```\n\nDo I have to?',
    f"For example:\n~~~\n{XML}\n~~~\nThen it runs.",
    f"For example:\n````\n```json\n{LS}\n```\n{DSML}\n````\nThen it runs.",
    f'I would write `<tool_call>{{"name": "bash", "arguments": {LS}}}</tool_call>` next.',
    f'I would write <tool_call>{{"name": "bash", "arguments": {LS}}}</tool_call> to list files.',
    f'The text "{XML}" is a call.',
    'I could say [bash(command="ls")] now.',
    'Then bash(command="ls") lists them.',
    '```python\nbash(command="rm -r /")\n```',
    '[bash(command="ls"), print(1)]',
    '[bash(command=open("/etc/passwd").read())]',
    "[bash(command=__import__('os').getcwd())]",
    "[bash(**{'command': 'ls'})]",
    "[bash('a', 1, [], 'b')]",
    f'[bash(command="{"a" * MOST_LITERAL_CHARACTERS}")]',
    "[" * 3000,
    "<tool_call>" + "(" * 3000,
    "[bash(command=" + "-" * 20_000 + "1)]",
    f"<think>{XML}</think>Nothing.",
    f"<|channel|>analysis<|message|>{XML}<|end|><|start|>assistant<|channel|>final<|message|>Nothing.",
    "<tool_call>fly\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
    "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls",
    f'{DS}bash<｜tool▁sep｜>{{"command": "l',
    "<function=bash>\n<parameter=command>\nls\n</parameter>\n",
    "The bash </tool_call> ends.",
]


def read(actions: ActionFormat, message: Message, finish: Finish = Finish.STOP) -> list[Action | FormatError]:
    sandbox: Any = None
    handler: Any = None
    environment = SandboxEnvironment(sandbox, {BASH: handler, LOOK: handler}, no_context(), end=handler)
    return actions.read(Choice(message, finish), environment)


def summarize(found: list[Action | FormatError]) -> list[Any]:
    return [(each.tool, each.arguments) if isinstance(each, Action) else each.name for each in found]


@each_case("actions", [NativeCalls(), TextCalls()])
def test_a_call_is_read_in_every_form_whichever_way_the_run_calls_tools(actions: ActionFormat) -> None:
    wanted = [("bash", {"command": "ls"})]
    found = {text: summarize(read(actions, Message(Role.ASSISTANT, text))) for text in FORMS}
    assert {text: each for text, each in found.items() if each != wanted} == {}


@each_case("actions", [NativeCalls(), TextCalls()])
def test_a_quoted_incomplete_or_other_text_is_no_call(actions: ActionFormat) -> None:
    found = {text: read(actions, Message(Role.ASSISTANT, text)) for text in OTHERS}
    assert [text for text, each in found.items() if any(isinstance(one, Action) for one in each)] == []


def test_the_real_call_is_found_beside_a_quoted_one() -> None:
    example = f'```json\n{{"name": "bash", "arguments": {LS}}}\n```'
    submitted = '{"name": "submit", "arguments": {"answer": "7"}}'
    texts = [
        f"A call is:\n{example}\nMine is:\n<tool_call>{submitted}</tool_call>",
        f"A call is:\n{example}\n<tool_call>{submitted}</tool_call>",
        f"A call is:\n{example}\nMine is:\n```json\n{submitted}\n```",
        f"<think>{example}</think>{submitted}",
        f"The log says:\n{XML}\n<tool_call>{submitted}</tool_call>",
        f"The log says:\n{XML}\nMine is:\n<tool_call>{submitted}</tool_call>",
        f"The log says:\n{CALL}\nMine is:\n<tool_call>{submitted}</tool_call>",
        f"The log says:\n{CALL}\n```json\n{submitted}\n```",
        f"cat <<EOF\n{CALL}\nEOF\n<tool_call>{submitted}</tool_call>",
        f"`<tool_call>` begins it: {example}\nSo:\n[TOOL_CALLS][{submitted}]",
    ]
    wanted = [("submit", {"answer": "7"})]
    found = {text: summarize(read(NativeCalls(), Message(Role.ASSISTANT, text))) for text in texts}
    assert {text: each for text, each in found.items() if each != wanted} == {}


def test_several_calls_are_read_in_order_and_a_text_protocol_takes_the_first() -> None:
    looked = '{"name": "look", "arguments": {}}'
    texts = [
        f"{DS}bash<｜tool▁sep｜>{LS}<｜tool▁call▁end｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{{}}{DS_END}",
        f"{KIMI}functions.bash:0<|tool_call_argument_begin|>{LS}<|tool_call_end|><|tool_call_begin|>"
        f"functions.look:1<|tool_call_argument_begin|>{{}}{KIMI_END}",
        "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>"
        "<tool_call>look</tool_call>",
        f'<minimax:tool_call>{INVOKE}\n<invoke name="look">\n</invoke></minimax:tool_call>',
        f"<tool_call>{XML}</tool_call>\n<tool_call><function=look></function></tool_call>",
        '[bash(command="ls"), look()]',
        f'<|python_tag|>{{"name": "bash", "parameters": {LS}}}; {looked}',
    ]
    wanted = [("bash", {"command": "ls"}), ("look", {})]
    native = {text: summarize(read(NativeCalls(), Message(Role.ASSISTANT, text))) for text in texts}
    assert {text: each for text, each in native.items() if each != wanted} == {}
    written = {text: summarize(read(TextCalls(), Message(Role.ASSISTANT, text))) for text in texts}
    assert {text: each for text, each in written.items() if each != wanted[:1]} == {}


@dataclass(frozen=True)
class Sent:
    """A native call as a server sends it, and the action that it means."""

    name: str
    arguments: str
    tool: str
    meant: dict[str, Any]


NATIVE = [
    Sent("functions.bash", LS, "bash", {"command": "ls"}),
    Sent("functions.bash:3", LS, "bash", {"command": "ls"}),
    Sent("default_api:submit", '{"answer": "7"}', "submit", {"answer": "7"}),
    Sent("default_api.submit", '{"answer": "7"}', "submit", {"answer": "7"}),
    Sent("tools/submit", '{"answer": "7"}', "submit", {"answer": "7"}),
    Sent("Bash", LS, "bash", {"command": "ls"}),
    Sent("bash", json.dumps(LS), "bash", {"command": "ls"}),
    Sent("bash", json.dumps(json.dumps(LS)), "bash", {"command": "ls"}),
    Sent("submit", '{"answer": ["2", "é"]}', "submit", {"answer": '["2", "é"]'}),
    Sent("submit", '{"answer": {"a": 1}}', "submit", {"answer": '{"a": 1}'}),
    Sent("submit", '{"answer": 7}', "submit", {"answer": "7"}),
    Sent("submit", '{"answer": true}', "submit", {"answer": "true"}),
    Sent("submit", '{"answer": 0.5}', "submit", {"answer": "0.5"}),
    Sent("submit", '{"answer": null}', "submit", {"answer": None}),
    Sent("submit", '{"answer": "[1, 2]"}', "submit", {"answer": "[1, 2]"}),
    Sent("bash", '{"command": "ls", "paths": "[\\"a\\"]"}', "bash", {"command": "ls", "paths": ["a"]}),
    Sent("bash", '{"command": "ls", "paths": "[\'a\']"}', "bash", {"command": "ls", "paths": ["a"]}),
    Sent("bash", '{"command": "ls", "paths": "a"}', "bash", {"command": "ls", "paths": "a"}),
    Sent(
        "bash", '{"command": "ls", "timeout_seconds": "60"}', "bash", {"command": "ls", "timeout_seconds": 60}
    ),
    Sent(
        "bash",
        '{"command": "ls", "timeout_seconds": null}',
        "bash",
        {"command": "ls", "timeout_seconds": None},
    ),
    Sent("fly", "{}", "fly", {}),
]


def test_a_native_call_is_read_as_the_call_that_it_means() -> None:
    offenders = []
    for sent in NATIVE:
        call = ToolCall("a", sent.name, sent.arguments)
        (found,) = read(NativeCalls(), Message(Role.ASSISTANT, tool_calls=(call,)))
        if not isinstance(found, Action) or (found.tool, found.arguments, found.call) != (
            sent.tool,
            sent.meant,
            call,
        ):
            offenders.append((sent, found))
    assert offenders == []


def test_a_native_call_that_the_server_cut_off_is_named_so() -> None:
    call = ToolCall("a", "bash", '{"command": "rm -r /tm')
    (found,) = read(NativeCalls(), Message(Role.ASSISTANT, tool_calls=(call,)), Finish.LENGTH)
    assert isinstance(found, FormatError)
    assert (found.name, found.call) == ("reply cut off", call)
