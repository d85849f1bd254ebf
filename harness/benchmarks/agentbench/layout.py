"""AgentBench's files: upstream's folders or archives of them, and single files of either format.

Upstream has a folder for each category in `data/`, such as `data/os_interaction/` and `data/dbbench/`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from harness.benchmarks.agentbench.tasks import AgentBenchOptions, categories, folders
from harness.benchmarks.category import Category, CategoryFiles
from harness.benchmarks.data.local import read_rows
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.tree import Tree, is_archive, read_tree
from harness.core.errors import DataError
from harness.core.inputs.files import MAX_DATA_BYTES, read_input
from harness.environments import environment_spec

Notify = Callable[[str], None]

_RECORDS = re.compile(r"\.jsonl?$", re.IGNORECASE)
_HINT = (
    "give the root of AgentBench's repository, its data/, one environment's folder such as os_interaction/, "
    "an archive of one of these, or a .json or .jsonl file"
)
_LEFT_OUT = "the notes above have the reasons"


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a file's path in one of upstream's folders, and of a packed folder's name."""
    known = "|".join(map(re.escape, folders()))
    packed = re.compile(rf"(?:{known})[^/]*\.(?:tar\.gz|tgz|tar|zip)", re.IGNORECASE)
    return re.compile(rf"(?:.*?/)?({known})/(.+)"), packed


def _split(name: str) -> tuple[str, str] | None:
    """Split a path at a folder of upstream's: the folder and the rest, or None without such a folder."""
    found = _patterns()[0].fullmatch(name)
    return None if found is None else (found[1], found[2])


def read_layout(
    path: Path,
    notify: Notify,
    *,
    options: AgentBenchOptions | None = None,
    only: frozenset[str] = frozenset(),
) -> tuple[list[Row], str]:
    """Return the rows of all files at `path`, and the SHA-256 (hex) of the files with rows. Raises DataError.

    With `only`, the folders of other categories are not read.
    """
    options = options or AgentBenchOptions()
    path = Path(os.path.abspath(path))
    if path.is_dir() or is_archive(path):
        rows, digests = _rows_of(_read_by_folder(path, notify), path, notify, options, only)
        return rows, _digest(digests)
    category = _category_by_name(path.name)
    if category is not None:
        return _rows_of_file(category, path, notify, options)
    rows, sha256 = read_rows(path, or_object=True)
    for category in categories().values():
        if category.is_needed(path.name) and category.reads_file(rows):
            return _rows_of_file(category, path, notify, options)
        if (home := category.find_home(path)) is not None and any(map(category.owns, rows)):
            return _rows_of_home(category, home, path, notify, options)
    return rows, sha256


def _category_by_name(name: str) -> Category | None:
    return next((each for each in categories().values() if name.lower().endswith(each.suffixes)), None)


def _rows_of_file(
    category: Category, path: Path, notify: Notify, options: AgentBenchOptions
) -> tuple[list[Row], str]:
    """Return the rows of a single file of a category, and its SHA-256 (hex). Raises DataError."""
    needed = category.is_needed(path.name)
    contents = {path.name: read_input(path, max_bytes=MAX_DATA_BYTES)} if needed else {}
    files = CategoryFiles(category.folders[0], Tree(contents, {path.name: path}), path, notify)
    rows = list(category.rows(files, options.of(category)))
    if not rows:
        raise DataError(f"gives no task of the category {category.name}", path=path, hint=_LEFT_OUT)
    return rows, _digest(files.digests)


def _rows_of_home(
    category: Category, home: Path, path: Path, notify: Notify, options: AgentBenchOptions
) -> tuple[list[Row], str]:
    """Return the rows of a single file that needs others of its folder, and the SHA-256 (hex) of all."""
    name = path.relative_to(home).as_posix()
    tree = read_tree(home, lambda other: category.is_needed(other) and not _RECORDS.search(other))
    tree = Tree(
        {**tree.contents, name: read_input(path, max_bytes=MAX_DATA_BYTES)}, {**tree.places, name: path}
    )
    files = CategoryFiles(category.folders[0], tree, path, notify)
    rows = list(category.rows(files, options.of(category)))
    own = f"{files.folder}/{name}"
    return rows, _digest({path.name if each == own else each: sha for each, sha in files.digests.items()})


def _digest(digests: Mapping[str, str]) -> str:
    """Return the SHA-256 of one file, or of the lines that `sha256sum` writes for several, by name."""
    if len(digests) == 1:
        return next(iter(digests.values()))
    lines = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))
    return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()


def _is_needed(name: str) -> bool:
    if (found := _split(name)) is not None:
        return categories()[folders()[found[0]]].is_needed(found[1])
    own = _category_by_name(name)
    if own is not None:
        return own.is_needed(name)
    return _RECORDS.search(name) is not None or any(each.is_needed(name) for each in categories().values())


def _read_by_folder(path: Path, notify: Notify) -> Tree:
    """Return the files at `path`. The name of an environment's file begins with its folder: `dbbench/...`."""
    # A folder of one category has the names of its files without its own name.
    is_own = path.is_dir() and path.name in folders()
    tree = read_tree(
        path, lambda name: _is_needed(f"{path.name}/{name}" if is_own and not _split(name) else name)
    )
    if path.is_dir():
        tree = _with_archives(path, tree, notify)
    if not any(map(_split, tree.names)):
        if is_own:
            return tree.rename(lambda name: f"{path.name}/{name}")
        homes = [each.find_home(path / "any") for each in categories().values()]
        if path.is_dir() and path.parent in homes:
            return _read_by_folder(path.parent, notify)  # os_interaction/data
        tree = _unwrap(tree)
        own = next((found for name in tree.names if (found := _category_of_file(name))), None)
        return tree if own is None else tree.rename(lambda name: f"{own.folders[0]}/{name}")

    def from_folder(name: str) -> str:
        return "/".join(_split(name) or ("..", name))

    renamed = tree.rename(from_folder)
    if len(renamed.places) != len(tree.places):
        counts = Counter(map(from_folder, tree.names))
        twice = next(name for name, count in counts.items() if count > 1)
        raise DataError(f"holds {twice} more than once", path=path, hint="name the folder to use")
    return renamed


def _category_of_file(name: str) -> Category | None:
    """Return the category whose folder has a file of this name, if no other folder has one."""
    found = None if "/" in name else _category_by_name(name)
    return found or next((each for each in categories().values() if each.is_only_here(name)), None)


def _with_archives(path: Path, tree: Tree, notify: Notify) -> Tree:
    """Return the tree with the files of the archives in its folders, as if they were unpacked there."""
    contents, places = dict(tree.contents), dict(tree.places)
    for name in tree.names:
        if not _patterns()[1].fullmatch(name):
            continue
        packed = read_tree(path / name, _is_needed)
        if any(member in places for member in packed.names):
            notify(f"{path / name}: left out, because its files are in the same folder unpacked")
            continue
        contents.update(packed.contents)
        places.update(packed.places)
    return Tree(contents, {name: places[name] for name in sorted(places)})


def _unwrap(tree: Tree) -> Tree:
    """Return the tree without its top folder if that holds all files, as in an archive of one folder."""
    tops = {name.partition("/")[0] for name in tree.names}
    if len(tops) != 1 or not all("/" in name for name in tree.names):
        return tree
    top = tops.pop()
    return tree if top == "data" else tree.rename(lambda name: name.partition("/")[2])


def _rows_of(
    tree: Tree, path: Path, notify: Notify, options: AgentBenchOptions, only: frozenset[str]
) -> tuple[list[Row], dict[str, str]]:
    """Return the rows of all files, and the digests of the files with rows, by name."""
    there = {name.partition("/")[0] for name in tree.names if "/" in name} & {*folders()}
    chosen = [category for category in categories().values() if not only or category.name in only]
    read = {folder: category for category in chosen for folder in category.folders if folder in there}
    for category in chosen:
        is_absent = bool(there) and there.isdisjoint(category.folders)
        if is_absent and category.needs_no_folder(options.of(category).own, category.name in only):
            read[category.folders[0]] = category
    rows: list[Row] = []
    digests: dict[str, str] = {}
    if not there:
        files = CategoryFiles("", tree, path, notify)
        rows += [
            row
            for name in tree.names
            if "/" not in name and _RECORDS.search(name)
            for row in files.parse(name)
        ]
        digests = {name.removeprefix("/"): digest for name, digest in files.digests.items()}
    for folder, category in sorted(read.items(), key=_reading_order):
        files = CategoryFiles(folder, _narrow(tree, folder), path, notify)
        rows.extend(category.rows(files, options.of(category)))
        digests.update(files.digests)
    if not rows:
        raise _explain_empty(path, {folders()[folder] for folder in there}, only)
    return rows, digests


def _reading_order(found: tuple[str, Category]) -> tuple[bool, str]:
    """Return the sort key of a folder. The tasks that need a sandbox come first."""
    folder, category = found
    return environment_spec(category.name).is_on_host, folder


def _explain_empty(path: Path, there: set[str], only: frozenset[str]) -> DataError:
    """Return the error for data without rows, which have folders of the categories `there`."""
    wanted = f"task of the category {' or '.join(sorted(only))}" if only else "records of AgentBench"
    hint = _HINT
    if there and (not only or there & only):
        hint = _LEFT_OUT
    elif there:
        here = f"it has folders of {', '.join(sorted(there))}"
        hint = "; ".join(
            [*(f"for {name} bring {categories()[name].facts.bring}" for name in sorted(only)), here]
        )
    return DataError(f"holds no {wanted}", path=path, hint=hint)


def _narrow(tree: Tree, folder: str) -> Tree:
    """Return the files of one folder, by their names in it."""
    prefix = f"{folder}/"
    return Tree(
        {name.removeprefix(prefix): data for name, data in tree.contents.items() if name.startswith(prefix)},
        {name.removeprefix(prefix): place for name, place in tree.places.items() if name.startswith(prefix)},
    )
