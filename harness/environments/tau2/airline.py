"""The domain `airline`: flights, users and their reservations.

Seats that are booked stay available, and cancelled flights release none, because the database shows the
prices and seats of one moment.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.environments.tau2.world import (
    Database,
    Domain,
    ToolError,
    add_money,
    calculate,
    find,
    transfer_to_human_agents,
)

NOW = "2024-05-15T15:00:00"
BAG_PRICE, INSURANCE_PRICE = 50, 30
# The names of new records, in order. A conversation that needs more has gone wrong.
NEW_RESERVATIONS = ("HATHAT", "HATHAU", "HATHAV")
NEW_CERTIFICATES = ("certificate_3221322", "certificate_3221323", "certificate_3221324")

Cabin = Literal["basic_economy", "economy", "business"]
Trip = Literal["one_way", "round_trip"]
UserId = Annotated[str, Field(description="The user id, such as 'sara_doe_496'")]
ReservationId = Annotated[str, Field(description="The reservation id, such as '8JX2WO'")]
Airport = Annotated[str, Field(description="The code of an airport or city in three letters, such as 'JFK'")]
Date = Annotated[str, Field(description="The date as YYYY-MM-DD")]
PaymentId = Annotated[
    str, Field(description="The id of a payment method in the user's profile, such as 'gift_card_7815826'")
]
Bags = Annotated[int, Field(ge=0, description="The number of bags")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Flight(_Part):
    """A flight on a date."""

    flight_number: str
    date: str


class Passenger(_Part):
    """A person who flies."""

    first_name: str
    last_name: str
    dob: str = Field(description="The date of birth as YYYY-MM-DD")


class Payment(_Part):
    """An amount paid with one payment method."""

    payment_id: str
    amount: float = Field(ge=0)


def _user(database: Database, user_id: str) -> Any:
    return find(database, "users", user_id, f"user {user_id}")


def _reservation(database: Database, reservation_id: str) -> Any:
    return find(database, "reservations", reservation_id, f"reservation {reservation_id}")


def _on_date(database: Database, number: str, date: str) -> tuple[Any, Any]:
    """Return a flight and its state on a date. The caller must not change them."""
    flight = find(database, "flights", number, f"flight {number}")
    if date not in flight["dates"]:
        raise ToolError(f"flight {number} not found on {date}")
    return flight, flight["dates"][date]


def _book(database: Database, chosen: Flight, cabin: str, seats: int) -> dict[str, Any]:
    """Return a flight as a reservation holds it, at today's price. Raises ToolError without enough seats."""
    flight, state = _on_date(database, chosen.flight_number, chosen.date)
    if state["status"] != "available":
        raise ToolError(f"flight {chosen.flight_number} is not available on {chosen.date}")
    if state["available_seats"][cabin] < seats:
        raise ToolError(f"flight {chosen.flight_number} has not enough seats on {chosen.date}")
    return {
        "flight_number": chosen.flight_number,
        "origin": flight["origin"],
        "destination": flight["destination"],
        "date": chosen.date,
        "price": state["prices"][cabin],
    }


def _method(user: Any, payment_id: str) -> Any:
    if payment_id not in user["payment_methods"]:
        raise ToolError(f"payment method {payment_id} not found")
    return user["payment_methods"][payment_id]


def _charge(user: Any, reservation: Any, payment_id: str, amount: float) -> None:
    """Charge a price, or refund a negative one, after a change. Raises ToolError."""
    method = _method(user, payment_id)
    if method["source"] == "certificate":
        raise ToolError("a certificate cannot be used to change a reservation")
    if method["source"] == "gift_card":
        if method["amount"] < amount:
            raise ToolError("the balance of the gift card is not enough")
        method["amount"] = add_money(method["amount"], -amount)
    if amount:
        reservation["payment_history"].append({"payment_id": payment_id, "amount": amount})


def book_reservation(
    database: Database,
    user_id: UserId,
    origin: Airport,
    destination: Airport,
    flight_type: Trip,
    cabin: Cabin,
    flights: Annotated[list[Flight], Field(description="All flights of the reservation, in order")],
    passengers: list[Passenger],
    payment_methods: Annotated[list[Payment], Field(description="The payments, which add up to the price")],
    total_baggages: Bags,
    nonfree_baggages: Annotated[int, Field(ge=0, description="The number of bags that are paid for")],
    insurance: Annotated[Literal["yes", "no"], Field(description="Whether to buy travel insurance")],
) -> Any:
    """Book a reservation and return it."""
    user = _user(database, user_id)
    booked = [_book(database, flight, cabin, len(passengers)) for flight in flights]
    price = sum(each["price"] for each in booked) * len(passengers) + BAG_PRICE * nonfree_baggages
    price += INSURANCE_PRICE * len(passengers) if insurance == "yes" else 0
    for payment in payment_methods:
        method = _method(user, payment.payment_id)
        if method["source"] in ("gift_card", "certificate") and method["amount"] < payment.amount:
            raise ToolError(f"the balance of payment method {payment.payment_id} is not enough")
    paid = round(sum(payment.amount for payment in payment_methods), 2)
    if paid != price:
        raise ToolError(f"the payments do not add up: the price is {price}, and {paid} is paid")
    name = next((each for each in NEW_RESERVATIONS if each not in database["reservations"]), None)
    if name is None:
        raise ToolError("no more reservations can be made")
    for payment in payment_methods:
        method = _method(user, payment.payment_id)
        if method["source"] == "gift_card":
            method["amount"] = add_money(method["amount"], -payment.amount)
        elif method["source"] == "certificate":
            # The rest of a certificate is lost.
            del user["payment_methods"][payment.payment_id]
    reservation = {
        "reservation_id": name,
        "user_id": user_id,
        "origin": origin,
        "destination": destination,
        "flight_type": flight_type,
        "cabin": cabin,
        "flights": booked,
        "passengers": [each.model_dump() for each in passengers],
        "payment_history": [each.model_dump() for each in payment_methods],
        "created_at": NOW,
        "total_baggages": total_baggages,
        "nonfree_baggages": nonfree_baggages,
        "insurance": insurance,
    }
    database["reservations"][name] = reservation
    user["reservations"].append(name)
    return reservation


def cancel_reservation(database: Database, reservation_id: ReservationId) -> Any:
    """Cancel a whole reservation, refund its payments, and return it."""
    reservation = _reservation(database, reservation_id)
    refunds = [{**each, "amount": -each["amount"]} for each in reservation["payment_history"]]
    reservation["payment_history"] += refunds
    reservation["status"] = "cancelled"
    return reservation


def get_reservation_details(database: Database, reservation_id: ReservationId) -> Any:
    """Return a reservation."""
    return _reservation(database, reservation_id)


def get_user_details(database: Database, user_id: UserId) -> Any:
    """Return the profile of a user, with the ids of the reservations."""
    return _user(database, user_id)


def list_all_airports(database: Database) -> Any:
    """Return the codes of all airports."""
    return sorted({flight[end] for flight in database["flights"].peek() for end in ("origin", "destination")})


def search_direct_flight(
    database: Database, origin: Airport, destination: Airport, date: Date
) -> list[dict[str, Any]]:
    """Return the direct flights between two airports that are available on a date."""
    return list(_search(database, origin, destination, date))


def search_onestop_flight(
    database: Database, origin: Airport, destination: Airport, date: Date
) -> list[list[dict[str, Any]]]:
    """Return the available pairs of flights with one stop that begin on a date."""
    found = []
    for first in _search(database, origin, None, date):
        # A time such as 01:30:00+1 is on the next day.
        arrives, _, days = first["scheduled_arrival_time_est"].partition("+")
        next_date = _add_days(date, int(days or 0))
        for second in _search(database, first["destination"], destination, next_date):
            if second["scheduled_departure_time_est"] >= arrives:
                found.append([{**first, "date": date}, {**second, "date": next_date}])
    return found


def _search(database: Database, origin: str, destination: str | None, date: str) -> Iterator[dict[str, Any]]:
    for flight in database["flights"].peek():
        if flight["origin"] != origin or destination not in (None, flight["destination"]):
            continue
        state = flight["dates"].get(date, {})
        if state.get("status") == "available":
            facts = {name: value for name, value in flight.items() if name != "dates"}
            yield {**facts, **state}


def _add_days(date: str, days: int) -> str:
    try:
        return (datetime.date.fromisoformat(date) + datetime.timedelta(days)).isoformat()
    except (ValueError, OverflowError):
        raise ToolError(f"'{date}' is not a date") from None


def get_flight_status(database: Database, flight_number: str, date: Date) -> str:
    """Return the status of a flight on a date."""
    return str(_on_date(database, flight_number, date)[1]["status"])


def send_certificate(database: Database, user_id: UserId, amount: Annotated[float, Field(ge=0)]) -> str:
    """Give a travel certificate to a user."""
    user = _user(database, user_id)
    name = next((each for each in NEW_CERTIFICATES if each not in user["payment_methods"]), None)
    if name is None:
        raise ToolError("no more certificates can be given")
    user["payment_methods"][name] = {"id": name, "source": "certificate", "amount": amount}
    return f"Certificate {name} of {amount} was added to the profile of {user_id}."


def update_reservation_baggages(
    database: Database,
    reservation_id: ReservationId,
    total_baggages: Bags,
    nonfree_baggages: Annotated[int, Field(ge=0, description="The number of bags that are paid for")],
    payment_id: PaymentId,
) -> Any:
    """Set the bags of a reservation, charge the new ones that are paid for, and return the reservation."""
    reservation = _reservation(database, reservation_id)
    more = max(0, nonfree_baggages - reservation["nonfree_baggages"])
    _charge(_user(database, reservation["user_id"]), reservation, payment_id, BAG_PRICE * more)
    reservation["total_baggages"] = total_baggages
    reservation["nonfree_baggages"] = nonfree_baggages
    return reservation


def update_reservation_flights(
    database: Database,
    reservation_id: ReservationId,
    cabin: Cabin,
    flights: Annotated[
        list[Flight], Field(description="All flights of the new reservation, with those that do not change")
    ],
    payment_id: PaymentId,
) -> Any:
    """Set the flights and the cabin of a reservation, charge or refund the difference, and return it.

    A flight that stays in its cabin keeps its price.
    """
    reservation = _reservation(database, reservation_id)
    passengers = len(reservation["passengers"])
    booked = [
        _find_kept(reservation, flight, cabin) or _book(database, flight, cabin, passengers)
        for flight in flights
    ]
    old, new = (sum(each["price"] for each in every) for every in (reservation["flights"], booked))
    _charge(_user(database, reservation["user_id"]), reservation, payment_id, (new - old) * passengers)
    reservation["flights"] = booked
    reservation["cabin"] = cabin
    return reservation


def _find_kept(reservation: Any, chosen: Flight, cabin: str) -> Any:
    if reservation["cabin"] != cabin:
        return None
    wanted = chosen.flight_number, chosen.date
    held: Sequence[Any] = reservation["flights"]
    return next((each for each in held if (each["flight_number"], each["date"]) == wanted), None)


def update_reservation_passengers(
    database: Database, reservation_id: ReservationId, passengers: list[Passenger]
) -> Any:
    """Set the passengers of a reservation, whose number cannot change, and return it."""
    reservation = _reservation(database, reservation_id)
    if len(passengers) != len(reservation["passengers"]):
        raise ToolError("the number of passengers cannot change")
    reservation["passengers"] = [each.model_dump() for each in passengers]
    return reservation


DOMAIN = Domain(
    tools=(
        book_reservation,
        calculate,
        cancel_reservation,
        get_flight_status,
        get_reservation_details,
        get_user_details,
        list_all_airports,
        search_direct_flight,
        search_onestop_flight,
        send_certificate,
        transfer_to_human_agents,
        update_reservation_baggages,
        update_reservation_flights,
        update_reservation_passengers,
    )
)
