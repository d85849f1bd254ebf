"""The attacks on the relay: programs that run in a sandbox while the relay of an attempt is open there."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from harness.audit.attack import ATTACKS, Kind, include_parts, name_folder, read_attack_file, read_part
from harness.audit.relay.canary import ReceivedRequest
from harness.core.errors import DataError, unknown_name
from harness.core.text import shorten

# Each program begins with this part.
BEGINNING = "relay_client.py"


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class RelayAttack:
    """A program that attacks the relay of its attempt.

    Attributes:
        may_ask: whether some of its requests are allowed, so that they may reach the server.
    """

    name: str
    kind: Kind
    description: str
    program: str
    may_ask: bool = True


@functools.cache
def list_relay_attacks() -> tuple[RelayAttack, ...]:
    """Return all attacks on the relay by name. Raises DataError, which names the file."""
    beginning = read_part(BEGINNING)
    attacks = []
    for path in sorted((ATTACKS / name_folder(Kind.RELAY)).glob("*.py")):
        file = read_attack_file(path)
        header = {"kind" if key == "class" else key: value for key, value in file.header.items()}
        try:
            attack = RelayAttack(**header, program=f"{beginning}\n\n{include_parts(file.text)}\n")
        except (ValidationError, TypeError) as error:
            raise DataError(f"the attack is not valid: {error}", path=path) from error
        if attack.kind is not Kind.RELAY or attack.name != path.stem:
            raise DataError(
                f"an attack here has the class '{Kind.RELAY}' and the name of its file", path=path
            )
        attacks.append(attack)
    return tuple(attacks)


def choose_relay_attacks(names: Collection[str]) -> tuple[RelayAttack, ...]:
    """Return the attacks with these names, all without names. Raises UsageError for an unknown name."""
    known = {attack.name: attack for attack in list_relay_attacks()}
    for name in names:
        if name not in known:
            raise unknown_name("attack", name, known)
    return tuple(attack for attack in known.values() if not names or attack.name in names)


# Attacks write this word into everything that the relay withholds.
FORBIDDEN = "forbidden"
# The resources of the server that a program may reach, and the methods.
PATHS = frozenset({"/v1/chat/completions", "/v1/responses", "/v1/messages"})
# The types of tools that the program itself runs. Sources: the references of the three APIs.
OWN_TOOLS = re.compile(r"function|custom|local_shell|apply_patch|(bash|text_editor|memory)_20\d{6}")
# Texts that show a part of the host to the sandbox.
HOST_TEXTS = (b"Traceback (most recent call last)", b"site-packages", b"harness/models/relay", b"uvicorn")
_SHOWN = 200


def check_requests(
    requests: Iterable[ReceivedRequest], *, owner: str, mark: str, key: str, model: str
) -> list[str]:
    """Return how the requests that arrived at the server break the rules.

    Args:
        requests: all requests that arrived during an attack.
        owner: the first part of the URL of the attacker's attempt.
        mark: a word that every request of the attacker holds.
        key: the key that every request must have.
        model: the only model that a request may name.
    """
    broken = []
    for request in requests:
        first, _, rest = request.path.lstrip("/").partition("/")
        is_attack = mark.encode() in request.body
        if first != owner:
            if is_attack:
                broken.append(f"a request of the attacker counted for '{shorten(first, 50)}'")
            continue
        place = f"{request.method} /{shorten(rest, 80)}"
        broken += [f"{place}: {each}" for each in _check(request, rest, key, model)]
    return list(dict.fromkeys(broken))


def _check(request: ReceivedRequest, path: str, key: str, model: str) -> Iterator[str]:
    if f"/{path}" not in PATHS or request.method != "POST":
        yield "the relay leads to this resource"
    if FORBIDDEN in unquote(request.query.decode("latin-1")).lower():
        yield f"the query is {request.query[:_SHOWN]!r}"
    for name, value in request.headers:
        if FORBIDDEN in f"{name}: {value}".lower():
            yield f"the header '{name}' came from the sandbox"
    keys = {value for name, value in request.headers if name.lower() in ("authorization", "x-api-key")}
    if not keys or any(value.removeprefix("Bearer ") != key for value in keys):
        yield "the request does not have the key alone"
    text = request.body.decode("utf-8", "replace")
    if FORBIDDEN in text.lower():
        place = text.lower().index(FORBIDDEN)
        yield f"the body holds {text[max(0, place - 60) : place + 60]!r}"
    if not request.is_complete:
        # The server did nothing with it, because the program has gone meanwhile.
        return
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        yield "the body is not JSON"
        return
    if not isinstance(body, dict):
        yield "the body is not an object"
        return
    yield from _check_body(body, model)


def _check_body(body: dict[str, Any], model: str) -> Iterator[str]:
    if body.get("model") != model:
        yield f"it names the model {shorten(repr(body.get('model')), 50)}"
    if body.get("store") not in (None, False):
        yield "it is stored"
    if (body.get("n") or 1) != 1:
        yield f"it asks for {body['n']} choices"
    tools = body.get("tools") or []
    if not isinstance(tools, list):
        yield f"its tools are {type(tools).__name__}"
        return
    for tool in tools:
        # Messages needs no type for a tool of the program.
        kind = tool.get("type", "custom") if isinstance(tool, dict) else None
        if not isinstance(kind, str) or OWN_TOOLS.fullmatch(kind) is None:
            yield f"it has the tool {shorten(repr(tool), _SHOWN)}"


def check_end(requests: Sequence[ReceivedRequest], *, owner: str, ended_at: float) -> list[str]:
    """Return whether a request of the attacker arrived after its relay had ended."""
    late = [
        request
        for request in requests
        if request.path.lstrip("/").startswith(owner) and request.at > ended_at
    ]
    if not late:
        return []
    return [f"{len(late)} requests arrived after the end, the first {late[0].at - ended_at:.2f} s after it"]


def check_received(received: bytes, *, secrets: Sequence[str], host_paths: Sequence[str]) -> list[str]:
    """Return the secrets and the texts of the host among the bytes that came into the sandbox."""
    broken = ["a key came into the sandbox" for secret in secrets if secret.encode() in received]
    for text in (*HOST_TEXTS, *(path.encode() for path in host_paths)):
        if text in received:
            place = received.index(text)
            broken.append(f"the sandbox was shown {received[max(0, place - 60) : place + 60]!r}")
    return broken
