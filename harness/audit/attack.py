"""The protocol of attacks, which try to get a pass without solving the task."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from textwrap import indent
from typing import Any, Protocol, TypeVar

import yaml
from pydantic import ValidationError

from harness.benchmarks.benchmark import Benchmark
from harness.core.errors import DataError, unknown_name
from harness.core.tools import AgentEnvironment
from harness.core.types import Submission, Task
from harness.environments.db.environment import DatabaseSetup
from harness.environments.kg.environment import KnowledgeSetup

# The comment mark of header lines, by the suffix of the file.
COMMENTS = {".py": "#", ".sh": "#", ".sql": "--", ".yaml": ""}
# The loader that is written in C needs a tenth of the time. Not every build of PyYAML has it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INCLUDE = re.compile(r"^([ \t]*)# include: (\S+)$", re.MULTILINE)
_NEXT = re.compile(r"^(?:#|--) next (?:sample|call)$", re.MULTILINE)
# Short enough for a question in a game, with some words around it.
STATEMENT_CHARACTERS = 280


class Kind(StrEnum):
    """The classes of attacks, by their method."""

    LEAVING = "leaving early"
    LYING = "lying objects"
    REACHING = "reaching the trusted side"
    STEERING = "steering process 1"
    TAMPERING = "tampering with the ground"
    LEARNING = "learning the answers"
    SAMPLING = "learning over samples"
    EXHAUSTING = "exhausting resources"
    LOSING = "losing the sandbox"
    TALKING = "answers that say too much"
    # Agents of this class act in task folders (`harness.audit.forging`).
    FORGING = "forging rewards"
    # The programs of this class attack the relay of models and no grader (`harness audit relay`).
    RELAY = "relay of models"


class Named(Protocol):
    """The name for `--attack` and in records, and the class of an attack."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Kind: ...


Found = TypeVar("Found", bound=Named)


class Attack(Named, Protocol):
    """An attack on graders of certain targets. It is data, which the host never runs.

    Attributes:
        description: the method, and the graders that it beats.
        targets: the names of the classes of targets that it attacks.
        samples: the number of attempts that it makes at a task, one after the other.
    """

    @property
    def description(self) -> str: ...

    @property
    def targets(self) -> tuple[str, ...]: ...

    @property
    def samples(self) -> int: ...

    async def hand_in(
        self, benchmark: Benchmark, task: Task, sample: int, environment: AgentEnvironment | None
    ) -> Submission:
        """Return the submission of attempt number `sample`, from 0. It uses only what an agent knows."""


ATTACKS = Path(__file__).with_name("attacks")
PARTS = ATTACKS / "parts"


@dataclass(frozen=True, slots=True)
class AttackFile:
    """The content of an attack file.

    Attributes:
        header: the values of the header, by key.
        text: the text after the header, without blank lines around it. Its parts are not included yet.
    """

    path: Path
    header: Mapping[str, Any]
    text: str


def read_attack_file(path: Path) -> AttackFile:
    """Return the content of an attack file. Raises DataError, which names the file and the line."""
    if path.suffix not in COMMENTS:
        raise DataError(
            f"an attack file cannot end in '{path.suffix}', only in {', '.join(COMMENTS)}", path=path
        )
    content = path.read_text(encoding="utf-8")
    mark = COMMENTS[path.suffix]
    head, text = _split_header(path, content, mark) if mark else (content, "")
    try:
        header = yaml.load(head, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise DataError(f"the header is not YAML: {error}", path=path) from error
    if not isinstance(header, dict):
        raise DataError("the header must contain keys and values", path=path)
    return AttackFile(path, header, text.strip())


def name_folder(kind: str) -> str:
    """Return the name of the folder for attacks of a class."""
    return kind.replace(" ", "-")


def read_class(kind: Kind, build: Callable[[AttackFile, Mapping[str, Any]], Found]) -> tuple[Found, ...]:
    """Return the attack that `build` makes of each file of a class, by name.

    `build` gets the file, and its header with `kind` in place of `class`. Raises DataError, which names the
    file.
    """
    attacks = []
    for path in sorted((ATTACKS / name_folder(kind)).iterdir()):
        if not path.is_file():
            continue
        file = read_attack_file(path)
        header = {"kind" if key == "class" else key: value for key, value in file.header.items()}
        try:
            attack = build(file, header)
        except (ValidationError, TypeError) as error:
            raise DataError(f"the attack is not valid: {error}", path=path) from error
        if attack.kind is not kind or attack.name != path.stem:
            raise DataError(f"an attack here has the class '{kind}' and the name of its file", path=path)
        attacks.append(attack)
    return tuple(attacks)


def choose_attacks(attacks: Sequence[Found], names: Collection[str]) -> tuple[Found, ...]:
    """Return the attacks with these names, in the order of the suite. No names select all attacks.

    Raises UsageError for an unknown name.
    """
    known = {attack.name: attack for attack in attacks}
    for name in names:
        if name not in known:
            raise unknown_name("attack", name, known)
    return tuple(attack for attack in attacks if not names or attack.name in names)


def include_parts(text: str) -> str:
    """Return a text with each line `# include: FILE` replaced by that file of `parts`, indented alike.

    Raises OSError for a missing file, and DataError for an invalid one.
    """
    return _INCLUDE.sub(lambda line: indent(read_part(line[2]), line[1]), text)


def read_part(name: str) -> str:
    """Return the text of a file of `parts`, with its own includes. Raises OSError and DataError."""
    return include_parts(read_attack_file(PARTS / name).text)


def list_parts(folder: str) -> list[AttackFile]:
    """Return the files of a folder of `parts`, by name. Raises DataError."""
    return [read_attack_file(path) for path in sorted((PARTS / folder).iterdir()) if path.is_file()]


def split_text(text: str) -> tuple[str, ...]:
    """Return the texts between the lines `# next sample` or `# next call`, with all parts included."""
    return tuple(include_parts(piece.strip()) for piece in _NEXT.split(text))


def fill_words(template: str, words: Mapping[str, str]) -> str:
    """Return a template with each `<word>` of `words` replaced by its value. Other `<text>` stays."""
    pattern = "|".join(map(re.escape, words))
    return re.sub(f"<({pattern})>", lambda word: words[word[1]], template)


def _split_header(path: Path, content: str, mark: str) -> tuple[str, str]:
    head, _, text = content.partition("\n\n")
    lines = head.splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.startswith(mark):
            raise DataError(
                f"a line of the header must begin with '{mark}', and a blank line must end it",
                path=path,
                line=number,
            )
    return "\n".join(line.removeprefix(mark).removeprefix(" ") for line in lines), text


def fill_from_task(template: str, task: Task) -> str:
    """Return a template with placeholders replaced by facts that an agent knows about its task.

    `<prompt>` is the prompt, and `<statement>` the beginning of the problem in it. If the task has a
    database, `<table>` is the quoted name of its first table, `<name>` the same name as an SQL string,
    `<column>` the quoted name of the first column, and `<cells>` a JSON list of all cells. In a knowledge
    graph, `<entity>` is the first entity of the question.
    """
    words = {"prompt": task.prompt, "statement": (task.statement or task.prompt)[:STATEMENT_CHARACTERS]}
    if isinstance(task.setup, DatabaseSetup):
        table = task.setup.tables[0]
        words |= {
            "cells": json.dumps([cell for row in table.rows for cell in row]),
            "table": _quote(table.name, '"'),
            "name": _quote(table.name, "'"),
            "column": _quote(table.columns[0], '"'),
        }
    if isinstance(task.setup, KnowledgeSetup) and task.setup.entities:
        words["entity"] = task.setup.entities[0]
    return fill_words(template, words)


def _quote(name: str, mark: str) -> str:
    return mark + name.replace(mark, mark * 2) + mark
