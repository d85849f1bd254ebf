"""Find the cause of a sandbox's end: a program in the sandbox, or the engine and its users.

The engine's events decide, because no program in a sandbox can forge them. If a user of the engine ended the
container, the engine reports a `kill` before the end. If somebody outside closed the stream, or the harness
held the sandbox for too long, the guest exits with a code for that. An engine that was restarted reports no
end of the container at all. No program in a sandbox can kill PID 1. So if it was killed, and the engine
reports no lack of memory in the sandbox, the machine was short of memory, or somebody on it did that.

A sandbox that does not answer is a limit that its programs have reached only if they are measured to keep it
busy. Otherwise the machine or the engine is slow.
"""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from harness.core.errors import SandboxError
from harness.sandbox.backends.base import Cause, Fate
from harness.sandbox.backends.docker.engine import engine_answers, engine_errors
from harness.sandbox.guest.frames import DEADLINE_CODE, UNWANTED_CODE
from harness.sandbox.time_factor import extend_wait

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from docker import APIClient

# A busy engine may not answer the first question.
ASKED_TIMES = 3
EVENTS_SECONDS = 10.0
# The container ends after its stream, because the kernel may have much memory of its processes to free.
END_SECONDS = 30.0
POLL_SECONDS = 0.05
# The engine may record the event of an end a moment after it reports the container as ended.
REPORT_SECONDS = 1.0
# The engine records these events for requests of its users. No program in a container causes them.
FROM_OUTSIDE = frozenset(("kill", "pause"))
# The guest's exit codes at the end of its stream, which only somebody outside can close, at its deadline, and
# without a first request.
OF_OUTSIDE = frozenset((0, DEADLINE_CODE, UNWANTED_CODE))
KILLED = 137
KILLED_OUTSIDE = Fate(Cause.OUTSIDE, KILLED)
# Programs keep a sandbox from answering if they use this share of its processors, or of its memory.
BUSY_SHARE, FULL_SHARE = 0.5, 0.9
NANO = 1e9


def find_fate(client: APIClient, container_id: str) -> Fate:
    """Return the cause of the end of a container whose stream has ended. Waits for its end if need be.

    Raises SandboxError with `outside` set if the engine does not answer.
    """
    require_answer(client)
    deadline = time.monotonic() + extend_wait(END_SECONDS)
    while True:
        fate = _find_reported_fate(client, container_id)
        if fate is not None and fate != KILLED_OUTSIDE:
            return fate
        running, exit_code, out_of_memory = _state(client, container_id)
        if not running:
            # The engine may report the end, and a lack of memory, a moment later.
            time.sleep(extend_wait(REPORT_SECONDS))
            fate = _find_reported_fate(client, container_id)
            if fate is None or (fate == KILLED_OUTSIDE and out_of_memory):
                return _infer_fate(exit_code, out_of_memory)
            return fate
        if time.monotonic() > deadline:
            # PID 1 keeps its stream open as long as it lives, so somebody outside has closed it.
            return Fate(Cause.OUTSIDE)
        time.sleep(POLL_SECONDS)


def explain_silence(client: APIClient, container_id: str) -> Cause:
    """Return why a running container does not answer, after about a second.

    Raises SandboxError with `outside` set if the engine does not answer either.
    """
    require_answer(client)
    if any(event["Action"] in FROM_OUTSIDE for event in _events(client, container_id)):
        return Cause.OUTSIDE
    return Cause.INSIDE if keeps_busy(*_measure_use(client, container_id)) else Cause.OUTSIDE


def keeps_busy(stats: Mapping[str, Any], processors: float) -> bool:
    """Return whether the programs of a container take most of what it may have.

    `stats` are the engine's, with two measurements of the processor time about a second apart. They are empty
    for a container that is gone.
    """
    try:
        now, before = (stats[name]["cpu_usage"]["total_usage"] for name in ("cpu_stats", "precpu_stats"))
        end, start = (datetime.fromisoformat(stats[name]).timestamp() for name in ("read", "preread"))
        memory = stats["memory_stats"]
        details = memory["stats"]
        # Pages of files give way to a program that needs the memory. The names are from both cgroup versions.
        taken = memory["usage"] - details.get("total_cache", details.get("file", 0))
        is_busy = (now - before) / NANO >= BUSY_SHARE * processors * (end - start)
        return bool(is_busy or taken >= FULL_SHARE * memory["limit"])
    except (KeyError, TypeError, ValueError):
        return False


def _measure_use(client: APIClient, container_id: str) -> tuple[Mapping[str, Any], float]:
    """Return the engine's statistics of a container, and the number of processors that it may use."""
    from docker.errors import NotFound

    with engine_errors("measure what a sandbox uses"):
        try:
            stats = client.stats(container_id, stream=False)
            allowed = client.inspect_container(container_id)["HostConfig"]["NanoCpus"]
        except NotFound:
            return {}, 0.0
    return stats, allowed / NANO or 1.0


def require_answer(client: APIClient) -> None:
    """Raise SandboxError with `outside` set if the engine does not answer."""
    if not any(engine_answers(client) for _ in range(ASKED_TIMES)):
        raise SandboxError("the engine does not answer", outside=True)


def _find_reported_fate(client: APIClient, container_id: str) -> Fate | None:
    """Return the fate that the engine's events report, None if they report no end."""
    out_of_memory = False
    for event in _events(client, container_id):
        action = event["Action"]
        if action in FROM_OUTSIDE:
            return Fate(Cause.OUTSIDE)
        out_of_memory = out_of_memory or action == "oom"
        if action == "die":
            code = int(event["Actor"]["Attributes"]["exitCode"])
            if code == KILLED:
                return Fate(Cause.MEMORY if out_of_memory else Cause.OUTSIDE, code)
            return Fate(Cause.OUTSIDE if code in OF_OUTSIDE else Cause.INSIDE, code)
    return None


def _infer_fate(exit_code: int | None, out_of_memory: bool) -> Fate:
    """Return the fate of a container whose end is not among the engine's events.

    An engine that was restarted has no events, and a busy one keeps only the last few.
    """
    if out_of_memory:
        return Fate(Cause.MEMORY, exit_code)
    # A signal from outside never gives an exit code below 128.
    ended_itself = exit_code is not None and exit_code < 128 and exit_code not in OF_OUTSIDE
    return Fate(Cause.INSIDE if ended_itself else Cause.OUTSIDE, exit_code)


def _events(client: APIClient, container_id: str) -> Iterator[dict[str, Any]]:
    """Yield the engine's events of a container, the oldest first. It keeps the last 256 of all containers."""
    with engine_errors("ask the engine about a sandbox"):
        response = client.get(
            f"{client.base_url}/v{client.api_version}/events",
            params={
                "since": "1",
                # The moment comes from the engine's clock, because the engine would wait for a later one.
                "until": f"{datetime.fromisoformat(client.info()['SystemTime']).timestamp():.6f}",
                "filters": json.dumps({"container": [container_id]}),
            },
            timeout=extend_wait(EVENTS_SECONDS),
        )
        response.raise_for_status()
        lines = response.content.splitlines()
    for line in lines:
        yield json.loads(line)


def _state(client: APIClient, container_id: str) -> tuple[bool, int | None, bool]:
    """Return whether a container runs, its exit code if it has ended, and whether it ran out of memory."""
    from docker.errors import NotFound

    with engine_errors("inspect a sandbox"):
        try:
            state = client.inspect_container(container_id)["State"]
        except NotFound:
            return False, None, False
    exit_code = None if state["Running"] else int(state["ExitCode"])
    return bool(state["Running"]), exit_code, bool(state["OOMKilled"])
