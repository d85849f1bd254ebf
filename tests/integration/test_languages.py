"""Programs in other languages than Python: right ones pass, and wrong ones fail."""

from __future__ import annotations

import pytest
from case_checks import check_together
from docker import APIClient
from effort import THOROUGH
from language_programs import WHOLE, list_right, list_wrong

import harness
from harness.core.errors import UsageError
from harness.core.types import Status
from harness.environments.python import languages

# The others cost minutes for their images alone.
CHOSEN = tuple(WHOLE) if THOROUGH else ("bash", "cpp")
# A verdict that says nothing about a program.
NO_VERDICTS = {Status.PASSED, Status.INFRA_ERROR, Status.GRADER_ERROR, Status.CANCELLED}
KNOWN = {"endless": Status.TIMEOUT, "slow": Status.TIMEOUT, "sleeps": Status.TIMEOUT}

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1800)]


@pytest.mark.parametrize("language", CHOSEN)
async def test_right_programs_pass_and_wrong_ones_fail(language: str, client: APIClient) -> None:
    right, wrong = list_right(language), list_wrong(language)
    assert len(right) == len(wrong) == 20
    # Each program has a sandbox of its own.
    step = 1 if THOROUGH else 10
    cases = [(True, *row) for row in right[::step]] + [(False, *row) for row in wrong[1::step]]

    async with harness.open_host() as host:

        async def check(case: tuple[bool, str, str, list[tuple[str, str]]]) -> None:
            is_right, name, program, tests = case
            target = harness.build_stdin_tests(tests, language=language, seconds=3 if THOROUGH else 1)
            verdict = await host.grade(target, program)
            if is_right:
                assert verdict.status is Status.PASSED, verdict
            else:
                assert verdict.status not in NO_VERDICTS, verdict
                assert verdict.status is KNOWN.get(name, verdict.status), verdict

        await check_together(cases, check, at_once=2, describe=lambda case: f"{language}: {case[1]}")


async def test_a_compiler_that_takes_all_memory_or_time_fails_its_program_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(languages, "COMPILE_CPU_SECONDS", 1.5)
    monkeypatch.setattr(languages, "COMPILE_SECONDS", 5.0)
    bombs = {
        "memory": "#include <array>\nstd::array<char, 1L << 40> x = {1}; int main() {}",
        "time": "template <int a, int b> struct T { enum { v = (T<a - 1, b>::v + T<a, b - 1>::v) % 7 }; };\n"
        "template <int a> struct T<a, 0> { enum { v = 1 }; };\n"
        "template <int b> struct T<0, b> { enum { v = 1 }; };\nint main() { return T<800, 800>::v; }",
        # It waits, and not for a processor, so that no machine is to blame.
        "a pipe": '#include "/proc/self/fd/1"\nint main() {}',
    }
    if THOROUGH:
        bombs["a device"] = '#include "/dev/zero"\nint main() {}'
        bombs["messages"] = '#include "main.cpp"\n' * 150
        bombs["tokens"] = (
            "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(x)))\n"
            "int a[] = {B(B(B(1 +))) 1};\nint main() {}"
        )
        bombs["an object file"] = "char a[3L << 30] = {1};\nint main() {}"
    async with harness.open_host() as host:

        async def check(name: str) -> None:
            target = harness.build_stdin_tests([("", "")], language="cpp")
            verdict = await host.grade(target, bombs[name])
            assert verdict.status not in NO_VERDICTS, verdict
            assert name != "a pipe" or verdict.status is Status.TIMEOUT, verdict

        await check_together(bombs, check, at_once=2)


# Public names that a pattern would miss or invent, and a package.
JAVA_HEADS = (
    '@SuppressWarnings("unchecked") public class Solution',
    "/*\n public class Comment {\n*/\npublic class Main",
    "class Outer { public class Inner {} }\npublic class Main",
    "package my.own;\npublic record Main(int a)",
)


@pytest.mark.thorough
async def test_a_java_program_may_have_its_class_anywhere() -> None:
    async with harness.open_host() as host:

        async def check(head: str) -> None:
            program = f"{head} {{ public static void main(String... a) {{ System.out.println(7); }} }}"
            verdict = await host.grade(harness.build_stdin_tests([("", "7")], language="java"), program)
            assert verdict.status is Status.PASSED, verdict

        await check_together(JAVA_HEADS, check, at_once=2)


async def test_a_run_cannot_change_the_program_of_the_next_run() -> None:
    program = "echo 1; echo 'echo 2' > /work/agent/main.sh; rm -f /work/agent/main.sh; echo $((++n))"
    async with harness.open_host() as host:
        tests = [("", "1\n1\n")] * 3
        verdict = await host.grade(harness.build_stdin_tests(tests, language="bash"), program)
    assert verdict.status is Status.PASSED, verdict


async def test_an_unknown_language_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="unknown language 'cobol'") as refused:
        harness.build_stdin_tests([("", "")], language="cobol")
    assert refused.value.hint is not None
    assert all(name in refused.value.hint for name in languages.LANGUAGES)
    with pytest.raises(UsageError, match="a preamble is Python"):
        harness.build_stdin_tests([("", "")], language="cpp", preamble="import os")
