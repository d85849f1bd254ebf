"""Judge the programs that a task asks for, by what they print for the arguments that its check gives them.

Upstream's checks start the agent's program and believe its output. Here the check runs among the agent's
files, but with the reference's program in place of the agent's, and a recorder notes each call. Then the
agent's program gets the same arguments in another machine, where nothing judges it. Its outputs are data, and
the host compares them with the outputs of the reference's program.
"""

from __future__ import annotations

import posixpath
import re
import secrets
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from harness.environments.os.file_entries import CopyPlan, FileEntry, Snapshot
from harness.environments.os.root_sandbox import RootSandbox
from harness.environments.os.scripts import Script, run_script
from harness.sandbox.results import ExecResult

MAX_CALLS = 200
SCRIPT_SECONDS = 60.0
CALL_SECONDS = 20.0
LEAST_SECONDS = 0.5
# AgentBench's task `calc` allows this difference.
TOLERANCE = 1e-5
_NUMBER = re.compile(r"[-+]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})")
_RECORDER = """#!/bin/bash
printf '%s\\0' "$#" "$PWD" "$(type -P -- "$1")" "$@" >> {log} && exec "$@"
"""
_CALL = Script("bash", 'cd "$1" && shift && exec "$@"')
# A script that an interpreter runs need not be executable.
_LOCATE = Script(
    "bash", 'cd "$1" && { type -P -- "$2" || realpath -e -s -- "$2"; } | xargs -d "\\n" realpath -s -z --'
)
_REMOVE = Script("bash", 'rm -rf -- "$1"')


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """One call of a program in a folder: its name with its arguments, and the path of that name there."""

    folder: str
    argv: tuple[str, ...]
    path: str = field(compare=False)

    def __str__(self) -> str:
        return shlex.join(self.argv)

    def find_program(self, made: Snapshot) -> tuple[str, str] | None:
        """Return the word that names a program of the reference, a command or a script, and its file.

        Returns None if the reference made neither.
        """
        for word, path in ((self.argv[0], self.path), *((word, word) for word in self.argv[1:])):
            found = made.follow(posixpath.join(self.folder, path))
            if found is not None:
                return word, found
        return None


@dataclass(frozen=True, slots=True)
class Recording:
    """A run of a check with the reference's programs: its result, and the calls with their outputs."""

    result: ExecResult
    outputs: Mapping[ProgramCall, str]
    # A file that the programs changed.
    changed: str | None

    @property
    def calls(self) -> list[ProgramCall]:
        return list(self.outputs)

    def find_strange(self, known: Recording) -> ProgramCall | None:
        """Return a call that printed neither a number nor the same as in another recording, None without one.

        Such an output comes from the agent's files, and could decide how the check is read.
        """
        for call, output in self.outputs.items():
            if not _NUMBER.fullmatch(output.strip()) and output != known.outputs.get(call):
                return call
        return None


@dataclass(frozen=True, slots=True)
class ProgramCheck:
    """A check that starts programs that the task asks for, which `example` makes as the reference.

    `starts` are the offsets of the commands that start programs.
    """

    script: Script
    starts: tuple[int, ...]
    example: Script

    async def make_reference(self, sandbox: RootSandbox) -> Snapshot:
        """Make the reference in a machine where no agent acted, and return its files.

        Raises SandboxError, UnreadableFiles.
        """
        since_ns = await sandbox.begin()
        await run_script(sandbox, self.example, timeout=SCRIPT_SECONDS)
        return await sandbox.snapshot_files(since_ns)

    async def record(self, sandbox: RootSandbox, parameters: Sequence[str]) -> Recording:
        """Run the check in a machine without programs of an agent. Raises SandboxError."""
        stem = f"/tmp/{secrets.token_hex(8)}"
        await sandbox.write_file(stem, _RECORDER.format(log=f"{stem}-calls").encode(), mode=0o755)
        await sandbox.write_file(f"{stem}-calls", b"")
        marked = self.script.code
        for start in sorted(self.starts, reverse=True):
            marked = f"{marked[:start]}{stem} {marked[start:]}"
        script = Script(self.script.language, marked)
        since_ns = await sandbox.begin()
        result = await run_script(sandbox, script, parameters, timeout=SCRIPT_SECONDS, confined=True)
        calls = _read_calls(await sandbox.read_file(f"{stem}-calls"))
        changed = [entry.path for entry in await sandbox.list_changed(since_ns) if entry.kind != "folder"]
        outputs = {call: str(ended.stdout) async for call, ended in run_calls(sandbox, calls)}
        return Recording(result, outputs, next((path for path in changed if path != f"{stem}-calls"), None))


def _read_calls(log: bytes) -> list[ProgramCall]:
    fields = log.decode("utf-8", "surrogateescape").split("\0")
    calls: list[ProgramCall] = []
    while len(fields) > 3 and len(calls) < MAX_CALLS:
        end = 3 + int(fields[0])
        calls.append(ProgramCall(fields[1], tuple(fields[3:end]), fields[2]))
        fields = fields[end:]
    return list(dict.fromkeys(calls))


async def run_calls(
    sandbox: RootSandbox, calls: Sequence[ProgramCall]
) -> AsyncIterator[tuple[ProgramCall, ExecResult]]:
    """Yield each of these calls with its result in a machine. All may take SCRIPT_SECONDS.

    Raises SandboxError.
    """
    left = SCRIPT_SECONDS
    for call in calls:
        argv = [call.folder, *call.argv]
        result = await run_script(sandbox, _CALL, argv, timeout=min(left, CALL_SECONDS), confined=True)
        left = max(left - result.duration_seconds, LEAST_SECONDS)
        yield call, result


async def put_reference(
    sandbox: RootSandbox, reference: Snapshot, calls: Sequence[ProgramCall]
) -> str | None:
    """Put the reference's programs in place of the agent's. Return the reason why that is not possible.

    The names of the agent's files stay the same, because programs may count them. Raises SandboxError,
    UnreadableFiles.
    """
    programs: dict[tuple[str, str], str] = {}
    for call in calls:
        found = call.find_program(reference)
        if found is None:
            return f"the check starts {call.argv[0]}, which the reference does not make"
        programs[call.folder, found[0]] = found[1]
    for (folder, word), made in programs.items():
        located = await run_script(sandbox, _LOCATE, [folder, word], timeout=CALL_SECONDS)
        path = str(located.stdout).rstrip("\0")
        if located.exit_code != 0 or not path.startswith("/"):
            return f"there is no program {word}"
        # An agent may have made a link, which must not lead to a tool of the image.
        await run_script(sandbox, _REMOVE, [path], timeout=CALL_SECONDS)
        await sandbox.write_file(path, reference.contents[made], mode=0o755)
    parts = _list_parts(reference, set(programs.values()))
    await sandbox.copy_files(CopyPlan(parts), reference.read_ranges)
    return None


def _list_parts(reference: Snapshot, programs: set[str]) -> tuple[FileEntry, ...]:
    """Return the reference's files whose names the programs mention, because these may be parts of them."""
    parts: set[str] = set()
    texts = [reference.contents[path] for path in programs]
    while texts:
        text = texts.pop()
        for entry in reference.entries:
            name = posixpath.basename(entry.path).encode(errors="surrogateescape")
            if entry.kind != "folder" and entry.path not in parts | programs and name in text:
                parts.add(entry.path)
                texts.append(reference.contents.get(entry.path, b""))
    folders = {str(parent) for path in parts for parent in PurePosixPath(path).parents}
    return tuple(entry for entry in reference.entries if entry.path in parts | folders)


def is_same_output(output: str, expected: str) -> bool:
    """Return whether two outputs have the same words. Numbers may differ by TOLERANCE."""
    words, wanted = output.split(), expected.split()
    return len(words) == len(wanted) and all(map(_is_same_word, words, wanted))


def _is_same_word(word: str, wanted: str) -> bool:
    if word == wanted:
        return True
    if not (_NUMBER.fullmatch(word) and _NUMBER.fullmatch(wanted)):
        return False
    return abs(float(word) - float(wanted)) <= TOLERANCE
