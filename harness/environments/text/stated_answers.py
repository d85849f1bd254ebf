r"""Grade answers that a reply states: an option of a question, an integer, or a phrase.

Each verdict has the metric `unanswered`, which is 1 for a submission that states no answer, so that a model
that does not answer is told from a model that is wrong. The metric `answer` is the answer as it was read.
A majority of attempts is counted by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from harness.core.scoring.answers import MAX_ANSWER_CHARACTERS, MAX_MATHS_CHARACTERS, plain_characters
from harness.core.scoring.choices import choose_option
from harness.core.scoring.metrics import Metric
from harness.core.text import escape_text, shorten
from harness.core.types import Status, Submission, Verdict
from harness.environments.maths.latex import enclosed, text_parts
from harness.environments.maths.readings import read_answer
from harness.environments.spec import TextGrader

METRICS = (Metric("solved", "the answer is the gold one"), Metric("unanswered", "the reply states no answer"))

_SHOWN_CHARACTERS = 80
_INTEGER = re.compile(r"(?P<sign>[-+]?)\s*0*(?P<digits>\d{1,50})(?:\.0*)?")
# Commands around an integer that leave its value as it is.
_DRESS = re.compile(
    r"\\(?:text)?color\s*\{\w+\}|\\(?:left|right|[lL]arge|LARGE|huge|bf)(?![A-Za-z])|\\[,;:! ]|\\?%"
)
# A comma between thousands is not one between two words.
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_BLANKS = re.compile(r"(?:\s|,(?!\d))+")
_ENCLOSED = re.compile(r"\((?P<inside>[\w\s,-]+)\)|\[(?P<listed>[\w\s,-]+)\]")
_BRACKETS = re.compile(r"[\[\](){}<>\s]+")
_LAYOUT = re.compile(r"[*_`$\"']+|\\(?:text|boxed|mathrm|textbf)\b|(?<=\w)\.\Z")


@dataclass(frozen=True, slots=True)
class ChoiceAnswer:
    """The letter of the right option, and the texts of all options in the order of their letters."""

    letter: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IntegerAnswer:
    """The integer that is right."""

    gold: int


@dataclass(frozen=True, slots=True)
class PhraseAnswer:
    """The word, the words or the brackets that are right. Case and blanks do not count."""

    gold: str


async def grade_choice(target: ChoiceAnswer, submission: Submission) -> Verdict:
    """Return the verdict on a reply by the one option that it chooses, with a score of 0 or 1.

    Source: the rules of `harness.core.scoring.choices`.
    """
    letter = choose_option(submission.text, target.options)
    return judge_stated(letter, right=letter == target.letter)


async def grade_integer(target: IntegerAnswer, submission: Submission) -> Verdict:
    """Return the verdict on an answer in LaTeX whose value must be an integer, with a score of 0 or 1.

    Leading zeros do not count. Source: the American Invitational Mathematics Examination, whose answers are
    integers from 0 to 999 that a contestant enters with three digits.
    """
    text = submission.text.strip()
    if not text:
        return judge_stated(None, right=False)
    found = read_integer(text, target.gold)
    return judge_stated(text if found is None else str(found), right=found == target.gold)


async def grade_phrase(target: PhraseAnswer, submission: Submission) -> Verdict:
    """Return the verdict on a phrase by its words or brackets, with a score of 0 or 1.

    Source: BIG-Bench Hard (Suzgun et al. 2022, arXiv 2210.09261) compares exactly.
    """
    text = submission.text[:MAX_ANSWER_CHARACTERS].strip()
    found = plain_phrase(text)
    return judge_stated(found or None, right=found == plain_phrase(target.gold))


def judge_stated(answer: str | None, *, right: bool) -> Verdict:
    """Return the verdict on an answer that was read, None for a submission without one."""
    metrics: dict[str, Any] = {"solved": float(right), "unanswered": float(answer is None)}
    if answer is None:
        return Verdict(Status.FAILED, 0.0, metrics, "no answer is stated, or more than one")
    shown = escape_text(shorten(answer, _SHOWN_CHARACTERS))
    metrics["answer"] = shown
    return Verdict(
        Status.PASSED if right else Status.FAILED,
        float(right),
        metrics,
        None if right else f"answered {shown}",
    )


def read_integer(answer: str, gold: int) -> int | None:
    """Return the integer that an answer in LaTeX states, None if its value is not one integer.

    The sides of an equation must not contradict the last one, as `8=7` would. `gold` names no unit and no
    words, so that any unit may follow the integer.
    """
    if len(answer) > MAX_MATHS_CHARACTERS:
        return None
    reading = read_answer(str(gold), answer)
    if reading is None:
        return None
    numbers = [_INTEGER.fullmatch(_undress(side)) for side in reading.answers]
    values = {int(f"{found['sign']}{found['digits']}") for found in numbers if found is not None}
    return values.pop() if len(values) == 1 and numbers[-1] is not None else None


def _undress(side: str) -> str:
    """Return a side of an equation without the words, commands and brackets that leave its value as it is."""
    bare = "".join(part for is_text, part in text_parts(side) if not is_text)
    bare = _DRESS.sub(" ", bare).strip()
    held = enclosed(bare)
    return held[1] if held is not None and held[0] + held[2] in ("()", "[]") else bare


def plain_phrase(text: str) -> str:
    """Return a phrase in lower case, without layout, and without blanks between brackets."""
    plain = _LAYOUT.sub("", plain_characters(text).strip()).strip().casefold()
    if _BRACKETS.fullmatch(plain):
        return "".join(plain.split())
    if held := _ENCLOSED.fullmatch(plain):
        plain = held["inside"] or held["listed"]
    return _BLANKS.sub(" ", _THOUSANDS.sub("", plain)).strip(" .")


GRADERS = (
    TextGrader(ChoiceAnswer, grade_choice),
    TextGrader(IntegerAnswer, grade_integer),
    TextGrader(PhraseAnswer, grade_phrase),
)
