"""The seccomp profile as the engine gets it: the allowed calls and entry points."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.sandbox.backends import seccomp

ALLOW = "SCMP_ACT_ALLOW"
# By profile and by the requested sockets: local, IPv4, IPv6, netlink.
FAMILIES: list[tuple[str, str, list[int]]] = [
    ("default", "local", [1]),
    ("default", "all", [1, 2, 10, 16]),
    ("strict", "local", [1]),
    ("strict", "internet", [1]),
    ("strict", "all", [1]),
]
# All flags of clone(2) that make a namespace.
NEW_NAMESPACES = 0x7E020000


@pytest.fixture(params=["default", "strict", "shared"])
def name(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def profile(name: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(seccomp.profile(name))
    return loaded


def equal(argument: int, value: int) -> dict[str, Any]:
    return {"index": argument, "op": "SCMP_CMP_EQ", "value": value}


def rules_for(profile: dict[str, Any], call: str) -> list[dict[str, Any]]:
    return [rule for rule in profile["syscalls"] if call in rule["names"]]


def test_every_call_that_is_not_named_is_refused(profile: dict[str, Any]) -> None:
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"


def test_neither_x32_nor_32_bit_calls_are_allowed(profile: dict[str, Any]) -> None:
    # The profile names no further architecture, so the kernel ends a process that calls by another one.
    assert profile["archMap"] == [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
    ]


@each_case(("name", "sockets", "families"), FAMILIES, ids=str)
def test_sockets_are_allowed_by_family(name: Any, sockets: Any, families: list[int]) -> None:
    profile = json.loads(seccomp.profile(name, sockets=sockets))
    allowed = [rule["args"] for rule in rules_for(profile, "socket") if rule["action"] == ALLOW]
    assert allowed == [[equal(0, family)] for family in families]


def test_relayed_sockets_are_those_of_tcp_by_ipv4() -> None:
    profile = json.loads(seccomp.profile("default", sockets="relayed"))
    allowed = [rule["args"] for rule in rules_for(profile, "socket") if rule["action"] == ALLOW]
    flags = [sum(chosen) for chosen in itertools.product((0, 0o4000), (0, 0o2000000))]
    tcp = itertools.product([equal(0, 2)], [equal(1, 1 + flag) for flag in flags], [equal(2, 0), equal(2, 6)])
    assert sorted(map(str, allowed)) == sorted(map(str, [[equal(0, 1)], *map(list, tcp)]))


@given(
    level=st.sampled_from([0, 1, 2, 3, 6, 2**31, 2**32 - 1]) | st.integers(0, 2**32 - 1),
    option=st.integers(0, 16) | st.integers(0, 2**32 - 1),
    high=st.integers(0, 2**32 - 1),
)
def test_every_option_is_allowed_but_the_sizes_of_buffers(level: int, option: int, high: int) -> None:
    profile = json.loads(seccomp.profile("default", sockets="relayed"))
    arguments = [0, high << 32 | level, high << 32 | option]
    allowed = any(
        all(arguments[check["index"]] & check["value"] == check["valueTwo"] for check in rule["args"])
        for rule in rules_for(profile, "setsockopt")
    )
    assert allowed == ((level, option) not in ((1, 7), (1, 8)))


def test_internet_sockets_are_those_of_tcp_and_udp() -> None:
    profile = json.loads(seccomp.profile("default", sockets="internet"))
    allowed = [rule["args"] for rule in rules_for(profile, "socket") if rule["action"] == ALLOW]
    families = [[equal(0, 2), equal(0, 10)], [equal(2, 0), equal(2, 6), equal(2, 17)]]
    assert sorted(map(str, allowed)) == sorted(
        map(str, [[equal(0, 1)], *map(list, itertools.product(*families))])
    )


def test_a_process_is_cloned_into_no_new_namespace(profile: dict[str, Any]) -> None:
    (rule,) = rules_for(profile, "clone")
    assert rule["args"] == [{"index": 0, "op": "SCMP_CMP_MASKED_EQ", "value": NEW_NAMESPACES, "valueTwo": 0}]


DANGEROUS = [
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "bpf", "perf_event_open"),
    *("io_uring_setup", "userfaultfd", "keyctl", "add_key", "mount", "umount2", "unshare", "setns"),
    *("open_by_handle_at", "fanotify_init", "kexec_load", "init_module", "chroot", "pivot_root"),
]


def test_no_rule_names_a_dangerous_call(profile: dict[str, Any]) -> None:
    assert [call for call in DANGEROUS if rules_for(profile, call)] == []


def test_system_v_ipc_and_message_queues_are_refused_to_graded_programs() -> None:
    strict = json.loads(seccomp.profile("strict"))
    calls = ("shmget", "shmat", "msgget", "semget", "mq_open", "mq_timedsend")
    assert [call for call in calls if rules_for(strict, call)] == []


def test_in_a_shared_network_no_socket_can_be_opened_named_or_reached() -> None:
    shared = json.loads(seccomp.profile("shared"))
    calls = ("socket", "bind", "listen", "connect", "accept", "accept4", "setsockopt")
    assert [call for call in calls if rules_for(shared, call)] == []


def test_in_a_shared_network_only_stream_and_seqpacket_sockets_come_in_pairs() -> None:
    shared = json.loads(seccomp.profile("shared"))
    flags = [sum(chosen) for chosen in itertools.product((0, 0o4000), (0, 0o2000000))]
    kinds = sorted(kind + flag for kind in (1, 5) for flag in flags)
    allowed = [rule["args"] for rule in rules_for(shared, "socketpair")]
    assert sorted(map(str, allowed)) == sorted(str([equal(0, 1), equal(1, kind)]) for kind in kinds)


def test_in_a_shared_network_no_option_of_a_socket_counts_sockets() -> None:
    shared = json.loads(seccomp.profile("shared"))
    allowed = [rule["args"] for rule in rules_for(shared, "getsockopt")]
    # SO_TYPE, SO_ERROR, SO_PROTOCOL and SO_DOMAIN of SOL_SOCKET.
    assert allowed == [[equal(1, 1), equal(2, option)] for option in (3, 4, 38, 39)]
