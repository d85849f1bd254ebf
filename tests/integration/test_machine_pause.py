"""The processes of a machine stop during a pause and go on afterwards, but those that were stopped before."""

from __future__ import annotations

import asyncio

import pytest
from docker import APIClient

from harness.environments.os.root_sandbox import RootSandbox
from harness.sandbox.backends.docker.backend import DockerBackend

COUNT = "while :; do echo x >> /root/lines; sleep 0.05; done > /dev/null 2>&1 &"
# Forks without end, so that no listing finds every process.
CHAIN = "f() { echo y >> /root/forks; sleep 0.01; f & }; f > /dev/null 2>&1"
STOPPED = "sleep 600 & kill -STOP $!; echo $! > /root/stopped"


async def _sizes(sandbox: RootSandbox) -> list[int]:
    found = await sandbox.describe(["/root/lines", "/root/forks"])
    return [found[path].size for path in sorted(found)]


@pytest.mark.timeout(120)
async def test_processes_stop_and_go_on(client: APIClient, backend: DockerBackend) -> None:
    async with RootSandbox.open("os", backend=backend) as sandbox:
        await sandbox.open_shell()
        await sandbox.run(f"{COUNT} {CHAIN}; {STOPPED}; sleep 0.5")
        await sandbox.pause_all()
        before = await _sizes(sandbox)
        assert len(before) == 2
        await asyncio.sleep(0.5)
        assert await _sizes(sandbox) == before, "a process wrote during the pause"
        await sandbox.run_script(["/bin/sh", "-c", "kill -CONT -1"])
        await sandbox.pause_all()
        before = await _sizes(sandbox)
        await asyncio.sleep(0.5)
        assert await _sizes(sandbox) == before, "a second pause did not stop what had gone on"
        await sandbox.resume_all()
        await sandbox.run("sleep 0.5")
        assert all(now > then for now, then in zip(await _sizes(sandbox), before, strict=True))
        state = await sandbox.run("cut -d' ' -f3 /proc/$(cat /root/stopped)/stat")
        assert str(state.output) == "T\n"
        await sandbox.pause_all()
        await sandbox.end_all()
