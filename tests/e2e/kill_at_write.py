"""Kill this process with SIGKILL just before its n-th change of a folder, or count the changes.

The fork server runs this program before a command that has it in RUN_FIRST. KILL_FOLDER is the folder, and
KILL_AT the number of the change, from 1. With 0, the number of changes is written to KILL_COUNT at the end.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from pathlib import Path
from typing import Any

FOLDER, KILL_AT = os.environ["KILL_FOLDER"], int(os.environ["KILL_AT"])
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
changes = 0


def count_change(event: str, arguments: tuple[Any, ...]) -> None:
    global changes
    if event not in CHANGES and not (event == "open" and (arguments[2] or 0) & WRITING):
        return
    path = arguments[0]
    if isinstance(path, int) or not os.path.abspath(os.fsdecode(path)).startswith(FOLDER):
        return
    changes += 1
    if changes == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)


sys.addaudithook(count_change)
if KILL_AT == 0:
    counted = Path(os.environ["KILL_COUNT"])
    atexit.register(lambda: counted.write_text(str(changes)))
