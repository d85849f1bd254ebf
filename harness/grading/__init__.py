"""The graders. Every module of this package that has `GRADERS` adds them: one file, no list."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from harness.discovery import declared
from harness.grading.grader import Grader, Place

__all__ = ["Grader", "Place", "grader_of", "graders"]


@cache
def graders() -> Mapping[type, Grader]:
    """Return every grader that there is, by the type of criterion that it judges by."""
    return {grader.judges_by: grader for grader in declared(__name__, "GRADERS")}


def grader_of(criterion: Any) -> Grader:
    """Return the grader for a criterion. Raises TypeError for one that nobody judges by."""
    grader = graders().get(type(criterion))
    if grader is None:
        raise TypeError(f"no grader judges by {type(criterion).__name__}")
    return grader
