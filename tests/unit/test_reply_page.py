"""The page about replies agrees with the benchmarks."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bundled import load_bundled
from case_checks import each_case

from harness.benchmarks import Definition, definitions
from harness.benchmarks.programs import SubmitProgram
from harness.benchmarks.replies import CodeRule
from harness.core.scoring.answers import MAX_REPLY_CHARACTERS
from harness.core.types import Task

PAGE = (Path(__file__).parents[2] / "docs" / "replies.md").read_text()
SAMPLES = {name: load_bundled(name) for name in definitions()}


def table(marker: str) -> list[list[str]]:
    """Return the cells of the table between two comments of the page, without its head."""
    text = PAGE.partition(f"<!-- {marker} -->")[2].partition(f"<!-- /{marker} -->")[0]
    return [line.strip("| ").split(" | ") for line in text.strip().splitlines()[2:]]


def rules_of(definition: Definition) -> list[str]:
    submit = definition.submit
    if not isinstance(submit, SubmitProgram):
        task = SAMPLES[definition.name].tasks[0]
        # A rule for replies that completions do not have keeps their thoughts.
        kept = (
            submit(task, "completion", "<think>1</think>").text
            != submit(task, "reply", "<think>1</think>").text
        )
        return ["the text as it is" if kept else "as `reply`", definition.reply_rule]
    completion, reply = f"`{submit.completion}`", f"`{submit.reply}`"
    if submit.continues_prompt:
        assert submit.completion is CodeRule.NONE
        return ["continues the prompt", f"{reply}; without the entry point it continues the prompt"]
    return [completion, reply]


def test_page_has_the_rule_of_each_benchmark() -> None:
    rules = [[name, *rules_of(definition)] for name, definition in sorted(definitions().items())]
    assert table("rules") == rules


def test_page_lists_every_rule_for_code_and_the_limit() -> None:
    section = PAGE.partition("## The rules for code")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE) == [*CodeRule]
    assert f"{MAX_REPLY_CHARACTERS:,} characters" in PAGE


@each_case(("benchmark", "reply", "graded"), table("examples"))
def test_each_example_of_the_page_is_graded_as_it_states(benchmark: str, reply: str, graded: str) -> None:
    task = SAMPLES[benchmark].tasks[0]

    def read(cell: str) -> str:
        text = str(json.loads(cell.removeprefix("`").removesuffix("`")))
        return text.replace("NAME", str(task.entry_point)).replace("PROMPT", task.prompt)

    assert SAMPLES[benchmark].submission(task, "reply", read(reply)).text == read(graded)


def first_task(name: str) -> Task:
    return SAMPLES[name].tasks[0]


def test_instruction_asks_for_the_form_that_the_rule_reads() -> None:
    instructed = {name for name, benchmark in SAMPLES.items() if benchmark.tasks[0].instruction}
    assert instructed == {
        "bbh",
        "humaneval",
        "humaneval-plus",
        "mbpp",
        "mbpp-full",
        "mbpp-humaneval",
        "multipl-e",
        "mbpp-plus",
        "nq",
    }
    for name in instructed - {"bbh", "nq"}:
        task = first_task(name)
        language = "cpp" if name == "multipl-e" else "python"
        assert f"in one ```{language} block" in task.instruction
        if language != "python":
            continue
        program = f"def {task.entry_point}(x):\n    return x"
        assert SAMPLES[name].submission(task, "reply", f"```python\n{program}\n```").text == program
    # The other benchmarks that grade programs show the form in the prompt itself.
    assert "```python" in first_task("livecodebench").prompt


def test_no_task_of_a_benchmark_lacks_the_instruction_of_the_others() -> None:
    assert all(len({task.instruction for task in each.tasks}) == 1 for each in SAMPLES.values())
