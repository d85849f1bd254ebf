"""The number of cases that the tests try: a part by default, all with HARNESS_TESTS=thorough.

Every change must pass the default, which has each principle once. All cases are for a run at night:
`HARNESS_TESTS=thorough make test`. It also makes the tests with the mark `thorough`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

THOROUGH = os.environ.get("HARNESS_TESTS") == "thorough"
# For each property. Hypothesis's own default is 100.
EXAMPLES = 300 if THOROUGH else 12
QUICK_CHARACTERS = 50_000

Item = TypeVar("Item")


def text_of_length(piece: str, characters: int) -> str:
    """Return a text of `piece` repeated up to `characters`, and up to 50,000 by default.

    The shorter text shows as much, because a reader whose time grows with the square of the length needs
    minutes for it too, and pytest-timeout ends that test.
    """
    return piece * ((characters if THOROUGH else min(characters, QUICK_CHARACTERS)) // len(piece))


def one_in_four(items: Sequence[Item], start: int) -> Sequence[Item]:
    """Return every fourth item from `start` on, so that four consecutive starts cover all items."""
    return items if THOROUGH else items[start % 4 :: 4]


def one_in_two(items: Sequence[Item], start: int) -> Sequence[Item]:
    """Return every second item from `start` on, so that two consecutive starts cover all items."""
    return items if THOROUGH else items[start % 2 :: 2]
