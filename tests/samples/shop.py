"""A seeded catalogue in WebShop's format, made so that the first hit of a search is seldom the answer.

Customers describe attributes in other words than the shop does. Each wanted product has near-duplicates: the
same kind, brand and line, whose descriptions quote the customers' words and say that they do not apply, and
which lack attributes or options or cost too much. So a search for the customer's own words finds these first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from harness.environments.web.products import PublishedShop
from samples.shop_words import ATTRIBUTES, BRANDS, KINDS, LINES, OPENERS, OPTIONS, PRAISE, Kind

# The products around one wanted product, with itself.
_FAMILY = 3
_ASIN_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789"
# The share of attributes that customers ask for in the shop's own words.
_PLAIN_WORDS = 0.3
_VALUES_FOR_SALE = 4
_NAMES = ("items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json")


@dataclass(frozen=True, slots=True)
class PublishedRecords:
    """The contents of the three published files."""

    products: list[dict[str, Any]]
    attributes: dict[str, dict[str, Any]]
    instructions: dict[str, list[dict[str, Any]]]

    def write(self, folder: Path) -> PublishedShop:
        """Write the three files into a folder, and return the shop that keeps them in memory."""
        folder.mkdir(parents=True, exist_ok=True)
        products, attributes, instructions = (folder / name for name in _NAMES)
        _write_lines(products, "[]", map(_dump, self.products))
        _write_lines(attributes, "{}", _dump_items(self.attributes))
        _write_lines(instructions, "{}", _dump_items(self.instructions))
        return PublishedShop.at(products, attributes, instructions, in_memory=True)


def _dump_items(content: Mapping[str, Any]) -> Iterator[str]:
    return (f"{_dump(key)}:{_dump(value)}" for key, value in content.items())


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _write_lines(path: Path, marks: str, entries: Iterable[str]) -> None:
    # An entry a line keeps the difference of two versions small.
    path.write_text(marks[0] + ",\n".join(entries) + marks[1] + "\n", "utf-8")


@dataclass(frozen=True, slots=True)
class _Wish:
    """The wanted product of a family and the customer's words for it."""

    kind: Kind
    brand: str
    line: str
    price: float
    attributes: tuple[str, ...]
    # The customer's words for each attribute.
    words: tuple[str, ...]
    options: dict[str, str]


def generate_records(seed: int, products: int) -> PublishedRecords:
    """Return a catalogue of `products` products, one in three of them with an instruction."""
    random = Random(f"webshop {seed}")
    records = PublishedRecords([], {}, {})
    asins: set[str] = set()
    while len(records.products) < products:
        wish = _draw_wish(random)
        asin = _draw_asin(random, asins)
        _add(records, _describe_wanted(random, wish, asin), _listed(random, wish))
        records.instructions[asin] = [_instruct(random, wish)]
        for _ in range(min(_FAMILY - 1, products - len(records.products))):
            record, attributes = _describe_decoy(random, wish, _draw_asin(random, asins))
            _add(records, record, attributes)
    random.shuffle(records.products)
    return records


def _draw_wish(random: Random) -> _Wish:
    kind = random.choice(KINDS)
    attributes = tuple(random.sample(kind.attributes, random.choice((2, 3, 3))))
    words = tuple(
        f"is {name}" if random.random() < _PLAIN_WORDS else random.choice(ATTRIBUTES[name])
        for name in attributes
    )
    names = random.sample(kind.options, random.choice((1, 1, 2)))
    options = {name: random.choice(OPTIONS[name]) for name in kind.options if name in names}
    price = round(random.uniform(8, 180), 2)
    return _Wish(kind, random.choice(BRANDS), random.choice(LINES), price, attributes, words, options)


def _listed(random: Random, wish: _Wish) -> list[str]:
    """Return the attributes of the wanted product in the shop's list, of which one was not asked for."""
    others = [name for name in wish.kind.attributes if name not in wish.attributes]
    return sorted([*wish.attributes, random.choice(others)])


def _describe_wanted(random: Random, wish: _Wish, asin: str) -> dict[str, Any]:
    # The features are on a page that searches do not see, except for the first one.
    bullets = [
        random.choice(PRAISE),
        *(f"{name.capitalize()}, as you would expect" for name in wish.attributes),
    ]
    description = f"{_title(wish)} from {wish.brand}. {random.choice(PRAISE)}"
    values = {
        name: _values(random, name, wanted=wish.options.get(name), unwanted=None)
        for name in wish.kind.options
    }
    return _record(random, wish, asin, description, bullets, wish.price, values)


def _describe_decoy(random: Random, wish: _Wish, asin: str) -> tuple[dict[str, Any], list[str]]:
    """Return a near-duplicate and its attributes. It keeps at most one of the wanted attributes."""
    kept = random.sample(wish.attributes, random.choice((0, 1, 1)))
    others = [name for name in wish.kind.attributes if name not in wish.attributes]
    attributes = sorted([*kept, *random.sample(others, 2)])
    quoted = [
        f'"One that {word}" is a wish we often hear for {wish.kind.noun}; this is not the one for you then.'
        for name, word in zip(wish.attributes, wish.words, strict=True)
        if name not in kept and not word.endswith(name)
    ]
    bullets = [f"{attributes[0].capitalize()} {wish.kind.noun}", *map(str.capitalize, attributes[1:])]
    price = wish.price + random.choice((random.uniform(45, 120), random.uniform(45, 120), -wish.price / 4))
    # Some offer the wanted values, so that only their attributes give them away.
    has_values = random.random() < 0.5
    values = {
        name: _values(
            random,
            name,
            wanted=wish.options.get(name) if has_values else None,
            unwanted=None if has_values else wish.options.get(name),
        )
        for name in wish.kind.options
    }
    description = " ".join([f"{wish.kind.noun.capitalize()} by {wish.brand}.", *quoted])
    return _record(random, wish, asin, description, bullets, round(price, 2), values), attributes


def _instruct(random: Random, wish: _Wish) -> dict[str, Any]:
    wants = " and ".join(f"that {word}" for word in wish.words)
    choices = ", ".join(f"{name.removesuffix(' name')} {value}" for name, value in wish.options.items())
    text = f"{random.choice(OPENERS).format(noun=wish.kind.noun)} {wants}, {choices}"
    return {
        "instruction": text,
        "instruction_attributes": list(wish.attributes),
        "instruction_options": list(wish.options.values()),
    }


def _title(wish: _Wish) -> str:
    return f"{wish.line} {wish.kind.noun.title()}"


def _values(random: Random, name: str, *, wanted: str | None, unwanted: str | None) -> list[str]:
    known = [value for value in OPTIONS[name] if value not in (wanted, unwanted)]
    values = random.sample(known, _VALUES_FOR_SALE - (wanted is not None))
    return random.sample([*values, *([wanted] if wanted else [])], _VALUES_FOR_SALE)


def _record(
    random: Random,
    wish: _Wish,
    asin: str,
    description: str,
    bullets: list[str],
    price: float,
    values: dict[str, list[str]],
) -> dict[str, Any]:
    ranged = random.random() < 0.1
    return {
        "asin": asin,
        # The model's number makes every title unique, so that a product can be found by its title.
        "name": f"{wish.brand} {_title(wish)} {asin[-5:]}",
        "full_description": description,
        "small_description": bullets,
        "pricing": f"${price} - ${price + 2:.2f}" if ranged else f"${price}",
        "product_category": wish.kind.path,
        "category": wish.kind.category,
        "query": wish.kind.query,
        "customization_options": {
            name: [{"value": each} for each in found] for name, found in values.items()
        },
    }


def _add(records: PublishedRecords, record: dict[str, Any], attributes: list[str]) -> None:
    records.products.append(record)
    records.attributes[record["asin"]] = {"attributes": attributes}


def _draw_asin(random: Random, taken: set[str]) -> str:
    while True:
        asin = "B" + "".join(random.choices(_ASIN_LETTERS, k=9))
        if asin not in taken:
            taken.add(asin)
            return asin
