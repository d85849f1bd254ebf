"""EvalPlus (Liu et al. 2023, arXiv 2305.01210): HumanEval and MBPP with many more tests.

The rows have one of three published shapes. Those of the hub have their tests as source, in `test`. Those of
the release files have inputs: `base_input`, which are the tests of the original, and `plus_input`. They store
no results, so that the tests' own process runs `canonical_solution` on all inputs, before a program is
loaded. HumanEval's own rows get the further inputs that the tool `tests/samples/plus_inputs.py` makes.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from harness.benchmarks import humaneval, mbpp
from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.source import BUNDLED
from harness.benchmarks.data.splits import HubDataset
from harness.benchmarks.programs import WRITE_PROGRAM, parse, top_level_names
from harness.core.scoring.metrics import Metric
from harness.core.types import DataSource, ProgramTests, Reference, Task

BASE, PLUS = "base", "plus"
METRICS = (
    Metric(BASE, "the tests of the original benchmark pass"),
    Metric(PLUS, "these and the further tests pass"),
)
OWN_INPUTS = "humaneval-plus-inputs.jsonl.gz"
"""The bundled file of further inputs for HumanEval's rows: the task, the hash of its row, and the inputs."""
# How a result is compared, by the task's id. The rules come from `evalplus/eval/__init__.py` and
# `_special_oracle.py` of evalplus/evalplus 0.3.1. One differs: that runner also compares a root of
# HumanEval/32 with its own root, and so fails every other root.
_RULES: Mapping[str, str] = {
    "HumanEval/32": "root",
    "Mbpp/164": "anything",
    "Mbpp/295": "or_zero",
    "Mbpp/558": "digits",
    "Mbpp/581": "surface",
    **dict.fromkeys((f"Mbpp/{number}" for number in (2, 7, 111, 140, 232, 249, 579, 769)), "set"),
}
# The tolerance of a root, as the release files have it. The other tasks have none there.
_OWN_ATOL: Mapping[str, float] = {"HumanEval/32": 1e-4}
_FOUND_OR_NOT = ("check_str", "text_match_three", "text_starta_endb")
_SUPPORT = """
import copy, math, sys, types
from math import inf, nan


def same_root(out, expected, given):
    return abs(sum(factor * math.pow(out, power) for power, factor in enumerate(given[0]))) <= ATOL


def same_digits(out, expected, given):
    one, other = (str(number) for number in given)
    width = max(len(one), len(other))
    pairs = zip(one.zfill(width), other.zfill(width))
    return out == expected or out == sum(abs(int(a) - int(b)) for a, b in pairs)


def same_surface(out, expected, given):
    edge, height = given
    whole = round(edge * edge + 2 * edge * math.sqrt((edge / 2) ** 2 + height**2))
    return out == expected or abs(out - whole) <= ATOL


def same_found(out, expected, given):
    return out == expected if isinstance(out, bool) else expected == (out is not None)


same_plain = lambda out, expected, given: out == expected
same_anything = lambda out, expected, given: True
same_or_zero = lambda out, expected, given: out == expected or out == 0
same_set = lambda out, expected, given: set(out) == set(expected)


def has_floats(value):
    np = sys.modules.get("numpy")
    if np is not None and isinstance(value, np.ndarray):
        return value.dtype in (np.float32, np.float64)
    return isinstance(value, float) or (
        isinstance(value, (list, tuple)) and all(isinstance(item, float) for item in value)
    )


def agrees(out, expected, given):
    same = SAME(out, expected, given)
    atol = 1e-6 if ATOL == 0 and has_floats(expected) else ATOL
    if SAME is same_root or same or atol == 0:
        return bool(same)
    if type(out) is not type(expected) or (isinstance(out, (list, tuple)) and len(out) != len(expected)):
        return False
    import numpy as np  # Most tasks never need it, and it takes longer to import than all their tests.

    return bool(np.allclose(out, expected, rtol=1e-7, atol=atol))


def compute_results(source, name, inputs):
    names = {"__name__": "reference"}
    exec(source, names)
    return [names[name](*copy.deepcopy(given)) for given in inputs]


# The set-up runs several times, and the reference once.
RESULTS = sys.modules.setdefault("results of the reference", types.ModuleType("results"))
"""
_TEST = """\
for given, expected in zip(RESULTS.{part}_input, RESULTS.{part}):
    assert agrees(candidate(*copy.deepcopy(given)), expected, given), f"expected {{expected!r:.300}}"
"""


def read_humaneval(row: Row) -> tuple[Task, Reference[ProgramTests]]:
    """Return the task and reference of a row of HumanEval+. Raises DataError, with file and line."""
    if "base_input" not in row.values:
        return _read_source(row)
    prompt = row.text("prompt")
    program = prompt + row.text("canonical_solution")
    helpers = humaneval.as_program(row, prompt)
    # Newer files also have the original's tests as source, which are the same as `base_input`.
    row.optional_text("test")
    task, reference = _read_inputs(row, program, lambda inputs: inputs, preamble=helpers)
    return replace(task, prompt=prompt, instruction=humaneval.INSTRUCTION), reference


def _read_source(row: Row) -> tuple[Task, Reference[ProgramTests]]:
    """Return the task and reference of a row whose tests are source. Raises DataError."""
    task, reference = humaneval.read(row)
    tests = reference.target
    own = _find_own_inputs(row)
    if own is None:
        if "inputs" not in {
            node.id for node in ast.walk(parse(row.text("test"))) if isinstance(node, ast.Name)
        }:
            raise row.error(
                "has no further tests, and harness has no inputs for this row",
                field="test",
                hint="give EvalPlus's file, or HumanEval.jsonl.gz as it was published",
            )
        # The source has the tests of both parts, and does not tell them apart.
        return task, replace(reference, target=replace(tests, parts={PLUS: 1}))
    entry_point = row.text("entry_point")
    lines = [tests.setup, _SUPPORT, f"ATOL = {_OWN_ATOL.get(task.id, 0)!r}"]
    lines += [f"SAME = same_{_RULES.get(task.id, 'plain')}", "if not hasattr(RESULTS, 'plus'):"]
    lines += [f"    RESULTS.plus_input = {own}"]
    lines += [
        f"    RESULTS.plus = compute_results({reference.solution!r}, {entry_point!r}, RESULTS.plus_input)"
    ]
    target = replace(
        tests,
        setup="\n".join(lines) + "\n",
        statements=(*tests.statements, _TEST.format(part=PLUS)),
        parts={BASE: len(tests.statements), PLUS: len(tests.statements) + 1},
    )
    return task, replace(reference, target=target)


def _find_own_inputs(row: Row) -> str | None:
    """Return the bundled inputs for a row of HumanEval as a literal, None if it is another row."""
    fields = [row.values.get(field) for field in ("prompt", "canonical_solution", "test")]
    digest = hashlib.sha256("\0".join(map(str, fields)).encode(errors="replace")).hexdigest()
    return _load_own_inputs().get(digest)


@cache
def _load_own_inputs() -> Mapping[str, str]:
    lines = gzip.decompress((BUNDLED / OWN_INPUTS).read_bytes()).splitlines()
    return {entry["sha256"]: entry["plus_input"] for entry in map(json.loads, lines)}


def _find_window(_source: DataSource, rows: Sequence[Row]) -> str | None:
    own = sum("base_input" not in row.values and _find_own_inputs(row) is not None for row in rows)
    return f"further inputs of harness for {own} of {len(rows)} tasks, not EvalPlus's" if own else None


def read_mbpp(row: Row) -> tuple[Task, Reference[ProgramTests]]:
    """Return the task and reference of a row of MBPP+. Raises DataError, with file and line."""
    if "base_input" not in row.values:
        return mbpp.read(row)
    prompt, program = row.text("prompt"), row.text("canonical_solution")
    number = row.text("task_id").removeprefix("Mbpp/")
    rebuild = _REBUILDING.get(int(number) if number.isdecimal() else 0, _unchanged)
    # The asserts of the original are the same as `base_input`.
    row.optional_text("assertion")
    task, reference = _read_inputs(
        row, program, lambda inputs: [rebuild(given) for given in inputs], preamble=""
    )
    return replace(task, prompt=prompt, instruction=WRITE_PROGRAM), reference


def _read_inputs(
    row: Row, program: str, rebuild: Callable[[list[Any]], list[Any]], *, preamble: str
) -> tuple[Task, Reference[ProgramTests]]:
    task_id, entry_point = row.text("task_id"), row.text("entry_point")
    row.optional_text("contract")  # It tells which inputs are valid, and the runner of EvalPlus drops it too.
    try:
        defined = top_level_names(parse(program))
    except (SyntaxError, ValueError) as error:
        raise row.error(f"is not Python: {error}", field="canonical_solution") from error
    if entry_point not in defined:
        raise row.error(f"is not defined by the solution: {entry_point!r}", field="entry_point")
    rule = _RULES.get(task_id, "found" if entry_point in _FOUND_OR_NOT else "plain")
    lines = [_SUPPORT, f"ATOL = {_read_number(row, 'atol')!r}", f"SAME = same_{rule}"]
    lines += ["if not hasattr(RESULTS, 'plus'):"]
    for part in (BASE, PLUS):
        try:
            inputs = rebuild(_read_list(row, f"{part}_input"))
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise row.error(
                f"holds other inputs than this task has: {error}", field=f"{part}_input"
            ) from error
        lines.append(f"    RESULTS.{part}_input = {inputs!r}")
        computed = f"compute_results({program!r}, {entry_point!r}, RESULTS.{part}_input)"
        lines.append(f"    RESULTS.{part} = {computed}")
    tests = ProgramTests(
        setup="\n".join(lines) + "\n",
        preamble=preamble,
        statements=tuple(_TEST.format(part=part) for part in (BASE, PLUS)),
        exports={"candidate": entry_point},
        parts={BASE: 1, PLUS: 2},
    )
    task = Task(task_id, "humaneval-plus", "python", "", entry_point=entry_point)
    return task, Reference(task_id, program, tests, expected_output=row.text("canonical_solution"))


def _read_list(row: Row, field: str) -> list[Any]:
    value = row.value(field)
    if not isinstance(value, list) or not all(isinstance(each, list) for each in value):
        raise row.error("needs a list of lists of arguments", field=field)
    return value


def _read_number(row: Row, field: str) -> float:
    value = row.value(field)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise row.error("needs a number", field=field)
    return float(value)


def _unchanged(given: list[Any]) -> Any:
    return given


def _tuples(value: Any) -> Any:
    """Return a value with a tuple for each list, at any depth."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _items(value: Any) -> Any:
    return [tuple(item) for item in value]


# JSON has no tuples, sets and complex numbers, so the arguments of these tasks are rebuilt.
# Source: `mbpp_deserialize_inputs` in `evalplus/data/mbpp.py` of evalplus/evalplus.
_REBUILDING: Mapping[int, Callable[[list[Any]], Any]] = {
    **dict.fromkeys(
        (
            *(2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616, 630, 726),
            *(740, 744, 809),
        ),
        lambda given: [tuple(each) for each in given],
    ),
    **dict.fromkeys(
        (63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780),
        lambda given: [_items(each) for each in given],
    ),
    **dict.fromkeys((75, 413, 444, 753), lambda given: [_items(given[0]), given[1]]),
    **dict.fromkeys((106, 750), lambda given: [given[0], tuple(given[1])]),
    115: lambda given: [[set(each) if isinstance(each, list) and each else {} for each in given[0]]],
    124: lambda given: [float(given[0]), complex(given[1])],
    **dict.fromkeys((250, 405, 446, 617, 720, 763, 808), lambda given: [tuple(given[0]), given[1]]),
    252: lambda given: [complex(given[0])],
    **dict.fromkeys((259, 401, 445), lambda given: [tuple(_items(each)) for each in given]),
    278: lambda given: [tuple(tuple(each) if isinstance(each, list) else each for each in given[0])],
    307: lambda given: [tuple(given[0]), *given[1:]],
    722: lambda given: [{name: tuple(each) for name, each in given[0].items()}, *given[1:]],
    **dict.fromkeys((580, 615, 791), _tuples),
}


def _choose_metrics(references: Mapping[str, Reference]) -> tuple[Metric, ...]:
    """Return the metrics that every target has, because some rows do not tell the parts apart."""
    parts = [each.target.parts for each in references.values() if isinstance(each.target, ProgramTests)]
    return tuple(metric for metric in METRICS if all(metric.name in names for names in parts))


def _definition(original: str, tasks: int, *files: str, **own: Any) -> Definition:
    return Definition(
        name=f"{original}-plus",
        environments=("python",),
        tasks=tasks,
        licence="Apache-2.0",
        missing=dict.fromkeys(("train", "dev"), "it was published with test only"),
        formats=(*files, "its rows as JSONL or JSON", "the rows of the hub"),
        hub=HubDataset(f"evalplus/{original}plus", "default", "test"),
        bundled=f"{original}-plus.jsonl",
        metrics=METRICS,
        choose_metrics=_choose_metrics,
        **own,
    )


BENCHMARKS = (
    _definition(
        "humaneval",
        164,
        "HumanEvalPlus.jsonl.gz",
        "HumanEval.jsonl.gz",
        description="HumanEval with the further tests of EvalPlus",
        read=read_humaneval,
        submit=humaneval.submit,
        find_window=_find_window,
        grading_version=2,
    ),
    _definition(
        "mbpp",
        378,
        "MbppPlus.jsonl.gz",
        description="378 problems of MBPP with the further tests of EvalPlus",
        read=read_mbpp,
        submit=mbpp.submit,
    ),
)
