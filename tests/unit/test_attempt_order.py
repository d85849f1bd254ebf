"""The places of attempts in the order of their first records."""

from __future__ import annotations

from harness.runs.result_table import AttemptOrder

KEYS = [("b", 1), ("b", 0), ("a", 0), ("a", 2), ("b", 2)]


def make_order() -> AttemptOrder:
    order = AttemptOrder()
    for key in KEYS:
        order.add(*key)
    return order


def test_attempts_have_places_in_the_order_in_which_they_were_added() -> None:
    order = make_order()
    assert [order.find(*key) for key in KEYS] == [0, 1, 2, 3, 4]
    assert list(order) == KEYS


def test_a_known_attempt_keeps_its_place() -> None:
    order = make_order()
    assert [order.add("a", 0), order.add("b", 1), len(order)] == [2, 0, 5]


def test_an_attempt_that_was_not_added_has_no_place() -> None:
    order = make_order()
    assert order.find("a", 1) is None
    assert order.find("c", 0) is None
