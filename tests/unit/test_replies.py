"""Code and answers, extracted from replies as models write them."""

from __future__ import annotations

from case_checks import each_case
from effort import text_of_length
from hypothesis import given
from hypothesis import strategies as st

from harness.benchmarks.replies import CodeRule, extract_answer, extract_assert, extract_code
from harness.core.scoring.answers import drop_thoughts

TWO_BLOCKS = """Let me think. A first try:

```python
print("slow")
```

It is too slow. Better:

```python
n = int(input())
print(n)
```

This runs in O(1).
"""
# `none` takes nothing out, and `fenced` takes a text without a fence as it is.
BLOCK_RULES = [rule for rule in CodeRule if rule is not CodeRule.NONE]
STRICT_RULES = [rule for rule in BLOCK_RULES if rule is not CodeRule.FENCED]
FAST = "n = int(input())\nprint(n)"


@each_case(
    ("rule", "code"),
    [
        (CodeRule.BETWEEN_LAST_FENCES, FAST),
        (CodeRule.FIRST_BLOCK, 'print("slow")'),
        (CodeRule.LAST_BLOCK, FAST),
        (CodeRule.ALL_BLOCKS, f'print("slow")\n\n{FAST}'),
        (CodeRule.FENCED, FAST),
        (CodeRule.NONE, TWO_BLOCKS),
    ],
)
def test_rule_chooses_among_several_blocks(rule: CodeRule, code: str) -> None:
    assert extract_code(TWO_BLOCKS, rule) == code


@each_case("rule", BLOCK_RULES)
@each_case(
    "reply",
    [
        "```python\nprint(1)\n```",
        "```\nprint(1)\n```",
        "Sure!\n```py\nprint(1)\n```\nDone.",
        "```python\r\nprint(1)\r\n```\r\n",
        "Here it is: ```python\nprint(1)\n```",
        "<think>Maybe ```python\nprint(0)\n```?</think>\n```python\nprint(1)\n```",
        "  ```python   \nprint(1)\n  ```  ",
    ],
)
def test_single_block_is_the_code_by_every_rule(reply: str, rule: CodeRule) -> None:
    assert extract_code(reply, rule) == "print(1)"


def test_official_rule_takes_the_text_between_the_last_two_fences_even_if_it_is_prose() -> None:
    reply = "```python\nprint(1)\n```\nThe complexity is\n``` linear ```"
    assert extract_code(reply) == "The complexity is"
    assert extract_code("```python\nprint(1)") == ""


@each_case("rule", [CodeRule.FIRST_BLOCK, CodeRule.LAST_BLOCK, CodeRule.ALL_BLOCKS])
def test_block_that_was_cut_off_goes_to_the_end(rule: CodeRule) -> None:
    assert extract_code("```python\nprint(1)\nprint(", rule) == "print(1)\nprint("


def test_fence_behind_the_last_line_ends_a_block() -> None:
    reply = "```python\nprint(1)```\nor\n```python\nprint(2)```"
    assert extract_code(reply, CodeRule.FIRST_BLOCK) == "print(1)"
    assert extract_code(reply, CodeRule.LAST_BLOCK) == "print(2)"


def test_longer_fence_holds_shorter_ones() -> None:
    reply = "````python\n'''\n```\nexample\n```\n'''\n````"
    assert extract_code(reply, CodeRule.FIRST_BLOCK) == "'''\n```\nexample\n```\n'''"


def test_reply_without_a_fence_is_a_program_only_on_request() -> None:
    assert extract_code("def f():\n    return 1\n") == ""
    assert extract_code("\n    return 1\n", unfenced=True) == "    return 1"


@each_case("rule", STRICT_RULES)
@each_case("reply", ["", "\n", "I cannot.", "<think>```python\nprint(1)\n```"])
def test_reply_without_code_has_none(reply: str, rule: CodeRule) -> None:
    assert extract_code(reply, rule) == ""


@each_case(
    ("reply", "said"),
    [
        ("<think>7?</think>8", "8"),
        ("a<think>7</think>b<think>8</think>c", "abc"),
        ("<think>7? <think>no</think> yes</think>8", "8"),
        ("8<think>but perhaps", "8"),
        ("so it is 7</think>8", "8"),
        ("<THINKING>7</THINKING>8", "8"),
        ("x < think > y", "x < think > y"),
        ("a\r\nb\rc\n", "a\nb\nc\n"),
    ],
)
def test_thoughts_are_dropped(reply: str, said: str) -> None:
    assert drop_thoughts(reply) == said


@each_case(
    ("reply", "answer"),
    [
        ("[ANSWER] [1, 2] [/ANSWER]", "[1, 2]"),
        ("First, x is 3.\n[ANSWER]\nf(1) == 5\n[/ANSWER] as said", "f(1) == 5"),
        ("[ANSWER]5", "5"),
        ("5[/ANSWER]", "5"),
        ("'a'\nand so on", "'a'"),
        ("Well:\nassert f(1) == 5\nDone", "assert f(1) == 5"),
        ("[ANSWER]1[/ANSWER] no, [ANSWER]2[/ANSWER]", "1"),
        ("<think>[ANSWER]1[/ANSWER]</think>[ANSWER]2[/ANSWER]", "2"),
        ("[ANSWER]\r\n5\r\n[/ANSWER]", "5"),
        ("", ""),
        ("[ANSWER][/ANSWER]", ""),
    ],
)
def test_the_answer_is_the_text_between_the_marks(reply: str, answer: str) -> None:
    assert extract_answer(reply) == answer


@each_case(
    ("reply", "statement"),
    [
        ("assert f(1) == 2", "assert f(1) == 2"),
        ("```python\nassert f(1) == 1\nassert f(1) == 2\n```\nbye", "assert f(1) == 2"),
        ("assert f(1) == 2\r\n", "assert f(1) == 2"),
        ("```\nfirst\n```\n```python\n    assert f(1) == 2\n```", "    assert f(1) == 2"),
        ("```\nf(1) == 2\n```", "f(1) == 2"),
        ("<think>assert f(1) == 1", ""),
        ("It is 2.", ""),
    ],
)
def test_last_assert_is_the_answer(reply: str, statement: str) -> None:
    assert extract_assert(reply) == statement


PIECES = st.sampled_from(
    [
        "```",
        "```python",
        "````",
        "\n",
        "\n",
        "\r\n",
        " ",
        "x",
        "<think>",
        "</think>",
        "[ANSWER]",
        "assert",
        "==",
    ]
)


@given(st.lists(PIECES, max_size=25).map("".join))
def test_any_reply_is_read(reply: str) -> None:
    for rule in CodeRule:
        extract_code(reply, rule, unfenced=True)
    extract_answer(reply)
    extract_assert(reply)


@given(st.text(st.characters(exclude_characters="`\r<\ufeff\u200b\u2060")))
def test_code_in_a_block_is_returned_unchanged(code: str) -> None:
    for rule in BLOCK_RULES:
        assert extract_code(f"Here:\n```python\n{code}\n```\n", rule) == code


@each_case(
    "piece", ["```\n", "`", "<think>", "</think>", "<", "\n", " ", "[ANSWER]", "assert\n", "x", "``` ", "\r"]
)
def test_replies_of_megabytes_are_read(piece: str) -> None:
    reply = text_of_length(piece, 1_500_000)
    extract_code(reply)
    extract_code(reply, CodeRule.LAST_BLOCK)
    extract_answer(reply)
    extract_assert(reply)
