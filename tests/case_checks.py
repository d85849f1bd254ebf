"""Checks of a table of cases in one test, which lists every case that fails."""

from __future__ import annotations

import asyncio
import functools
import inspect
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

# `pytest.raises` and `pytest.fail` raise the second one, which is not an Exception.
FAILURES = (Exception, pytest.fail.Exception)
TESTS = str(Path(__file__).parent)
# Ends a table that hangs, on a busy machine too.
TABLE_SECONDS = 900

Case = TypeVar("Case")


def each_case(names: str | Sequence[str], cases: Iterable[Any], *, ids: Any = None) -> Callable[[Any], Any]:
    """Return a decorator that makes one test of a table, with the arguments of `pytest.mark.parametrize`.

    The cases share the fixtures, but each has a `tmp_path` of its own and its own changes by `monkeypatch`.
    Use it for cases that cost next to nothing. Each test of pytest costs every worker some milliseconds.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = list(enumerate(cases))
    if marked := [place for place, row in table if _is_param(row) and row.marks]:
        raise ValueError(f"cases {marked} have marks, which only a test of its own can have")
    given = list(ids) if ids is not None and not callable(ids) else None

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)

        def bind(case: Any, fixtures: dict[str, Any]) -> dict[str, Any]:
            return {**fixtures, **dict(zip(wanted, _values_of(case, len(wanted)), strict=True))}

        def describe(case: tuple[int, Any]) -> str:
            place, row = case
            name = given[place] if given is not None else row.id if _is_param(row) else None
            return f"case {place}, {name or _describe_safely(_values_of(row, len(wanted)))}"

        def check_all(*self: Any, **fixtures: Any) -> None:
            def check(case: tuple[int, Any]) -> None:
                with _fresh(fixtures, case[0]) as own:
                    test(*self, **bind(case[1], own))

            check_each(table, check, describe)

        async def await_all(*self: Any, **fixtures: Any) -> None:
            async def check(case: tuple[int, Any]) -> None:
                with _fresh(fixtures, case[0]) as own:
                    await test(*self, **bind(case[1], own))

            await check_together(table, check, at_once=1, describe=describe)

        whole = functools.wraps(test)(await_all if inspect.iscoroutinefunction(test) else check_all)
        left = [each for name, each in signature.parameters.items() if name not in wanted]
        whole.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        bounded: Callable[..., Any] = pytest.mark.timeout(TABLE_SECONDS)(whole)
        return bounded

    return decorate


def check_each(
    cases: Iterable[Case], check: Callable[[Case], object], describe: Callable[[Case], str] = str
) -> None:
    """Check the cases one after the other, and fail with a list of those that fail."""
    failures = []
    for case in cases:
        try:
            check(case)
        except FAILURES as error:
            failures.append(f"{describe(case)} {_explain(error)}")
    _require_none(failures)


async def check_together(
    cases: Iterable[Case],
    check: Callable[[Case], Awaitable[object]],
    *,
    at_once: int,
    describe: Callable[[Case], str] = str,
) -> None:
    """Check up to `at_once` cases at the same time, and fail with a list of those that fail.

    Use it for cases that wait. Cases that compute would only take the processors from each other.
    """
    failures = []
    places = asyncio.Semaphore(at_once)

    async def check_one(case: Case) -> None:
        async with places:
            try:
                await check(case)
            except FAILURES as error:
                failures.append(f"{describe(case)} {_explain(error)}")

    async with asyncio.TaskGroup() as tasks:
        for case in cases:
            tasks.create_task(check_one(case))
    _require_none(failures)


def _is_param(case: Any) -> bool:
    return type(case) is type(pytest.param())


def _values_of(case: Any, count: int) -> list[Any]:
    """Return the arguments of a case, as pytest reads them."""
    if _is_param(case):
        return list(case.values)
    return [case] if count == 1 else list(case)


def _describe_safely(values: list[Any]) -> str:
    """Return a text of values, which may be objects that have none."""
    try:
        return repr(values)[:500]
    except Exception:
        return f"values of {[type(value).__name__ for value in values]}"


@contextmanager
def _fresh(fixtures: dict[str, Any], place: int) -> Iterator[dict[str, Any]]:
    """Yield the fixtures with an own folder, own changes, and no captured output of an earlier case."""
    own = dict(fixtures)
    if (folder := fixtures.get("tmp_path")) is not None:
        own["tmp_path"] = folder / str(place)
        own["tmp_path"].mkdir()
    for captured in ("capsys", "capfd", "caplog"):
        if captured in fixtures:
            fixtures[captured].clear() if captured == "caplog" else fixtures[captured].readouterr()
    if (changes := fixtures.get("monkeypatch")) is None:
        yield own
        return
    with changes.context() as own["monkeypatch"]:
        yield own


def _explain(error: BaseException) -> str:
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(TESTS)]
    place = f"{Path(lines[-1].filename).name}:{lines[-1].lineno}" if lines else "?"
    return f"({place}): {error if isinstance(error, AssertionError) else f'{type(error).__name__}: {error}'}"


def _require_none(failures: list[str]) -> None:
    if failures:
        pytest.fail("\n\n".join([f"{len(failures)} cases fail", *failures]), pytrace=False)
