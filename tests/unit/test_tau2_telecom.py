"""The carrier and the phone of its customer: each fault stops what it should, and each remedy is needed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from service_desk import ScriptedUser, opened, talk

from harness.benchmarks import load_benchmark
from harness.environments.tau2.conversation import GREETING, Check, ServiceTask
from harness.environments.tau2.environment import measure
from harness.environments.tau2.phone import DEFAULT_APN
from harness.environments.tau2.world import Call

NUMBER = "555-000-0001"
OWN = {"customer_id": "C1", "line_id": "L1"}
PLAN = {"plan_id": "P1", "data_limit_gb": 10.0, "price_per_month": 20.0, "data_refueling_price_per_gb": 2.0}
LINE = {
    "line_id": "L1",
    "phone_number": NUMBER,
    "status": "Active",
    "plan_id": "P1",
    "data_used_gb": 3.0,
    "data_refueling_gb": 0.0,
    "roaming_enabled": True,
    "contract_end_date": "2026-12-31",
}
CUSTOMER = {
    "customer_id": "C1",
    "full_name": "Ada Byron",
    "date_of_birth": "1990-01-01",
    "phone_number": "555-000-0009",
    "line_ids": ["L1"],
    "bill_ids": [],
}
PHONE = {
    "sim_card_status": "active",
    "network_signal_strength": "excellent",
    "network_technology_connected": "5G",
    "network_connection_status": "connected",
    "battery_level": 80,
    "data_enabled": True,
    "network_mode_preference": "4g_5g_preferred",
    **dict.fromkeys(("sim_card_missing", "airplane_mode", "roaming_enabled", "wifi_enabled"), False),
    **dict.fromkeys(("wifi_calling_enabled", "wifi_calling_mms_over_wifi"), False),
    **dict.fromkeys(("data_saver_mode", "vpn_connected"), False),
    "active_apn_settings": DEFAULT_APN,
    "app_statuses": {
        "messaging": {"permissions": {"sms": True, "storage": True, "phone": True, "network": False}}
    },
}
DATABASE: dict[str, Any] = {
    "plans": [PLAN],
    "devices": [],
    "lines": [LINE],
    "customers": [CUSTOMER],
    "bills": [],
    "device": PHONE,
}


def by_user(function: str, /, **arguments: Any) -> Call:
    return Call("user", function, arguments)


def by_agent(function: str, /, **arguments: Any) -> Call:
    return Call("assistant", function, arguments)


REPAIR_APN = (by_user("reset_apn_settings"), by_user("reboot_device"))
ABROAD = by_user("set_user_location", abroad=True)
MODE, APP = "set_network_mode_preference", {"app_name": "messaging", "permission": "sms"}
PAID = (by_agent("send_payment_request", customer_id="C1", bill_id="B1"), by_user("make_payment"))
OVERDUE = by_agent("suspend_line_for_overdue_bill", **OWN, new_bill_id="B1", contract_ended=False)
ROAMING = (ABROAD, by_user("turn_roaming_on"), by_agent("disable_roaming", **OWN))
WIFI = by_user("set_wifi_calling", enabled=True, mms_over_wifi=True)
# The faults, and the calls that remedy each.
FAULTS: dict[str, tuple[tuple[Call, ...], tuple[Call, ...]]] = {
    "airplane mode": ((by_user("turn_airplane_mode_on"),), (by_user("toggle_airplane_mode"),)),
    "no data": ((by_user("turn_data_off"),), (by_user("toggle_data"),)),
    "an old network": ((by_user(MODE, mode="2g_only"),), (by_user(MODE, mode="4g_5g_preferred"),)),
    "no SIM": ((by_user("unseat_sim_card"),), (by_user("reseat_sim_card"),)),
    "a wrong APN": ((by_user("break_apn_settings"),), REPAIR_APN),
    "no server for MMS": ((by_user("break_apn_mms_setting"),), REPAIR_APN),
    "Wi-Fi calling": ((WIFI,), (by_user("toggle_wifi_calling"),)),
    "a permission": ((by_user("remove_app_permission", **APP),), (by_user("grant_app_permission", **APP),)),
    "roaming of the line": (ROAMING, (by_agent("enable_roaming", **OWN),)),
    "roaming of the phone": ((ABROAD,), (by_user("toggle_roaming"),)),
    "no data left": (
        (by_agent("set_data_usage", **OWN, data_used_gb=10.5),),
        (by_agent("refuel_data", **OWN, gb_amount=1.0),),
    ),
    "a suspended line": ((OVERDUE,), (*PAID, by_agent("resume_line", **OWN), by_user("reboot_device"))),
}


def make_target(*faults: Call) -> ServiceTask:
    setup = (by_user("set_user_info", name="Ada", phone_number=NUMBER), *faults)
    checks = (
        Check("assert_can_send_mms", {"expected_status": True}),
        Check("assert_no_overdue_bill", {"overdue_bill_id": "B1"}),
    )
    return ServiceTask("telecom", DATABASE, setup, (), "You are Ada.", (), checks, (), (), ("ENV_ASSERTION",))


def passes(target: ServiceTask, *calls: Call) -> bool:
    return not any(measure(target, calls, ()).values())


def list_needless(target: ServiceTask, remedies: tuple[Call, ...]) -> list[str]:
    """Return the names of calls without which the task is passed as well."""
    places = range(len(remedies))
    return [
        remedies[place].name for place in places if passes(target, *remedies[:place], *remedies[place + 1 :])
    ]


def test_each_fault_breaks_the_phone_and_needs_all_of_its_remedies() -> None:
    assert passes(make_target())
    wrong = {}
    for name, (faults, remedies) in FAULTS.items():
        target = make_target(*faults)
        if not passes(target, *remedies) or list_needless(target, remedies):
            wrong[name] = list_needless(target, remedies)
    assert wrong == {}


def test_a_slow_connection_is_told_from_a_fast_one() -> None:
    fast = Check("assert_internet_speed", {"expected_speed": 200, "expected_desc": "excellent"})
    base = make_target()
    found = {}
    for name in ("nothing", "turn_data_saver_mode_on", "break_vpn"):
        setup = base.setup if name == "nothing" else (*base.setup, by_user(name))
        target = ServiceTask("telecom", DATABASE, setup, (), "", (), (fast,), (), (), ("ENV_ASSERTION",))
        found[name] = passes(target)
    assert found == {"nothing": True, "turn_data_saver_mode_on": False, "break_vpn": False}


async def test_the_user_uses_the_phone_and_the_agent_sees_only_what_the_user_says() -> None:
    user = ScriptedUser(
        json.dumps({"tool": "check_status_bar", "arguments": {}}),
        '{"tool": "enable_roaming", "arguments": {"customer_id": "C1", "line_id": "L1"}}',
        '{"tool": 1}',
        "It says Airplane Mode.",
    )
    async with opened(make_target(by_user("turn_airplane_mode_on")), user) as desk:
        assert await talk(desk, GREETING) == ["It says Airplane Mode."]
        results = [message.text for message in user.asked[-1] if message.text.startswith("[")]
        assert results == [
            "[check_status_bar returned] Status bar: ✈️ Airplane Mode | 📵 No Signal | 🔋 80%",
            "[enable_roaming returned] Error: there is no tool 'enable_roaming'",
        ]
        assert (await desk.call("toggle_airplane_mode", {})).refused


def test_each_action_of_the_published_references_is_needed(shared_data: Path) -> None:
    archive = shared_data / "tasks" / "tau2" / "tau2-data-from-inspect-evals.tar.gz"
    if not archive.exists():
        pytest.skip(f"no {archive}")
    loaded = load_benchmark("tau2", data=str(archive), domain="telecom", split="test")
    needless: Counter[str] = Counter()
    for task in loaded.tasks:
        target = loaded.references[task.id].target
        assert isinstance(target, ServiceTask)
        needless.update(set(list_needless(target, target.actions)))
    # A task with two faults lists the restart of the phone twice.
    assert set(needless) <= {"reboot_device"}
