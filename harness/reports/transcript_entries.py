"""The entries of a transcript as blocks of text, the same on a terminal and in the HTML report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from harness.core.errors import DataError
from harness.core.text import escape_terminal
from harness.core.types import AttemptRecord
from harness.reports.attempt_figures import SHOWN_WAIT_SECONDS, describe_tokens
from harness.reports.console import SHOWN_CHARACTERS, open_report, print_line, print_text
from harness.reports.recorded_attempts import list_objects, read_text
from harness.runs.run_files import has_run_file, split_nested
from harness.runs.transcripts import (
    TRANSCRIPTS,
    find_transcript,
    read_entries,
    read_numbered_entries,
    transcript_name,
)

if TYPE_CHECKING:
    from rich.console import Console


_NAME = 100
# A model may reason for a hundred times as long as it answers.
REASONING_CHARACTERS = 1000
# A shorter prompt is repeated where it is a part of a message.
_LONG = 200
# A reply that ended in one of these ways is complete.
_USUAL_ENDS = (None, "stop", "tool_calls")
# The metrics of attempts that asked a model or called a tool.
_ACTED = {"model_requests", "rounds"}
EXCERPT_CHARACTERS = 2000
"""The most characters of one text in an excerpt."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of an entry: a heading of one line, a text, or both."""

    heading: str = ""
    # None for a block that is only a heading.
    text: str | None = None
    # The text before each line of `text`.
    indent: str = "  | "
    # The styles of a terminal.
    heading_style: str = "bold"
    style: str = ""
    # The most characters of the text to show, None for all.
    limit: int | None = None
    # Whether an empty line precedes the heading.
    begins_entry: bool = True
    # The part that a page makes of it, such as a request, a reply, a call, an argument or a result.
    role: str = "note"
    # The role of a message, the tool of a call, or the name of an argument.
    name: str = ""
    # The id that joins a call with its result.
    id: str = ""
    # The words before the text, which become a heading of the page.
    label: str = ""


@dataclass(slots=True)
class ShownTexts:
    """The texts that earlier entries of a transcript have shown, without space around them."""

    prompt: str = ""
    texts: set[str] = field(default_factory=set)


def describe_entries(entries: Iterable[Mapping[str, Any]]) -> Iterator[Block]:
    """Yield the blocks of a transcript. A message to a model that repeats a text only refers to it."""
    shown = ShownTexts()
    for entry in entries:
        yield from describe_entry(entry, shown)


def describe_entry(entry: Mapping[str, Any], shown: ShownTexts) -> Iterator[Block]:
    """Yield the blocks of one entry of a transcript.

    Args:
        entry: the entry.
        shown: the texts of the entries before it. The texts of this entry are added.
    """
    describe = _KINDS.get(str(entry.get("kind")))
    if "kind" in entry and describe is not None:
        yield from describe(entry, shown)
    elif "prompt" in entry:
        shown.prompt = read_text(entry["prompt"]).strip()
        shown.texts.add(shown.prompt)
        yield Block(text=read_text(entry["prompt"]), indent="", role="prompt")
    elif "output" in entry:
        output = read_text(entry["output"])
        is_shown = bool(output.strip()) and output.strip() in shown.texts
        yield Block("[output] as above") if is_shown else Block("[output]", output, role="output")
    elif "error" in entry:
        heading = f"[agent error] {escape_terminal(read_text(entry['error']))}"
        yield Block(heading, read_text(entry.get("traceback")), heading_style="bold red", role="error")
    elif "tool" in entry:
        shown.texts.add(read_text(entry.get("observation")).strip())
        yield from _describe_call(entry)
    else:
        # An agent of the user's own may write any entry.
        shown_fields = {name: value for name, value in entry.items() if name != "time"}
        yield Block("[entry]", json.dumps(shown_fields))


def _describe_call(entry: Mapping[str, Any]) -> Iterator[Block]:
    refused, arguments = entry.get("refused"), entry.get("arguments")
    yield Block(
        f"[{_name(entry.get('round'))}] {_name(entry.get('tool'))}  ({_name(entry.get('seconds'))} s)",
        heading_style="bold yellow" if refused else "bold",
        role="call",
        name=read_text(entry.get("tool")),
    )
    if refused:
        # The name of an argument may be the mistake, so a refused call is shown as it was.
        yield Block(text=json.dumps(arguments), indent="  $ ", style="cyan", role="argument")
        arguments = None
    for name, value in (arguments if isinstance(arguments, dict) else {}).items():
        # A command or a query is easiest to read as it was written, so it is not shown in JSON.
        label = "" if len(arguments or {}) == 1 else f"{_name(name)}: "
        yield Block("", read_text(value), "  $ ", style="cyan", role="argument", name=name, label=label)
    if entry.get("ended") is None:
        yield Block(text=read_text(entry.get("observation")), role="result")
    else:
        ended = f"no observation: the call ended with {_name(entry['ended'])}"
        yield Block(text=ended, style="yellow", role="result")


def _describe_model(entry: Mapping[str, Any], shown: ShownTexts) -> Iterator[Block]:
    asked = "request to the judge" if entry.get("kind") == "judge" else "request"
    figures = ", ".join(_list_figures(entry))
    yield Block(f"[{asked} {_name(entry.get('request'))}]  ({figures})", role="request")
    for name in ("parameters", "tools"):
        if entry.get(name):
            yield Block(text=f"{name}: {json.dumps(entry[name])}", indent="  ", style="dim")
    if entry.get("changed"):
        text = "The agent has changed earlier messages, so all messages follow."
        yield Block(text=text, indent="  ", style="dim")
    for name in ("withheld", "dropped"):
        if entry.get(name):
            yield Block(text=f"{name} by the relay: {json.dumps(entry[name])}", indent="  ", style="yellow")
    repeated: list[str] = []
    for message in list_objects(entry.get("messages")):
        if _is_shown(message, shown):
            repeated.append(_name(message.get("role")))
            continue
        yield from _refer_to(repeated)
        repeated = []
        yield from _describe_message(message, shown)
    yield from _refer_to(repeated)
    reply = entry.get("reply")
    if isinstance(reply, dict):
        shown.texts.add(_identify(reply))
        yield from _describe_reply(reply, "reply")


def _is_shown(message: Mapping[str, Any], shown: ShownTexts) -> bool:
    """Return whether an earlier entry has shown all of a message."""
    has_text = bool(read_text(message.get("text")).strip() or message.get("tool_calls"))
    return has_text and _identify(message) in shown.texts


def _identify(message: Mapping[str, Any]) -> str:
    """Return the text of a message, with its calls if it has any."""
    text = read_text(message.get("text")).strip()
    calls = [[call.get("name"), call.get("arguments")] for call in list_objects(message.get("tool_calls"))]
    return json.dumps([text, calls]) if calls else text


def _refer_to(roles: list[str]) -> Iterator[Block]:
    """Yield a line for messages that are not repeated, none without any."""
    if roles:
        yield Block(f"  {', '.join(roles)}: as above", heading_style="dim", begins_entry=False)


def _list_figures(entry: Mapping[str, Any]) -> Iterator[str]:
    usage = entry.get("usage")
    counts = {
        name: value
        for name, value in (usage if isinstance(usage, dict) else {}).items()
        if type(value) is int and value >= 0
    }
    if entry.get("cached"):
        yield "from the cache"
    if type(entry.get("n")) is int:
        yield f"one request for {entry['n']:,} attempts"
    yield describe_tokens(counts)
    yield f"{_name(entry.get('seconds'))} s"
    waited = entry.get("waiting_seconds")
    if isinstance(waited, int | float) and waited >= SHOWN_WAIT_SECONDS:
        yield f"{_name(waited)} s of it in our own queue"
    if entry.get("retries"):
        yield f"retries: {_name(entry['retries'])}"


def _describe_message(message: Mapping[str, Any], shown: ShownTexts) -> Iterator[Block]:
    text, role = read_text(message.get("text")), _name(message.get("role"))
    if message.get("tool_calls") or message.get("reasoning"):
        yield from _describe_reply(message, role)
    else:
        shorter = _leave_out_prompt(text, shown)
        shown.texts.add(text.strip())
        yield Block(
            f"  {role}:",
            shorter,
            indent="  > ",
            heading_style="dim",
            begins_entry=False,
            role="result" if role == "tool" else "message",
            name=role,
            id=read_text(message.get("tool_call_id")),
        )


def _leave_out_prompt(text: str, shown: ShownTexts) -> str:
    """Return a text without the prompt in it, which is shown above."""
    return text.replace(shown.prompt, "[prompt as above]", 1) if len(shown.prompt) >= _LONG else text


def _describe_reply(reply: Mapping[str, Any], role: str) -> Iterator[Block]:
    def describe(label: str, text: str, style: str = "", limit: int | None = None) -> Block:
        kind = label if label == "reasoning" else "reply"
        return Block(f"  {label}:", text, "  | ", "dim", style, limit, False, kind, role)

    if reply.get("reasoning"):
        yield describe("reasoning", read_text(reply["reasoning"]), "dim", REASONING_CHARACTERS)
    if reply.get("text"):
        yield describe(role, read_text(reply["text"]))
    for call in list_objects(reply.get("tool_calls")):
        yield Block(
            text=read_text(call.get("arguments")),
            indent="  $ ",
            style="cyan",
            label=f"{_name(call.get('name'))} ",
            role="call",
            name=read_text(call.get("name")),
            id=read_text(call.get("id")),
        )
    if reply.get("refusal"):
        yield describe("refusal", read_text(reply["refusal"]), "yellow")
    if reply.get("finish") not in _USUAL_ENDS:
        yield Block(f"  finish: {_name(reply['finish'])}", heading_style="yellow", begins_entry=False)


def _describe_note(entry: Mapping[str, Any], _shown: ShownTexts) -> Iterator[Block]:
    yield Block(f"[{_name(entry.get('kind'))}]", read_text(entry.get("text")), heading_style="bold yellow")


def _describe_format_error(entry: Mapping[str, Any], shown: ShownTexts) -> Iterator[Block]:
    shown.texts.add(read_text(entry.get("advice")).strip())
    heading = f"[format error] {_name(entry.get('name'))}"
    yield Block(heading, read_text(entry.get("advice")), heading_style="bold yellow")


def _describe_program(entry: Mapping[str, Any], _shown: ShownTexts) -> Iterator[Block]:
    if entry.get("limit") is not None:
        how = f"ended at the limit {read_text(entry['limit'])}"
    elif "exit_code" in entry:
        how = f"exit code {read_text(entry['exit_code'])}"
    else:
        how = f"ended {read_text(entry.get('ended'))}"
    argv = entry.get("argv")
    command = " ".join(map(read_text, argv)) if isinstance(argv, list) else ""
    yield Block(f"[program] {escape_terminal(how, _NAME)}", command)
    for name in ("stdout", "stderr"):
        if entry.get(name):
            yield Block(f"[{name}]", read_text(entry[name]), begins_entry=False)


def _describe_reference(entry: Mapping[str, Any], shown: ShownTexts) -> Iterator[Block]:
    shown.texts.add(read_text(entry.get("observation")).strip())
    yield Block("[reference]", role="call", name="reference")
    yield Block(text=read_text(entry.get("text")), indent="  $ ", style="cyan", role="argument")
    yield Block(text=read_text(entry.get("observation")), role="result")


def _describe_terminal(_entry: Mapping[str, Any], _shown: ShownTexts) -> Iterator[Block]:
    yield Block("[terminal] a person typed here")


def _describe_difference(entry: Mapping[str, Any], _shown: ShownTexts) -> Iterator[Block]:
    place = "" if entry.get("round") is None else f"round {_name(entry.get('round'))}, "
    place += f"{_name(entry.get('tool'))}, character {_name(entry.get('character'))}"
    yield Block(f"[first difference] {place}", heading_style="bold red")
    for name in ("recorded", "observed"):
        facts = [f"{_name(entry.get(f'{name}_characters'))} characters"]
        facts += ["refused"] if entry.get(f"{name}_refused") else []
        ended = entry.get(f"{name}_ended")
        facts += [f"ended with {_name(ended)}"] if ended else []
        heading = f"  {name} ({', '.join(facts)}):"
        yield Block(heading, read_text(entry.get(name)), heading_style="dim", begins_entry=False)


def _describe_mcp_server(entry: Mapping[str, Any], _shown: ShownTexts) -> Iterator[Block]:
    """Yield the start of an MCP server, or a tool of it that is left out."""
    server = f"[mcp server {_name(entry.get('server'))}]"
    if "left_out" in entry:
        heading = f"{server} the tool {_name(entry.get('tool'))} is left out"
        yield Block(heading, read_text(entry["left_out"]), heading_style="bold yellow")
    elif "error" in entry:
        yield Block(f"{server} gives no tools", read_text(entry["error"]), heading_style="bold yellow")
    else:
        yield Block(f"{server} tools: {_name(entry.get('tools'))}  ({_name(entry.get('seconds'))} s)")


def _describe_step(entry: Mapping[str, Any], shown: ShownTexts) -> Iterator[Block]:
    shown.prompt = read_text(entry.get("prompt")).strip()
    shown.texts.add(shown.prompt)
    place = f"{_name(entry.get('number'))} of {_name(entry.get('of'))}"
    yield Block(f"[step {place}] {_name(entry.get('name'))}", shown.prompt, indent="")


def _describe_graded_step(entry: Mapping[str, Any], _shown: ShownTexts) -> Iterator[Block]:
    reward = f", reward {_name(entry['reward'])}" if "reward" in entry else ""
    heading = f"[graded] {_name(entry.get('name'))}: {_name(entry.get('status'))}{reward}"
    yield Block(heading, None if entry.get("error") is None else read_text(entry["error"]))


_KINDS = {
    "model": _describe_model,
    "judge": _describe_model,
    **dict.fromkeys(("context", "relay", "full"), _describe_note),
    "format_error": _describe_format_error,
    "program": _describe_program,
    "reference": _describe_reference,
    "terminal": _describe_terminal,
    "difference": _describe_difference,
    "mcp_server": _describe_mcp_server,
    "step": _describe_step,
    "step_graded": _describe_graded_step,
}


def _name(value: Any) -> str:
    return escape_terminal(str(value), _NAME)


def print_transcript(
    folder: Path, task_id: str, attempt: int, *, stream: TextIO, limit: int = SHOWN_CHARACTERS
) -> bool:
    """Print the transcript of an attempt in a run folder, and return whether the attempt has one.

    At most `limit` characters of each text are shown. Raises DataError, with file and line, if the transcript
    cannot be read.
    """
    blocks = read_transcript(folder, task_id, attempt)
    if blocks is None:
        return False
    file = find_transcript(folder, task_id, attempt)
    with open_report(stream) as console:
        for block in blocks:
            _print_block(console, block, limit, file)
    return True


def read_transcript(folder: Path, task_id: str, attempt: int) -> Iterator[Block] | None:
    """Return the blocks of the transcript of an attempt in a run folder, None if the attempt has none.

    The iterator raises DataError, with file and line, if the transcript cannot be read.
    """
    path = find_transcript(folder, task_id, attempt)
    return describe_entries(read_entries(path)) if has_run_file(*split_nested(path)) else None


def excerpt_transcript(folder: Path, record: AttemptRecord, characters: int) -> list[Block]:
    """Return the first blocks of the transcript of an attempt that asked a model or called a tool.

    Other attempts have no block, because the report shows their answer anyway. The last block reports a cut
    after `characters`, or a transcript that cannot be read.
    """
    if not record.metrics.keys() & _ACTED:
        return []
    excerpt: list[Block] = []
    try:
        for block in read_transcript(folder, record.task_id, record.attempt) or ():
            characters -= len(block.heading) + min(len(block.text or ""), EXCERPT_CHARACTERS)
            if characters < 0:
                name = transcript_name(record.task_id, record.attempt)
                return [*excerpt, Block(f"... (the rest is in {TRANSCRIPTS}/{name})")]
            excerpt.append(block)
    except DataError as error:
        excerpt.append(Block(f"The transcript cannot be read: {error.message}"))
    return excerpt


def read_prompt(folder: Path, record: AttemptRecord) -> str | None:
    """Return the prompt of an attempt, None if it has no transcript that can be read."""
    path = find_transcript(folder, record.task_id, record.attempt)
    if not has_run_file(*split_nested(path)):
        return None
    try:
        with closing(read_numbered_entries(path)) as entries:
            _, first = next(entries, (0, {}))
    except DataError:
        return None
    prompt = first.get("prompt")
    return prompt if isinstance(prompt, str) else None


def _print_block(console: Console, block: Block, limit: int, file: Path) -> None:
    if block.heading:
        print_line(console, ("\n" if block.begins_entry else "") + block.heading, block.heading_style)
    if block.text is not None:
        most = limit if block.limit is None else min(limit, block.limit)
        print_text(console, block.label + block.text, most, indent=block.indent, style=block.style, file=file)
