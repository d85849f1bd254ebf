from __future__ import annotations

from case_checks import each_case

from harness.environments.python.client import InputRun
from harness.sandbox.results import Stream


@each_case(
    ("limit", "text"),
    [
        ("cpu_seconds", "the program used up its CPU time (60 s, in 64.2 s of wall time)"),
        ("wall_seconds", "the program ran out of time (limit wall_seconds, after 64.2 s)"),
    ],
)
def test_the_evidence_of_a_timeout_names_the_program_and_its_time(limit: str, text: str) -> None:
    empty = Stream(b"", b"", 0)
    ended = InputRun(
        ended=limit,
        exit_code=-9,
        stdout=empty,
        stderr=empty,
        cpu_seconds=60.0,
        duration_seconds=64.2,
        memory_kills=0,
        refused_forks=0,
        clean=True,
    )
    assert ended.describe_timeout() == text
