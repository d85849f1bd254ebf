"""The procedures of a database. Each one is a job that runs a routine of `database`."""

from __future__ import annotations

import functools

from harness.sandbox.guest import processes

from . import translator
from .database import ROUTINES
from .query_process import QueryProcess
from .routine_job import RoutineJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from harness.sandbox.guest.kernel import Kernel, Request
    from harness.sandbox.guest.users import User

    from .messages import ResetReply, RunRoutine


def install(kernel: Kernel) -> None:
    """Add a procedure for each routine to the kernel."""
    server = Server(kernel)
    for name in ROUTINES:
        kernel.add_procedure(name, functools.partial(server.run_routine, name))
    kernel.add_procedure("reset", server.reset)


class Server:
    """Runs the routines, and keeps a process for the agent's queries."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._process: QueryProcess | None = None

    def run_routine(self, name: str, request: Request) -> None:
        """Run a routine, as the agent or as a user that the agent never was."""
        asked: RunRoutine = request.fields  # type: ignore[assignment]
        if asked["translates"]:
            translator.load(for_children=True)
        if ROUTINES[name].is_of_agent:
            self._run_as_agent(name, request)
        else:
            self._run_apart(name, request)

    def reset(self, request: Request) -> None:
        """Remove the agent's user with its processes and files; answer whether nothing of it is left.

        The next routine gets a new user. The id of a user is never used twice in a container.
        """
        self._end_process()
        agent, self._kernel.agent = self._kernel.agent, None
        clean = (
            not self._kernel.jobs
            and (agent is None or self._kernel.users().close(agent))
            and processes.end_everyone()
        )
        self._kernel.loop.reap()
        reply: ResetReply = {"clean": clean}
        request.answer(reply)

    def _run_as_agent(self, name: str, request: Request) -> None:
        agent = self._kernel.agent_user()
        limits = request.fields["limits"]
        process, self._process = self._process, None
        if process is not None and (name != "query" or not process.fits(agent, limits)):
            process.end()
            process = None

        def finish(reply: dict[str, Any], body: bytes) -> None:
            request.finish(reply, body)
            if process is not None and job.stays:
                self._end_process()
                self._process = process
            else:
                # The host waits no longer, and the agent thinks.
                self._kernel.loop.after(0.0, lambda: self._prepare(agent, limits, translated=job.translated))

        job = RoutineJob(
            *(self._kernel.loop, request.fields, request.body, ROUTINES[name], agent, agent),
            request.is_alone,
            finish,
            process,
        )
        request.keep(job)

    def _run_apart(self, name: str, request: Request) -> None:
        """Run a routine as a user that the agent never was. No process of the agent lives meanwhile.

        Raises RuntimeError if a process of the agent cannot be ended.
        """
        self._end_process()
        agent = self._kernel.agent_user()
        if not processes.end_processes(frozenset((agent.uid,))):
            raise RuntimeError("a process of the agent could not be ended")
        user = self._kernel.users().open()
        finished = _closing(self._kernel, user, request.finish)
        request.keep(
            RoutineJob(
                *(self._kernel.loop, request.fields, request.body, ROUTINES[name], user),
                *(agent, _is_alone, finished),
            )
        )

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def _prepare(self, agent: User, limits: dict[str, Any], *, translated: bool) -> None:
        """Prepare for the agent's next call, unless there is already another one."""
        if translated:
            translator.load(for_children=True)
        if self._process is not None or self._kernel.jobs or self._kernel.agent is not agent:
            return
        try:
            self._process = QueryProcess(self._kernel.loop, agent, limits)
        except OSError:
            pass  # the next call reports that no process can be started


def _is_alone() -> bool:
    """Return True, because a user that exists for one job has no other job."""
    return True


def _closing(
    kernel: Kernel, user: User, finished: Callable[[dict[str, Any], bytes], None]
) -> Callable[[dict[str, Any], bytes], None]:
    def close(reply: dict[str, Any], body: bytes) -> None:
        # The reply that reports a fault of the machine has no other key.
        reply["clean"] = kernel.users().close(user) and reply.get("clean", False)
        finished(reply, body)

    return close
