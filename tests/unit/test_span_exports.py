"""The spans of OpenTelemetry that an export has, from transcripts that the test writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from exported_runs import CALL, NATIVE, PROMPT, STARTED, TOOL, USER, asked, called, export, make_folder, store

from harness.core.errors import UsageError
from harness.reports.run_folder import read_run
from harness.reports.trajectories.attempts import read_exported_run
from harness.reports.trajectories.spans import send_spans
from harness.runs.store import MANIFEST


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path)


def spans_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    (resource,) = document["resourceSpans"]
    spans: list[dict[str, Any]] = resource["scopeSpans"][0]["spans"]
    return spans


def attributes_of(holder: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in holder["attributes"]}


def test_an_attempt_is_a_trace_with_a_span_for_each_request_and_call(folder: Path) -> None:
    store(folder, *NATIVE)
    spans = spans_of(export(folder, "otlp")[0])
    assert [span["name"] for span in spans] == [
        "chat big",
        "execute_tool bash",
        "chat big",
        "invoke_agent chat",
    ]
    root = spans[-1]
    assert "parentSpanId" not in root
    assert {span["parentSpanId"] for span in spans[:-1]} == {root["spanId"]}
    assert len({span["spanId"] for span in spans}) == len(spans)
    assert int(spans[0]["endTimeUnixNano"]) == int((STARTED + 1) * 1e9)
    assert int(spans[0]["startTimeUnixNano"]) == int((STARTED + 0.5) * 1e9)
    (verdict,) = root["events"]
    assert verdict["name"] == "gen_ai.evaluation.result"
    assert attributes_of(verdict)["gen_ai.evaluation.score.label"] == "passed"
    assert attributes_of(spans[0])["gen_ai.usage.input_tokens"] == "20"


def test_the_spans_of_requests_follow_the_conventions(folder: Path) -> None:
    usage = {"input_tokens": 20, "output_tokens": 5, "reasoning_tokens": 4}
    fields = {"tools": ["bash"], "tool_definitions": [TOOL], "usage": usage, "api": "messages"}
    store(folder, PROMPT, asked(1, [USER], {"tool_calls": [CALL], "finish": "tool_calls"}, **fields))
    chat, root = map(attributes_of, spans_of(export(folder, "otlp")[0]))
    assert (chat["gen_ai.provider.name"], root["gen_ai.provider.name"]) == ("anthropic", "openai")
    assert chat["gen_ai.conversation.id"] == root["gen_ai.conversation.id"]
    assert chat["gen_ai.usage.reasoning.output_tokens"] == "4"
    assert chat["gen_ai.request.stop_sequences"] == {"values": [{"stringValue": "x"}]}
    assert chat["gen_ai.response.finish_reasons"] == {"values": [{"stringValue": "tool_call"}]}
    assert json.loads(chat["gen_ai.tool.definitions"]) == [{"type": "function", **TOOL}]


def test_a_run_without_a_model_has_no_provider(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["config"] = {"benchmark": "agentbench"}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    store(folder, PROMPT, called("bash", {}))
    (_, root) = map(attributes_of, spans_of(export(folder, "otlp")[0]))
    assert "gen_ai.provider.name" not in root


def test_spans_hold_no_text_unless_it_is_asked_for(folder: Path) -> None:
    defined = {"tools": ["bash"], "tool_definitions": [TOOL]}
    store(folder, *NATIVE[:3], {**NATIVE[3], **defined}, NATIVE[4])
    texts = ("How many files", "ls | wc", "Two.", "Run a command.")
    plain = json.dumps(export(folder, "otlp", content=False))
    assert not any(text in plain for text in texts)
    full = json.dumps(export(folder, "otlp"))
    assert all(text in full for text in texts)


def test_a_second_export_has_the_same_spans(folder: Path) -> None:
    store(folder, *NATIVE)
    assert export(folder, "otlp") == export(folder, "otlp")


def test_spans_of_an_earlier_version_follow_one_another(folder: Path) -> None:
    store(folder, *NATIVE, timed=False)
    spans = spans_of(export(folder, "otlp")[0])
    ends = [int(span["endTimeUnixNano"]) for span in spans[:-1]]
    starts = [int(span["startTimeUnixNano"]) for span in spans[:-1]]
    assert starts[1:] == ends[:-1]
    assert attributes_of(spans[-1])["harness.times_estimated"] is True


@each_case("endpoint", ["localhost:4318", "http://user:pass@host", "ftp://host"])
def test_an_endpoint_that_is_no_url_or_holds_a_password_is_refused(folder: Path, endpoint: str) -> None:
    store(folder, *NATIVE)
    with pytest.raises(UsageError, match="--endpoint must"):
        send_spans(read_exported_run(read_run(folder)), endpoint)
