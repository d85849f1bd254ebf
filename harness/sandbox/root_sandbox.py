"""A sandbox in which who acts is root: a machine of its own, with a shell that stays.

Root there has no capability beyond the use of its own files, users and processes, no network, and no
way to look into PID 1 or to steer it. All else is its own to change or to ruin: what is to be judged
by what it left is judged after `end_all`, with tools that were put right (`harness.sandbox.tools`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.sandbox.limits import MIB
from harness.sandbox.results import ExecResult, ShellResult, exec_result, shell_result
from harness.sandbox.sandbox import FILE_SECONDS, GRACE_SECONDS, KEEP_BYTES, Sandbox
from harness.sandbox.spec import ROOT_ENVIRONMENT

if TYPE_CHECKING:
    from docker import APIClient

# A quote takes four times its room in the shell's pipe, and the shell reads that byte by byte.
MAX_COMMAND_BYTES = 64 * 1024
SHELL_KEEP_BYTES = 16 * 1024
# One that a user's shell has all its life: each command has a wall limit of its own.
SHELL_CPU_SECONDS = 600
END_SECONDS = 20.0


class UnreadableTree(Exception):
    """Files in the sandbox are such that they cannot be listed or removed: who acted there made them so."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is at a path: `folder` with its names, `link` and where it points, `file`, `other`, `absent`."""

    kind: str
    to: str | None = None
    names: tuple[str, ...] = ()
    device: int | None = None


class RootSandbox(Sandbox):
    """Open it on the image `shell`, or on another one that has bash."""

    _root_agent = True

    @property
    def client(self) -> APIClient:
        """The connection to the engine."""
        return self._client

    async def open_shell(self) -> None:
        """Start the shell: bash as after a login, in /root. Once, before the first `run`.

        Returns when it has read its start-up files: what is written to these later changes nothing.
        """
        limits = self._job_limits(None, KEEP_BYTES)
        limits["cpu_seconds"] = SHELL_CPU_SECONDS
        request = {
            "verb": "shell",
            "environment": dict(self._environment),
            "folder": ROOT_ENVIRONMENT["HOME"],
            "limits": limits,
        }
        await self._request(request, seconds=GRACE_SECONDS)
        await self.run("true")

    async def run(
        self,
        command: str,
        *,
        timeout: float | None = None,
        keep_bytes: int = SHELL_KEEP_BYTES,
        typed: bool = False,
    ) -> ShellResult:
        """Run a command in the shell, whose state it shares with those before and after it.

        Of its output `keep_bytes` are kept, the first and the last half. After `timeout` seconds it is
        interrupted as by Ctrl-C; if that does not help, what it has started is killed, and the shell
        last. A shell that has ended, for whatever reason, is renewed by the next command: as a plain
        one, since by then the start-up files are the agent's. A `typed` command is not kept from
        what the shell reads: if it starts another shell, as `su` does, that one goes on in its place.
        Raises UsageError where the text cannot be a command.
        """
        text = command.encode("utf-8", "surrogateescape")
        if b"\0" in text:
            raise UsageError("a command cannot have NUL bytes in it")
        if len(text) > MAX_COMMAND_BYTES:
            raise UsageError(f"a command of {len(text)} bytes is over the limit of {MAX_COMMAND_BYTES}")
        limits = self._job_limits(timeout, keep_bytes)
        header, body = await self._request(
            {"verb": "run", "limits": limits, "typed": typed},
            text,
            seconds=limits["wall_seconds"] + GRACE_SECONDS,
        )
        await self._look_at_disk()
        with self.reading():
            return shell_result(header, body)

    async def run_script(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        keep_bytes: int = KEEP_BYTES,
        output_bytes: int = 8 * MIB,
    ) -> ExecResult:
        """Run a trusted command as root in /root, apart from the shell. What it leaves running lives on.

        Returns once its first process has ended, whoever holds its outputs open.
        """
        limits = self._job_limits(timeout, keep_bytes)
        limits["output_bytes"] = output_bytes
        request = {
            "verb": "script",
            "argv": list(argv),
            "environment": {**self._environment, **(env or {})},
            "folder": "",
            "limits": limits,
        }
        header, body = await self._request(request, seconds=limits["wall_seconds"] + GRACE_SECONDS)
        with self.reading():
            return exec_result(header, body)

    async def end_all(self) -> None:
        """Leave no process but the guest alive, of whatever user. Raises SandboxError where one is left."""
        header, _ = await self._request({"verb": "end"}, seconds=END_SECONDS)
        with self.reading():
            left = [int(pid) for pid in header["left"]]
        if left:
            raise self.failure(f"processes that cannot be ended are left in the sandbox: {left[:20]}")

    async def begin(self) -> None:
        """Say that the agent acts from now on: what is changed later, `changed` will find."""
        await self._request({"verb": "begin"}, seconds=GRACE_SECONDS)

    async def changed(self, paths: Sequence[str]) -> list[tuple[str, Entry]]:
        """Return what was changed in and at these paths since `begin`, folders before what is in them.

        Only changes of processes that are dead are sure to be found. Raises UnreadableTree.
        """
        return await self._survey(paths, changed=True)

    async def describe(self, paths: Sequence[str]) -> dict[str, Entry]:
        """Return what is at each of these paths. Raises UnreadableTree."""
        return dict(await self._survey(paths, changed=False))

    async def _survey(self, paths: Sequence[str], *, changed: bool) -> list[tuple[str, Entry]]:
        request = {"verb": "survey", "paths": list(paths), "changed": changed}
        header, body = await self._request(request, seconds=FILE_SECONDS)
        if "refused" in header:
            raise UnreadableTree(str(header["refused"])[:500])
        with self.reading():
            return [
                (
                    path,
                    Entry(facts["kind"], facts.get("to"), tuple(facts.get("names", ())), facts.get("device")),
                )
                for path, facts in json.loads(body)
            ]

    async def remove(self, paths: Sequence[str]) -> None:
        """Remove files and folders with all that is in them, following no link. Raises UnreadableTree."""
        header, _ = await self._request({"verb": "remove", "paths": list(paths)}, seconds=END_SECONDS * 3)
        if "refused" in header:
            raise UnreadableTree(f"cannot remove what the agent left: {str(header['refused'])[:500]}")
