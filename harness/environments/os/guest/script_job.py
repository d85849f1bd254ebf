"""Jobs that run trusted scripts in the agent's machine."""

from __future__ import annotations

import os
import signal

from harness.sandbox.guest import processes
from harness.sandbox.guest.jobs import CommandJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from harness.sandbox.guest.loop import Loop
    from harness.sandbox.guest.output import Output
    from harness.sandbox.guest.users import User

    from .script_confinement import ScriptConfinement


class ScriptJob(CommandJob):
    """Runs a trusted script as root, and is patient.

    The processes that it starts live on, because a task may need its daemons.
    `confinement` is None if the script may use all rights of root.
    """

    is_patient = True

    def __init__(
        self,
        loop: Loop,
        request: dict[str, Any],
        user: User,
        confinement: ScriptConfinement | None,
        finished: Callable[[dict[str, Any], bytes], None],
        *,
        stdin: bytes = b"",
    ) -> None:
        self._confinement = confinement
        super().__init__(loop, request, stdin, user, lambda: False, finished)

    def confine(self) -> None:
        if self._confinement is not None:
            self._confinement.apply()

    def _end_processes(self) -> bool:
        if self._pid is not None:
            processes.send([self._pid], signal.SIGKILL)
            try:
                os.killpg(self._pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return True

    def _close(self, output: Output) -> None:
        output.stop_keeping()
