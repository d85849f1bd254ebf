"""Natural Questions, open (Kwiatkowski et al. 2019; Lee et al. 2019, arXiv 1906.00300): short answers."""

from __future__ import annotations

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.local import Table
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.splits import HubDataset, Split
from harness.benchmarks.replies import REPLY_FIELDS, remark_on_answer
from harness.core.scoring.answers import drop_thoughts, tagged_answer
from harness.core.types import Reference, Submission, Task
from harness.environments.text.short_answers import METRICS, ShortAnswer, expected_output

# The prompt of LLaMA (arXiv 2302.13971, appendix A) without its examples.
PROMPT = "Answer these questions:\nQ: {problem_statement}?\nA:"
# The prompt shows a base model where the answer goes. A chat model would answer in sentences.
INSTRUCTION = "Reply with the answer only, in a few words and without a sentence around it."
REPLY_RULE = "the text in the last `<answer>`, else the whole reply, without blanks around it"


def read(row: Row) -> tuple[Task, Reference]:
    """Return the task and reference of a row: question, and answer, a list of texts that are all right."""
    question, golds = row.text("question"), row.texts("answer")
    if not question.strip():
        raise row.error("is empty", field="question")
    if not golds:
        raise row.error("has no answer", field="answer")
    for place, gold in enumerate(golds):
        if not gold.strip():
            raise row.error("is empty", field=f"answer[{place}]")
    task = Task(
        id=f"nq/{row.place}",
        benchmark="nq",
        environment="text",
        prompt=PROMPT.replace("{problem_statement}", question.strip().removesuffix("?").rstrip()),
        statement=question,
        instruction=INSTRUCTION,
    )
    return task, Reference(task.id, golds[0], ShortAnswer(tuple(golds)), expected_output(golds))


def submit(task: Task, field: str, text: str) -> Submission:
    """Return the submission: the text in the last `<answer>`, else the whole. A reply loses its thoughts."""
    is_reply = field in REPLY_FIELDS
    answer = drop_thoughts(text) if is_reply else text
    tagged = tagged_answer(answer)
    answer = answer.strip() if tagged is None else tagged
    remark = remark_on_answer(text, "answer", answer) if is_reply else None
    return Submission(answer, agent_output=text, remark=remark)


def _split(name: str, rows: int) -> Split:
    """Return a split of DPR: its test is NQ's own dev, its dev a part of NQ's train (arXiv 2004.04906)."""
    url = f"https://dl.fbaipublicfiles.com/dpr/data/retriever/nq-{name}.qa.csv"
    return Split(HubDataset("facebookresearch/DPR", "nq", name, files=(url,)), rows)


BENCHMARKS = (
    Definition(
        name="nq",
        description="answer a question in a few words, from memory",
        environments=("text",),
        tasks=3610,
        licence="CC BY-SA 3.0",
        splits={"train": _split("train", 79_168), "dev": _split("dev", 8757)},
        formats=("nq-test.qa.csv", "NQ-open.dev.jsonl"),
        table=Table(columns=("question", "answer"), delimiter="\t", literals=("answer",)),
        hub=_split("test", 3610).hub,
        bundled="nq-open.jsonl",
        read=read,
        submit=submit,
        reply_rule=REPLY_RULE,
        metrics=METRICS,
    ),
)
