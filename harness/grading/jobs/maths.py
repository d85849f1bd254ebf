"""Whether two answers in LaTeX are the same mathematics, as a job inside a container.

A script, not a module of the host: it needs `math_verify`, which reads hostile text with a computer
algebra system that may hang, fill the memory or crash. So the pairs are judged in a second process, which
is killed where a pair takes more than SECONDS (the only argument), and another one goes on.

It reads lines from stdin, each a JSON list [gold, prediction] of two texts as boxes hold them, and
answers each with one JSON line, in order and at once: true, false, null where the gold cannot be
read, "timeout", or "crashed". The job needs a limit all the same, for it can be killed in no other way.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
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

SECONDS = 5.0
"""How long one pair may take, of wall time. Most take a hundredth of a second."""

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


class Worker:
    """A process that judges pairs, one after another: a fresh one takes a third of a second for its first."""

    def __init__(self) -> None:
        questions, self._question = os.pipe()
        self._answers, answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._question)
            os.close(self._answers)
            try:
                with os.fdopen(questions) as lines:
                    for verdict in judge(json.loads(line) for line in lines):
                        os.write(answer, f"{json.dumps(verdict)}\n".encode())
            finally:  # else it would go on as a second one of what started it
                os._exit(0)
        os.close(questions)
        os.close(answer)

    def ask(self, pair: tuple[str, str], seconds: float) -> bool | str | None:
        """Return the verdict, or "timeout" or "crashed", after which the worker must be ended."""
        try:
            with os.fdopen(os.dup(self._question), "w") as question:
                question.write(f"{json.dumps(pair)}\n")
        except BrokenPipeError:
            return "crashed"
        ready, _, _ = select.select([self._answers], [], [], seconds)
        if not ready:
            return "timeout"
        # A verdict is shorter than what a pipe writes in one piece.
        verdict: bool | str | None = json.loads(os.read(self._answers, 64) or b'"crashed"')
        return verdict

    def end(self) -> None:
        """Kill the process and wait until it is gone."""
        os.close(self._question)
        os.close(self._answers)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def main() -> None:
    """Answer the pairs on stdin, line by line."""
    logging.disable()
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    worker = Worker()
    for line in sys.stdin:
        gold, prediction = json.loads(line)
        verdict = worker.ask((gold, prediction), seconds)
        if isinstance(verdict, str):
            worker.end()
            worker = Worker()
        print(json.dumps(verdict), flush=True)
    worker.end()


if __name__ == "__main__":
    main()
