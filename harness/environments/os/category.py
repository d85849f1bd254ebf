"""AgentBench's `os_interaction`: records of tasks in a shell, their scripts, and the oracle.

Upstream has `data/dev.json` and `data/<group>/<name>.json`, whose script files are in `scripts/dev/` and
`scripts/<group>/`.
Source: the task `os_interaction` of AgentBench (Liu et al. 2023, arXiv 2308.03688).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from harness.benchmarks.benchmark import CategoryFacts
from harness.benchmarks.category import (
    Category,
    CategoryFiles,
    CategoryOptions,
    name_record,
    success_rate,
)
from harness.benchmarks.data.rows import Row, describe
from harness.core.errors import DataError
from harness.core.types import PlainData, Reference, Task
from harness.environments.os.environment import OsSetup
from harness.environments.os.grader import AnswerMatch, StateChecks, solve
from harness.environments.os.scripts import LANGUAGES, Script
from harness.environments.os.soundness import describe_manner, find_unsound, why_quarantined, why_trusting

NAME, FOLDER = "os", "os_interaction"
SCRIPTS = "scripts"
"""The folder of script files, and the field with the texts of those that a record names."""
SHELL_TASK = "evaluation"
"""The field that is an object in records of shell tasks only."""

_RECORDS = re.compile(r"\.jsonl?$", re.IGNORECASE)
# Upstream's settings name dev.json and every file of a group's folder.
_READ = re.compile(r"data/(?:dev|[^/]+/[^/]+)\.jsonl?", re.IGNORECASE)

_PROMPT = """\
You are root in a Linux machine of your own, without a network. The tool `bash` runs a command in one \
shell that stays open: its folder, variables and background jobs are there at the next call. Nobody can \
type into a program, so use none that asks for input. Long output is cut in the middle.

{end}

Task: {task}
"""
_END = """\
When the task asks for something, call `submit` with the bare answer: a number without its unit, a name or \
a path alone, no sentence. When it asks you to do something, do it, and then call `submit` with `done` or \
with what the task wants told."""

_PUBLISHED_PROMPT = """\
You are root in a Linux machine of your own, without a network. The tool `bash_action` runs a script in one \
shell that stays open: its folder, variables and background jobs are there at the next call. Nobody can \
type into a program, so use none that asks for input. Long output is cut at its end. Call one tool in each \
turn.

When the task asks for something, call `answer_action` with the bare answer: a number without its unit, a \
name or a path alone, no sentence. When it asks you to do something, do it, and then call `finish_action`.

Task: {task}
"""


@dataclass(frozen=True, slots=True)
class Match:
    """A rule: the answer equals `text` or has a match of `pattern`; `strip` first removes outer blanks."""

    text: str | None
    pattern: str | None
    strip: bool


@dataclass(frozen=True, slots=True)
class OsRecord:
    """A task in a shell, graded by `match` or by `checks`."""

    task_id: str
    description: str
    image: str
    """The name of one of upstream's images."""
    inits: tuple[Script, ...]
    """The scripts that run before the agent."""
    start: Script | None
    """The script that runs in the agent's shell before the agent acts."""
    match: Match | None
    checks: tuple[Script | None, ...]
    """The scripts of the check. None means `example`."""
    example: Script | None
    labels: tuple[str, ...]


def list_rows(files: CategoryFiles, _options: CategoryOptions) -> Iterator[Row]:
    """Yield the records of all files, with their task ids and the texts of their scripts. Raises DataError.

    The id is `os/dev/8` for item 8 of dev.json, counted from 0, `os/4/N41/3` for an item of data/4/N41.json,
    and `os/4/N11` for a file of one object.
    """
    for name in files.tree.contents:
        if _READ.fullmatch(name) is None:
            if name.startswith("data/") and _RECORDS.search(name):
                path = files.tree.places[name]
                files.notify(f"{path}: left out: AgentBench reads data/dev.json and data/<group>/*.json")
            continue
        stem = _RECORDS.sub("", PurePath(name).relative_to("data").as_posix().removesuffix(".gz"))
        for row in files.parse(name):
            if not owns(row):
                raise row.error(
                    "needs an object, because this folder holds only shell tasks", field=SHELL_TASK
                )
            place = row.line if row.item is None else row.item
            identity = {
                "task_id": f"{NAME}/{stem}" if place is None else f"{NAME}/{stem}/{place - 1}",
                SCRIPTS: dict(_read_scripts(row, files, stem.partition("/")[0])),
            }
            yield replace(row, values={**row.values, **identity})


def _read_scripts(row: Row, files: CategoryFiles, group: str) -> Iterator[tuple[str, str]]:
    for file in _script_files(row):
        name = f"{SCRIPTS}/{group}/{PurePath(file).as_posix()}"
        if name not in files.tree.contents:
            continue  # The reader of the record raises the error, because it knows the field's name.
        try:
            yield file, files.read(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError("is not UTF-8", path=files.tree.places[name]) from error


def _script_files(row: Row) -> Iterator[str]:
    """Yield the script files that a record of a shell task names, in the order of the record."""
    evaluation = row.values.get("evaluation")
    created = row.values.get("create")
    inits = created.get("init") if isinstance(created, Mapping) else None
    checked = [evaluation.get(key) for key in ("check", "example")] if isinstance(evaluation, Mapping) else []
    for value in [inits, row.values.get("start"), *checked, row.values.get("example")]:
        for script in value if isinstance(value, list) else [value]:
            if isinstance(script, Mapping) and isinstance(script.get("file"), str):
                yield script["file"]


def find_home(path: Path) -> Path | None:
    """Return the folder with `data/` and `scripts/` around a single file of records, or None."""
    for folder in list(path.parents)[:2]:
        if folder.name == "data" and (folder.parent / SCRIPTS).is_dir():
            return folder.parent
    return None


def owns(row: Row) -> bool:
    """Return whether a row is one of upstream's records of this category."""
    return isinstance(row.values.get(SHELL_TASK), Mapping)


def read(row: Row, options: CategoryOptions) -> tuple[Task, Reference]:
    """Return the task and the reference of a record. Raises DataError with the row's place and the field."""
    record = read_record(row)
    setup = OsSetup(inits=record.inits, start=None if record.start is None else record.start.code)
    match = record.match
    if match is None:
        target: PlainData = StateChecks(record.checks, record.example)
        expected = "" if record.example is None else record.example.code
    else:
        target = AnswerMatch(match.text, match.pattern, match.strip)
        expected = str(match.text if match.pattern is None else match.pattern)
    task = Task(
        record.task_id,
        "agentbench",
        NAME,
        show_prompt(record, is_published=options.protocol == "fc"),
        category=NAME,
        setup=setup,
        tags=record.labels,
    )
    return task, Reference(record.task_id, _solution(record), target, expected)


def show_prompt(record: OsRecord, *, is_published: bool = False) -> str:
    """Return the prompt of a task, for our tools or for the published function calls."""
    if is_published:
        return _PUBLISHED_PROMPT.format(task=record.description.strip())
    return _PROMPT.format(end=_END, task=record.description.strip())


def _solution(record: OsRecord) -> str:
    """Return the answer if it is one text, else the command that prints it in the task's shell."""
    if record.match is not None and record.match.text is not None:
        return record.match.text
    example = record.example
    if example is None:
        return ""
    return example.code if example.language == "bash" else f"python3 -c {shlex.quote(example.code)}"


def read_record(row: Row) -> OsRecord:
    """Return the record of a row. Raises DataError with the row's place and the field."""
    evaluation: Mapping[str, Any] = row.values["evaluation"]
    # One of upstream's records has a list here, which upstream ignores.
    created = row.values.get("create")
    create: Mapping[str, Any] = created if isinstance(created, Mapping) else {}
    match, check = evaluation.get("match"), evaluation.get("check")
    if match is None and check is None:
        raise row.error("needs 'match' or 'check'", field="evaluation")
    # One of upstream's records has its example outside of the evaluation.
    example = evaluation.get("example")
    example = row.values.get("example") if example is None else example
    record = OsRecord(
        task_id=name_record(row, NAME),
        description=row.text("description"),
        image=str(create.get("local") or "default"),
        inits=tuple(_scripts(row, "create.init", create.get("init"))),
        start=_script(row, "start", row.values["start"]) if row.values.get("start") is not None else None,
        match=None if match is None else _match(row, match),
        checks=() if match is not None else tuple(_checks(row, check)),
        example=None if not example else _script(row, "evaluation.example", example),
        labels=tuple(row.texts("labels")) if row.values.get("labels") is not None else (),
    )
    if None in record.checks and record.example is None:
        raise row.error(
            "has a null, which means the example, but the record has no example", field="evaluation.check"
        )
    return record


def _match(row: Row, match: Any) -> Match:
    field = "evaluation.match"
    if isinstance(match, str):
        return Match(match, None, strip=True)
    if not isinstance(match, Mapping):
        raise row.error(f"needs a string or an object, found {describe(match)}", field=field)
    text, pattern, strip = match.get("answer"), match.get("regex"), match.get("strip", True)
    if text is None and pattern is None:
        raise row.error("needs 'answer' or 'regex'", field=field)
    for value in (text, pattern):
        if not isinstance(value, str | None):
            raise row.error(f"needs strings, found {describe(value)}", field=field)
    if text is not None:
        return Match(text, None, bool(strip))
    try:
        re.compile(str(pattern))
    except re.error as error:
        raise row.error(f"is not a regular expression: {error}", field=f"{field}.regex") from error
    return Match(None, pattern, bool(strip))


def _scripts(row: Row, field: str, value: Any) -> Iterator[Script]:
    for script in value if isinstance(value, list) else [value]:
        if script is not None:
            yield _script(row, field, script)


def _checks(row: Row, value: Any) -> Iterator[Script | None]:
    field = "evaluation.check"
    checks = value if isinstance(value, list) else [value]
    if not checks:
        raise row.error("is an empty list, so that it checks nothing", field=field)
    for script in checks:
        yield None if script is None else _script(row, field, script)


def _script(row: Row, field: str, value: Any) -> Script:
    if isinstance(value, str):
        return Script("bash", value)
    if not isinstance(value, Mapping):
        raise row.error(f"needs a script, found {describe(value)}", field=field)
    language = value.get("language") or "bash"
    if language not in LANGUAGES:
        raise row.error(
            f"needs one of {', '.join(LANGUAGES)}, found {describe(language)}", field=f"{field}.language"
        )
    file, code = value.get("file"), value.get("code")
    if isinstance(file, str):
        texts = row.values.get(SCRIPTS)
        if not isinstance(texts, Mapping) or file not in texts:
            raise row.error(
                f"names the script {file!r}, which was not found",
                field=f"{field}.file",
                hint="scripts are read from the folder scripts/ next to data/; "
                "give the path of the whole folder os_interaction/",
            )
        return Script(language, texts[file])  # type: ignore[arg-type]  # it is one of LANGUAGES
    if not isinstance(code, str):
        raise row.error("needs 'code' or 'file'", field=field)
    return Script(language, code)  # type: ignore[arg-type]


CATEGORY = Category(
    name=NAME,
    place=1,
    weight=10.8,
    aliases=("os interaction", "operating system"),
    facts=CategoryFacts(
        task="do a task in a shell of a Linux machine, as root",
        bundled="14 tasks of ours",
        bring="data/os_interaction/",
    ),
    folders=(FOLDER,),
    is_needed=lambda name: _RECORDS.search(name) is not None or f"/{SCRIPTS}/" in f"/{name}",
    rows=list_rows,
    owns=owns,
    read=read,
    is_only_here=lambda name: _READ.fullmatch(name) is not None,
    find_home=find_home,
    flat_prompt=_PROMPT,
    flat_setup=OsSetup(),
    solve=solve,
    why_quarantined=why_quarantined,
    why_unsound=lambda reference: why_trusting(reference.target),
    rehearse=find_unsound,
    find_manner=describe_manner,
    turns={"fc": 8},
    score=lambda outcomes: {"score": success_rate(outcomes)},
    measure="success rate",
)
