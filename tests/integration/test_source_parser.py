"""Hidden tests with large or hostile source, which another process parses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from typing import Any

import psutil
import pytest
from case_checks import check_together
from effort import THOROUGH
from service_fixtures import TOKEN, serve

from harness.benchmarks.hidden_tests import AssertSuite, FunctionSuite
from harness.core.errors import UsageError
from harness.service.verdicts.samples import MOST_SOURCE_BYTES
from harness.service.verdicts.source_parser import SMALL_BYTES, SourceParser, open_source_parser

COMMENT = "#" * SMALL_BYTES
ADD = "def add(a, b): return a + b"
SLOW = "add;" * (MOST_SOURCE_BYTES // 4 - 1) + "add"
# Each costs the parser a lot, or makes it give up.
HOSTILE = {
    "many small statements": SLOW,
    "many calls": "add()\n" * (MOST_SOURCE_BYTES // 6),
    "deep parentheses": "add" + "(" * 30_000,
    "deep operators": "-" * 60_000 + "add",
    "a decorator nested deeply": f"@{'-' * 3000}add\nclass A: pass",
    "a long chain": "add" + ".a" * 30_000,
    "many functions": "lambda: add\n" * 5000,
}
QUICK_HOSTILE = ("many small statements", "deep parentheses", "deep operators", "a decorator nested deeply")


def find_parsers() -> list[psutil.Process]:
    children = psutil.Process(os.getpid()).children()
    return [each for each in children if "harness.service.verdicts.source_process" in each.cmdline()]


def make_asserts(*tests: str, **values: Any) -> AssertSuite:
    return AssertSuite(kind="asserts", tests=list(tests), **values)


async def test_large_source_is_built_as_small_source_and_its_fault_is_named() -> None:
    values = {"kind": "calls", "function": "add", "tests": [{"arguments": [1], "result": 1}]}
    async with open_source_parser() as parser:
        for suite in (
            make_asserts("assert add(1, 2) == 3", COMMENT, setup="import math", solution=ADD),
            FunctionSuite.model_validate({**values, "preamble": COMMENT}),
        ):
            assert await parser.build(suite) == suite.build()
        with pytest.raises(UsageError, match=r"the setup is not Python: .*line 2"):
            await parser.build(make_asserts("assert add(1)", setup=f"{COMMENT}\n1 +"))


async def test_hostile_source_is_built_or_refused() -> None:
    async with open_source_parser() as parser:

        async def check(name: str) -> None:
            for suite in (
                make_asserts(HOSTILE[name]),
                make_asserts("add()", solution=f"{ADD}\n{HOSTILE[name]}"),
            ):
                with contextlib.suppress(UsageError):
                    await parser.build(suite)

        await check_together(HOSTILE if THOROUGH else QUICK_HOSTILE, check, at_once=1)


async def test_source_that_takes_too_long_is_refused_and_the_next_is_parsed() -> None:
    async with open_source_parser() as parser:
        suite = make_asserts("add()", COMMENT)
        hasty = SourceParser(seconds=0.0)
        with pytest.raises(UsageError, match="was not parsed within 0 s"):
            await hasty.build(suite)
        await hasty.close()
        assert await parser.build(suite) == suite.build()


async def test_a_process_that_dies_costs_one_source() -> None:
    async with open_source_parser() as parser:
        suite = make_asserts("add()", COMMENT)
        await parser.build(suite)
        (process,) = find_parsers()
        process.kill()
        with pytest.raises(UsageError, match="crashes Python's parser"):
            await parser.build(suite)
        assert await parser.build(suite) == suite.build()


async def test_a_client_that_goes_away_leaves_the_process_to_the_next_one() -> None:
    async with open_source_parser() as parser:
        small = make_asserts("add()", COMMENT)
        await parser.build(small)
        before = find_parsers()
        leaving = asyncio.create_task(parser.build(make_asserts(SLOW)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert await parser.build(small) == small.build()
        assert find_parsers() == before


async def test_the_end_of_the_parser_ends_an_exchange_that_nobody_waits_for() -> None:
    async with open_source_parser() as parser:
        leaving = asyncio.create_task(parser.build(make_asserts(SLOW)))
        while not find_parsers():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
    assert not find_parsers()


async def test_the_process_has_no_environment_and_ends_with_its_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARNESS_SERVE_TOKEN", TOKEN)
    async with open_source_parser() as parser:
        await parser.build(make_asserts("add()", COMMENT))
        (process,) = find_parsers()
        assert process.environ() == {}
    assert not find_parsers()


async def test_small_requests_are_answered_while_large_source_is_parsed() -> None:
    sample = {"tests": make_asserts(SLOW).model_dump(), "submission": ADD}
    content = json.dumps({"samples": [sample] * 200})
    async with serve() as served:
        parsing = asyncio.create_task(served.http.post("/v1/grade", content=content))
        while not find_parsers():
            await served.http.get("/health")
        for _ in range(20):
            assert (await served.http.get("/health")).status_code == 200
        small = await served.post("/run_code", language="python", code="print(1)")
        assert small.json()["run_result"]["stdout"] == "1\n"
        assert not parsing.done()
        parsing.cancel()
        await asyncio.gather(parsing, return_exceptions=True)
