"""Text for people about values and exceptions: bounded before it is built, whatever the value is."""

from __future__ import annotations

import sys

from .remote import RemoteObject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

MAX_TEXT = 600
MAX_SHOWN = 300
# A value is shown to this depth and this many items, so that shared nesting cannot multiply the work.
MAX_DEPTH = 12
MAX_ITEMS = 100
# Digits cost more than linear time: a longer number is shown by its length.
MAX_NUMBER_BITS = 4096
_BRACKETS: dict[Any, Any] = {list: "[]", tuple: "()", set: "{}", frozenset: ("frozenset({", "})"), dict: "{}"}


def bound(text: str, limit: int) -> str:
    """Return a text, or its start and its length where it is longer than `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 20]} ... ({len(text)} characters)"


def show(value: object, limit: int = MAX_SHOWN) -> str:
    """Return a value as Python writes it, cut at about `limit` characters. The cut comes before the work."""
    parts: list[str] = []
    room = limit
    for part in _parts(value, limit):
        parts.append(part)
        room -= len(part)
        if room < 0:
            parts.append(" ...")
            break
    return bound("".join(parts), limit + 40)


def describe(error: BaseException) -> str:
    """Return an exception's name and message, bounded."""
    args = error.args
    try:
        if len(args) == 1 and type(args[0]) is not str and not _has_own_text(error):
            message = show(args[0], MAX_TEXT)
        elif len(args) > 1 and not _has_own_text(error):
            message = show(args, MAX_TEXT)
        else:
            message = bound(str(error), MAX_TEXT)
    except Exception:
        message = ""
    return type(error).__name__ + (f": {message}" if message else "")


def _has_own_text(error: BaseException) -> bool:
    """Say whether its class makes the text in its own way, from arguments that it was given for that."""
    return type(error).__str__ not in (BaseException.__str__, Exception.__str__)


def _parts(value: Any, limit: int) -> Iterator[str]:
    """Yield the text of a value piece by piece, in order; whoever has enough stops asking."""
    stack: list[Iterator[Any]] = [iter((value,))]
    closing: list[str] = []
    started: list[bool] = [True]
    while stack:
        for item in stack[-1]:
            if not started[-1]:
                yield ", "
            started[-1] = False
            kind = type(item)
            if kind is _Text:
                yield item.text
                continue
            if kind in _BRACKETS and (item or kind not in (set, frozenset)):
                opening, end = _BRACKETS[kind]
                yield opening
                if len(stack) > MAX_DEPTH:
                    yield "..."
                    yield end
                    continue
                stack.append(_items(item, kind))
                closing.append(",)" if kind is tuple and len(item) == 1 else end)
                started.append(True)
                break
            yield _scalar(item, limit)
        else:
            stack.pop()
            started.pop()
            if closing:
                yield closing.pop()


class _Text:
    """A piece of text that stands for itself among the items of a container."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _items(container: Any, kind: type) -> Iterator[Any]:
    items: Iterable[Any] = container.items() if kind is dict else container
    for number, item in enumerate(items):
        if number == MAX_ITEMS:
            yield _Text(f"... ({len(container)} in all)")
            return
        if kind is dict:
            key, inner = item
            # A value with items of its own is shown as one piece: dictionaries in dictionaries stay short.
            yield _Text(f"{show(key, 80)}: {show(inner, 160)}")
        else:
            yield item


def _scalar(value: Any, limit: int) -> str:
    kind = type(value)
    try:
        if kind in (str, bytes, bytearray):
            cut = value[: limit + 1]
            return repr(cut) if len(value) <= limit else f"{cut!r} ({len(value)} long)"
        if kind is int and value.bit_length() > MAX_NUMBER_BITS:
            return f"<an integer of {value.bit_length()} bits>"
        if kind in (int, float, complex, bool, range, type(None), type(...)):
            return repr(value)
        return _of_others(value, kind, limit)
    except Exception as error:
        return f"<a {kind.__name__} whose text raised {type(error).__name__}>"


def _of_others(value: Any, kind: type, limit: int) -> str:
    """Show a value of a standard library's type, or of the tests' own, by no more than its start."""
    if isinstance(value, RemoteObject):
        return RemoteObject.__repr__(value)  # its own would ask the program
    name = kind.__name__
    if name == "Fraction":
        return f"Fraction({show(value.numerator, 60)}, {show(value.denominator, 60)})"
    if name == "Decimal":
        digits = sys.getsizeof(value)
        return repr(value) if digits < MAX_NUMBER_BITS else f"<a Decimal of {digits} bytes>"
    if name in ("deque", "dict_keys", "dict_values", "dict_items"):
        return f"{name}({show(_start(value), limit)})"
    if name in ("Counter", "OrderedDict", "defaultdict"):
        return f"{name}({show(dict(zip(_start(value), _start(value.values()))), limit)})"
    if isinstance(value, BaseException):
        return describe(value)
    return bound(repr(value), limit)


def _start(values: Iterable[Any]) -> list[Any]:
    return [item for item, _ in zip(values, range(MAX_ITEMS))]
