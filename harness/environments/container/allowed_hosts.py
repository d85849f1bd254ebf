"""The hosts that an agent may reach, and the addresses that a connection to one of them may lead to.

A name is resolved once, on the host, and the connection goes to an address that was checked. So no answer of
a name server leads to another machine than the one that was judged.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

_RESOLVE_SECONDS = 20.0
# The last 32 bits of these networks are an address of IPv4 that a gateway connects to.
_TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class HostRefused(Exception):
    """The list does not admit a host, or the addresses of its name."""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The entries of `allowed_hosts` in their normal form: names, `*.name`, addresses and networks."""

    names: frozenset[str]
    suffixes: tuple[str, ...]
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]

    def admits_name(self, name: str) -> bool:
        """Return whether the list has a name, or a pattern of it. `*.host` does not mean `host` itself."""
        plain = name.lower().rstrip(".")
        return plain in self.names or plain.endswith(self.suffixes)

    async def find_addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses that a connection to a host may go to, the best first.

        Addresses that are not public, and this machine's own, count only if the list has them, or a
        private network around them. Loopback addresses never count, because they would mean this machine.
        Raises HostRefused.
        """
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            if not self.admits_name(host):
                raise HostRefused(f"{host} is not in allowed_hosts") from None
            found = await _resolve(host, port)
            admitted = [each for each in found if self._is_admitted(each, has_name=True)]
            if not admitted:
                listed = ", ".join(map(str, found))
                raise HostRefused(
                    f"{host} has the addresses {listed}, which allowed_hosts does not name"
                ) from None
            return list(map(str, admitted))
        if not self._is_admitted(address, has_name=False):
            raise HostRefused(f"{host} is not in allowed_hosts")
        return [str(address)]

    def _is_admitted(self, address: Address, *, has_name: bool) -> bool:
        meant = _unwrap(address)
        if meant.is_loopback or meant.is_unspecified or meant.is_multicast:
            return False
        is_open = _is_public(meant) and _is_public(address) and str(meant) not in _list_own_addresses()
        around = [network for network in self.networks if address in network or meant in network]
        if is_open:
            return has_name or bool(around)
        # A network such as 0.0.0.0/0 does not name the private ones in it.
        return any(network.is_private or network.num_addresses == 1 for network in around)


def read_allowed_hosts(entries: Iterable[str]) -> AllowedHosts:
    """Return the rules of a task's `allowed_hosts`, which `task_toml` has checked."""
    names, suffixes, networks = set(), [], []
    for entry in entries:
        try:
            networks.append(ipaddress.ip_network(entry, strict=False))
        except ValueError:
            if entry.startswith("*."):
                suffixes.append(entry[1:])
            else:
                names.add(entry)
    return AllowedHosts(frozenset(names), tuple(suffixes), tuple(networks))


def _is_public(address: Address) -> bool:
    is_old = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    is_translated = any(address in network for network in _TRANSLATED)
    return address.is_global and not is_old and (is_translated or not address.is_reserved)


def _unwrap(address: Address) -> Address:
    """Return the address of IPv4 that one of IPv6 contains, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if any(address in network for network in _TRANSLATED):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _list_own_addresses() -> set[str]:
    return {each.address.partition("%")[0] for own in psutil.net_if_addrs().values() for each in own}


async def _resolve(host: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_RESOLVE_SECONDS):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise HostRefused(f"{host} has no address: {error or 'no answer'}") from error
    return list(dict.fromkeys(ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found))
