"""Follow the transcript of an attempt while it grows, as blocks of text that are safe to show."""

from __future__ import annotations

import io
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.inputs.files import MAX_DATA_BYTES, MAX_LINE_BYTES
from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.core.text import escape_text
from harness.reports.page_values import describe_blocks
from harness.reports.transcript_entries import Block, ShownTexts, describe_entry
from harness.runs.run_files import open_run_file, split_nested
from harness.runs.transcripts import TRANSCRIPT_SCHEMA_VERSION

MOST_BLOCKS = 200
"""The most blocks of one answer."""

# The characters of all blocks that stay in memory.
_ALL_CHARACTERS = 32_000_000
_MOST_FOLLOWED = 4
# As in harness/runs/transcripts.py.
_MAX_DIGITS = 4300
# The first entry has the time of the start, so that a second try of the attempt begins in another way.
_BEGINNING_BYTES = 4096


@dataclass(frozen=True, slots=True)
class _Beginning:
    identity: tuple[int, int]
    data: bytes


class TranscriptFollower:
    """The blocks of one transcript, read as far as its last whole line. Several threads may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        # How often the transcript has begun again, because the attempt has.
        self._generation = -1
        self._start_again(None)

    def _start_again(self, beginning: _Beginning | None) -> None:
        self._beginning = beginning
        self._generation += 1
        self._blocks: list[dict[str, Any]] = []
        self._shown = ShownTexts()
        self._offset = self._line = self._characters = 0
        self._has_ended = False

    def read(self, first: int, generation: int) -> dict[str, Any]:
        """Return the blocks from number `first` on, and where to continue.

        Args:
            first: the number of the first block, from 0.
            generation: the generation that the caller has read so far. If the transcript has begun again
                since, the blocks start from 0.
        """
        with self._lock:
            try:
                with open_run_file(*split_nested(self._path), max_bytes=MAX_DATA_BYTES) as stream:
                    self._advance(stream, first + MOST_BLOCKS + 1)
            except FileNotFoundError:
                return {"generation": self._generation, "first": 0, "blocks": [], "has_more": False}
            except OSError as error:
                self._end(f"The transcript cannot be read: {error.strerror}")
            if generation != self._generation:
                first = 0
            return {
                "generation": self._generation,
                "first": first,
                "blocks": self._blocks[first : first + MOST_BLOCKS],
                "has_more": len(self._blocks) > first + MOST_BLOCKS,
            }

    def _advance(self, stream: io.BufferedReader, most: int) -> None:
        facts = os.fstat(stream.fileno())
        found = _Beginning((facts.st_dev, facts.st_ino), os.pread(stream.fileno(), _BEGINNING_BYTES, 0))
        before = self._beginning
        if (
            before is None
            or before.identity != found.identity
            or not found.data.startswith(before.data)
            or facts.st_size < self._offset
        ):
            self._start_again(found)
        else:
            self._beginning = found
        stream.seek(self._offset)
        while not self._has_ended and len(self._blocks) < most:
            line = stream.readline(MAX_LINE_BYTES + 1)
            if not line.endswith(b"\n"):
                if len(line) > MAX_LINE_BYTES:
                    self._end(f"Line {self._line + 1} of the transcript is too long to be shown.")
                return
            self._offset += len(line)
            self._line += 1
            self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            entry = parse_json(line, max_digits=_MAX_DIGITS, allow_nan=True)
        except BrokenJSONError as error:
            self._end(f"Line {self._line} of the transcript cannot be read: {error}")
            return
        if not isinstance(entry, dict):
            self._end(f"Line {self._line} of the transcript is not an entry.")
            return
        if entry.get("schema_version", TRANSCRIPT_SCHEMA_VERSION) != TRANSCRIPT_SCHEMA_VERSION:
            self._end("The transcript has a version that this version of harness does not read.")
            return
        for shown in describe_blocks(describe_entry(entry, self._shown)):
            self._characters += len(shown["text"])
            self._blocks.append(shown)
        if self._characters > _ALL_CHARACTERS:
            self._end(f"The rest of the transcript, from line {self._line + 1} on, is in {self._path}")

    def _end(self, reason: str) -> None:
        if not self._has_ended:
            self._blocks += describe_blocks([Block(escape_text(reason), heading_style="bold yellow")])
        self._has_ended = True


class TranscriptFollowers:
    """The followers of the transcripts that were in use last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._followers: OrderedDict[Path, TranscriptFollower] = OrderedDict()

    def find(self, path: Path) -> TranscriptFollower:
        with self._lock:
            follower = self._followers.pop(path, None) or TranscriptFollower(path)
            self._followers[path] = follower
            while len(self._followers) > _MOST_FOLLOWED:
                self._followers.popitem(last=False)
            return follower
