"""The functions that break a phone for a task of the domain `telecom`, and that check what works on it.

They are apart from `phone.py`, because no user and no agent ever calls them.
"""

from __future__ import annotations

from typing import Literal

from harness.environments.tau2 import phone
from harness.environments.tau2.world import Database


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


HIDDEN = (
    assert_can_send_mms,
    assert_internet_speed,
    assert_mobile_data_status,
    assert_service_status,
    break_apn_mms_setting,
    break_apn_settings,
    break_vpn,
    lock_sim_card,
    remove_app_permission,
    set_user_info,
    set_user_location,
    set_wifi_calling,
    simulate_network_search,
    turn_airplane_mode_on,
    turn_data_off,
    turn_data_saver_mode_on,
    turn_roaming_off,
    turn_roaming_on,
    unseat_sim_card,
)
