"""The limit of open files of the service."""

from __future__ import annotations

import errno
import resource

import pytest
from case_checks import each_case

from harness.service.errors import is_exhausted
from harness.service.server import raise_limit


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the soft and the hard limit of this process, which the test may set."""
    values = [1024, 524_288]

    def change(_kind: int, new: tuple[int, int]) -> None:
        values[:] = new

    monkeypatch.setattr(resource, "getrlimit", lambda _kind: tuple(values))
    monkeypatch.setattr(resource, "setrlimit", change)
    return values


def test_the_limit_is_raised_as_far_as_needed(limits: list[int]) -> None:
    assert raise_limit(4096) is None
    assert limits == [5120, 524_288]


@each_case("soft", [100_000, resource.RLIM_INFINITY])
def test_a_high_limit_stays(limits: list[int], soft: int) -> None:
    limits[:] = [soft, resource.RLIM_INFINITY]
    assert raise_limit(4096) is None
    assert limits[0] == soft


def test_a_limit_that_stays_too_low_is_named(limits: list[int]) -> None:
    limits[:] = [128, 256]
    warning = raise_limit(4096)
    assert warning is not None
    assert warning.startswith("this process may open 256 files, which is too few for 4,096 connections")
    assert limits == [256, 256]


def test_only_the_errors_of_the_limit_count() -> None:
    assert is_exhausted(OSError(errno.EMFILE, "Too many open files"))
    assert not is_exhausted(OSError(errno.ENOENT, "No such file"))
    assert not is_exhausted(ValueError())
