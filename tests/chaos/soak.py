"""Ask a service for verdicts for an hour while it, its engine, its containers and its clients are killed.

    python tests/chaos/soak.py [--seconds 3600] [--clients 8] [--seed S] [-o docs/soak.md]

Every program has a known verdict. The exit code is 1 if one verdict was false, or if a container, a process,
a mount or a temporary file is left at the end. The page shows what happened in each minute. In the second
half the service itself lives on, so that its memory shows a leak. Root only, because the engine is a private
one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import psutil
from docker.errors import DockerException
from private_engine import PrivateEngine, find_obstacle
from requests import RequestException
from soak_page import BATCH, is_false, write_page
from workload import KINDS

from harness.client.connection import ServiceUnreachableError
from harness.core.errors import HarnessError
from harness.core.types import Status
from harness.rl.grading import RewardSample
from harness.rl.openings import hold_grading
from harness.sandbox.backends.docker.engine import connect

SCRIPT = Path(sys.executable).with_name("harness")
TOKEN = "token-of-the-soak-test"
# A client gives up on a sample after this time, and counts it as lost.
CLIENT_SECONDS = 300.0
# The service has limits of its own, which this body must exceed.
BODIES = {"memory_limit": "b = bytearray(1 << 31); b[::4096] = b'x' * len(b[::4096]); return x"}


def ask_for_ever(url: str, seed: int, log: Path) -> None:
    """Send batch after batch, and log when each began, its seconds, its statuses and unexpected verdicts."""
    draw = random.Random(seed)
    held = hold_grading({"url": url, "token": TOKEN, "timeout_seconds": CLIENT_SECONDS})
    while True:
        kinds = draw.choices(KINDS, [kind.share for kind in KINDS], k=BATCH)
        samples = []
        for kind in kinds:
            number = draw.randrange(1, 10**6)
            body = BODIES.get(kind.status, kind.body).format(number=number)
            cases = [{"arguments": [x], "result": x + number} for x in (0, 7)]
            # On a busy machine it takes seconds of processor time to fill the memory.
            seconds = 20.0 if kind.status == "memory_limit" else 2.0
            tests = {"kind": "calls", "function": "add", "tests": cases, "seconds": seconds}
            samples.append(RewardSample(f"def add(x):\n    {body}", "solution", tests=tests))
        began = time.time()
        try:
            statuses: list[str | None] = [
                None if verdict.score is None else verdict.status.value for verdict in held.grade(samples)
            ]
        except ServiceUnreachableError:
            # The service starts. Nothing was sent.
            time.sleep(0.5)
            continue
        except HarnessError:
            statuses = [None] * BATCH
        others = [
            [kind.body, kind.status, status]
            for kind, status in zip(kinds, statuses, strict=True)
            if status not in (None, kind.status)
        ]
        ended = dict(Counter(status or "none" for status in statuses))
        line = {"at": began, "seconds": time.time() - began, "statuses": ended, "others": others}
        with log.open("a") as file:
            file.write(json.dumps(line) + "\n")


@dataclass
class Soak:
    """The service, its clients and their disturbances. `faults` lists the failed checks."""

    folder: Path
    engine: PrivateEngine
    random: random.Random
    clients: int
    port: int
    faults: list[str] = field(default_factory=list)
    _service: subprocess.Popen[bytes] | None = None
    _asking: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "temporary").mkdir()
        self.environment = {
            **os.environ,
            "TMPDIR": str(self.folder / "temporary"),
            "DOCKER_HOST": self.engine.address,
            "HARNESS_SERVE_TOKEN": TOKEN,
            "HARNESS_ENGINE_WAIT_SECONDS": "60",
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def run(self, seconds: float) -> None:
        """Disturb the service for `seconds`, and keep everything running that is killed."""
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                self._keep_running()
                time.sleep(self.random.uniform(1.0, 12.0))
                self._look()
                self._disturb(spare_service=time.monotonic() > until - seconds / 2)
        finally:
            for process in [*self._asking.values(), *filter(None, [self._service])]:
                process.terminate()
            for process in [*self._asking.values(), *filter(None, [self._service])]:
                process.wait(120)

    def _keep_running(self) -> None:
        if self._service is None or self._service.poll() is not None:
            with open(self.folder / "service.log", "ab") as log:
                self._service = subprocess.Popen(
                    [SCRIPT, "serve", "--port", str(self.port)], env=self.environment, stdout=log, stderr=log
                )
        for number in range(self.clients):
            asking = self._asking.get(number)
            if asking is None or asking.poll() is not None:
                seed = str(self.random.randrange(10**9))
                own_log = str(self.folder / f"client-{number}.log")
                arguments = ["--client", self.url, "--seed", seed, "-o", own_log]
                with open(self.folder / "clients.log", "ab") as log:
                    self._asking[number] = subprocess.Popen(
                        [sys.executable, __file__, *arguments], env=self.environment, stdout=log, stderr=log
                    )

    def _look(self) -> None:
        """Record the state of the service: its memory in MiB, processes, files and containers."""
        with contextlib.suppress(psutil.Error, DockerException, RequestException):
            assert self._service is not None
            process = psutil.Process(self._service.pid)
            self._record(
                "looks",
                pid=process.pid,
                memory=process.memory_info().rss / 1024**2,
                processes=1 + len(process.children(recursive=True)),
                open_files=process.num_fds(),
                temporary_files=len(list((self.folder / "temporary").iterdir())),
                containers=len(self.engine.containers()),
                load=os.getloadavg()[0],
            )

    def _record(self, name: str, **values: Any) -> None:
        with (self.folder / f"{name}.log").open("a") as file:
            file.write(json.dumps({"at": time.time(), **values}) + "\n")

    def _disturb(self, *, spare_service: bool) -> None:
        assert self._service is not None
        deeds = {
            "nothing": 12,
            "kill container": 6,
            "kill client": 3,
            "kill service": 0 if spare_service else 2,
            "stop service": 0 if spare_service else 2,
            "crash engine": 1,
            "restart engine": 1,
        }
        deed = self.random.choices(list(deeds), list(deeds.values()))[0]
        self._record("deeds", deed=deed)
        if deed == "kill container":
            with (
                contextlib.suppress(DockerException, RequestException, IndexError),
                self.engine.client() as client,
            ):
                client.kill(self.random.choice(self.engine.containers()))
        elif deed == "kill client":
            self._asking[self.random.randrange(self.clients)].kill()
        elif deed in ("kill service", "stop service"):
            self._service.send_signal(signal.SIGKILL if deed == "kill service" else signal.SIGTERM)
            self._service.wait(120)
        elif deed.endswith("engine"):
            (self.engine.kill if deed == "crash engine" else self.engine.stop)()
            time.sleep(self.random.uniform(0.0, 3.0))
            self.engine.start()

    def check(self) -> None:
        """Check that no verdict was false and that nothing is left. This ends the engine."""
        lines = [line for log in self.folder.glob("client-*.log") for line in log.read_text().splitlines()]
        if not lines:
            self.faults.append("no client got a reply")
        for body, wanted, got in [each for line in lines for each in json.loads(line)["others"]]:
            if is_false(wanted, got):
                self.faults.append(f"false verdict: {got} instead of {wanted} for {body!r}")
        # The next start of harness removes what a killed service has left.
        subprocess.run([SCRIPT, "gc"], env=self.environment, capture_output=True, check=False)
        if left := self.engine.containers():
            self.faults.append(f"{len(left)} container(s) left")
        if left := [path.name for path in (self.folder / "temporary").iterdir()]:
            self.faults.append(f"temporary files left: {left}")
        if left := self.engine.mounts():
            self.faults.append(f"mounts left: {left}")
        if left := self.engine.close():
            self.faults.append(f"left after the engine's end: {left}")
        self._record("end", clients=self.clients, faults=self.faults)


@contextlib.contextmanager
def open_soak(seed: int, clients: int, folder: Path | None) -> Iterator[Soak]:
    """Yield a soak test with an engine of its own. A folder that was not given stays if a check failed."""
    is_given = folder is not None
    folder = folder or Path(tempfile.mkdtemp(prefix="harness-soak-"))
    folder.mkdir(exist_ok=True)
    engine = PrivateEngine()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    soak = Soak(folder, engine, random.Random(seed), clients, port)
    try:
        engine.start()
        with contextlib.closing(connect()) as source:
            engine.take_image(source)
        yield soak
    finally:
        if engine.folder.exists():
            engine.close()
        if not soak.faults and not is_given:
            shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--folder", type=Path, help="keep the records here, for soak_page.py")
    parser.add_argument("--client", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client is not None:
        ask_for_ever(arguments.client, arguments.seed, arguments.output)
    if (reason := find_obstacle()) is not None:
        print(f"error: {reason}", file=sys.stderr)
        return 2
    # A signal to this process must also end every process that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"soak --seed {arguments.seed} --seconds {arguments.seconds:g}", flush=True)
    with open_soak(arguments.seed, arguments.clients, arguments.folder) as soak:
        soak.run(arguments.seconds)
        soak.check()
        if arguments.output is not None:
            write_page(soak.folder, arguments.output)
        for fault in soak.faults:
            print(f"error: {fault}; the folder is {soak.folder}", file=sys.stderr)
        return 1 if soak.faults else 0


if __name__ == "__main__":
    assert {kind.status for kind in KINDS} <= {status.value for status in Status}
    sys.exit(main())
