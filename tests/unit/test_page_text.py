"""Markdown and code as nodes, in which no text of a model becomes an element, an attribute or an address."""

from __future__ import annotations

import json
from collections.abc import Iterator

from case_checks import each_case

from harness.reports.page_values import ELEMENTS, SHOWN_CHARACTERS, Node, describe_blocks, mark_up, show_text
from harness.reports.transcript_entries import ShownTexts, describe_entry

HOSTILE = """<script>alert(1)</script> <b onclick=x>b</b> [l](javascript:alert(1)) <http://198.51.100.1/>
![p](http://198.51.100.1/p.png "t") &#8238; &lt;i&gt; [r]

[r]: http://198.51.100.1/r

```"><script>x</script>
<style>*{}</style>
```

<div><iframe src=x></iframe></div>

> # head *e* __init__ `c` ~~s~~
"""


def walk(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node, list):
            yield from walk(node[2:])


def read(nodes: list[Node]) -> str:
    return "".join(node for node in walk(nodes) if isinstance(node, str))


def test_markdown_has_only_elements_of_the_list_and_classes_of_ours() -> None:
    elements = [node for node in walk(mark_up(HOSTILE)) if isinstance(node, list)]
    assert {str(node[0]) for node in elements} <= {*ELEMENTS.values(), "span", "pre"}
    assert {str(node[1]) for node in elements} <= {"", "heading", "address"}
    text = read(mark_up(HOSTILE))
    for part in (
        "<script>alert(1)</script>",
        "<iframe src=x>",
        "<i>",
        "[image: p] (http://198.51.100.1/p.png)",
    ):
        assert part in text
    assert "__init__" in text
    assert "\u202e" not in text


@each_case(
    ("text", "language"),
    [
        ("def f():\n    return 1\n", "python"),
        ("# remark\n\nimport os", "python"),
        ('{"a": [1, "b"]}', "json"),
        ("SELECT a FROM b WHERE c = 'd'", "sql"),
        ("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n", "diff"),
        ("a sentence with def in it", ""),
    ],
)
def test_a_text_that_is_code_as_a_whole_has_its_language(text: str, language: str) -> None:
    shown = show_text(text, is_prose=True)
    assert (shown["text"], shown.get("language", "")) == (text, language)
    assert ("nodes" in shown) == (not language)


def test_only_prose_is_read_as_markdown() -> None:
    assert "nodes" not in show_text("a **b** c")
    assert ["strong", "", "b"] in [*walk(show_text("a **b** c", is_prose=True)["nodes"])]


def test_a_long_text_is_neither_parsed_nor_shown_whole() -> None:
    shown = show_text("*a* " * SHOWN_CHARACTERS, is_prose=True)
    assert "nodes" not in shown
    assert (len(shown["text"]), shown["left_out"]) == (SHOWN_CHARACTERS, 3 * SHOWN_CHARACTERS)


def test_code_in_markdown_has_a_language_of_ours() -> None:
    nodes = mark_up("```Python x\na\n```\n```onclick\nb\n```\n    def c(): ...\n")
    assert nodes == [["pre", "python", "a\n"], ["pre", "", "b\n"], ["pre", "python", "def c(): ...\n"]]


def test_a_call_that_a_model_wrote_has_its_arguments_apart() -> None:
    call = {"id": "1", "name": "bash", "arguments": json.dumps({"command": "ls # x", "times": 2})}
    entry = {"kind": "model", "request": 1, "reply": {"tool_calls": [call]}, "seconds": 1}
    *_, shown = describe_blocks(describe_entry(entry, ShownTexts()))
    assert (shown["role"], shown["name"], shown["id"]) == ("call", "bash", "1")
    assert [(each["name"], each["text"]) for each in shown["arguments"]] == [
        ("command", "ls # x"),
        ("times", "2"),
    ]
    assert shown["arguments"][0]["language"] == "bash"
