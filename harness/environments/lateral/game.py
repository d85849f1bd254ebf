"""The rules of a game about one puzzle: which questions a host answers, which keys they hit, and the score.

Source: the task `lateralthinkingpuzzle` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, lru_cache
from typing import Literal

Language = Literal["en", "zh"]

# The longest question, in characters.
MAX_QUESTION_CHARACTERS = 300
# The mark of a list at the start of a key: "1. " or "- ".
_MARK = re.compile(r"(?:\d{1,3}\s*[.、)）](?!\d)|[-*•])\s*")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
# No script puts more marks on a letter. Their order is found in quadratic time. Source: Unicode's annex 15,
# "Stream-Safe Text Format".
_MOST_MARKS = 30
# Characters without a shape: controls, formats such as the zero-width space, halves of surrogate pairs,
# private ones and unassigned ones.
_SHAPELESS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})

# An agent that writes one of these asks the host to leave its part. They are in the form of `normalize`, in
# lower case. None may be a part of a question that tries to solve a puzzle.
REFUSED = (
    *("new game", "new puzzle", "new riddle", "next puzzle", "next riddle", "next game", "another puzzle"),
    *("another riddle", "different puzzle", "change the puzzle", "skip this puzzle", "restart the game"),
    *("start over the game", "end the game", "quit the game", "give me a hint", "give me the answer"),
    *("give me the solution", "tell me the answer", "tell me the solution", "tell me the truth of the story"),
    *("reveal the answer", "reveal the solution", "show me the answer", "show me the solution"),
    *("what is the answer", "what is the solution", "ignore previous instructions"),
    *("ignore the previous instructions", "ignore all previous", "ignore all instructions"),
    *("ignore your instructions", "system prompt", "answer keys", "新游戏", "新的游戏", "新谜题", "下一题"),
    *("下一个谜题", "换一题", "换一个谜题", "换个谜题", "重新开始游戏", "结束游戏", "退出游戏", "给我提示"),
    *("给个提示", "告诉我答案", "告诉我谜底", "告诉我汤底", "告诉我真相", "公布答案", "公布汤底", "揭晓答案"),
    *("揭晓汤底", "答案是什么", "汤底是什么", "谜底是什么", "忽略之前的指令", "忽略以上指令", "忽略所有指令"),
    "系统提示词",
)

# A question that shares more characters with a fact of the story asks nothing new.
MOST_STORY_BLEU = 0.85
ABORT_FOR_REFUSED = 2
ABORT_LIMIT = 5

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_HAN_RUN = re.compile(f"{_HAN.pattern}+")
_LATIN_RUN = re.compile(r"[a-z0-9]+")
_STOP_WORDS_EN = """
a about after again all also although am an and any anyone anything are as at be because been before being
both but by can could did do does doing done down due during each either else ever every everyone
everything for from get gets getting got had has have having he her here hers herself him himself his how
however i if in into is it its itself just let like made make makes making many may me might mine more most
much must my myself near next now of off on once one only onto or other our ours ourselves out over own
per please quite rather really same shall she should so some someone something still such than that the
their theirs them themselves then there therefore these they thing things this those though through thus
to together too toward towards true truly under until up upon us very was we were what whatever when where
whether which while who whom whose why will with within would yes yet you your yours yourself
"""
_NEGATIONS_EN = """
no not never none nobody nothing neither nor without cannot can't couldn't didn't doesn't don't isn't
wasn't weren't aren't won't wouldn't hasn't haven't hadn't shouldn't false untrue unable
"""
_NEGATIONS_ZH = re.compile(r"不|没|未|无")
# These words contain a sign of negation and deny nothing.
_NOT_DENIALS_ZH = re.compile(r"是不是|有没有|能不能|会不会|不久|不同|不仅|不但|不断|无比|未来|未婚")
_DENIALS = frozenset(_NEGATIONS_EN.split())
_IGNORED = frozenset(_STOP_WORDS_EN.split()) | _DENIALS


@dataclass(frozen=True, slots=True)
class LateralPuzzle:
    """A puzzle with its solution, which only the host and the grader know."""

    language: Language
    story: str
    answer: str
    # The facts that the story tells.
    story_keys: tuple[str, ...]
    # The facts of the solution, which an agent has to find.
    answer_keys: tuple[str, ...]
    # Facts of other puzzles, which are false here, in a group for each puzzle. A host that confirms one is
    # not to be trusted.
    decoys: tuple[tuple[str, ...], ...] = ()
    # The name of the host: `offline`, or a model's.
    host: str = "offline"


def normalize(text: str) -> str:
    """Return a text as it is compared: one line, one form of each character, none without a shape.

    Full-width letters become plain ones, so that no other spelling of a phrase is another phrase.
    """
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    plain = unicodedata.normalize("NFKC", _drop_marks(text))
    shaped = (" " if character.isspace() else character for character in plain)
    kept = "".join(each for each in shaped if unicodedata.category(each) not in _SHAPELESS)
    return " ".join(kept.split())


def _drop_marks(text: str) -> str:
    """Return a text without the marks that follow too many others on one letter."""
    kept, marks = [], 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MOST_MARKS:
            kept.append(character)
    return "".join(kept)


def parse_keys(cell: str) -> tuple[str, ...]:
    """Return the keys in a text that has one in each line, without the marks of a list."""
    lines = (_MARK.sub("", normalize(line), count=1) if line.strip() else "" for line in cell.splitlines())
    return tuple(line for line in lines if line)


def find_language(text: str) -> Language:
    """Return `zh` if at least a third of the letters of a text are Chinese characters, else `en`."""
    letters = sum(character.isalpha() for character in text)
    return "zh" if letters and 3 * len(_HAN.findall(text)) >= letters else "en"


class Answer(StrEnum):
    """The host's answer to a question. Nothing else that a host decides reaches the agent."""

    YES = "yes"
    NO = "no"
    IRRELEVANT = "irrelevant"


@dataclass(frozen=True, slots=True)
class Texts:
    """The fixed texts in one language."""

    answers: Mapping[Answer, str]
    in_story: str
    refused: str
    aborted: str
    solved: str


TEXTS: Mapping[Language, Texts] = {
    "en": Texts(
        answers={Answer.YES: "Yes.", Answer.NO: "No.", Answer.IRRELEVANT: "Irrelevant."},
        in_story="This is already in the story. Ask about something that the story does not tell.",
        refused="The host does not answer this. Ask about the story what yes, no or irrelevant can answer.",
        aborted="The game has ended, because too many messages did not ask about the story.",
        solved="You have found everything. The game has ended.",
    ),
    "zh": Texts(
        answers={Answer.YES: "是。", Answer.NO: "不是。", Answer.IRRELEVANT: "无关。"},
        in_story="这一点故事里已经说了。请问故事没有说明的事情。",
        refused="主持人不回答这句话。请针对故事提问，使主持人能用是、不是或无关来回答。",
        aborted="太多的话与故事无关，游戏已经结束。",
        solved="你已经找出全部真相，游戏结束。",
    ),
}


@dataclass(frozen=True, slots=True)
class HostVerdict:
    """The host's opinion of a question. `contained` are the numbers of the keys that it contains."""

    answer: Answer
    contained: frozenset[int] = frozenset()
    # Whether the host confirmed a fact of another puzzle, so that nothing it says of this question counts.
    is_void: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """The text that the agent sees. `ends` if the game is over."""

    text: str
    ends: bool = False


@dataclass(slots=True)
class LateralGame:
    """The state of a game. The numbers of keys count from 0 in the order of `LateralPuzzle.answer_keys`."""

    puzzle: LateralPuzzle
    hit: set[int] = field(default_factory=set)
    # The number of messages that the agent has sent, those that no host answers included.
    rounds: int = 0
    answers: Counter[Answer] = field(default_factory=Counter)
    # The questions that were answered with yes or no, and the answers.
    record: list[tuple[str, Answer]] = field(default_factory=list)
    aborts: int = 0
    voided: int = 0

    @property
    def progress(self) -> float:
        """Upstream's game progress: the share of the keys that are hit."""
        return len(self.hit) / len(self.puzzle.answer_keys)

    @property
    def is_solved(self) -> bool:
        return len(self.hit) == len(self.puzzle.answer_keys)

    @property
    def is_aborted(self) -> bool:
        return self.aborts >= ABORT_LIMIT

    def begin_round(self, question: str) -> Reply | None:
        """Count a message, and return the reply to one that no host answers, None for a question.

        `question` is normalized.
        """
        self.rounds += 1
        texts = TEXTS[self.puzzle.language]
        folded = question.casefold()
        if any(phrase in folded and not self._is_about(phrase) for phrase in REFUSED):
            self.aborts += ABORT_FOR_REFUSED
            return Reply(texts.aborted, ends=True) if self.is_aborted else Reply(texts.refused)
        if is_in_story(question, self.puzzle.story_keys):
            return Reply(texts.in_story)
        return None

    def _is_about(self, phrase: str) -> bool:
        """Return whether the puzzle itself has a phrase, such as a story about a new game."""
        puzzle = self.puzzle
        texts = (puzzle.story, *puzzle.story_keys, *puzzle.answer_keys)
        return any(phrase in text.casefold() for text in texts)

    def list_open(self, question: str) -> list[int]:
        """Return the numbers of the keys that a question can still hit."""
        return [
            number
            for number, key in enumerate(self.puzzle.answer_keys)
            if number not in self.hit and is_long_enough(question, key)
        ]

    def end_round(self, question: str, verdict: HostVerdict) -> Reply:
        """Apply the host's verdict on a question, and return the reply. A question hits one key at most."""
        texts = TEXTS[self.puzzle.language]
        if verdict.is_void:
            self.voided += 1
            self.answers[Answer.IRRELEVANT] += 1
            # Each void round is a guess at the order of the facts, which an agent must not repeat until it is
            # lucky.
            self.aborts += ABORT_FOR_REFUSED
            if self.is_aborted:
                return Reply(texts.aborted, ends=True)
            return Reply(texts.answers[Answer.IRRELEVANT])
        self.answers[verdict.answer] += 1
        if verdict.answer is not Answer.IRRELEVANT:
            self.record.append((question, verdict.answer))
            hit = [number for number in self.list_open(question) if number in verdict.contained]
            self.hit.update(hit[:1])
        text = texts.answers[verdict.answer]
        return Reply(f"{text} {texts.solved}", ends=True) if self.is_solved else Reply(text)


def is_long_enough(question: str, fact: str) -> bool:
    """Return whether a question has the length to contain all of a fact.

    No question is longer than the limit, so a longer fact counts as long as the limit.
    """
    return min(len(fact), MAX_QUESTION_CHARACTERS) <= len(question)


def is_in_story(question: str, story_keys: Collection[str]) -> bool:
    """Return whether a question repeats one of the facts of the story."""
    return any(compute_bleu(question, key) > MOST_STORY_BLEU for key in story_keys)


def compute_bleu(text: str, reference: str) -> float:
    """Return the BLEU of a text by single characters, from 0 to 1.

    Source: Papineni et al. 2002, with n-grams of one character and one reference.
    """
    if not text:
        return 0.0
    counts = _count(reference)
    common = sum(min(number, counts.get(each, 0)) for each, number in Counter(text).items())
    brevity = 1.0 if len(text) > len(reference) else math.exp(1 - len(reference) / len(text))
    return brevity * common / len(text)


@lru_cache(maxsize=1024)
def _count(text: str) -> Mapping[str, int]:
    return Counter(text)


@lru_cache(maxsize=8192)
def list_terms(text: str, language: Language) -> frozenset[str]:
    """Return the stemmed content words of an English text, or the pairs of characters of a Chinese one."""
    plain = normalize(text).lower().replace("’", "'")
    if language == "zh":
        return _list_pairs(plain)
    words = (word.removesuffix("'s") for word in _WORD.findall(plain))
    stem = _find_stemmer()
    return frozenset(stem(word) for word in words if len(word) > 1 and word not in _IGNORED)


def _list_pairs(text: str) -> frozenset[str]:
    pairs = {
        run[place : place + 2] for run in _HAN_RUN.findall(text) for place in range(max(len(run) - 1, 1))
    }
    return frozenset(pairs | set(_LATIN_RUN.findall(text)))


def count_denials(text: str, language: Language) -> int:
    """Return the number of negations in a text."""
    plain = normalize(text).lower().replace("’", "'")
    if language == "zh":
        return len(_NEGATIONS_ZH.findall(_NOT_DENIALS_ZH.sub("", plain)))
    return sum(word in _DENIALS for word in _WORD.findall(plain))


@cache
def _find_stemmer() -> Callable[[str], str]:
    # The import takes longer than most runs need it for.
    import snowballstemmer

    stemmer = snowballstemmer.stemmer("english")

    @lru_cache(maxsize=20_000)
    def stem(word: str) -> str:
        return str(stemmer.stemWord(word))

    return stem
