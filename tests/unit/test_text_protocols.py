"""The actions that a model writes into its replies are read back exactly, or refused with advice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from case_checks import each_case
from effort import EXAMPLES, text_of_length
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from harness.core.scoring.answers import MAX_REPLY_CHARACTERS
from harness.core.tools import SUBMIT, Arguments, TextCall, TextFault, TextProtocol, Tool
from harness.environments import environment_spec
from harness.environments.card.environment import ACT, GUESS, LOOK
from harness.environments.card.environment import TEXT_FORM as CARD_FORM
from harness.environments.db.environment import SQL
from harness.environments.db.environment import TEXT_FORM as DATABASE_FORM
from harness.environments.db.grader import answer_values
from harness.environments.house.environment import TAKE_ACTION
from harness.environments.house.environment import TEXT_FORM as HOUSE_FORM
from harness.environments.kg.environment import TEXT_FORM as KG_FORM
from harness.environments.kg.environment import TOOLS
from harness.environments.kg.graph import FUNCTIONS
from harness.environments.lateral.environment import ASK
from harness.environments.lateral.environment import TEXT_FORM as LATERAL_FORM
from harness.environments.os.environment import BASH
from harness.environments.os.environment import TEXT_FORM as SHELL_FORM
from harness.environments.text_protocol import ONLY_FIRST, UNKNOWN_ACTION, GenericProtocol
from harness.environments.web.environment import CLICK, SEARCH
from harness.environments.web.environment import TEXT_FORM as SHOP_FORM

PAGE = (Path(__file__).parents[2] / "docs" / "text-protocol.md").read_text()


class Search(Arguments):
    words: str = Field(description="Words of a line.")
    limit: int = 10


class Resize(Arguments):
    width: int
    height: int = Field(description="In pixels.")


class Nothing(Arguments):
    pass


def named(*tools: Tool) -> dict[str, Tool]:
    return {tool.name: tool for tool in (*tools, SUBMIT)}


ADDED = Tool("resize", "Resize the image.", Resize)
GENERIC = GenericProtocol(
    named(Tool("search", "Search.", Search), ADDED, Tool("look", "Look around.", Nothing))
)
SHELL, DATABASE = SHELL_FORM(named(BASH)), DATABASE_FORM(named(SQL))
CARD = CARD_FORM(named(LOOK, GUESS, ACT))
HOUSE = HOUSE_FORM(named(TAKE_ACTION))
KG_ACTIONS = [f"Action: {name}({', '.join(names)})" for name, names in FUNCTIONS.items()]


def submit(answer: str) -> TextCall:
    return TextCall("submit", {"answer": answer})


def bash(command: str) -> TextCall:
    return TextCall("bash", {"command": command})


def sql(text: str) -> TextCall:
    return TextCall("sql", {"sql": text})


def call_of(protocol: TextProtocol, reply: str) -> TextCall:
    read = protocol.read(reply)
    assert isinstance(read, TextCall), read
    return read


def fault_of(protocol: TextProtocol, reply: str) -> TextFault:
    read = protocol.read(reply)
    assert isinstance(read, TextFault), read
    return read


def sections() -> Mapping[str, str]:
    """Return the sections of the page by their titles."""
    parts = re.split(r"^## (.*)\n", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@each_case(
    ("section", "protocol", "number"),
    [
        ("Any environment", GENERIC, 4),
        ("`os`", SHELL, 4),
        ("`db`", DATABASE, 2),
        ("`card`", CARD, 3),
        ("`house`", HOUSE, 2),
    ],
)
def test_the_examples_of_the_page_are_read_as_it_shows(
    section: str, protocol: TextProtocol, number: int
) -> None:
    text = sections()[section]
    pairs = re.findall(r"````text\n(.*?)\n````\n.*?```json\n(.*?)\n```", text, flags=re.DOTALL)
    assert len(pairs) == number
    for reply, shown in pairs:
        call = call_of(protocol, reply)
        assert {"tool": call.tool, "arguments": call.arguments} == json.loads(shown)
        assert call.advice == ""


@each_case(
    ("protocol", "names"),
    [
        (SHELL, ["Act: bash", "Act: finish", "Act: answer(", "`submit`", BASH.description]),
        (DATABASE, ["Action: Operation", "Action: Answer", "Final Answer:", "`submit`", SQL.description]),
        (CARD, ['{"guess_type"', '{"pick_fish"', "Act: look", GUESS.description, ACT.description]),
        (CARD_FORM(named(LOOK, GUESS, ACT, ADDED)), ["Act: resize"]),
        (GENERIC, ["Act: search", "Act: resize", "Act: look", "Act: submit", "In pixels.", "`limit`"]),
        (SHELL_FORM(named(BASH, ADDED)), ["Act: bash", "Act: resize"]),
        (DATABASE_FORM(named(SQL, ADDED)), ["Action: Operation", "Act: resize"]),
        (SHOP_FORM(named(SEARCH, CLICK)), ["Action: search[KEYWORDS]", "Action: click[VALUE]"]),
        (LATERAL_FORM(named(ASK)), ["Act: submit"]),
        (KG_FORM(named(*TOOLS)), [*KG_ACTIONS, "Final Answer: #3"]),
    ],
)
def test_instructions_show_every_tool(protocol: TextProtocol, names: list[str]) -> None:
    text = protocol.instructions()
    assert [name for name in names if name not in text] == []


@each_case(("name", "kind"), [("os", SHELL_FORM), ("db", DATABASE_FORM), ("card", CARD_FORM)])
def test_the_spec_names_the_protocol_of_the_environment(name: str, kind: type[Any]) -> None:
    assert environment_spec(name).text_protocol is kind


def test_an_environment_without_a_protocol_gets_the_generic_one() -> None:
    assert environment_spec("python").text_protocol is GenericProtocol


SHELL_REPLIES = [
    ("Act: bash\n```bash\nls\n```", bash("ls")),
    ("Act:bash\n```bash\nls\n```", bash("ls")),
    ("act: BASH\n```\nls\n```", bash("ls")),
    ("**Act:** bash\n```sh\nls\n```", bash("ls")),
    ("**Act: bash**\n\n```bash\nls\n```", bash("ls")),
    ("### Act: `bash`\n~~~bash\nls\n~~~", bash("ls")),
    ("Action: bash\n```bash\nls\n```", bash("ls")),
    ("> Act: bash\n```bash\nls\n```", bash("ls")),
    ("Act: bash ```bash\nls\n```", bash("ls")),
    ("Act: bash\nThe command is: ```bash\nls\n```", bash("ls")),
    ("Act: bash\r\n\r\n```bash\r\nls\r\ncd /\r\n```\r\n", bash("ls\ncd /")),
    ("Act: bash\n```bash\nls```", bash("ls")),
    ("- Act: bash\n  ```bash\n  if true; then\n    ls\n  fi\n  ```", bash("if true; then\n  ls\nfi")),
    ("Act: bash\n````bash\ncat <<E\n```\nx\n```\nE\n````", bash("cat <<E\n```\nx\n```\nE")),
    ("Act: bash\n```bash\necho 'Act: finish'\nAct: finish\n```", bash("echo 'Act: finish'\nAct: finish")),
    ("```\nThink: x\n\nAct: bash\n\n```bash\nls\n```\n```", bash("ls")),
    ("```text\nAct: finish\n```\n", submit("done")),
    ("```bash\nls\n```\n\nAct: bash", bash("ls")),
    ("<think>Act: finish</think>Act: bash\n```bash\nls\n```", bash("ls")),
    ("Act: answer(1)</think>\nAct: bash\n```bash\nls\n```", bash("ls")),
    ("Act: finish", submit("done")),
    ("Act: Finish.", submit("done")),
    ("Think: The form is Act: finish, so\nAct: answer(3)", submit("3")),
    ("Act: answer(f(x) = (1))", submit("f(x) = (1)")),
    ("**Act: answer(42)**", submit("42")),
    ("Act: **answer**(42)", submit("42")),
    ('Act: answer("42")', submit('"42"')),
    ("Act: answer( 42 )", submit(" 42 ")),
    ("Act: answer()", submit("")),
    ("Act: submit(42)", submit("42")),
    ("Act: answer\n```\n1\n2\n```", submit("1\n2")),
    ("Act: answer(one\ntwo)", submit("one\ntwo")),
    ("Act: answer(f(\n1)\n)\nThat is all.", submit("f(\n1)\n")),
    ("Act: answer(```\none\n```)", submit("one")),
    ("Act: answer(```\none\n```)\nThat is `all`.", submit("one")),
]
DATABASE_REPLIES = [
    ("Action: Operation\n```sql\nSELECT 1;\n```", sql("SELECT 1;")),
    ("Action:operation\r\n```SQL\r\nSELECT 1;\r\n```", sql("SELECT 1;")),
    ("Action: sql\n```sql\nSELECT 1\n```", sql("SELECT 1")),
    ("```sql\nSELECT 1\n```\nAction: Operation", sql("SELECT 1")),
    ("Action: Answer\nFinal Answer: [1]", submit("[1]")),
    ("Action: Answer Final Answer: [1]", submit("[1]")),
    ("Final Answer: [1]", submit("[1]")),
    ("Final Answer: [1]\nAction: Answer", submit("[1]")),
    ("Action: Answer\n**Final Answer:** [1]", submit("[1]")),
    ("Action: Answer\n**Final Answer**: [1]", submit("[1]")),
    ("Action: Answer\n**Final Answer: [1]**", submit("[1]")),
    ("Action: Answer\nfinal answer:\n\n[1]", submit("[1]")),
    ("Action: Answer\nFinal Answer: [\n1,\n2\n]\nDone.", submit("[\n1,\n2\n]")),
    ("Action: Answer\nFinal Answer:\n[\n1,\n2\n]\nDone.", submit("[\n1,\n2\n]")),
    ("Action: Answer\nFinal Answer:\n```json\n[1]\n```", submit("[1]")),
    ("Action: Answer\nFinal Answer: ```json\n[1]\n```", submit("[1]")),
    ("Action: Answer\nFinal Answer: `[1]`", submit("[1]")),
    ('Action: Submit(["a"])', submit('["a"]')),
]


@each_case(
    ("protocol", "reply", "call"),
    [
        (SHELL, "Act: bash\n```bash\nls\nrm -r /tm", bash("ls\nrm -r /tm")),
        (SHELL, "Act: answer(f(1)", submit("f(1")),
        (SHELL, "Act: answer\n```\nf(1", submit("f(1")),
        (DATABASE, "**Action:** Operation\n```\nSELECT 1;", sql("SELECT 1;")),
        (DATABASE, "Action: Answer\nFinal Answer: do", submit("do")),
        (DATABASE, "Action: Answer\nFinal Answer:\n```\n[1", submit("[1")),
        (GENERIC, "Act: search\n```\na", TextCall("search", {"words": "a"})),
        (GENERIC, 'Act: resize\n```\n{"width": 1}', TextCall("resize", {"width": 1})),
        (GENERIC, "Act: submit(f(1)", submit("f(1")),
    ],
)
def test_a_call_that_nothing_closes_is_read_and_marked_as_incomplete(
    protocol: TextProtocol, reply: str, call: TextCall
) -> None:
    assert protocol.read(reply) == replace(call, is_complete=False)


@each_case("written", ['["Ada", "Grace"]', "['Ada', 'Grace']", '[\n  "Ada",\n  "Grace"\n]'])
def test_the_grader_reads_the_values_of_a_final_answer(written: str) -> None:
    call = call_of(DATABASE, f"Action: Answer\nFinal Answer: {written}")
    assert answer_values(call.arguments["answer"]) == ("Ada", "Grace")


GENERIC_REPLIES = [
    ("Act: look", TextCall("look", {})),
    ("Act: Search\n```\na b\n```", TextCall("search", {"words": "a b"})),
    ('Act: search\n```json\n["a"]\n```', TextCall("search", {"words": '["a"]'})),
    ('Act: submit\n```json\n{"a": 1}\n```', submit('{"a": 1}')),
    ('Act: submit\n```json\n{"answer": "x"}\n```', submit("x")),
    ('Act: submit\n```\n{"answer": "x"}\n```', submit('{"answer": "x"}')),
    ('Act: resize\n```\n{"width": 1}\n```', TextCall("resize", {"width": 1})),
    ('Act: resize\n```json\n{"width": "a\nb"}\n```', TextCall("resize", {"width": "a\nb"})),
]
REPLIES = ((SHELL, SHELL_REPLIES), (DATABASE, DATABASE_REPLIES), (GENERIC, GENERIC_REPLIES))


@each_case(("protocol", "pair"), [(protocol, pair) for protocol, pairs in REPLIES for pair in pairs])
def test_an_action_is_read_in_spite_of_its_decoration(
    protocol: TextProtocol, pair: tuple[str, TextCall]
) -> None:
    reply, call = pair
    assert protocol.read(reply) == call


@each_case("protocol", [SHELL_FORM(named(BASH, ADDED)), DATABASE_FORM(named(SQL, ADDED))])
def test_a_tool_that_was_added_is_called_in_the_generic_form(protocol: TextProtocol) -> None:
    read = protocol.read('Act: resize\n```json\n{"width": 1, "height": 2}\n```')
    assert read == TextCall("resize", {"width": 1, "height": 2})


@each_case(
    ("protocol", "reply", "call"),
    [
        (SHELL, "Act: bash\n```bash\nls\n```\nAct: finish", bash("ls")),
        (SHELL, "Act: bash\n```bash\nls\n```\nThe output of the OS:\n```bash\nx\n```", bash("ls")),
        (SHELL, "Act: answer(1)\nAct: answer(2)", submit("1")),
        (DATABASE, "Action: Operation\n```sql\nS\n```\n```sql\nT\n```", sql("S")),
        (DATABASE, "Action: Operation\n```sql\nS\n```\nFinal Answer: [1]", sql("S")),
        (DATABASE, "Action: Operation\n```sql\nS\n```\nAction: Answer\nFinal Answer: [1]", sql("S")),
        (GENERIC, "Act: look\nThe result of `look`:\nAct: submit(x)", TextCall("look", {})),
    ],
)
def test_only_the_first_of_several_actions_counts_and_the_model_is_informed(
    protocol: TextProtocol, reply: str, call: TextCall
) -> None:
    assert protocol.read(reply) == TextCall(call.tool, call.arguments, ONLY_FIRST)
    assert protocol.show(call_of(protocol, reply), "x").endswith(f"x\n\n{ONLY_FIRST}")


FAULTS = [
    (SHELL, "", "empty reply"),
    (SHELL, " \r\n<think>Act: finish</think>", "empty reply"),
    (SHELL, "I am done.", "no action"),
    (SHELL, "Think: I write Act: finish", "no action"),
    (SHELL, "```bash\nls\n```", "no action"),
    (SHELL, "Activity: bash\n```bash\nls\n```", "no action"),
    (SHELL, "Act: dance", UNKNOWN_ACTION),
    (SHELL, "Act:", UNKNOWN_ACTION),
    (SHELL, "Act: bash\nls", "missing block"),
    (SHELL, "Act: bash\n```ls```", "missing block"),
    (SHELL, "Act: answer", "missing answer"),
    (SHELL, "Act: answer: 42", "missing answer"),
    (SHELL, "Act: answer(42", "missing answer"),
    (SHELL, "Act: bash\n```bash\nls\n\nAct: finish", "block without its end"),
    (DATABASE, "SELECT 1", "no action"),
    (DATABASE, "Action: Operation\nSELECT 1", "missing block"),
    (DATABASE, "Action: Answer", "missing answer"),
    (DATABASE, "Action: Answer\nFinal Answer:\n", "missing answer"),
    (DATABASE, "Action: Drop", UNKNOWN_ACTION),
    (GENERIC, "Act: resize", "missing block"),
    (GENERIC, "Act: resize\n```json\n{'width': 1}\n```", "malformed arguments"),
    (GENERIC, "Act: resize\n```json\n[1]\n```", "malformed arguments"),
    (GENERIC, f"Act: resize\n```json\n{'[' * 100_000}\n```", "malformed arguments"),
    (GENERIC, "Act: triple", UNKNOWN_ACTION),
]


@each_case(("protocol", "reply", "name"), FAULTS)
def test_a_reply_without_a_readable_action_is_refused_by_name(
    protocol: TextProtocol, reply: str, name: str
) -> None:
    fault = fault_of(protocol, reply)
    assert fault.name == name
    assert len(fault.advice) > 20


@each_case(
    ("protocol", "form"),
    [(SHELL, "`Act: answer(ANSWER)`"), (DATABASE, "`Action: Operation`"), (GENERIC, "search, resize, look")],
)
def test_the_advice_shows_the_right_form(protocol: TextProtocol, form: str) -> None:
    assert form in fault_of(protocol, "I am done.").advice


def test_the_advice_on_an_unknown_action_lists_the_actions_and_shows_a_part_of_the_name() -> None:
    fault = fault_of(SHELL, f"Act: {'x' * 1000}")
    assert fault.advice == f"There is no action `{'x' * 50}`. The actions are: bash, answer, finish."


def test_a_result_is_shown_in_the_words_of_the_environment() -> None:
    assert SHELL.show(bash("ls"), "a\n[exit code 0]") == "The output of the OS:\n\na\n[exit code 0]"
    assert GENERIC.show(TextCall("look", {}), "a door") == "The result of `look`:\n\na door"


def fence_for(text: str) -> str:
    """Return a fence that is longer than every run of backticks in the text."""
    return "`" * max([2, *(len(run) for run in re.findall("`+", text))]) + "`"


# fmt: off
PIECES = st.sampled_from([
    "Act: finish", "Action: Answer", "Final Answer: 1", "```", "```bash", "~~~", "`", "\n", "\n\n", " ", "\t",
    "(", ")", "[", "]", "{", "}", '"', "'", "\\", "*", "#", "\x0b", "\x85", "\u2028", "é", "x",
])
LONG_PIECES = [
    "*", "`", "``` ", "~", "\n", "```\n", "```bash\n", "Act: bash\n", "Act: answer(\n", "Act: finish```\n",
    "Final Answer:\n", "Final Answer: [\n", "(", "<think>", "# ", "\t", "act", "Act: ", "```" + " " * 997,
]
# fmt: on
TEXTS = st.one_of(
    st.lists(PIECES, max_size=20).map("".join), st.text(st.characters(exclude_characters="\r"), max_size=60)
)


def as_block(text: str, label: str = "") -> str:
    return f"{fence_for(text)}{label}\n{text}\n{fence_for(text)}"


WRITERS: list[tuple[TextProtocol, Callable[[str], str], Callable[[str], TextCall]]] = [
    (SHELL, lambda text: f"Think: x\n\nAct: bash\n\n{as_block(text, 'bash')}", bash),
    (SHELL, lambda text: f"Act: answer\n{as_block(text)}", submit),
    (DATABASE, lambda text: f"Action: Operation\n{as_block(text, 'sql')}\nDone.", sql),
    (
        GENERIC,
        lambda text: f"Act: search\n{as_block(text)}",
        lambda text: TextCall("search", {"words": text}),
    ),
    (
        GENERIC,
        lambda text: f"Act: resize\n{as_block(json.dumps({'width': text}), 'json')}",
        lambda text: TextCall("resize", {"width": text}),
    ),
]


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(WRITERS), TEXTS)
def test_a_text_in_a_block_is_read_back_exactly(
    writer: tuple[TextProtocol, Callable[[str], str], Callable[[str], TextCall]], text: str
) -> None:
    protocol, write, expected = writer
    assert protocol.read(write(text)) == expected(text)


@settings(max_examples=EXAMPLES)
@given(st.text(st.characters(exclude_characters="\r\n"), max_size=60))
def test_an_answer_of_one_line_in_parentheses_is_read_back_exactly(answer: str) -> None:
    assert call_of(SHELL, f"Act: answer({answer})").arguments == {"answer": answer}
    assert call_of(GENERIC, f"Act: submit({answer})").arguments == {"answer": answer}


@settings(max_examples=EXAMPLES)
@given(st.lists(st.one_of(PIECES, st.sampled_from(["Act: bash\n", "Act: answer(", "<think>", "\r\n"]))))
def test_any_reply_is_read_or_refused(pieces: list[str]) -> None:
    for protocol in (SHELL, DATABASE, GENERIC):
        assert isinstance(protocol.read("".join(pieces)), TextCall | TextFault)


def test_a_reply_of_10_mb_is_refused() -> None:
    reply = "Act: bash\n```bash\n" + "x" * 10_000_000 + "\n```"
    assert fault_of(SHELL, reply).name == "reply too long"


@each_case("piece", LONG_PIECES)
def test_a_long_reply_takes_linear_time(piece: str) -> None:
    text = text_of_length(piece, MAX_REPLY_CHARACTERS - 100)
    for reply in (f"Act: bash\n{text}", f"Act: answer({text}"):
        assert isinstance(SHELL.read(reply), TextCall | TextFault)
    assert isinstance(DATABASE.read(text), TextCall | TextFault)
