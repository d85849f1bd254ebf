"""Networks of the engine in which the machines of one attempt meet.

A network that is not public has no address of the engine's machine, so its containers reach neither that
machine nor the networks behind it. The engine would answer their questions for names outside by its own name
servers. So such a container has a name server where nothing listens.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.core.errors import SandboxError
from harness.sandbox.backends.docker.engine import engine_errors, is_gone

if TYPE_CHECKING:
    from docker import APIClient

# The engine has few networks of its own to give, and these addresses belong to nobody (RFC 2544).
_RANGE = ipaddress.ip_network("198.18.0.0/15")
# 29 machines, and the gateway of a public network.
_PREFIX = 27
_TRIES = 100
_OVERLAPS = "overlaps"
# The port of a name server is closed on the loopback of a container.
_NO_NAME_SERVER = "127.0.0.1"
_IS_PUBLIC = "harness.public"


def make_network(client: APIClient, name: str, labels: Mapping[str, str], *, is_public: bool) -> None:
    """Make a network of the engine, at addresses that no other one has. Raises SandboxError."""
    from docker.errors import APIError
    from docker.types import IPAMConfig, IPAMPool

    # Without an address of its bridge, no packet of a container is for the engine's machine.
    options = {} if is_public else {"com.docker.network.bridge.inhibit_ipv4": "true"}
    with engine_errors("make a network for the machines of an attempt"):
        for _ in range(_TRIES):
            pool = IPAMPool(subnet=_draw_subnet())
            try:
                client.create_network(
                    name,
                    driver="bridge",
                    options=options,
                    ipam=IPAMConfig(pool_configs=[pool]),
                    internal=not is_public,
                    labels={**labels, _IS_PUBLIC: str(is_public)},
                )
            except APIError as error:
                if _OVERLAPS not in str(error.explanation):
                    raise
                continue
            return
    raise SandboxError(f"the engine has networks at all of {_TRIES} addresses in {_RANGE}", outside=True)


def destroy_network(client: APIClient, name: str) -> None:
    """Remove a network, if it is there. Raises SandboxError if it stays."""
    from docker.errors import APIError

    with engine_errors(f"remove network {name}"):
        try:
            client.remove_network(name)
        except APIError as error:
            if not is_gone(error):
                raise


def find_networks(client: APIClient, labels: Mapping[str, str | None]) -> Mapping[str, Mapping[str, str]]:
    """Return the labels of the networks that have these labels, by name; None matches any value."""
    wanted = [name if value is None else f"{name}={value}" for name, value in labels.items()]
    with engine_errors("list networks"):
        listed: list[dict[str, Any]] = client.networks(filters={"label": wanted})
    return {each["Name"]: each["Labels"] or {} for each in listed}


def choose_name_servers(client: APIClient, network: str) -> list[str] | None:
    """Return the name servers of a container in a network, None for the engine's own. Raises SandboxError."""
    with engine_errors("inspect a network"):
        labels = client.inspect_network(network)["Labels"] or {}
    return None if labels.get(_IS_PUBLIC) == str(True) else [_NO_NAME_SERVER]


def _draw_subnet() -> str:
    number = secrets.randbelow(1 << (_PREFIX - _RANGE.prefixlen))
    first = int(_RANGE.network_address) + (number << (_RANGE.max_prefixlen - _PREFIX))
    return f"{ipaddress.ip_address(first)}/{_PREFIX}"
