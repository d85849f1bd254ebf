"""Seven benchmarks as classes: their examples, labels and metrics have the names of EvoAgentX's interface.

    gsm8k = GSM8K()
    example = gsm8k.get_test_data()[0]
    gsm8k.evaluate(prediction="The answer is 18", label=gsm8k.get_label(example))  # {"solve_rate": 1.0}

Each is a face of the benchmark that `load_benchmark` loads. Its tasks and graders are the same.
"""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

from harness.benchmarks import gsm8k, hotpotqa, math, mbpp, nq
from harness.benchmarks.benchmark import Benchmark
from harness.benchmarks.data.rows import Row, describe, file_suffix
from harness.benchmarks.example import Label, choose_items
from harness.benchmarks.livecodebench.problem import HIDDEN
from harness.benchmarks.loading import load_with_options
from harness.benchmarks.replies import holds_block
from harness.core.errors import SandboxError, UsageError, unknown_name
from harness.core.portal import hold_on_loop
from harness.core.scoring.metrics import pass_at_k
from harness.core.text import escape_terminal
from harness.core.types import Reference, Task
from harness.sandbox.failures import SandboxClosed

SPLITS = ("test", "dev", "train")


class BenchmarkClass(ABC):
    """The base of the classes.

    Args:
        path: The folder with the data, or to save the data in, which is created if it is missing; or a file.
            None means HARNESS_DATA or `~/.harness/data`. `hub` and `bundled` are as in `load_benchmark`.
        mode: The one split that may be asked for, or `all`. The split of the mode is loaded at once, and
            further splits when they are asked for.
        options: The benchmark's own options, as `load_benchmark` takes them.

    Raises UsageError and DataError as `load_benchmark` does.
    """

    benchmark: str
    """The name of the benchmark that `load_benchmark` takes."""
    splits: ClassVar[Mapping[str, str]] = {}
    """Our names of splits that have another name there."""
    missing: ClassVar[Mapping[str, str]] = {}
    """The reasons why the class lacks splits that the benchmark has."""

    def __init__(self, path: str | os.PathLike[str] | None = None, mode: str = "all", **options: Any) -> None:
        if mode not in ("all", *SPLITS):
            raise unknown_name("mode", mode, ("all", *SPLITS))
        self.name = type(self).__name__
        self.path = path
        self.mode = mode
        self._shaped: dict[str, list[dict[str, Any]]] = {}
        split = None
        if mode != "all":
            self._require(mode)
            split = self.splits.get(mode, mode)
        notes: list[str] = []
        self._loaded = load_with_options(
            self.benchmark, options, data=_find_data(path), split=split, notify=notes.append
        )
        if self._loaded.source.kind == "bundled" and path is None:
            warnings.warn(escape_terminal(" ".join(notes)), stacklevel=2)

    def load(self, split: str) -> Benchmark:
        """Return a split as `load_benchmark` does. Raises UsageError, with the reason, for a missing one."""
        self._require(split)
        return self._loaded.in_split(self.splits.get(split, split))

    def get_train_data(
        self, indices: Sequence[int] | None = None, sample_k: int | None = None, seed: int | None = None
    ) -> list[dict[str, Any]]:
        """Return examples of the split `train`, as `get_data_by_mode` does."""
        return self.get_data_by_mode("train", indices, sample_k, seed)

    def get_dev_data(
        self, indices: Sequence[int] | None = None, sample_k: int | None = None, seed: int | None = None
    ) -> list[dict[str, Any]]:
        """Return examples of the split `dev`, as `get_data_by_mode` does."""
        return self.get_data_by_mode("dev", indices, sample_k, seed)

    def get_test_data(
        self, indices: Sequence[int] | None = None, sample_k: int | None = None, seed: int | None = None
    ) -> list[dict[str, Any]]:
        """Return examples of the split `test`, as `get_data_by_mode` does."""
        return self.get_data_by_mode("test", indices, sample_k, seed)

    def get_data_by_mode(
        self,
        mode: str = "test",
        indices: Sequence[int] | None = None,
        sample_k: int | None = None,
        seed: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return all examples of a split, or those at `indices`, or at most `sample_k` drawn from these.

        Raises UsageError, with the reason, for a split that does not exist, and DataError as loading does.
        """
        chosen = choose_items(self._examples(mode), indices, sample_k, seed, what=f"{self.name} {mode}")
        return [dict(example) for example in chosen]

    def get_example_by_id(self, example_id: str | int, mode: str | None = None) -> dict[str, Any] | None:
        """Return the example with an id, or None.

        Without `mode`, the splits are searched that have been loaded. `all` loads all splits.
        """
        every = self._list_splits()
        splits = every if mode == "all" else [mode] if mode else dict.fromkeys([every[0], *self._shaped])
        for split in splits:
            for example in self._examples(split):
                if self.get_id(example) == example_id:
                    return dict(example)
        return None

    def get_example_by_index(self, index: int, mode: str = "test") -> dict[str, Any] | None:
        """Return the example at a position of a split, counted from 0, or None."""
        examples = self._examples(mode)
        return dict(examples[index]) if 0 <= index < len(examples) else None

    def get_id(self, example: Mapping[str, Any]) -> Any:
        """Return the id of an example."""
        return example["id"]

    def get_ids(self, examples: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the ids of examples."""
        return [self.get_id(example) for example in examples]

    @abstractmethod
    def get_label(self, example: Mapping[str, Any]) -> Any:
        """Return the label that answers to an example are graded by. Agents must never get it."""

    def get_labels(self, examples: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the labels of examples."""
        return [self.get_label(example) for example in examples]

    def evaluate(self, prediction: Any, label: Any) -> dict[str, float]:
        """Grade a prediction by a label and return its metrics by name.

        Text is graded in this process, programs and mathematics in a sandbox. It also works where an event
        loop runs, such as in a notebook, and blocks that loop. `load(split).evaluate` also returns the status
        and the evidence of a verdict.

        Raises:
            UsageError: The prediction or the label has a type that this benchmark does not take.
            SandboxError: The sandbox failed before it gave a verdict.
        """
        with hold_on_loop(nullcontext, SandboxClosed) as (_, calls):
            return calls.call(self.evaluate_async(prediction, label))

    @abstractmethod
    async def evaluate_async(self, prediction: Any, label: Any) -> dict[str, float]:
        """Grade a prediction as `evaluate` does; several may be graded at once."""

    @abstractmethod
    def _shape(self, split: str, task: Task, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the example of a task and its row."""

    async def _grade(self, predictions: Sequence[str], label: Label, *, field: str) -> list[dict[str, Any]]:
        results = await self._loaded.async_evaluate_all(predictions, label, field=field)
        for result in results:
            if result["score"] is None:  # A fault of ours must not count as a wrong answer.
                raise SandboxError(f"{self.name}: no verdict: {result.get('evidence', result['status'])}")
        return results

    def _examples(self, split: str) -> list[dict[str, Any]]:
        loaded = self.load(split)
        if split not in self._shaped:
            self._shaped[split] = [self._shape(split, task, loaded.rows[task.id]) for task in loaded.tasks]
        return self._shaped[split]

    def _list_splits(self) -> list[str]:
        """Return the splits that may be asked for, the one that is published for evaluation first."""
        definition = self._loaded.definition
        return [
            split
            for split in SPLITS
            if split not in self.missing
            and self.mode in ("all", split)
            and self.splits.get(split, split) in (definition.split, *definition.splits)
        ]

    def _require(self, split: str) -> None:
        if split not in SPLITS:
            raise unknown_name("split", split, SPLITS)
        if split in self.missing:
            raise UsageError(
                f"{self.name} has no split '{split}': {self.missing[split]}",
                hint=f"load_benchmark('{self.benchmark}', split='{split}') loads it",
            )
        if self.mode not in ("all", split):
            raise UsageError(
                f"{self.name} was made with mode '{self.mode}' and has no split '{split}'",
                hint=f"make it with mode '{split}' or 'all'",
            )


class _Answers(BenchmarkClass):
    """Benchmarks whose predictions are one text, and whose labels are plain answers."""

    metrics: ClassVar[Mapping[str, str]]
    """Our names of the metrics, by their names in the result."""

    async def evaluate_async(self, prediction: Any, label: Any) -> dict[str, float]:
        ours = Label(*self._read(label))
        (result,) = await self._grade([prediction], ours, field="solution")
        return {name: float(result.get(metric, 0.0)) for name, metric in self.metrics.items()}

    @abstractmethod
    def _read(self, label: Any) -> tuple[Task, Reference]:
        """Return the reference of a label, with a task of no meaning. Raises DataError for a wrong label."""

    def _row(self, **fields: Any) -> Row:
        return Row(fields, f"the label of {self.name}")


class NQ(_Answers):
    """Natural Questions: `{"id": "test-1", "question": ..., "answers": [...]}`. The label is the answers."""

    benchmark = "nq"
    metrics: ClassVar = {"em": "em", "f1": "f1", "acc": "acc"}

    def get_label(self, example: Mapping[str, Any]) -> list[str]:
        return list(example["answers"])

    def _shape(self, split: str, task: Task, row: Mapping[str, Any]) -> dict[str, Any]:
        return {"id": _number(split, task), "question": row["question"], "answers": row["answer"]}

    def _read(self, label: Any) -> tuple[Task, Reference]:
        return nq.read(self._row(question="?", answer=label))


class HotPotQA(_Answers):
    """HotpotQA, distractor setting, with `_id` and the published shape. The label is the answer.

    It has no split `test`, because the answers are not public.
    """

    benchmark = "hotpotqa"
    metrics = NQ.metrics

    def get_id(self, example: Mapping[str, Any]) -> str:
        return str(example["_id"])

    def get_label(self, example: Mapping[str, Any]) -> str:
        return str(example["answer"])

    def _shape(self, split: str, task: Task, row: Mapping[str, Any]) -> dict[str, Any]:
        return {"_id": task.id} | hotpotqa.published_shape(row)

    def _read(self, label: Any) -> tuple[Task, Reference]:
        return hotpotqa.read(self._row(question="?", answer=label, context=[]))


class GSM8K(_Answers):
    """GSM8K: `{"id": "test-1", "question": ..., "answer": ...}`. The label is the answer."""

    benchmark = "gsm8k"
    metrics: ClassVar = {"solve_rate": "solved"}

    def get_label(self, example: Mapping[str, Any]) -> str:
        return str(example["answer"])

    def _shape(self, split: str, task: Task, row: Mapping[str, Any]) -> dict[str, Any]:
        number = {"id": _number(split, task)}
        return number | dict(row) | number

    def _read(self, label: Any) -> tuple[Task, Reference]:
        return gsm8k.read(self._row(question="?", answer=label))


class MATH(GSM8K):
    """MATH: `{"id": "test-1", "problem", "solution", "level", "type"}`. The label is the solution."""

    benchmark = "math"

    def get_label(self, example: Mapping[str, Any]) -> str:
        return str(example["solution"])

    def _read(self, label: Any) -> tuple[Task, Reference]:
        # The problem decides whether an answer may leave out the base of its numbers.
        loaded = (example for examples in self._shaped.values() for example in examples)
        problem = next((each["problem"] for each in loaded if each["solution"] == label), "?")
        return math.read(self._row(problem=problem, solution=label, level="", type=""))


class _Programs(BenchmarkClass):
    """Benchmarks that report pass@k. A prediction is a text, or a list of texts for one problem.

    Args:
        k: The values of k, one or several. None means 1 and the number of predictions.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        mode: str = "all",
        k: int | Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        self.k = k
        super().__init__(path, mode, **options)

    def get_id(self, example: Mapping[str, Any]) -> Any:
        return example["task_id"]

    def get_label(self, example: Mapping[str, Any]) -> dict[str, Any]:
        """Return the id, the tests and the reference of an example. Agents must never get it."""
        return {name: example[name] for name in ("task_id", "canonical_solution", "test", "entry_point")}

    async def evaluate_async(self, prediction: Any, label: Any) -> dict[str, float]:
        predictions = [prediction] if isinstance(prediction, str) else prediction
        if not isinstance(predictions, list | tuple) or not predictions:
            raise UsageError(
                f"{self.name}: a prediction is a text or a list of texts, not {describe(prediction)}"
            )
        count = len(predictions)
        wanted = (1, count) if self.k is None else (self.k,) if isinstance(self.k, int) else self.k
        if wrong := [k for k in wanted if not 1 <= k <= count]:
            raise UsageError(f"{self.name}: pass@{wrong[0]} cannot be told from {count} predictions")
        results = await self._grade(
            [self._as_reply(each) for each in predictions], self._find(label), field="reply"
        )
        passed = sum(bool(result["resolved"]) for result in results)
        return {f"pass@{k}": float(pass_at_k(count, passed, k) or 0.0) for k in wanted}

    def _as_reply(self, prediction: Any) -> Any:
        """Return the prediction in the form that the benchmark takes as a reply."""
        return prediction

    def _find(self, label: Any) -> Label:
        """Return our label. Raises UsageError for one that `get_label` does not return."""
        loaded = self.load("test")
        task_id = label.get("task_id") if isinstance(label, Mapping) else None
        example = None if task_id is None else self.get_example_by_id(task_id)
        if example is None or self.get_label(example) != label:
            raise UsageError(
                f"{self.name}: {describe(label) if task_id is None else f'the label of {task_id!r}'} "
                "is not a label of this data",
                hint="take it from get_label(example), and leave it as it is",
            )
        task = next(task for task in loaded.tasks if task.id == str(task_id))
        return Label(task, loaded.references[task.id])


class HumanEval(_Programs):
    """HumanEval, with the five published fields. The label has `task_id`, `test` and the reference.

    A prediction continues the prompt, is a whole program, or is a reply with a block of code.
    """

    benchmark = "humaneval"

    def _shape(self, split: str, task: Task, row: Mapping[str, Any]) -> dict[str, Any]:
        return dict(row)


class MBPP(_Programs):
    """The 427 problems of MBPP in HumanEval's shape, with the original fields, such as `code`, as well."""

    benchmark = "mbpp-humaneval"
    splits: ClassVar = {"test": "all"}
    missing: ClassVar = dict.fromkeys(
        ("train", "dev"), "all 427 problems are the split 'test' here, and would be in two splits"
    )

    def _shape(self, split: str, task: Task, row: Mapping[str, Any]) -> dict[str, Any]:
        shaped = mbpp.humaneval_shape(Row(row, self._loaded.source.location))
        return shaped | {"original_prompt": row["prompt"]}


class LiveCodeBench(_Programs):
    """LiveCodeBench, in one of three scenarios. Examples are the published rows without the hidden tests.

    Args:
        scenario: `code_generation`, `test_output_prediction` or `code_execution`.
        version: The release of `code_generation`: `release_v1` to `release_v6`, `release_latest` (the
            default), a single file such as `v6`, or a range such as `v4_v5`.
        options: The options of the benchmark, such as `start_date` and `difficulty`.
    """

    scenarios: ClassVar[Mapping[str, str]] = {
        "code_generation": "livecodebench",
        "test_output_prediction": "livecodebench-test-output",
        "code_execution": "livecodebench-execution",
    }

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        mode: str = "all",
        scenario: str = "code_generation",
        version: str | None = None,
        k: int | Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        if scenario not in self.scenarios:
            raise unknown_name("scenario", scenario, self.scenarios)
        if version is not None and scenario != "code_generation":
            raise UsageError(
                f"LiveCodeBench: version '{version}' needs scenario 'code_generation', not '{scenario}'",
                hint="leave the version out, because only programs have several",
            )
        if "release" in options:
            raise UsageError("LiveCodeBench: the option 'release' is called version here")
        self.scenario = scenario
        self.version = version
        self.benchmark = self.scenarios[scenario]
        chosen = {} if version is None else {"release": version}
        super().__init__(path, mode, k, **chosen, **options)

    def get_label(self, example: Mapping[str, Any]) -> dict[str, Any]:
        """Return the id of an example, and its expected output if it is published as plain text."""
        found = {"task_id": example["task_id"]}
        match self.scenario:
            case "code_execution":
                return found | {name: example[name] for name in ("code", "input", "output")}
            case "test_output_prediction":
                return found | {"input": example["question_content"], "test": example["test"]}
        return found

    def _shape(self, split: str, task: Task, row: Mapping[str, Any]) -> dict[str, Any]:
        # The hidden tests of all problems fill tens of GB, and graders unpack them when they need them.
        return {"task_id": task.id} | {name: value for name, value in row.items() if name != HIDDEN}

    def _as_reply(self, prediction: Any) -> Any:
        is_program = self.scenario == "code_generation" and isinstance(prediction, str)
        return f"```python\n{prediction}\n```" if is_program and not holds_block(prediction) else prediction


def _number(split: str, task: Task) -> str:
    """Return the id of an example, such as `test-1` for the task `nq/0`."""
    return f"{split}-{int(task.id.rpartition('/')[2]) + 1}"


def _find_data(path: str | os.PathLike[str] | None) -> str | None:
    """Return `path` as `load_benchmark` takes it, and create the folder to save data in."""
    if path is None or path in ("hub", "bundled"):
        return path if path is None else str(path)
    place = Path(os.path.expanduser(path))
    if not place.exists() and file_suffix(place) is None:
        try:
            place.mkdir(parents=True)
        except OSError as error:
            raise UsageError(f"path {place}: cannot be created: {error.strerror}") from error
    return str(place)
