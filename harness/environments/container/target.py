"""The plain data of a task folder: the set-up for the agent's machine, and the target for the grader.

Both name the folder, and each process reads it again with `read_task_folder`. So no file of `tests/` or
`solution/` is part of a task.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.environments.container.seal import LEVELS

# The metric that a run sums up, which is a number: from 1, the place in this list.
SEAL_NUMBER, UNPROVEN = "seal_number", "unproven"
NUMBERED = (*(level for level in LEVELS if level != "proxied"), UNPROVEN, "proxied")
# The metric of a task whose tests run code of the agent in their own process.
SAME_PROCESS = "same_process"


@dataclass(frozen=True, slots=True)
class TaskFolderSetup:
    """The machine of a task folder, as the setup of a task."""

    # The absolute path of the folder.
    folder: str
    # The digest of the folder when it was loaded, `sha256:` and 64 hex digits (`TaskFolder.digest`).
    digest: str
    # The variables of this process that the templates of the folder may use (`resolve_env`).
    pass_env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskFolderTarget:
    """The tests of a task folder, as the target of a reference. Its first fields are TaskFolderSetup's."""

    folder: str
    digest: str
    pass_env: tuple[str, ...] = ()
    # The least reward that passes.
    pass_at: float = 1.0
