"""The plain data of a repository under repair: the set-up of its machine, and the tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RepositorySetup:
    """The machine of a repository, as the setup of a task."""

    # The image that has the repository at its commit.
    image: str
    # The text of the Dockerfile that makes the image, None for a published image.
    dockerfile: str | None = None
    folder: str = "/testbed"


@dataclass(frozen=True, slots=True)
class RepositoryTests:
    """The tests that judge a patch, as the target of a reference."""

    setup: RepositorySetup
    # The patch of the solution, and the patch that brings the hidden tests.
    gold: str
    test_patch: str
    # The script that brings the tests, runs them, and prints their log between two markers.
    script: str
    # The name of the form of the log (`logs.PARSERS`).
    parser: str
    # The ids of tests that a solution repairs, and of those that it must not break.
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
