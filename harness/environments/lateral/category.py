"""AgentBench's lateral thinking puzzles: an agent asks a host, which answers yes, no or irrelevant.

Upstream has one spreadsheet for each split, in English in `lateralthinkingpuzzle/` and in Chinese in
`lateralthinkingpuzzle_zh/`. A user's own puzzles may be JSON Lines with the fields `story`, `answer`,
`story_keys` and `answer_keys`. The last two are lists of texts.
Source: the task `lateralthinkingpuzzle` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import field_validator

from harness.benchmarks.benchmark import CategoryFacts
from harness.benchmarks.category import Category, CategoryFiles, CategoryOptions, solve_by_target
from harness.benchmarks.data.local import read_spreadsheet
from harness.benchmarks.data.rows import Row
from harness.benchmarks.options import NO_EFFECT, Options
from harness.core.errors import unknown_name
from harness.core.types import Reference, Task
from harness.environments.lateral.environment import solve
from harness.environments.lateral.game import Language, LateralPuzzle, find_language, list_terms, parse_keys
from harness.environments.lateral.hosts import OFFLINE
from harness.models.endpoint import Endpoint

_NAME = "lateral"
_SPREADSHEET, _LINES = ".xlsx", (".jsonl", ".json")
_CHINESE_FOLDER = "lateralthinkingpuzzle_zh"
# The columns by their headings in either language, in lower case.
_COLUMNS = {
    "story": "story",
    "汤面": "story",
    "answer": "answer",
    "汤底": "answer",
    "story keys": "story_keys",
    "answer keys": "answer_keys",
}
_FIELDS = ("story", "answer", "story_keys", "answer_keys")
_DECOYS, _LANGUAGE = "decoys", "language"
_OFFLINE_NOTICE = (
    "lateral: the offline host only compares words, so its scores compare with no others; "
    "name a model as the host with --option lateral.host=NAME"
)
_MOST_KEYS = 100
# The number of other puzzles whose facts a puzzle gets, and of those that are looked at to find them.
_MOST_DECOY_PUZZLES, _TRIED_PUZZLES = 8, 50
# A fact with fewer terms, or with more terms of the puzzle, might be true there.
_LEAST_DECOY_TERMS, _MOST_SHARED = 4, 0.25

_PROMPTS: dict[Language, str] = {
    "en": """\
You play a lateral thinking puzzle. The host tells you a strange story, and you find out what lies behind \
it. The host knows the truth and answers a question with yes, no or irrelevant, and with nothing else.

Ask with the tool `ask`: one question in each call, on one line, in at most 300 characters. Ask about \
details first. When you believe to know a part of the truth, ask whether it is so, and state that part \
completely. The game ends when you have stated every part of the truth, or when your rounds are used up. \
Your score is the share of the parts that you found. `submit` ends the game early.

The story: {story}
""",
    "zh": """\
你在玩一个海龟汤推理游戏。主持人给出一个离奇的故事，你要找出故事背后的真相。\
主持人知道真相，只用“是”、“不是”或“无关”来回答问题。

用工具 `ask` 提问：每次只问一个问题，写成一行，最多300个字。先询问细节。\
当你认为知道了真相的一部分，就完整地说出这一部分，并问是不是这样。\
说出真相的每个部分，或者回合用完，游戏就结束。得分是你找出的部分所占的比例。`submit` 会提前结束游戏。

故事：{story}
""",
}


class LateralOptions(Options):
    """The options of `lateral`."""

    # The host: `offline`, the name of an endpoint of the config, or an endpoint such as
    # {model: NAME, base_url: URL, api_key_env: VARIABLE}.
    # The effect is the judge's, which a run lists with its endpoint.
    host: Annotated[str | Endpoint, NO_EFFECT] = OFFLINE

    @field_validator("host", mode="before")
    @classmethod
    def _read_endpoint(cls, host: Any) -> Any:
        """Read an endpoint here, because the error about a union of types would name neither.

        Raises UsageError for an unknown key without its value, because the value may be a secret.
        """
        for name in host if isinstance(host, dict) else ():
            if name not in Endpoint.model_fields:
                raise unknown_name("key of lateral.host", str(name), Endpoint.model_fields)
        return Endpoint.model_validate(host) if isinstance(host, dict) else host


def _is_needed(name: str) -> bool:
    return "/" not in name and name.lower().endswith((_SPREADSHEET, *_LINES))


def _rows(files: CategoryFiles, options: CategoryOptions) -> Iterator[Row]:
    is_model = options.own.host != OFFLINE
    for name in files.names:
        if not _is_needed(name):
            continue
        found = (
            read_spreadsheet(files.read(name), files.tree.places[name], _COLUMNS)
            if name.lower().endswith(_SPREADSHEET)
            else files.parse(name)
        )
        stem = PurePath(name).stem.removesuffix("_zh")
        # The upstream file of the split `std` is `standard.xlsx`.
        split = "std" if stem == "standard" else stem
        # A file of a user may be in any folder.
        is_chinese = files.folder == _CHINESE_FOLDER
        language = "zh" if is_chinese else find_language(" ".join(row.text("story") for row in found))
        prefix = f"{_NAME}/zh/{split}" if language == "zh" else f"{_NAME}/{split}"
        keys = [_keys(row, "answer_keys") for row in found] if is_model else []
        for place, row in enumerate(found):
            # Only a host that is a model is shown facts of other puzzles.
            decoys = _choose_decoys(row, place, keys, language) if is_model else []
            given = row.values.get("task_id")
            task_id = f"{prefix}/{place}" if given is None else given
            identity = {"task_id": task_id, _LANGUAGE: language, _DECOYS: decoys}
            yield replace(row, values={**row.values, **identity})


def _owns(row: Row) -> bool:
    return all(name in row.values for name in _FIELDS)


def _read(row: Row, options: CategoryOptions) -> tuple[Task, Reference]:
    story = row.text("story").strip()
    if not story:
        raise row.error("is empty", field="story")
    answer_keys = _keys(row, "answer_keys")
    answer = row.text("answer").strip() or " ".join(answer_keys)
    if not 1 <= len(answer_keys) <= _MOST_KEYS:
        raise row.error(f"needs 1 to {_MOST_KEYS} keys, found {len(answer_keys)}", field="answer_keys")
    language: Language = "zh" if row.values.get(_LANGUAGE, find_language(story)) == "zh" else "en"
    host = options.own.host
    puzzle = LateralPuzzle(
        language,
        story,
        answer,
        _keys(row, "story_keys"),
        answer_keys,
        tuple(tuple(each.split("\n")) for each in row.texts(_DECOYS)) if _DECOYS in row.values else (),
        host=host.model if isinstance(host, Endpoint) else host,
    )
    task_id = row.name("task_id") if "task_id" in row.values else f"{_NAME}/{row.place}"
    prompt = _PROMPTS[language].format(story=story)
    labels = {"language": language}
    task = Task(task_id, "agentbench", _NAME, prompt, category=_NAME, labels=labels, statement=story)
    return task, Reference(task_id, answer, puzzle, answer)


def _keys(row: Row, field: str) -> tuple[str, ...]:
    """Return the keys of a cell, which has one in each line, or of a list."""
    value = row.values.get(field)
    return parse_keys("\n".join(row.texts(field)) if isinstance(value, list) else row.text(field))


def _choose_decoys(row: Row, place: int, keys: Sequence[Sequence[str]], language: Language) -> list[str]:
    """Return the facts of other puzzles that have nothing to do with the puzzle of a row.

    Each text has the facts of one puzzle, one in each line. The puzzles with enough facts to look like a
    solution of this one come first.
    """
    own = " ".join((row.text("story"), row.text("answer"), *keys[place]))
    known = list_terms(own, language)
    others = [each for other, each in enumerate(keys) if other != place]
    # The choice must not depend on the run, so that a resumed run asks the same.
    random.Random(row.text("story").encode("utf-8", "surrogatepass")).shuffle(others)
    groups = [[key for key in each if _is_foreign(key, known, language)] for each in others[:_TRIED_PUZZLES]]
    groups.sort(key=lambda group: min(len(group), len(keys[place])), reverse=True)
    return ["\n".join(group) for group in groups[:_MOST_DECOY_PUZZLES] if group]


def _is_foreign(key: str, known: Collection[str], language: Language) -> bool:
    """Return whether a key shares so little with the `known` terms of a puzzle that it is false there."""
    terms = list_terms(key, language)
    shared = sum(term in known for term in terms)
    return len(terms) >= _LEAST_DECOY_TERMS and shared <= _MOST_SHARED * len(terms)


CATEGORY = Category(
    name=_NAME,
    place=6,
    weight=3.5,
    aliases=("ltp", "lateral thinking", "lateral thinking puzzle", "lateral thinking puzzles"),
    facts=CategoryFacts(
        task="explain a strange story by questions that are answered with yes or no",
        bundled="6 English and 6 Chinese puzzles of ours",
        bring="data/lateralthinkingpuzzle/ and _zh/, and a host by lateral.host; the default compares words",
    ),
    folders=("lateralthinkingpuzzle", _CHINESE_FOLDER),
    is_needed=_is_needed,
    rows=_rows,
    owns=_owns,
    read=_read,
    solve=solve_by_target(solve),
    suffixes=(_SPREADSHEET,),
    reads_file=lambda rows: all(map(_owns, rows)),
    find_notice=lambda own, is_bundled: None if is_bundled or own.host != OFFLINE else _OFFLINE_NOTICE,
    options=LateralOptions,
    judge=lambda options: None if options.host == OFFLINE else options.host,
    measure="mean game progress",
)
