"""Run the whole diagnosis: facts of the engine, the self-check in real sandboxes, and the speed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError, SandboxError, UsageError
from harness.sandbox.backends.base import Backend
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.engine import engine_facts
from harness.sandbox.backends.docker.runtimes import find_kind, find_known_difference
from harness.sandbox.backends.oci.backend import NO_CGROUP, REPAIR, OciBackend
from harness.sandbox.backends.oci.promises import WEAKER
from harness.sandbox.limits import MOST_TIME_FACTOR, Limits
from harness.sandbox.machine.checks import machine
from harness.sandbox.results import read_exec_result
from harness.sandbox.sandbox import Sandbox
from harness.sandbox.selfcheck import probe
from harness.sandbox.selfcheck.check import RUN_ID, Check, Finding, Level, describe_end, probe_source
from harness.sandbox.selfcheck.suite import SANDBOX, Trial, check_backend, conclude_finding
from harness.sandbox.time_factor import compute_factor, store_share

# Contest programs use integers, dictionaries, lists, texts and sorting in this proportion, more or less. The
# median of many short rounds is the speed that a program of some seconds has.
WORKLOAD = """
import time
def work():
    found, words = {}, []
    for number in range(60000):
        found[number % 997] = found.get(number % 997, 0) + number * number % 31
        words.append(str(number))
    words.sort()
    return sum(map(len, words)) + sum(found.values())
rounds = []
for _ in range(25):
    began = time.process_time()
    work()
    rounds.append(time.process_time() - began)
print(sorted(rounds)[12])
"""
# The median on a quiet core of a server of 2023, with the Python of the image.
REFERENCE_SECONDS = 0.0125
MOST_SECONDS = 60.0
# The canary of programs under tests, which belong to the environment `python` and not to a backend.
PROGRAM = "canary"
MAX_ANSWER_BYTES = 4096
COUNTERS = ("/proc/1/status", "/proc/loadavg", "/proc/net/unix", "/sys/fs/cgroup")


async def measure_speed(backend: Backend, runtime: str) -> Finding:
    """Measure the speed of a program in a sandbox, and store the factor that runs extend their limits by."""
    async with Sandbox.open(runtime=runtime, run_id=RUN_ID, backend=backend) as sandbox:
        result = await sandbox.exec(["python3", "-c", WORKLOAD], timeout=MOST_SECONDS)
    try:
        seconds = float(result.stdout.data)
    except ValueError as error:
        raise SandboxError(f"the workload ended before it answered: {describe_end(result)}") from error
    share = seconds / REFERENCE_SECONDS
    factor = compute_factor(share)
    found = f"{share:.2f} times the time of the reference machine"
    try:
        store_share(share)
    except (OSError, UsageError) as error:
        return Finding(Level.WARN, f"{found}; the factor cannot be stored: {error}")
    found += f"; runs multiply the CPU time of programs under tests by {factor:g} (limits.time_factor)"
    if factor < MOST_TIME_FACTOR:
        return Finding(Level.OK, found)
    return Finding(Level.WARN, found, "run harness doctor again when the machine has less to do")


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


FURTHER = (Trial({"confinement": confinement}),)
# No sandbox can be opened if one of these checks fails.
NEEDED = ("runtime", "images")


async def diagnose(
    backend: DockerBackend,
    *,
    runtime: str = "runc",
    runs_folder: Path = Path("runs"),
    concurrency: int = 1,
    limits: Limits | None = None,
    notify: Callable[[Check], None] = lambda check: None,
) -> list[Check]:
    """Return the checks of the machine, and of its sandboxes by canaries, which takes about 6 s.

    A run will have `concurrency` sandboxes of `limits` at once. `notify` gets each check as soon as it and
    those before it are finished. An error becomes a check that fails, so the function raises nothing.
    """
    checks: list[Check] = []

    def conclude(check: Check) -> None:
        checks.append(check)
        notify(check)

    start = time.monotonic()
    try:
        facts = await asyncio.to_thread(engine_facts, backend.client)
    except HarnessError as error:
        conclude(Check("engine", Level.FAIL, error.message, error.hint))
        return checks
    answered = time.monotonic() - start
    place = machine.Machine(backend, facts, answered, runtime, runs_folder, concurrency, limits or Limits())
    for name, look in machine.CHECKS.items():
        conclude(await conclude_finding(name, asyncio.to_thread(look, place)))
    lacking = [check.name for check in checks if check.name in NEEDED and check.level is Level.FAIL]
    if lacking:
        first = f"fix first: {', '.join(lacking)}"
        conclude(Check(SANDBOX, Level.FAIL, "no limit was tried, because no sandbox can be opened", first))
        return checks
    kind = find_kind(facts, runtime)
    await check_backend(
        backend, runtime, further=FURTHER, notify=lambda check: conclude(_with_fix(check, kind))
    )
    if any(check.name == SANDBOX and check.level is Level.FAIL for check in checks):
        return checks
    # Alone, because the other checks would slow it down.
    conclude(await conclude_finding("speed", measure_speed(backend, runtime)))
    return checks


async def diagnose_oci(
    backend: OciBackend, *, runtime: str = "runc", notify: Callable[[Check], None] = lambda check: None
) -> list[Check]:
    """Return the checks of sandboxes without an engine. It takes and raises what `diagnose` does."""
    checks: list[Check] = []

    def conclude(check: Check) -> None:
        if check.level is Level.FAIL and check.name in {*WEAKER, "socket memory"}:
            check = replace(check, fix=REPAIR)
        checks.append(check)
        notify(check)

    conclude(await conclude_finding("promises", asyncio.to_thread(_examine_promises, backend)))
    await check_backend(backend, runtime, further=FURTHER, notify=conclude)
    if checks[-1].name != SANDBOX:
        conclude(await conclude_finding("speed", measure_speed(backend, runtime)))
    return checks


def _examine_promises(backend: OciBackend) -> Finding:
    """Check that the kernel has every limit and every part of the isolation of a sandbox."""
    facts = backend.describe().engine
    found = (
        f"{facts['runtime']} {facts['runtime_version']}, cgroup v{facts['cgroup_version']}, {facts['user']}"
    )
    weaker = backend.find_weaker("python")
    if not weaker:
        return Finding(Level.OK, f"{found}; the kernel has all limits")
    lacking = "; ".join(f"{name}: {means}" for name, means in weaker.items())
    return Finding(Level.FAIL, f"{found}; {NO_CGROUP}: {lacking}", REPAIR)


def _with_fix(check: Check, kind: str) -> Check:
    """Return the check with a known difference of its kind, or with a fix, if the canary names none."""
    known = find_known_difference(kind, check.name, check.found)
    if known is not None:
        return replace(
            check, level=Level.WARN, found=f"{check.found} - known of {kind}: {known.means}", fix=None
        )
    if check.level is not Level.FAIL or check.fix is not None:
        return check
    if check.name == SANDBOX:
        return replace(check, fix="read the log of the engine: journalctl --unit docker --lines 50")
    fix = f"run no untrusted code with {kind} on this engine: update both, or use another"
    if kind == "runsc":
        fix += "; runsc must run without --ignore-cgroups, and with --oci-seccomp"
    return replace(check, fix=fix)
