r"""Score short answers as text: exact match, F1 over tokens, and containment.

A question may have several gold answers, and the best score counts. All functions are pure and take time in
proportion to the length of the texts. The last ones find the part of a reply that its marks declare to be the
answer: `<answer>`, `\boxed{}` and `####`.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
# HotpotQA compares these as a whole, so that "yes" earns nothing against "yes men".
_WHOLE = frozenset({"yes", "no", "noanswer"})
# Different keyboards write these characters for the same one: full-width forms, quotation marks, dashes.
_PLAIN = str.maketrans(
    {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4\u02bc\uff07", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63", "-")
    | {"\u2026": "...", "\u3000": " "}
)
# Normalising a run of combining marks takes quadratic time, and no word is this long.
_PIECE = re.compile(r"\s+|\S{1,256}")
MAX_REPLY_CHARACTERS = 2_000_000
"""The longest reply that is searched for an answer. The longest replies of models have half as many."""
MAX_ANSWER_CHARACTERS = 100_000
"""The longest answer that is parsed as a whole, and the longest end that is searched for the last answer."""
MAX_MATHS_CHARACTERS = 2000
"""The longest answer in LaTeX that is compared. No gold answer of MATH has 200 characters."""
MAX_NUMBER_CHARACTERS = 1000
"""The longest number that is read. A longer one equals nothing."""
# A command, an escaped brace or backslash that is not a brace, or a brace. `\\boxed` counts as the
# command, since replies are often escaped once too often.
_BOX_PIECE = re.compile(
    r"\\(?P<command>boxed|fbox)(?![A-Za-z])[ \t]*(?P<brace>\{)?"
    r"|\\\\(?!boxed|fbox)|\\[{}]|(?P<open>\{)|(?P<close>\})"
)
_REST = re.compile(r"[^$\n]*")
# A thought is between two marks of one kind, `<KIND>` and `</KIND>`. Seed-OSS and MiniMax put a name before
# the kind, Magistral writes square brackets, and Kimi-VL, OpenThinker and Cohere have marks of their own.
_THOUGHT = re.compile(
    r"<(?P<end>/)?(?:[a-z][\w-]{0,20}:)?(?P<kind>think(?:ing)?|thoughts?|reasoning|reflection|scratchpad)>"
    r"|\[(?P<end2>/)?THINK\]|◁(?P<end3>/)?think▷"
    r"|<\|(?:begin_of|(?P<end4>end_of))_thought\|>|<\|(?:START|(?P<end5>END))_THINKING\|>",
    re.IGNORECASE,
)
_ENDS = ("end", "end2", "end3", "end4", "end5")
_QUOTES = frozenset("'\"`")
# gpt-oss writes messages, each in a channel: `analysis` for thoughts, `final` for the reply, and one with a
# recipient for each call of a tool. Source: OpenAI's Harmony response format.
_CHANNEL = re.compile(
    r"(?:<\|start\|>[^<]{0,200}+)?<\|channel\|>\s{0,20}+(?P<name>\w{0,40}+)[^<]{0,200}+"
    r"(?:<\|constrain\|>[^<]{0,100}+)?<\|message\|>"
)
_MESSAGE_END = re.compile(r"<\|(?:end|return|call|start)\|>")
# A server that removes special tokens leaves the names of the channels.
_BARE_ANALYSIS = re.compile(r"\s*analysis(?=[A-Z\W])")
_BARE_CHANNEL = re.compile(r"assistant(?P<name>final|commentary)")
# `<|im_end|>`, `<|eot_id|>`, `<｜end▁of▁sentence｜>`, `</s>`, `<end_of_turn>` and their relatives.
_END_OF_TEXT = (
    r"(?:<[|｜](?:im_end|end|return|eo[tsm](?:_id)?|end_?of_?text|(?:\w{1,20}_)?end[_▁]of[_▁]\w{1,20}"
    r"|endof\w{1,20})[|｜]>|</s>|<end_of_turn>|<eos>|\[EOS\]|\[e~\[)"
)
_END_OF_REPLY = re.compile(rf"(?:\s*+{_END_OF_TEXT})++\s*\Z", re.IGNORECASE)
_END_AFTER_FENCE = re.compile(rf"^([ \t]*+(?:`{{3,}}+|~{{3,}}+))[ \t]*+(?:{_END_OF_TEXT})++", re.I | re.M)
_NEXT_TURN = re.compile(
    rf"{_END_OF_TEXT}\s*+(?:<\|im_start\|>|<\|start_header_id\|>|<start_of_turn>|<[|｜](?:user|assistant)[|｜]>)",
    re.IGNORECASE,
)
# An editor may write these before the first character of a file, and no eye sees them.
_INVISIBLE_STARTS = re.compile("^[\ufeff\u200b\u2060]+", re.MULTILINE)
_TAG = re.compile(r"<(?P<end>/?)answer>", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_HASHES = re.compile(r"(?<!#)####(?!#)[ \t]*(?P<line>[^\n]*)")
# A number follows the mark at once, or after its sign, its currency and marks of formatting. Any other line
# is a heading in Markdown.
_NUMBER_FIRST = re.compile(
    r"(?:\W{0,4}(?:the\s+)?(?:final\s+)?answer(?:\s+is)?)?(?:[^\w\n]|_){0,12}\d", re.IGNORECASE
)
_HEADING = re.compile(r"\W{0,4}\d{1,2}\W{0,4}[.):]\W{0,4}\s.*[A-Za-z]")
# The number and one word after it, such as its unit. "18 or 19" continues, because it is not one number.
_CLAUSE = re.compile(
    r"[.!?;:](?=\s|\Z)|[ \t]\(|,[ \t]+(?!(?:or|and|to)\b)(?=[A-Za-z])"
    r"|(?<=[A-Za-z])(?<!\bor)(?<!\band)(?<!\bto)[ \t]+(?!(?:or|and|to)\b)(?=[A-Za-z])",
    re.IGNORECASE,
)
# The last line of a reply to the prompts of simple-evals and of Minerva.
_STATED = re.compile(
    r"[*_#>\s]{0,8}(?:final\s+)?answer[*_\s]{0,4}:[*_\s]{0,4}"
    r"(?:the\s+final\s+answer\s+is\s*:?\s*)?(?P<answer>.{1,500}?)"
    r"(?:\.?\s*I\s+hope\s+it\s+is\s+correct)?[.*_\s]{0,8}",
    re.IGNORECASE,
)
_MATHS = re.compile(r"\$\$?([^$]+)\$\$?|\\\((.+)\\\)|\\\[(.+)\\\]")


def normalised(text: str) -> str:
    """Return a text in SQuAD's normal form: lower case, no ASCII punctuation, no a/an/the, single spaces.

    Source: the evaluation script of SQuAD 1.1 (Rajpurkar et al. 2016, arXiv 1606.05250).
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def plain_characters(text: str) -> str:
    """Return a text in composed form (NFC) with ASCII for full-width forms, quotation marks and dashes.

    Letters keep their accents, and superscripts and fractions keep their meaning.
    """
    if text.isascii():
        return text
    return "".join(unicodedata.normalize("NFC", piece) for piece in _PIECE.findall(text)).translate(_PLAIN)


def exact_match(prediction: str, golds: Sequence[str]) -> bool:
    """Return whether the prediction equals one of the golds in SQuAD's normal form.

    A gold whose normal form is empty ("The", "!!!") is compared as written, without regard to case. An empty
    gold equals nothing. Raises TypeError if `golds` is one string, and ValueError if it is empty.
    Source: `exact_match_score` of the evaluation script of SQuAD 1.1 (arXiv 1606.05250), and the maximum over
    golds of Natural Questions, open (Lee et al. 2019, arXiv 1906.00300).
    """
    found = normalised(prediction)
    return any(_equal(prediction, found, gold, normalised(gold)) for gold in _some(golds))


def f1(prediction: str, golds: Sequence[str]) -> float:
    """Return the best F1, from 0 to 1, of the tokens in SQuAD's normal form.

    `yes`, `no` and `noanswer` match as a whole or not at all. Raises as `exact_match` does.
    Source: the evaluation script of HotpotQA (Yang et al. 2018, arXiv 1809.09600).
    """
    found = normalised(prediction)
    tokens = Counter(found.split())
    return max(_f1(prediction, found, tokens, gold) for gold in _some(golds))


def has_answer(prediction: str, golds: Sequence[str], *, punctuation: bool = True) -> bool:
    """Return whether the prediction contains the tokens of a gold answer in a row.

    Tokens are runs of letters, digits and marks, after NFD and without regard to case. Every other visible
    character is a separate token. Without `punctuation` it separates tokens like a blank. No prediction
    contains a gold without tokens. Raises as `exact_match` does.
    Source: `has_answer` of DPR (Karpukhin et al. 2020, arXiv 2004.04906).
    """
    text = _tokens(prediction, punctuation)
    wanted = [_tokens(gold, punctuation) for gold in _some(golds)]
    return any(tokens in text for tokens in wanted if tokens.strip())


def _equal(prediction: str, found: str, gold: str, wanted: str) -> bool:
    if wanted:
        return found == wanted
    plain = gold.strip().lower()
    return bool(plain) and prediction.strip().lower() == plain


def _f1(prediction: str, found: str, tokens: Counter[str], gold: str) -> float:
    wanted = normalised(gold)
    if not wanted or found == wanted or not _WHOLE.isdisjoint((found, wanted)):
        return float(_equal(prediction, found, gold, wanted))
    gold_tokens = Counter(wanted.split())
    shared = (tokens & gold_tokens).total()
    return 2 * shared / (tokens.total() + gold_tokens.total())


def _tokens(text: str, punctuation: bool) -> str:
    """Return the tokens with a blank around each, so that a search for a string finds tokens in a row."""
    if not text.isascii():
        text = "".join(unicodedata.normalize("NFD", piece) for piece in _PIECE.findall(text))
    apart: dict[int, str] = {}
    for character in set(text):
        category = unicodedata.category(character)
        if category[0] in "ZC":
            apart[ord(character)] = " "
        elif category[0] not in "LNM":
            apart[ord(character)] = f" {character} " if punctuation else " "
    return f" {' '.join(text.translate(apart).lower().split())} "


def _some(golds: Sequence[str]) -> Sequence[str]:
    if isinstance(golds, str):
        raise TypeError("golds are a list of strings, not one string")
    if not golds:
        raise ValueError("there is no gold answer to compare with")
    return golds


def last_boxed(text: str) -> str | None:
    r"""Return the stripped content of the last complete `\boxed{}`, or None if there is none.

    Braces are balanced, except for escaped ones. `\boxed 5$` contains the text up to the dollar sign or the
    end of the line. If no `\boxed` is complete, the last `\fbox` counts. Only the last MAX_ANSWER_CHARACTERS
    are searched. Source: the grader of MATH (Hendrycks et al. 2021, arXiv 2103.03874).
    """
    text = text[-MAX_ANSWER_CHARACTERS:]
    last: dict[str, tuple[int, int | None]] = {}
    waiting: list[tuple[str, int]] = []
    for piece in _BOX_PIECE.finditer(text):
        command = piece["command"]
        if piece["close"]:
            if waiting:
                name, start = waiting.pop()
                _keep(last, name, start, piece.start())
        elif piece["open"] or piece["brace"]:
            waiting.append((command or "", piece.end()))
        elif command and piece[0][-1] in " \t":
            _keep(last, command, piece.end(), None)
    span = last.get("boxed") or last.get("fbox")
    if span is None:
        return None
    start, end = span
    rest = _REST.match(text, start) if end is None else None
    return (rest[0] if rest else text[start:end]).strip()


def _keep(last: dict[str, tuple[int, int | None]], command: str, start: int, end: int | None) -> None:
    """Remember the span if it begins after the one that is known: an outer box ends after its inner ones."""
    if command and start > last.get(command, (-1, -1))[0]:
        last[command] = (start, end)


def drop_thoughts(reply: str) -> str:
    """Return a reply without the model's thoughts, with plain line ends and without the marks of a template.

    Thoughts are between `<think>` and `</think>`, or two other marks of one kind. A thought without its end
    extends to the end of the reply. Some chat templates open a thought before the reply: it extends from the
    start to `</think>`. A mark between quotes is text. Of a reply in channels, `final` counts, and without it
    all channels but `analysis`. A reply of more than MAX_REPLY_CHARACTERS gives "", because any part of it
    might be in a thought.
    """
    if len(reply) > MAX_REPLY_CHARACTERS:
        return ""
    text = _INVISIBLE_STARTS.sub("", reply.replace("\r\n", "\n").replace("\r", "\n"))
    text = _drop_marked(_read_channels(text))
    turn = _NEXT_TURN.search(text)
    if turn is not None and text[: turn.start()].strip():
        text = text[: turn.start()]
    # The text of another turn may follow the end in the line of a fence.
    text = _END_AFTER_FENCE.sub(r"\1\n", text)
    return _drop_end(text)


def _drop_end(text: str) -> str:
    # No reply ends with more marks, and the pattern is tried at each place of the end alone.
    start = max(len(text) - 500, 0)
    found = _END_OF_REPLY.search(text, start)
    return text if found is None else text[: found.start()]


def _drop_marked(text: str) -> str:
    kept: list[str] = []
    position = depth = 0
    # The kind of the thought that is open. Marks of other kinds in it are its text.
    kind = ""
    for mark in _THOUGHT.finditer(text):
        if _is_quoted(text, mark):
            continue
        own = (mark["kind"] or "think").lower().removesuffix("ing").removesuffix("s")
        is_end = any(mark[name] for name in _ENDS)
        if depth and own != kind:
            continue
        if depth == 0 and not is_end:
            kept.append(text[position : mark.start()])
            kind = own
        if is_end:
            if depth == 0:
                kept.clear()
            depth = max(depth - 1, 0)
        else:
            depth += 1
        position = mark.end()
    if depth == 0:
        kept.append(text[position:])
    return "".join(kept)


def _is_quoted(text: str, mark: re.Match[str]) -> bool:
    before = text[max(mark.start() - 3, 0) : mark.start()]
    return before[-1:] in _QUOTES and before != "```" and text[mark.end() : mark.end() + 1] == before[-1:]


def _read_channels(text: str) -> str:
    """Return the reply in a text with channels. A message to a tool keeps its head."""
    marks = list(_CHANNEL.finditer(text))
    if not marks:
        return _read_bare_channels(text)
    before = text[: marks[0].start()]
    final: list[str] = []
    # A template may have opened the channel of the first message.
    others = [] if _MESSAGE_END.search(before) else [before]
    for number, mark in enumerate(marks):
        stop = marks[number + 1].start() if number + 1 < len(marks) else len(text)
        end = _MESSAGE_END.search(text, mark.end(), stop)
        content = text[mark.end() : stop if end is None else end.start()]
        if " to=" in mark.group():
            others.append(f"{mark.group()}{content}")
        elif mark["name"] == "final":
            final.append(content)
        elif mark["name"] != "analysis":
            others.append(content)
    return "\n".join(final or others)


def _read_bare_channels(text: str) -> str:
    if _BARE_ANALYSIS.match(text) is None:
        return text
    marks = list(_BARE_CHANNEL.finditer(text))
    if not marks:
        return ""
    last = next((mark for mark in reversed(marks) if mark["name"] == "final"), None)
    return text[marks[0].start() :] if last is None else text[last.end() :]


def stated_answer(text: str) -> str | None:
    """Return the answer of a reply whose last line is `Answer: ...`, without its dollars, else None.

    Source: the prompts of simple-evals, and of Minerva ("Final Answer: The final answer is ... I hope it is
    correct.").
    """
    lines = text.rstrip().rsplit("\n", 1)
    found = _STATED.fullmatch(lines[-1][:1000])
    if found is None:
        return None
    answer = found["answer"].strip()
    inside = _MATHS.fullmatch(answer)
    return next(filter(None, inside.groups())).strip() if inside else answer


def tagged_answer(text: str) -> str | None:
    """Return the stripped text in the last `<answer>` of a reply, or None if there is none.

    The last tag may lack its end, because some models stop there. Takes time in proportion to the text.
    """
    tags = list(_TAG.finditer(text))
    for place in range(len(tags) - 1, -1, -1):
        if not tags[place]["end"]:
            closed = place + 1 < len(tags)
            inside = text[tags[place].end() : tags[place + 1].start() if closed else len(text)].strip()
            return inside if inside or closed else None
    return None


def marked_parts(text: str) -> Iterator[str]:
    r"""Yield the parts of a reply that its marks declare to be the answer, the last mark first.

    The marks are the last `\boxed{}`, the last `<answer>` and the last `####` that a number follows. The part
    after `####` ends with the clause of the number.
    """
    places: list[tuple[int, str]] = []
    box, boxes = last_boxed(text), [found.start() for found in _BOX.finditer(text)]
    if box is not None and boxes:
        places.append((boxes[-1], box))
    tags = [found.start() for found in _TAG.finditer(text) if not found["end"]]
    if tags and (inside := tagged_answer(text)) is not None:
        places.append((tags[-1], inside))
    lines = list(_HASHES.finditer(text))
    for line in reversed(lines):
        number = _NUMBER_FIRST.match(line["line"])
        if number is not None and not (len(lines) > 1 and _HEADING.match(line["line"])):
            end = _CLAUSE.search(line["line"], number.end())
            places.append((line.start(), line["line"][: end.start()] if end else line["line"]))
            break
    for _, part in sorted(places, reverse=True):
        yield part
