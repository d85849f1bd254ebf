"""Programs get sockets whose buffers are counted, and others only on request."""

from __future__ import annotations

from case_checks import each_case
from docker import APIClient

from harness.sandbox.backends.base import SandboxSpec
from harness.sandbox.backends.docker.spec import container_config, takes_tcp_memory
from harness.sandbox.backends.hardening import SMALL_BUFFERS, choose_sockets
from harness.sandbox.backends.seccomp import Sockets
from harness.sandbox.layout import TERMINALS
from harness.sandbox.limits import MIB, Limits


def client_of(api_version: str = "1.41") -> APIClient:
    """Return a client of an engine that gets no request."""
    return APIClient(base_url="tcp://127.0.0.1:1", version=api_version)


@each_case(
    ("cgroup_version", "runtime", "asked", "expected", "with_relay"),
    [
        (1, "runc", False, "local", "relayed"),
        (1, "crun", False, "local", "relayed"),
        (2, "runc", False, "internet", "internet"),
        (1, "runsc", False, "all", "all"),
        (2, "runsc", False, "all", "all"),
        (1, "runc", True, "all", "all"),
        (2, "runc", True, "all", "all"),
    ],
)
def test_the_allowed_sockets_are_those_that_are_counted_and_a_relay_adds_others_only_without_them(
    cgroup_version: int, runtime: str, asked: bool, expected: Sockets, with_relay: Sockets
) -> None:
    limits = Limits(uncounted_sockets=asked)
    assert choose_sockets(cgroup_version, runtime, limits) == expected
    assert choose_sockets(cgroup_version, runtime, limits, relay=True) == with_relay


@each_case(("sockets", "small"), [("relayed", True), ("internet", False), ("local", False)])
def test_uncounted_buffers_are_small(sockets: Sockets, small: bool) -> None:
    spec = SandboxSpec(image="x", limits=Limits(), relay=True)
    config = container_config(client_of(), spec, sockets=sockets)["host_config"]
    assert config.get("Sysctls") == (SMALL_BUFFERS if small else None)


@each_case(("version", "takes"), [("1.41", True), ("1.51", True), ("1.52", False), ("2.0", False)])
def test_an_engine_takes_a_limit_of_tcp_buffers_before_api_1_52(version: str, takes: bool) -> None:
    assert takes_tcp_memory(client_of(version)) is takes


@each_case(
    ("version", "sockets", "limit"),
    [
        ("1.41", "internet", 256 * MIB),
        ("1.41", "all", 256 * MIB),
        ("1.41", "relayed", 256 * MIB),
        ("1.41", "local", None),
        ("1.52", "all", None),
    ],
)
def test_tcp_buffers_are_limited_if_the_engine_supports_it(
    version: str, sockets: Sockets, limit: int | None
) -> None:
    spec = SandboxSpec(image="x", limits=Limits(memory_mb=256))
    config = container_config(client_of(version), spec, sockets=sockets)["host_config"]
    assert config.get("KernelMemoryTCP") == limit


@each_case("root_agent", [False, True])
@each_case("terminals", [False, True])
def test_terminals_are_available_only_on_request(root_agent: bool, terminals: bool) -> None:
    spec = SandboxSpec(image="x", limits=Limits(), root_agent=root_agent, terminals=terminals)
    masked = container_config(client_of(), spec)["host_config"]["MaskedPaths"]
    assert (TERMINALS in masked) is not terminals
