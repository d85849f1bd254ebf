"""Programs that end a little above their limit on processor time, in real sandboxes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from effort import THOROUGH

from harness import build_assert_tests, build_call_tests, build_stdin_tests, open_host
from harness.core.errors import SandboxError
from harness.core.types import Status, Submission, Verdict
from harness.environments.python.call_programs import grade_calls
from harness.environments.python.programs import grade_program
from harness.environments.python.stdin_programs import grade_stdin
from harness.sandbox import pool
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import MOST_TIME_FACTOR, Limits
from harness.sandbox.pool import SandboxPool, SandboxSettings
from harness.sandbox.time_factor import FILE, extend_limits, extend_wait, read_factor, store_share

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

LIMITS = Limits(memory_mb=128, cpu_seconds=1, wall_seconds=60)
SETTINGS = SandboxSettings("python", LIMITS, seccomp="strict")
ASSERTS = build_assert_tests(["assert f(1) == 2", "assert f(2) == 4"])
# One test each, because every call and every run would use the time again.
CALLS = build_call_tests("f", [([1], 2)], seconds=1)
STDIN = build_stdin_tests([("1", "2")], seconds=1)
TRIES = 4
USE = "import time\ndef use(seconds):\n    while time.process_time() < seconds: pass\n"
GRADERS: dict[str, tuple[Callable[..., Any], Any]] = {
    "asserts": (grade_program, ASSERTS),
    "calls": (grade_calls, CALLS),
    "stdin": (grade_stdin, STDIN),
}


def program(kind: str, seconds: float, factor: int = 2) -> str:
    if kind == "stdin":
        return f"{USE}use({seconds})\nprint(int(input()) * {factor})"
    return f"{USE}def f(x):\n    use({seconds})\n    return x * {factor}"


async def grade_in_tries(opened: SandboxPool, kind: str, text: str) -> Verdict:
    """Return the verdict as a run makes it: a machine that is too busy is tried again in another sandbox."""
    grade, target = GRADERS[kind]
    for _ in range(TRIES):
        with contextlib.suppress(SandboxError):
            async with opened.lease(SETTINGS, seconds=120, key="programs") as sandbox:
                verdict: Verdict = await grade(sandbox, target, Submission(text, ""))
                return verdict
    raise AssertionError("the machine is too busy for this test")


async def test_a_program_a_little_above_its_limit_is_told_apart(backend: DockerBackend) -> None:
    # The seconds, the factor of the answer, the status, and whether one more run decides.
    cases: list[tuple[float, int, Status, bool | None]] = [
        (0.6, 2, Status.PASSED, None),
        (0.6, 3, Status.FAILED, None),
        (1.1, 2, Status.TIMEOUT, True),
        (1.1, 3, Status.TIMEOUT, False),
        (5.0, 2, Status.TIMEOUT, None),
    ]
    wrong: dict[Any, Verdict] = {}
    async with SandboxPool(backend) as opened:
        for kind in GRADERS:
            for seconds, factor, status, borderline in cases:
                # Other files try the clear cases with each grader.
                if borderline is None and not THOROUGH:
                    continue
                verdict = await grade_in_tries(opened, kind, program(kind, seconds, factor))
                limit = "cpu_seconds" if status is Status.TIMEOUT else None
                if (verdict.status, verdict.borderline, verdict.limit) != (status, borderline, limit):
                    wrong[kind, seconds, factor] = verdict
    assert not wrong


async def test_such_a_program_is_run_once_more_in_a_sandbox_of_its_own() -> None:
    async with open_host(limits=LIMITS, max_concurrent=2) as grader:
        # The host runs all kinds again alike. The test above has the verdict of each kind that asks for it.
        for kind, (_, target) in list(GRADERS.items())[: None if THOROUGH else 1]:
            verdict = await grader.grade(target, program(kind, 1.1))
            assert (verdict.status, verdict.metrics.get("run_again")) == (Status.TIMEOUT, 1), (kind, verdict)
            assert "run_again" not in (await grader.grade(target, program(kind, 0.1))).metrics


async def test_borderline_programs_keep_others_waiting_for_a_share_of_the_time(
    backend: DockerBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SandboxPool(backend, gate_places=2) as sandboxes:
        async with sandboxes.alone():
            assert sandboxes.gate.locked()
        monkeypatch.setattr(pool, "ALONE_SECONDS", 0.0)
        monkeypatch.setattr(pool, "ALONE_SHARE", 0.0)
        async with sandboxes.alone():
            assert not sandboxes.gate.locked()


async def test_a_slow_machine_extends_the_limit() -> None:
    limits = LIMITS.model_copy(update={"time_factor": 1.5})
    async with open_host(limits=limits, max_concurrent=2) as grader:
        for kind, (_, target) in list(GRADERS.items())[: None if THOROUGH else 1]:
            assert (await grader.grade(target, program(kind, 1.1))).status is Status.PASSED, kind


async def test_the_measured_factor_holds_for_limits_that_set_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert extend_limits(LIMITS) is LIMITS
    assert extend_wait(10) == 10
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "measured"))
    store_share(1.25)
    assert (read_factor(), extend_limits(LIMITS).time_factor) == (1.25, 1.25)
    assert extend_limits(Limits(time_factor=1)).time_factor == 1
    stored = tmp_path / "measured" / "harness" / FILE
    for content in ("", "[]", "{}", '{"time_factor": "2"}', '{"time_factor": 0.5}', '{"time_factor": NaN}'):
        stored.write_text(content)
        assert read_factor() == 1.0, content
    stored.write_text(json.dumps({"time_factor": 2}))
    assert read_factor() == 2.0


async def test_a_very_slow_machine_extends_waits_further_than_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store_share(17.3)
    assert (read_factor(), extend_wait(10)) == (MOST_TIME_FACTOR, 173)
