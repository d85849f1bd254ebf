"""Run the whole diagnosis: checks of the engine's facts, then the self-check in real sandboxes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.core.errors import HarnessError
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.engine import engine_facts
from harness.sandbox.backends.docker.runtimes import find_kind, find_known_difference
from harness.sandbox.limits import Limits
from harness.sandbox.machine.checks import machine
from harness.sandbox.machine.checks.confinement import confinement
from harness.sandbox.machine.checks.network import shared_network
from harness.sandbox.selfcheck.check import Check, Level
from harness.sandbox.selfcheck.speed import measure_speed
from harness.sandbox.selfcheck.suite import SANDBOX, Trial, check_backend, conclude_finding

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
    check = await conclude_finding("shared network", shared_network(backend, runtime))
    conclude(_with_fix(check, kind))
    # Alone, because the other checks would slow it down.
    conclude(await conclude_finding("speed", measure_speed(backend, runtime)))
    return checks


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
