from __future__ import annotations

from case_checks import each_case

from harness.environments.python.client import InputRun, describe_timeout
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
    ended = InputRun(limit, -9, empty, empty, 60.0, 64.2, 0, 0, clean=True)
    assert describe_timeout(ended) == text
