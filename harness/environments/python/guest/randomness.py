"""Give the tests the same random numbers each time that they run.

The tests of a program run several times: to try their set-up, to drive the program, and to judge its answers.
A test that draws numbers must make the same calls each time. The generators of `random` and `numpy.random`
that exist already are put back to their state. A generator that the tests make without a seed, and everything
else that asks the operating system for random bytes, gets the bytes of a stream that begins anew.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# Sources with one of these words may draw random numbers. `tempfile` chooses random names.
WORDS = ("random", "secrets", "uuid", "tempfile")
KEY_BYTES = 32


class Randomness:
    """The state of all random numbers of this process, which must be the one of the tests.

    Args:
        sources: The source of the tests. Without one of the `WORDS` in it, nothing is done.
    """

    def __init__(self, sources: Iterable[str]) -> None:
        sources = tuple(sources)
        self._is_wanted = any(word in source for source in sources for word in WORDS)
        self._has_numpy = any("numpy" in source for source in sources)
        self._states: list[tuple[Any, Any]] = []
        if self._is_wanted:
            self._replace()

    def begin(self) -> None:
        """Put all generators back to their state, and begin the stream of random bytes anew."""
        if self._is_wanted:
            self._drawn = 0
            for restore, state in self._states:
                restore(state)

    def _replace(self) -> None:
        import random

        self._key = os.urandom(KEY_BYTES)
        self._drawn = 0
        os.urandom = self._draw
        random._urandom = self._draw  # type: ignore[attr-defined]
        seed = random.Random.seed

        def seed_by_stream(generator: random.Random, a: Any = None, version: int = 2) -> None:
            seed(generator, int.from_bytes(self._draw(KEY_BYTES), "big") if a is None else a, version)

        random.Random.seed = seed_by_stream  # type: ignore[method-assign, assignment]
        # The module has the methods of one generator as its functions.
        random.seed = random._inst.seed
        self._states.append((random.setstate, random.getstate()))
        if self._has_numpy:
            try:
                import numpy.random
            except ImportError:
                return
            self._states.append((numpy.random.set_state, numpy.random.get_state()))

    def _draw(self, size: int, /) -> bytes:
        """Return the next bytes of the stream, in the place of `os.urandom`."""
        from hashlib import blake2b

        if size < 0:
            raise ValueError("negative argument not allowed")
        pieces = []
        for _ in range(-(-size // blake2b.MAX_DIGEST_SIZE)):
            pieces.append(blake2b(self._drawn.to_bytes(8, sys.byteorder), key=self._key).digest())
            self._drawn += 1
        return b"".join(pieces)[:size]
