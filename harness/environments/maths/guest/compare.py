"""Compare pairs of answers in LaTeX, as a job inside a container.

The procedure `ask` starts this command. It needs `math_verify`, which reads hostile text with a computer
algebra system that may hang, use up the memory or crash. Therefore a worker process compares the pairs. The
worker ends if a pair takes more than SECONDS of CPU time (the only argument) or too much memory, and a new
worker replaces it.

The command reads lines from stdin, each a JSON list [gold, prediction] of the contents of two boxes. It
immediately answers each line with one line of JSON: true, false, null for an unreadable gold, "timeout",
"memory", "crashed", or "late" if the machine was too busy for it. The job still needs a limit for the cases
that this command does not notice.
"""

from __future__ import annotations

import functools
import gc
import json
import logging
import os
import re
import resource
import select
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import Any

# The library would import this on the first unit in a text. By then `eval_expr` is replaced, which its import
# needs.
import sympy.physics.units  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: F401
from latex2sympy2_extended import latex2sympy2  # type: ignore[import-not-found, import-untyped, unused-ignore]
from math_verify import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    LatexExtractionConfig,
    grader,
    parse,
    parser,
    verify,
)
from sympy import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    Expr,
    I,
    Integer,
    MatrixBase,
    MatrixExpr,
    Mul,
    Rational,
    UnevaluatedExpr,
)
from sympy.parsing import sympy_parser  # type: ignore[import-not-found, import-untyped, unused-ignore]

MAX_CHARACTERS = 2000
"""The length of the longest prediction that is read. No answer of MATH has 200 characters."""

SECONDS = 3.0
"""The CPU time that one pair may take. Most pairs take a hundredth of a second."""

MEMORY_BYTES = 640 << 20
"""The address space of the worker, which uses 200 MB of it before its first pair."""

# The wall limit is this many times the CPU limit. A worker that reaches it had to wait for the machine.
_WALL_FACTOR = 10

# LaTeX only, because the library's other reader passes the text to Python's eval.
_READERS = (LatexExtractionConfig(boxed_match_priority=0),)

# The LaTeX reader still calls that eval, but only with numbers.
_NUMBER = re.compile(r"Integer \((?P<integer>\d+) \)|Float \('(?P<decimal>\d*\.?\d*)' \)")

_LAST_LETTER = re.compile(r"(?<![A-Za-z])[A-Za-z](?=\s*\Z)")
_ONE_PERCENT = re.compile(r"(?P<number>[^%,;=<>]*[^%,;=<>\\\s])\s*\\?%\s*")
_PERCENT = UnevaluatedExpr(Rational(1, 100))
# Irrational numbers that agree in this many digits count as equal.
_MAX_DIGITS = 1000
# A gold decimal is a rounded value if it has six digits after its point and after its first digit but 0.
_MANY_DIGITS = re.compile(r"-?(?=\d*\.\d{6})(?=[0.]*[1-9][\d.]{6})\d*\.(?P<places>\d+)")
_SURE_DIGITS = 15


def _only_numbers(code: str, _local_dict: Any, _global_dict: Any) -> Any:
    """Replace sympy's call of `eval` and return the number. Nothing is evaluated, whatever text gets here."""
    number = _NUMBER.fullmatch(code.strip())
    if number is None:
        raise ValueError("only numbers are read")
    # A decimal is exactly the fraction that its digits write, so that rounding makes no two numbers equal.
    return Rational(number["decimal"]) if number["integer"] is None else Integer(number["integer"])


def _same_value(gold: Any, prediction: Any, *rounding: int) -> bool:
    """Return whether two expressions are equal, in place of the library's rounded comparison.

    A percent sign may be left out, because the problem often names it. It may be added to a number of at
    least 1. A smaller number may be a share, which a percent sign would change.
    """
    if all(isinstance(one, MatrixBase | MatrixExpr) for one in (gold, prediction)):
        return bool(_matrix_eq(gold, prediction, *rounding))
    try:
        return _same_number(gold, prediction)
    except MemoryError:
        raise
    except Exception:  # A hostile text can make the library raise anything.
        return False


def _same_number(gold: Any, prediction: Any) -> bool:
    if _vanishes(gold - prediction):
        return True
    wanted, found = _without_percent(gold), _without_percent(prediction)
    if wanted is not gold and found is not prediction:
        return False
    if wanted is not gold or (found is not prediction and abs(gold.doit()) >= 1):
        return _vanishes(wanted - found)
    return False


def _same_form(gold: Any, prediction: Any) -> bool:
    """Return whether two expressions simplify to the same one, except numbers, which `_same_value` judges."""
    try:
        difference = gold - prediction
        if not difference.free_symbols and _parts(difference.evalf(2)):
            return False
    except MemoryError:
        raise
    except Exception:  # These are not expressions, or they are hostile.
        pass
    return bool(_symbolic_eq(gold, prediction))


def _vanishes(difference: Any) -> bool:
    """Return whether a difference is zero. Fractions are compared exactly, other numbers by _MAX_DIGITS."""
    # The library reads the imaginary unit as an unknown.
    units = [one for one in difference.free_symbols if one.name == "i"]
    difference = difference.xreplace(dict.fromkeys(units, I)).doit()
    if difference.is_Rational or difference.free_symbols:
        return bool(difference == 0)
    # The library adds digits until it sees one that is not zero, or the limit is reached.
    parts = _parts(difference.evalf(2, maxn=_MAX_DIGITS))
    return bool(parts) and all(part == 0 or part._prec == 1 for part in parts)


def _parts(value: Any) -> list[Any]:
    """Return the real and the imaginary part of a value, or nothing if the library could not evaluate it."""
    parts = [value.coeff(I, 0), value.coeff(I)]
    return parts if all(part.is_Float or part == 0 for part in parts) else []


def _without_percent(expression: Any) -> Any:
    """Return the number in front of a percent sign, or the expression itself if it has no such sign."""
    if isinstance(expression, Mul) and _PERCENT in expression.args:
        return Mul(*(factor for factor in expression.args if factor != _PERCENT))
    return expression


def _rounds_to(gold: str, found: Any) -> bool:
    """Return whether a gold decimal of many digits is the rounded value of an exact expression."""
    decimal = _MANY_DIGITS.fullmatch(gold.strip())
    if decimal is None or found.free_symbols:
        return False
    value = found.doit()
    if value.is_Rational and 10**_MAX_DIGITS % value.q == 0:
        return False  # An exact decimal has a last digit, so it must have the same digits.
    error = abs(value - Rational(gold.strip())).evalf(_SURE_DIGITS)
    return bool(error.is_Float and 2 * error * 10 ** len(decimal["places"]) <= 1)


_matrix_eq = grader.sympy_numeric_eq
_symbolic_eq = grader.sympy_symbolic_eq
grader.sympy_numeric_eq = _same_value
grader.sympy_symbolic_eq = _same_form
sympy_parser.eval_expr = _only_numbers
# The library would take A and a for the same unknown.
_AS_WRITTEN = latex2sympy2.ConversionConfig(lowercase_symbols=False)
parser.latex2sympy = functools.partial(latex2sympy2.latex2sympy, conversion_config=_AS_WRITTEN)


def judge(pairs: Iterable[tuple[str, str]]) -> Iterator[bool | None]:
    """Yield for each (gold, prediction) whether they are equal, or None for a gold that cannot be read."""
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
        # The library's timeouts are signals, which can interrupt any code and do not work in threads.
        if verify(wanted, found, timeout_seconds=None):
            return True
        return "." not in prediction and _rounds_to(gold, found[0])
    except MemoryError:
        raise
    # A hostile text can make the library raise anything, and the other pairs must still be compared.
    except Exception:
        return False


def _read(text: str) -> list[Any]:
    percent = _ONE_PERCENT.fullmatch(text)
    if percent is not None:
        # The library reads a percent sign after digits only, and not after a fraction.
        numbers = [one for one in _read(percent["number"]) if isinstance(one, Expr)]
        return [Mul(one, _PERCENT, evaluate=False) for one in numbers]
    # The library would take a letter at the end, as in 3m, for a unit.
    text = _LAST_LETTER.sub(r"{\g<0>}", text)
    try:
        found: list[Any] = parse(f"\\boxed{{{text}}}", extraction_config=_READERS, parsing_timeout=None)
    except MemoryError:
        raise
    except Exception:  # A hostile text can make the library raise anything here too.
        return []
    return found


class Worker:
    """A process that compares pairs, one after another, each within `seconds` of CPU time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        questions, self._question = os.pipe()
        self._answers, answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._question)
            os.close(self._answers)
            try:
                _serve(questions, answer, seconds)
            finally:  # Otherwise the child would continue as a second copy of its parent.
                os._exit(0)
        os.close(questions)
        os.close(answer)

    def ask(self, pair: tuple[str, str]) -> bool | str | None:
        """Return the result, or "timeout", "late", "memory" or "crashed", which end the worker."""
        try:
            with os.fdopen(os.dup(self._question), "w") as question:
                question.write(f"{json.dumps(pair)}\n")
        except BrokenPipeError:
            return "crashed"
        ready, _, _ = select.select([self._answers], [], [], self._seconds * _WALL_FACTOR)
        # An answer is shorter than PIPE_BUF, so one read returns all of it.
        said = os.read(self._answers, 64) if ready else b'"late"'
        if said:
            verdict: bool | str | None = json.loads(said)
            return verdict
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return "timeout" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF else "crashed"

    def end(self) -> None:
        """Kill the process and wait until it is dead."""
        os.close(self._question)
        os.close(self._answers)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _serve(questions: int, answer: int, seconds: float) -> None:
    """Compare pairs until stdin ends. A limit that is reached ends the process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with os.fdopen(questions) as lines:
        for line in lines:
            # The signal has no handler, so the kernel ends the process, whatever code is running.
            signal.setitimer(signal.ITIMER_PROF, seconds)
            try:
                (verdict,) = judge([json.loads(line)])
            except MemoryError:
                os.write(answer, b'"memory"')
                return
            signal.setitimer(signal.ITIMER_PROF, 0)
            os.write(answer, json.dumps(verdict).encode())


def main() -> None:
    """Answer the pairs on stdin, line by line."""
    logging.disable()
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    # The library builds tables on first use. Before the fork, this happens once for all workers.
    _same("1", r"\frac{2}{2}")
    gc.collect()
    gc.freeze()
    worker = Worker(seconds)
    for line in sys.stdin:
        gold, prediction = json.loads(line)
        verdict = worker.ask((gold, prediction))
        if isinstance(verdict, str):
            worker.end()
            worker = Worker(seconds)
        print(json.dumps(verdict), flush=True)
    worker.end()


if __name__ == "__main__":
    main()
