"""Record the functions of `harness/` that one command enters on the host, in all of its threads.

Run as a program, it is `harness` under a profiler: `python recorder.py OUTPUT grade -b humaneval ...`. It
records from the start. A signal USR1 lets it forget what it has recorded, and USR2 lets it write the output
at once. Otherwise it writes at its end. Comprehensions, lambdas and the bodies of classes do not count.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import runpy
import signal
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_FUNCTION = inspect.CO_NEWLOCALS | inspect.CO_OPTIMIZED


class Recorder:
    """The functions that were entered since the last `clear`, in the order of their first entry."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root}/"
        self._seen: dict[CodeType, None] = {}
        self._last: str | None = None
        self._changes = 0

    def clear(self) -> None:
        self._seen.clear()
        self._last, self._changes = None, 0

    def start(self) -> None:
        """Record this thread and each that is started later."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def count(self) -> dict[str, Any]:
        """Return the numbers of functions, files, and changes from one file to another."""
        functions = [f"{code.co_filename.removeprefix(self._root)}:{code.co_qualname}" for code in self._seen]
        files = {code.co_filename for code in self._seen}
        return {
            "functions": len(functions),
            "files": len(files),
            "changes": self._changes,
            "order": functions,
        }

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self._root):
            return
        if code.co_name.startswith("<") or code.co_flags & _FUNCTION != _FUNCTION:
            return
        if code.co_filename != self._last:
            self._changes, self._last = self._changes + 1, code.co_filename
        self._seen[code] = None


def main() -> None:
    output, sys.argv = Path(sys.argv[1]), ["harness", *sys.argv[2:]]
    import harness

    recorder = Recorder(Path(harness.__file__).parent)
    # The agent of the walk through a tool call finds the recorder here.
    sys.modules["recorder"] = sys.modules[__name__]
    globals()["recorder"] = recorder
    own = os.getpid()

    def write() -> None:
        if os.getpid() == own:
            output.write_text(json.dumps(recorder.count()))

    def end() -> None:
        if not output.exists():
            write()

    atexit.register(end)
    signal.signal(signal.SIGUSR1, lambda *_: recorder.clear())
    signal.signal(signal.SIGUSR2, lambda *_: write())
    recorder.start()
    runpy.run_module("harness", run_name="__main__")


if __name__ == "__main__":
    main()
