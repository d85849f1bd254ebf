"""Runs whose transcripts the tests of exports write themselves, and their exports."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attempt_records import make_manifest
from export_schemas import ATIF, INSPECT, OTLP
from jsonschema import Draft202012Validator

from harness.core.types import AttemptRecord, Status
from harness.reports.exports import load_export
from harness.reports.run_folder import read_run
from harness.reports.trajectories.attempts import read_exported_run
from harness.runs.store import MANIFEST, RunStore

KEY = "s3cr3t/with+signs?A"
STARTED = 1_795_000_000.0
PROMPT = {"schema_version": 1, "prompt": "How many files are there?"}
SCHEMAS = {"atif": ATIF, "inspect": INSPECT, "otlp": OTLP}


def asked(number: int, messages: list[Any], reply: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the entry of a request to a model."""
    return {
        "kind": "model",
        "request": number,
        "messages": messages,
        "reply": {"text": "", "finish": "stop", **reply},
        "usage": {"input_tokens": 20, "output_tokens": 5, "cached_tokens": 3},
        "seconds": 0.5,
        "waiting_seconds": 0.1,
        "retries": 1,
        "cached": False,
        **more,
    }


def called(tool: str, arguments: Any, observation: str | None = "2", **more: Any) -> dict[str, Any]:
    return {
        "round": 1,
        "tool": tool,
        "arguments": arguments,
        "observation": observation,
        "seconds": 0.1,
        **more,
    }


USER = {"role": "user", "text": PROMPT["prompt"]}
CALL = {"id": "c1", "name": "bash", "arguments": '{"command": "ls | wc -l"}'}
NATIVE = [
    PROMPT,
    asked(1, [{"role": "system", "text": "Be brief."}, USER], {"tool_calls": [CALL], "finish": "tool_calls"}),
    called("bash", {"command": "ls | wc -l"}),
    asked(2, [{"role": "tool", "text": "2", "tool_call_id": "c1"}], {"text": "Two.", "reasoning": "1 + 1"}),
    {"output": "Two."},
]
ANSWERED = AttemptRecord(
    "os/1",
    0,
    None,
    "os",
    True,
    Status.PASSED,
    1.0,
    {"input_tokens": 40, "output_tokens": 10, "cost": 0.5},
    "Two.",
    "2",
    2.0,
    None,
    agent_output_full="Two.",
    submission="Two.",
)
TOOL = {"name": "bash", "description": "Run a command.", "parameters": {"type": "object"}}


def make_folder(path: Path) -> Path:
    """Write the folder of a run without attempts, and return it."""
    config = {
        "benchmark": "agentbench",
        "model": "m",
        "endpoints": {"m": {"model": "big", "api_key_env": "SPECIAL"}},
        "generation": {"temperature": 0.5, "stop": ["x"]},
        "system_prompt": f"uses {KEY}",
    }
    manifest = make_manifest(
        run_id="r1",
        started_at="2026-11-18T10:00:00Z",
        harness_version="1.0",
        benchmark="agentbench",
        agent="chat",
        planned={"tasks": 1, "attempts": 1},
        config=config,
    )
    (path / MANIFEST).write_text(json.dumps(manifest))
    (path / "transcripts").mkdir()
    return path


def store(
    folder: Path, *entries: Mapping[str, Any], record: AttemptRecord = ANSWERED, timed: bool = True
) -> None:
    """Store an attempt with its transcript, whose entries are a second apart."""
    with closing(RunStore(folder)) as opened:
        transcript = opened.begin_transcript(record.task_id, record.attempt)
        for entry in entries:
            transcript.write(entry)
        opened.append(record)
    (path,) = [each for each in (folder / "transcripts").iterdir() if f"-{record.attempt}." in each.name]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for number, line in enumerate(lines):
        del line["time"]
        if timed:
            line["time"] = STARTED + number
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def export(folder: Path, name: str, *, content: bool = True, **chosen: Any) -> list[Any]:
    """Return the documents of an export, each checked by the schema of its format."""
    stream = io.StringIO()
    run = replace(read_exported_run(read_run(folder), **chosen), has_content=content)
    format_of = load_export(name)
    assert format_of.write is not None
    format_of.write(run, stream)
    text = stream.getvalue()
    lines = [text] if name == "inspect" else text.splitlines()
    documents = [json.loads(line, parse_constant=lambda constant: pytest.fail(constant)) for line in lines]
    for document in documents:
        Draft202012Validator(SCHEMAS[name]).validate(document)
    return documents
