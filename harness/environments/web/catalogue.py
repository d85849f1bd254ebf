"""The catalogue of a shop: its products, its search index and its goals, in memory or mapped from files."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import DataError
from harness.core.inputs.files import hash_file
from harness.core.lock import cache_dir, exclusive
from harness.environments.web.products import (
    MAX_FILE_BYTES,
    Goal,
    Product,
    PublishedShop,
    UnreadableProduct,
    is_sold,
    order_goals,
    read_goals,
    read_product,
    stream_array,
    stream_object,
)
from harness.environments.web.search_index import IndexBuilder, SearchIndex, open_index, save_index

Notify = Callable[[str], None]

# A change of the analyzer, of the rows or of the goals makes old indexes useless.
_VERSION = 2
_ROWS, _ENDS, _GOALS, _NOTE = "products.jsonl", "ends.npy", "goals.json", "note.json"
_SECONDS_BETWEEN_NOTES = 10.0
_KEPT_CATALOGUES = 4

_catalogues: dict[PublishedShop, Catalogue] = {}
_loading = threading.Lock()


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The products by their numbers. All attempts of a process share one, and none of them changes it."""

    index: SearchIndex
    # The products as lines of JSON, and the end of each line.
    rows: bytes | NDArray[np.uint8]
    ends: NDArray[np.int64]
    goals: tuple[Goal, ...]
    # The SHA-256 (hex) of the published files by their names.
    digests: Mapping[str, str]

    @property
    def size(self) -> int:
        """Return the number of products."""
        return len(self.ends)

    def product(self, number: int) -> Product:
        """Return a product."""
        start = int(self.ends[number - 1]) if number else 0
        return Product.from_row(json.loads(bytes(self.rows[start : int(self.ends[number])])))

    def search(self, keywords: str, limit: int) -> list[int]:
        """Return the numbers of the best products for these keywords, best first."""
        return self.index.search(keywords, limit)


def load_catalogue(source: PublishedShop, notify: Notify = lambda _note: None) -> Catalogue:
    """Return the catalogue of a source, which this process keeps. The first call makes or maps it.

    `notify` gets a line of progress now and then. Raises DataError, and UsageError if the folder for the
    index cannot be written.
    """
    with _loading:
        if source not in _catalogues:
            while len(_catalogues) >= _KEPT_CATALOGUES:
                del _catalogues[next(iter(_catalogues))]
            make = _keep_in_memory if source.in_memory else _open_published
            _catalogues[source] = make(source, notify)
        return _catalogues[source]


def _keep_in_memory(source: PublishedShop, notify: Notify) -> Catalogue:
    builder, rows = IndexBuilder(), bytearray()
    found = _add_products(source, builder, rows.extend, notify)
    ends = np.array(found.ends, dtype=np.int64)
    return Catalogue(builder.build(found.asins), bytes(rows), ends, tuple(found.goals), _hash_files(source))


def _open_published(source: PublishedShop, notify: Notify) -> Catalogue:
    """Return the catalogue of published files, whose index is made the first time and then mapped."""
    try:
        stats = [(str(path), path.stat()) for path in source.paths]
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=error.filename) from error
    identity = json.dumps([_VERSION, *((path, stat.st_size, stat.st_mtime_ns) for path, stat in stats)])
    key = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:24]
    folder = (source.index or cache_dir() / "web") / key
    found = _open_folder(folder)
    if found is not None:
        return found
    with exclusive(f"{key}.lock", notify=notify, folder=folder.parent):
        # Another process may have made it during the wait.
        found = _open_folder(folder)
        if found is None:
            try:
                _build_folder(source, folder, notify)
            except OSError as error:
                raise DataError(
                    f"cannot be written: {error.strerror or error}",
                    path=folder,
                    hint="name a folder with room for the index, such as --option web.index=/big/disk",
                ) from error
            found = _open_folder(folder)
    if found is None:
        raise DataError("the index that was just made cannot be read", path=folder)
    return found


def _open_folder(folder: Path) -> Catalogue | None:
    """Return the catalogue in a folder, None if there is none or if it is damaged."""
    try:
        note = json.loads((folder / _NOTE).read_bytes())
        rows = np.memmap(folder / _ROWS, dtype=np.uint8, mode="r")
        ends = np.load(folder / _ENDS, mmap_mode="r", allow_pickle=False)
        goals = [_read_goal(row) for row in json.loads((folder / _GOALS).read_bytes())]
        index = open_index(folder)
        if note["bytes"] != len(rows) or index.size != len(ends) or int(ends[-1]) != len(rows):
            return None
        return Catalogue(index, rows, ends, tuple(goals), dict(note["sha256"]))
    except (OSError, ValueError, KeyError, TypeError, IndexError, EOFError):
        return None


def _read_goal(row: list[Any]) -> Goal:
    asin, name, product_category, category, query, instruction, attributes, options, limit = row
    wanted = (tuple(attributes), tuple(options), limit)
    return Goal(asin, name, product_category, category, query, instruction, *wanted)


def _build_folder(source: PublishedShop, folder: Path, notify: Notify) -> None:
    """Make the index of published files in a folder, which exists only once it is whole."""
    partial = folder.with_name(f"{folder.name}.part")
    # A process that was killed leaves this folder behind.
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        _fill_folder(source, partial, folder, notify)
        for path in partial.iterdir():
            # The folder could otherwise outlive a loss of power with files of zeros in it.
            with path.open("rb") as file:
                os.fsync(file.fileno())
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)
    except BaseException:
        # It may have gigabytes, on a disk that is full.
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _fill_folder(source: PublishedShop, partial: Path, folder: Path, notify: Notify) -> None:
    """Write the files of the index that will be in `folder` into the folder `partial`."""
    notify(f"{source.products}: making the search index, once, in {folder}")
    builder = IndexBuilder(partial)
    try:
        with (partial / _ROWS).open("wb") as rows:
            found = _add_products(source, builder, rows.write, notify)
        notify(f"{source.products}: sorting the words of {len(found.asins):,} products")
        save_index(builder.build(found.asins), partial)
    finally:
        builder.close()
    np.save(partial / _ENDS, np.array(found.ends, dtype=np.int64), allow_pickle=False)
    (partial / _GOALS).write_text(json.dumps([list(dataclasses.astuple(goal)) for goal in found.goals]))
    note = {"bytes": found.ends[-1], "sha256": _hash_files(source), "from": str(source.products)}
    (partial / _NOTE).write_text(json.dumps(note))
    sizes = f"{len(found.asins):,} products and {len(found.goals):,} goals"
    notify(f"{source.products}: the index of {sizes} is made")


@dataclass(frozen=True, slots=True)
class _Found:
    """The ids of all products, the ends of their lines, and the goals in upstream's order."""

    asins: list[str]
    ends: list[int]
    goals: list[Goal]


def _add_products(
    source: PublishedShop, builder: IndexBuilder, write: Callable[[bytes], Any], notify: Notify
) -> _Found:
    """Add all products to the index, and write each as a line."""
    found = _Found([], [], [])
    instructions = dict(stream_object(source.instructions))
    attributes = _read_attributes(source, notify)
    size = 0
    for product in _read_products(source, attributes, notify):
        line = json.dumps(product.as_row(), separators=(",", ":")).encode() + b"\n"
        write(line)
        size += len(line)
        found.ends.append(size)
        found.asins.append(product.asin)
        builder.add(product.indexed_text)
        if (wishes := instructions.get(product.asin)) is not None:
            found.goals.extend(_goals_of(source, product, wishes))
    if not found.asins:
        raise DataError("holds no products", path=source.products)
    return _Found(found.asins, found.ends, order_goals(found.goals))


def _hash_files(source: PublishedShop) -> dict[str, str]:
    return {path.name: hash_file(path, max_bytes=MAX_FILE_BYTES) for path in source.paths}


def _read_attributes(source: PublishedShop, notify: Notify) -> dict[str, tuple[str, ...]]:
    """Return the attributes of each product that has some, which share one object for equal texts."""
    shared: dict[str, str] = {}
    attributes = {}
    for asin, found in stream_object(source.attributes, _progress(source.attributes, notify)):
        if not isinstance(found, Mapping) or "attributes" not in found:
            continue
        texts = found["attributes"]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise DataError(f"the attributes of {asin[:20]!r} are not a list", path=source.attributes)
        attributes[asin] = tuple(shared.setdefault(text, text) for text in texts)
    return attributes


def _read_products(
    source: PublishedShop, attributes: Mapping[str, tuple[str, ...]], notify: Notify
) -> Iterable[Product]:
    seen: set[str] = set()
    for record in stream_array(source.products, _progress(source.products, notify)):
        asin = record.get("asin") if isinstance(record, Mapping) else None
        if not isinstance(asin, str):
            raise DataError(f"product {len(seen) + 1:,} has no asin", path=source.products)
        if any("\ud800" <= character <= "\udfff" for character in asin):
            raise DataError(f"the asin {asin[:20]!r} holds half of a surrogate pair", path=source.products)
        if not is_sold(asin) or asin in seen:
            continue
        seen.add(asin)
        try:
            yield read_product(record, attributes.get(asin))
        except UnreadableProduct as error:
            raise DataError(str(error), path=source.products) from error


def _goals_of(source: PublishedShop, product: Product, wishes: Any) -> list[Goal]:
    if not isinstance(wishes, list) or not all(isinstance(wish, Mapping) for wish in wishes):
        raise DataError(f"the value of {product.asin!r} is not a list", path=source.instructions)
    try:
        return read_goals(product, wishes)
    except UnreadableProduct as error:
        raise DataError(f"{product.asin}: {error}", path=source.instructions) from error


def _progress(path: Path, notify: Notify) -> Callable[[int], None]:
    """Return a function that reports the bytes read so far, at most every few seconds."""
    total = max(path.stat().st_size, 1)
    last = time.monotonic()

    def report(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS_BETWEEN_NOTES:
            last = time.monotonic()
            notify(f"{path}: {100 * done // total} % of {total / 1e9:.1f} GB read")

    return report
