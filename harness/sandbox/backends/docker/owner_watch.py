"""A process that removes our containers if our own process ends before it has removed them itself.

Our process may be killed, or an interrupt may hit its end. In any other case the watch ends with it.

The engine's own AutoRemove would also remove them, but it does harm. It removes a container as soon as PID 1
has ended, and with it the only record of whether the kernel killed PID 1 for memory. On a busy machine our
question for that record comes too late, and a `memory_limit` becomes an `infra_error`. AutoRemove also
collides with our own removal, which the engine refuses (409) meanwhile.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading

# A shell, because it takes a millisecond and a megabyte. A second Python would take hundreds of milliseconds
# and ten megabytes. The shell reads the one line that we write at our end. Without that line, we were killed.
_SCRIPT = 'read -r line && exit 0; exec "$@"'
# A shell that is no child of this process. The first shell ends at once.
_SCRIPT_APART = 'exec 3<&0; { read -r line <&3 && exit 0; exec "$@"; } &'
_COLLECT = ("-P", "-c", "from harness.cli.entry import main; main()", "gc")
_END_SECONDS = 1.0

_starting = threading.Lock()
_watched_pid: int | None = None
# The names of the containers that this process has to remove.
_unremoved: set[str] = set()


def expect_removal(name: str) -> None:
    """Leave the removal of this container to the watch unless `note_removal` is called for it."""
    _unremoved.add(name)


def note_removal(name: str) -> None:
    """Note that this container is gone."""
    _unremoved.discard(name)


def watch_owner(*, is_apart: bool = False) -> None:
    """Start the process that runs `harness gc` if this one leaves containers, unless it is already there.

    With `is_apart` it is no child of this process. A supervisor such as Ray kills the children together with
    this process.

    No error is raised if it cannot be started, because the next run or `harness gc` removes the same
    containers.
    """
    global _watched_pid
    with _starting:
        if _watched_pid == os.getpid() or not sys.executable:
            return
        _watched_pid = os.getpid()
        _unremoved.clear()  # those of the process of which this one is a fork
        with contextlib.suppress(OSError):
            atexit.register(_dismiss, _start(is_apart=is_apart), os.getpid())


def _start(*, is_apart: bool = False) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", _SCRIPT_APART if is_apart else _SCRIPT, "sh", sys.executable, *_COLLECT],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Ctrl-C, or a kill of our whole process group, must not reach the watch.
        start_new_session=True,
    )


def _dismiss(watch: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:  # a fork of the owner, which ends earlier
        return
    if _unremoved and watch.stdin is not None:
        # Only the end of this process closes the copy. The collector spares containers of living owners.
        os.dup(watch.stdin.fileno())
        return
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        watch.communicate(b"ended\n", timeout=_END_SECONDS)
