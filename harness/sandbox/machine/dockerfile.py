"""Read a Dockerfile as far as its base images are concerned, and replace them.

A Dockerfile that starts from an image of a registry can then be built on a machine without a registry. The
line of each instruction is kept, so that a failed build can name it.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

SCRATCH = "scratch"
_ESCAPE = re.compile(r"#\s*escape\s*=\s*(\S)", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s*\w+\s*=")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}]*))?\})")
_COPIED_FROM = re.compile(r"(?<=--from=)\S+")


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of a Dockerfile, with its line, from 1 on. Its text may have several lines."""

    line: int
    text: str

    @property
    def word(self) -> str:
        """The word of the instruction in capitals."""
        return self.text.split(None, 1)[0].upper()


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """The instructions of a Dockerfile and its first lines, which choose how it is read."""

    directives: tuple[str, ...]
    instructions: tuple[Instruction, ...]

    def render(self) -> str:
        """Return the text of the Dockerfile."""
        return "\n".join([*self.directives, *(each.text for each in self.instructions)]) + "\n"

    def list_bases(self) -> list[tuple[int, str]]:
        """Return the line and the name of each image that a stage starts from or copies from, in order."""
        return [(each.line, base) for each, bases in _find_bases(self.instructions) for _given, base in bases]

    def replace_bases(self, choose: Callable[[str], str]) -> Dockerfile:
        """Return the Dockerfile with `choose(base)` in place of each base image."""
        found = dict(_find_bases(self.instructions))
        changed = []
        for each in self.instructions:
            text = each.text
            for given, base in found.get(each, ()):
                if (chosen := choose(base)) != base:
                    place = re.search(rf"(?<=[\s=]){re.escape(given)}(?=\s|$)", text)
                    assert place is not None  # noqa: S101  because `given` was found there
                    text = text[: place.start()] + chosen + text[place.end() :]
            changed.append(replace(each, text=text))
        return replace(self, instructions=tuple(changed))

    def end_folders(self) -> Dockerfile:
        """Return the Dockerfile with a "/" after the folder that several files are copied to.

        BuildKit does not need it, so published files lack it.
        """
        changed = []
        for each in self.instructions:
            words = [word for word in each.text.split()[1:] if word != "\\" and not word.startswith("--")]
            if each.word in ("ADD", "COPY") and len(words) > 2 and words[-1][-1] not in "/]\"'":
                each = replace(each, text=f"{each.text.rstrip()}/")
            changed.append(each)
        return replace(self, instructions=tuple(changed))

    def add_to_stages(self, lines: Sequence[str]) -> Dockerfile:
        """Return the Dockerfile with these instructions at the start of each stage that has a base."""
        changed: list[Instruction] = []
        for each in self.instructions:
            changed.append(each)
            if each.word == "FROM" and _take_from(each.text)[0].lower() != SCRATCH:
                changed += [Instruction(each.line, line) for line in lines]
        return replace(self, instructions=tuple(changed))


def read_dockerfile(text: str) -> Dockerfile:
    """Return the instructions of a Dockerfile. Comments and empty lines are left out."""
    lines = text.splitlines()
    directives: list[str] = []
    escape = "\\"
    for line in lines:
        if not _DIRECTIVE.match(line):
            break
        directives.append(line)
        if found := _ESCAPE.match(line):
            escape = found[1]
    instructions: list[Instruction] = []
    parts: list[str] = []
    first = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        first = first if parts else number
        parts.append(line)
        if not line.rstrip().endswith(escape):
            instructions.append(Instruction(first, "\n".join(parts)))
            parts = []
    if parts:
        instructions.append(Instruction(first, "\n".join(parts)))
    return Dockerfile(tuple(directives), tuple(instructions))


def choose_base(base: str, rules: Mapping[str, str]) -> str | None:
    """Return the image of the first pattern that matches a base image, None if none does.

    An image without a tag has the tag `latest`.
    """
    names = [base] if ":" in base.rpartition("/")[2] or "@" in base else [base, f"{base}:latest"]
    return next(
        (image for pattern, image in rules.items() if any(fnmatch.fnmatchcase(n, pattern) for n in names)),
        None,
    )


def _take_from(text: str) -> tuple[str, str]:
    """Return the base of a FROM as it is written, and the name of the stage, which may be empty."""
    words = [word for word in text.replace("\\\n", " ").split()[1:] if not word.startswith("--")]
    name = words[2] if len(words) > 2 and words[1].upper() == "AS" else ""
    return (words[0] if words else ""), name


def _find_bases(instructions: Sequence[Instruction]) -> list[tuple[Instruction, list[tuple[str, str]]]]:
    """Return each instruction that names images, and each image as it is written and as it is meant."""
    variables: dict[str, str] = {}
    stages: set[str] = set()
    found = []
    for each in instructions:
        bases: list[tuple[str, str]] = []
        if each.word == "ARG" and not stages:
            for pair in each.text.split()[1:]:
                name, _, value = pair.partition("=")
                variables.setdefault(name, value.strip("\"'"))
        elif each.word == "FROM":
            given, name = _take_from(each.text)
            base = _VARIABLE.sub(lambda match: _expand(match, variables), given)
            if base.lower() not in {*stages, SCRATCH, ""}:
                bases.append((given, base))
            stages |= {name.lower() or f"stage {len(stages)}"}
        elif each.word == "COPY" and (match := _COPIED_FROM.search(each.text)) is not None:
            given = match[0]
            bases += [] if given.isdigit() or given.lower() in stages else [(given, given)]
        if bases:
            found.append((each, bases))
    return found


def _expand(match: re.Match[str], variables: Mapping[str, str]) -> str:
    return variables.get(match[1] or match[2]) or match[3] or ""
