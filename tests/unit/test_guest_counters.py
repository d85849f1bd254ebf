"""The kernel counts kills and refusals for a container, whoever was short of memory or processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_checks import each_case

from harness.sandbox.guest import cgroup
from harness.sandbox.guest.cgroup import Counter, Counters

# The files of each version of control groups, and their content while nothing has happened.
FILES = {
    "v1": {
        "kills": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
        "full": "0\n",
        "peak": "1000000\n",
        "most": "8000000\n",
    },
    "v2": {
        "kills": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
        "full": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
        "peak": "1000000\n",
        "most": "8000000\n",
    },
}
PROCESSES = {"refused": "max 0\n", "peak processes": "5\n", "most processes": "64\n"}


class Files:
    """The files of a control group."""

    def __init__(self, folder: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        for name, content in {**FILES[version], **PROCESSES}.items():
            self[name] = content
        monkeypatch.setattr(cgroup, "MEMORY_KILLS", self._counter("kills", b"oom_kill"))
        full = self._counter("full", b"max" if version == "v2" else b"")
        monkeypatch.setattr(cgroup, "FULL_MEMORY", (full, Counter((f"{folder}/missing",), b"")))
        monkeypatch.setattr(cgroup, "PEAK_MEMORY", ((self._counter("peak"), self._counter("most")),))
        monkeypatch.setattr(cgroup, "REFUSED_FORKS", self._counter("refused", b"max"))
        monkeypatch.setattr(cgroup, "PEAK_PROCESSES", self._counter("peak processes"))
        monkeypatch.setattr(cgroup, "MOST_PROCESSES", self._counter("most processes"))

    def _counter(self, name: str, key: bytes = b"") -> Counter:
        return Counter((str(self._folder / name),), key)

    def __getitem__(self, name: str) -> str:
        return (self._folder / name).read_text()

    def __setitem__(self, name: str, content: str) -> None:
        (self._folder / name).write_text(content)


@pytest.fixture(params=FILES)
def files(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    return Files(tmp_path, request.param, monkeypatch)


def read(counters: Counters) -> tuple[int, int, str | None]:
    return counters.memory_kills(), counters.refused_forks(), counters.find_fault()


def test_nothing_has_happened_at_first(files: Files) -> None:
    assert read(Counters()) == (0, 0, None)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("full", "0", "3"), ("peak", "1000000", "8000000"), ("peak", "1000000", "6500000")],
)
def test_a_kill_counts_once_the_container_has_filled_its_memory(
    files: Files, name: str, old: str, new: str
) -> None:
    counters = Counters()
    files["kills"] = files["kills"].replace("oom_kill 0", "oom_kill 2")
    assert read(counters) == (0, 0, cgroup.OUT_OF_MEMORY)
    files[name] = files[name].replace(old, new)
    assert read(counters) == (2, 0, None)
    assert read(Counters()) == (0, 0, None)


def test_a_refusal_counts_once_the_container_has_had_all_its_processes(files: Files) -> None:
    counters = Counters()
    files["refused"] = "max 2\n"
    assert read(counters) == (0, 0, cgroup.NO_START)
    files["peak processes"] = "64\n"
    assert read(counters) == (0, 2, None)


@each_case("content", ["max\n", "", "0\n"])
def test_a_container_without_a_limit_never_fills_it(files: Files, content: str) -> None:
    files["most"] = content
    assert not cgroup.has_filled_memory()


def test_a_kernel_that_does_not_count_leaves_no_doubt(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a kill of a process of the container shows that the container was out of memory."""
    counters = Counters()
    monkeypatch.setattr(cgroup, "FULL_MEMORY", ())
    monkeypatch.setattr(cgroup, "PEAK_PROCESSES", Counter((), b""))
    files["kills"] = files["kills"].replace("oom_kill 0", "oom_kill 1")
    files["refused"] = "max 1\n"
    assert read(counters) == (1, 1, None)
