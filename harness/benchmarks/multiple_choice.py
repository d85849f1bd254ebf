"""Questions with options: the rows of ARC, AGIEval, MMLU and your own, and what MMLU-Pro and GPQA share."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.rows import Row, describe
from harness.benchmarks.options import Options, validate_options
from harness.benchmarks.replies import REPLY_FIELDS, explain_nothing
from harness.core.scoring.answers import drop_thoughts
from harness.core.scoring.choices import LETTERS
from harness.core.types import Reference, Submission, Task
from harness.environments.text.stated_answers import METRICS, ChoiceAnswer

# The prompt of simple-evals for GPQA and MMLU.
PROMPT = (
    "Answer the following multiple choice question. The last line of your response should be of the "
    "following format: 'Answer: $LETTER' (without quotes) where LETTER is one of {letters}. Think step by "
    "step before answering.\n\n{question}\n\n{options}"
)
# A letter and its mark before the text of an option: "(A) Paris", "A. Paris", "A) Paris".
_LABEL = re.compile(r"\(?(?P<letter>[A-Z])[).:]\s*")
# The filler of rows that have fewer options than others.
_FILLER = "N/A"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its options in the order that they are shown, and the place of the right one from 0."""

    text: str
    options: tuple[str, ...]
    right: int
    category: str | None = None


def shuffle_options(question: Question, seed: int, name: str) -> Question:
    """Return the question with its options in another order, the same for one seed and one name of a task."""
    order = list(range(len(question.options)))
    random.Random(f"{seed}:{name}").shuffle(order)
    options = tuple(question.options[place] for place in order)
    return replace(question, options=options, right=order.index(question.right))


def read_question(row: Row) -> Question:
    """Return the question of a row in one of the published shapes.

    MMLU-Pro has `options`, and `answer` or `answer_index`. MMLU has `choices`, and `answer` from 0. ARC has
    `choices` as an object of `text` and `label`, and `answerKey`. Any other object has the options by their
    letters. AGIEval has `passage`, `options` with their letters and `label`. A table may have a column for
    each letter: `A`, `B`, `C`. The answer is a letter, a place from 0, or the whole text of an option.

    Raises DataError for any other row.
    """
    field = "options" if "options" in row.values else "choices"
    labels, options = _read_options(row, field)
    answer_field = _find(row, ("answer", "answerKey", "label", "answer_index", "target", "correct"))
    answer = row.value(answer_field)
    right = _find_place(answer, labels, options)
    if right is None:
        raise row.error(
            f"names none of the {len(options)} options, or several: {describe(answer)}", field=answer_field
        )
    text = row.text(_find(row, ("question", "input", "problem", "prompt")))
    passage = row.optional_text("passage")
    category = row.optional_text("category") or row.optional_text("subject")
    return Question(f"{passage}\n\n{text}" if passage else text, options, right, category)


def _find(row: Row, names: Sequence[str]) -> str:
    return next((name for name in names if row.values.get(name) is not None), names[0])


def _read_options(row: Row, field: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the labels and the texts of the options. Raises DataError."""
    columns = list(itertools.takewhile(lambda letter: letter in row.values, LETTERS))
    value = (
        [row.text(letter) for letter in columns] if columns and field not in row.values else row.value(field)
    )
    labels = list(LETTERS)
    if isinstance(value, Mapping) and "text" in value:
        labels, value = [str(label) for label in value.get("label", labels)], value["text"]
    elif isinstance(value, Mapping):
        labels, value = list(map(str, value)), list(value.values())
    if not isinstance(value, list) or not all(isinstance(option, str) for option in value):
        raise row.error(f"needs a list of texts, found {describe(value)}", field=field)
    found = [_LABEL.match(option) for option in value]
    if all(
        match is not None and match["letter"] == letter for match, letter in zip(found, LETTERS, strict=False)
    ):
        value = [_LABEL.sub("", option, count=1) for option in value]
    while value and value[-1] == _FILLER:
        value = value[:-1]
    if not 2 <= len(value) <= len(LETTERS):
        raise row.error(f"needs 2 to {len(LETTERS)} options, found {len(value)}", field=field)
    return labels[: len(value)], tuple(option.strip() for option in value)


def _find_place(answer: Any, labels: Sequence[str], options: Sequence[str]) -> int | None:
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if isinstance(answer, int) and not isinstance(answer, bool):
        return answer if 0 <= answer < len(options) else None
    if not isinstance(answer, str):
        return None
    plain = answer.strip().strip("()")
    for names in (labels, list(LETTERS[: len(options)])):
        if plain in names:
            return names.index(plain)
    # A number may be the place of one option and the text of another.
    same = {place for place, option in enumerate(options) if option == answer.strip()}
    same |= {place for place in range(len(options)) if plain == str(place)}
    return same.pop() if len(same) == 1 else None


class ChoiceOptions(Options):
    """The order of the options: as published, or shuffled by `shuffle_seed`, the same for each run."""

    shuffle_seed: int | None = None


def read(
    row: Row, *, name: str, find: Callable[[Row], Question], prompt: str, seed: int | None
) -> tuple[Task, Reference]:
    """Return the task and reference of a row. Raises DataError, with file and line, for a broken row."""
    field = _find(row, ("id", "question_id", "Record ID", "task_id"))
    place = row.name(field) if row.values.get(field) is not None else str(row.place)
    question = find(row)
    if not question.text.strip():
        raise row.error("has an empty question")
    if seed is not None:
        question = shuffle_options(question, seed, place)
    letters = LETTERS[: len(question.options)]
    options = show_options(question.options)
    task = Task(
        id=f"{name}/{place}",
        benchmark=name,
        environment="text",
        prompt=prompt.format(
            letters=letters,
            question=question.text,
            options=options,
            category=question.category or "many subjects",
        ),
        category=question.category,
        labels={"options": str(len(letters))},
        statement=f"{question.text}\n\n{options}",
    )
    letter = letters[question.right]
    shown = f"{letter}) {question.options[question.right]}"
    return task, Reference(task.id, letter, ChoiceAnswer(letter, question.options), expected_output=shown)


def show_options(options: Sequence[str]) -> str:
    """Return options as a prompt shows them, one a line with its letter."""
    return "\n".join(f"{letter}) {text}" for letter, text in zip(LETTERS, options, strict=False))


def submit(task: Task, field: str, text: str) -> Submission:
    """Return the submission: the reply without thoughts, whose last statement chooses an option."""
    if field not in REPLY_FIELDS:
        return Submission(text, agent_output=text)
    answer = drop_thoughts(text)
    nothing = None if answer.strip() else explain_nothing(text, "option")
    return Submission(answer, agent_output=text, remark=nothing)


def configure(definition: Definition, options: Mapping[str, Any]) -> Definition:
    """Return the definition with the order of options that the options choose. Raises UsageError."""
    model, reading = cast("tuple[type[ChoiceOptions], Any]", (definition.options, definition.read))
    seed = validate_options(model, options, definition.name).shuffle_seed
    order = None if seed is None else f"options shuffled by seed {seed}"
    return replace(definition, read=partial(reading, seed=seed), find_window=lambda _source, _rows: order)


def define(
    name: str,
    description: str,
    *,
    find: Callable[[Row], Question] = read_question,
    prompt: str = PROMPT,
    options: type[ChoiceOptions] = ChoiceOptions,
    **facts: Any,
) -> Definition:
    """Return a benchmark of questions with options, with further `facts` of its definition.

    `find` reads a row, and `prompt` shows the question.
    """
    missing = {"train", "dev"} - facts.get("splits", {}).keys()
    return Definition(
        name=name,
        description=description,
        environments=("text",),
        grading_version=2,
        missing=dict.fromkeys(sorted(missing), "it was published for evaluation only"),
        formats=("its rows as JSONL, JSON, CSV or Parquet",),
        read=partial(read, name=name, find=find, prompt=prompt, seed=None),
        submit=submit,
        reply_rule="the option in the last `\\boxed{X}` or `<answer>`, else in the last `answer is (X)` or "
        "`Answer: X`, else in the last line; several options count as no answer",
        metrics=METRICS,
        configure=configure,
        options=options,
        **facts,
    ).with_options({})


BENCHMARKS = (
    define(
        "multiple_choice",
        "choose an option, in rows of the shapes of ARC, AGIEval, MMLU or your own",
        tasks=None,
        licence="the licence of your data",
        hub=None,
        bundled="multiple_choice.jsonl",
    ),
)
