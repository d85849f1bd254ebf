"""The values of the page of one attempt: its verdict, its texts and its figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.evaluation.run_files import has_run_file, split_nested
from harness.evaluation.run_names import is_running
from harness.evaluation.stage_file import ActiveStage, read_stages
from harness.evaluation.transcripts import find_transcript
from harness.reports.figures import duration
from harness.reports.html_attempts import flatten
from harness.text import escape_terminal, escape_text
from harness.types import AttemptRecord
from harness.viewer.attempt_index import AttemptIndex, IndexedAttempts
from harness.viewer.catalogue import UnknownRunError
from harness.viewer.transcript_follower import show_text

_FACT_CHARACTERS = 4000


def describe_attempt(
    folder: Path, index: AttemptIndex, indexed: IndexedAttempts, task_id: str, attempt: int
) -> dict[str, Any]:
    """Return the values of an attempt. One that is under way has a transcript and no record.

    Raises:
        UnknownRunError: there is neither a record nor a transcript of the attempt.
        UsageError: the record cannot be read.
    """
    head = {"name": escape_text(task_id), "attempt": attempt}
    row = indexed.find(task_id, attempt)
    if row is None:
        if not has_run_file(*split_nested(find_transcript(folder, task_id, attempt))):
            raise UnknownRunError("this run has no such attempt, or none yet")
        state = _describe_state(folder, task_id, attempt)
        return {**head, "status": None, "state": state, "texts": [], "facts": []}
    record = read_record(index, int(indexed.offsets[row]))
    return {
        **head,
        "status": record.status.value,
        "category": escape_text(record.category or ""),
        "duration": duration(record.duration_seconds),
        "texts": [
            {"label": label, **show_text(text), "elsewhere": more}
            for label, text, more in _list_texts(record)
        ],
        "facts": [
            (escape_terminal(name, 200), escape_terminal(text, _FACT_CHARACTERS))
            for name, text in _list_facts(record)
            if text != "null"
        ],
    }


def _describe_state(folder: Path, task_id: str, attempt: int) -> str:
    """Return the state of an attempt that has no record, such as `under way, acting`."""
    if not is_running(folder):
        return "interrupted"
    active = read_stages(folder).attempts.get((task_id, attempt))
    return "under way" if active is None else f"under way, {describe_stage(active)}"


def describe_stage(active: ActiveStage) -> str:
    """Return the stage of an attempt under way, with the node that makes it."""
    return active.stage if active.place is None else f"{active.stage} on {escape_text(active.place)}"


def read_record(index: AttemptIndex, offset: int) -> AttemptRecord:
    """Return a whole record. Raises UsageError if it is no longer at its place."""
    try:
        return index.read(offset)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError("the record has changed while it was read", hint="reload the page") from error


def _list_texts(record: AttemptRecord) -> Iterator[tuple[str, str, int]]:
    """Yield the label and the text of each text that is not empty, and the characters that it lacks."""
    output, left_out = record.agent_output, record.agent_output_cut
    if record.agent_output_full is not None:
        output, left_out = record.agent_output_full, 0
    if record.error:
        yield "evidence", record.error, 0
    if record.submission:
        yield "program or answer", record.submission, 0
    if output and output.strip() != (record.submission or "").strip():
        yield "agent output", output, left_out
    if record.expected_output:
        yield "expected", record.expected_output, record.expected_output_cut


def _list_facts(record: AttemptRecord) -> Iterator[tuple[str, str]]:
    facts = {"score": record.score, "sample line": record.sample_line, "started at": record.started_at}
    yield from flatten(facts | dict(record.metrics))
