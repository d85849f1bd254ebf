"""The known differences of runtimes that ignore a part of a container's configuration."""

from __future__ import annotations

from case_checks import each_case

from harness.sandbox.backends.docker.runtimes import NOT_ENFORCED, WITHOUT_CGROUP, find_known_difference
from harness.sandbox.limits import Limits


def test_a_known_finding_of_a_canary_is_recognised() -> None:
    known = find_known_difference(
        "runsc", "inodes", "/tmp 128 files, /dev/shm 128 files, of 64 allowed in each"
    )
    assert known is not None


@each_case(
    ("name", "found"),
    [
        ("read-only root", "a new file in / (EACCES), /etc (works)"),
        ("capabilities", "the job has CapEff, CapAmb, PID 1 has 4 (expected: 4)"),
        ("capabilities", "the job has CapAmb, PID 1 has 41 (expected: 4)"),
        ("namespaces", "not private: cgroup, ipc, mnt, net, uts"),
        ("network", "interfaces: lo, eth0; routes to: 192.0.2.1"),
    ],
)
def test_a_worse_finding_than_the_known_one_is_not_excused(name: str, found: str) -> None:
    assert find_known_difference("runsc", name, found) is None


def test_no_finding_is_excused_for_runc() -> None:
    assert find_known_difference("runc", "no new privileges", "NoNewPrivs is None") is None


def test_the_unenforced_limits_are_fields_of_limits() -> None:
    named = {*WITHOUT_CGROUP, *(name for names in NOT_ENFORCED.values() for name in names)}
    assert named <= set(Limits.model_fields)
