"""The transcripts of attempts on a node, which wait there until the process of the run has them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.evaluation.storage import StorageError
from harness.evaluation.transcript_file import TranscriptFile

# The most bytes of a transcript in one report.
PART_BYTES = 1024 * 1024


class NodeTranscripts:
    """Holds the transcript of each attempt under way. Implements `KeepsTranscripts`."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], NodeTranscript] = {}

    def begin_transcript(self, task_id: str, attempt: int) -> NodeTranscript:
        self.close(task_id, attempt)
        begun = self._open[task_id, attempt] = NodeTranscript()
        return begun

    def read(self, task_id: str, attempt: int) -> tuple[bytes, bool]:
        """Return the next unread bytes of a transcript, and whether they are its first ones."""
        found = self._open.get((task_id, attempt))
        return (b"", False) if found is None else found.read()

    def close(self, task_id: str, attempt: int) -> None:
        """Forget a transcript."""
        found = self._open.pop((task_id, attempt), None)
        if found is not None:
            found.close()


class NodeTranscript(TranscriptFile):
    """A transcript in a file without a name, so that nothing of it is left if this process is killed."""

    def __init__(self) -> None:
        super().__init__(Path(tempfile.gettempdir(), "transcript"))
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  because it lives as long as the attempt
        self._written = 0
        self._read = 0

    def _append(self, line: str) -> None:
        try:
            self._file.seek(self._written)
            self._file.write(line.encode("ascii"))
        except OSError as error:
            folder = tempfile.gettempdir()
            raise StorageError(f"{folder} of the node cannot be written: {error.strerror}") from error
        self._written += len(line)

    def read(self) -> tuple[bytes, bool]:
        """Return the next unread bytes, at most PART_BYTES, and whether they are the first ones."""
        is_first = self._read == 0
        self._file.seek(self._read)
        part = self._file.read(min(PART_BYTES, self._written - self._read))
        self._read += len(part)
        return part, is_first

    def close(self) -> None:
        self._file.close()
