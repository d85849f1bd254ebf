"""Signals by their numbers, and the calls on them.

The module `signal` builds enumerations of all of them. With these and the modules behind them, every
container would start 4 ms of processor time later, and every fork would copy their pages.
"""

from __future__ import annotations

from _signal import (  # type: ignore[import-not-found]
    ITIMER_REAL,
    SIG_DFL,
    SIG_IGN,
    SIGALRM,
    SIGCHLD,
    SIGCONT,
    SIGINT,
    SIGIO,
    SIGKILL,
    SIGPIPE,
    SIGSTOP,
    SIGTERM,
    SIGXCPU,
    SIGXFSZ,
    default_int_handler,
    set_wakeup_fd,
    setitimer,
)
from _signal import signal as set_handler

__all__ = (
    "ITIMER_REAL",
    "SIGALRM",
    "SIGCHLD",
    "SIGCONT",
    "SIGINT",
    "SIGIO",
    "SIGKILL",
    "SIGPIPE",
    "SIGSTOP",
    "SIGTERM",
    "SIGXCPU",
    "SIGXFSZ",
    "SIG_DFL",
    "SIG_IGN",
    "default_int_handler",
    "set_handler",
    "set_wakeup_fd",
    "setitimer",
)
