"""Other projects that read what harness writes, each installed from PyPI into a folder of its own.

The folder `.readers` is kept, so that only the first run of the tests installs them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from effort import THOROUGH
from filelock import FileLock

ROOT = Path(__file__).parents[1]
READERS = ROOT / ".readers"
# This ends an installation that hangs. No test passes or fails because of it.
_HANG_SECONDS = 600


@dataclass(frozen=True)
class Reader:
    """A project at the version with which the tests passed."""

    name: str
    packages: tuple[str, ...]
    # Whether the packages are only unpacked, next to those of this project. Their own demands are ignored.
    is_unpacked: bool = False
    # Whether the installation takes so long that only a thorough run begins it.
    is_slow: bool = False
    # Whether it needs this project and its packages, too.
    needs_harness: bool = False

    def run(self, program: str, *arguments: str | Path) -> str:
        """Run a Python program with the reader, and return its output. Skips the test without a reader."""
        folder = _install(self)
        python = sys.executable if self.is_unpacked else str(folder / "bin" / "python")
        ended = subprocess.run(
            [python, "-c", program, *map(str, arguments)],
            env={**os.environ, **({"PYTHONPATH": str(folder)} if self.is_unpacked else {})},
            capture_output=True,
            text=True,
            timeout=_HANG_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout


# Its models need no more than pydantic and two small packages. The package itself demands Python 3.12 and two
# hundred megabytes.
HARBOR = Reader("harbor", ("harbor==0.26.0", "shortuuid", "toml"), is_unpacked=True)
INSPECT = Reader("inspect", ("inspect-ai==0.3.285",), is_slow=True)
# One of its files is a whole client of code sandboxes, and needs no more than requests. The package itself
# imports torch.
VERL = Reader("verl", ("verl==0.9.1",), is_unpacked=True)
# Its environments for texts need no more than this.
SKYRL = Reader("skyrl", ("skyrl-gym==0.4.0",), is_unpacked=True)
SANDBOX_FUSION = Reader("sandbox-fusion", ("sandbox-fusion==0.3.7",), is_slow=True)
# The module of its client needs no more than the packages of this project.
OPENENV = Reader("openenv", ("openenv-core==0.3.0",), is_unpacked=True)
NOTEBOOK = Reader("notebook", ("ipykernel", "nbclient", "ipywidgets"), is_slow=True, needs_harness=True)
# Without the wheels for graphics cards, which are several gigabytes.
TRL = Reader(
    "trl",
    ("trl==1.16.0", "torch==2.13.0+cpu", "--extra-index-url=https://download.pytorch.org/whl/cpu"),
    is_slow=True,
    needs_harness=True,
)
# Its client needs no more than aiohttp. The package itself demands torch, ray and vLLM.
OPENRLHF = Reader(
    "openrlhf",
    (
        "openrlhf==0.11.2",
        "aiohttp==3.14.5",
        *("aiohappyeyeballs", "aiosignal", "attrs", "frozenlist", "multidict", "propcache", "yarl"),
    ),
    is_unpacked=True,
)
# It starts its programs with uv.
VERIFIERS = Reader("verifiers", ("verifiers==0.4.0", "uv==0.13.9"), is_slow=True, needs_harness=True)


@cache
def _install(reader: Reader) -> Path:
    """Return the folder of a reader, installed. Skips the test if PyPI does not serve it."""
    folder = READERS / reader.name
    wanted = json.dumps([reader.packages, sys.version])
    marker = folder / "installed"
    READERS.mkdir(exist_ok=True)
    with FileLock(READERS / f"{reader.name}.lock"):
        if marker.exists() and marker.read_text() == wanted:
            return folder
        if reader.is_slow and not THOROUGH:
            pytest.skip(f"{reader.name} is not installed: HARNESS_TESTS=thorough installs it")
        shutil.rmtree(folder, ignore_errors=True)
        if reader.is_unpacked:
            python = sys.executable
            options = ["--no-deps", "--ignore-requires-python", "--target", str(folder)]
        else:
            _call(reader, [sys.executable, "-m", "venv", str(folder)])
            python, options = str(folder / "bin" / "python"), []
        _call(reader, [python, "-m", "pip", "install", "-q", "--retries", "1", *options, *reader.packages])
        if reader.needs_harness:
            (packages,) = folder.glob("lib/python*/site-packages")
            ours = [path for path in sys.path if path.endswith("site-packages")]
            (packages / "harness.pth").write_text("\n".join([str(ROOT), *ours]) + "\n")
        marker.write_text(wanted)
    return folder


def _call(reader: Reader, command: list[str]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_HANG_SECONDS, check=False)
    if ended.returncode != 0:
        last = (ended.stderr.strip().splitlines() or ["without a message"])[-1]
        pytest.skip(f"PyPI does not serve {reader.name}: {last}")
