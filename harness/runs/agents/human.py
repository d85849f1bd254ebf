"""The human agent: a person at the terminal of this machine, in the environment that an agent would get."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Mapping
from typing import Any

from harness.core.errors import UsageError
from harness.core.text import escape_terminal
from harness.core.tools import SUBMIT, AgentEnvironment, Tool
from harness.core.types import Submission
from harness.environments.base import SandboxEnvironment
from harness.runs.agents.agent import AgentError, AgentSettings, AttemptContext
from harness.sandbox.streaming import Terminal, TerminalEnd

# Ctrl-], the escape key of telnet. It leaves the program at any time.
LEAVE = b"\x1d"
READ_BYTES = 4096
SECONDS = 600.0
_QUOTED = re.compile(r'"([^"]*)"(?=\s|$)')
HOW_TO_LEAVE = "The shell is yours. `exit` ends it, and Ctrl-] leaves it at any time."


class Person:
    """The person at the terminal. Raises UsageError if there is no terminal."""

    def __init__(self) -> None:
        if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
            raise UsageError("the human agent needs a terminal", hint="run the command in a terminal")
        self._keys = sys.stdin.fileno()
        self._screen = sys.stdout.fileno()

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of rows and columns of the terminal."""
        columns, rows = os.get_terminal_size(self._screen)
        return rows or 24, columns or 80

    def show(self, text: str) -> None:
        """Print a text of harness."""
        print(text, flush=True)

    async def ask(self, question: str) -> str | None:
        """Print a question and return the line that the person types, None at the end of input."""
        print(question, end="", flush=True)
        with self._read_keys() as typed:
            line = bytearray()
            while True:
                data = await typed.get()
                line += data
                if not data or data.endswith(b"\n"):
                    break
        if not line:
            return None
        return line.decode("utf-8", "surrogateescape").rstrip("\n")

    async def use(self, terminal: Terminal) -> TerminalEnd | None:
        """Connect keyboard and screen to a program. Return its end, or None if the person leaves first.

        The output of the program reaches the screen unchanged, as in a login to a remote machine. So it
        deserves no more trust than such a machine.
        """
        loop = asyncio.get_running_loop()
        with self._use_raw_mode(), self._read_keys() as typed:
            loop.add_signal_handler(signal.SIGWINCH, lambda: terminal.resize(*self.size))
            shown = asyncio.create_task(self._show(terminal))
            pressed = asyncio.create_task(_pass_keys(typed, terminal))
            try:
                await asyncio.wait((shown, pressed), return_when=asyncio.FIRST_COMPLETED)
                return await terminal.end() if shown.done() else None
            finally:
                loop.remove_signal_handler(signal.SIGWINCH)
                for task in (shown, pressed):
                    task.cancel()
                await asyncio.wait((shown, pressed))

    async def _show(self, terminal: Terminal) -> None:
        while data := await terminal.read():
            await asyncio.to_thread(_write_all, self._screen, data)

    @contextlib.contextmanager
    def _read_keys(self) -> Iterator[asyncio.Queue[bytes]]:
        """Yield a queue of the typed bytes, with b"" at the end of input."""
        typed: asyncio.Queue[bytes] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def read() -> None:
            data = os.read(self._keys, READ_BYTES)
            if not data:
                loop.remove_reader(self._keys)
            typed.put_nowait(data)

        loop.add_reader(self._keys, read)
        try:
            yield typed
        finally:
            loop.remove_reader(self._keys)

    @contextlib.contextmanager
    def _use_raw_mode(self) -> Iterator[None]:
        before = termios.tcgetattr(self._keys)
        tty.setraw(self._keys)
        try:
            yield
        finally:
            termios.tcsetattr(self._keys, termios.TCSAFLUSH, before)


async def _pass_keys(typed: asyncio.Queue[bytes], terminal: Terminal) -> None:
    """Pass typed bytes to the terminal until the person leaves."""
    while True:
        data = await typed.get()
        kept, left, _ = data.partition(LEAVE)
        terminal.type(kept)
        if left or not data:
            return


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


class Human:
    """Lets one person act, one attempt at a time.

    The person gets the terminal of the environment. If it has none, each line that the person types calls a
    tool. Finally the person is asked for the answer.
    """

    uses_terminals = True
    # There is only one person, at one terminal.
    max_concurrent = 1
    needs_this_machine = True

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._person = Person()

    async def attempt(self, context: AttemptContext) -> Submission:
        task, environment = context.task, context.environment
        self._person.show(f"\n--- {task.id}\n{escape_terminal(task.prompt, 100_000, multiline=True)}\n---")
        if environment is None:
            return self._settings.submit(task, "completion", await self._ask_for_answer())
        await self._act(environment)
        if environment.submitted is None:
            await environment.submit(await self._ask_for_answer())
        answer = str(environment.submitted)
        return Submission(answer, agent_output=answer)

    async def _act(self, environment: AgentEnvironment) -> None:
        if not isinstance(environment, SandboxEnvironment) or environment.terminal is None:
            await self._call_tools(environment)
            return
        self._person.show(HOW_TO_LEAVE)
        rows, columns = self._person.size
        env = {"TERM": os.environ.get("TERM", "xterm")}
        async with environment.terminal(rows=rows, columns=columns, timeout=SECONDS, env=env) as terminal:
            await self._person.use(terminal)
        self._person.show("")

    async def _call_tools(self, environment: AgentEnvironment) -> None:
        """Call a tool for each line that the person types, until an empty line or the end of the task."""
        tools = {name: tool for name, tool in environment.tools.items() if name != SUBMIT.name}
        if not tools:
            return
        self._person.show("\n".join(["Tools:", *map(_describe_tool, tools.values())]))
        self._person.show(
            'Type TOOL and its arguments. One with blanks needs "quotes" unless it is the last. '
            "An empty line ends."
        )
        while environment.submitted is None:
            line = await self._person.ask("> ")
            if not line:
                return
            name, _, rest = line.strip().partition(" ")
            if name not in tools and len(tools) == 1:
                name, rest = next(iter(tools)), line.strip()
            if name not in tools:
                known = ", ".join(tools)
                self._person.show(f"there is no tool '{escape_terminal(name, 100)}'; the tools are {known}")
                continue
            observation = await environment.call(name, read_arguments(tools[name], rest))
            self._person.show(escape_terminal(observation.text, 100_000, multiline=True))

    async def _ask_for_answer(self) -> str:
        answer = await self._person.ask("answer (empty for none): ")
        if answer is None:
            raise AgentError("the person left without giving an answer")
        return answer


def read_arguments(tool: Tool, line: str) -> dict[str, Any]:
    """Return the arguments of a tool that a person typed.

    They are a JSON object, or the arguments in order with blanks between them, the required ones first. An
    argument with blanks is in double quotes. The last required argument takes the rest of the line if it is
    any text, and needs no quotes then. An argument that is not a text is read as JSON. The tool refuses those
    that do not fit.
    """
    if line.startswith("{"):
        with contextlib.suppress(ValueError):
            given = json.loads(line)
            return given if isinstance(given, dict) else {}
    schema = tool.parameters
    required, optional = _list_arguments(tool)
    takes_rest = bool(required) and schema["properties"][required[-1]].get("type") == "string"
    if takes_rest and "enum" not in schema["properties"][required[-1]]:
        optional = []
    names = [*required, *optional]
    words = _split(line, len(names))
    return {
        name: _read_argument(word, schema["properties"][name])
        for name, word in zip(names, words, strict=False)
    }


def _list_arguments(tool: Tool) -> tuple[list[str], list[str]]:
    """Return the names of the required and of the optional arguments."""
    schema = tool.parameters
    required = list(schema.get("required", []))
    return required, [name for name in schema.get("properties", {}) if name not in required]


def _split(line: str, most: int) -> list[str]:
    """Return the words of a line, at most `most`. The last has the rest, and quotes around a word are cut."""
    words: list[str] = []
    rest = line.strip()
    while rest:
        quoted = _QUOTED.match(rest)
        if len(words) == most - 1 and (quoted is None or quoted.end() < len(rest)):
            words.append(rest)
            break
        word, _, after = rest.partition(" ")
        words.append(word if quoted is None else quoted[1])
        rest = (after if quoted is None else rest[quoted.end() :]).lstrip()
    return words


def _read_argument(word: str, schema: Mapping[str, Any]) -> Any:
    if schema.get("type") == "string" or "enum" in schema or "$ref" in schema:
        return word
    try:
        return json.loads(word)
    except ValueError:
        return word


def _describe_tool(tool: Tool) -> str:
    """Return the form of a call, with the descriptions that a model gets too."""
    required, optional = _list_arguments(tool)
    names = [*map(str.upper, required), *(f"[{name.upper()}]" for name in optional)]
    about = [tool.description]
    for name, schema in tool.parameters.get("properties", {}).items():
        values = f"({', '.join(map(str, schema['enum']))})" if "enum" in schema else ""
        text = " ".join(filter(None, (schema.get("description"), values)))
        about += [f"{name}: {text}"] if text else []
    return "\n      ".join((" ".join(("  " + tool.name, *names)), *about))


AGENTS = (("human", Human),)
