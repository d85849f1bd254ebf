"""A product of a shop, and the goal of a customer, as they are read from WebShop's published files."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from random import Random
from typing import Any, Self

from harness.core.errors import DataError
from harness.core.inputs.files import open_input

# Upstream never seeds the prices that it draws, so that they differ from run to run.
PRICE_SEED = 233
DEFAULT_PRICE = 100.0
# The attribute of a product that has none in the file of attributes.
NO_ATTRIBUTE = "DUMMY_ATTR"
NO_LIMIT = 1_000_000.0
_LONGEST_ASIN = 10
_LIMITS = tuple(10.0 * number for number in range(1, 100))
_LIMITS_TO_DRAW_FROM = 4
_NOT_IN_PRICES = re.compile(r"[^\d.]")

_PACKAGE = Path(__file__).resolve().parents[2]

MAX_FILE_BYTES = 64 * 1024**3
_CHUNK = 4 * 1024**2
_LONGEST_ELEMENT = 64 * 1024**2
_BLANK = re.compile(r"[ \t\r\n]*+")


class UnreadableProduct(ValueError):
    """A record of a product that lacks a field or has one of the wrong type."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product. Its texts are as published; the values of options and the query are in lower case."""

    asin: str
    name: str
    description: str
    bullets: tuple[str, ...]
    # One price, or the ends of a range.
    pricing: tuple[float, ...]
    # The names from the top category down, joined by " › ".
    product_category: str
    category: str
    query: str
    # The values of each option by its name.
    options: Mapping[str, tuple[str, ...]]
    attributes: tuple[str, ...]

    @property
    def price(self) -> float:
        """Return the price that a purchase costs. In a range it is drawn by the product's id."""
        if len(self.pricing) == 1:
            return self.pricing[0]
        return Random(f"{PRICE_SEED} price {self.asin}").uniform(*self.pricing[:2])

    @property
    def price_tag(self) -> str:
        """Return the price as pages show it."""
        return " to ".join(f"${price}" for price in self.pricing[:2])

    @property
    def indexed_text(self) -> str:
        """Return the text that searches find the product by."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        return " ".join([self.name, self.description, *self.bullets[:1], options]).lower()

    def as_row(self) -> list[Any]:
        """Return the product as a list that JSON can hold."""
        return [getattr(self, each.name) for each in fields(self)]

    @staticmethod
    def from_row(row: Sequence[Any]) -> Product:
        """Return the product of such a list."""
        read = Product(*row)
        return replace(
            read,
            bullets=tuple(read.bullets),
            pricing=tuple(read.pricing),
            options={option: tuple(values) for option, values in read.options.items()},
            attributes=tuple(read.attributes),
        )


@dataclass(frozen=True, slots=True)
class Goal:
    """A customer's wish, and the product that the customer had in mind."""

    asin: str
    name: str
    product_category: str
    category: str
    query: str
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    price_upper: float


def is_sold(asin: Any) -> bool:
    """Return whether upstream loads a product with this id."""
    return isinstance(asin, str) and asin != "nan" and 0 < len(asin) <= _LONGEST_ASIN


def read_product(record: Mapping[str, Any], attributes: Sequence[str] | None) -> Product:
    """Return the product of a published record, with its attributes from the other file, None if it has none.

    Raises UnreadableProduct.
    """
    bullets = record.get("small_description")
    try:
        return Product(
            asin=_text(record, "asin"),
            name=_text(record, "name"),
            description=_text(record, "full_description"),
            bullets=tuple(map(_plain, bullets if isinstance(bullets, list) else [bullets])),
            pricing=_prices(record.get("pricing")),
            product_category=_text(record, "product_category"),
            category=_text(record, "category"),
            query=_text(record, "query").lower().strip(),
            options=_options(record.get("customization_options")),
            attributes=(NO_ATTRIBUTE,) if attributes is None else tuple(map(str, attributes)),
        )
    except UnreadableProduct as error:
        raise UnreadableProduct(f"the product {str(record.get('asin'))[:20]!r}: {error}") from error


def read_goals(product: Product, instructions: Iterable[Mapping[str, Any]]) -> list[Goal]:
    """Return the goals of a product: one for each instruction of a person that names attributes.

    Raises UnreadableProduct.
    """
    goals = []
    for place, instruction in enumerate(instructions):
        attributes = _texts(instruction, "instruction_attributes")
        if not attributes:
            continue
        limit = _draw_limit(product, place)
        about = f", and price lower than {limit:.2f} dollars" if limit < NO_LIMIT else ""
        goals.append(
            Goal(
                asin=product.asin,
                name=product.name,
                product_category=product.product_category,
                category=product.category,
                query=product.query,
                instruction=_text(instruction, "instruction").strip(".") + about,
                attributes=attributes,
                options=_texts(instruction, "instruction_options"),
                price_upper=limit,
            )
        )
    return goals


def order_goals(goals: Iterable[Goal]) -> list[Goal]:
    """Return the goals in upstream's order, which the splits count them by."""
    ordered = list(goals)
    Random(233).shuffle(ordered)
    return ordered


def _draw_limit(product: Product, place: int) -> float:
    price = product.price
    above = [limit for limit in _LIMITS if limit > price][:_LIMITS_TO_DRAW_FROM]
    if len(above) < 2:
        return NO_LIMIT
    return max(Random(f"{PRICE_SEED} limit {product.asin} {place}").sample(above, 2))


def _prices(text: Any) -> tuple[float, ...]:
    if not text:
        return (DEFAULT_PRICE,)
    try:
        found = [float(_NOT_IN_PRICES.sub("", part)) for part in _plain(text).split("$")[1:]]
    except ValueError as error:
        raise UnreadableProduct(f"the price {str(text)[:50]!r} is not a price") from error
    return tuple(found[:2]) or (DEFAULT_PRICE,)


def _options(found: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(found, Mapping):
        return {}
    options = {}
    for name, contents in found.items():
        if contents is None:
            continue
        if not isinstance(contents, list) or not all(isinstance(each, Mapping) for each in contents):
            raise UnreadableProduct(f"the option {str(name)[:50]!r} is not a list of values")
        values = (_plain(content.get("value")) for content in contents)
        options[name.lower()] = tuple(value.strip().replace("/", " | ").lower() for value in values)
    return options


def _text(record: Mapping[str, Any], field: str) -> str:
    if field not in record:
        raise UnreadableProduct(f"the field '{field}' is missing")
    return _plain(record[field])


def _texts(record: Mapping[str, Any], field: str) -> tuple[str, ...]:
    values = record.get(field)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise UnreadableProduct(f"the field '{field}' of an instruction is not a list of texts")
    return tuple(values)


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnreadableProduct(f"{str(value)[:50]!r} is not a text")
    return value


@dataclass(frozen=True, slots=True)
class PublishedShop:
    """A catalogue in WebShop's published files: its products, their attributes, and the instructions."""

    # A relative path is within this package, so that the bundled files mean the same on every machine.
    files: tuple[Path, Path, Path]
    # The folder for search indexes, None for the one in the cache folder.
    index: Path | None = None
    # Whether the search index of a small catalogue is in memory instead of in a folder.
    in_memory: bool = False

    @classmethod
    def at(
        cls,
        products: Path,
        attributes: Path,
        instructions: Path,
        *,
        index: Path | None = None,
        in_memory: bool = False,
    ) -> Self:
        """Return the catalogue in these files."""
        files = (_name_portably(products), _name_portably(attributes), _name_portably(instructions))
        return cls(files, index, in_memory)

    @property
    def products(self) -> Path:
        return _PACKAGE / self.files[0]

    @property
    def attributes(self) -> Path:
        return _PACKAGE / self.files[1]

    @property
    def instructions(self) -> Path:
        return _PACKAGE / self.files[2]

    @property
    def paths(self) -> tuple[Path, Path, Path]:
        return (self.products, self.attributes, self.instructions)


def _name_portably(path: Path) -> Path:
    return path.relative_to(_PACKAGE) if path.is_relative_to(_PACKAGE) else path


class _Reader:
    """The characters of a file from the first one that is not read yet."""

    def __init__(self, path: Path, on_progress: Callable[[int], None]) -> None:
        self.path = path
        self._stream = open_input(path, max_bytes=MAX_FILE_BYTES)
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._on_progress = on_progress
        self._text, self._place, self._bytes = "", 0, 0
        self._is_whole = False
        self._parse = json.JSONDecoder().raw_decode

    def close(self) -> None:
        self._stream.close()

    def peek(self) -> str:
        """Return the next character that is not blank, "" at the end."""
        while True:
            match = _BLANK.match(self._text, self._place)
            self._place = self._place if match is None else match.end()
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._read_more():
                return ""

    def take(self, expected: str) -> str:
        """Return the next character, which is one of `expected`. Raises DataError."""
        found = self.peek()
        if not found or found not in expected:
            needed = " or ".join(f"'{character}'" for character in expected)
            raise self.error(f"needs {needed}, found {found!r}")
        self._place += 1
        return found

    def value(self) -> Any:
        """Return the next value, which another character follows. Raises DataError."""
        self.peek()
        while True:
            try:
                value, end = self._parse(self._text, self._place)
            except (ValueError, RecursionError) as error:
                is_too_long = len(self._text) - self._place > _LONGEST_ELEMENT
                # A value that is cut off by the end of the text looks the same as one that is not JSON.
                if isinstance(error, RecursionError) or is_too_long or not self._read_more():
                    raise self.error(f"has an element that cannot be read ({error})") from error
                continue
            # A number at the end of the text may go on in the next piece.
            if end < len(self._text) or not self._read_more():
                self._place = end
                return value

    def error(self, message: str) -> DataError:
        return DataError(f"{message}, near byte {self._bytes:,}", path=self.path)

    def _read_more(self) -> bool:
        """Append the next piece of the file, and return whether there was one."""
        if self._is_whole:
            return False
        try:
            data = self._stream.read(_CHUNK)
            added = self._decode(data, not data)
        except UnicodeDecodeError as error:
            raise self.error("is not UTF-8") from error
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror or error}", path=self.path) from error
        self._is_whole = not data
        self._bytes += len(data)
        self._text, self._place = self._text[self._place :] + added, 0
        self._on_progress(self._bytes)
        return bool(data)


def stream_array(path: Path, on_progress: Callable[[int], None] = lambda _bytes: None) -> Iterator[Any]:
    """Yield the elements of the array in a file. `on_progress` gets the number of bytes read so far.

    Raises DataError.
    """
    for _key, value in _stream(path, "[", "]", on_progress):
        yield value


def stream_object(
    path: Path, on_progress: Callable[[int], None] = lambda _bytes: None
) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the object in a file, as `stream_array` does."""
    yield from _stream(path, "{", "}", on_progress)


def _stream(
    path: Path, first: str, last: str, on_progress: Callable[[int], None]
) -> Iterator[tuple[str, Any]]:
    try:
        reader = _Reader(path, on_progress)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error
    try:
        reader.take(first)
        if reader.peek() != last:
            while True:
                key = ""
                if first == "{":
                    key = reader.value()
                    if not isinstance(key, str):
                        raise reader.error("has a name that is not a string")
                    reader.take(":")
                yield key, reader.value()
                if reader.take("," + last) == last:
                    break
        else:
            reader.take(last)
        if reader.peek():
            raise reader.error("goes on after its end")
    finally:
        reader.close()
