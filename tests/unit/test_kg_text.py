"""Actions on the knowledge graph, as models write them into a reply."""

from __future__ import annotations

from case_checks import each_case
from effort import EXAMPLES
from hypothesis import given
from hypothesis import strategies as st

from harness.core.tools import SUBMIT, TextCall, TextFault
from harness.environments.kg.environment import TEXT_FORM as KG_FORM
from harness.environments.kg.environment import TOOLS
from harness.environments.kg.graph import FUNCTIONS
from harness.environments.text_protocol import ONLY_FIRST

PROTOCOL = KG_FORM({tool.name: tool for tool in (*TOOLS, SUBMIT)})
NEIGHBORS = {"variable": "#0", "relation": "film.film.genre"}


@each_case(
    ("reply", "tool", "arguments"),
    [
        ("Action: get_relations(Ada)", "get_relations", {"variable": "Ada"}),
        ("Thought: I look.\nAction: get_neighbors(#0, film.film.genre)", "get_neighbors", NEIGHBORS),
        ("**Action:** get_neighbors(#0,film.film.genre)", "get_neighbors", NEIGHBORS),
        ("Action: get\\_neighbors(#0, film.film.genre)", "get_neighbors", NEIGHBORS),
        ("Action: get_neighbors(#0, film.film.genre) (its genre)", "get_neighbors", NEIGHBORS),
        ("Action: intersection(#0, #1).", "intersection", {"variable1": "#0", "variable2": "#1"}),
        (
            "Action: get_relations(Messiah (Dublin, 1742))",
            "get_relations",
            {"variable": "Messiah (Dublin, 1742)"},
        ),
        (
            "Action: get_neighbors(Messiah (Dublin, 1742), music.album.releases)",
            "get_neighbors",
            {"variable": "Messiah (Dublin, 1742)", "relation": "music.album.releases"},
        ),
        ("Final Answer: #3", "submit", {"answer": "#3"}),
        ("I am sure.\n**Final Answer:** #3.", "submit", {"answer": "#3"}),
        ("Find Answer: #12\n", "submit", {"answer": "#12"}),
        ("Action: Answer\nFinal Answer: #1", "submit", {"answer": "#1"}),
        ("Action: submit(#4)", "submit", {"answer": "#4"}),
    ],
)
def test_an_action_is_read(reply: str, tool: str, arguments: dict[str, str]) -> None:
    read = PROTOCOL.read(reply)
    assert isinstance(read, TextCall)
    assert (read.tool, dict(read.arguments), read.advice) == (tool, arguments, "")


@each_case(
    "reply",
    [
        "Action: count(#0)\nAction: count(#1)",
        "Action: count(#0)\nObservation: variable #1, which is a number\nFinal Answer: #1",
        "Action: count(#0)\nFinal Answer: #1",
    ],
)
def test_the_first_action_counts_and_the_reply_says_so(reply: str) -> None:
    read = PROTOCOL.read(reply)
    assert isinstance(read, TextCall)
    assert (read.tool, read.arguments) == ("count", {"variable": "#0"})
    assert ONLY_FIRST in PROTOCOL.show(read, "variable #1, which is a number")


def test_an_answer_before_an_action_is_the_first() -> None:
    read = PROTOCOL.read("Final Answer: #0\nAction: count(#0)")
    assert isinstance(read, TextCall)
    assert (read.tool, read.advice) == ("submit", ONLY_FIRST)


@each_case(
    ("reply", "name", "advice"),
    [
        ("I do not know.", "no action", "Final Answer: #NUMBER"),
        ("Action: fly(Ada)", "unknown action", "get_relations"),
        ("Action: get_neighbors(Ada)", "malformed arguments", "get_neighbors(variable, relation)"),
        ("Action: get_relations", "malformed arguments", "get_relations(variable)"),
        ("Action: count()", "malformed arguments", "count(variable)"),
        ("Action: Answer", "missing answer", "Final Answer"),
        ("", "empty reply", "Action: FUNCTION"),
    ],
)
def test_a_fault_says_how_to_recover(reply: str, name: str, advice: str) -> None:
    read = PROTOCOL.read(reply)
    assert isinstance(read, TextFault)
    assert read.name == name
    assert advice in read.advice


@each_case(
    ("reply", "complete"),
    [("Final Answer: #1", False), ("Final Answer: #1\n", True), ("Action: count(#0)", True)],
)
def test_a_reply_that_was_cut_off_may_lack_a_digit(reply: str, complete: bool) -> None:
    read = PROTOCOL.read(reply)
    assert isinstance(read, TextCall)
    assert read.is_complete is complete


@given(st.text(max_size=EXAMPLES), st.sampled_from([*FUNCTIONS, "submit", "Answer", ""]))
def test_any_reply_is_read_or_refused(text: str, name: str) -> None:
    for reply in (text, f"Action: {name}({text})", f"Final Answer: {text}"):
        assert isinstance(PROTOCOL.read(reply), TextCall | TextFault)
