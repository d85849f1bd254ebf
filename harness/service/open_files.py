"""The limit of open files, which bounds the connections of the service before its own bounds do.

A shell and systemd start a process with a limit of 1,024, and let it raise this limit itself.
"""

from __future__ import annotations

import errno
import resource

# Those of sandboxes, their streams, the engine and modules that are imported late.
_OTHER_FILES = 1024


def raise_limit(connections: int) -> str | None:
    """Raise the limit of open files of this process as far as so many connections need it.

    Returns a warning if the limit stays too low for them, otherwise None.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return None
    limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if limit > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    if limit == needed:
        return None
    return (
        f"this process may open {limit:,} files, which is too few for {connections:,} connections; "
        f"raise the limit to {needed:,} (ulimit -n, or LimitNOFILE of systemd)"
    )


def is_exhausted(error: BaseException) -> bool:
    """Return whether an error says that no more files can be opened."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
