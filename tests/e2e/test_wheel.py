"""The wheel works on a machine without a checkout, and the same sources give the same files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest
from e2e.command_line import HANG_SECONDS
from hatchling.build import build_sdist, build_wheel

REPOSITORY = Path(__file__).parents[2]
SOURCES = ("harness", "images", "pyproject.toml", "README.md", "LICENSE", ".gitignore")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the source distribution, as `python -m build` does, both twice."""
    built: list[list[Path]] = []
    for number in range(2):
        folder = tmp_path_factory.mktemp("build")
        checkout, dist = folder / f"checkout-{number}", folder / "dist"
        checkout.mkdir()
        for name in SOURCES:
            # The times of the copies differ, as those of two clones do.
            if (REPOSITORY / name).is_dir():
                ignore = shutil.ignore_patterns("__pycache__")
                shutil.copytree(REPOSITORY / name, checkout / name, copy_function=shutil.copy, ignore=ignore)
            else:
                shutil.copy(REPOSITORY / name, checkout / name)
        with contextlib.chdir(checkout):
            sdist = build_sdist(str(dist))
        with tarfile.open(dist / sdist) as archive:
            archive.extractall(folder, filter="data")
        with contextlib.chdir(folder / sdist.removesuffix(".tar.gz")):
            build_wheel(str(dist))
        built.append(sorted(dist.iterdir()))
    first, second = (
        [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in each] for each in built
    )
    assert first == second
    (made,) = (path for path in built[0] if path.suffix == ".whl")
    return made


def test_a_wheel_evaluates_a_benchmark_without_a_checkout(
    wheel: Path, tmp_path: Path, surroundings: dict[str, str]
) -> None:
    assert wheel.name.startswith("sealed_harness-")
    environment = {name: value for name, value in surroundings.items() if name != "PYTHONPATH"}

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    place = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", place)
    python, command = place / "bin" / "python", place / "bin" / "harness"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    # The packages that it needs are those of the tests. Python does not read further .pth files there.
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib"))
    where = run(python, "-c", "import harness; print(harness.__file__)").strip()
    assert Path(where).is_relative_to(place)
    assert "ready in" in run(command, "setup", "-b", "mbpp")
    assert "100.0 % resolved" in run(command, "run", "-b", "mbpp", "--data", "bundled", "-n", "2")
    assert os.listdir(tmp_path / "runs")
