"""GSM8K (Cobbe et al. 2021, arXiv 2110.14168): grade school word problems whose answer is one number."""

from __future__ import annotations

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.splits import HubDataset, Split
from harness.benchmarks.replies import REPLY_FIELDS, remark_on_answer
from harness.core.scoring.answers import drop_thoughts
from harness.core.scoring.numbers import gold_number
from harness.core.types import Reference, Submission, Task
from harness.environments.text.short_answers import NUMBER_METRICS, NumberAnswer

# The prompt that OpenAI's simple-evals uses for the English part of MGSM, which is GSM8K.
PROMPT = """\
Solve this math problem. Give the reasoning steps before giving the final answer on the last line by \
itself in the format of "Answer:". Do not add anything other than the integer answer after "Answer:".

{problem_statement}
"""


def read(row: Row) -> tuple[Task, Reference]:
    """Return the task and reference of a row: question, and an answer that ends in `#### ` and a number.

    Raises DataError, with file and line, for a broken row.
    """
    question, answer = row.text("question"), row.text("answer")
    if not question.strip():
        raise row.error("is empty", field="question")
    try:
        gold = gold_number(answer)
    except ValueError as error:
        raise row.error(f"{error}, but every gold answer of GSM8K ends in one", field="answer") from error
    task = Task(
        id=f"gsm8k/{row.place}",
        benchmark="gsm8k",
        environment="text",
        prompt=PROMPT.replace("{problem_statement}", question),
        statement=question,
    )
    return task, Reference(task.id, answer, NumberAnswer(gold), expected_output=str(gold))


def submit(task: Task, field: str, text: str) -> Submission:
    """Return the submission: the text, whose marked or last number counts. A reply loses its thoughts."""
    if field not in REPLY_FIELDS:
        return Submission(text, agent_output=text)
    answer = drop_thoughts(text)
    return Submission(answer, agent_output=text, remark=remark_on_answer(text, "answer", answer))


BENCHMARKS = (
    Definition(
        name="gsm8k",
        description="solve a grade school word problem",
        environments=("text",),
        tasks=1319,
        licence="MIT",
        splits={"train": Split(HubDataset("openai/gsm8k", "main", "train"), 7473)},
        missing={"dev": "it was published with train and test only"},
        formats=("test.jsonl", "its rows as JSON"),
        hub=HubDataset("openai/gsm8k", "main", "test"),
        bundled="gsm8k.jsonl",
        read=read,
        submit=submit,
        reply_rule=r"the number at the last `####`, `\boxed{}` or `<answer>`, else the last number",
        metrics=NUMBER_METRICS,
    ),
)
