"""The count of the values in a JSON text."""

from __future__ import annotations

import json

from case_checks import each_case

from harness.core.inputs.json_text import OBJECT_BYTES, VALUE_BYTES, ValueCounter, count_values


@each_case(
    ("text", "count"),
    [
        ("1", 0),
        ("[1, 2, 3]", 3),
        ('{"a": {"b": []}}', 5),
        ('"[,,,:{"', 0),
        (r'["\"[,,,", 1]', 2),
        (r'["\\", [], "\\\"[,"]', 4),
    ],
)
def test_marks_outside_of_texts_are_counted(text: str, count: int) -> None:
    json.loads(text)
    assert count_values(text.encode()) == count


@each_case("size", [1, 2, 3, 5])
def test_the_count_is_the_same_however_a_text_is_cut(size: int) -> None:
    text = json.dumps([{"a\\": '"[,'}, "\\", "\\\\", '\\"', [[], {}], "é,"]).encode()
    counter = ValueCounter()
    for start in range(0, len(text), size):
        counter.add(text[start : start + size])
    assert counter.total == count_values(text)


def test_an_object_takes_more_memory_than_another_value() -> None:
    counter = ValueCounter()
    counter.add(b"[{}, {}]")
    assert counter.memory_bytes == 2 * OBJECT_BYTES + 2 * VALUE_BYTES
