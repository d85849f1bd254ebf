"""The service as its operator runs it: the command `harness serve` in a process of its own."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docker import APIClient
from e2e.command_line import HANG_SECONDS, Harness

from harness.sandbox import reaper


@dataclass(frozen=True)
class ServedProcess:
    """A service that runs."""

    process: subprocess.Popen[str]
    # The URL with the token.
    url: str

    @property
    def token(self) -> str:
        return self.url.rpartition("/")[2]

    def read_peak_memory_mb(self) -> float:
        """Return the most memory in MiB that the process has had at any moment."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (kib,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
        return int(kib) / 1024

    def list_containers(self, client: APIClient) -> list[str]:
        """Return the ids of all containers that the process has started and that still exist."""
        label = f"{reaper.PID}={self.process.pid}"
        return [each["Id"] for each in client.containers(all=True, filters={"label": label})]

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal, wait for the end, and return the exit code and the standard error."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=HANG_SECONDS)
        return self.process.returncode, errors


@contextlib.contextmanager
def start_service(harness: Harness, *options: str, by_script: bool = False) -> Iterator[ServedProcess]:
    """Start the command, and yield the service once it listens. The end of the block ends it."""
    process = harness.start("serve", "--port", "0", *options, by_script=by_script)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:"), process.communicate()[1]
    try:
        yield ServedProcess(process, url)
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=HANG_SECONDS)
