"""Whether two answers in LaTeX are the same mathematics, as a job inside a container.

A script, not a module of the host: it needs `math_verify`, which reads hostile text with a computer
algebra system that may hang or worse. So it has no limit of its own; the job that it runs in does.

It reads lines from stdin, each a JSON list [gold, prediction] of two texts as boxes hold them, and
answers each with one JSON line, in order and at once: true, false, or null where the gold cannot be
read. Where the job is ended early, the first pair without a line is the one that took too long.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from math_verify import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    LatexExtractionConfig,
    parse,
    verify,
)

MAX_CHARACTERS = 2000
"""The longest prediction that is read; no answer of MATH has 200."""

# Only LaTeX: the library's other reader hands the text to Python's eval.
_READERS = (LatexExtractionConfig(boxed_match_priority=0),)


def judge(pairs: Iterable[tuple[str, str]]) -> Iterator[bool | None]:
    """Yield for each (gold, prediction) whether they are the same; None for a gold that cannot be read."""
    for gold, prediction in pairs:
        yield _same(gold, prediction)


def _same(gold: str, prediction: str) -> bool | None:
    if not gold.strip():
        return None
    if "".join(gold.split()) == "".join(prediction.split()):
        return True
    if not prediction.strip() or len(prediction) > MAX_CHARACTERS:
        return False
    wanted = _read(gold)
    if not wanted:
        return None
    found = _read(prediction)
    if not found:
        return False
    try:
        # Its timeouts are signals, which may come in the midst of anything and work in no thread.
        return bool(verify(wanted, found, timeout_seconds=None))
    except Exception:  # whatever a hostile text makes the library raise, the other pairs are judged
        return False


def _read(text: str) -> list[Any]:
    try:
        found: list[Any] = parse(f"\\boxed{{{text}}}", extraction_config=_READERS, parsing_timeout=None)
    except Exception:  # as above
        return []
    return found


def main() -> None:
    """Answer the pairs on stdin, line by line."""
    logging.disable()
    pairs = (json.loads(line) for line in sys.stdin)
    for verdict in judge((gold, prediction) for gold, prediction in pairs):
        print(json.dumps(verdict), flush=True)


if __name__ == "__main__":
    main()
