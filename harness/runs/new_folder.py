"""The first files of a new run folder. A folder in which they cannot be written is removed."""

from __future__ import annotations

import hashlib
import os
import shutil
from io import BufferedReader
from pathlib import Path
from typing import Any

from harness.core.errors import UsageError
from harness.core.inputs.files import MAX_DATA_BYTES, MIB, open_input
from harness.runs.run_files import StorageError, create_run_file
from harness.runs.store import MANIFEST, SAMPLES, RunStore


def begin_folder(store: RunStore, manifest: dict[str, Any]) -> None:
    """Write the manifest of a new run. Raises UsageError, and removes the folder, if that fails."""
    try:
        store.write_json(MANIFEST, manifest)
    except StorageError as error:
        raise _remove_folder(store, error.message) from error


def store_samples(store: RunStore, samples: Path) -> Path:
    """Copy the user's samples to the run folder and return the path of the copy. Raises UsageError."""
    kept = store.folder.resolve() / SAMPLES
    try:
        with open_input(samples, max_bytes=MAX_DATA_BYTES) as stream:
            copy_samples(store, stream)
    except OSError as error:
        raise _remove_folder(store, f"{kept}: cannot be written: {error.strerror}") from error
    return kept


def copy_samples(store: RunStore, stream: BufferedReader) -> str:
    """Write samples to the run folder and return their SHA-256 (hex). Raises OSError."""
    digest = hashlib.sha256()
    with os.fdopen(create_run_file(store.folder, SAMPLES), "wb") as file:
        while chunk := stream.read(MIB):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def _remove_folder(store: RunStore, message: str) -> UsageError:
    """Remove the folder of a run that cannot start, and return the error to raise."""
    shutil.rmtree(store.folder, ignore_errors=True)
    return UsageError(message, hint="make room, or choose another folder with --output-dir DIR")
