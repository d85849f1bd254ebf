"""The parts of a request that may pass, as tables: all that no table names is withheld and recorded.

A provider offers tools, files and addresses that could lead a model to the references of a benchmark. New
ones come each month, so the tables list what passes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.models.relay.errors import RelayError

MOST_NOTES = 50
_NOTE_CHARACTERS = 120
Fields = Collection[str]
PartFields = Mapping[str, Fields]


@dataclass(slots=True)
class Notes:
    """All that was taken out of a request, for the transcript."""

    withheld: list[str] = field(default_factory=list)
    # Parameters of generation with their values.
    dropped: dict[str, Any] = field(default_factory=dict)

    def withhold(self, text: str) -> None:
        """Note a part that does not pass."""
        shown = text[:_NOTE_CHARACTERS]
        if len(self.withheld) < MOST_NOTES and shown not in self.withheld:
            self.withheld.append(shown)

    def drop(self, name: str, value: Any) -> None:
        """Note a parameter of generation that the run decides."""
        is_short = value is None or isinstance(value, bool | int | float)
        self.dropped[name] = value if is_short else str(value)[:_NOTE_CHARACTERS]


def keep_fields(value: Mapping[str, Any], allowed: Fields, notes: Notes, place: str) -> dict[str, Any]:
    """Return the fields of an object that may pass. A null counts as a missing field."""
    kept = {}
    for name, each in value.items():
        if name in allowed:
            kept[name] = each
        elif each is not None:
            notes.withhold(f"{place}.{name}")
    return kept


def is_inline(url: Any) -> bool:
    """Return whether a URL holds its data itself, so that no server fetches anything."""
    return isinstance(url, str) and url[:5].lower() == "data:"


def is_file_data(data: Any) -> bool:
    """Return whether a text holds a file itself. Base64 has no colon, and every address has one."""
    return isinstance(data, str) and (is_inline(data) or ":" not in data)


def require_list(body: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list in a field. Raises RelayError."""
    value = body.get(name)
    if not isinstance(value, list) or not value:
        raise RelayError(400, "invalid_request", f"'{name}' must be a list that is not empty")
    return value


def list_objects(values: Any, notes: Notes, place: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list. Everything else is withheld."""
    for value in values if isinstance(values, list) else ():
        if isinstance(value, dict):
            yield value
        else:
            notes.withhold(f"{place}: a {type(value).__name__}")


def refuse_stored_state(body: Mapping[str, Any]) -> None:
    """Raise RelayError for a request that needs a state of the server, or that goes on by itself."""
    if body.get("store") not in (None, False):
        raise _refuse("store", "the server must keep nothing of an attempt; send `store: false`")
    if body.get("background") not in (None, False):
        raise _refuse("background", "a request must end with its attempt; leave it out")
    for name in ("previous_response_id", "conversation"):
        if body.get(name) is not None:
            text = "the server keeps no conversation of an attempt; send all messages with each request"
            raise _refuse(name, text)
    if body.get("n") not in (None, 1):
        raise _refuse("n", "each request gets one reply; send several requests")


def name_tool(tool: Mapping[str, Any]) -> str:
    """Return the name of a tool for the notes."""
    name = tool.get("name", tool.get("type"))
    return name if isinstance(name, str) else "?"


def _refuse(name: str, text: str) -> RelayError:
    return RelayError(400, f"{name}_refused", f"the relay refuses `{name}`: {text}")
