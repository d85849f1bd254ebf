"""The domain `telecom`: customers of a carrier with their lines and bills, and the phone of one of them.

The functions that break a phone for a task, and that check what works on it, are here and not in `phone`,
because no user and no agent ever calls them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from harness.environments.tau2 import phone
from harness.environments.tau2.world import Database, Domain, ToolError, add_money, transfer_to_human_agents

TODAY = "2025-02-25"
CYCLE_END = "2025-02-28"
# The first letter of an id, its table and the field that has the id.
_TABLES = {
    "C": ("customers", "customer_id"),
    "L": ("lines", "line_id"),
    "D": ("devices", "device_id"),
    "B": ("bills", "bill_id"),
    "P": ("plans", "plan_id"),
}
CustomerId = Annotated[str, Field(description="The id of a customer, such as 'C1001'")]
LineId = Annotated[str, Field(description="The id of a line of the customer, such as 'L1001'")]
BillId = Annotated[str, Field(description="The id of a bill of the customer, such as 'B1001'")]


def _find(database: Database, name: str) -> Any:
    """Return the record with an id, whose first letter tells the table. Raises ToolError."""
    table, field = _TABLES.get(name[:1], ("", ""))
    for record in database.get(table, ()):
        if record[field] == name:
            return record
    raise ToolError(f"{table[:-1] or 'id'} {name} not found")


def _line(database: Database, customer_id: str, line_id: str) -> Any:
    if not customer_id.startswith("C") or line_id not in _find(database, customer_id)["line_ids"]:
        raise ToolError(f"line {line_id} is not of customer {customer_id}")
    return _find(database, line_id)


def _bills(database: Database, customer_id: str) -> Iterator[Any]:
    if not customer_id.startswith("C"):
        raise ToolError(f"customer {customer_id} not found")
    return (_find(database, bill_id) for bill_id in _find(database, customer_id)["bill_ids"])


def get_customer_by_phone(database: Database, phone_number: str) -> Any:
    """Return the customer with a phone number, either a contact number or the number of a line."""
    for customer in database["customers"]:
        numbers = [_find(database, line_id)["phone_number"] for line_id in customer["line_ids"]]
        if phone_number in (customer["phone_number"], *numbers):
            return customer
    raise ToolError(f"no customer has the phone number {phone_number}")


def get_customer_by_id(database: Database, customer_id: CustomerId) -> Any:
    """Return a customer by the id."""
    if not customer_id.startswith("C"):
        raise ToolError(f"customer {customer_id} not found")
    return _find(database, customer_id)


def get_customer_by_name(
    database: Database,
    full_name: str,
    dob: Annotated[str, Field(description="The date of birth as YYYY-MM-DD")],
) -> Any:
    """Return the customers with a full name and a date of birth."""
    wanted = full_name.lower(), dob
    found = database["customers"]
    return [each for each in found if (each["full_name"].lower(), each["date_of_birth"]) == wanted]


def get_details_by_id(
    database: Database,
    id: Annotated[str, Field(description="The id of a customer, line, device, bill or plan")],
) -> Any:
    """Return the record with an id."""
    return _find(database, id)


def get_bills_for_customer(
    database: Database,
    customer_id: CustomerId,
    limit: Annotated[int, Field(ge=1, description="The largest number of bills")] = 12,
) -> Any:
    """Return the bills of a customer, the latest first."""
    return sorted(_bills(database, customer_id), key=lambda bill: str(bill["issue_date"]), reverse=True)[
        :limit
    ]


def get_data_usage(database: Database, customer_id: CustomerId, line_id: LineId) -> Any:
    """Return the data that a line has used in this billing cycle, and its limits."""
    line = _line(database, customer_id, line_id)
    return {
        "line_id": line_id,
        "data_used_gb": line["data_used_gb"],
        "data_limit_gb": _find(database, line["plan_id"])["data_limit_gb"],
        "data_refueling_gb": line["data_refueling_gb"],
        "cycle_end_date": CYCLE_END,
    }


def suspend_line(
    database: Database,
    customer_id: CustomerId,
    line_id: LineId,
    reason: Annotated[str, Field(description="The reason for the suspension")],
) -> Any:
    """Suspend an active line and return it."""
    line = _line(database, customer_id, line_id)
    if line["status"] != "Active":
        raise ToolError(f"the line is {line['status']}, and needs to be Active")
    line["status"], line["suspension_start_date"] = "Suspended", TODAY
    return line


def resume_line(database: Database, customer_id: CustomerId, line_id: LineId) -> Any:
    """Resume a suspended line and return it. The tool does not check whether the policy allows it."""
    line = _line(database, customer_id, line_id)
    if line["status"] not in ("Suspended", "Pending Activation"):
        raise ToolError(f"the line is {line['status']}, and needs to be Suspended or Pending Activation")
    line["status"], line["suspension_start_date"] = "Active", None
    return line


def send_payment_request(database: Database, customer_id: CustomerId, bill_id: BillId) -> str:
    """Ask the customer to pay a bill. The tool does not check whether the bill is overdue."""
    bills = list(_bills(database, customer_id))
    bill = next((each for each in bills if each["bill_id"] == bill_id), None)
    if bill is None:
        raise ToolError(f"bill {bill_id} is not of customer {customer_id}")
    if any(each["status"] == "Awaiting Payment" for each in bills):
        raise ToolError("another bill is awaiting payment")
    bill["status"] = "Awaiting Payment"
    return f"A payment request for bill {bill_id} was sent."


def enable_roaming(database: Database, customer_id: CustomerId, line_id: LineId) -> str:
    """Enable data roaming on a line."""
    _line(database, customer_id, line_id)["roaming_enabled"] = True
    return f"Roaming is enabled on line {line_id}."


def disable_roaming(database: Database, customer_id: CustomerId, line_id: LineId) -> str:
    """Disable data roaming on a line."""
    _line(database, customer_id, line_id)["roaming_enabled"] = False
    return f"Roaming is disabled on line {line_id}."


def refuel_data(
    database: Database,
    customer_id: CustomerId,
    line_id: LineId,
    gb_amount: Annotated[float, Field(gt=0, description="The data to add, in gigabytes")],
) -> Any:
    """Add data to a line at the price of its plan, and return the price. The next bill has the charge."""
    line = _line(database, customer_id, line_id)
    price = round(gb_amount * _find(database, line["plan_id"])["data_refueling_price_per_gb"], 2)
    line["data_refueling_gb"] += gb_amount
    draft = next((each for each in _bills(database, customer_id) if each["status"] == "Draft"), None)
    if draft is not None:
        item = {"description": f"Data refueling - Line {line['phone_number']}", "amount": price}
        draft["line_items"].append({**item, "date": TODAY, "item_type": "Data Refueling"})
        draft["total_due"] = add_money(draft["total_due"], price)
    return {"data_refueling_gb": line["data_refueling_gb"], "charge": price}


def set_data_usage(database: Database, customer_id: str, line_id: str, data_used_gb: float) -> None:
    """Set the data that a line has used."""
    _line(database, customer_id, line_id)["data_used_gb"] = data_used_gb


def suspend_line_for_overdue_bill(
    database: Database, customer_id: str, line_id: str, new_bill_id: str, contract_ended: bool
) -> None:
    """Suspend a line because of a new bill that is overdue, and also of its contract if that has ended."""
    line = _line(database, customer_id, line_id)
    price = _find(database, line["plan_id"])["price_per_month"]
    item = {"description": f"Overdue charge - Line {line['phone_number']}", "amount": price}
    bill = {
        "bill_id": new_bill_id,
        "customer_id": customer_id,
        "period_start": "2025-01-01",
        "period_end": "2025-01-31",
        "issue_date": "2025-02-01",
        "total_due": price,
        "due_date": "2025-02-15",
        "status": "Overdue",
        "line_items": [{**item, "date": "2025-02-01", "item_type": "Plan Charge"}],
    }
    database["bills"].append(bill)
    _find(database, customer_id)["bill_ids"].append(new_bill_id)
    line["status"], line["suspension_start_date"] = "Suspended", TODAY
    if contract_ended:
        line["contract_end_date"] = "2025-02-20"


def assert_data_refueling_amount(
    database: Database, customer_id: str, line_id: str, expected_amount: float
) -> bool:
    """Return whether this much data was added to a line."""
    return math.isclose(_line(database, customer_id, line_id)["data_refueling_gb"], expected_amount)


def assert_no_overdue_bill(database: Database, overdue_bill_id: str) -> bool:
    """Return whether a bill is paid, or does not exist."""
    return all(bill["status"] == "Paid" for bill in database["bills"] if bill["bill_id"] == overdue_bill_id)


def settle(database: Database) -> None:
    """Carry the effects of a call between the carrier and the phone of the user."""
    around = phone.find_surroundings(database)
    number = around["phone_number"]
    line = next((each for each in database["lines"] if each["phone_number"] == number), None)
    if line is None:
        return
    plan = _find(database, line["plan_id"])
    around["line_active"] = line["status"] == "Active"
    around["roaming_allowed"] = line["roaming_enabled"]
    around["data_exceeded"] = line["data_used_gb"] >= plan["data_limit_gb"] + line["data_refueling_gb"]
    if not around["line_active"]:
        phone.search_network(database)
    request = around["payment_request"]
    if request is not None and request["paid"]:
        _find(database, request["bill_id"])["status"] = "Paid"
        around["payment_request"] = request = None
    for customer in database["customers"]:
        if request is None and line["line_id"] in customer["line_ids"]:
            for bill in _bills(database, customer["customer_id"]):
                if bill["status"] == "Awaiting Payment":
                    around["payment_request"] = {
                        "bill_id": bill["bill_id"],
                        "amount_due": bill["total_due"],
                        "paid": False,
                    }


def set_user_info(database: Database, name: str, phone_number: str) -> None:
    """Set whose phone it is."""
    phone.find_surroundings(database).update(name=name, phone_number=phone_number)


def set_user_location(database: Database, abroad: bool) -> None:
    """Set whether the user is abroad."""
    phone.find_surroundings(database)["is_abroad"] = abroad


def turn_airplane_mode_on(database: Database) -> None:
    """Turn Airplane Mode on."""
    phone.set_airplane_mode(database, value=True)


def turn_data_off(database: Database) -> None:
    """Turn mobile data off."""
    database["device"]["data_enabled"] = False


def turn_data_saver_mode_on(database: Database) -> None:
    """Turn Data Saver mode on."""
    database["device"]["data_saver_mode"] = True


def turn_roaming_on(database: Database) -> None:
    """Turn Data Roaming on."""
    database["device"]["roaming_enabled"] = True


def turn_roaming_off(database: Database) -> None:
    """Turn Data Roaming off."""
    database["device"]["roaming_enabled"] = False


def set_wifi_calling(database: Database, enabled: bool, mms_over_wifi: bool | None = None) -> None:
    """Set Wi-Fi Calling, and whether it carries MMS messages."""
    device = database["device"]
    device["wifi_calling_enabled"] = enabled
    if mms_over_wifi is not None:
        device["wifi_calling_mms_over_wifi"] = mms_over_wifi


def unseat_sim_card(database: Database) -> None:
    """Take the SIM card out."""
    database["device"]["sim_card_missing"] = True
    phone.search_network(database)


def lock_sim_card(database: Database, mode: Literal["pin", "puk"]) -> None:
    """Lock the SIM card."""
    database["device"]["sim_card_status"] = f"locked_{mode}"
    phone.search_network(database)


def break_apn_settings(database: Database) -> None:
    """Make the APN settings wrong, so that the phone finds no network."""
    database["device"]["active_apn_settings"]["apn_name"] = phone.BROKEN_APN
    phone.search_network(database)


def break_apn_mms_setting(database: Database) -> None:
    """Remove the address of the server for MMS messages."""
    database["device"]["active_apn_settings"]["mmsc_url"] = None


def break_vpn(database: Database) -> None:
    """Connect to a VPN that performs badly."""
    device = database["device"]
    device["vpn_connected"], device["vpn_performance"] = True, "poor"


def remove_app_permission(database: Database, app_name: str, permission: str) -> None:
    """Take a permission from an app."""
    phone.find_app(database, app_name)["permissions"][permission] = False


def simulate_network_search(database: Database) -> None:
    """Let the phone search for a network."""
    phone.search_network(database)


def assert_service_status(database: Database, expected_status: str) -> bool:
    """Return whether the phone has this connection to the mobile network."""
    return bool(database["device"]["network_connection_status"] == expected_status)


def assert_mobile_data_status(database: Database, expected_status: bool) -> bool:
    """Return whether mobile data work, or do not."""
    return phone.has_mobile_data(database) is expected_status


def assert_internet_speed(
    database: Database, expected_speed: float, expected_desc: str | None = None
) -> bool:
    """Return whether the internet has at least this speed, and this description."""
    speed = phone.measure_speed(database)
    if speed is None or speed < expected_speed:
        return False
    return expected_desc is None or phone.describe_speed(speed) == expected_desc.lower()


def assert_can_send_mms(database: Database, expected_status: bool) -> bool:
    """Return whether MMS messages can be sent, or cannot."""
    return phone.has_mms(database) is expected_status


DOMAIN = Domain(
    tools=(
        disable_roaming,
        enable_roaming,
        get_bills_for_customer,
        get_customer_by_id,
        get_customer_by_name,
        get_customer_by_phone,
        get_data_usage,
        get_details_by_id,
        refuel_data,
        resume_line,
        send_payment_request,
        suspend_line,
        transfer_to_human_agents,
    ),
    user_tools=phone.TOOLS,
    hidden=(
        assert_can_send_mms,
        assert_data_refueling_amount,
        assert_internet_speed,
        assert_mobile_data_status,
        assert_no_overdue_bill,
        assert_service_status,
        break_apn_mms_setting,
        break_apn_settings,
        break_vpn,
        lock_sim_card,
        remove_app_permission,
        set_data_usage,
        set_user_info,
        set_user_location,
        set_wifi_calling,
        simulate_network_search,
        suspend_line_for_overdue_bill,
        turn_airplane_mode_on,
        turn_data_off,
        turn_data_saver_mode_on,
        turn_roaming_off,
        turn_roaming_on,
        unseat_sim_card,
    ),
    settle=settle,
)
