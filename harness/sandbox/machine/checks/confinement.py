"""Check programs under tests. They belong to the environment `python`, and not to a backend."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from harness.core.errors import SandboxError
from harness.sandbox.limits import Limits
from harness.sandbox.results import read_exec_result
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.selfcheck import probe
from harness.sandbox.selfcheck.check import Finding, Level, describe_end, probe_source

PROGRAM = "canary"
MAX_ANSWER_BYTES = 4096
COUNTERS = ("/proc/1/status", "/proc/loadavg", "/proc/net/unix", "/sys/fs/cgroup")


async def confinement(sandbox: Sandbox, limits: Limits) -> Finding:
    """Check that a program under tests cannot read counters of its container or of other processes."""
    readable = await ask_program(sandbox, probe.readable, COUNTERS)
    if not readable:
        return Finding(Level.OK, f"a program under tests cannot read {', '.join(COUNTERS)}")
    return Finding(
        Level.WARN,
        f"a program under tests can read {', '.join(readable)}, so the next one in its container can "
        "learn of it",
        "use a kernel with Landlock (5.19 or newer, 'landlock' in its list of security modules), "
        "or give each attempt a separate container: --isolation attempt",
    )


async def ask_program(sandbox: Sandbox, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function of `probe` as an untrusted program and return its return value.

    The sandbox needs an image with the procedure `run_on_inputs`, as `python` is. Raises SandboxError.
    """
    name = getattr(function, "__name__", "")
    preamble = f"import sys\nsys.argv = [{PROGRAM!r}, {name!r}, {json.dumps(arguments)!r}]\n".encode()
    body = preamble + probe_source().encode()
    limits = sandbox.job_limits()
    request = {
        "preamble_bytes": len(preamble),
        "program_bytes": len(body),
        "input_bytes": [0],
        "stdout_bytes": MAX_ANSWER_BYTES,
        "stdin": "real",
        "wall_seconds": limits["wall_seconds"],
        "environment": sandbox.environment,
        "limits": limits,
    }
    header, data = await sandbox.call("run_on_inputs", request, body, timeout=limits["wall_seconds"])
    with sandbox.catch_unreadable():
        (run,) = header["runs"]
        result = read_exec_result(run, data)
    try:
        return json.loads(result.stdout.data)
    except ValueError as error:
        raise SandboxError(f"the canary ended before it answered: {describe_end(result)}") from error
