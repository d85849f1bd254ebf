"""Texts for the page: Markdown as nodes, where no text can become an element or a link, and code.

A node is a text, or a list of an element's name, its class and its children. The page makes an element only
of the names in ELEMENTS, gives it no attribute but the class, and makes a text node of every text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.core.text import escape_text
from harness.reports.transcript_entries import Block

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

Node: TypeAlias = "str | list[Node]"

SHOWN_CHARACTERS = 100_000
"""The most characters of one text."""

# A parser of a hostile text must stay quick. A longer text is shown as it is.
_PARSED_CHARACTERS = 20_000
# Elements of Markdown by their type in the syntax tree. The children of another type take its place.
ELEMENTS = {
    "paragraph": "p",
    "em": "em",
    "strong": "strong",
    "s": "s",
    "blockquote": "blockquote",
    "bullet_list": "ul",
    "ordered_list": "ol",
    "list_item": "li",
    "hr": "hr",
    "hardbreak": "br",
    "softbreak": "br",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
    "code_inline": "code",
}
# The languages that page/code.js colours, by the names that models write.
_LANGUAGES = {
    **dict.fromkeys(("py", "python", "python3", "pycon"), "python"),
    **dict.fromkeys(("bash", "console", "sh", "shell"), "bash"),
    **dict.fromkeys(("mysql", "postgresql", "sql", "sqlite"), "sql"),
    **dict.fromkeys(("c", "c++", "cpp", "go", "java", "javascript", "js", "rust", "ts", "typescript"), "c"),
    "json": "json",
    "diff": "diff",
    "patch": "diff",
}
# The language of an argument by its name, or by the name of the tool.
_OF_ARGUMENTS = {
    **dict.fromkeys(("bash", "command", "cmd", "keystrokes", "script", "shell"), "bash"),
    **dict.fromkeys(("execute_sql", "query", "sql"), "sql"),
    **dict.fromkeys(("code", "program", "python"), "python"),
    **dict.fromkeys(("diff", "patch"), "diff"),
}
_SIGNS = (
    ("diff", re.compile(r"\A(?:diff --git |--- \S[^\n]*\n\+\+\+ |@@ -\d)")),
    ("python", re.compile(r"\A(?:#[^\n]*\n|\s)*(?:(?:from|import|def|class|async def) \w|@\w|if __name__)")),
    ("bash", re.compile(r"\A#!\S*sh\b")),
    ("sql", re.compile(r"\A\s*(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|ALTER|WITH)\s", re.IGNORECASE)),
)
# The roles whose texts models and people write, often in Markdown.
_PROSE = {"prompt", "message", "reply", "reasoning", "output"}


def show_text(
    text: str, limit: int = SHOWN_CHARACTERS, *, is_prose: bool = False, language: str = ""
) -> dict[str, Any]:
    """Return the beginning of a text, safe to show, and the number of characters that are left out.

    The value has a `language` if the text is code, and `nodes` if it is Markdown.
    """
    shown = escape_text(text[:limit], multiline=True)
    values = {"text": shown, "left_out": max(len(text) - limit, 0)}
    if len(shown) > _PARSED_CHARACTERS or not shown.strip():
        return values
    language = language or guess_language(shown)
    if language:
        return {**values, "language": language}
    return {**values, "nodes": mark_up(shown)} if is_prose else values


def guess_language(text: str) -> str:
    """Return the language of a text that is code as a whole, "" if it is something else or not known."""
    if text[:1] in "{[" and _read_json(text) is not None:
        return "json"
    return next((language for language, sign in _SIGNS if sign.match(text)), "")


def mark_up(text: str) -> list[Node]:
    """Return Markdown as nodes. HTML in it stays text, and an address of a link or a picture is shown."""
    from markdown_it.tree import SyntaxTreeNode

    return [*_show_all(SyntaxTreeNode(_parser().parse(text)).children)]


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def _show_all(nodes: Iterable[SyntaxTreeNode]) -> Iterator[Node]:
    for node in nodes:
        yield from _show(node)


def _show(node: SyntaxTreeNode) -> Iterator[Node]:
    if node.type in ("fence", "code_block"):
        # The page colours the only child of an element by its class.
        named = node.info.split(maxsplit=1)[0].lower() if node.info.strip() else guess_language(node.content)
        yield ["pre", _LANGUAGES.get(named, ""), escape_text(node.content, multiline=True)]
    elif node.type == "heading":
        # Not an element of a heading, because the page has an outline of its own.
        yield ["p", "heading", *_show_all(node.children)]
    elif node.type in ("link", "image"):
        yield from (
            ["[image: ", escape_text(node.content), "]"] if node.type == "image" else _show_all(node.children)
        )
        address = str(node.attrs.get("href") or node.attrs.get("src") or "")
        if address and "".join(_list_texts(node)) != address:
            yield ["span", "address", f" ({escape_text(address)})"]
    elif node.type in ("em", "strong") and node.markup.startswith("_"):
        # Names of programs, such as `__init__`, are more frequent than this spelling.
        yield from [node.markup, *_show_all(node.children), node.markup]
    elif node.type in ELEMENTS:
        yield [ELEMENTS[node.type], "", *_show_content(node)]
    else:
        yield from _show_content(node)


def _show_content(node: SyntaxTreeNode) -> Iterator[Node]:
    # A numeric entity may name an invisible character.
    yield from _show_all(node.children) if node.children else [escape_text(node.content, multiline=True)]


def _list_texts(node: SyntaxTreeNode) -> Iterator[str]:
    yield from (each.content for each in node.walk() if each.type == "text")


def describe_blocks(blocks: Iterable[Block], limit: int = SHOWN_CHARACTERS) -> Iterator[dict[str, Any]]:
    """Yield the parts of a transcript as plain values, with at most `limit` characters of each text."""
    tool = ""
    for block in blocks:
        tool = block.name if block.role == "call" else tool
        yield {
            "role": block.role,
            "name": escape_text(block.name),
            "id": escape_text(block.id),
            "heading": escape_text(block.heading.strip()),
            "label": escape_text(block.label.strip(" :")),
            "begins_entry": block.begins_entry and bool(block.heading),
            "is_warning": any(
                sign in style for style in (block.style, block.heading_style) for sign in ("yellow", "red")
            ),
            **_show_block(block, tool, limit),
        }


def _show_block(block: Block, tool: str, limit: int) -> dict[str, Any]:
    text = block.text or ""
    if block.role == "argument":
        return show_text(text, limit, language=_OF_ARGUMENTS.get(block.name) or _OF_ARGUMENTS.get(tool, ""))
    arguments = [*_list_arguments(block, limit)] if block.role == "call" and text else []
    if arguments:
        return {"text": "", "left_out": 0, "arguments": arguments}
    return show_text(text, limit, is_prose=block.role in _PROSE)


def _list_arguments(call: Block, limit: int) -> Iterator[dict[str, Any]]:
    """Yield the arguments of a call that a model has written as JSON, none if they are not an object."""
    found = _read_json(call.text or "")
    for name, value in found.items() if isinstance(found, dict) else ():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        language = _OF_ARGUMENTS.get(name) or _OF_ARGUMENTS.get(call.name, "")
        yield {"name": escape_text(name), **show_text(text, limit, language=language)}


def _read_json(text: str) -> Any:
    try:
        return parse_json(text)
    except BrokenJSONError:
        return None
