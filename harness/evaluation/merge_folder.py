"""The folder that a merge writes. It gets the name of a run folder only when it is complete."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.evaluation.run_files import has_run_file
from harness.evaluation.run_names import UNFINISHED_MERGE
from harness.evaluation.storage import StorageError
from harness.evaluation.store import ATTEMPTS, RunStore, make_run_folder

# A merge locks its folder long before that.
_START_SECONDS = 60.0
_HINT = "make room, or choose another folder with --output-dir DIR"


@contextmanager
def open_merge_folder(output_dir: Path, benchmark: str, metrics: Sequence[str]) -> Iterator[RunStore]:
    """Yield the store of a new folder, which becomes a run folder at the end of the block.

    An error removes the folder. The folder of a merge that was killed has a hidden name, by which no command
    finds it, and the next merge to the same place removes it.

    Raises:
        UsageError: if the folder cannot be made.
        StorageError: if it cannot be written. It has a hint.
    """
    _remove_dead_folders(output_dir)
    folder = make_run_folder(output_dir, benchmark, prefix=UNFINISHED_MERGE)
    try:
        store = RunStore(folder, metrics=metrics)
        try:
            yield store
            store.move_to(find_final_folder(store))
        except BaseException:
            store.close()
            raise
    except StorageError as error:
        _remove(folder)
        raise StorageError(error.message, hint=_HINT) from error
    except BaseException:
        _remove(folder)
        raise


def find_final_folder(store: RunStore) -> Path:
    """Return the path that the folder of a merge gets when it is complete."""
    return store.folder.with_name(store.folder.name.removeprefix(UNFINISHED_MERGE))


def _remove_dead_folders(output_dir: Path) -> None:
    for folder in output_dir.glob(f"{UNFINISHED_MERGE}*"):
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A merge makes this file after it has locked its folder.
                is_old = time.time() - os.fstat(descriptor).st_mtime > _START_SECONDS
                if is_old or has_run_file(folder, ATTEMPTS):
                    _remove(folder)
            finally:
                os.close(descriptor)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
