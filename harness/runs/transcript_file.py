"""The file of an attempt's transcript: its name, its bound, and how entries are added."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from harness.core.types import Task, Transcript
from harness.runs.run_files import (
    StorageError,
    advise_resume,
    append_to_run_file,
    create_run_file,
    split_nested,
)

# The version of the entries in a transcript, which its first entry states.
TRANSCRIPT_SCHEMA_VERSION = 1
# The most bytes of the transcript of one attempt.
MAX_TRANSCRIPT_BYTES = 128 * 1024 * 1024
# The part of it for the entries that describe the end of the attempt. Both outputs of a program fit.
END_BYTES = 2 * 1024 * 1024
# The most bytes of a task id in the name of a transcript. A file name may have 255.
MAX_QUOTED_ID = 200


class KeepsTranscripts(Protocol):
    """Keeps the transcripts of attempts, as a run folder does."""

    def begin_transcript(self, task_id: str, attempt: int) -> Transcript:
        """Return the transcript of an attempt that begins. It replaces an earlier try's."""


def begin_transcript(kept: KeepsTranscripts, task: Task, attempt: int) -> Transcript:
    """Return the transcript of an attempt that begins, with its first entry. Raises StorageError."""
    transcript = kept.begin_transcript(task.id, attempt)
    transcript.write({"schema_version": TRANSCRIPT_SCHEMA_VERSION, "prompt": task.prompt})
    return transcript


class TranscriptFile:
    """The transcript of one attempt. Each entry is a line of JSON.

    The first entry replaces the file of an earlier try. The file is open only during a write, because
    concurrent attempts would otherwise hold more files open than a process may.

    A program of an agent can cause entries without end, and a full disk would end the run. So an entry that
    does not fit into MAX_TRANSCRIPT_BYTES is left out, and so are all later ones, which an entry shows. The
    last END_BYTES of it are for the entries that describe the end of the attempt.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_begun = False
        self._bytes = 0
        self._is_full = False

    def write(self, entry: Mapping[str, Any], *, is_end: bool = False) -> None:
        """Add an entry with its time. A value that JSON cannot hold is written as its `str`.

        Raises StorageError.
        """
        if self._is_full and not is_end:
            return
        # The line is ASCII.
        line = json.dumps({**entry, "time": round(time.time(), 4)}, default=str) + "\n"
        limit = MAX_TRANSCRIPT_BYTES if is_end else MAX_TRANSCRIPT_BYTES - END_BYTES
        if self._bytes + len(line) > limit:
            if self._is_full:
                return
            self._is_full = True
            text = f"the transcript is full: its limit is {MAX_TRANSCRIPT_BYTES:,} bytes"
            line = json.dumps({"kind": "full", "text": text}) + "\n"
        self._bytes += len(line)
        self._append(line)

    def _append(self, line: str) -> None:
        """Write a line to the file. Raises StorageError."""
        try:
            with os.fdopen(self._open(), "w", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise StorageError(
                f"{self._path}: cannot be written: {error.strerror}",
                hint=advise_resume(self._path.parents[1], error),
            ) from error
        self._is_begun = True

    def _open(self) -> int:
        place = split_nested(self._path)
        if self._is_begun:
            with suppress(FileNotFoundError):  # the user has removed the folder of the transcripts
                return append_to_run_file(*place)
        return create_run_file(*place)


def transcript_name(task_id: str, attempt: int) -> str:
    """Return the file name of an attempt's transcript. Any text may be a task id, so it is quoted.

    A quoted id that is too long for a file name is cut. It then ends in digits of the id's SHA-256, because
    two long ids may begin alike.
    """
    quoted = quote(task_id, safe="", errors="surrogatepass")
    if len(quoted) > MAX_QUOTED_ID:
        digest = hashlib.sha256(task_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        quoted = f"{quoted[: MAX_QUOTED_ID - len(digest) - 1]}-{digest}"
    return f"{quoted}-{attempt}.jsonl"
