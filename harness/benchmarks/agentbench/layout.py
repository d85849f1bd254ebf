"""AgentBench's files: upstream's folders or archives of them, and single files of either format.

Upstream has `data/os_interaction/data/dev.json` and `data/os_interaction/data/<group>/<name>.json`, whose
script files are in `data/os_interaction/scripts/<dev or group>/`. It also has `data/dbbench/<split>.jsonl`,
and a folder for each other category.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from harness.benchmarks.agentbench.category import FOLDERS, Category, CategoryFiles
from harness.benchmarks.agentbench.options import AgentBenchOptions
from harness.benchmarks.agentbench.records import (
    SCRIPTS,
    SHELL_TASK,
    TASK_ID,
    category_by_fields,
    script_files,
)
from harness.benchmarks.agentbench.worlds import worlds
from harness.benchmarks.data.local import parse_rows, read_rows
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.tree import Tree, is_archive, read_tree
from harness.core.errors import DataError
from harness.core.inputs.files import MAX_DATA_BYTES, read_input

Notify = Callable[[str], None]

_OS = "os_interaction"
_RECORDS = re.compile(r"\.jsonl?$", re.IGNORECASE)
_KNOWN = "|".join(map(re.escape, FOLDERS))
_IN_FOLDER = re.compile(rf"(?:.*?/)?({_KNOWN})/(.+)")
_PACKED = re.compile(rf"(?:{_KNOWN})[^/]*\.(?:tar\.gz|tgz|tar|zip)", re.IGNORECASE)
# Upstream's settings name dev.json and every file of a group's folder.
_OS_RECORDS = re.compile(r"data/(?:dev|[^/]+/[^/]+)\.jsonl?", re.IGNORECASE)
_HINT = (
    "give the root of AgentBench's repository, its data/, one environment's folder such as os_interaction/, "
    "an archive of one of these, or a .json or .jsonl file"
)


_LEFT_OUT = "the notes above have the reasons"


def read_layout(
    path: Path,
    notify: Notify,
    *,
    options: AgentBenchOptions | None = None,
    only: frozenset[str] = frozenset(),
) -> tuple[list[Row], str]:
    """Return the rows of all files at `path`, and the SHA-256 (hex) of the files with rows.

    A row of a shell task gets the texts of its scripts as the field `scripts`. Upstream's records get a task
    id: `os/dev/8` for item 8 of dev.json, counted from 0, `os/4/N41/3` for an item of data/4/N41.json,
    `os/4/N11` for a file of one object, and `db/dev/17`. Raises DataError.

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
    category = next(
        (each for each in worlds().values() if each.is_needed(path.name) and each.reads_file(rows)), None
    )
    if category is not None:
        return _rows_of_file(category, path, notify, options)
    root = _os_folder_of(path)
    if root is None or not any(SHELL_TASK in row.values for row in rows):
        return rows, sha256
    tree = read_tree(root, lambda name: name.startswith(f"{SCRIPTS}/"))
    used = {path.name: read_input(path, max_bytes=MAX_DATA_BYTES)}
    group, stem = _group_of(path.relative_to(root / "data"))
    named = tree.rename(lambda name: f"{_OS}/{name}")
    made = [_os_row(row, group, stem, named, used) for row in rows]
    return made, _digest(_hash_all(used))


def _category_by_name(name: str) -> Category | None:
    return next((each for each in worlds().values() if name.lower().endswith(each.suffixes)), None)


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


def _hash_all(used: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in used.items()}


def _digest(digests: Mapping[str, str]) -> str:
    """Return the SHA-256 of one file, or of the lines that `sha256sum` writes for several, by name."""
    if len(digests) == 1:
        return next(iter(digests.values()))
    lines = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))
    return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()


def _is_needed(name: str) -> bool:
    found = _IN_FOLDER.fullmatch(name)
    if found is not None and (category := FOLDERS[found[1]]) not in ("os", "db"):
        return category in worlds() and worlds()[category].is_needed(found[2])
    own = _category_by_name(name)
    if own is not None:
        return own.is_needed(name)
    return _RECORDS.search(name) is not None or f"/{SCRIPTS}/" in f"/{name}"


def _read_by_folder(path: Path, notify: Notify) -> Tree:
    """Return the files at `path`. The name of an environment's file begins with its folder: `dbbench/...`."""
    # A folder of one category has the names of its files without its own name.
    prefix = f"{path.name}/" if path.is_dir() and path.name in FOLDERS else ""
    tree = read_tree(path, lambda name: _is_needed(name if _IN_FOLDER.fullmatch(name) else f"{prefix}{name}"))
    if path.is_dir():
        tree = _with_archives(path, tree, notify)
    if not any(_IN_FOLDER.fullmatch(name) for name in tree.names):
        if path.is_dir() and path.name in FOLDERS:
            return tree.rename(lambda name: f"{path.name}/{name}")
        if path.is_dir() and path.name == "data" and (path.parent / SCRIPTS).is_dir():
            return _read_by_folder(path.parent, notify)  # os_interaction/data
        tree = _unwrap(tree)
        own = next(
            (found for name in tree.names if "/" not in name and (found := _category_by_name(name))), None
        )
        if own is not None:
            return tree.rename(lambda name: f"{own.folders[0]}/{name}")
        if not any(_OS_RECORDS.fullmatch(name) for name in tree.names):
            return tree
        return tree.rename(lambda name: f"{_OS}/{name}")

    def from_folder(name: str) -> str:
        found = _IN_FOLDER.fullmatch(name)
        return f"{found[1]}/{found[2]}" if found else f"../{name}"

    renamed = tree.rename(from_folder)
    if len(renamed.places) != len(tree.places):
        twice = _first_twice(map(from_folder, tree.names))
        raise DataError(f"holds {twice} more than once", path=path, hint="name the folder to use")
    return renamed


def _with_archives(path: Path, tree: Tree, notify: Notify) -> Tree:
    """Return the tree with the files of the archives in its folders, as if they were unpacked there."""
    contents, places = dict(tree.contents), dict(tree.places)
    for name in tree.names:
        if not _PACKED.fullmatch(name):
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
    return tree if top in ("data", SCRIPTS) else tree.rename(lambda name: name.partition("/")[2])


def _first_twice(names: Iterator[str]) -> str:
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def _os_folder_of(path: Path) -> Path | None:
    """Return the folder with `data/` and `scripts/` around a single file of records, or None."""
    for folder in list(path.parents)[:2]:
        if folder.name == "data" and (folder.parent / SCRIPTS).is_dir():
            return folder.parent
    return None


def _rows_of(
    tree: Tree, path: Path, notify: Notify, options: AgentBenchOptions, only: frozenset[str]
) -> tuple[list[Row], dict[str, str]]:
    """Return the rows of all files, and the digests of the files with rows, by name."""
    rows: list[Row] = []
    used: dict[str, bytes] = {}
    digests: dict[str, str] = {}
    known = any(name.partition("/")[0] in FOLDERS for name in tree.names)
    for name in tree.names:
        folder, _, rest = name.partition("/")
        category = FOLDERS.get(folder) if rest else None
        if only and category is not None and category not in only:
            continue
        if category == "os":
            rows.extend(_os_rows(tree, name, rest, used, notify))
        elif category == "db":
            if "/" not in rest and _RECORDS.search(rest):
                rows.extend(_plain_rows(tree, name, used))
        elif category is None and not known and "/" not in name and _RECORDS.search(name):
            rows.extend(_plain_rows(tree, name, used))
    folders = {name.partition("/")[0] for name in tree.names if "/" in name} & {*FOLDERS}
    chosen = [world for world in worlds().values() if not only or world.name in only]
    read = {folder: world for world in chosen for folder in world.folders if folder in folders}
    for world in chosen:
        is_absent = known and folders.isdisjoint(world.folders)
        if is_absent and world.needs_no_folder(options.of(world).own, world.name in only):
            read[world.folders[0]] = world
    for folder, world in sorted(read.items()):
        files = CategoryFiles(folder, _narrow(tree, folder), path, notify)
        rows.extend(world.rows(files, options.of(world)))
        digests.update(files.digests)
    if not rows:
        raise _explain_empty(path, {FOLDERS[folder] for folder in folders}, only)
    return rows, digests | _hash_all(used)


def _bring(category: str) -> str:
    """Return the files of a category that a user brings."""
    world = worlds().get(category)
    if world is not None:
        return world.facts.bring
    return next(f"data/{folder}/" for folder, name in FOLDERS.items() if name == category)


def _explain_empty(path: Path, there: set[str], only: frozenset[str]) -> DataError:
    """Return the error for data without rows, which have folders of the categories `there`."""
    wanted = f"task of the category {' or '.join(sorted(only))}" if only else "records of AgentBench"
    hint = _HINT
    if there and (not only or there & only):
        hint = _LEFT_OUT
    elif there:
        here = f"it has folders of {', '.join(sorted(there))}"
        hint = "; ".join([*(f"for {name} bring {_bring(name)}" for name in sorted(only)), here])
    return DataError(f"holds no {wanted}", path=path, hint=hint)


def _narrow(tree: Tree, folder: str) -> Tree:
    """Return the files of one folder, by their names in it."""
    prefix = f"{folder}/"
    return Tree(
        {name.removeprefix(prefix): data for name, data in tree.contents.items() if name.startswith(prefix)},
        {name.removeprefix(prefix): place for name, place in tree.places.items() if name.startswith(prefix)},
    )


def _plain_rows(tree: Tree, name: str, used: dict[str, bytes]) -> list[Row]:
    used[name] = tree.contents[name]
    return parse_rows(tree.contents[name], tree.places[name])


def _os_rows(tree: Tree, name: str, rest: str, used: dict[str, bytes], notify: Notify) -> Iterator[Row]:
    if _OS_RECORDS.fullmatch(rest) is None:
        if rest.startswith("data/") and _RECORDS.search(rest):
            notify(f"{tree.places[name]}: left out: AgentBench reads data/dev.json and data/<group>/*.json")
        return
    group, stem = _group_of(PurePath(rest).relative_to("data"))
    for row in _plain_rows(tree, name, used):
        yield _os_row(row, group, stem, tree, used)


def _group_of(name: PurePath) -> tuple[str, str]:
    """Return the group of a file in `data/`, which is the folder of its scripts, and its task ids' prefix."""
    stem = _RECORDS.sub("", name.as_posix().removesuffix(".gz"))
    return stem.partition("/")[0], f"os/{stem}"


def _os_row(row: Row, group: str, stem: str, tree: Tree, used: dict[str, bytes]) -> Row:
    if category_by_fields(row) != "os":
        raise row.error("needs an object, because this folder holds only shell tasks", field=SHELL_TASK)
    place = row.line if row.item is None else row.item
    identity = {
        TASK_ID: stem if place is None else f"{stem}/{place - 1}",
        SCRIPTS: dict(_scripts_of(row, tree, group, used)),
    }
    return replace(row, values={**row.values, **identity})


def _scripts_of(row: Row, tree: Tree, group: str, used: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    for file in script_files(row):
        name = f"{_OS}/{SCRIPTS}/{group}/{PurePath(file).as_posix()}"
        data = tree.contents.get(name)
        if data is None:
            continue  # The record's reader raises the error, because it knows the field's name.
        used[name] = data
        try:
            yield file, data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError("is not UTF-8", path=tree.places[name]) from error
