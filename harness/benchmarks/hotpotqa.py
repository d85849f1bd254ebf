"""HotpotQA, distractor setting (Yang et al. 2018, arXiv 1809.09600): answers that two of ten texts hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.benchmarks import nq
from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.splits import HubDataset, Split
from harness.core.types import Reference, Task
from harness.environments.text.short_answers import METRICS, ShortAnswer, expected_output

_HUB = "hotpotqa/hotpot_qa"
# The prompt of LongBench (arXiv 2308.14508) for HotpotQA, with the request before and after the passages.
_REQUEST = (
    "Answer the question based on the given passages. "
    "Only give me the answer and do not output any other words."
)
PROMPT = (
    f"{_REQUEST}\n\nThe following are given passages.\n{{context}}\n\n"
    f"{_REQUEST}\n\nQuestion: {{question}}\nAnswer:"
)


def read(row: Row) -> tuple[Task, Reference]:
    """Return the task and reference of a row in the published schema or in the hub's.

    Both have question, answer, context, type, and `_id` or `id`. The published context is a list of [title,
    sentences], the hub's an object of two lists. Raises DataError, with file and line, for a broken row.
    """
    question, gold = row.text("question"), row.text("answer")
    for field, text in (("question", question), ("answer", gold)):
        if not text.strip():
            raise row.error("is empty", field=field)
    context = "\n\n".join(
        f"Passage {number}:\n{title}\n{''.join(sentences)}"
        for number, (title, sentences) in enumerate(_passages(row), start=1)
    )
    given = row.optional_text("_id") or row.optional_text("id")
    task = Task(
        id=given or f"hotpotqa/{row.place}",
        benchmark="hotpotqa",
        environment="text",
        prompt=PROMPT.format(context=context, question=question),
        category=row.optional_text("type"),
        statement=f"{context}\n\nQuestion: {question}",
        difficulty=row.optional_text("level"),
    )
    return task, Reference(task.id, gold, ShortAnswer((gold,)), expected_output([gold]))


def _passages(row: Row) -> list[tuple[str, Sequence[str]]]:
    context: Any = row.values.get("context")
    if isinstance(context, Mapping):
        titles, texts = context.get("title"), context.get("sentences")
        if isinstance(titles, list) and isinstance(texts, list) and len(titles) == len(texts):
            context = [[title, sentences] for title, sentences in zip(titles, texts, strict=True)]
    if not isinstance(context, list) or not all(_is_passage(passage) for passage in context):
        raise row.error("needs passages, each a title and a list of sentences", field="context")
    return [(title, sentences) for title, sentences in context]


def published_shape(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row without its id, with context and supporting facts as lists of pairs.

    The hub has each as an object of two lists, and the published file as pairs.
    """
    shaped = {name: value for name, value in row.items() if name not in ("id", "_id")}
    for name, second in (("context", "sentences"), ("supporting_facts", "sent_id")):
        if isinstance(found := row.get(name), Mapping):
            shaped[name] = [list(pair) for pair in zip(found["title"], found[second], strict=True)]
    return shaped


def _is_passage(passage: Any) -> bool:
    if not isinstance(passage, list) or len(passage) != 2 or not isinstance(passage[0], str):
        return False
    return isinstance(passage[1], list) and all(isinstance(sentence, str) for sentence in passage[1])


BENCHMARKS = (
    Definition(
        name="hotpotqa",
        description="answer a question in a few words, from two of ten passages",
        environments=("text",),
        tasks=7405,
        licence="CC BY-SA 4.0",
        split="dev",
        splits={"train": Split(HubDataset(_HUB, "distractor", "train"), 90_447)},
        missing={"test": "its answers are not public, only the leaderboard grades it"},
        formats=("hotpot_dev_distractor_v1.json", "its rows as JSONL"),
        hub=HubDataset(_HUB, "distractor", "validation"),
        bundled="hotpotqa.json",
        read=read,
        submit=nq.submit,
        reply_rule=nq.REPLY_RULE,
        metrics=METRICS,
    ),
)
