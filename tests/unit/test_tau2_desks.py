"""The desks of the airline and the shop: their prices, payments and refunds, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from harness.environments.tau2 import airline, retail
from harness.environments.tau2.world import Call, Domain, ToolError, World

OPEN = {"status": "available", "available_seats": {"basic_economy": 0, "economy": 2, "business": 1}}
PRICES = {"basic_economy": 50, "economy": 100, "business": 300}


def _flight(number: str, origin: str, destination: str, leaves: str, arrives: str) -> dict[str, Any]:
    dates = {"2024-05-20": {**OPEN, "prices": PRICES}, "2024-05-21": {**OPEN, "prices": PRICES}}
    return {
        "flight_number": number,
        "origin": origin,
        "destination": destination,
        "scheduled_departure_time_est": leaves,
        "scheduled_arrival_time_est": arrives,
        "dates": {**dates, "2024-05-10": {"status": "landed"}},
    }


AIRLINE: dict[str, Any] = {
    "flights": {
        "HAT1": _flight("HAT1", "SEA", "DEN", "22:00:00", "01:00:00+1"),
        "HAT2": _flight("HAT2", "DEN", "BOS", "00:30:00", "06:00:00"),
        "HAT3": _flight("HAT3", "DEN", "BOS", "09:00:00", "15:00:00"),
    },
    "users": {
        "ada": {
            "payment_methods": {
                "credit_card_1": {"id": "credit_card_1", "source": "credit_card"},
                "gift_card_1": {"id": "gift_card_1", "source": "gift_card", "amount": 90.5},
                "certificate_1": {"id": "certificate_1", "source": "certificate", "amount": 150.0},
            },
            "reservations": [],
        }
    },
    "reservations": {},
}
TRIP: dict[str, Any] = {
    "user_id": "ada",
    "origin": "SEA",
    "destination": "DEN",
    "flight_type": "one_way",
    "cabin": "economy",
    "flights": [{"flight_number": "HAT1", "date": "2024-05-20"}],
    "passengers": [{"first_name": "Ada", "last_name": "Byron", "dob": "1990-01-01"}],
    "payment_methods": [
        {"payment_id": "certificate_1", "amount": 150},
        {"payment_id": "gift_card_1", "amount": 30},
    ],
    "total_baggages": 2,
    "nonfree_baggages": 1,
    "insurance": "yes",
}


def call(world: World, name: str, **arguments: Any) -> Any:
    return world.call(Call("assistant", name, arguments))


def refusals(domain: Domain, base: Any, cases: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the names of the functions that do not refuse these arguments."""
    world = World(domain, base)
    accepted = []
    for name, arguments in cases:
        try:
            call(world, name, **arguments)
        except ToolError:
            continue
        accepted.append(f"{name} {arguments}")
    assert world.database == World(domain, base).database
    return accepted


def test_a_reservation_costs_its_flights_bags_and_insurance_and_uses_up_certificates() -> None:
    world = World(airline.DOMAIN, AIRLINE)
    booked = call(world, "book_reservation", **TRIP)
    methods = world.database["users"]["ada"]["payment_methods"]
    assert (booked["reservation_id"], booked["flights"][0]["price"]) == ("HATHAT", 100)
    assert "certificate_1" not in methods
    assert methods["gift_card_1"]["amount"] == 60.5
    cancelled = call(world, "cancel_reservation", reservation_id="HATHAT")
    assert cancelled["status"] == "cancelled"
    assert [payment["amount"] for payment in cancelled["payment_history"]] == [150, 30, -150, -30]


def test_a_flight_that_stays_keeps_its_price_and_only_the_difference_is_charged() -> None:
    world = World(airline.DOMAIN, AIRLINE)
    call(world, "book_reservation", **TRIP)
    change = {"reservation_id": "HATHAT", "payment_id": "credit_card_1"}
    again = [*TRIP["flights"], {"flight_number": "HAT3", "date": "2024-05-21"}]
    changed = call(world, "update_reservation_flights", **change, cabin="economy", flights=again)
    assert changed["payment_history"][-1] == {"payment_id": "credit_card_1", "amount": 100}
    upgraded = call(world, "update_reservation_flights", **change, cabin="business", flights=again)
    assert upgraded["payment_history"][-1]["amount"] == 400
    same = call(world, "update_reservation_baggages", **change, total_baggages=2, nonfree_baggages=1)
    assert len(same["payment_history"]) == 4


def test_a_stop_needs_a_flight_that_leaves_after_the_arrival_on_the_next_day() -> None:
    world = World(airline.DOMAIN, AIRLINE)
    search = {"origin": "SEA", "destination": "BOS", "date": "2024-05-20"}
    assert call(world, "search_direct_flight", **search) == []
    found = call(world, "search_onestop_flight", **search)
    assert [[(leg["flight_number"], leg["date"]) for leg in pair] for pair in found] == [
        [("HAT1", "2024-05-20"), ("HAT3", "2024-05-21")]
    ]


def test_the_airline_refuses_what_does_not_add_up() -> None:
    paid = [{"payment_id": "credit_card_1", "amount": 179}]
    missing = [{"payment_id": "credit_card_2", "amount": 180}]
    empty = [{"payment_id": "gift_card_1", "amount": 180}]
    landed = [{"flight_number": "HAT1", "date": "2024-05-10"}]
    cases: list[tuple[str, dict[str, Any]]] = [
        *(("book_reservation", {**TRIP, "payment_methods": each}) for each in (paid, missing, empty)),
        ("book_reservation", {**TRIP, "flights": landed}),
        ("book_reservation", {**TRIP, "cabin": "basic_economy"}),
        ("book_reservation", {**TRIP, "passengers": TRIP["passengers"] * 3}),
        ("send_certificate", {"user_id": "ada", "amount": float("inf")}),
        ("calculate", {"expression": "2 ** 9999999"}),
        ("calculate", {"expression": "1 / 0"}),
        ("calculate", {"expression": "(" * 2000 + "1" + ")" * 2000}),
        ("calculate", {"expression": "__import__('os')"}),
    ]
    assert refusals(airline.DOMAIN, AIRLINE, cases) == []
    assert call(World(airline.DOMAIN, AIRLINE), "calculate", expression="2 * (3 - -4) / 3") == "4.67"


def _order(order_id: str, status: str) -> dict[str, Any]:
    item = {"name": "Lamp", "product_id": "1", "item_id": "11", "price": 20.1, "options": {"colour": "red"}}
    paid = {"transaction_type": "payment", "amount": 40.2, "payment_method_id": "gift_card_1"}
    return {
        "order_id": order_id,
        "user_id": "ada",
        "items": [dict(item), dict(item)],
        "status": status,
        "payment_history": [paid],
    }


RETAIL: dict[str, Any] = {
    "products": {
        "1": {
            "name": "Lamp",
            "product_id": "1",
            "variants": {
                "11": {"item_id": "11", "options": {"colour": "red"}, "available": True, "price": 20.1},
                "12": {"item_id": "12", "options": {"colour": "blue"}, "available": True, "price": 25.4},
                "13": {"item_id": "13", "options": {"colour": "grey"}, "available": False, "price": 1.0},
                "14": {"item_id": "14", "options": {"colour": "gold"}, "available": True, "price": 99.0},
            },
        }
    },
    "users": {
        "ada": {
            "user_id": "ada",
            "payment_methods": {
                "gift_card_1": {"id": "gift_card_1", "source": "gift_card", "balance": 10.0},
                "paypal_1": {"id": "paypal_1", "source": "paypal"},
            },
        }
    },
    "orders": {"#W1": _order("#W1", "pending"), "#W2": _order("#W2", "delivered")},
}


def _balance(world: World) -> float:
    return float(world.database["users"]["ada"]["payment_methods"]["gift_card_1"]["balance"])


def test_a_changed_item_is_paid_by_the_difference_and_the_order_changes_no_more() -> None:
    world = World(retail.DOMAIN, RETAIL)
    change = {"order_id": "#W1", "item_ids": ["11"], "new_item_ids": ["12"]}
    order = call(world, "modify_pending_order_items", **change, payment_method_id="gift_card_1")
    assert [(item["item_id"], item["price"]) for item in order["items"]] == [("12", 25.4), ("11", 20.1)]
    assert (order["payment_history"][-1]["amount"], _balance(world)) == (5.3, 4.7)
    with pytest.raises(ToolError, match="needs to be pending"):
        call(world, "cancel_pending_order", order_id="#W1", reason="no longer needed")


def test_refunds_reach_gift_cards_at_once() -> None:
    world = World(retail.DOMAIN, RETAIL)
    call(world, "cancel_pending_order", order_id="#W1", reason="ordered by mistake")
    assert _balance(world) == 50.2
    world = World(retail.DOMAIN, RETAIL)
    call(world, "modify_pending_order_payment", order_id="#W1", payment_method_id="paypal_1")
    assert _balance(world) == 50.2


def test_an_exchange_and_a_return_are_requests_that_move_no_money() -> None:
    world = World(retail.DOMAIN, RETAIL)
    change = {"order_id": "#W2", "item_ids": ["11", "11"], "new_item_ids": ["12", "11"]}
    order = call(world, "exchange_delivered_order_items", **change, payment_method_id="gift_card_1")
    assert (order["status"], order["exchange_new_items"]) == ("exchange requested", ["11", "12"])
    assert (order["exchange_price_difference"], _balance(world)) == (5.3, 10.0)


def test_the_shop_refuses_what_its_policy_excludes() -> None:
    item = {"item_ids": ["11"], "payment_method_id": "gift_card_1"}
    cases: list[tuple[str, dict[str, Any]]] = [
        ("cancel_pending_order", {"order_id": "#W1", "reason": "too dear"}),
        ("cancel_pending_order", {"order_id": "#W2", "reason": "no longer needed"}),
        ("modify_pending_order_items", {"order_id": "#W1", **item, "new_item_ids": ["13"]}),
        ("modify_pending_order_items", {"order_id": "#W1", **item, "new_item_ids": ["14"]}),
        ("modify_pending_order_items", {"order_id": "#W1", **item, "new_item_ids": ["12", "12"]}),
        ("exchange_delivered_order_items", {"order_id": "#W1", **item, "new_item_ids": ["12"]}),
        ("modify_pending_order_payment", {"order_id": "#W1", "payment_method_id": "gift_card_1"}),
        ("return_delivered_order_items", {"order_id": "#W2", **item, "item_ids": ["11"] * 3}),
        ("return_delivered_order_items", {"order_id": "#W2", **item, "payment_method_id": "paypal_1"}),
    ]
    assert refusals(retail.DOMAIN, RETAIL, cases) == []
