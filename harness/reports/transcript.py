"""The transcript of an attempt, read from its file and printed for a terminal or a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from harness.errors import DataError
from harness.evaluation.run_files import has_run_file, split_nested
from harness.evaluation.store import TRANSCRIPTS
from harness.evaluation.transcript_file import transcript_name
from harness.evaluation.transcripts import find_transcript, read_entries, read_numbered_entries
from harness.reports.blocks import SHOWN_CHARACTERS, print_line, print_text, write
from harness.reports.console import open_console
from harness.reports.transcript_entries import Block, describe_entries
from harness.types import AttemptRecord

if TYPE_CHECKING:
    from rich.console import Console

# The metrics of attempts that asked a model or called a tool.
_ACTED = {"model_requests", "rounds"}
# The most characters of one text in an excerpt.
_EXCERPT_CHARACTERS = 2000


def print_transcript(
    folder: Path, task_id: str, attempt: int, *, stream: TextIO, limit: int = SHOWN_CHARACTERS
) -> bool:
    """Print the transcript of an attempt in a run folder, and return whether the attempt has one.

    At most `limit` characters of each text are shown. Raises DataError, with file and line, if the transcript
    cannot be read.
    """
    blocks = read_transcript(folder, task_id, attempt)
    if blocks is None:
        return False
    console = open_console(stream)
    file = find_transcript(folder, task_id, attempt)
    with console.capture() as capture:
        for block in blocks:
            _print_block(console, block, limit, file)
    write(capture.get(), stream)
    return True


def read_transcript(folder: Path, task_id: str, attempt: int) -> Iterator[Block] | None:
    """Return the blocks of the transcript of an attempt in a run folder, None if the attempt has none.

    The iterator raises DataError, with file and line, if the transcript cannot be read.
    """
    path = find_transcript(folder, task_id, attempt)
    return describe_entries(read_entries(path)) if has_run_file(*split_nested(path)) else None


def excerpt_transcript(folder: Path, record: AttemptRecord, characters: int) -> list[Block]:
    """Return the first blocks of the transcript of an attempt that asked a model or called a tool.

    Other attempts have no block, because the report shows their answer anyway. The last block reports a cut
    after `characters`, or a transcript that cannot be read.
    """
    if not record.metrics.keys() & _ACTED:
        return []
    excerpt: list[Block] = []
    try:
        for block in read_transcript(folder, record.task_id, record.attempt) or ():
            characters -= len(block.heading) + min(len(block.text or ""), _EXCERPT_CHARACTERS)
            if characters < 0:
                name = transcript_name(record.task_id, record.attempt)
                return [*excerpt, Block(f"... (the rest is in {TRANSCRIPTS}/{name})")]
            excerpt.append(replace(block, limit=min(block.limit or _EXCERPT_CHARACTERS, _EXCERPT_CHARACTERS)))
    except DataError as error:
        excerpt.append(Block(f"The transcript cannot be read: {error.message}"))
    return excerpt


def read_prompt(folder: Path, record: AttemptRecord) -> str | None:
    """Return the prompt of an attempt, None if it has no transcript that can be read."""
    path = find_transcript(folder, record.task_id, record.attempt)
    if not has_run_file(*split_nested(path)):
        return None
    try:
        with closing(read_numbered_entries(path)) as entries:
            _, first = next(entries, (0, {}))
    except DataError:
        return None
    prompt = first.get("prompt")
    return prompt if isinstance(prompt, str) else None


def _print_block(console: Console, block: Block, limit: int, file: Path) -> None:
    if block.heading:
        print_line(console, ("\n" if block.begins_entry else "") + block.heading, block.heading_style)
    if block.text is not None:
        most = limit if block.limit is None else min(limit, block.limit)
        print_text(console, block.text, most, indent=block.indent, style=block.style, file=file)
