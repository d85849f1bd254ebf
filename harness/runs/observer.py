"""The protocol of an object that watches a run. `harness.reports` implements it as progress displays."""

from __future__ import annotations

from typing import Protocol

from harness.core.types import AttemptRecord


class ShowsNotes(Protocol):
    """Shows messages to the user. `note` must return at once and raise nothing."""

    def note(self, text: str) -> None:
        """Show a message to the user: a fallback, a retry, a warning."""


class RunObserver(ShowsNotes, Protocol):
    """Gets the events of a run, always in the thread of the event loop.

    Every method must return at once and raise nothing. The last call is `on_end`, however the run ends.
    """

    def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None:
        """Handle the start of a run of `attempts`. `finished` were done before it was resumed."""

    def on_attempt(self, record: AttemptRecord) -> None:
        """Handle the end of an attempt, whose record is stored."""

    def on_end(self) -> None:
        """Handle the end of the run, after its last attempt or after an interrupt."""
