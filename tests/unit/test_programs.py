"""The program that a completion, a reply or a solution stands for, by a benchmark's rule or the user's."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from bundled import load_bundled
from case_checks import each_case
from effort import THOROUGH, one_in_four, text_of_length
from hypothesis import given
from hypothesis import strategies as st

from harness.benchmarks import definitions, load_benchmark
from harness.benchmarks.programs import SubmitProgram, continue_prompt
from harness.benchmarks.replies import CodeRule
from harness.core.errors import UsageError
from harness.core.types import Task
from harness.runs.agents import settings_for
from harness.runs.agents.predictions import Predictions
from harness.runs.plan import describe_samples
from harness.runs.settings.attempts import ExtractRule

PROMPT = 'def add(a, b):\n    """Return the sum."""\n'
WHOLE = "def add(a, b):\n    return a + b"
HUMANEVAL = SubmitProgram(continues_prompt=True)
MBPP = SubmitProgram()
TASK = Task("t/0", "b", "python", PROMPT, entry_point="add")
MBPP_SAMPLE = load_bundled("mbpp")


def fence(code: str, language: str = "python") -> str:
    return f"```{language}\n{code}\n```"


def program(reply: str, field: str = "reply", submit: SubmitProgram = HUMANEVAL) -> str:
    submission = submit(TASK, field, reply)
    assert submission.agent_output == reply
    return submission.text


# --- replies


@each_case(
    "reply",
    [
        WHOLE,
        fence(WHOLE),
        f"Sure, here it is:\n\n{fence(WHOLE)}\n\nIt adds.",
        f"<think>{fence('def add(a, b): return 0')}</think>\n{fence(WHOLE)}",
        f"{fence(WHOLE)}\nUse it:\n{fence('print(add(1, 2))')}",
        f"{fence('def add(a, b): return 0')}\nBetter:\n{fence(WHOLE)}",
        f"{fence('pip install add', 'bash')}\n{fence(WHOLE)}",
        f'```python title="add.py"\n{WHOLE}\n```',
        "1. The function:\n   ```python\n   def add(a, b):\n       return a + b\n   ```",
        f"```python\n{WHOLE}",
    ],
)
@each_case("submit", [HUMANEVAL, MBPP], ids=["continues the prompt", "whole program"])
def test_block_that_defines_the_entry_point_is_the_program(reply: str, submit: SubmitProgram) -> None:
    assert program(reply, submit=submit) == WHOLE


@each_case(
    "code",
    [
        "async def add(a, b): ...",
        "add = lambda a, b: a + b",
        "class add: ...",
        "add: object = 1",
        "from math import *\n\ndef add(a, b): ...",
        "def add(a, b) -> int:\n    return (",
    ],
)
def test_code_that_defines_the_entry_point_does_not_continue_the_prompt(code: str) -> None:
    assert program(code) == code


@each_case("code", ["def add_all(a): ...", "add == 1", "print(add)", "# def add(a)"])
def test_code_without_the_entry_point_continues_the_prompt(code: str) -> None:
    assert program(code).startswith(PROMPT)


@each_case("wrap", [str, fence], ids=["text", "block"])
def test_body_continues_the_prompt(wrap: Any) -> None:
    assert program(wrap("    return a + b")).rstrip() == f"{PROMPT}    return a + b"


def test_body_that_a_base_model_follows_with_the_function_again_continues_the_prompt() -> None:
    body = "    return a + b\n\n\ndef add(a, b):\n    return 0"
    assert program(body) == PROMPT + body


def test_reply_without_code_leaves_the_prompt_as_it_is() -> None:
    assert program("<think>never ends") == PROMPT
    assert program("") == PROMPT


def test_prompt_that_ends_in_a_header_without_a_line_end_is_continued() -> None:
    assert continue_prompt("def f(x):", "return x") == "def f(x):\n    return x"


BODIES = {
    "return a": "    return a",
    "x = a\nreturn x": "    x = a\n    return x",
    "for i in a:\n    b += i\nreturn b": "    for i in a:\n        b += i\n    return b",
    "if a:\n    return b": "    if a:\n        return b",
    "x = [\n    1,\n]\nreturn x": "    x = [\n        1,\n    ]\n    return x",
    # The first line alone lost its indentation.
    "x = a\n    return x": "    x = a\n    return x",
    "for i in a:\n        b += i\n    return b": "    for i in a:\n        b += i\n    return b",
    "x = f(\n        a)\n    return x": "    x = f(\n        a)\n    return x",
    " x = a\n    return x": "    x = a\n    return x",
    # The whole body has another indentation.
    "  x = a\n  return x": "    x = a\n    return x",
    "        if a:\n            b += a\n        return b": "    if a:\n        b += a\n    return b",
    "\n\n  return a\n": "\n\n    return a\n",
}


def test_indentation_is_repaired_where_one_repair_is_possible() -> None:
    repaired = {body: continue_prompt(PROMPT, body).removeprefix(PROMPT) for body in BODIES}
    assert repaired == BODIES
    for body in repaired.values():
        ast.parse(PROMPT + body)


@each_case(
    "body",
    [
        "    x = a\n    return x",
        "    return helper(a)\n\ndef helper(a):\n    return a",
        "x = a\n    return x\n\ndef helper(a):\n    return a",
        'x = """a\nb"""\nreturn x',
        "\tx = a\n\treturn x",
        "",
        "\n",
    ],
)
def test_other_indentation_stays_as_it_is(body: str) -> None:
    assert continue_prompt(PROMPT, body) == PROMPT + body


STATEMENTS = st.recursive(
    st.sampled_from(["pass", "x = 1", "return x"]).map(lambda line: [line]),
    lambda inner: (
        st.tuples(st.sampled_from(["if x:", "for i in x:", "while x:"]), inner).map(
            lambda parts: [parts[0], *(f"    {line}" for line in parts[1])]
        )
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: [line for part in parts for line in part])
    ),
    max_leaves=6,
)


@given(STATEMENTS, st.sampled_from(["", "  ", "    ", "        "]))
def test_body_at_any_indentation_means_the_same(lines: list[str], indentation: str) -> None:
    def continued(blanks: str) -> str:
        body = "\n".join(f"{blanks}{line}" for line in lines)
        return ast.dump(ast.parse(continue_prompt(PROMPT, body)))

    assert continued(indentation) == continued("    ")


@given(STATEMENTS)
def test_stripped_body_with_several_statements_means_the_same(lines: list[str]) -> None:
    body = "\n".join(f"    {line}" for line in [*lines, "return x"])
    stripped = ast.dump(ast.parse(continue_prompt(PROMPT, body.strip())))
    assert stripped == ast.dump(ast.parse(PROMPT + body))


# --- fields and the user's rule


def test_completion_is_joined_to_the_prompt_without_any_change() -> None:
    for completion in (WHOLE, fence(WHOLE), "return a", "    return a\r\n"):
        assert program(completion, "completion") == PROMPT + completion


@each_case("field", ["completion", "reply"])
def test_rule_of_the_user_replaces_those_of_the_benchmark(field: str) -> None:
    fenced = SubmitProgram(continues_prompt=True, chosen=CodeRule.FENCED)
    assert program(fence(WHOLE), field, fenced) == WHOLE
    assert program(fence("return a + b"), field, fenced) == f"{PROMPT}    return a + b"
    assert program("    return a + b", field, fenced) == f"{PROMPT}    return a + b"
    first = SubmitProgram(chosen=CodeRule.FIRST_BLOCK)
    assert program(f"{fence('x = 1')}\n{fence(WHOLE)}", field, first) == "x = 1"


@each_case("field", ["solution", "answer"])
def test_solution_stands_alone_and_only_the_users_rule_takes_fences_out(field: str) -> None:
    assert program(fence(WHOLE), field) == fence(WHOLE)
    fenced = SubmitProgram(continues_prompt=True, chosen=CodeRule.FENCED)
    assert program(fence("return a"), field, fenced) == "return a"


def test_rule_none_leaves_every_text_as_it_is() -> None:
    for field in ("completion", "reply", "solution"):
        kept = SubmitProgram(completion=CodeRule.LAST_BLOCK, chosen=CodeRule.NONE)
        assert program(f"<think></think>{fence(WHOLE)}", field, kept) == f"<think></think>{fence(WHOLE)}"


def test_config_offers_every_rule() -> None:
    assert [*get_args(ExtractRule)] == [*CodeRule]


def test_rule_applies_to_benchmarks_that_grade_programs_and_to_no_other() -> None:
    taking, plus = set(), {"humaneval-plus", "mbpp-plus"}
    for name, definition in definitions().items():
        if isinstance(definition.submit, SubmitProgram):
            submit = definition.with_code_rule("fenced").submit
            assert submit == replace(definition.submit, chosen=CodeRule.FENCED)
            taking.add(name)
            continue
        with pytest.raises(UsageError, match=f"benchmark '{name}' does not read --extract"):
            definition.with_code_rule("fenced")
        assert definition.reply_rule
    assert taking == {
        "livecodebench",
        *plus,
        *(name.removesuffix("-plus") for name in plus),
        "mbpp-full",
        "mbpp-humaneval",
    }


def test_unknown_rule_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown rule 'last_blok'") as caught:
        load_benchmark("mbpp", data="bundled", extract="last_blok")
    assert "did you mean 'last_block'" in str(caught.value.hint)


# --- the notice about fences


def notices(tmp_path: Path, samples: list[dict[str, str]], extract: str | None = None) -> list[str]:
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    benchmark = load_benchmark("mbpp", data="bundled", extract=extract)
    agent = Predictions(settings_for(benchmark, samples=path))
    return list(describe_samples(benchmark, benchmark.tasks, agent))


def test_fences_that_no_rule_takes_out_are_noticed_before_grading(tmp_path: Path) -> None:
    ids = [task.id for task in MBPP_SAMPLE.tasks]
    samples = [{"task_id": ids[0], "completion": fence("x = 1")} for _ in range(3)]
    samples += [{"task_id": ids[1], "completion": "x = 1"}, {"task_id": ids[1], "reply": fence("x = 1")}]
    samples += [{"task_id": ids[1], "solution": fence("x = 1")}]
    assert notices(tmp_path, samples) == [
        "3 of 4 completions hold ``` fences: say --extract fenced",
        "1 of 1 solutions hold ``` fences: say --extract fenced",
    ]
    assert notices(tmp_path, samples, "fenced") == []
    assert notices(tmp_path, samples, "none") == []


def test_few_programs_with_a_block_in_a_docstring_are_no_reason_for_a_notice(tmp_path: Path) -> None:
    task_id = MBPP_SAMPLE.tasks[0].id
    plain = [{"task_id": task_id, "completion": "x = 1"}] * 10
    block = {"task_id": task_id, "completion": f'"""\n{fence("x")}\n"""'}
    assert notices(tmp_path, [*plain, block]) == []


# --- hostile texts


HOSTILE = (
    "```\n",
    "```python\n",
    "```python\ndef add(a, b):\n    return a\n```\n",
    "``` `",
    "`",
    "<think>",
    "</think>",
    "<think><think></think>",
    "add:",
    "add = ",
    "def add",
    "\n",
    " ",
    " \n",
    "(\n",
    '"""',
    "x:\n ",
    "\t\n",
)


def test_hostile_replies_are_read_in_linear_time() -> None:
    for place, rule in enumerate(CodeRule):
        for piece in one_in_four(HOSTILE, place):
            reply = text_of_length(piece, 600_000)
            SubmitProgram(continues_prompt=True, chosen=rule)(TASK, "reply", reply)


def test_reply_of_ten_megabytes_is_no_program_and_100_000_blocks_are_read() -> None:
    assert program(fence("x = 1\n" * 1_700_000)) == PROMPT
    blocks = f"```\nx = 1\n{WHOLE[-1]}\n```\n" * (99_999 if THOROUGH else 9_999)
    assert program(f"{fence(WHOLE)}\n{blocks}") == WHOLE
