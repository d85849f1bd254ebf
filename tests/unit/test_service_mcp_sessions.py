"""The bound on the sessions of the Model Context Protocol that a client has."""

from __future__ import annotations

import pytest

from harness.service.errors import ShareUsedError
from harness.service.mcp import McpSessions


class Clock:
    """A clock that a test turns."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def open_session(sessions: McpSessions, client: str, key: str) -> None:
    with sessions.open(client) as note:
        note(key)


def test_a_client_has_a_share_of_the_sessions() -> None:
    sessions = McpSessions(1, 10.0)
    open_session(sessions, "a", "one")
    with pytest.raises(ShareUsedError, match="1 sessions"):
        open_session(sessions, "a", "two")
    open_session(sessions, "b", "three")


def test_sessions_that_are_about_to_open_count() -> None:
    sessions = McpSessions(1, 10.0)
    with sessions.open("a"), pytest.raises(ShareUsedError):
        open_session(sessions, "a", "one")
    open_session(sessions, "a", "one")


def test_an_ended_session_frees_its_place() -> None:
    sessions = McpSessions(1, 10.0)
    open_session(sessions, "a", "one")
    sessions.end("one")
    open_session(sessions, "a", "two")


def test_a_session_frees_its_place_when_it_was_idle_for_long() -> None:
    clock = Clock()
    sessions = McpSessions(1, 10.0, clock)
    open_session(sessions, "a", "one")
    with sessions.use("one"):
        clock.now = 100.0
        with pytest.raises(ShareUsedError):
            open_session(sessions, "a", "two")
    clock.now = 105.0
    with pytest.raises(ShareUsedError):
        open_session(sessions, "a", "two")
    clock.now = 111.0
    open_session(sessions, "a", "two")
