"""The synchronous face of a sandbox."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from harness import Sandbox
from harness.core.errors import UsageError
from harness.sandbox import reaper
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.failures import SandboxClosed
from harness.sandbox.streaming import OutputChunk

pytestmark = pytest.mark.timeout(180)
# An ended process leaves no container for longer.
GONE_SECONDS = 10.0

SCRIPT = """
import sys
from harness import Sandbox

with Sandbox.open_sync(run_id=sys.argv[1]) as sandbox:
    print("open", flush=True)
    sandbox.exec(["sleep", "600"], timeout=600)
"""

START_ALONE = """
import sys, docker
from harness.sandbox import reaper
from harness.sandbox.backends.base import SandboxSpec
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

labels = reaper.make_labels(sys.argv[1], role="sandbox", deadline_seconds=600.0)
DockerBackend(docker.APIClient()).start(SandboxSpec("python", Limits(), name=sys.argv[1], labels=labels))
"""


@pytest.fixture
def run_id(backend: DockerBackend) -> Iterator[str]:
    run_id = f"test-{secrets.token_hex(6)}"
    yield run_id
    reaper.remove_run(backend, run_id)


def test_the_calls_of_a_block_block_and_leaving_it_leaves_no_container(
    backend: DockerBackend, run_id: str
) -> None:
    with Sandbox.open_sync(backend=backend, run_id=run_id) as sandbox:
        assert len(reaper.find_run_containers(backend, run_id)) == 1
        assert str(sandbox.exec(["echo", "hello"]).stdout) == "hello\n"
        with sandbox.stream(["sh", "-c", "echo first; until test -e /tmp/go; do sleep 0.02; done"]) as stream:
            assert stream.read() == OutputChunk("stdout", b"first\n")
            sandbox.write_file("/tmp/go", b"")
            assert list(stream) == []
        assert stream.result.exit_code == 0
        with pytest.raises(UsageError, match="cannot read"):
            sandbox.read_file("no-such-file")
    assert reaper.find_run_containers(backend, run_id) == []


def test_leaving_a_stream_early_ends_its_command(backend: DockerBackend) -> None:
    with Sandbox.open_sync(backend=backend) as sandbox:
        with sandbox.stream(["cat", "/dev/zero"]) as stream:
            assert stream.read() is not None
        with pytest.raises(KeyError), sandbox.stream(["sleep", "600"]) as other:
            raise KeyError
        assert (stream.result.exit_code, other.result.exit_code) == (-9, -9)


def test_an_exception_in_the_block_leaves_no_container(backend: DockerBackend, run_id: str) -> None:
    with pytest.raises(ZeroDivisionError), Sandbox.open_sync(backend=backend, run_id=run_id):
        raise ZeroDivisionError
    assert reaper.find_run_containers(backend, run_id) == []


def test_a_sandbox_that_cannot_be_opened_raises_the_reason(backend: DockerBackend) -> None:
    with pytest.raises(UsageError, match="pyton"), Sandbox.open_sync("pyton", backend=backend):
        pass


def test_a_call_after_the_block_is_refused(backend: DockerBackend) -> None:
    with Sandbox.open_sync(backend=backend) as sandbox:
        pass
    with pytest.raises(SandboxClosed):
        sandbox.exec(["true"])


def test_an_interrupt_in_a_call_leaves_no_container(backend: DockerBackend, run_id: str) -> None:
    script = subprocess.Popen([sys.executable, "-c", SCRIPT, run_id], stdout=subprocess.PIPE, text=True)
    assert script.stdout is not None
    script.stdout.readline()
    script.send_signal(signal.SIGINT)
    script.communicate()
    assert (script.returncode, reaper.find_run_containers(backend, run_id)) == (-signal.SIGINT, [])


@pytest.mark.usefixtures("docker_only")
def test_interrupts_while_the_container_goes_leave_none(backend: DockerBackend, run_id: str) -> None:
    script = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, run_id],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert script.stdout is not None
    script.stdout.readline()
    while script.poll() is None and reaper.find_run_containers(backend, run_id):
        script.send_signal(signal.SIGINT)
    script.communicate()
    # If an interrupt hits the end of the block itself, the watch of this process removes the container.
    assert_none_remains(backend, run_id)


@pytest.mark.usefixtures("docker_only")
def test_a_process_that_ends_before_it_has_removed_its_container_leaves_none(
    backend: DockerBackend, run_id: str
) -> None:
    subprocess.run([sys.executable, "-c", START_ALONE, run_id], check=True)
    assert_none_remains(backend, run_id)


def assert_none_remains(backend: DockerBackend, run_id: str) -> None:
    deadline = time.monotonic() + GONE_SECONDS
    while left := reaper.find_run_containers(backend, run_id):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_a_forked_process_can_neither_use_nor_end_a_sandbox(backend: DockerBackend) -> None:
    with Sandbox.open_sync(backend=backend) as sandbox:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                sandbox.exec(["true"])
            except SandboxClosed:
                sandbox.close()
                os._exit(3)
            os._exit(4)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 3
        assert sandbox.exec(["echo", "there"]).exit_code == 0


def test_a_forked_process_may_leave_the_block(backend: DockerBackend) -> None:
    parent, child = os.getpid(), 0
    try:
        with Sandbox.open_sync(backend=backend) as sandbox:
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                raise SystemExit
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 5
            assert sandbox.exec(["true"]).exit_code == 0
    finally:
        if os.getpid() != parent:
            os._exit(5)
