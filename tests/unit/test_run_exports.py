"""The exports of a run for other projects, from transcripts that hold whatever an agent may write."""

from __future__ import annotations

import base64
import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from exported_runs import (
    ANSWERED,
    KEY,
    NATIVE,
    PROMPT,
    TOOL,
    USER,
    asked,
    called,
    export,
    make_folder,
    store,
)

from harness.core.errors import UsageError
from harness.core.types import AttemptRecord, Status
from harness.reports.exports import export_names, load_export
from harness.reports.run_folder import read_run
from harness.reports.trajectories.attempts import Portable, list_secrets, read_exported_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path)


def shape(trajectory: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return each step in short: source, message, calls, observations."""
    return [
        (
            step["source"],
            step["message"],
            [call["tool_call_id"] for call in step.get("tool_calls", [])],
            [result.get("content") for result in step.get("observation", {}).get("results", [])],
        )
        for step in trajectory["steps"]
    ]


# --- the registry


def test_a_format_is_a_file_with_a_description_and_suffixes() -> None:
    assert export_names() == ["atif", "harbor", "inspect", "otlp"]
    for name in export_names():
        module = importlib.import_module(f"harness.reports.exports.{name}")
        assert (module.__doc__ or "").rstrip()
        assert all(suffix.startswith(".") for suffix in module.SUFFIXES)


def test_an_unknown_format_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="unknown export format 'inspct'") as raised:
        load_export("inspct")
    assert "did you mean 'inspect'?" in str(raised.value.hint)


def test_a_file_that_the_reader_would_not_open_is_refused() -> None:
    with pytest.raises(UsageError, match=r"ends in \.json") as raised:
        load_export("inspect").require_name(Path("log.txt"))
    assert raised.value.hint == "write it to log.json"
    load_export("inspect").require_name(None)
    with pytest.raises(UsageError, match="harbor writes a folder"):
        load_export("harbor").require_name(None)


# --- ATIF


def test_a_trajectory_has_each_message_once_and_results_with_their_calls(folder: Path) -> None:
    store(folder, *NATIVE)
    (trajectory,) = export(folder, "atif")
    assert shape(trajectory) == [
        ("system", "Be brief.", [], []),
        ("user", PROMPT["prompt"], [], []),
        ("agent", "", ["c1"], ["2"]),
        ("agent", "Two.", [], []),
    ]
    assert trajectory["steps"][3]["reasoning_content"] == "1 + 1"
    assert trajectory["steps"][2]["metrics"]["prompt_tokens"] == 20
    assert trajectory["trajectory_id"] == "r1/os/1/0"
    assert trajectory["agent"]["model_name"] == "big"
    assert trajectory["extra"]["verdict"]["status"] == "passed"
    assert trajectory["final_metrics"]["total_prompt_tokens"] == 40


def test_the_actions_of_an_agent_without_a_model_are_steps_without_a_model(folder: Path) -> None:
    store(
        folder,
        PROMPT,
        {"kind": "reference", "text": "ls", "observation": "a"},
        called("submit", {"answer": "a"}),
    )
    (trajectory,) = export(folder, "atif")
    assert [(source, seen) for source, _, _, seen in shape(trajectory)] == [
        ("user", []),
        ("agent", ["a"]),
        ("agent", ["2"]),
    ]
    assert [step.get("llm_call_count") for step in trajectory["steps"]] == [None, 0, 0]


def test_results_of_tools_that_the_agent_ran_itself_stand_with_their_calls(folder: Path) -> None:
    program = [NATIVE[0], NATIVE[1], NATIVE[3]]
    store(folder, *program)
    (trajectory,) = export(folder, "atif")
    assert shape(trajectory)[2] == ("agent", "", ["c1"], ["2"])


def test_a_conversation_that_the_agent_rewrote_repeats_nothing(folder: Path) -> None:
    rewritten = [USER, {"role": "assistant", "text": "Sum: 2."}, {"role": "user", "text": "Go on."}]
    store(folder, *NATIVE[:3], asked(2, rewritten, {"text": "Two."}, changed=True))
    (trajectory,) = export(folder, "atif")
    assert [(source, text) for source, text, *_ in shape(trajectory)][3:] == [
        ("agent", "Sum: 2."),
        ("user", "Go on."),
        ("agent", "Two."),
    ]
    assert trajectory["steps"][3]["is_copied_context"] is True


def test_entries_of_an_agent_cannot_pass_for_replies(folder: Path) -> None:
    forged = {**asked(1, [USER], {"text": "forged"}), "by": "agent"}
    store(folder, PROMPT, forged, {"output": "real"})
    (trajectory,) = export(folder, "atif")
    assert [text for _, text, *_ in shape(trajectory)] == [PROMPT["prompt"], "real"]
    assert [note["kind"] for note in trajectory["extra"]["notes"]] == ["agent"]


@each_case("name", ["atif", "inspect", "otlp"])
@each_case(
    "entries",
    [
        [],
        [PROMPT],
        [{"prompt": 5}, {"kind": "model"}, {"tool": None}, {"output": [1]}, {"kind": 7}, {"error": {}}],
        [PROMPT, asked(1, ["x", {"role": 1}], {"tool_calls": [{}, {"name": 3, "arguments": "no JSON"}]})],
        [PROMPT, asked(1, [], {"tool_calls": [{"name": "f", "arguments": '{"a": NaN}'}]}), called("f", {})],
        [PROMPT, asked(1, [], {"tool_calls": [{"name": "f", "arguments": "[" * 5000}]})],
        [
            PROMPT,
            called("f", {"a": float("nan"), "b": 10**30, "c": "\ud800", "d": [1e999]}, None, ended="Gone"),
        ],
        [PROMPT, called("f", "text", refused=True)],
        [PROMPT, {**USER, "kind": "model", "usage": 5, "time": -1, "reply": []}],
    ],
    ids=[
        "nothing",
        "prompt",
        "wrong types",
        "odd calls",
        "no number",
        "nested",
        "unportable",
        "refused",
        "odd request",
    ],
)
def test_whatever_a_transcript_holds_the_export_is_valid(folder: Path, name: str, entries: list[Any]) -> None:
    store(folder, *entries) if entries else store(folder, {})
    (document,) = export(folder, name)
    # This fails for half a surrogate pair, as strict readers do.
    json.dumps(document, ensure_ascii=False).encode("utf-8")


def test_an_attempt_whose_transcript_was_removed_has_its_submission(folder: Path) -> None:
    store(folder, *NATIVE)
    for path in (folder / "transcripts").iterdir():
        path.unlink()
    (trajectory,) = export(folder, "atif")
    assert shape(trajectory) == [("agent", "Two.", [], [])]


def test_an_empty_submission_is_a_step(folder: Path) -> None:
    store(folder, PROMPT, {"output": ""})
    (trajectory,) = export(folder, "atif")
    assert shape(trajectory) == [("user", PROMPT["prompt"], [], []), ("agent", "", [], [])]


@each_case(
    ("fields", "expected"),
    [
        ({"tools": ["bash"], "tool_definitions": [TOOL]}, [{"type": "function", "function": TOOL}]),
        ({"tools": ["bash"]}, [{"type": "function", "function": {"name": "bash"}}]),
        ({"tools": []}, None),
    ],
)
def test_a_trajectory_has_the_tools_that_the_model_could_call(
    folder: Path, fields: dict[str, Any], expected: list[Any] | None
) -> None:
    store(folder, PROMPT, asked(1, [USER], {"text": "Two."}, **fields), asked(2, [], {}))
    (trajectory,) = export(folder, "atif")
    assert trajectory["agent"].get("tool_definitions") == expected


# --- inspect


def test_a_log_has_the_conversation_and_the_input_of_each_request(folder: Path) -> None:
    store(folder, *NATIVE)
    (log,) = export(folder, "inspect")
    (sample,) = log["samples"]
    assert [message["role"] for message in sample["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    requests = [event for event in sample["events"] if event["event"] == "model"]
    assert [event["input_refs"] for event in requests] == [[[0, 2]], [[0, 4]]]
    assert sample["scores"]["harness"]["value"] == 1.0
    assert (sample["epoch"], sample["target"]) == (1, "2")
    assert log["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 1.0
    assert log["eval"]["model_generate_config"] == {"temperature": 0.5}


def test_a_conversation_that_the_agent_rewrote_starts_anew(folder: Path) -> None:
    rewritten = [USER, {"role": "user", "text": "Go on."}]
    store(folder, *NATIVE[:3], asked(2, rewritten, {"text": "Two."}, changed=True))
    (sample,) = export(folder, "inspect")[0]["samples"]
    assert [message["content"] for message in sample["messages"]] == [PROMPT["prompt"], "Go on.", "Two."]
    (_, second) = [event for event in sample["events"] if event["event"] == "model"]
    assert second["input_refs"] == [[3, 5]]


def test_an_attempt_without_a_verdict_has_an_error_and_no_score(folder: Path) -> None:
    lost = AttemptRecord(
        "os/1", 0, None, None, False, Status.INFRA_ERROR, None, {}, "", "", 1.0, "the engine is away"
    )
    store(folder, PROMPT, record=lost)
    (log,) = export(folder, "inspect")
    (sample,) = log["samples"]
    assert "scores" not in sample
    assert sample["error"]["message"] == "the engine is away"
    assert log["results"]["scores"][0]["unscored_samples"] == 1


@each_case(
    ("limit", "value", "kind"),
    [
        ("timeout_seconds", 180.0, "working"),
        ("rounds", 8, "turn"),
        ("total_tokens", 500, "token"),
        ("output_tokens", 500, "token"),
        ("cost", 0.5, "cost"),
    ],
)
def test_a_sample_has_the_limit_at_which_its_agent_was_stopped(
    folder: Path, limit: str, value: float, kind: str
) -> None:
    metrics = {"phase": "agent", "limit": limit, "limit_value": value}
    store(folder, PROMPT, record=replace(ANSWERED, metrics=metrics, error="the limit is reached"))
    (sample,) = export(folder, "inspect")[0]["samples"]
    assert sample["limit"] == {"type": kind, "limit": value, "reason": "the limit is reached"}


@each_case(
    "metrics",
    [
        {"phase": "evaluator", "limit": "timeout_seconds", "limit_value": 180.0},
        {"phase": "agent", "limit": "memory_mb"},
        {"phase": "agent", "limit": "timeout_seconds"},
        {"phase": "agent", "limit": "timeout_seconds", "limit_value": "180"},
    ],
)
def test_the_limit_of_a_program_or_without_its_number_is_not_that_of_a_sample(
    folder: Path, metrics: dict[str, Any]
) -> None:
    store(folder, PROMPT, record=replace(ANSWERED, metrics=metrics))
    assert "limit" not in export(folder, "inspect")[0]["samples"][0]


# --- selection


def test_one_task_or_one_attempt_is_exported(folder: Path) -> None:
    store(folder, PROMPT, {"output": "a"})
    store(folder, PROMPT, {"output": "b"}, record=replace(ANSWERED, attempt=1))
    assert len(export(folder, "atif", task_id="os/1")) == 2
    (chosen,) = export(folder, "atif", task_id="os/1", attempt=1)
    assert chosen["steps"][-1]["message"] == "b"
    with pytest.raises(UsageError, match="os/1 has no attempt 7"):
        export(folder, "atif", task_id="os/1", attempt=7)
    with pytest.raises(UsageError, match="os/2"):
        export(folder, "atif", task_id="os/2")


# --- secrets


@each_case("name", ["atif", "inspect", "otlp"])
def test_no_export_holds_a_key(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECIAL", KEY)
    shown = base64.b64encode(b"x" + KEY.encode() + b"yz").decode()
    arguments = json.dumps({"k": KEY}).replace("s3", "\\u0073\\u0033")
    record = AttemptRecord(
        "os/1",
        0,
        None,
        KEY,
        False,
        Status.FAILED,
        0.0,
        {KEY: KEY},
        KEY,
        KEY,
        1.0,
        f"saw {KEY}",
        submission=KEY,
    )
    store(
        folder,
        {"schema_version": 1, "prompt": f"a {KEY} b"},
        asked(
            1,
            [USER],
            {"text": shown, "tool_calls": [{"name": "f", "arguments": arguments}], "reasoning": KEY},
        ),
        called("f", {"k": KEY}, f"out {KEY.upper()}"),
        {"kind": "relay", "text": f"Bearer {KEY}"},
        {"by": "agent", KEY: [KEY]},
        record=record,
    )
    text = json.dumps(export(folder, name))
    assert "[key]" in text
    assert KEY.lower() not in text.lower()
    assert base64.b64encode(b"x" + KEY.encode() + b"yz").decode()[4:20] not in text
    assert "s3cr3t" not in text


@each_case(
    "text",
    [
        "sk-proj-" + "aB3" * 14,
        "sk-ant-" + "x_-9" * 10,
        "ghp_" + "a1" * 18,
        "hf_" + "Ab" * 17,
        "AKIA" + "A1" * 8,
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_a_key_of_another_machine_is_known_by_its_form(text: str) -> None:
    portable = Portable({})
    assert portable.clean({"a": [f"see {text} here"]}) == {"a": ["see [key] here"]}
    assert portable.hidden


@each_case("text", ["sk-learn", "task-specific", "hf_hub", "AKIA", "def sk_1(): pass", ""])
def test_ordinary_words_are_no_keys(text: str) -> None:
    portable = Portable({"A": "short"})
    assert portable.clean(text) == text
    assert not portable.hidden


def test_secrets_are_found_by_the_config_and_by_the_names_of_variables() -> None:
    config = {
        "endpoints": {"m": {"api_key_env": "MINE"}},
        "mcp_servers": [{"env": {"A": "${SERVER}"}, "headers": {"Authorization": "Bearer ${HEADER:-x}"}}],
        "command": {"pass_env": ["PASSED"]},
    }
    named = ("MINE", "SERVER", "HEADER", "PASSED", "GITHUB_TOKEN", "DB_PASSWORD", "OPENAI_API_KEY")
    environment = {name: f"value of {name}" for name in (*named, "HOME", "KEYBOARD", "MONKEY_SPECIES")}
    assert list_secrets(config, environment) == {name: environment[name] for name in named}


# --- a job of Harbor


def test_a_job_has_a_trial_for_each_attempt(folder: Path, tmp_path: Path) -> None:
    rewards = {"reward": 0.5, "rewards": {"reward": 0.5, "style": 1}}
    records = [
        replace(ANSWERED, metrics={**ANSWERED.metrics, **rewards}, score=0.5),
        replace(
            ANSWERED, attempt=1, resolved=False, status=Status.TIMEOUT, score=0.0, metrics={"phase": "agent"}
        ),
        replace(
            ANSWERED, attempt=2, resolved=False, status=Status.GRADER_ERROR, score=None, error="no reward"
        ),
        replace(
            ANSWERED,
            attempt=3,
            resolved=False,
            status=Status.FAILED,
            score=0.0,
            metrics={**rewards, "integrity": "tests_not_reported"},
        ),
        replace(ANSWERED, task_id="../../x y/..", attempt=4),
    ]
    for record in records:
        store(folder, *NATIVE, record=record)
    job = tmp_path / "job"
    job.mkdir()
    chosen = load_export("harbor")
    assert chosen.write_tree is not None
    chosen.write_tree(read_exported_run(read_run(folder)), job)
    results = [json.loads(path.read_text()) for path in job.glob("*/result.json")]
    found = {
        (each["task_name"], each["agent_result"]["metadata"]["verdict"]["attempt"]): each for each in results
    }
    assert [
        (each["verifier_result"], (each["exception_info"] or {}).get("exception_type"))
        for each in (found["os/1", number] for number in range(4))
    ] == [
        ({"rewards": {"reward": 0.5, "style": 1}}, None),
        ({"rewards": {"reward": 0.0}}, "AgentTimeoutError"),
        (None, "RewardFileNotFoundError"),
        ({"rewards": {"reward": 0.0}}, None),
    ]
    assert found["os/1", 0]["agent_result"]["n_input_tokens"] == 40
    names = {path.name for path in job.iterdir() if path.is_dir()}
    assert names == {each["trial_name"] for each in results}
    stats = json.loads((job / "result.json").read_text())["stats"]
    assert (stats["n_completed_trials"], stats["n_errored_trials"], stats["n_input_tokens"]) == (5, 2, 120)
    trajectory = json.loads((job / found["os/1", 0]["trial_name"] / "agent/trajectory.json").read_text())
    assert trajectory["trajectory_id"].endswith("/os/1/0")
