"""Ask a command in a sandbox that answers line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from harness.core.errors import UsageError
from harness.environments.maths.guest.bounds import MAX_QUESTION_BYTES
from harness.sandbox.limits import bound_seconds
from harness.sandbox.results import LIMIT_NAMES
from harness.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from harness.environments.maths.guest.messages import Ask, AskReply

# The limit on a command's whole life. The command itself bounds the time of each question.
SERVICE_CPU_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """The answer of a service, a line without its newline, or None if the service ended before it answered.

    If it ended, `ended` gives the reason: a field of `Limits`, `signal`, `killed` or `exited`. `stderr` holds
    the last part of the service's stderr.
    """

    line: bytes | None
    ended: str | None = None
    exit_code: int = 0
    stderr: str = ""
    clean: bool = True


async def ask(
    sandbox: Sandbox,
    service: Sequence[str],
    question: bytes,
    *,
    timeout: float,
    start_timeout: float,
    env: Mapping[str, str] | None = None,
) -> ServiceAnswer:
    """Put a question to a trusted command that answers line by line, and return its answer.

    The first question starts the command, which runs until the sandbox ends. If the command has ended, the
    next question starts it again. A question is one line without its newline, and one question is open at a
    time. `timeout` is in seconds of wall time, and the first question has `start_timeout` seconds more. The
    guest ends a command that does not answer in time. Raises UsageError for a question of more than 48 KiB.
    """
    timeout = bound_seconds("timeout", timeout)
    longest = bound_seconds("start_timeout", timeout + start_timeout)
    if b"\n" in question or len(question) > MAX_QUESTION_BYTES:
        raise UsageError(f"a question must be one line of at most {MAX_QUESTION_BYTES} bytes")
    request: Ask = {
        "argv": list(service),
        "environment": {**sandbox.environment, **(env or {})},
        "limits": {**sandbox.job_limits(longest), "cpu_seconds": SERVICE_CPU_SECONDS},
        "wall_seconds": timeout,
        "start_seconds": longest - timeout,
    }
    # The sandbox is unclean until the answer arrives, because a cancelled question leaves its answer to the
    # next one.
    was_clean, sandbox.clean = sandbox.clean, False
    header, line = await sandbox.call("ask", request, question, timeout=longest)
    with sandbox.catch_unreadable():
        answer = read_answer(cast("AskReply", header), line)
    sandbox.clean = was_clean and answer.clean
    return answer


def read_answer(header: AskReply, body: bytes) -> ServiceAnswer:
    """Return the answer from the guest's reply, or how the command ended."""
    if "ended" not in header:
        return ServiceAnswer(body)
    facts = header["ended"]
    return ServiceAnswer(
        None,
        ended=LIMIT_NAMES.get(facts["by"], facts["by"]),
        exit_code=facts["exit_code"],
        stderr=facts["stderr"],
        clean=facts["clean"],
    )
