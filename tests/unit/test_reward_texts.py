"""The texts that trainers send: completions in queries, replies in conversations, and the judges of rows."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from case_checks import each_case

from harness import UsageError
from harness.rl.grading import RewardSample, make_sample
from harness.rl.trl import VerdictReward, read_completion
from harness.service.verdicts.rewards import find_completion

TESTS = {"kind": "asserts", "tests": ["assert f() == 1"]}


@each_case(
    ("query", "prompt", "completion"),
    [
        ("Say it.def f(): pass", "Say it.", "def f(): pass"),
        ("<s> Say it.done</s>", "Say it.", "done"),
        ("<|begin_of_text|>A: a\nB:text<|eot_id|>", "A: a\nB:", "text"),
        ("promptx = 1\n<|im_end|>\n<|endoftext|><|endoftext|>", "prompt", "x = 1\n"),
        ("prompt x<｜end▁of▁sentence｜>", "prompt", " x"),
        ("prompt x<end_of_turn>\n", "prompt", " x"),
        ("a prompt and a prompt", "a prompt", " and a prompt"),
        ("text", "", "text"),
        ("x = '</s>' # more", "", "x = '</s>' # more"),
        ("another", "prompt", None),
        ("", "", ""),
        ("</s></s>", "", ""),
    ],
)
def test_the_completion_is_the_text_behind_the_prompt(
    query: str, prompt: str, completion: str | None
) -> None:
    assert find_completion(query, prompt) == completion


@each_case(
    ("completion", "expected"),
    [
        ("text", ("text", False)),
        ([{"role": "assistant", "content": "text"}], ("text", True)),
        ([{"content": "text"}], ("text", True)),
        ([{"role": "assistant", "content": "a"}, {"role": "tool", "content": "b"}], ("a", True)),
        ([{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"text": "b"}]}], ("ab", True)),
        ([{"role": "assistant", "content": None, "tool_calls": []}], ("", True)),
        ([], ("", True)),
    ],
)
def test_the_last_message_of_the_assistant_is_the_reply(completion: Any, expected: tuple[str, bool]) -> None:
    assert read_completion(completion) == expected


@each_case("completion", [None, 5, ["text"], {"content": "x"}])
def test_another_form_of_completion_is_refused(completion: Any) -> None:
    with pytest.raises(UsageError, match="a completion must be"):
        read_completion(completion)


def test_a_sample_is_sent_with_its_judge_and_its_field() -> None:
    assert make_sample("x", "reply", tests=TESTS).encode() == {"tests": TESTS, "reply": "x"}
    task = make_sample("x", "solution", benchmark="mbpp", task_id=11.0)
    assert task.encode() == {"benchmark": "mbpp", "task_id": "11", "solution": "x"}


def test_tests_are_the_judge_of_a_row_that_names_a_task_too() -> None:
    sample = make_sample("x", "reply", tests=TESTS, benchmark="mbpp", task_id=11)
    assert sample == RewardSample("x", "reply", tests=TESTS)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown field 'code'"):
        make_sample("x", "code", tests=TESTS)


@each_case(
    ("options", "message"),
    [
        ({"token": "x"}, "a token needs the URL"),
        ({"url": "http://h", "max_concurrent": 2}, "the service chooses"),
        ({"url": "http://h", "environments": ["maths"]}, "the service chooses"),
        ({"faults": "zero"}, "faults must be"),
    ],
)
def test_options_that_nothing_reads_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        VerdictReward(**options)


def test_a_trainer_that_counts_missing_rewards_as_zero_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "1.5.1")
    with pytest.raises(UsageError, match=r"TRL 1\.5\.1 counts"):
        VerdictReward()
    VerdictReward(faults="raise")
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "1.16.0")
    VerdictReward()


def test_a_reward_keeps_its_options_when_it_is_pickled() -> None:
    reward = VerdictReward("http://localhost:1", token="a-token", field="solution", faults="raise")
    copy = pickle.loads(pickle.dumps(reward))
    assert vars(copy)["_options"] == vars(reward)["_options"]
    assert reward.__name__ == "verdict"
