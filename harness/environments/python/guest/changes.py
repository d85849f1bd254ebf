"""Bring the changes that a call made to its mutable arguments back to the other side, in place.

Both sides number the mutable containers of a call in the same order. The side that has run the call compares
them with their earlier contents, and sends the new contents if anything has changed.
"""

from __future__ import annotations

import operator

from . import plain
from .conversation import CHANGED, RAISED, VALUE, ChannelBreach
from .decoding import pairs
from .plain import ValueRefused
from .values import check_hashes, check_weight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .encoding import Encoder


def snapshot(containers: Sequence[object]) -> tuple[Any, ...]:
    """Return the contents of mutable containers, each as immutable plain data one level deep."""
    return tuple(map(_contents, containers))


def reply(
    encoder: Encoder, letter: bytes, result: object, containers: Sequence[object], before: tuple[Any, ...]
) -> tuple[bytes, bytes]:
    """Return the message that a call has ended with `letter` and `result`, with its changes if there are any.

    The encoder knows the numbers of `containers`.
    """
    after = snapshot(containers)
    if all(map(_same, before, after)):
        return letter, encoder.encode(result)
    return CHANGED, encoder.encode((letter, result, after))


def apply(value: Any, containers: Sequence[object]) -> tuple[bytes, Any]:
    """Give `containers` the contents that the call left in them. Return how the call ended, and its result.

    Raises ChannelBreach if `value` does not fit them, and LimitReached if they are too costly.
    """
    if type(value) is not tuple or len(value) != 3 or type(value[2]) is not tuple:
        raise ChannelBreach("changed arguments of a wrong shape")
    letter, result, after = value
    if letter not in (VALUE, RAISED) or len(after) > len(containers):
        raise ChannelBreach("changed arguments of no call of ours")
    for container, items in zip(containers, after):
        try:
            restore(container, items)
        except (TypeError, ValueError) as error:
            raise ChannelBreach(f"changed arguments: {error}") from None
    check_weight((result, containers))
    return letter, result


def restore(container: Any, items: Any) -> None:
    """Replace the contents of a mutable container by `items`, in place.

    Raises ValueRefused for a wrong shape.
    """
    if isinstance(container, float):
        return
    if _holds_bytes(container):
        if type(items) is not bytes:
            raise ValueRefused("a container of bytes that holds other items")
        del container[:]
        container.extend(items) if isinstance(container, bytearray) else container.frombytes(items)
        return
    if type(items) is not tuple:
        raise ValueRefused("contents that are not a tuple")
    if isinstance(container, list):
        container[:] = items
    elif isinstance(container, dict):
        entries = pairs(list(items))
        check_hashes([key for key, _value in entries])
        container.clear()
        for key, value in entries:
            container[key] = value
    else:
        if isinstance(container, set):
            check_hashes(items)
        container.clear()
        container.update(items) if isinstance(container, set) else container.extend(items)


def _contents(container: Any) -> tuple[Any, ...] | bytes:
    if isinstance(container, float):
        return ()  # A NaN has a number, as containers have.
    if _holds_bytes(container):
        return bytes(container)
    if isinstance(container, dict):
        return tuple(container.items())
    return tuple(container)


def _holds_bytes(container: object) -> bool:
    """Return whether a container is a bytearray or an array, which hold numbers and no objects."""
    kind = plain.base_of(type(container))
    return isinstance(container, bytearray) or (kind.__module__ == "array" and plain.in_library(kind))


def _same(before: Any, after: Any) -> bool:
    """Return whether a container holds the same objects as before.

    It compares identity, so it calls no `__eq__`.
    """
    if type(before) is bytes or type(after) is bytes:
        return type(before) is type(after) and bytes(before) == bytes(after)
    if len(before) != len(after):
        return False
    for old, new in zip(before, after):
        if old is not new and not (
            type(old) is type(new) is tuple and len(old) == len(new) == 2 and all(map(operator.is_, old, new))
        ):
            return False
    return True
