"""The rules by which an audit of the relay finds an attack that worked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from case_checks import each_case

from harness.audit.attack import Kind, choose_attacks
from harness.audit.relay_attacks import (
    ReceivedRequest,
    check_end,
    check_received,
    check_requests,
    list_relay_attacks,
)
from harness.core.errors import UsageError

KEY, MARK, MODEL = "sk-of-the-test", "mark-of-the-test", "model-of-the-test"
BODY: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": MARK}]}


def receive(
    *,
    owner: str = "attacker",
    path: str = "v1/chat/completions",
    method: str = "POST",
    query: bytes = b"",
    headers: tuple[tuple[str, str], ...] = (("authorization", f"Bearer {KEY}"),),
    body: Any = None,
    at: float = 1.0,
    is_complete: bool = True,
) -> ReceivedRequest:
    sent = body if isinstance(body, bytes) else json.dumps(BODY if body is None else body).encode()
    return ReceivedRequest(at, method, f"/{owner}/{path}", query, headers, sent, is_complete)


def check(request: ReceivedRequest) -> list[str]:
    return check_requests([request], owner="attacker", mark=MARK, key=KEY, model=MODEL)


@each_case("path", ["v1/chat/completions", "v1/responses", "v1/messages"])
def test_a_plain_request_breaks_no_rule(path: str) -> None:
    assert check(receive(path=path)) == []


def test_a_request_of_the_neighbour_is_not_checked() -> None:
    assert check(receive(owner="neighbour", headers=(), body={"model": "other"})) == []


@each_case(
    ("request_", "sentence"),
    [
        (receive(owner="neighbour"), "counted for 'neighbour'"),
        (receive(path="v1/files"), "leads to this resource"),
        (receive(path="v1/chat/completions/../../files"), "leads to this resource"),
        (receive(method="DELETE"), "leads to this resource"),
        (receive(query=b"path=%66orbidden"), "the query is"),
        (
            receive(headers=(("authorization", f"Bearer {KEY}"), ("openai-project", "forbidden"))),
            "openai-project",
        ),
        (receive(headers=()), "the key alone"),
        (receive(headers=(("authorization", "Bearer token"),)), "the key alone"),
        (receive(headers=(("authorization", f"Bearer {KEY}"), ("x-api-key", "token"))), "the key alone"),
        (receive(body={**BODY, "user": "Forbidden"}), "the body holds"),
        (receive(body=b"{"), "not JSON"),
        (receive(body=[]), "not an object"),
        (receive(body={**BODY, "model": "gpt"}), "names the model 'gpt'"),
        (receive(body={**BODY, "store": True}), "stored"),
        (receive(body={**BODY, "n": 3}), "3 choices"),
        (receive(body={**BODY, "tools": {}}), None),
        (receive(body={**BODY, "tools": {"type": "function"}}), "its tools are dict"),
        (receive(body={**BODY, "tools": [{"type": "web_search"}]}), "web_search"),
        (receive(body={**BODY, "tools": [{"type": None}]}), "it has the tool"),
        (receive(body={**BODY, "tools": ["function"]}), "it has the tool"),
        (receive(body={**BODY, "tools": [{"type": "function"}, {"name": "look"}]}), None),
        (receive(body=b"{", is_complete=False), None),
    ],
)
def test_each_rule_can_be_broken(request_: ReceivedRequest, sentence: str | None) -> None:
    broken = check(request_)
    if sentence is None:
        assert broken == []
    else:
        assert len(broken) == 1
        assert sentence in broken[0]


def test_only_requests_of_the_attacker_after_the_end_count() -> None:
    requests = [receive(at=1.0), receive(at=5.0, owner="neighbour"), receive(at=3.5), receive(at=4.0)]
    assert check_end(requests, owner="attacker", ended_at=4.0) == []
    assert check_end(requests, owner="attacker", ended_at=3.0) == [
        "2 requests arrived after the end, the first 0.50 s after it"
    ]


@each_case("leak", [KEY, "Traceback (most recent call last)", "/home/user/harness/x.py"])
def test_a_key_and_texts_of_the_host_are_found_among_received_bytes(leak: str) -> None:
    received = b"HTTP/1.1 500\r\n\r\n" + leak.encode()
    assert check_received(b"HTTP/1.1 200\r\n\r\nready", secrets=[KEY], host_paths=["/home/user"]) == []
    assert len(check_received(received, secrets=[KEY], host_paths=["/home/user"])) == 1


def test_every_attack_on_the_relay_is_a_program_of_its_class() -> None:
    attacks = list_relay_attacks()
    assert attacks
    assert {attack.kind for attack in attacks} == {Kind.RELAY}
    for attack in attacks:
        compile(attack.program, attack.name, "exec")
        assert attack.description


def test_an_unknown_attack_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="unknown attack 'slow-client'"):
        choose_attacks(list_relay_attacks(), ["slow-client"])
    assert [attack.name for attack in choose_attacks(list_relay_attacks(), ["slow-clients"])] == [
        "slow-clients"
    ]
