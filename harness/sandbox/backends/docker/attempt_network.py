"""Networks of the engine where the machines of one attempt meet.

A network that is not public has no address of the engine's machine, so its containers reach neither that
machine nor the networks behind it. Two ways would be left:

- The machine's kernel takes datagrams to everyone (255.255.255.255, 224.0.0.1) from each bridge. It drops
  them if it checks their source (`rp_filter`), because no address of the network has a route. No option of
  the engine sets that, so a container in the network namespace of the engine's machine does, and ends.
- The engine answers questions for names outside by its own name servers. So a container gets a name server
  where nothing listens.
"""

from __future__ import annotations

import ipaddress
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.core.errors import SandboxError
from harness.sandbox.backends.docker.container import remove
from harness.sandbox.backends.docker.engine import engine_errors, is_gone
from harness.sandbox.backends.docker.images import require_image
from harness.sandbox.layout import FOREIGN_GUEST_COMMAND
from harness.sandbox.time_factor import extend_wait

if TYPE_CHECKING:
    from docker import APIClient

# The engine has few networks of its own to give, and these addresses are reserved for tests (RFC 2544).
_RANGE = ipaddress.ip_network("198.18.0.0/15")
# 29 machines, and the gateway of a public network.
_PREFIX = 27
_TRIES = 100
_OVERLAPS = "overlaps"
# The port of a name server is closed on the loopback of a container.
_NO_NAME_SERVER = "127.0.0.1"
_IN_USE = "active endpoints"
REMOVAL_SECONDS, PAUSE_SECONDS = 30.0, 0.2
_IS_PUBLIC = "harness.public"
# The image that every machine of a task's image has its guest from.
_IMAGE = "container"
_CHECK_SECONDS = 60
# Asks the kernel by netlink (RTM_SETLINK) for a strict check of the sources of all packets from a bridge. Its
# exit code is the kernel's answer.
_CHECK_SOURCES = """
import _socket, struct, sys

def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data

nested, ipv4, conf, rp_filter = 1 << 15, _socket.AF_INET, 1, 8
value = attribute(rp_filter, struct.pack("=I", 1))
wanted = attribute(26 | nested, attribute(ipv4 | nested, attribute(conf | nested, value)))
body = struct.pack("=BxHiII", 0, 0, _socket.if_nametoindex(sys.argv[1]), 0, 0) + wanted
link = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, 0)
link.send(struct.pack("=IHHII", 16 + len(body), 19, 1 | 4, 1, 0) + body)
sys.exit(-struct.unpack_from("=i", link.recv(4096), 16)[0])
"""


def make_network(client: APIClient, name: str, labels: Mapping[str, str], *, is_public: bool) -> None:
    """Make a network of the engine, at addresses that no other one has. Raises SandboxError."""
    from docker.errors import APIError
    from docker.types import IPAMConfig, IPAMPool

    bridge = f"hn-{secrets.token_hex(6)}"
    options = {"com.docker.network.bridge.name": bridge}
    if not is_public:
        options["com.docker.network.bridge.inhibit_ipv4"] = "true"
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
            if not is_public:
                _check_sources(client, name, bridge, labels)
            return
    raise SandboxError(f"the engine has networks at all of {_TRIES} addresses in {_RANGE}", outside=True)


def _check_sources(client: APIClient, name: str, bridge: str, labels: Mapping[str, str]) -> None:
    """Have the kernel of the engine's machine drop what comes from a bridge. Raises SandboxError if not."""
    helper = f"{name}-check"
    try:
        client.create_container(
            require_image(client, _IMAGE),
            name=helper,
            entrypoint=[*FOREIGN_GUEST_COMMAND[:-1], _CHECK_SOURCES, bridge],
            labels=dict(labels),
            host_config=client.create_host_config(
                network_mode="host",
                # Remapped users have no rights in the namespaces of the engine's machine.
                userns_mode="host",
                cap_drop=["ALL"],
                cap_add=["NET_ADMIN"],
                security_opt=["no-new-privileges:true"],
                read_only=True,
                pids_limit=8,
                mem_limit="64m",
            ),
        )
        client.start(helper)
        code = client.wait(helper, timeout=_CHECK_SECONDS)["StatusCode"]
        if code != 0:
            shown = client.logs(helper, tail=3).decode(errors="replace")
            raise SandboxError(
                f"no network can be closed on this engine: exit code {code} {shown}", outside=True
            )
    finally:
        remove(client, helper)


def destroy_network(client: APIClient, name: str) -> None:
    """Remove a network, if it is there, once its last container is gone. Raises SandboxError if it stays."""
    from docker.errors import APIError

    deadline = time.monotonic() + extend_wait(REMOVAL_SECONDS)
    with engine_errors(f"remove network {name}"):
        while True:
            try:
                client.remove_network(name)
            except APIError as error:
                if is_gone(error):
                    return
                # Somebody is removing its containers at this moment.
                if _IN_USE not in str(error.explanation) or time.monotonic() > deadline:
                    raise
            else:
                return
            time.sleep(PAUSE_SECONDS)


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
