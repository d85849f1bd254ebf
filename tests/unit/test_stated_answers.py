"""The sets of model cards whose replies state an answer: competitions, options, BIG-Bench Hard."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from case_checks import each_case

import harness.audit
from harness.benchmarks import load_benchmark, mmlu, multiple_choice
from harness.core.errors import DataError, UsageError
from harness.core.scoring.choices import LETTERS, choose_option
from harness.core.scoring.metrics import passes_by_majority
from harness.core.types import Status, Submission, Verdict
from harness.environments import grader_of
from harness.environments.spec import TextGrader
from harness.environments.text.stated_answers import ChoiceAnswer, IntegerAnswer, grade_integer, plain_phrase

NAMES = ("aime2024", "aime2025", "aime2026", "mmlu-pro", "gpqa-diamond", "multiple_choice", "bbh")
CITIES = ("Paris", "London", "Rome", "Oslo")
COMPETITIONS = "tasks/examples/resources_servers_ns_tools_data_compmath_test.jsonl"


@each_case(
    ("reply", "letter"),
    [
        ("The answer is (B)", "B"),
        ("Answer: B", "B"),
        ("**Answer:** B", "B"),
        ("**Answer: B**", "B"),
        ("Answer: $\\boxed{B}$", "B"),
        ("\\boxed{\\text{B}}", "B"),
        ("so \\boxed{\\text{(B) London}}", "B"),
        ("Answer: (B) London", "B"),
        ("The correct answer is London.", "B"),
        ("The answer is option C.", "C"),
        ("<answer>D</answer>", "D"),
        ("Answer:\nB", "B"),
        ("answer: c", "C"),
        ("Answer: [D]", "D"),
        ("b", "B"),
        ("(B)", "B"),
        ("Therefore I choose D", "D"),
        ("So option B is correct.", "B"),
        ("Answer: B\n\nI hope this helps!", "B"),
        ("The answer is A because C is wrong", "A"),
        ("the answer is: A. B is wrong though", "A"),
        ("Answer: A. Wait, no.\nAnswer: B", "B"),
        ("\u0412", "B"),
        ("Answer: \u0421", "C"),
        ("Answer: \uff22", "B"),
        ("Answer: \U0001d401!", "B"),
        ("Answer: B\u200b", "B"),
        ("\u7b54\u6848\u662fB", "B"),
        ("The correct answer is therefore B.", "B"),
        ("The correct answer is London, since it is wet.", "B"),
        ("Answer: B (not A)", "B"),
        ("Answer: B. Option A fails.", "B"),
        ("The answer is B because that option is not suited.", "B"),
        ("**Answer: B**\n\nThis option is supported by the text.", "B"),
        ("Answer: B\n\nThis answer is right because the others are not.", "B"),
        ("It has \\boxed{42} elements.\n\nAnswer: B", "B"),
        ("\\boxed{\\text{(B) \\textbf{London}}}", "B"),
        ("not B", None),
        ("I don't think it is B", None),
        ("The incorrect answer is B", None),
        ("I would rule out B.", None),
        ("Answer: B is not correct", None),
        ("Answer: A (or B)", None),
        ("Answer: A or maybe B", None),
        ("Answer: A or\nB", None),
        ("Answer: A, though B is also correct", None),
        ("Answer: A to D", None),
        ("Answer: A oder B", None),
        ("Answer: A) Paris or B) London", None),
        ("The answer is A. The answer is B. The answer is C. The answer is D.", None),
        ("\\boxed{A}\n\\boxed{B}\n\\boxed{C}\n\\boxed{D}", None),
        ("\\boxed{A} or \\boxed{B}", None),
        ("<answer>A</answer><answer>B</answer><answer>C</answer><answer>D</answer>", None),
        ("A) Paris\nB) London\nC) Rome\nD) Oslo", None),
        ("(A) Paris (B) London (C) Rome (D) Oslo", None),
        ("Answer: A and C", None),
        ("Answer: A, C", None),
        ("Answer: A B C D", None),
        ("Answer: (A)(B)(C)(D)", None),
        ("Answer: A\nAnswer: B\nAnswer: C\nAnswer: D", None),
        ("A B C D", None),
        ("ABCD", None),
        ("All of A, B, C and D are right", None),
        ("The answer is not (A)", None),
        ("The answer is a large city", None),
        ("I think it is big", None),
        ("A dog is good", None),
        ("Answer: E", None),
        ("", None),
    ],
)
def test_a_reply_chooses_the_one_option_that_it_states(reply: str, letter: str | None) -> None:
    assert choose_option(reply, CITIES) == letter


def test_the_text_of_an_option_that_repeats_chooses_none() -> None:
    assert choose_option("The answer is Rome", ("Rome", "Oslo", "Rome")) is None


def test_a_prompt_and_a_reply_with_all_letters_choose_none_whatever_the_options_say() -> None:
    attack = Path(harness.audit.__file__).parent / "attacks/answers-that-say-too-much/every-option.yaml"
    replies = yaml.safe_load(attack.read_bytes())["answers"]
    texts = (
        "B",
        "C and D",
        "Vitamin C",
        "42",
        "not A",
        "It is I.",
        "(A)",
        "A. first",
        "none of the above",
        "no",
    )
    for prompt, count in itertools.product((multiple_choice.PROMPT, mmlu.PROMPT), range(2, len(texts) + 1)):
        for start in range(len(texts)):
            options = (texts * 2)[start : start + count]
            shown = multiple_choice.show_options(options)
            asked = prompt.format(letters=LETTERS[:count], question="Which?", options=shown, category="law")
            chosen = {reply: choose_option(reply, options) for reply in (asked, *replies)}
            assert {*chosen.values()} == {None}, (options, chosen)


@each_case(
    ("reply", "options", "letter"),
    [
        ("The answer is -5", ("5", "7"), None),
        ("The answer is 1.5", ("15", "2"), None),
        ("The answer is x-1", ("x+1", "x"), None),
        ("The answer is 10^2", ("102", "10\u00b2"), None),
        ("The answer is M", ("m", "M"), "B"),
        ("Answer: $\\frac{1}{2}$", ("1", r"\frac{1}{2}"), "B"),
        ("Answer: B) Vitamin C", ("x", "Vitamin C", "y"), "B"),
        ("(B) Vitamin C", ("x", "Vitamin C", "y"), "B"),
        ("Answer: C. Both A and B", ("x", "y", "Both A and B"), "C"),
        ("Answer: I am unable to choose", tuple("0123456789"), None),
        ("The answer is I.", tuple("0123456789"), "I"),
    ],
)
def test_the_text_of_an_option_is_compared_with_its_signs(
    reply: str, options: tuple[str, ...], letter: str | None
) -> None:
    assert choose_option(reply, options) == letter


def test_a_reply_of_nothing_but_statements_is_read_in_little_time() -> None:
    options = tuple(f"a long text {number} " * 20 for number in range(26))
    start = time.process_time()
    for reply in ("answer is " * 200_000, "answer: x\n" * 200_000, r"\boxed{" * 300_000):
        choose_option(reply, options)
    assert time.process_time() - start < 5


SEVENTY = (
    *(r"70 \text{ ways}", "(70)", r"70\%", r"\left(70\right)", r"\color{red}70"),
    *("70", "070", "$70$", r"\text{70}", "70.", "70.0", "+70", r"70^\circ", r"70 \text{ degrees}"),
    *("m+n=70", r"2+68=70", r"\boxed{70}"),
)
NOT_SEVENTY = (
    *("71", "-70", "70, 71", "70 or 71", "7 0", "70!", "8=70", "70^{2}", "70.5", "not 70", "0-70", "seventy"),
    *("", "70" * 2000),
)


@each_case(
    ("answer", "passes"),
    [*((answer, True) for answer in SEVENTY), *((answer, False) for answer in NOT_SEVENTY)],
)
async def test_an_integer_passes_in_any_spelling_and_no_other_number_does(answer: str, passes: bool) -> None:
    verdict = await grade_integer(IntegerAnswer(70), Submission(answer, answer))
    assert verdict.resolved is passes
    assert verdict.metrics["unanswered"] == float(not answer)


def test_phrases_are_compared_by_their_words_or_brackets() -> None:
    assert plain_phrase("> } ]") == plain_phrase(">}]") != plain_phrase("]}>")
    assert plain_phrase("**Apple, fig**.") == plain_phrase("apple fig")
    assert plain_phrase("True") == plain_phrase("(True)") != plain_phrase("not True")
    assert plain_phrase("-50") == plain_phrase("\u221250") != plain_phrase("50")
    assert plain_phrase("1,234") == plain_phrase("1234") != plain_phrase("1,23")


async def grade(name: str, task_id: str, reply: str, **options: Any) -> Verdict:
    benchmark = load_benchmark(name, data="bundled", **options)
    task = next(task for task in benchmark.tasks if task.id == task_id)
    target = benchmark.references[task_id].target
    grader = grader_of(target)
    assert isinstance(grader, TextGrader)
    return await grader.grade(target, benchmark.submission(task, "completion", reply))


@each_case(
    ("task_id", "reply", "passes"),
    [
        ("bbh/boolean_expressions/0", "Reasoning. So the answer is True.", True),
        ("bbh/boolean_expressions/0", "So the answer is False.", False),
        ("bbh/date_understanding/1", "So the answer is (B).", True),
        ("bbh/date_understanding/1", "So the answer is B) 03/03/2023.", True),
        ("bbh/date_understanding/1", "So the answer is (A) or (B).", False),
        ("bbh/date_understanding/1", "So the answer is not (B).", False),
        ("bbh/boolean_expressions/0", "So the answer is True. So the answer is False.", False),
        ("bbh/dyck_languages/2", "So the answer is > } ].", True),
        ("bbh/word_sorting/3", "So the answer is apple, fig, pear, plum.", True),
        ("bbh/word_sorting/3", "So the answer is fig apple pear plum.", False),
        ("bbh/navigate/4", r"\boxed{yes}", True),
        ("bbh/navigate/4", "Yes and no", False),
        ("bbh/object_counting/5", "<think>So the answer is 6.</think>So the answer is 5.", True),
    ],
)
async def test_bbh_reads_the_sentence_at_the_end(task_id: str, reply: str, passes: bool) -> None:
    assert (await grade("bbh", task_id, reply)).resolved is passes


@each_case("name", NAMES)
async def test_references_pass_and_an_empty_reply_is_counted_as_unanswered(name: str) -> None:
    benchmark = load_benchmark(name, data="bundled")
    for task in benchmark.tasks:
        gold = benchmark.references[task.id].solution
        assert (await grade(name, task.id, f"So the answer is {gold}.")).resolved, gold
        empty = await grade(name, task.id, "")
        assert (empty.status, empty.metrics["unanswered"]) == (Status.FAILED, 1.0)


def test_a_seed_shuffles_options_the_same_way_each_time() -> None:
    orders = [
        [task.prompt for task in load_benchmark("gpqa-diamond", data="bundled", shuffle_seed=seed).tasks]
        for seed in (0, 0, 1)
    ]
    assert orders[0] == orders[1] != orders[2]
    letters = {
        reference.target.letter
        for seed in range(20)
        for reference in load_benchmark("gpqa-diamond", data="bundled", shuffle_seed=seed).references.values()
        if isinstance(reference.target, ChoiceAnswer)
    }
    assert letters == set("ABCD")


@each_case(
    ("row", "said"),
    [
        ({"question": "Q", "options": ["x", "y"], "answer": "C"}, "names none of the 2 options"),
        ({"question": "Q", "options": ["x", "x"], "answer": "x"}, "names none of the 2 options, or several"),
        (
            {"question": "Q", "options": ["1", "2", "3"], "answer": "2"},
            "names none of the 3 options, or several",
        ),
        ({"question": "Q", "options": ["x"], "answer": "A"}, "needs 2 to 26 options, found 1"),
        ({"question": " ", "options": ["x", "y"], "answer": "A"}, "has an empty question"),
        ({"question": "Q", "options": "xy", "answer": "A"}, "needs a list of texts"),
    ],
)
def test_a_broken_question_is_refused_with_its_line(tmp_path: Path, row: dict[str, Any], said: str) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(DataError, match=said):
        load_benchmark("multiple_choice", data=str(tmp_path / "rows.jsonl"))


def test_a_table_or_an_object_may_have_the_options_by_their_letters(tmp_path: Path) -> None:
    row = {"question": "Which is odd?", "options": {"A": "2", "B": "3", "C": "4"}, "answer": "B"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "rows.csv").write_text("question,A,B,C,answer\nWhich is odd?,2,3,4,B\n")
    for name in ("rows.csv", "rows.jsonl"):
        benchmark = load_benchmark("multiple_choice", data=str(tmp_path / name))
        (target,) = (reference.target for reference in benchmark.references.values())
        assert target == ChoiceAnswer("B", ("2", "3", "4"))


def test_an_answer_of_aime_must_be_an_integer_of_three_digits(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"problem": "Why?", "answer": "1234"}) + "\n")
    with pytest.raises(DataError, match="needs an integer from 0 to 999, found '1234'"):
        load_benchmark("aime2025", data=str(tmp_path / "rows.jsonl"))


def test_a_file_of_several_competitions_gives_each_name_its_own_rows(shared_data: Path) -> None:
    file = str(shared_data / COMPETITIONS)
    sizes = {name: len(load_benchmark(name, data=file).tasks) for name in ("aime2024", "aime2025", "hmmt")}
    assert sizes == {"aime2024": 30, "aime2025": 30, "hmmt": 196}
    with pytest.raises(UsageError, match="no task is left"):
        load_benchmark("aime2026", data=file)


async def test_the_published_problems_of_aime_pass_in_the_styles_of_models_and_fail_beside_the_answer(
    shared_data: Path,
) -> None:
    right = (
        r"So \boxed{{{0}}}.",
        r"\boxed{{{0:03}}}",
        r"\boxed{{m+n={0}}}",
        "**Answer:** ${0}$",
        "<answer>{0}</answer>",
    )
    wrong = (
        r"\boxed{{{0}5}}",
        r"\boxed{{-{0}1}}",
        r"\boxed{{{0}}} or \boxed{{1{0}}}",
        "It is {0}.",
        r"\boxed{{{0}, 1{0}}}",
    )
    for name in ("aime2024", "aime2025"):
        benchmark = load_benchmark(name, data=str(shared_data / COMPETITIONS))
        for task in benchmark.tasks:
            target = benchmark.references[task.id].target
            assert isinstance(target, IntegerAnswer)
            for style in (*right, *wrong):
                reply = style.format(target.gold)
                verdict = await grade_integer(target, benchmark.submission(task, "completion", reply))
                assert verdict.resolved is (style in right), (task.id, reply)


@each_case(
    ("votes", "passes"),
    [
        ([("3", False), ("4", True), ("4", True)], True),
        ([("3", False), ("4", True)], False),
        ([("4", True), ("3", False)], True),
        ([(None, False), (None, False), ("4", True)], True),
        ([(None, False)], False),
    ],
)
def test_the_most_frequent_answer_decides_and_the_first_of_equals(
    votes: list[tuple[str | None, bool]], passes: bool
) -> None:
    assert passes_by_majority(votes) is passes


def test_mmlu_pro_shows_explained_examples_of_the_same_subject_and_never_the_question_itself(
    tmp_path: Path,
) -> None:
    examples = [
        {
            "question": text,
            "options": ["one", "two"],
            "answer": "B",
            "answer_index": 1,
            "cot_content": f"A: Let's think step by step. {text} The answer is (B).",
            "category": category,
        }
        for text, category in (*((f"Why {number}?", "math") for number in range(7)), ("When?", "history"))
    ]
    file, data = tmp_path / "validation.jsonl", tmp_path / "data.jsonl"
    file.write_text("".join(json.dumps(example) + "\n" for example in examples))
    data.write_text(json.dumps({**examples[1], "question_id": 1}) + "\n")
    (task,) = load_benchmark("mmlu-pro", data=str(data), examples=str(file)).tasks
    blocks = task.prompt.split("Question:\n")[1:]
    assert [block.split("\n")[0] for block in blocks] == [f"Why {number}?" for number in (0, 2, 3, 4, 5, 1)]
    assert blocks[0].endswith("Answer: Let's think step by step. Why 0? The answer is (B).\n\n")
    assert task.prompt.endswith("B) two\nAnswer: Let's think step by step.")
    data.write_text(json.dumps({**examples[1], "question_id": 1, "category": "law"}) + "\n")
    with pytest.raises(DataError, match="has no examples"):
        load_benchmark("mmlu-pro", data=str(data), examples=str(file))
