"""The checks of a task folder that need no machine: they read its files and run none of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from harness.core.inputs.files import read_input
from harness.environments.container.reward import asks_for_reports
from harness.environments.container.task_folder import (
    DOCKERFILE,
    ENVIRONMENT,
    INSTRUCTION,
    SOLUTION,
    SOLVE_SCRIPT,
    TASK_TOML,
    TEST_SCRIPT,
    TESTS,
    TaskFolder,
    read_task_folder,
)

MAX_TEXT_BYTES = 1 << 20
# A file of fewer bytes may be the same by chance.
_LEAST_BYTES = 40
_WARNING = re.compile(r"(?P<path>.*?)(?::(?P<line>\d+))?: (?P<text>the key .*)")
_COPY = re.compile(r"^\s*(?:COPY|ADD)\s+(?P<what>.*)", re.MULTILINE | re.IGNORECASE)
_HIDDEN = re.compile(
    rf"(?:^|[\s/\"'.\[])(?:{TESTS}|{SOLUTION}|solve\.sh|test\.sh|run-tests\.sh)(?:[\s/\"',\]]|$)"
)
# Text that no task needs, by the service whose key it is.
_SECRETS: Mapping[str, re.Pattern[str]] = {
    "a private key": re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"),
    "a key of AWS": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a token of GitHub": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{60,})\b"),
    "a key of OpenAI or Anthropic": re.compile(r"\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}\b"),
    "a token of Hugging Face": re.compile(r"\bhf_[A-Za-z0-9]{30,}\b"),
    "a key of Google": re.compile(r"\bAIza[0-9A-Za-z_-]{35}\b"),
    "a token of Slack": re.compile(r"\bxox[abprs]-[0-9A-Za-z-]{20,}\b"),
}
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.MULTILINE | re.IGNORECASE)
_PIP = re.compile(r"\b(?:pip3?|uv pip)\s+install\s+(?P<words>[^\n;&|]*)|\buv\s+add\s+(?P<added>[^\n;&|]*)")
_UVX = re.compile(r"\buvx\s+(?P<words>[^\n;&|]*)")
_NPM = re.compile(r"\bnpm\s+(?:install|i)\s+(?P<words>[^\n;&|]*)")
_CLONE = re.compile(r"\bgit\s+clone\s+(?P<words>[^\n;&|]*)")
_WITH_VALUE = (
    *("-r", "-c", "-t", "--target", "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-p"),
)
# Commands that fetch something. `harness` prepares the packages of the first ones before the tests run.
_PREPARED = re.compile(
    r"\b(?:apt|apt-get)\s+(?:-\S+\s+)*install\b|\bpip3?\s+install\b|\buvx\b|\buv\s+add\b"
    r"|\bcurl\s[^\n]*https?://astral\.sh/uv/"
)
_FETCHED = re.compile(
    r"\b(?:curl|wget)\s[^\n|;&]*https?://(?!localhost|127\.|0\.0|astral\.sh/uv/)|\bgit\s+clone\s[^\n|;&]*://"
    r"|\bnpm\s+(?:ci|install|i)\b|\bgo\s+get\b|\b(?:cargo|gem)\s+install\b"
    r"|\b(?:apk|yum|dnf)\s+(?:-\S+\s+)*(?:add|install)\b"
)


class Severity(StrEnum):
    """How much a fault matters. An error makes verdicts on the task wrong, or cannot be published."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a task folder."""

    # The name of the check, such as `canary`.
    check: str
    severity: Severity
    task_id: str
    message: str
    hint: str
    # The path from the task folder on, and the line in it, if there are such.
    file: str | None = None
    line: int | None = None

    @property
    def place(self) -> str:
        """The task, and the file and the line in it if they are known."""
        where = [self.task_id, *([self.file] if self.file else [])]
        return "/".join(where) + (f":{self.line}" if self.line else "")


@dataclass(frozen=True)
class Folder:
    """A task folder and the texts in it, by their paths from the folder on."""

    folder: TaskFolder
    texts: Mapping[str, str]
    digests: Mapping[str, str] = field(default_factory=dict)

    def find(
        self, check: str, severity: Severity, message: str, hint: str, file: str | None = None, at: int = -1
    ) -> Finding:
        """Return a finding. `at` is the place in the text of `file`, negative for none."""
        text = self.texts.get(file or "")
        line = None if text is None or at < 0 else text.count("\n", 0, at) + 1
        return Finding(check, severity, self.folder.name, message, hint, file, line)


def lint_folder(path: Path) -> tuple[TaskFolder, list[Finding]]:
    """Return a task folder and the findings on its files. Raises DataError if it cannot be read."""
    folder = read_task_folder(path)
    task = Folder(folder, *_read_files(path))
    return folder, [finding for check in CHECKS for finding in check(task)]


def _read_files(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts of a folder and the digests of its files, by their paths from there on."""
    texts: dict[str, str] = {}
    digests: dict[str, str] = {}
    for each in sorted(path.rglob("*")):
        if each.is_symlink() or not each.is_file() or each.stat().st_size > MAX_TEXT_BYTES:
            continue
        content = read_input(each)
        name = each.relative_to(path).as_posix()
        if len(content) >= _LEAST_BYTES:
            digests[name] = hashlib.sha256(content).hexdigest()
        try:
            texts[name] = content.decode()
        except UnicodeDecodeError:
            continue
    return texts, digests


def check_schema(task: Folder) -> Iterator[Finding]:
    """Yield unknown keys, a missing version, and a time limit that is missing."""
    for warning in task.folder.warnings:
        if found := _WARNING.fullmatch(warning):
            line = int(found["line"]) if found["line"] else None
            hint = "remove the key, or write its right name"
            yield Finding("schema", Severity.WARNING, task.folder.name, found["text"], hint, TASK_TOML, line)
    if "schema_version" not in task.folder.toml.model_fields_set:
        hint = 'begin task.toml with schema_version = "1.4"'
        yield task.find("schema", Severity.WARNING, "names no schema_version", hint, TASK_TOML)
    if not task.folder.steps and task.folder.toml.agent.timeout_sec is None:
        hint = "add timeout_sec to [agent]; without it, an agent has 24 hours"
        yield task.find("schema", Severity.WARNING, "sets no limit for the agent", hint, TASK_TOML)


def check_canary(task: Folder) -> Iterator[Finding]:
    """Yield a finding if no file of the tests, or none of the solution, has a canary."""
    parts = (TESTS, SOLUTION)
    inside = {
        part: [text for name, text in task.texts.items() if name.startswith(f"{part}/")] for part in parts
    }
    bare = [
        part for part in parts if inside[part] and not any("canary" in each.lower() for each in inside[part])
    ]
    if bare:
        hint = "add a comment such as: # canary GUID 00000000-..., with one GUID for the whole set"
        message = f"no file of {' and '.join(bare)} has a canary, which shows whether training data have it"
        yield task.find("canary", Severity.WARNING, message, hint)


def check_reference(task: Folder) -> Iterator[Finding]:
    """Yield a finding if the solution is missing, because nothing can be proven without it."""
    if not task.folder.has_solution and not any(step.has_solution for step in task.folder.steps):
        hint = f"add {SOLUTION}/{SOLVE_SCRIPT}, so that the tests are known to be right"
        yield task.find("reference", Severity.WARNING, "there is no reference solution", hint)


def check_leaks(task: Folder) -> Iterator[Finding]:
    """Yield files of tests and solution that the image of the agent's machine gets."""
    dockerfile = f"{ENVIRONMENT}/{DOCKERFILE}"
    for found in _COPY.finditer(task.texts.get(dockerfile, "")):
        if _HIDDEN.search(found["what"].partition("--from=")[0]):
            hint = f"leave out this line; the tests reach /{TESTS} when they run"
            yield task.find(
                "leak", Severity.ERROR, f"copies {found['what']}", hint, dockerfile, found.start()
            )
    hidden = {
        digest: name
        for name, digest in task.digests.items()
        if name.startswith((f"{TESTS}/", f"{SOLUTION}/"))
    }
    for name, digest in task.digests.items():
        if name.startswith(f"{ENVIRONMENT}/") and digest in hidden:
            message = f"has the bytes of {hidden[digest]}, and may be in the image of the agent"
            hint = "remove the file from environment/, or change one of both if an agent may know it"
            severity = Severity.ERROR if hidden[digest].startswith(f"{SOLUTION}/") else Severity.WARNING
            yield task.find("leak", severity, message, hint, name)


def check_secrets(task: Folder) -> Iterator[Finding]:
    """Yield texts that look like keys and tokens."""
    for name, text in task.texts.items():
        for what, pattern in _SECRETS.items():
            found = pattern.search(text)
            if found and "EXAMPLE" not in found[0]:
                hint = "revoke it, and name a variable instead: ${NAME} in a table of variables"
                yield task.find("secret", Severity.ERROR, f"holds {what}", hint, name, found.start())


def check_versions(task: Folder) -> Iterator[Finding]:
    """Yield base images and packages without a version, which make a task another one over time."""
    for name, text in task.texts.items():
        is_script = name.endswith(".sh") and name.startswith(f"{TESTS}/")
        if name != f"{ENVIRONMENT}/{DOCKERFILE}" and name != f"{TESTS}/{DOCKERFILE}" and not is_script:
            continue
        stages: set[str | None] = {"scratch"}
        for found in _FROM.finditer(text) if not is_script else ():
            image, stage = found.groups()
            tag = image.rpartition("/")[2].partition(":")[2]
            if image not in stages and not {"$", "@"} & {*image} and tag in ("", "latest"):
                hint = "name a version, or a digest: IMAGE@sha256:..."
                yield task.find("version", Severity.WARNING, f"builds on {image}", hint, name, found.start())
            stages.add(stage)
        for pattern, mark in ((_PIP, "=="), (_UVX, "=="), (_NPM, "@")):
            for found in pattern.finditer(text.replace("\\\n", "  ")):
                loose = [word for word in _list_words(found, pattern is _UVX) if mark not in word[1:]]
                if loose:
                    hint = f"name versions: {loose[0]}{mark}1.2.3"
                    message = f"installs {', '.join(loose)} in any version"
                    yield task.find("version", Severity.WARNING, message, hint, name, found.start())
        for found in _CLONE.finditer(text):
            if not re.search(r"\bgit\b[^\n]*\b(?:checkout|reset)\b|--branch|\s-b\s|--revision", text):
                hint = "check out a commit after it"
                yield task.find(
                    "version", Severity.WARNING, "clones the newest commit", hint, name, found.start()
                )


def _list_words(found: re.Match[str], is_uvx: bool) -> list[str]:
    """Return the packages of a command that installs."""
    words = found[1] if found.lastindex == 1 or is_uvx else found[found.lastindex or 1]
    listed: list[str] = []
    before = ""
    for word in words.split("#")[0].split():
        plain = word.strip("\"'")
        is_package = re.fullmatch(r"@?[A-Za-z][\w.\[\],/+-]*(?:(?:==|>=|<=|~=|@|<|>|!=).*)?", plain)
        # A program that uvx runs has its version in --with or --from, which are words of their own.
        is_wanted = before in ("-w", "--with", "--from") if is_uvx else before not in _WITH_VALUE
        if is_package and is_wanted and not plain.endswith((".txt", ".whl", ".gz", ".toml")):
            listed.append(plain)
        before = word
    return listed


def check_tests(task: Folder) -> Iterator[Finding]:
    """Yield faults of the scripts of the tests: how they start, report and fetch."""
    scripts = {name: text for name, text in task.texts.items() if re.match(rf"{TESTS}/.*\.sh$", name)}
    main = f"{TESTS}/{TEST_SCRIPT}"
    for name, text in scripts.items():
        if name == main and not text.startswith("#!"):
            hint = "begin it with #!/bin/bash"
            yield task.find("tests", Severity.ERROR, "has no first line that names its shell", hint, name)
        if "\r\n" in text:
            yield task.find("tests", Severity.ERROR, "has line ends of Windows", "save it with \\n", name)
        for pattern, severity, how in (
            (_PREPARED, Severity.WARNING, "installs its tools in each grading"),
            (_FETCHED, Severity.ERROR, "needs the network in each grading"),
        ):
            if fetches := list(pattern.finditer(text)):
                named = ", ".join(dict.fromkeys(" ".join(each[0].split()) for each in fetches))
                hint = f"install it in {ENVIRONMENT}/{DOCKERFILE}, or in the image of a separate verifier"
                yield task.find("network", severity, f"{how}: {named}", hint, name, fetches[0].start())
    whole = "\n".join(text for name, text in task.texts.items() if name.startswith(f"{TESTS}/"))
    if scripts and "reward." not in whole:
        hint = "write a number to /logs/verifier/reward.txt, whatever the outcome is"
        yield task.find("tests", Severity.ERROR, "nothing in tests/ writes a reward", hint, main)
    script = "\n".join(scripts.values())
    if re.search(r"\bpytest\b", script) and not asks_for_reports(script):
        hint = "call pytest with -rA, so that an early exit of its process does not look like a pass"
        yield task.find("tests", Severity.WARNING, "pytest does not report each test", hint, main)


def check_instruction(task: Folder) -> Iterator[Finding]:
    """Yield a finding for an instruction that says nothing."""
    texts = [step.instruction for step in task.folder.steps] or [task.folder.instruction]
    if not all(text.strip() for text in texts):
        hint = "write what an agent has to do"
        yield task.find("schema", Severity.ERROR, "is empty", hint, INSTRUCTION)


CHECKS: tuple[Callable[[Folder], Iterator[Finding]], ...] = (
    check_schema,
    check_instruction,
    check_canary,
    check_reference,
    check_leaks,
    check_secrets,
    check_versions,
    check_tests,
)
