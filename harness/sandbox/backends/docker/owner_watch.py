"""A process that removes our containers if our own process ends before it has removed them itself.

Our process may be killed, or an interrupt may hit its end. In any other case the watch ends with it.

The engine's own AutoRemove would also remove them, but it does harm. It removes a container as soon as PID 1
has ended, and with it the only record of whether the kernel killed PID 1 for memory. On a busy machine our
question for that record comes too late, and a `memory_limit` becomes an `infra_error`. AutoRemove also
collides with our own removal, which the engine refuses (409) meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading

# A shell, because it takes a millisecond and a megabyte. A second Python would take hundreds of milliseconds
# and ten megabytes. It reads a line for each change: 1 if containers remain, and 0 if none does. Its stdin
# ends with our process.
#
# The first shell ends at once, so that the watch is no child of ours. A supervisor such as Ray kills our
# children together with us, and a program that waits for all of its children must not wait for this one.
_SCRIPT = """
exec 3<&0 0</dev/null
pauses=$1
shift
{
    remains=0
    while read -r line <&3; do remains=$line; done
    [ "$remains" = 0 ] && exit
    exec 3<&-
    for pause in $pauses; do
        sleep "$pause"
        "$@" && exit
    done
} &
"""
_COLLECT = ("-P", "-c", "from harness.cli.entry import main; main()", "gc")
# Seconds before each try. The engine may be restarting.
_PAUSES = "0 5 30 120"
_SEND_FLAGS = getattr(socket, "MSG_NOSIGNAL", 0) | socket.MSG_DONTWAIT

# The same thread can take it twice, because a signal handler may fork while its thread holds it.
_lock = threading.RLock()
# Our end of the watch, and the names of the containers that this process has to remove.
_watch: socket.socket | None = None
_unremoved: set[str] = set()


def expect_removal(name: str) -> None:
    """Leave the removal of this container to the watch unless `note_removal` is called for it.

    Call it before the container is created. If no watch can be started, no error is raised, because the next
    run or `harness gc` removes the same containers.
    """
    global _watch
    with _lock:
        _unremoved.add(name)
        if _report() or not sys.executable:
            return
        with contextlib.suppress(OSError):
            _watch = _start()
            _report()


def note_removal(name: str) -> None:
    """Note that this container is gone."""
    with _lock:
        _unremoved.discard(name)
        _report()


def _report() -> bool:
    """Report to the watch whether containers remain; return whether it is alive. Close our end if not."""
    global _watch
    if _watch is None:
        return False
    try:
        _watch.send(b"1\n" if _unremoved else b"0\n", _SEND_FLAGS)
    except OSError:
        _watch.close()
        _watch = None
    return _watch is not None


def _start() -> socket.socket:
    """Start a watch and return our end of it. Raises OSError."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            first = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "sh", _PAUSES, sys.executable, *_COLLECT],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Ctrl-C, or a kill of our whole process group, must not reach the watch.
                start_new_session=True,
            )
            first.wait()
        except BaseException:
            ours.close()
            raise
    return ours


def _forget_parent() -> None:
    """Make a fork forget the watch and the containers of its parent."""
    global _lock, _watch
    _lock = threading.RLock()
    _unremoved.clear()
    if _watch is not None:
        # The end of the parent must close the last copy.
        _watch.close()
        _watch = None


# A fork waits while another thread starts a watch, because it would keep copies of that thread's sockets.
os.register_at_fork(
    before=lambda: _lock.acquire(),
    after_in_parent=lambda: _lock.release(),
    after_in_child=_forget_parent,
)
