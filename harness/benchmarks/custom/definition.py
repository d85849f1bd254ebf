"""Read a user's own benchmark: a YAML file that names the fields of a dataset, or a Python file.

The Python file declares definitions, or returns tasks and names a metric.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.custom.metrics import AnswerKey, OwnMetric, find_metric, read_tags
from harness.benchmarks.data.local import Table
from harness.benchmarks.data.rows import SUFFIXES, Row, describe, file_suffix, names_grading
from harness.benchmarks.data.splits import HubDataset, Split
from harness.benchmarks.programs import WRITE_PROGRAM, SubmitProgram
from harness.benchmarks.replies import REPLY_FIELDS, CodeRule, remark_on_answer
from harness.core.discovery import describe_user_error, import_user_file
from harness.core.errors import DataError, HarnessError, UsageError, unknown_name
from harness.core.invalid_values import describe_requirement
from harness.core.types import ProgramTests, Reference, Submission, Task

# The keys of `data`. A key of any other name would be a misspelt one more often than a split.
SPLITS = ("train", "dev", "test")
_FIELD = re.compile(r"\{([^{}\n]+)\}")
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,60}$")]
Text = Annotated[str, StringConstraints(min_length=1)]
# The keys that name a field of the rows.
_FIELDS = ("id", "category", "difficulty", "tags", "reference", "tests", "setup")
MAX_TASKS = 1_000_000
_KEYS = {"id", "prompt", "reference", "tests", "setup", "category", "difficulty", "tags"}
_EXAMPLE = "NAME = 'sums', METRIC = 'number', and def tasks() that returns a list of dicts"
# The most characters of a gold answer that results show.
_SHOWN = 500


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SplitPlace(_Strict):
    """The place of a split: a file, relative to the YAML, a URL, or a dataset of the hub.

    With `rows`, the split must have that many rows.
    """

    path: Text | None = None
    url: Text | None = None
    hub: Text | None = None
    config: Text | None = None
    split: Text | None = None
    rows: int | None = Field(default=None, ge=1)


class Columns(_Strict):
    """The layout of a CSV that is not commas under a header."""

    columns: list[Text] = Field(default_factory=list)
    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=1)] | None = None
    literals: list[Text] = Field(default_factory=list)


class Mapped(_Strict):
    """The keys of a YAML file. In `prompt`, `{field}` is the value of a row's field."""

    name: Name
    description: str = ""
    licence: str = "unknown"
    data: dict[str, SplitPlace]
    csv: Columns = Field(default_factory=Columns)
    default_split: str | None = None
    id: Text | None = None
    category: Text | None = None
    difficulty: Text | None = None
    tags: Text | None = None
    prompt: Text
    metric: str
    reference: Text
    tests: Text | None = None
    setup: Text | None = None
    answer_after: Text | None = None

    @field_validator("data")
    @classmethod
    def _one_place_each(cls, places: dict[str, SplitPlace]) -> dict[str, SplitPlace]:
        if not places:
            raise ValueError("needs a split, such as 'test: {path: questions.jsonl}'")
        for name, place in places.items():
            named = [kind for kind in ("path", "url", "hub") if getattr(place, kind) is not None]
            if len(named) != 1:
                raise ValueError(f"split '{name}' needs one of path, url and hub, and has {named or 'none'}")
            if place.hub is None and (place.config or place.split):
                raise ValueError(f"split '{name}': config and split need hub")
            if place.hub is not None and place.hub.count("/") != 1:
                raise ValueError(f"split '{name}': hub needs OWNER/NAME")
            if place.url is not None and not place.url.startswith(("https://", "http://", "hf://datasets/")):
                raise ValueError(f"split '{name}': url needs https://... or hf://datasets/OWNER/NAME/PATH")
            file = place.path or (place.url or "").partition("?")[0] or None
            if file is not None and file_suffix(Path(file)) is None:
                raise ValueError(f"split '{name}': '{file}' does not end in one of {', '.join(SUFFIXES)}")
        return places


# The models of the keys that hold further keys.
_NESTED: Mapping[str, type[BaseModel]] = {"data": SplitPlace, "csv": Columns}


def read_mapping(path: Path) -> Definition:
    """Return the benchmark that a YAML file describes. Raises UsageError with file and key."""
    mapped = _validate(path)
    metric = find_metric(mapped.metric, path, "metric")
    if (metric.name == "tests") != (mapped.tests is not None):
        raise UsageError(f"{path}: 'tests': metric 'tests' needs this key, and no other metric reads it")
    default = mapped.default_split or ("test" if "test" in mapped.data else next(iter(mapped.data)))
    if default not in mapped.data:
        unknown = unknown_name("split", default, mapped.data)
        raise UsageError(f"{path}: 'default_split': {unknown.message}", hint=unknown.hint)
    places = {name: _split(place, path) for name, place in mapped.data.items()}
    first = places.pop(default)
    table = Table(tuple(mapped.csv.columns), mapped.csv.delimiter, tuple(mapped.csv.literals))
    return replace(
        build_definition(
            mapped.name,
            metric,
            lambda row: _read_record(mapped, row, metric),
            answer_after=mapped.answer_after,
            description=mapped.description,
            licence=mapped.licence,
        ),
        split=default,
        splits=places,
        hub=first.hub,
        data=first.data,
        tasks=first.tasks,
        table=table,
        source=str(path),
    )


def _split(place: SplitPlace, path: Path) -> Split:
    if place.path is not None:
        return Split(None, place.rows, data=str(path.parent / os.path.expanduser(place.path)))
    if place.url is not None:
        return Split(HubDataset(place.url, None, "", (place.url,)), place.rows)
    return Split(HubDataset(place.hub or "", place.config, place.split or "train"), place.rows)


def _validate(path: Path) -> Mapped:
    from harness.core.inputs.yaml_text import read_yaml

    values = read_yaml(path)
    if not isinstance(values, dict):
        raise UsageError(f"{path}: needs keys and values, such as 'name: capitals'")
    if unknown := [key for key in values if key not in Mapped.model_fields]:
        nearest = unknown_name("key", str(unknown[0]), Mapped.model_fields)
        raise UsageError(f"{path}: {nearest.message}", hint=nearest.hint)
    data = values.get("data")
    for name in data if isinstance(data, dict) else ():
        if name not in SPLITS:
            nearest = unknown_name("split", str(name), SPLITS)
            raise UsageError(f"{path}: 'data': {nearest.message}", hint=nearest.hint)
    try:
        return Mapped.model_validate(values)
    except ValidationError as error:
        # Report an unknown key first, because a missing key may be misspelt.
        first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        if first["type"] == "extra_forbidden":
            *place, key = map(str, first["loc"])
            nearest = unknown_name("key", key, _NESTED[place[0]].model_fields)
            raise UsageError(f"{path}: '{'.'.join(place)}': {nearest.message}", hint=nearest.hint) from error
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "missing":
            raise UsageError(f"{path}: '{key}' is missing") from error
        name = f"'{key}' " if key else ""
        raise UsageError(f"{path}: {name}{describe_requirement(dict(first))}") from error


def _read_record(mapped: Mapped, row: Row, metric: OwnMetric) -> Record:
    if mapped.tests is not None:
        _require_read(mapped, row)
    answer_key = AnswerKey(
        row=row,
        reference=_value(row, mapped.reference),
        tests=None if mapped.tests is None else _value(row, mapped.tests),
        setup="" if mapped.setup is None else row.optional_text(mapped.setup) or "",
        reference_field=mapped.reference,
        tests_field=mapped.tests or "tests",
    )
    return Record(
        id=str(row.place) if mapped.id is None else row.name(mapped.id),
        prompt=fill_template(mapped.prompt, row),
        answer_key=answer_key,
        category=_optional_name(row, mapped.category),
        difficulty=_optional_name(row, mapped.difficulty),
        tags=() if mapped.tags is None else read_tags(row, mapped.tags),
    )


def _require_read(mapped: Mapped, row: Row) -> None:
    """Raise DataError for a field that would change the grading and that the file does not name."""
    named = {getattr(mapped, key) for key in _FIELDS}
    for name, value in row.values.items():
        is_named = name in named or f"{{{name}}}" in mapped.prompt
        if not is_named and names_grading(name) and value not in (None, "", [], {}):
            raise row.error(
                "would change the grading, and the benchmark's file does not name it",
                field=name,
                hint=f"name it in the file, such as `setup: {name}`, or remove the field from the rows",
            )


def _optional_name(row: Row, field: str | None) -> str | None:
    """Return the name in a field, None if the file names no such field or the row has no value there."""
    return None if field is None or row.values.get(field) is None else row.name(field)


def fill_template(template: str, row: Row) -> str:
    """Return the template with each `{field}` replaced. Raises DataError for a field that the row lacks.

    A field is a name of letters, digits and underscores, or any name that the row has. All other braces
    stay, because prompts hold LaTeX and JSON.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in row.values and not name.isidentifier():
            return match[0]
        found = _value(row, name)
        return found if isinstance(found, str) else _format_value(row, name, found)

    return _FIELD.sub(value, template)


def _format_value(row: Row, name: str, value: Any) -> str:
    if type(value) is float:
        return str(value)
    if type(value) is int:
        return row.name(name)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value)
    raise row.error(f"holds {describe(value)}, which a prompt cannot show", field=name)


def _value(row: Row, field: str) -> Any:
    if row.values.get(field) is None:
        row.text(field)  # raises the error that names the field and the row's own fields
    return row.values[field]


def read_module(path: Path) -> Definition:
    """Import a user's file, on the host, and return its benchmark.

    The file has `BENCHMARKS` with one Definition, as our own modules have it; or `NAME`, `METRIC` and a
    function `tasks` that returns dicts with `prompt`, `reference` and, optionally, the other `_KEYS`.
    Raises UsageError if the file cannot be imported or used.
    """
    module = import_user_file(path, subject=str(path))
    declared = getattr(module, "BENCHMARKS", None)
    if declared is not None:
        if not isinstance(declared, (tuple, list)) or len(declared) != 1:
            raise UsageError(f"{path}: BENCHMARKS needs to be a tuple of one Definition")
        if not isinstance(declared[0], Definition):
            raise UsageError(f"{path}: BENCHMARKS holds {describe(declared[0])}, not a Definition")
        return replace(declared[0], source=str(path))
    name = _text(module, path, "NAME")
    metric = find_metric(_text(module, path, "METRIC"), path, "METRIC")
    if not callable(getattr(module, "tasks", None)):
        raise UsageError(f"{path}: has no function 'tasks' and no BENCHMARKS", hint=_EXAMPLE)
    return build_definition(
        name,
        metric,
        _keep_item,
        description=getattr(module, "DESCRIPTION", "") or (module.__doc__ or "").partition("\n")[0],
        licence=getattr(module, "LICENCE", "unknown"),
        source=str(path),
        answer_after=getattr(module, "ANSWER_AFTER", None),
        make_rows=lambda: _rows(module, path),
    )


def _text(module: ModuleType, path: Path, constant: str) -> str:
    value = getattr(module, constant, None)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{path}: needs the text {constant}, found {describe(value)}", hint=_EXAMPLE)
    return value


def _rows(module: ModuleType, path: Path) -> tuple[list[Row], str]:
    """Call `tasks` and return its rows, with the SHA-256 of them as JSON."""
    try:
        found = list(islice(module.tasks(), MAX_TASKS + 1))
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise UsageError(f"{path}: tasks(): {describe_user_error(error, path)}") from error
    if len(found) > MAX_TASKS:
        raise DataError(f"tasks() returned more than {MAX_TASKS:,} tasks", path=path)
    rows = []
    for number, values in enumerate(found, start=1):
        row = Row(values if isinstance(values, Mapping) else {}, str(path), item=number)
        if not isinstance(values, Mapping):
            raise row.error(f"needs a dict, found {describe(values)}")
        if unknown := sorted(set(values) - _KEYS):
            raise row.error(f"is not a known key; known keys: {', '.join(sorted(_KEYS))}", field=unknown[0])
        rows.append(row)
    if not rows:
        raise DataError("tasks() returned no task", path=path)
    try:
        text = json.dumps([dict(row.values) for row in rows], sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"tasks() returned a value that is not plain data: {error}", path=path) from error
    return rows, hashlib.sha256(text.encode()).hexdigest()


def _keep_item(row: Row) -> Record:
    answer_key = AnswerKey(
        row, row.values.get("reference"), row.values.get("tests"), row.optional_text("setup") or ""
    )
    return Record(
        id=row.name("id") if "id" in row.values else str(row.place),
        prompt=row.text("prompt"),
        answer_key=answer_key,
        category=row.optional_text("category"),
        difficulty=None if row.values.get("difficulty") is None else row.name("difficulty"),
        tags=read_tags(row, "tags"),
    )


@dataclass(frozen=True, slots=True)
class Record:
    """One task as the user's file describes it."""

    id: str
    prompt: str
    answer_key: AnswerKey
    category: str | None = None
    difficulty: str | None = None
    tags: tuple[str, ...] = ()


def build_definition(
    name: str,
    metric: OwnMetric,
    record: Callable[[Row], Record],
    *,
    answer_after: str | None = None,
    **facts: Any,
) -> Definition:
    """Return a definition that reads rows by `record`; `facts` are further fields of the definition.

    Raises UsageError for `answer_after` with a metric of programs, whose rules look for blocks of code.
    """
    programs = metric.environment == "python"
    if programs and answer_after is not None:
        raise UsageError(
            f"{name}: 'answer_after' is for answers, but the metric '{metric.name}' grades programs",
            hint="leave it out; --extract RULE changes the rule for code",
        )

    def read(row: Row) -> tuple[Task, Reference]:
        found = record(row)
        target = metric.target(found.answer_key)
        solution = found.answer_key.reference if programs else found.answer_key.golds()[0]
        task = Task(
            id=found.id,
            benchmark=name,
            environment=metric.environment,
            prompt=found.prompt,
            category=found.category,
            difficulty=found.difficulty,
            tags=found.tags,
            entry_point=next(iter(target.exports), None) if isinstance(target, ProgramTests) else None,
            instruction=WRITE_PROGRAM if programs else "",
        )
        return task, Reference(found.id, solution, target, expected_output=solution[:_SHOWN])

    def submit_answer(task: Task, field: str, text: str) -> Submission:
        if field not in REPLY_FIELDS:
            return Submission(text, agent_output=text)
        answer = metric.of_reply(text)
        if answer_after is not None and answer_after in answer:
            answer = answer.rpartition(answer_after)[2].strip()
        return Submission(answer, agent_output=text, remark=remark_on_answer(text, "answer", answer))

    settings: Mapping[str, Any] = {
        "environments": (metric.environment,),
        "tasks": None,
        "hub": None,
        "bundled": None,
        **facts,
    }
    submit = SubmitProgram(completion=CodeRule.FENCED) if programs else submit_answer
    return Definition(name=name, read=read, submit=submit, **settings)
