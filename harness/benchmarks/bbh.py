"""BIG-Bench Hard (Suzgun et al. 2022, arXiv 2210.09261): 27 tasks of BIG-Bench that models found hard."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.rows import Row, parse_data
from harness.benchmarks.data.source import BUNDLED
from harness.benchmarks.replies import REPLY_FIELDS, remark_on_answer
from harness.core.errors import DataError
from harness.core.inputs.files import MAX_DATA_BYTES, open_input
from harness.core.scoring.answers import drop_thoughts, marked_parts, stated_answer
from harness.core.scoring.choices import LETTERS
from harness.core.types import PlainData, Reference, Submission, Task
from harness.environments.text.stated_answers import METRICS, ChoiceAnswer, PhraseAnswer

# The published files of examples end each answer so.
INSTRUCTION = 'Think step by step, and end your reply with the sentence "So the answer is X."'
_CANARY = "-----"
_OPTION = re.compile(r"^\((?P<letter>[A-Z])\)\s*(?P<text>.*)$", re.MULTILINE)
_LETTER = re.compile(r"\((?P<letter>[A-Z])\)")
_MAX_ANSWER = 2000
_STATED = re.compile(r"\banswer[*_\s]{0,4}(?:is|:)[*_:\s]{0,4}(?=[^\n])", re.IGNORECASE)


def read(row: Row) -> tuple[Task, Reference]:
    """Return the task and reference of an example: input, target, and its task's name and examples.

    A target such as `(B)` is an option of the input. Any other is a word, several, or brackets.
    """
    question, gold, name = row.text("input"), row.text("target").strip(), row.text("task")
    if not question.strip() or not gold:
        raise row.error("is empty", field="input" if not question.strip() else "target")
    shots = row.optional_text("cot_prompt")
    prompt = f"Q: {question}\nA: Let's think step by step."
    options = {match["letter"]: match["text"] for match in _OPTION.finditer(question)}
    target: PlainData = PhraseAnswer(gold)
    if (choice := _LETTER.fullmatch(gold)) is not None:
        if "".join(options) != LETTERS[: len(options)] or choice["letter"] not in options:
            raise row.error(f"names no option of the input: {gold}", field="target")
        target = ChoiceAnswer(choice["letter"], tuple(options.values()))
    task = Task(
        id=f"bbh/{name}/{row.place}",
        benchmark="bbh",
        environment="text",
        prompt=f"{shots.strip()}\n\n{prompt}" if shots else prompt,
        category=name,
        statement=question,
        instruction="" if shots else INSTRUCTION,
    )
    return task, Reference(task.id, gold, target, expected_output=gold)


def submit(task: Task, field: str, text: str) -> Submission:
    """Return the submission: the text after the last `answer is`, else in the last mark of an answer."""
    if field not in REPLY_FIELDS:
        return Submission(text.strip(), agent_output=text)
    reply = drop_thoughts(text)
    last = deque(_STATED.finditer(reply), 1)
    said = reply[last[0].end() :][:_MAX_ANSWER].partition("\n")[0] if last else ""
    found = next(marked_parts(reply), None) or stated_answer(reply) or said
    # The sentence ends here, and what follows it explains the answer.
    answer = re.split(r"\.(?:\s|\Z)", found.strip(), maxsplit=1)[0].strip()
    return Submission(answer, agent_output=text, remark=remark_on_answer(text, "answer", answer))


def gather(path: Path, notify: Callable[[str], None]) -> tuple[list[Row], str]:
    """Return the rows at a path and the SHA-256 (hex) of their files.

    The path is a file `TASK.json` or a folder of such files, also in its `bbh`. The three examples of a task
    come from `cot-prompts/TASK.txt` in the folder or beside it, if it is there. Raises DataError.
    """
    folder = path / "bbh" if (path / "bbh").is_dir() else path
    files = sorted(folder.glob("*.json")) if folder.is_dir() else [folder]
    if not files:
        raise DataError("holds no JSON file of a task, such as boolean_expressions.json", path=path)
    digest = hashlib.sha256()
    rows: list[Row] = []
    for file in files:
        content = _read(file)
        digest.update(content)
        shots = _find_shots(file, digest)
        for item, (name, example) in enumerate(_examples(file, content), 1):
            values = {"task": name, **example, **({"cot_prompt": shots} if shots else {})}
            rows.append(Row(values, str(file), item=item))
    if path.parent != BUNDLED and not any("cot_prompt" in row.values for row in rows):
        notify("bbh: no folder cot-prompts beside the data, so the prompts have no examples (0-shot)")
    return rows, digest.hexdigest()


def _examples(file: Path, content: bytes) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield each example of a file with the name of its task. Raises DataError."""
    try:
        found = parse_data(content)
    except ValueError as error:
        raise DataError(f"is not JSON: {error}", path=file) from error
    examples = found.get("examples") if isinstance(found, dict) else found
    if not isinstance(examples, list) or not all(isinstance(example, dict) for example in examples):
        raise DataError("needs a list of objects with input and target", path=file, field="examples")
    for example in examples:
        values = dict(example)
        yield str(values.pop("task", file.stem)), values


def _find_shots(file: Path, digest: hashlib._Hash) -> str | None:
    for folder in (file.parent / "cot-prompts", file.parent.parent / "cot-prompts"):
        shots = folder / f"{file.stem}.txt"
        if shots.is_file():
            content = _read(shots)
            digest.update(content)
            # A line of dashes separates the canary from the text.
            return content.decode("utf-8", "replace").rpartition(f"\n{_CANARY}\n")[2].strip() or None
    return None


def _read(file: Path) -> bytes:
    try:
        with open_input(str(file), max_bytes=MAX_DATA_BYTES) as stream:
            return stream.read()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=file) from error


BENCHMARKS = (
    Definition(
        name="bbh",
        description="answer a question of one of 27 tasks of BIG-Bench",
        environments=("text",),
        tasks=6511,
        licence="MIT",
        grading_version=2,
        missing=dict.fromkeys(("train", "dev"), "it was published for evaluation only"),
        formats=("the folder of the repository", "its files as JSON"),
        hub=None,
        bundled="bbh.json",
        read=read,
        gather=gather,
        submit=submit,
        reply_rule="the text in the last `\\boxed{}` or `<answer>`, else after the last `answer is`",
        metrics=METRICS,
    ),
)
