"""The domain `retail`: products with their variants, users and their orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from harness.environments.tau2.world import (
    Database,
    Domain,
    ToolError,
    add_money,
    calculate,
    find,
    transfer_to_human_agents,
)

OrderId = Annotated[str, Field(description="The order id with its sign, such as '#W0000000'")]
UserId = Annotated[str, Field(description="The user id, such as 'sara_doe_496'")]
PaymentId = Annotated[
    str, Field(description="The id of a payment method in the user's profile, such as 'gift_card_0000000'")
]
ItemIds = Annotated[
    list[str], Field(description="The ids of items in the order, each as often as it is meant")
]
NewItemIds = Annotated[
    list[str],
    Field(description="The id of the new item for each item, in the same order, of the same product"),
]
Line = Annotated[str, Field(description="A line of the address")]

MODIFIED = "pending (item modified)"


def _user(database: Database, user_id: str) -> Any:
    return find(database, "users", user_id, f"user {user_id}")


def _order(database: Database, order_id: str) -> Any:
    return find(database, "orders", order_id, f"order {order_id}")


def _require_status(order: Any, *statuses: str) -> None:
    if order["status"] not in statuses:
        raise ToolError(f"the order is {order['status']}, and needs to be {' or '.join(statuses)}")


def _method(database: Database, order: Any, payment_id: str) -> Any:
    """Return a payment method of the user who has placed an order."""
    methods = _user(database, order["user_id"])["payment_methods"]
    if payment_id not in methods:
        raise ToolError(f"payment method {payment_id} not found")
    return methods[payment_id]


def _pay(method: Any, amount: float) -> None:
    """Take an amount, or give back a negative one. Only a gift card has a balance. Raises ToolError."""
    if method["source"] != "gift_card":
        return
    if method["balance"] < amount:
        raise ToolError("the balance of the gift card is not enough")
    method["balance"] = add_money(method["balance"], -amount)


def _require_items(order: Any, item_ids: Sequence[str]) -> None:
    held = Counter(item["item_id"] for item in order["items"])
    for item_id, number in Counter(item_ids).items():
        if held[item_id] < number:
            raise ToolError(f"item {item_id} is in the order {held[item_id]} times")


def _find_new(
    database: Database, order: Any, item_ids: Sequence[str], new_item_ids: Sequence[str]
) -> list[tuple[Any, Any]]:
    """Return each item of an order with the variant that takes its place. Raises ToolError."""
    _require_items(order, item_ids)
    if len(item_ids) != len(new_item_ids):
        raise ToolError("the number of items and of new items must be equal")
    pairs = []
    for item_id, new_id in zip(item_ids, new_item_ids, strict=True):
        item = next(each for each in order["items"] if each["item_id"] == item_id)
        variant = find(database, "products", item["product_id"], "product")["variants"].get(new_id)
        if variant is None or not variant["available"]:
            raise ToolError(f"new item {new_id} is not an available variant of the same product")
        pairs.append((item, variant))
    return pairs


def _difference(pairs: Sequence[tuple[Any, Any]]) -> float:
    return float(round(sum(new["price"] - old["price"] for old, new in pairs), 2))


def cancel_pending_order(
    database: Database, order_id: OrderId, reason: Literal["no longer needed", "ordered by mistake"]
) -> Any:
    """Cancel a pending order, refund its payments, and return it. The user has to confirm it first."""
    order = _order(database, order_id)
    _require_status(order, "pending")
    refunds = []
    for payment in order["payment_history"]:
        payment_id, amount = payment["payment_method_id"], payment["amount"]
        _pay(_method(database, order, payment_id), -amount)
        refunds.append(_payment("refund", amount, payment_id))
    order["payment_history"] += refunds
    order["status"], order["cancel_reason"] = "cancelled", reason
    return order


def _payment(kind: Literal["payment", "refund"], amount: float, payment_id: str) -> dict[str, Any]:
    return {"transaction_type": kind, "amount": amount, "payment_method_id": payment_id}


def exchange_delivered_order_items(
    database: Database,
    order_id: OrderId,
    item_ids: ItemIds,
    new_item_ids: NewItemIds,
    payment_method_id: PaymentId,
) -> Any:
    """Request the exchange of items in a delivered order, once for each order, and return the order.

    The payment method pays the difference or gets it. The user has to confirm it first.
    """
    order = _order(database, order_id)
    _require_status(order, "delivered")
    difference = _difference(_find_new(database, order, item_ids, new_item_ids))
    method = _method(database, order, payment_method_id)
    if method["source"] == "gift_card" and method["balance"] < difference:
        raise ToolError("the balance of the gift card is not enough")
    # Nothing is paid before the items are back.
    order["status"] = "exchange requested"
    order["exchange_items"], order["exchange_new_items"] = sorted(item_ids), sorted(new_item_ids)
    order["exchange_payment_method_id"] = payment_method_id
    order["exchange_price_difference"] = difference
    return order


def find_user_id_by_email(database: Database, email: str) -> str:
    """Return the id of the user with an email address."""
    for user in database["users"].peek():
        if user["email"].lower() == email.lower():
            return str(user["user_id"])
    raise ToolError("user not found")


def find_user_id_by_name_zip(database: Database, first_name: str, last_name: str, zip: str) -> str:
    """Return the id of the user with a first name, a last name and a zip code."""
    for user in database["users"].peek():
        name = user["name"]
        known = name["first_name"].lower(), name["last_name"].lower(), user["address"]["zip"]
        if known == (first_name.lower(), last_name.lower(), zip):
            return str(user["user_id"])
    raise ToolError("user not found")


def get_item_details(database: Database, item_id: str) -> Any:
    """Return an item, which is a variant of a product."""
    for product in database["products"].peek():
        if item_id in product["variants"]:
            return product["variants"][item_id]
    raise ToolError("item not found")


def get_order_details(database: Database, order_id: OrderId) -> Any:
    """Return an order with its status."""
    return _order(database, order_id)


def get_product_details(
    database: Database,
    product_id: Annotated[str, Field(description="The product id, which is not an item id")],
) -> Any:
    """Return a product with its variants."""
    return find(database, "products", product_id, "product")


def get_user_details(database: Database, user_id: UserId) -> Any:
    """Return the profile of a user, with the ids of the orders."""
    return _user(database, user_id)


def list_all_product_types(database: Database) -> Any:
    """Return the names and product ids of all products. There are 50 types of products."""
    return dict(sorted((each["name"], each["product_id"]) for each in database["products"].peek()))


def _address(address1: str, address2: str, city: str, state: str, country: str, zip: str) -> dict[str, str]:
    return {
        "address1": address1,
        "address2": address2,
        "city": city,
        "state": state,
        "country": country,
        "zip": zip,
    }


def modify_pending_order_address(
    database: Database,
    order_id: OrderId,
    address1: Line,
    address2: Line,
    city: str,
    state: str,
    country: str,
    zip: str,
) -> Any:
    """Set the shipping address of a pending order and return it. The user has to confirm it first."""
    order = _order(database, order_id)
    _require_status(order, "pending", MODIFIED)
    order["address"] = _address(address1, address2, city, state, country, zip)
    return order


def modify_pending_order_items(
    database: Database,
    order_id: OrderId,
    item_ids: ItemIds,
    new_item_ids: NewItemIds,
    payment_method_id: PaymentId,
) -> Any:
    """Change items of a pending order to other variants, once for each order, and return the order.

    The payment method pays the difference or gets it. The user has to confirm it first.
    """
    order = _order(database, order_id)
    _require_status(order, "pending")
    pairs = _find_new(database, order, item_ids, new_item_ids)
    difference = _difference(pairs)
    _pay(_method(database, order, payment_method_id), difference)
    kind: Literal["payment", "refund"] = "payment" if difference > 0 else "refund"
    order["payment_history"].append(_payment(kind, abs(difference), payment_method_id))
    for item_id, (_, variant) in zip(item_ids, pairs, strict=True):
        item = next(each for each in order["items"] if each["item_id"] == item_id)
        item |= {name: variant[name] for name in ("item_id", "price", "options")}
    order["status"] = MODIFIED
    return order


def modify_pending_order_payment(database: Database, order_id: OrderId, payment_method_id: PaymentId) -> Any:
    """Pay a pending order with another payment method, refund the first one, and return the order."""
    order = _order(database, order_id)
    _require_status(order, "pending", MODIFIED)
    new = _method(database, order, payment_method_id)
    history = order["payment_history"]
    if len(history) != 1 or history[0]["transaction_type"] != "payment":
        raise ToolError("the order must have exactly one payment")
    paid = history[0]
    if paid["payment_method_id"] == payment_method_id:
        raise ToolError("the new payment method must differ from the current one")
    _pay(new, paid["amount"])
    _pay(_method(database, order, paid["payment_method_id"]), -paid["amount"])
    order["payment_history"] += [
        _payment("payment", paid["amount"], payment_method_id),
        _payment("refund", paid["amount"], paid["payment_method_id"]),
    ]
    return order


def modify_user_address(
    database: Database,
    user_id: UserId,
    address1: Line,
    address2: Line,
    city: str,
    state: str,
    country: str,
    zip: str,
) -> Any:
    """Set the default address of a user and return the profile. The user has to confirm it first."""
    user = _user(database, user_id)
    user["address"] = _address(address1, address2, city, state, country, zip)
    return user


def return_delivered_order_items(
    database: Database, order_id: OrderId, item_ids: ItemIds, payment_method_id: PaymentId
) -> Any:
    """Request the return of items in a delivered order and return the order.

    The refund goes to the original payment method or to a gift card. The user has to confirm it first.
    """
    order = _order(database, order_id)
    _require_status(order, "delivered")
    method = _method(database, order, payment_method_id)
    original = order["payment_history"][0]["payment_method_id"]
    if method["source"] != "gift_card" and payment_method_id != original:
        raise ToolError("the refund must go to the original payment method or to a gift card")
    _require_items(order, item_ids)
    order["status"] = "return requested"
    order["return_items"], order["return_payment_method_id"] = sorted(item_ids), payment_method_id
    return order


DOMAIN = Domain(
    tools=(
        calculate,
        cancel_pending_order,
        exchange_delivered_order_items,
        find_user_id_by_email,
        find_user_id_by_name_zip,
        get_item_details,
        get_order_details,
        get_product_details,
        get_user_details,
        list_all_product_types,
        modify_pending_order_address,
        modify_pending_order_items,
        modify_pending_order_payment,
        modify_user_address,
        return_delivered_order_items,
        transfer_to_human_agents,
    )
)
