"""The turns of an attempt as `harness show` prints them, and the file that has them."""

from __future__ import annotations

import io
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attempt_records import make_record, render_html
from case_checks import each_case
from viewer_fixtures import read_page_data

from harness.core.errors import DataError
from harness.core.types import AttemptRecord, Status, Summary
from harness.reports.transcript_entries import print_transcript
from harness.runs.store import RunStore

PROMPT = {"prompt": "How many files are there?"}
CALL: dict[str, Any] = {
    "round": 1,
    "tool": "bash",
    "arguments": {"command": "ls\nwc -l"},
    "observation": "a\nb\n",
    "refused": False,
    "seconds": 0.0031,
}

MODEL: dict[str, Any] = {
    "kind": "model",
    "request": 1,
    "messages": [
        {"role": "system", "text": "Use a tool."},
        {"role": "user", "text": "How many files are there?\n"},
    ],
    "reply": {
        "text": "Let me look.",
        "reasoning": "think " * 1000,
        "tool_calls": [{"id": "c1", "name": "bash", "arguments": '{"command": "ls'}],
        "finish": "length",
    },
    "usage": {"input_tokens": 1200, "output_tokens": 30, "reasoning_tokens": 20, "cached_tokens": None},
    "seconds": 0.81,
    "waiting_seconds": 0.2,
    "retries": 2,
    "cached": False,
    "parameters": {"temperature": 0},
}
SERVER = {"kind": "mcp_server", "server": "files"}
# The entries of a transcript, and the text that shows them.
FORMS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "call": ([CALL], "[1] bash  (0.0031 s)\n  $ ls\n  $ wc -l\n  | a\n  | b\n"),
    "escaped": ([{**CALL, "observation": "\x1b[2Jgone"}], "  | \\x1b[2Jgone\n"),
    "refused": ([{**CALL, "arguments": {"wrds": "KEY"}, "refused": True}], '  $ {"wrds": "KEY"}\n'),
    "answer": ([{"output": "three\nfiles\x1b[2J"}], "\n[output]\n  | three\n  | files\\x1b[2J\n"),
    "exception": (
        [{"error": "KeyError: 'a'", "traceback": "Traceback\n  in attempt\n"}],
        "\n[agent error] KeyError: 'a'\n  | Traceback\n  |   in attempt\n",
    ),
    "shared request": (
        [{**MODEL, "n": 5, "parameters": {"seed": 7}}],
        "[request 1]  (one request for 5 attempts, 1,200 tokens in",
    ),
    "short wait": (
        [{**MODEL, "waiting_seconds": 0.0001}],
        "(1,200 tokens in, 30 out (20 reasoning), 0.81 s, retries: 2)",
    ),
    "context": ([{"kind": "context", "text": "cut"}], "\n[context]\n  | cut\n"),
    "format error": (
        [{"kind": "format_error", "name": "unknown_tool", "advice": "Call bash."}],
        "\n[format error] unknown_tool\n  | Call bash.\n",
    ),
    "of a user": ([{"mine": [1]}], '\n[entry]\n  | {"mine": [1]}\n'),
    "of an unknown kind": (
        [{"kind": "of a user", "x": 2}],
        '\n[entry]\n  | {"kind": "of a user", "x": 2}\n',
    ),
    "server": ([{**SERVER, "tools": 3, "seconds": 0.4}], "\n[mcp server files] tools: 3  (0.4 s)\n"),
    "failed server": (
        [{**SERVER, "error": "no licence\x1b[2J"}],
        "\n[mcp server files] gives no tools\n  | no licence\\x1b[2J\n",
    ),
    "tool left out": (
        [{**SERVER, "tool": "read", "left_out": "its schema is not valid"}],
        "\n[mcp server files] the tool read is left out\n  | its schema is not valid\n",
    ),
}


def kept(folder: Path, *entries: dict[str, Any], task_id: str = "os/dev/1") -> None:
    with closing(RunStore(folder)) as store:
        transcript = store.begin_transcript(task_id, 0)
        for entry in entries:
            transcript.write(entry)


def shown(folder: Path, task_id: str = "os/dev/1", **options: Any) -> str:
    stream = io.StringIO()
    assert print_transcript(folder, task_id, 0, stream=stream, **options)
    return stream.getvalue()


@each_case("form", FORMS)
def test_an_entry_has_its_form(tmp_path: Path, form: str) -> None:
    entries, expected = FORMS[form]
    kept(tmp_path, PROMPT, *entries)
    text = shown(tmp_path)
    assert text.startswith(f"{PROMPT['prompt']}\n\n")
    assert expected in text
    assert "\x1b" not in text


def test_every_long_text_is_cut_and_names_the_file_that_has_the_whole(tmp_path: Path) -> None:
    long = "x" * 1_000_000
    kept(
        tmp_path,
        {"prompt": long},
        {**CALL, "arguments": {"command": long}, "observation": long},
        {**CALL, "arguments": {"comand": long}, "refused": True},
        {"output": "o" * 1_000_000},
        {"error": long, "traceback": long},
        {
            **MODEL,
            "parameters": {"stop": [long]},
            "tools": [long],
            "messages": [{"role": "user", "text": "y" * 1_000_000}],
            "reply": {"text": long, "tool_calls": [{"name": long, "arguments": long}], "refusal": long},
        },
        {"kind": "context", "text": long},
        {"kind": "format_error", "name": long, "advice": long},
        {"mine": long},
    )
    text = shown(tmp_path)
    file = tmp_path / "transcripts" / "os%2Fdev%2F1-0.jsonl"
    assert text.startswith(f"{'x' * 10_000}\n... (990,000 more characters, in {file})\n")
    assert text.count(f" more characters, in {file})\n") == 15
    assert len(text) < 200_000


def test_a_user_chooses_how_much_of_each_text_is_shown(tmp_path: Path) -> None:
    kept(tmp_path, {**CALL, "observation": "x" * 20_000})
    file = tmp_path / "transcripts" / "os%2Fdev%2F1-0.jsonl"
    assert f"  | {'x' * 100}\n  | ... (19,900 more characters, in {file})\n" in shown(tmp_path, limit=100)
    assert "x" * 20_000 in shown(tmp_path, limit=20_000)


def test_a_task_id_may_be_any_text(tmp_path: Path) -> None:
    kept(tmp_path, PROMPT, task_id="../../../etc/passwd")
    assert shown(tmp_path, "../../../etc/passwd").startswith("How many")
    assert len(list((tmp_path / "transcripts").iterdir())) == 1


def test_an_attempt_without_a_transcript_shows_nothing(tmp_path: Path) -> None:
    assert not print_transcript(tmp_path, "os/dev/2", 0, stream=io.StringIO())


def test_a_torn_last_line_is_skipped(tmp_path: Path) -> None:
    kept(tmp_path, PROMPT)
    (path,) = (tmp_path / "transcripts").iterdir()
    path.write_text(path.read_text() + '{"round": 1, "to')
    assert shown(tmp_path) == "How many files are there?\n"


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    kept(tmp_path, PROMPT)
    (path,) = (tmp_path / "transcripts").iterdir()
    path.write_text(path.read_text() + "[]\n")
    with pytest.raises(DataError, match=r"-0\.jsonl:2: is not an entry"):
        shown(tmp_path)


def test_a_request_shows_its_new_messages_and_its_reply(tmp_path: Path) -> None:
    kept(tmp_path, {**PROMPT, "schema_version": 1}, MODEL)
    text = shown(tmp_path)
    assert f"  | {'think ' * 166}" in text
    assert "\n  | ... (5,000 more characters, in " in text
    assert "think " * 170 not in text
    assert (
        text.replace(text[text.index("  | think") : text.index("  reply:")], "  | ...\n")
        == """How many files are there?

[request 1]  (1,200 tokens in, 30 out (20 reasoning), 0.81 s, 0.2 s of it in our own queue, retries: 2)
  parameters: {"temperature": 0}
  system:
  > Use a tool.
  user: as above
  reasoning:
  | ...
  reply:
  | Let me look.
  $ bash {"command": "ls
  finish: length
"""
    )


def test_an_observation_that_goes_to_the_model_is_shown_once(tmp_path: Path) -> None:
    again = {
        "kind": "model",
        "request": 2,
        "messages": [{"role": "tool", "text": "a\nb\n", "tool_call_id": "c1"}],
        "reply": {"text": "", "finish": "stop", "refusal": "I will not."},
        "usage": None,
        "cached": True,
        "seconds": 0,
    }
    kept(tmp_path, PROMPT, CALL, again)
    text = shown(tmp_path)
    assert text.count("| a\n") == 1
    assert text.endswith("""
[request 2]  (from the cache, tokens unknown, 0 s)
  tool: as above
  refusal:
  | I will not.
""")


def test_a_message_that_has_the_prompt_in_it_shows_only_the_rest(tmp_path: Path) -> None:
    prompt = "Count the files. " * 20
    asked = {
        "kind": "model",
        "request": 1,
        "messages": [{"role": "user", "text": f"{prompt}Reply with a number."}],
    }
    kept(tmp_path, {"prompt": prompt}, asked)
    text = shown(tmp_path)
    assert text.count("Count the files.") == 20
    assert "  user:\n  > [prompt as above] Reply with a number.\n" in text


def test_a_reply_that_goes_back_to_the_model_is_shown_once(tmp_path: Path) -> None:
    calls = [{"id": "c1", "name": "bash", "arguments": "{}"}]
    first = {
        "kind": "model",
        "request": 1,
        "messages": [],
        "reply": {"text": "Let me look.", "tool_calls": calls},
    }
    back = {"role": "assistant", "text": "Let me look.", "tool_calls": calls}
    messages = [back, {"role": "tool", "text": "a"}, {"role": "tool", "text": "b"}]
    kept(tmp_path, first, {"kind": "model", "request": 2, "messages": messages, "reply": {"text": "done"}})
    text = shown(tmp_path)
    assert text.count("Let me look.") == 1
    assert "  assistant: as above\n  tool:\n  > a\n" in text


def test_reasoning_is_dimmed_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    kept(tmp_path, MODEL)
    stream = Terminal()
    assert print_transcript(tmp_path, "os/dev/1", 0, stream=stream)
    assert "\x1b[2m  | think" in stream.getvalue()


def test_a_request_of_the_wrong_types_is_shown_as_it_is(tmp_path: Path) -> None:
    broken = {
        "kind": "model",
        "request": "\x1b[2J",
        "messages": [3, {"role": ["x"], "text": {"a": 1}, "tool_calls": "no"}],
        "reply": {"text": 5, "tool_calls": [{"name": None, "arguments": {"command": "ls"}}], "finish": 1},
        "usage": {"input_tokens": "many"},
    }
    kept(tmp_path, broken, {"kind": "model", "messages": None, "reply": "no", "usage": 3})
    text = shown(tmp_path)
    assert "[request \\x1b[2J]  (tokens unknown" in text
    assert '  $ None {"command": "ls"}\n' in text


def test_a_transcript_of_another_version_is_refused(tmp_path: Path) -> None:
    kept(tmp_path, {**PROMPT, "schema_version": 2})
    with pytest.raises(DataError, match="has schema_version 2, but this version of harness reads 1"):
        shown(tmp_path)


RECORD = make_record("os/dev/1", Status.PASSED, metrics={"rounds": 1})


def page(folder: Path, record: AttemptRecord = RECORD) -> str:
    summary = Summary(1, 1, 1, 1.0, {1: 1.0}, {Status.PASSED: 1}, {})
    return render_html(manifest={}, summary=summary, attempts=[record], folder=folder)


def test_the_page_has_the_transcript_of_an_attempt_that_acted(tmp_path: Path) -> None:
    kept(tmp_path, PROMPT, MODEL, {**CALL, "observation": "</pre><script>alert(1)</script>\x1b[2J"})
    html = page(tmp_path)
    (row,) = read_page_data(html)["attempts"]
    assert [block["role"] for block in row["blocks"]][:2] == ["prompt", "request"]
    assert row["blocks"][-1]["text"] == "</pre><script>alert(1)</script>\\x1b[2J"
    assert "<script>alert" not in html
    (row,) = read_page_data(page(tmp_path, replace(RECORD, metrics={})))["attempts"]
    assert [block["role"] for block in row["blocks"]] == ["prompt"]


def test_the_page_cuts_a_long_transcript_and_names_its_file(tmp_path: Path) -> None:
    kept(tmp_path, *[{**CALL, "observation": "y" * 5000}] * 30)
    html = page(tmp_path)
    (row,) = read_page_data(html)["attempts"]
    assert 5_000 < len(json.dumps(row["blocks"])) < 30_000
    assert "the rest is in transcripts/os%2Fdev%2F1-0.jsonl" in html


def test_a_broken_transcript_does_not_break_the_page(tmp_path: Path) -> None:
    kept(tmp_path, PROMPT)
    (path,) = (tmp_path / "transcripts").iterdir()
    path.write_text("[]\n")
    assert "The transcript cannot be read: " in page(tmp_path)
