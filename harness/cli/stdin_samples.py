"""Samples on standard input, for `--samples -`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from harness.core.errors import HarnessError, UsageError
from harness.core.inputs.files import MAX_DATA_BYTES, MIB
from harness.runs.settings import RunConfig
from harness.sandbox.host_programs.folders import open_folder

STDIN = "-"


@contextlib.contextmanager
def store_stdin_samples(config: RunConfig) -> Iterator[RunConfig]:
    """Yield a config whose samples are a temporary file with the content of standard input.

    The run folder keeps a copy of the file, because a resumed run cannot read standard input again. An error
    that leaves the block names standard input instead of the file. Raises UsageError if standard input
    cannot be read.
    """
    if config.samples != STDIN:
        yield config
        return
    if sys.stdin is None:
        raise UsageError("--samples -: there is no standard input", hint="name a file: --samples FILE.jsonl")
    # `harness gc` removes the folder if this process is killed.
    with open_folder() as folder:
        path = folder.path / "standard-input.jsonl"
        try:
            with open(path, "wb") as file:
                left = MAX_DATA_BYTES
                while left and (chunk := sys.stdin.buffer.read(min(left, MIB))):
                    left -= file.write(chunk)
                if not left and sys.stdin.buffer.read(1):
                    raise UsageError(f"--samples -: holds more than {MAX_DATA_BYTES:,} bytes")
        except OSError as error:
            raise UsageError(f"--samples -: standard input cannot be read: {error.strerror}") from error
        try:
            yield config.model_copy(update={"samples": str(path)})
        except HarnessError as error:
            error.message = error.message.replace(str(path), "standard input")
            raise
