"""Strict parsing of YAML that a person wrote. It accepts plain values within bounds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from harness.core.errors import UsageError
from harness.core.inputs.files import MIB, read_input

MAX_BYTES = MIB
MAX_DEPTH = 20
MAX_NODES = 100_000
MAX_NUMBER = 2**63
# A bound on the text of a number, because the conversion of a very long one takes long.
MAX_NUMBER_CHARACTERS = 100
_TAG = "tag:yaml.org,2002:"
_NUMBERS = (f"{_TAG}int", f"{_TAG}float")
_TYPES = ("null", "bool", "int", "float", "timestamp", "str", "seq", "map", "merge")
_KNOWN_TAGS = frozenset(_TAG + name for name in _TYPES)


@dataclass(frozen=True, slots=True)
class Lines:
    """The line of a value in a YAML text, from 1, and the lines of the values in it."""

    line: int
    inner: Mapping[str, Lines] = field(default_factory=dict)
    """The values of a mapping by their keys as text, and a list's values by their indexes."""


def read_yaml(path: Path) -> Any:
    """Return the value of a YAML file. Raises UsageError, which names the file and the line."""
    return parse_yaml(_read_text(path), path)


def read_yaml_with_lines(path: Path, *, aliases: bool = False) -> tuple[Any, Lines]:
    """Return the value of a YAML file and the lines of all values in it. Raises as `read_yaml` does.

    With `aliases`, the file may have anchors, aliases and merges. Repeated values count toward MAX_NODES.
    """
    value, node = _parse(_read_text(path), path, aliases=aliases)
    return value, Lines(1) if node is None else _list_lines(node, 1)


def _read_text(path: Path) -> str:
    try:
        data = read_input(path, max_bytes=MAX_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        raise UsageError(f"{path}:{line}: is not UTF-8", hint="save it as UTF-8") from error


def parse_yaml(text: str, path: Path | None = None) -> Any:
    """Return the value of a YAML text.

    Raises UsageError, which names the line and `path` if there is one, for invalid YAML and for aliases,
    anchors, merges, tags of other types, duplicate keys, more than MAX_DEPTH levels or MAX_NODES values,
    integers beyond 64 bits, and text with a NUL or half of a surrogate pair.
    """
    return _parse(text, path)[0]


def _parse(text: str, path: Path | None, *, aliases: bool = False) -> tuple[Any, Node | None]:
    """Return the value of a YAML text, and the tree that it was built from. None if the text is empty."""
    loader = None
    try:
        loader = _PlainLoader(text, aliases=aliases)
        node = loader.get_single_node()
        return None if node is None else loader.construct_document(node), node
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position)
        raise _error(path, line, "a character that YAML does not allow") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _error(path, mark.line if mark else 0, error.problem or "") from error
    except (ValueError, OverflowError, RecursionError) as error:
        # The scanner fails on escapes such as "\\U00110000".
        raise _error(
            path, loader.line if loader else 0, "an escape sequence that is not a character"
        ) from error
    finally:
        if loader is not None:
            loader.dispose()


def write_yaml(value: Any) -> str:
    """Return the YAML of a plain value. Invisible characters are escaped."""
    return yaml.safe_dump(value, sort_keys=False, width=100)


def _list_lines(node: Node, line: int) -> Lines:
    """Return the lines of a value that begins, with its key, in `line`."""
    inner: dict[str, Lines] = {}
    if isinstance(node, MappingNode):
        for key, value in node.value:
            inner[str(key.value)] = _list_lines(value, key.start_mark.line + 1)
    elif isinstance(node, SequenceNode):
        for place, value in enumerate(node.value):
            inner[str(place)] = _list_lines(value, value.start_mark.line + 1)
    return Lines(line, inner)


def _error(path: Path | None, line: int, problem: str) -> UsageError:
    where = f"line {line + 1}" if path is None else f"{path}:{line + 1}"
    return UsageError(f"{where}: is not YAML that harness accepts: {problem}"[:500])


class _PlainLoader(yaml.SafeLoader):
    """Builds plain values. It checks the bounds during parsing, so it never builds a large value."""

    def __init__(self, stream: str, *, aliases: bool = False) -> None:
        super().__init__(stream)
        self._aliases = aliases
        self._depth = 0
        self._deepest = 0
        self._nodes = 0
        # The values and the levels of each whole anchor.
        self._sizes: dict[str, tuple[int, int]] = {}
        self._flattened: set[int] = set()

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        anchor = getattr(event, "anchor", None)
        if anchor is not None and not self._aliases:
            raise _problem("anchors (&) and aliases (*) are not allowed; repeat the value", event)
        is_alias = isinstance(event, yaml.AliasEvent)
        if is_alias and anchor not in self._sizes:
            raise _problem(f"the alias *{anchor} has no anchor before it", event)
        nodes, levels = self._sizes[str(anchor)] if is_alias else (1, 1)
        before, deepest = self._nodes, self._deepest
        self._nodes += nodes
        self._depth += levels
        self._deepest = self._depth
        if self._depth > MAX_DEPTH:
            raise _problem(f"nested more than {MAX_DEPTH} levels deep", event)
        if self._nodes > MAX_NODES:
            raise _problem(f"more than {MAX_NODES:,} values", event)
        node: Node | None = super().compose_node(parent, index)
        self._depth -= levels
        if anchor is not None and not is_alias:
            self._sizes[anchor] = (self._nodes - before, self._deepest - self._depth)
        self._deepest = max(deepest, self._deepest)
        return node

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        if node.tag not in _KNOWN_TAGS:
            raise _problem(f"the tag {node.tag} is not allowed", node)
        if node.tag in _NUMBERS and len(str(node.value)) > MAX_NUMBER_CHARACTERS:
            raise _problem(f"a number has {len(node.value):,} characters", node)
        try:
            value = super().construct_object(node, deep)
        except (ValueError, OverflowError, RecursionError, LookupError, TypeError, AttributeError) as error:
            # For example, the date 2024-99-99 or `!!int x`.
            raise _problem(f"{node.tag.removeprefix(_TAG)}: {error}", node) from error
        if type(value) is int and not -MAX_NUMBER <= value < MAX_NUMBER:
            raise _problem("an integer beyond 64 bits", node)
        if isinstance(value, str) and not _is_valid_text(value):
            raise _problem("text with a NUL or half of a surrogate pair", node)
        return value

    def flatten_mapping(self, node: MappingNode) -> None:
        if id(node) in self._flattened:
            return  # An alias of it has come before.
        self._flattened.add(id(node))
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == f"{_TAG}merge":
                if not self._aliases:
                    raise _problem("merges (<<) are not allowed; repeat the keys", key_node)
                continue
            if not isinstance(key_node, ScalarNode):
                raise _problem("a key that is not text or a number", key_node)
            key = self.construct_object(key_node)
            if key in seen:
                raise _problem(f"the key '{key}' occurs twice", key_node)
            seen.add(key)
        if self._aliases:
            super().flatten_mapping(node)


def _is_valid_text(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _problem(text: str, place: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=text, problem_mark=place.start_mark)
