"""The runs that cannot be made on Ray, and the messages between a run and its nodes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks.data.source import BUNDLED
from harness.core.errors import UsageError
from harness.core.types import Status, Verdict
from harness.runs.config import RunConfig
from harness.runs.executors.messages import ImageContent, Lease, NodeSpec, Report
from harness.runs.executors.node import PART_BYTES, NodeTranscripts
from harness.runs.executors.ray_cluster import divert_messages
from harness.runs.executors.ray_executor import read_record
from harness.runs.executors.ray_nodes import NodeLost, shorten
from harness.runs.progress import Stage
from harness.runs.records import build_record, to_json
from harness.runs.selection import (
    Selection,
    describe_config,
    find_difference,
    hash_inputs,
    read_described_config,
    select,
)


def make_selection(**settings: Any) -> Selection:
    config = RunConfig(**{"benchmark": "mbpp", "data": "bundled", **settings})
    return select(config, notify=lambda _note: None)


MODEL = {"agent": "chat", "model": "m", "base_url": "http://127.0.0.1:1/v1"}


@each_case(
    ("settings", "message"),
    [
        pytest.param(MODEL, "agent 'chat' asks a model", id="model"),
        pytest.param(
            {"agent": "command", "command": {"cmd": "true"}},
            "agent 'command' acts only on this machine",
            id="command",
        ),
    ],
)
def test_a_run_that_needs_this_machine_is_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_selection(executor="ray", **settings)


def test_an_agent_that_is_an_object_is_refused() -> None:
    class Agent:
        async def attempt(self, context: Any) -> str:
            return ""

    config = RunConfig(benchmark="gsm8k", data="bundled", executor="ray")
    with pytest.raises(UsageError, match="is an object of this process"):
        select(config, notify=lambda _note: None, agent=Agent())


def test_the_address_of_a_cluster_is_refused_without_the_executor() -> None:
    with pytest.raises(UsageError, match="--ray-address has no effect") as refused:
        make_selection(ray_address="auto")
    assert refused.value.hint == "add --executor ray, or leave it out"


def test_a_node_selects_the_same_attempts_from_the_config_that_it_gets() -> None:
    ours = make_selection(sample_size=5, seed=3, n_samples=2, executor="ray")
    config = read_described_config(pickle.loads(pickle.dumps(describe_config(ours))))
    theirs = select(config, notify=lambda _note: None, resumed=True)
    assert (config.executor, config.ray_address) == ("local", None)
    assert [planned.key for planned in theirs.plan] == [planned.key for planned in ours.plan]
    assert find_difference(hash_inputs(ours), hash_inputs(theirs)) is None


def test_another_seed_is_a_difference_of_the_plan() -> None:
    ours, theirs = (make_selection(sample_size=5, seed=seed) for seed in (1, 2))
    difference = find_difference(hash_inputs(ours), hash_inputs(theirs))
    assert difference is not None
    assert difference.startswith("its plan has the SHA-256 ")


def test_other_data_is_the_first_difference(tmp_path: Path) -> None:
    path = tmp_path / "mbpp.json"
    path.write_bytes((BUNDLED / "mbpp.json").read_bytes() + b"\n")
    difference = find_difference(hash_inputs(make_selection()), hash_inputs(make_selection(data=str(path))))
    assert difference is not None
    assert difference.startswith("its data has the SHA-256 ")


def test_messages_travel_as_plain_data() -> None:
    image = ImageContent("harness/python:0", "aa")
    spec = NodeSpec("run", {"benchmark": "mbpp"}, {"data": "bb"}, {}, {"python": image}, 60.0, 3)
    for message in (spec, Lease("a", 0, is_followed=True), Report(Stage.ACTING, transcript=b"x")):
        assert pickle.loads(pickle.dumps(message)) == message


def test_a_transcript_is_read_once_and_in_parts() -> None:
    transcripts = NodeTranscripts()
    transcript = transcripts.begin_transcript("a", 0)
    transcript.write({"text": "x" * PART_BYTES})
    first, is_first = transcripts.read("a", 0)
    second, is_second_first = transcripts.read("a", 0)
    assert (len(first), is_first, is_second_first) == (PART_BYTES, True, False)
    assert (first + second).endswith(b"}\n")
    assert transcripts.read("a", 0) == (b"", False)
    transcripts.close("a", 0)


def test_the_transcript_of_a_new_try_begins_again() -> None:
    transcripts = NodeTranscripts()
    transcripts.begin_transcript("a", 0).write({"text": "first try"})
    transcripts.read("a", 0)
    transcripts.begin_transcript("a", 0).write({"text": "second try"})
    part, is_first = transcripts.read("a", 0)
    assert is_first
    assert b"second try" in part
    transcripts.close("a", 0)


def test_standard_output_passes_everything_but_messages_of_ray(capsys: pytest.CaptureFixture[str]) -> None:
    with divert_messages():
        print("kept")
    assert capsys.readouterr().out == "kept\n"


def test_a_node_that_sends_the_record_of_another_attempt_is_lost() -> None:
    selection = make_selection(n_samples=2)
    first, second, *_ = selection.plan
    reference, verdict = selection.benchmark.references[first.task.id], Verdict(Status.PASSED, 1.0)
    record = build_record(first, reference, verdict, submission=None, duration_seconds=1.0)
    with pytest.raises(NodeLost, match=f"the record of another attempt: {first.task.id}, attempt 0"):
        read_record(to_json(record), second)
    assert read_record(to_json(record), first).status is Status.PASSED


def test_a_node_that_sends_something_else_than_a_record_is_lost() -> None:
    planned, *_ = make_selection().plan
    with pytest.raises(NodeLost, match="a record that cannot be read"):
        read_record("[]", planned)


@each_case(
    ("text", "line"),
    [
        ("The actor died unexpectedly before finishing this task.\n\tclass_name: Node", "The actor died"),
        ("Traceback (most recent call last):\n  File\nValueError: wrong.", "ValueError: wrong"),
        ("", "RuntimeError"),
    ],
)
def test_an_error_of_ray_becomes_the_part_of_a_sentence(text: str, line: str) -> None:
    shown = shorten(RuntimeError(text))
    assert shown.startswith(line)
    assert not shown.endswith(".")
