"""Programs in the replies of many models: fences that are missing, other or too many, marks, and channels."""

from __future__ import annotations

from case_checks import each_case
from effort import text_of_length

from harness.benchmarks.replies import CodeRule, extract_code, read_blocks, remark_on_code
from harness.core.scoring.answers import drop_thoughts

F = "def f(x):\n    return x + 1"
FENCED = f"```python\n{F}\n```"
DOCUMENTED = 'def f(x):\n    """Add.\n\n    ```\n    f(1)\n    ```\n    """\n    return x + 1'
FLUSH = 'def f(x):\n    """Add.\n```python\nf(1)\n```\nand\n```\n2\n```\n    """\n    return x + 1'
MODULE = f'"""Adds.\n\n```python\nf(1)\n```\n"""\n{F}'
FINAL = "<|channel|>analysis<|message|>Use ```python\ndef f(x): 0\n```<|end|>"
# Each form of a reply by the program in it.
FORMS: dict[str, list[str]] = {
    F: [
        # Only the closing fence: the opening one was in the prompt.
        f"{F}\n```",
        f"\n{F}\n```\n",
        f"{F}\n```\nThis adds one.",
        f"{F}\n```\n\nUsage:\n```python\nprint(f(1))\n```",
        f"{F}\n```\n\nUsage:\n```python\nprint(f(1))",
        f"{F}\n```\n\nOutput:\n```\n2\n```\n",
        f"python\n{F}\n```",
        f"{F}\n~~~",
        f"{F}\n```<|im_end|>",
        # Other fences, and fences around blocks.
        f"~~~python\n{F}\n~~~",
        f"~~~\n{F}\n~~~\nDone.",
        f"~~~~ python\n{F}\n~~~~",
        f"````python\n{F}\n````",
        f"````markdown\n# Solution\n{FENCED}\nDone.\n````",
        f"````md\n{FENCED}\n````",
        f"````\n{FENCED}\n````",
        f"`````markdown\n````python\n{F}\n````\n`````",
        f"```markdown\nHere it is:\n\n{FENCED}\n```",
        f"```\n{FENCED}\n```",
        f"~~~markdown\n{FENCED}\n~~~",
        f"```text\n{FENCED}\n```\n",
        f"Here:\n```\nThe code:\n{FENCED}",
        # Fences that end otherwise.
        f"```python\n{F}\n\nBetter:\n{FENCED}",
        f"```python\n{F}\n``` This adds one.",
        f"```python\n{F}```",
        f"```python\n{F}",
        f"{FENCED}\n```",
        f"{FENCED}\n```\n```",
        # The end of the text, and turns after it.
        f"{FENCED}<|im_end|>",
        f"{FENCED}<|endoftext|>",
        f"{FENCED}</s>",
        f"{FENCED} <|eot_id|>",
        f"{FENCED}<｜end▁of▁sentence｜>",
        f"{FENCED}<end_of_turn>\n",
        f"{FENCED}\n<|im_end|>\n<|endoftext|>",
        f"{FENCED}<|im_end|>\n<|im_start|>user\nAnd g?\n```python\ndef f(x): 0\n```",
        f"{FENCED}<|endoftext|>Human: write g.",
        f"```python\n{F}<|im_end|>",
        f"```python\n{F}\n```<|return|>",
        f"{F}<|end_of_text|>",
        f"{FENCED}<|END_OF_TURN_TOKEN|>",
        f"{FENCED}[e~[",
        # Characters that nobody sees.
        f"\ufeff{FENCED}",
        f"```python\n\ufeff{F}\n```",
        f"\ufeff{F}",
        f"```python\n\u200b{F}\n\u200b```",
        f"\u200b```python\n{F}\n```",
        f"```python\n{F}\n\ufeff```\nDone.",
        # Marks instead of fences.
        f"[PYTHON]\n{F}\n[/PYTHON]",
        f"Here:\n[PYTHON]{F}[/PYTHON]\n[TESTS]\nassert f(1) == 2\n[/TESTS]",
        f"[PYTHON]\n{FENCED}\n[/PYTHON]",
        f"[PYTHON]\n{F}",
        f"{F}\n[/PYTHON]",
        f"[CODE]\n{F}\n[/CODE]",
        f"<python>\n{F}\n</python>",
        f"<code>\n{F}\n</code>",
        f"<answer>\n{FENCED}\n</answer>",
        f"<answer>\n{F}\n</answer>",
        f"<solution>{F}</solution>",
        f'<pre><code class="language-python">\n{F}\n</code></pre>',
        f"<|begin_of_solution|>\n{FENCED}<|end_of_solution|>",
        f"````python\n{F}\n```",
        # Thoughts.
        f"[THINK]Use ```python\n0\n```[/THINK]{FENCED}",
        f"<seed:think>Use ```python\n0\n```</seed:think>{FENCED}",
        f"<mm:think>0</mm:think>\n{FENCED}",
        f"<reasoning>\nUse ```\n0\n```\n</reasoning>\n{FENCED}",
        f"<thought>```\n0\n```</thought>{FENCED}",
        f"<Thinking>```\n0\n```</Thinking>{FENCED}",
        f"◁think▷```\n0\n```◁/think▷{FENCED}",
        f"<|begin_of_thought|>```\n0\n```<|end_of_thought|>{FENCED}",
        f"<|START_THINKING|>```\n0\n```<|END_THINKING|>{FENCED}",
        f"```\n0\n```\n</seed:think>\n{FENCED}",
        f"```\n0\n```[/THINK]\n{FENCED}",
        f"<think>A <reasoning> tag.</think>{FENCED}",
        # Channels.
        f"{FINAL}<|start|>assistant<|channel|>final<|message|>{FENCED}<|return|>",
        f"{FINAL}<|start|>assistant<|channel|>final <|constrain|>text<|message|>{FENCED}",
        f"<|start|>assistant{FINAL}<|start|>assistant<|channel|>final<|message|>{F}<|end|>",
        f"I think of it.<|end|><|start|>assistant<|channel|>final<|message|>{FENCED}",
        f"<|channel|>final<|message|>{FENCED}",
        f"{FINAL}<|start|>assistant<|channel|>commentary<|message|>I write it.<|end|>"
        f"<|start|>assistant<|channel|>final<|message|>{FENCED}",
        f"analysisWe add one.\n```\n0\n```assistantfinal{FENCED}",
    ],
    # Fences in docstrings, and quotes that open no text.
    DOCUMENTED: [
        f"```python\n{DOCUMENTED}\n```",
        f"```\n{DOCUMENTED}\n```\nIt adds one.",
        f"{DOCUMENTED}\n```",
        f"~~~python\n{DOCUMENTED}\n~~~",
        f"```python\n{DOCUMENTED}",
    ],
    FLUSH: [f"```python\n{FLUSH}\n```", f"```py\n{FLUSH}\n```\nDone.", f"Here:\n```python\n{FLUSH}\n```"],
    MODULE: [f"```python\n{MODULE}\n```", f"````markdown\n```python\n{MODULE}\n```\n````"],
    f'{F}  # """': [f'```python\n{F}  # """\n```\nOutput:\n```\n2\n```'],
    f'{F}\nQ = \'"""\'': [f'```python\n{F}\nQ = \'"""\'\n```\nor\n```\n2\n```'],
    f'{F}\nQ = "<code>x</code>[/PYTHON] ~~~"': [f'{F}\nQ = "<code>x</code>[/PYTHON] ~~~"'],
    f'{F}\nQ = """\n<code>\nx\n</code>\n"""': [f'{F}\nQ = """\n<code>\nx\n</code>\n"""'],
    f'{F}\nQ = """\n[PYTHON]\nx\n"""': [f'```python\n{F}\nQ = """\n[PYTHON]\nx\n"""\n```'],
    f'{F}\nQ = "</think>"': [f'```python\n{F}\nQ = "</think>"\n```'],
    f'{F}\nQ = "<|im_end|>"\n': [f'```python\n{F}\nQ = "<|im_end|>"\n\n```'],
    f'{F}\nQ = """': [f'```python\n{F}\nQ = """\n```\nThe output is:\n```\n2\n```'],
}


def test_the_program_is_found_in_every_form_of_a_reply() -> None:
    offenders = [
        (reply, found)
        for program, replies in FORMS.items()
        for reply in replies
        if (found := extract_code(reply, CodeRule.FENCED, entry_point="f")) != program
    ]
    assert offenders == []


def test_a_text_that_mentions_a_mark_is_no_block() -> None:
    texts = ["Split at `[PYTHON]` first.", "Use <code>f</code> here.", "The end [/PYTHON] is missing."]
    assert [text for text in texts if any(block.strip() for block in read_blocks(text))] == []


def test_a_mark_of_a_template_inside_of_a_text_stays() -> None:
    texts = [
        'say("<|im_end|>")\nand go on',
        "x = '<think>'",
        "the tag `</reasoning>` ends it",
        "a </s> b",
        "the analysis is short",
    ]
    assert [text for text in texts if drop_thoughts(text) != text] == []


@each_case(
    "piece",
    [
        "<|channel|>final<|message|>",
        "<|start|>",
        "<|im_end|>",
        "</s> ",
        "```<|im_end|>\n",
        "[PYTHON]\n",
        "[/PYTHON]",
        '```\n"""\n',
        '```python\n"""\n```\n',
        "````markdown\n",
        "~~~\n",
        '"\\"',
        "analysis assistantfinal",
        "x = 1\n```\n",
        "\ufeff",
        f"<|channel|>{'a' * 300}",
        "<|channel|>" + " " * 2000,
    ],
)
def test_reading_takes_linear_time(piece: str) -> None:
    reply = text_of_length(piece, 600_000)
    extract_code(reply, CodeRule.FENCED, entry_point="f")
    extract_code(f"```python\n{reply}", CodeRule.FENCED)


def test_a_quoted_stub_is_not_the_program() -> None:
    program = "def f(x):\n    return 2 * x"
    offenders = []
    for stub in (
        "def f(x): ...",
        "def f(x):\n    pass",
        "async def f(x):\n    ...  # later",
        "def f(x) -> int: pass",
    ):
        reply = f"```python\n{program}\n```\nIt completes:\n```python\n{stub}\n```"
        if extract_code(reply, CodeRule.FENCED, entry_point="f") != program:
            offenders.append(stub)
    assert offenders == []
    alone = extract_code("```python\ndef f(x): ...\n```", CodeRule.FENCED, entry_point="f")
    assert alone == "def f(x): ..."


def test_the_evidence_of_a_program_that_was_not_found_shows_the_reply() -> None:
    nothing = "no block of code was found in the reply"
    replies = {
        "I cannot write this.\nSorry.": f"{nothing}, which begins: I cannot write this.\nSorry.",
        "<think>def f(x): 0": "the reply holds only thoughts, so it has no block of code; it begins: <think>",
        "": "the reply is empty",
        "```python\n```": f"{nothing}, which begins: ```python",
        "\x1b[31mNo.": f"{nothing}, which begins: \\x1b[31mNo.",
        "x" * 2_000_001: "the reply has 2,000,001 characters, more than 2,000,000, so it is not read",
        "The code is ``` only": nothing,
    }
    offenders = [
        found for reply, start in replies.items() if not (found := remark_on(reply) or "").startswith(start)
    ]
    assert offenders == []
    assert [reply for reply in (F, FENCED, f"{F}\n```", "# A comment\nprint(1)") if remark_on(reply)] == []


def test_a_strict_rule_that_finds_nothing_names_the_rule_that_finds_a_program() -> None:
    rule = CodeRule.BETWEEN_LAST_FENCES
    for reply in (f"{F}\n```", f"~~~python\n{F}\n~~~"):
        remark = remark_on_code(reply, rule, extract_code(reply, rule))
        assert remark is not None
        assert remark.endswith("; --extract fenced finds one")


def remark_on(reply: str) -> str | None:
    rule = CodeRule.FENCED
    return remark_on_code(reply, rule, extract_code(reply, rule, entry_point="f"))
