"""Bounds on the cost of a whole value: of its comparison, of its writing, and of its keys."""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from itertools import chain

from .converted import Lookalike, base_of
from .values import KINDS, LimitReached, tag_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

# Keys with the same hash are compared with each other, and the time for that grows with the square of their
# number.
MAX_SAME_HASH = 256

# A comparison visits a shared list once for each path to it. This many items take about a second.
MAX_WEIGHT = 20_000_000


def check_weight(
    root: object, most: int = MAX_WEIGHT, *, handles: bool = True, as_written: bool = False
) -> None:
    """Check that a value costs no more than `most` to compare or to show, or to write if `as_written`.

    A shared value counts once for each path to it. A value inside itself adds nothing. Raises LimitReached,
    and also if `handles` is false and the value contains an object that is not plain data.
    """
    weights: dict[int, int] = {}
    path: list[tuple[object, Iterator[object]]] = [(None, iter((root,)))]
    totals = [0]
    while True:
        container, children = path[-1]
        for child in children:
            kind = base_of(type(child))
            if kind not in _WEIGHED and not issubclass(type(child), (tuple, Lookalike)):
                if not handles and kind not in _PLAIN and tag_of(kind) is None:
                    raise LimitReached("an object that is not plain data")
                totals[-1] += 1 + (child.nbytes if type(child) is memoryview else sys.getsizeof(child)) // 64
                continue
            weight = weights.get(id(child))
            if weight is None:
                weights[id(child)] = 0
                path.append((child, _children(child)))
                totals.append(1)
                break
            if not as_written or issubclass(kind, (tuple, frozenset)) or kind is slice:
                totals[-1] += weight  # Every other value is written once, and later by its number.
        else:
            path.pop()
            total = totals.pop()
            if total > most:
                raise LimitReached(
                    f"the value has more than {most:,} items, counted as often as there are ways to each"
                )
            if not path:
                return
            weights[id(container)] = total
            totals[-1] += total


def _children(container: Any) -> Iterator[object]:
    if issubclass(type(container), Lookalike):
        return iter((container._data,))
    if type(container) is slice:
        return iter((container.start, container.stop, container.step))
    if isinstance(container, defaultdict) and not isinstance(container.default_factory, type):
        # Its text contains its factory's text, which may be an object of the program.
        return chain(container.keys(), container.values(), (container.default_factory,))
    if isinstance(container, dict):
        return chain(container.keys(), container.values())
    if isinstance(container, tuple):
        return tuple.__iter__(container)
    return chain.from_iterable(container) if type(container) is _ITEMS_VIEW else iter(container)


_ITEMS_VIEW: Any = type({}.items())

_WEIGHED = frozenset(
    (
        *KINDS,
        Counter,
        OrderedDict,
        defaultdict,
        deque,
        slice,
        *map(type, ({}.keys(), {}.values())),
        _ITEMS_VIEW,
    )
)

_PLAIN = frozenset(
    (*(type(None), type(...), bool, int, float, complex, str, bytes, bytearray), range, memoryview)
)


def check_hashes(keys: Sequence[Any]) -> None:
    """Check that not too many keys have the same hash, because they are compared. Raises LimitReached."""
    if len(keys) > MAX_SAME_HASH and max(Counter(map(hash, keys)).values()) > MAX_SAME_HASH:
        raise LimitReached(f"the value has more than {MAX_SAME_HASH} keys that share a hash")
