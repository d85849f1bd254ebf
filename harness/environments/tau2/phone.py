"""The phone of a user in the domain `telecom`: what can be seen and set on it, and what then works."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from harness.environments.tau2.world import Database, ToolError

Mode = Literal["4g_5g_preferred", "4g_only", "3g_only", "2g_only"]
AppName = Annotated[str, Field(description="The name of an app, such as 'messaging'")]
Permission = Annotated[str, Field(description="The name of a permission, such as 'storage'")]

DEFAULT_APN = {"apn_name": "internet", "mms_apn": "mms", "mmsc_url": "http://mms.carrier.com/mms/wapenc"}
BROKEN_APN = "broken"
# The network that the phone finds in each mode, and the signal of that network.
_NETWORKS = {
    "4g_5g_preferred": ("5G", "excellent"),
    "4g_only": ("4G", "good"),
    "3g_only": ("3G", "fair"),
    "2g_only": ("2G", "poor"),
}
_MEGABITS = {"2G": 0.25, "3G": 3.0, "4G": 55.0, "5G": 275.0}
_SIGNAL_SHARES = {"poor": 0.2, "fair": 0.5, "good": 0.8, "excellent": 1.0}
_BARS = {"poor": "📶¹ Poor", "fair": "📶² Fair", "good": "📶³ Good", "excellent": "📶⁴ Excellent"}
# The least megabits per second of each description.
_DESCRIPTIONS = ((100.0, "excellent"), (25.0, "good"), (5.0, "fair"), (1.0, "poor"), (0.0, "very poor"))
_DATA_SAVER_SHARE, _BAD_VPN_SHARE = 0.2, 0.1


def find_surroundings(database: Database) -> Any:
    """Return the facts around the phone, which the carrier and the place of the user decide."""
    facts = {
        "name": None,
        "phone_number": None,
        "is_abroad": False,
        "line_active": True,
        "roaming_allowed": False,
        "data_exceeded": False,
        "payment_request": None,
    }
    return database.setdefault("surroundings", facts)


def search_network(database: Database) -> None:
    """Let the phone search for a network, as it does after each change of its radio."""
    device, around = database["device"], find_surroundings(database)
    found = (
        not device["airplane_mode"]
        and _sim(device) == "active"
        and device["active_apn_settings"]["apn_name"] != BROKEN_APN
        and around["line_active"]
    )
    technology, signal = _NETWORKS[device["network_mode_preference"]] if found else ("none", "none")
    device["network_connection_status"] = "connected" if found else "no_service"
    device["network_technology_connected"] = technology
    device["network_signal_strength"] = signal


def _sim(device: Any) -> str:
    return "missing" if device["sim_card_missing"] else str(device["sim_card_status"])


def has_mobile_data(database: Database) -> bool:
    """Return whether the phone can use the internet by the mobile network."""
    device, around = database["device"], find_surroundings(database)
    can_roam = device["roaming_enabled"] and around["roaming_allowed"]
    return bool(
        device["network_connection_status"] == "connected"
        and device["data_enabled"]
        and not around["data_exceeded"]
        and (can_roam or not around["is_abroad"])
    )


def measure_speed(database: Database) -> float | None:
    """Return the speed of the internet in megabits per second, None without a connection."""
    if not has_mobile_data(database):
        return None
    device = database["device"]
    speed = _MEGABITS[device["network_technology_connected"]]
    speed *= _SIGNAL_SHARES[device["network_signal_strength"]]
    speed *= _DATA_SAVER_SHARE if device["data_saver_mode"] else 1
    speed *= _BAD_VPN_SHARE if device["vpn_connected"] and device.get("vpn_performance") == "poor" else 1
    return round(speed, 2)


def describe_speed(speed: float) -> str:
    """Return the word for a speed in megabits per second."""
    return next(name for least, name in _DESCRIPTIONS if speed >= least)


def has_mms(database: Database) -> bool:
    """Return whether the messaging app can send MMS messages."""
    device = database["device"]
    allowed = device["app_statuses"].get("messaging", {}).get("permissions", {})
    return bool(
        has_mobile_data(database)
        and device["network_technology_connected"] != "2G"
        and device["active_apn_settings"]["mmsc_url"]
        and not (device["wifi_calling_enabled"] and device["wifi_calling_mms_over_wifi"])
        and allowed.get("storage")
        and allowed.get("sms")
    )


def _on(value: Any) -> str:
    return "ON" if value else "OFF"


def check_status_bar(database: Database) -> str:
    """Return the icons in the status bar of the phone."""
    device = database["device"]
    icons = ["✈️ Airplane Mode"] if device["airplane_mode"] else []
    if device["network_connection_status"] != "connected":
        icons.append("📵 No Signal")
    else:
        icons += [_BARS[device["network_signal_strength"]], device["network_technology_connected"]]
        icons.append("📱 Data Enabled" if device["data_enabled"] else "📵 Data Disabled")
    icons += ["🔽 Data Saver"] if device["data_saver_mode"] else []
    icons += ["📡 Wi-Fi Enabled"] if device["wifi_enabled"] else []
    icons += ["🔒 VPN Connected"] if device["vpn_connected"] else []
    icons.append(f"🔋 {device['battery_level']}%")
    return f"Status bar: {' | '.join(icons)}"


def check_network_status(database: Database) -> str:
    """Return the state of the connections to the mobile network and to Wi-Fi."""
    device = database["device"]
    return (
        f"Airplane Mode: {_on(device['airplane_mode'])}\n"
        f"SIM Card Status: {_sim(device)}\n"
        f"Cellular Connection: {device['network_connection_status']}\n"
        f"Cellular Signal: {device['network_signal_strength']}\n"
        f"Cellular Network Type: {device['network_technology_connected']}\n"
        f"Mobile Data Enabled: {device['data_enabled']}\n"
        f"Data Roaming Enabled: {device['roaming_enabled']}\n"
        f"Wi-Fi Radio: {_on(device['wifi_enabled'])}"
    )


def check_network_mode_preference(database: Database) -> str:
    """Return the kinds of networks that the phone connects to."""
    return f"Network Mode Preference: {database['device']['network_mode_preference']}"


def check_sim_status(database: Database) -> str:
    """Return whether the SIM card is active, missing, or locked with a PIN or PUK."""
    texts = {
        "active": "Your SIM card is active and working.",
        "missing": "Missing: no SIM card was found in the phone.",
        "locked_pin": "Locked: the SIM card needs its PIN.",
        "locked_puk": "Locked: the SIM card needs its PUK.",
    }
    return texts[_sim(database["device"])]


def check_data_restriction_status(database: Database) -> str:
    """Return whether a feature of the phone limits its data."""
    return f"Data Saver mode is {_on(database['device']['data_saver_mode'])}."


def check_apn_settings(database: Database) -> str:
    """Return the APN settings."""
    apn = database["device"]["active_apn_settings"]
    name = "Incorrect" if apn["apn_name"] == BROKEN_APN else apn["apn_name"]
    return f"Current APN Name: {name}\nMMSC URL: {apn['mmsc_url'] or 'Not Set'}"


def check_wifi_status(database: Database) -> str:
    """Return whether Wi-Fi is on, and its network."""
    return f"Wi-Fi is {_on(database['device']['wifi_enabled'])}. It is not connected to a network."


def check_wifi_calling_status(database: Database) -> str:
    """Return whether Wi-Fi Calling is on."""
    return f"Wi-Fi Calling is {_on(database['device']['wifi_calling_enabled'])}."


def check_vpn_status(database: Database) -> str:
    """Return whether a VPN is connected, and how well it performs."""
    device = database["device"]
    if not device["vpn_connected"]:
        return "VPN is OFF."
    return f"VPN is ON and connected. Performance: {device.get('vpn_performance', 'excellent')}."


def check_installed_apps(database: Database) -> str:
    """Return the names of the apps on the phone."""
    return f"Apps: {', '.join(sorted(database['device']['app_statuses']))}"


def find_app(database: Database, name: str) -> Any:
    """Return the state of an app, which may be changed. Raises ToolError."""
    apps = database["device"]["app_statuses"]
    if name not in apps:
        raise ToolError(f"there is no app '{name}'")
    return apps[name]


def check_app_status(database: Database, app_name: AppName) -> str:
    """Return the state of an app."""
    return f"App {app_name}\n{check_app_permissions(database, app_name)}"


def check_app_permissions(database: Database, app_name: AppName) -> str:
    """Return the permissions that an app has."""
    allowed = [name for name, value in find_app(database, app_name)["permissions"].items() if value]
    return f"Permissions of {app_name}: {', '.join(allowed) or 'none'}"


def run_speed_test(database: Database) -> str:
    """Measure the speed of the internet connection and return it."""
    speed = measure_speed(database)
    if speed is None:
        return "Speed test failed: no connection."
    return f"Download speed: {speed} Mbps ({describe_speed(speed)})."


def can_send_mms(database: Database) -> str:
    """Return whether the messaging app can send MMS messages."""
    return f"The messaging app {'can' if has_mms(database) else 'cannot'} send MMS messages."


def set_network_mode_preference(database: Database, mode: Mode) -> str:
    """Set the kinds of networks that the phone connects to."""
    database["device"]["network_mode_preference"] = mode
    search_network(database)
    return check_network_mode_preference(database)


def set_airplane_mode(database: Database, value: bool) -> None:
    """Turn Airplane Mode on or off. On, it also ends Wi-Fi and the VPN."""
    device = database["device"]
    device["airplane_mode"] = value
    if value:
        device["wifi_enabled"] = device["vpn_connected"] = False
    search_network(database)


def toggle_airplane_mode(database: Database) -> str:
    """Turn Airplane Mode on or off."""
    set_airplane_mode(database, not database["device"]["airplane_mode"])
    return f"Airplane Mode is {_on(database['device']['airplane_mode'])}. {check_status_bar(database)}"


def reseat_sim_card(database: Database) -> str:
    """Take the SIM card out and put it in again."""
    database["device"]["sim_card_missing"] = False
    search_network(database)
    return f"The SIM card was put in again. {check_status_bar(database)}"


def _toggle(database: Database, field: str, name: str) -> str:
    device = database["device"]
    device[field] = not device[field]
    return f"{name} is {_on(device[field])}."


def toggle_data(database: Database) -> str:
    """Turn mobile data on or off."""
    return _toggle(database, "data_enabled", "Mobile Data")


def toggle_roaming(database: Database) -> str:
    """Turn Data Roaming on or off."""
    return _toggle(database, "roaming_enabled", "Data Roaming")


def toggle_data_saver_mode(database: Database) -> str:
    """Turn Data Saver mode on or off."""
    return _toggle(database, "data_saver_mode", "Data Saver mode")


def toggle_wifi(database: Database) -> str:
    """Turn the Wi-Fi radio on or off."""
    if database["device"]["airplane_mode"]:
        raise ToolError("Wi-Fi cannot be changed in Airplane Mode")
    return _toggle(database, "wifi_enabled", "Wi-Fi")


def toggle_wifi_calling(database: Database) -> str:
    """Turn Wi-Fi Calling on or off."""
    return _toggle(database, "wifi_calling_enabled", "Wi-Fi Calling")


def set_apn_settings(database: Database, apn_name: str, mmsc_url: str | None = None) -> str:
    """Set the APN settings."""
    database["device"]["active_apn_settings"] |= {"apn_name": apn_name, "mmsc_url": mmsc_url}
    search_network(database)
    return check_apn_settings(database)


def reset_apn_settings(database: Database) -> str:
    """Reset the APN settings to the defaults of the carrier. The next restart of the phone applies this."""
    database["device"]["active_apn_settings"]["reset_at_reboot"] = True
    return "The APN settings will be reset when the phone restarts."


def reboot_device(database: Database) -> str:
    """Restart the phone."""
    device = database["device"]
    if device["active_apn_settings"].get("reset_at_reboot"):
        device["active_apn_settings"] = dict(DEFAULT_APN)
    search_network(database)
    return f"The phone was restarted. {check_status_bar(database)}"


def connect_vpn(database: Database) -> str:
    """Connect to the VPN."""
    if not has_mobile_data(database):
        raise ToolError("there is no internet connection")
    database["device"]["vpn_connected"] = True
    return check_vpn_status(database)


def disconnect_vpn(database: Database) -> str:
    """Disconnect from the VPN."""
    if not database["device"]["vpn_connected"]:
        raise ToolError("no VPN is connected")
    database["device"]["vpn_connected"] = False
    return check_vpn_status(database)


def grant_app_permission(database: Database, app_name: AppName, permission: Permission) -> str:
    """Give a permission to an app."""
    permissions = find_app(database, app_name)["permissions"]
    if permission not in permissions:
        raise ToolError(f"there is no permission '{permission}'; known: {', '.join(permissions)}")
    permissions[permission] = True
    return check_app_permissions(database, app_name)


def check_payment_request(database: Database) -> str:
    """Return the payment request of the carrier, if there is one."""
    request = find_surroundings(database)["payment_request"]
    if request is None:
        return "You have no payment request."
    return f"You have a payment request for bill {request['bill_id']} of {request['amount_due']} USD."


def make_payment(database: Database) -> str:
    """Pay the bill of the payment request."""
    request = find_surroundings(database)["payment_request"]
    if request is None:
        raise ToolError("you have no payment request")
    request["paid"] = True
    return f"You have paid bill {request['bill_id']} of {request['amount_due']} USD."


TOOLS = (
    can_send_mms,
    check_apn_settings,
    check_app_permissions,
    check_app_status,
    check_data_restriction_status,
    check_installed_apps,
    check_network_mode_preference,
    check_network_status,
    check_payment_request,
    check_sim_status,
    check_status_bar,
    check_vpn_status,
    check_wifi_calling_status,
    check_wifi_status,
    connect_vpn,
    disconnect_vpn,
    grant_app_permission,
    make_payment,
    reboot_device,
    reseat_sim_card,
    reset_apn_settings,
    run_speed_test,
    set_apn_settings,
    set_network_mode_preference,
    toggle_airplane_mode,
    toggle_data,
    toggle_data_saver_mode,
    toggle_roaming,
    toggle_wifi,
    toggle_wifi_calling,
)
