"""The suite of attacks as text: it is complete, fits every benchmark, and knows no more than an attacker."""

from __future__ import annotations

import ast
import builtins
import symtable
import warnings
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from bundled import load_bundled
from case_checks import each_case
from contexts import ListTranscript
from effort import one_in_four

from harness.audit.attack import Attack
from harness.audit.attack_kinds import ProgramAttack, choose_answers, choose_outputs
from harness.audit.suite import (
    CONSTANT,
    ORACLE,
    Suite,
    build_attacker,
    list_attacks,
    list_attacks_on,
    list_fitting_attacks,
    name_target,
)
from harness.benchmarks import Benchmark, definitions
from harness.core.errors import UsageError
from harness.core.types import ProgramTests, Reference, Task
from harness.environments.text import SPEC as TEXT
from harness.environments.text.short_answers import (
    AnswerRule,
    ExpectedText,
    LiteralAnswer,
    LiteralForm,
    NumberAnswer,
    PlainAnswer,
    ShortAnswer,
)
from harness.environments.text.stated_answers import ChoiceAnswer, IntegerAnswer, PhraseAnswer
from harness.runs.agents.agent import AttemptContext, settings_for

ON_PROGRAMS = [attack for attack in list_attacks_on("ProgramTests") if isinstance(attack, ProgramAttack)]
ALL = {attack.name: attack for attack in ON_PROGRAMS}
BENCHMARKS = {name: load_bundled(name) for name in definitions()}
ON_CODE = {
    name: benchmark
    for name, benchmark in BENCHMARKS.items()
    if any(isinstance(reference.target, ProgramTests) for reference in benchmark.references.values())
}

every_benchmark = each_case("benchmark", BENCHMARKS.values(), ids=BENCHMARKS)
code_benchmark = each_case("benchmark", ON_CODE.values(), ids=ON_CODE)


def write_distinct(attack: ProgramAttack, task: Task) -> list[str]:
    """Return the programs of an attack, with one of those that differ only in the number of their sample."""
    return list(dict(zip(attack.templates, attack.write_programs(task), strict=True)).values())


class _UnknownTests:
    """The target of a grader for which no attacks exist."""


def test_the_suite_has_at_least_forty_five_attacks_on_programs() -> None:
    assert len(ON_PROGRAMS) >= 45


def test_every_target_of_the_text_graders_is_attacked() -> None:
    targets: list[Any] = [
        *(PlainAnswer(rule, ("1",)) for rule in AnswerRule),
        *(NumberAnswer(Decimal(1)), ShortAnswer(("a",)), ExpectedText("a")),
        LiteralAnswer("1", LiteralForm.RESULT, exact_types=True),
        *(IntegerAnswer(1), ChoiceAnswer("A", ("a", "b")), PhraseAnswer("a")),
    ]
    assert {type(target) for target in targets} == {grader.target_type for grader in TEXT.graders}
    assert [target for target in targets if not list_attacks_on(name_target(target))] == []


def test_a_question_of_a_user_is_attacked_by_its_rule() -> None:
    names = [name_target(PlainAnswer(rule, ("1",))) for rule in (AnswerRule.NUMBER, AnswerRule.F1)]
    assert names == ["NumberAnswer", "ShortAnswer"]


def test_no_two_attacks_share_a_name() -> None:
    counts = Counter(attack.name for attack in list_attacks())
    assert [name for name, number in counts.items() if number > 1] == []


def test_no_two_attacks_do_the_same() -> None:
    counts = Counter(attack.templates for attack in list_attacks() if isinstance(attack, ProgramAttack))
    assert [templates for templates, number in counts.items() if number > 1] == []


def test_an_attack_on_programs_names_the_graders_that_it_beats() -> None:
    assert [attack.name for attack in ON_PROGRAMS if "beats" not in attack.description] == []


def test_every_attack_makes_an_attempt() -> None:
    assert [attack.name for attack in list_attacks() if attack.samples < 1] == []


@every_benchmark
def test_the_suite_makes_every_program_of_every_attack_at_every_task(benchmark: Benchmark) -> None:
    suite = build_attacker(settings_for(benchmark), benchmark)
    made = Counter(step.name for step in suite.steps if step.attack is not None)
    assert made == {attack.name: attack.samples for attack in list_fitting_attacks(benchmark)}
    for task in benchmark.tasks:
        steps = [suite.steps[line - 1] for line in suite.samples(task) if line is not None]
        fitting = {attack.name for attack in _attacks_at(benchmark, task)}
        assert {step.name for step in steps if step.attack is not None} == fitting


@every_benchmark
def test_the_oracle_follows_every_class_of_attacks(benchmark: Benchmark) -> None:
    """The oracle finds a grader that an attack has broken for all later submissions."""
    steps = build_attacker(settings_for(benchmark), benchmark).steps
    last = {step.kind: step.name for step in steps if step.kind}
    assert last
    assert last == dict.fromkeys(last, ORACLE)


def test_an_attack_ends_before_the_next_one_begins() -> None:
    """Its samples follow each other, so that each finds what the last one left."""
    steps = [
        step
        for step in build_attacker(settings_for(BENCHMARKS["mbpp"]), BENCHMARKS["mbpp"]).steps
        if step.attack
    ]
    samples = [list(range(len(attack.templates))) for attack in ON_PROGRAMS]
    assert [step.sample for step in steps] == [sample for of_one in samples for sample in of_one]


def test_every_program_compiles_for_a_task_of_every_benchmark() -> None:
    for place, benchmark in enumerate(ON_CODE.values()):
        for attack in one_in_four(ON_PROGRAMS, place):
            for program in write_distinct(attack, benchmark.tasks[0]):
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    compile(program, f"{attack.name} on {benchmark.name}", "exec")


def test_no_program_uses_a_name_that_nobody_defines() -> None:
    """An attack that ends by a NameError attacks nothing."""
    task = BENCHMARKS["mbpp"].tasks[0]
    programs = {attack.name: write_distinct(attack, task) for attack in ON_PROGRAMS}
    undefined = {
        name: found for name, texts in programs.items() if (found := set().union(*map(_undefined, texts)))
    }
    assert undefined == {}


@code_benchmark
def test_no_program_holds_a_test_of_its_task(benchmark: Benchmark) -> None:
    for task, program in _all_programs(benchmark.name):
        target = benchmark.references[task.id].target
        assert isinstance(target, ProgramTests)
        for statement in target.statements:
            assert all(line.strip() not in program for line in statement.splitlines() if "assert" in line)


@code_benchmark
def test_no_program_holds_the_reference(benchmark: Benchmark) -> None:
    for task, program in _all_programs(benchmark.name):
        assert benchmark.references[task.id].solution.strip() not in program


def test_a_program_holds_only_names_of_the_prompt() -> None:
    """A prompt may show tests, and an attack that found them in its own text would have learned nothing."""
    prompt = "Write a function.\n>>> shown(123454321)\n'a secret'\nassert shown([5, 5, 5]) == 987\n"
    task = Task("t/1", "b", "python", prompt, entry_point="shown")
    secrets = ("123454321", "a secret", "[5, 5, 5]", "987\n")
    found = {
        attack.name: [secret for secret in secrets if any(secret in program for program in programs)]
        for attack in ON_PROGRAMS
        if not attack.knows_answers and (programs := write_distinct(attack, task))
    }
    assert len(found) > 40
    assert {name: parts for name, parts in found.items() if parts} == {}


@each_case("attack", [attack for attack in ALL.values() if attack.knows_answers])
def test_a_guesser_knows_the_answers_in_the_prompt_and_not_the_questions(
    attack: ProgramAttack,
) -> None:
    prompt = "Write a function.\n>>> shown(123454321)\n'a secret'\nassert shown([5, 5, 5]) == 'no more'\n"
    task = Task("t/1", "b", "python", prompt, entry_point="shown")
    for program in attack.write_programs(task):
        assert "ANSWERS = ['a secret', 'no more']" in program
        assert not any(part in program for part in ("123454321", "[5, 5, 5]"))


@each_case(
    ("prompt", "answers"),
    [
        (">>> f([1.5])\nTrue\n", [True, False]),
        ("nothing is shown", [True, False]),
        ("assert f(1) == 40\nassert f(2) == 3", [-1, *range(11), 40]),
        ("f('x') \u279e 'YES'\nf('y') => 'NO'", ["NO", "YES"]),
        ("Input: s = 3\nOutput: false\n", [True, False]),
        ("assert f(1) == open('x').read()", [True, False]),
    ],
)
def test_the_answers_to_guess_are_those_that_the_prompt_shows(prompt: str, answers: list[object]) -> None:
    assert choose_answers(prompt) == answers


def test_the_outputs_to_guess_are_the_first_lines_that_the_prompt_shows() -> None:
    prompt = "Sample Input 1\n\n3 2\n\nSample Output 1\n\nYes\r\n1 2\n\nSample Output 2\n\nNo\n"
    assert choose_outputs(prompt) == ["No", "Yes"]


def test_a_program_knows_every_name_that_the_prompt_shows_in_a_call() -> None:
    task = Task("t/1", "b", "python", "assert helper(Thing(1)) == len('x')", entry_point="shown")
    (program,) = ALL["sys-exit"].write_programs(task)
    namespace: dict[str, Any] = {}
    exec(program.split("\nimport os", 1)[0], namespace)
    assert {"helper", "Thing", "shown", "candidate"} <= set(namespace["NAMES"])
    assert "len" not in namespace["NAMES"]


def test_a_malformed_name_breaks_no_program() -> None:
    task = Task("it's\n'''", "b", "python", "", entry_point='a"b')
    for attack in ON_PROGRAMS:
        for program in write_distinct(attack, task):
            ast.parse(program)


def test_one_task_of_an_unknown_kind_among_others_is_refused_with_a_hint() -> None:
    benchmark = BENCHMARKS["mbpp"]
    first = benchmark.tasks[0].id
    unknown: Any = _UnknownTests()
    references = {**benchmark.references, first: Reference(first, "", unknown, "")}
    with pytest.raises(UsageError) as refused:
        list_fitting_attacks(replace(benchmark, references=references))
    assert "_UnknownTests" in refused.value.message
    assert "harness/audit/attacks" in (refused.value.hint or "")


def test_attacks_can_be_chosen_by_name_and_keep_their_order() -> None:
    suite = build_attacker(settings_for(BENCHMARKS["mbpp"]), BENCHMARKS["mbpp"], ["weak-proxy", "sys-exit"])
    assert [step.name for step in suite.steps] == [CONSTANT, "sys-exit", ORACLE, "weak-proxy", ORACLE]


async def test_a_constant_program_shows_which_tasks_an_attack_can_guess() -> None:
    benchmark = BENCHMARKS["mbpp"]
    suite: Suite = build_attacker(settings_for(benchmark), benchmark)
    task = benchmark.tasks[0]
    assert suite.steps[0].name == CONSTANT
    assert suite.samples(task)[0] == 1
    submission = await suite.attempt(AttemptContext(task, 0, 0, 1, None, ListTranscript()))
    assert "return True" in submission.text or "lambda *args, **kwargs: True" in submission.text
    answers = BENCHMARKS["gsm8k"]
    assert 1 not in build_attacker(settings_for(answers), answers).samples(answers.tasks[0])


async def test_an_attempt_submits_the_program_of_its_step() -> None:
    benchmark = BENCHMARKS["mbpp"]
    task = benchmark.tasks[0]
    suite: Suite = build_attacker(settings_for(benchmark), benchmark)
    for line in (2, len(suite.steps) // 2):
        step = suite.steps[line - 1]
        assert isinstance(step.attack, ProgramAttack)
        submission = await suite.attempt(AttemptContext(task, 0, 0, line, None, ListTranscript()))
        assert submission.text == step.attack.write_programs(task)[step.sample]
        assert step.name in submission.agent_output.splitlines()[0]


def _attacks_at(benchmark: Benchmark, task: Task) -> tuple[Attack, ...]:
    return list_attacks_on(type(benchmark.references[task.id].target).__name__)


@cache
def _all_programs(name: str) -> list[tuple[Task, str]]:
    """Return every program at every task of a benchmark, with its task. Written once for all tests."""
    return [
        (task, program)
        for task in BENCHMARKS[name].tasks
        for attack in ON_PROGRAMS
        for program in write_distinct(attack, task)
    ]


def _undefined(program: str) -> set[str]:
    """Global names that a program, or a function in it, reads and that nothing in it ever binds."""
    table = symtable.symtable(program, "program", "exec")
    bound = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    bound |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_namespace()}
    read: set[str] = set()
    waiting = [table]
    while waiting:
        scope = waiting.pop()
        waiting += scope.get_children()
        read |= {
            symbol.get_name()
            for symbol in scope.get_symbols()
            if symbol.is_referenced() and (symbol.is_global() or scope is table)
        }
    return read - bound - set(dir(builtins)) - {"__name__", "__file__", "__builtins__"}
