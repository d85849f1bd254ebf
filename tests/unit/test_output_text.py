"""The text of a command's output, as a script prints it and a notebook shows it."""

from __future__ import annotations

from case_checks import each_case

from harness.sandbox.results import Stream


@each_case(
    ("stream", "expected"),
    [
        (Stream(b"42\n", b"", 3), r"Stream(b'42\n', total=3)"),
        (Stream(b"y" * 300, b"z", 900), f"Stream(b'{'y' * 200}'..., total=900)"),
    ],
)
def test_a_notebook_shows_the_start_of_an_output(stream: Stream, expected: str) -> None:
    assert repr(stream) == expected


def test_a_script_prints_all_that_was_kept() -> None:
    assert str(Stream(b"a", b"b", 5)) == "a\n[... 3 bytes left out ...]\nb"
