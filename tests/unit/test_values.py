"""Plain data crosses the boundary with exact types at every depth, and bytes can build nothing else."""

# mypy: disable-error-code="misc, type-arg, comparison-overlap"
# Values that lie about themselves break the rules of their base classes on purpose.

from __future__ import annotations

import contextlib
import datetime
import enum
import math
import struct
import sys
import tracemalloc
from array import array
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.environments.python.guest import changes, values
from harness.environments.python.guest.decoding import Decoder
from harness.environments.python.guest.encoding import Encoder
from harness.environments.python.guest.plain import ValueRefused, base_of
from harness.environments.python.guest.values import LimitReached

EMPTY: dict[Any, Any] = {}
ITEMS_VIEW, KEYS_VIEW, VALUES_VIEW = type(EMPTY.items()), type(EMPTY.keys()), type(EMPTY.values())
SCALARS = (type(None), type(...), bool, int, float, complex, str, bytes)
DATES = (datetime.date, datetime.time, datetime.datetime, datetime.timedelta)
LEAVES = (*SCALARS, *DATES, bytearray, Decimal, Fraction, range, slice, array, memoryview)
SEQUENCES = (list, tuple, deque, VALUES_VIEW)
MAPPINGS = (dict, Counter, OrderedDict, defaultdict)
SETS = (set, frozenset, KEYS_VIEW)


class Handle(NamedTuple):
    """The stand-in for a value that is not plain data."""

    kind: int
    number: int
    description: object = None


def refuse(value: object) -> tuple[int, int, object]:
    raise ValueRefused(f"{type(value).__name__} is not plain data")


def encoded(value: object) -> bytes:
    return Encoder(refuse).encode(value)


def decoded(data: bytes) -> Any:
    return Decoder(Handle).decode(data)


def crossed(value: object) -> Any:
    return decoded(encoded(value))


def identical(a: Any, b: Any, pairs: dict[int, int] | None = None) -> bool:
    """Return whether two values are the same to the last bit and type, aliases and cycles included."""
    pairs = {} if pairs is None else pairs
    kind = type(a)
    if kind is not type(b):
        return False
    if isinstance(a, (list, set, dict, deque, bytearray)):
        if id(a) in pairs:
            return pairs[id(a)] == id(b)
        pairs[id(a)] = id(b)
    if kind is float:
        return struct.pack(">d", a) == struct.pack(">d", b)
    if kind is complex:
        return struct.pack(">dd", a.real, a.imag) == struct.pack(">dd", b.real, b.imag)
    if kind is Decimal:
        return bool(a.as_tuple() == b.as_tuple())
    if kind in (datetime.time, datetime.datetime):
        return bool(a == b and a.fold == b.fold and a.utcoffset() == b.utcoffset())
    if kind in LEAVES:
        return bool(a == b)
    if len(a) != len(b):
        return False
    if kind is deque and a.maxlen != b.maxlen:
        return False
    if kind in MAPPINGS or kind is ITEMS_VIEW:
        a, b = ([part for item in (x.items() if kind in MAPPINGS else x) for part in item] for x in (a, b))
    elif kind in SETS:
        counterparts = {element: element for element in b}
        if any(element not in counterparts for element in a):
            return False
        a, b = list(a), [counterparts[element] for element in a]
    return all(identical(x, y, pairs) for x, y in zip(a, b, strict=True))


def all_listed(value: Any, seen: set[int] | None = None) -> bool:
    """Return whether a value consists of the listed types only, at every depth."""
    seen = set() if seen is None else seen
    kind = base_of(type(value))
    if id(value) in seen or kind in LEAVES:
        return True
    if type(value) is Handle:
        return type(value.kind) is int and type(value.number) is int
    seen.add(id(value))
    if kind in MAPPINGS or kind is ITEMS_VIEW:
        items = value.items() if kind in MAPPINGS else value
        return all(all_listed(part, seen) for item in list(items) for part in item)
    if kind in SEQUENCES or kind in SETS:
        return all(all_listed(part, seen) for part in list(value))
    return False


# One NaN is not equal to another, so a separate test has it as a key and as an element.
TEXT = st.text(st.characters(), max_size=8)
OFFSETS = st.timedeltas(datetime.timedelta(hours=-23), datetime.timedelta(hours=23))
ZONES = st.none() | OFFSETS.map(datetime.timezone)
FOLD = st.integers(0, 1)


def folded(clock: Any, fold: int, zone: datetime.timezone | None) -> Any:
    return clock.replace(fold=fold, tzinfo=zone)


SIMPLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**64) - 2, 2**64 + 2),
    st.floats(allow_nan=False),
    st.complex_numbers(allow_nan=False),
    TEXT,
    st.binary(max_size=8),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.dates(),
    st.timedeltas(),
    st.builds(folded, st.times(), FOLD, ZONES),
    st.builds(folded, st.datetimes(), FOLD, ZONES),
    st.builds(range, st.integers(), st.integers(), st.integers().filter(bool)),
)
HASHABLE = st.recursive(
    SIMPLE,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, max_size=4)
    pairs = st.lists(st.tuples(HASHABLE, inner), max_size=3)
    return st.one_of(
        some,
        some.map(tuple),
        some.map(lambda items: dict(enumerate(items)).values()),
        st.builds(deque, some, st.none() | st.integers(0, 5)),
        pairs.map(dict),
        pairs.map(OrderedDict),
        pairs.map(lambda items: Counter(dict(items))),
        pairs.map(lambda items: defaultdict(None, items)),
        pairs.map(lambda items: dict(items).items()),
        pairs.map(lambda items: dict(items).keys()),
        st.sets(HASHABLE, max_size=3),
        st.frozensets(HASHABLE, max_size=3),
    )


PLAIN = st.recursive(
    HASHABLE
    | st.floats()
    | st.complex_numbers()
    | st.decimals().filter(lambda value: not value.is_snan())
    | st.binary(max_size=8).map(bytearray),
    containers,
    max_leaves=8,
)


@given(PLAIN)
def test_a_value_is_identical_after_crossing(value: Any) -> None:
    assert identical(value, crossed(value))


@each_case(
    "value",
    [
        *(0.0, -0.0, math.inf, -math.inf, 5e-324, complex(-0.0, -0.0), complex(math.nan, -math.inf)),
        *(Decimal("-0"), Decimal("1.10"), Decimal("-Infinity"), Decimal("1E+999999"), Fraction(-(10**40), 3)),
        *(2**63 - 1, 2**63, -(2**63), -(2**63) - 1),
        *(range(0), range(10**30, -(10**30), -7), slice(1, None, "x")),
        *("\ud800", "\udfff\ud800\U0010ffff\x00", b"\x00\xff", bytearray(b"\x00\xff"), (), frozenset()),
        *(array("d", [1.5, math.inf]), deque([1, 2, 3], 3), deque(maxlen=0)),
        *(datetime.date.max, datetime.timedelta.min, datetime.timedelta.max, datetime.datetime.max),
        datetime.time(1, 2, 3, 4, fold=1),
        datetime.datetime(
            2020, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(seconds=3661, microseconds=5))
        ),
        {1: "a", "1": b"a", b"1": 1.0},
        [True, 1, 1.0, (1 + 0j), Decimal(1), Fraction(1)],
        {"order": 1, "of": 2, "insertion": 3},
        {1: 2, 3: 4}.keys(),
        {1: 2, 3: 4}.values(),
        {1: 2, 3: 4}.items(),
        [([(1,)],), {"k": ([],)}, deque([(1, [2])])],
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_extreme_value_crosses_identically(value: object) -> None:
    assert identical(value, crossed(value))


def test_nan_keeps_every_bit_of_it() -> None:
    for bits in (0x7FF8000000000000, 0xFFF8000000000001, 0x7FF8DEADBEEF0001):
        (value,) = struct.unpack(">d", bits.to_bytes(8, "big"))
        assert struct.pack(">d", crossed(value)) == bits.to_bytes(8, "big")


def test_nan_can_be_an_element_and_a_key() -> None:
    assert math.isnan(crossed({math.nan}).pop())
    assert math.isnan(next(iter(crossed({math.nan: 1}))))


def test_an_integer_of_a_million_digits_crosses() -> None:
    value = -(7**1_200_000)
    assert crossed(value) == value


def test_the_order_of_a_dictionary_survives() -> None:
    ordered = OrderedDict(a=1, b=2, c=3)
    ordered.move_to_end("a")
    assert list(crossed(ordered)) == ["b", "c", "a"]


def test_a_zone_arrives_as_its_offset() -> None:
    moment = datetime.datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("UTC"))
    got = crossed(moment)
    assert got == moment
    assert got.tzinfo == datetime.UTC


def test_a_time_whose_zone_has_no_offset_is_refused() -> None:
    class Nowhere(datetime.tzinfo):
        def utcoffset(self, _moment: datetime.datetime | None) -> None:
            return None

        dst = tzname = utcoffset

    with pytest.raises(ValueRefused):
        encoded(datetime.time(1, tzinfo=Nowhere()))


@each_case("view", ["keys", "values", "items"])
def test_a_view_of_an_ordered_dictionary_crosses_as_a_view(view: str) -> None:
    original = getattr(OrderedDict(a=1, b=2), view)()
    assert list(crossed(original)) == list(original)


# Subclasses cross as the plain data inside, whatever their methods return.


class Colour(enum.IntEnum):
    RED = 3


class Word(enum.StrEnum):
    YES = "yes"


class Flags(enum.IntFlag):
    BOTH = 3


Point = namedtuple("Point", ["x", "y"])


class LyingInt(int):
    def __pos__(self) -> int:
        return 9

    __int__ = __index__ = __neg__ = __abs__ = __pos__


class LyingFloat(float):
    def __float__(self) -> float:
        return 9.0

    __pos__ = __float__


class LyingStr(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "lie"

    def __len__(self) -> int:
        return 99

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__

    def encode(self, *_args: object) -> bytes:
        return b"lie"


class LyingBytes(bytes):
    def __bytes__(self) -> bytes:
        return b"lie"

    def __len__(self) -> int:
        return 99

    def __iter__(self) -> Any:
        return iter(b"lie")


class LyingBytearray(bytearray):
    __len__ = LyingBytes.__len__
    __iter__ = LyingBytes.__iter__
    __bytes__ = LyingBytes.__bytes__


class Lying:
    """A mixin for containers: other items, another length, equal to everything, of another class."""

    def __iter__(self) -> Any:
        return iter([("lie", "lie")])

    def __len__(self) -> int:
        return 99

    def __getitem__(self, _key: object) -> str:
        return "lie"

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def items(self) -> Any:
        return iter([("lie", "lie")])

    @property
    def __class__(self) -> type:
        return int


def lying(plain: Any) -> Any:
    """Return a container with the items of `plain` that lies about them."""
    return type(f"Lying{type(plain).__name__}", (Lying, type(plain)), {})(plain)


CONTAINERS = [[1, 2], (1, 2), {1, 2}, frozenset({1, 2}), {"a": 1}, Counter({"a": 1}), OrderedDict({"a": 1})]


@each_case(
    ("value", "plain"),
    [
        (Colour.RED, 3),
        (Word.YES, "yes"),
        (Flags.BOTH, 3),
        (Point(1, [2]), (1, [2])),
        (LyingInt(3), 3),
        (LyingFloat(3.5), 3.5),
        (LyingStr("truth"), "truth"),
        (LyingBytes(b"truth"), b"truth"),
        (LyingBytearray(b"truth"), bytearray(b"truth")),
        *((lying(plain), plain) for plain in CONTAINERS),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_subclass_crosses_as_the_plain_data_in_it(value: object, plain: object) -> None:
    assert identical(crossed([value]), [plain])


def test_a_subclass_crosses_as_plain_data_inside_keys_and_elements() -> None:
    value = {Colour.RED: {LyingStr("a")}, Point(1, Word.YES): frozenset({LyingInt(4)})}
    assert identical(crossed(value), {3: {"a"}, (1, "yes"): frozenset({4})})


@each_case(
    "value",
    [
        object(),
        len,
        int,
        NotImplemented,
        iter([1]),
        memoryview(b"abcd").cast("B", (2, 2)),
        Decimal("sNaN123"),
        datetime.UTC,
        Exception("x"),
        type("Pretender", (), {"__module__": "decimal", "__qualname__": "Decimal"})(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_not_plain_data_crosses_as_a_handle(value: object) -> None:
    assert Decoder(Handle).decode(Encoder(lambda _value: (2, 77, None)).encode([value])) == [Handle(2, 77)]


def test_a_refused_handle_refuses_the_whole_value() -> None:
    with pytest.raises(ValueRefused):
        encoded([1, {"deep": (object(),)}])


# Aliases and cycles.


@each_case("make", [list, dict, set, bytearray, deque, OrderedDict, Counter, defaultdict])
def test_an_alias_stays_an_alias(make: Callable[[], Any]) -> None:
    shared = make()
    first, (second,), other = crossed([shared, (shared,), make()])
    assert first is second
    assert first is not other


def test_an_alias_of_a_subclass_stays_an_alias() -> None:
    shared = lying([1])
    first, second = crossed([shared, shared])
    assert first is second


def in_itself(value: Any, put: Callable[[Any], object]) -> Any:
    put(value)
    return value


@each_case(
    "value",
    [
        in_itself([1], lambda value: value.append(value)),
        in_itself([], lambda value: value.append((value, 1))),
        in_itself(deque([1], 5), lambda value: value.append(value)),
        in_itself(deque([[]]), lambda value: value[0].append(value)),
        *(in_itself(make(), lambda value: value.update(me=value)) for make in (dict, OrderedDict)),
        in_itself(defaultdict(), lambda value: value.update(me=value)),
        in_itself(Counter(), lambda value: dict.update(value, me=value)),
    ],
)
def test_a_container_that_contains_itself_crosses(value: object) -> None:
    assert identical(value, crossed(value))


def test_a_tuple_that_contains_itself_is_refused() -> None:
    inner: list[Any] = []
    value = (inner,)
    inner.append(value)
    with pytest.raises(ValueRefused, match="contains itself"):
        encoded(value)


def test_the_same_tuple_twice_is_no_cycle() -> None:
    shared = (1, [2])
    got = crossed((shared, shared))
    assert got == (shared, shared)
    assert got[0][1] is got[1][1]


def test_known_containers_are_referred_to_by_the_next_message() -> None:
    arguments: list[Any] = [[1], {"a": 2}]
    there = Encoder(refuse)
    received = Decoder(Handle)
    copies = received.decode(there.encode(arguments))
    back = Encoder(refuse, received.containers).encode((copies[1], copies[0]))
    got = Decoder(Handle, there.containers).decode(back)
    assert got[0] is arguments[1]
    assert got[1] is arguments[0]


# Depth and size.


def depth_of(value: Any) -> int:
    depth = 0
    while value:
        value = value[0]
        depth += 1
    return depth


@each_case("make", [lambda inner: [inner], lambda inner: (inner,)], ids=["list", "tuple"])
def test_nesting_far_beyond_the_recursion_limit_crosses(make: Callable[[Any], Any]) -> None:
    value = make(None)
    for _ in range(20_000):
        value = make(value)
    assert depth_of(crossed(value)) == 20_001


def test_nesting_beyond_the_bound_is_refused_by_the_encoder() -> None:
    value: list[Any] = []
    for _ in range(values.MAX_DEPTH + 10):
        value = [value]
    with pytest.raises(LimitReached, match="nested more than 100,000 levels"):
        encoded(value)


def test_the_deepest_tuple_can_be_a_key_and_an_element() -> None:
    deep = (b"t" + b"\0\0\0\1") * (values.MAX_DEPTH - 10) + b"N"
    assert depth_of(next(iter(decoded(b"d\0\0\0\1" + deep + b"N")))) == values.MAX_DEPTH - 10


@each_case("value", ["x" * values.MAX_BYTES, [bytes(1 << 24)] * 3], ids=["one", "sum"])
def test_a_value_over_the_bound_is_refused_by_the_encoder(value: object) -> None:
    with pytest.raises(LimitReached, match="more than 33,554,432 bytes"):
        encoded(value)


def test_tuples_that_double_are_refused_before_they_fill_the_memory() -> None:
    value: Any = "x" * 1000
    for _ in range(60):
        value = (value, value)
    with pytest.raises(LimitReached, match="more than 4,000,000 items"):
        encoded(value)


def test_tuples_that_share_much_cross_if_their_copies_are_within_the_bounds() -> None:
    shared = tuple(str(n) for n in range(2000))
    rows = [[0] * 3000] * 3000
    assert crossed([shared] * 5 + rows) == [shared] * 5 + rows


def test_shared_lists_are_refused_by_the_number_of_ways_to_them() -> None:
    value: list[Any] = [1]
    for _ in range(30):
        value = [value, value]
    with pytest.raises(LimitReached, match="20,000,000 items, counted as often as there are ways"):
        crossed(value)


@each_case("make", [dict.fromkeys, set, frozenset, lambda keys: dict.fromkeys(keys).keys(), Counter])
def test_keys_that_share_a_hash_are_refused_above_their_bound(make: Callable[[Any], Any]) -> None:
    same = [n * (2**61 - 1) for n in range(values.MAX_SAME_HASH + 1)]
    assert len(crossed(make(same[1:]))) == values.MAX_SAME_HASH
    with pytest.raises(LimitReached, match="share a hash"):
        crossed(make(same))


@each_case(
    ("data", "limit"),
    [
        ((b"l" + b"\0\0\0\1") * (values.MAX_DEPTH + 10) + b"N", "more than 100,000 levels"),
        (b"N" * (values.MAX_BYTES + 1), "more than 33,554,432 bytes"),
        (b"l" + (2_000_001).to_bytes(4, "big") + b"N" * 2_000_001, "2,000,000 items"),
        (b"l" + (100_001).to_bytes(4, "big") + (b"H" + bytes(5)) * 100_001, "100,000 objects"),
        (b"i" + (600_000).to_bytes(4, "big") + b"\1" * 600_000, "1,200,000 digits"),
        (b"m" + Encoder(refuse).encode("1E+2000000"), "1,200,000 digits"),
        (b"q" + Encoder(refuse).encode(3**600_000) + Encoder(refuse).encode(7**400_000), "fractions"),
    ],
    ids=["depth", "bytes", "items", "handles", "digits", "exponent", "fraction"],
)
def test_the_decoder_has_the_same_bounds_as_the_encoder(data: bytes, limit: str) -> None:
    with pytest.raises(LimitReached, match=limit):
        decoded(data)


def test_a_signalling_nan_is_refused_by_the_decoder() -> None:
    with pytest.raises(ValueRefused, match="signalling"):
        decoded(b"m" + encoded("sNaN"))


# Hostile bytes.


def require_refused_or_listed(data: bytes) -> None:
    with contextlib.suppress(ValueRefused, LimitReached):
        assert all_listed(decoded(data))


@given(st.binary(max_size=64))
def test_arbitrary_bytes_are_refused_or_make_listed_types(data: bytes) -> None:
    require_refused_or_listed(data)


TAGS = b"NTFjifcsbBtlSZdCODQRXMALPkvemqyhwurHx"


@given(
    st.lists(
        st.sampled_from([bytes([tag]) for tag in TAGS])
        | st.integers(0, 3).map(lambda number: number.to_bytes(4, "big"))
        | st.sampled_from([encoded(value) for value in (0, 1, "a", b"", (), 1.5, None, -1, "1.5")]),
        max_size=20,
    ).map(b"".join)
)
def test_bytes_of_the_right_vocabulary_are_refused_or_make_listed_types(data: bytes) -> None:
    require_refused_or_listed(data)


@given(value=PLAIN, data=st.data())
def test_a_changed_encoding_is_refused_or_makes_listed_types(value: Any, data: st.DataObject) -> None:
    mutated = bytearray(encoded(value))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(mutated)))
        piece = data.draw(st.binary(max_size=5) | st.sampled_from(TAGS).map(lambda tag: bytes([tag])))
        mutated[place : place + data.draw(st.integers(0, 5))] = piece
    require_refused_or_listed(bytes(mutated))


@given(value=PLAIN, data=st.data())
def test_a_cut_encoding_is_refused(value: Any, data: st.DataObject) -> None:
    whole = encoded(value)
    with pytest.raises(ValueRefused):
        decoded(whole[: data.draw(st.integers(0, len(whole) - 1))])


def count(number: int) -> bytes:
    return number.to_bytes(4, "big")


def item(tag: bytes, *parts: object) -> bytes:
    return tag + b"".join(encoded(part) for part in parts)


def several(tag: bytes, *parts: object) -> bytes:
    return tag + count(len(parts)) + b"".join(encoded(part) for part in parts)


@each_case(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"?", id="unknown tag"),
        pytest.param(b"NN", id="bytes after the value"),
        pytest.param(b"j\0", id="half an integer"),
        pytest.param(b"f\0\0", id="half a float"),
        pytest.param(b"i\0\0", id="half a length"),
        pytest.param(b"s" + count(5) + b"abcd", id="text longer than its data"),
        pytest.param(b"b" + count(0xFFFFFFFF), id="bytes longer than their data"),
        pytest.param(b"s" + count(2) + b"\xff\xfe", id="text that is not UTF-8"),
        pytest.param(b"l" + count(1), id="list without its item"),
        pytest.param(b"l" + count(0xFFFFFFFF) + b"N", id="list longer than its data"),
        pytest.param(b"d" + count(0x80000000), id="dictionary longer than its data"),
        pytest.param(b"Q" + count(0xFFFFFFFF) + b"N", id="deque longer than its data"),
        pytest.param(b"r" + count(0), id="reference to nothing"),
        pytest.param(b"l" + count(1) + b"r" + count(1), id="reference to what has not come yet"),
        pytest.param(b"S" + count(1) + b"l" + count(0), id="list as an element"),
        pytest.param(b"S" + count(1) + b"r" + count(0), id="set inside itself"),
        pytest.param(b"Z" + count(1) + b"t" + count(1) + b"l" + count(0), id="list in an element"),
        pytest.param(b"d" + count(1) + b"r" + count(0) + b"N", id="dictionary as its own key"),
        pytest.param(item(b"m", "one"), id="decimal of a word"),
        pytest.param(item(b"m", 1), id="decimal of no text"),
        pytest.param(item(b"q", 1, 0), id="fraction of zero"),
        pytest.param(item(b"q", 1.5, 1), id="fraction of floats"),
        pytest.param(item(b"q", True, 1), id="fraction of booleans"),
        pytest.param(item(b"R", 0, 1, 0), id="range without a step"),
        pytest.param(item(b"R", "0", 1, 1), id="range of text"),
        pytest.param(item(b"y", 2023, 2, 29), id="date that never was"),
        pytest.param(item(b"y", 10**30, 1, 1), id="date beyond any calendar"),
        pytest.param(item(b"u", 10**12, 0, 0), id="too many days"),
        pytest.param(item(b"h", 1, 2, 3, 4, 2, None), id="third fold"),
        pytest.param(item(b"h", 1, 2, 3, 4, 0, 60), id="offset that is a number"),
        pytest.param(item(b"h", 1, 2, 3, 4, 0, datetime.timedelta(days=1)), id="offset of a day"),
        pytest.param(item(b"w", 2023, 1, 1, 25, 0, 0, 0, 0, None), id="hour 25"),
        pytest.param(several(b"e", 1), id="items that are not pairs"),
        pytest.param(several(b"e", (1, 2, 3)), id="items that are triples"),
        pytest.param(several(b"e", ([], 1)), id="items with a list as a key"),
        pytest.param(several(b"k", []), id="keys that are lists"),
        pytest.param(b"H\0\0", id="half a handle"),
    ],
)
def test_malformed_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueRefused):
        decoded(data)


KNOWN: dict[tuple[int, int], object] = {}


def test_a_handle_that_is_unknown_is_refused() -> None:
    with pytest.raises(ValueRefused):
        Decoder(lambda kind, number, _: KNOWN[kind, number]).decode(b"H" + struct.pack(">BI", 9, 0))


def peak_of_decoding(data: bytes, *, refused: bool = False) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(ValueRefused) if refused else contextlib.nullcontext():
            decoded(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@each_case("make", [list, set, dict, Counter, OrderedDict, defaultdict, deque, bytearray])
def test_memory_stays_in_proportion_to_the_bytes(make: Callable[[], Any]) -> None:
    data = b"l" + count(2000) + encoded(make()) * 2000
    assert len(decoded(data)) == 2000  # Imports that the decoder needs are not counted below.
    assert peak_of_decoding(data) < 256 * len(data)


def test_announced_lengths_reserve_no_memory() -> None:
    data = (b"l" + count(4000)) * 100 + b"N" * 3999
    assert peak_of_decoding(data, refused=True) < 100 * len(data)


def test_no_module_is_imported_for_a_value_that_does_not_need_it() -> None:
    before = set(sys.modules)
    crossed([1, "a", {1: (2,)}, {3}, b"", None, 1.5])
    assert set(sys.modules) == before


# Contents of arguments after a call.

MUTABLES: list[Any] = [
    [1, 2],
    {1: 2},
    {1, 2},
    bytearray(b"ab"),
    deque([1, 2], 3),
    OrderedDict(a=1),
    Counter("aab"),
    defaultdict(None, {"a": 1}),
]


@each_case("original", MUTABLES, ids=lambda value: type(value).__name__)
def test_restored_contents_make_the_same_container(original: Any) -> None:
    (copy,) = crossed([original])
    (kept,) = changes.snapshot([copy])
    copy.clear()
    changes.restore(copy, kept)
    assert identical(copy, original)


@each_case("original", MUTABLES, ids=lambda value: type(value).__name__)
@each_case("items", [None, 1, [1], "ab", {1: 2}], ids=repr)
def test_contents_of_a_wrong_shape_are_refused(original: Any, items: object) -> None:
    with pytest.raises(ValueRefused):
        changes.restore(crossed([original])[0], items)


@each_case("items", [(1,), ((1, 2, 3),), ([1, 2],), ("ab",)], ids=repr)
def test_contents_of_a_dictionary_are_pairs(items: object) -> None:
    with pytest.raises(ValueRefused):
        changes.restore({}, items)


@each_case("factory", [5, "text", [], {}], ids=repr)
def test_a_default_factory_that_cannot_be_called_is_refused(factory: object) -> None:
    tagged = b"D" + struct.pack(">I", 0) + Encoder(refuse).encode(factory)
    with pytest.raises(ValueRefused):
        Decoder(lambda _kind, _number, _: None).decode(tagged)
