"""Writing a whole file in one step, and the error of a file that cannot be written."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from harness.errors import HarnessError
from harness.text import quote_argument


class StorageError(HarnessError):
    """The run folder can no longer be written, so the run stops. Finished attempts stay stored."""

    exit_code = 3


@contextmanager
def replace_file(path: Path, *, resumed: Path | None = None) -> Iterator[TextIO]:
    """Yield a temporary file, and move it to `path` once it is complete.

    Raises StorageError. Its hint is to resume the run in the folder `resumed`, which writes the file again.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        # It must be new, because a link of its name could lead elsewhere.
        with open(temporary, "x", encoding="utf-8", errors="backslashreplace") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        hint = None if resumed is None else advise_resume(resumed, error)
        raise StorageError(f"{path}: cannot be written: {error.strerror}", hint=hint) from error
    finally:
        temporary.unlink(missing_ok=True)


def advise_resume(folder: Path, error: OSError) -> str:
    """Return the hint for a run folder that could not be written."""
    return f"{find_remedy(error)}, then run: harness run --resume {quote_argument(folder)}"


def find_remedy(error: OSError) -> str:
    """Return what the user can do about a file that could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "make room"
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return "replace the link with a file"
    return "make the run folder writable"
