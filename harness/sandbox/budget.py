"""The number and the memory of the sandboxes that a pool lets live at the same time."""

from __future__ import annotations

from collections import Counter

from harness.sandbox.limits import Limits


class SandboxBudget:
    """Counts the live sandboxes and their memory, and says whether a further one fits.

    One may always live. A grading that holds a sandbox may open further ones, and the budget keeps
    room for them.

    Args:
        memory_mb: the memory in MiB of all sandboxes.
        max_sandboxes: their number. Without it, only memory bounds them.
        nested_sandboxes: the most sandboxes that one grading opens.
        most_gradings: the gradings that open sandboxes at the same time, if half of the budget has room for
            them.
    """

    def __init__(
        self, memory_mb: int, max_sandboxes: int | None, *, nested_sandboxes: int, most_gradings: int
    ) -> None:
        self.memory_mb = memory_mb
        self.count = 0
        self._max_sandboxes = max_sandboxes
        self.used_mb = 0
        # The number of live sandboxes by their limit of memory in MiB.
        self._sizes = Counter[int]()
        fitting = memory_mb // Limits().memory_mb
        half = min(fitting, max_sandboxes or fitting) // 2
        self.gradings = min(most_gradings, max(1, half // max(1, nested_sandboxes)))
        self._kept = self.gradings * nested_sandboxes

    def fits(self, memory_mb: int, *, beside_mb: int = 0, held: int = 0) -> bool:
        """Return whether a sandbox fits next to those that live and those that gradings may open.

        It always fits if no more sandboxes live than the `held` ones, which the caller does not give back.
        """
        # A grading may open sandboxes that are as large as the one that it holds.
        largest = max((memory_mb, *self._sizes))
        kept_mb = self._kept * largest
        return self.count <= held or self.has_room(memory_mb + beside_mb + kept_mb, count=self._kept + 1)

    def has_room(self, memory_mb: int, *, count: int = 1) -> bool:
        """Return whether so many sandboxes with so much memory fit next to those that live."""
        is_many = self._max_sandboxes is not None and self.count + count > self._max_sandboxes
        return not is_many and self.used_mb + memory_mb <= self.memory_mb

    def add(self, memory_mb: int, beside_mb: int) -> None:
        """Count a sandbox with this limit of memory, and the memory that is counted beside it."""
        self.used_mb += memory_mb + beside_mb
        self.count += 1
        self._sizes[memory_mb] += 1

    def remove(self, memory_mb: int, beside_mb: int) -> None:
        """Count a sandbox no more."""
        self.used_mb -= memory_mb + beside_mb
        self.count -= 1
        self._sizes -= Counter((memory_mb,))
