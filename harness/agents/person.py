"""The terminal of the person in front of this machine, lent to a program in a sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator

from harness.errors import UsageError
from harness.sandbox.terminal import Terminal, TerminalEnd

# As telnet has it: leaves whatever the program does.
LEAVE = b"\x1d"
READ_BYTES = 4096


class Person:
    """Who types and reads. Raises UsageError where there is no terminal to do that on."""

    def __init__(self) -> None:
        if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
            raise UsageError("a person acts on a terminal, and this is none", hint="run it in a terminal")
        self._keys = sys.stdin.fileno()
        self._screen = sys.stdout.fileno()

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns, in characters."""
        columns, rows = os.get_terminal_size(self._screen)
        return rows or 24, columns or 80

    def say(self, text: str) -> None:
        """Print lines of ours."""
        print(text, flush=True)

    async def ask(self, question: str) -> str | None:
        """Return one line that is typed, None at the end of input."""
        print(question, end="", flush=True)
        with self._typed() as typed:
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
        """Lend keys and screen, raw, until the program ends, or the person leaves: then None.

        What the program writes reaches the screen as it is: it is as far to be trusted as any machine
        that one logs in to.
        """
        loop = asyncio.get_running_loop()
        with self._raw(), self._typed() as typed:
            loop.add_signal_handler(signal.SIGWINCH, lambda: terminal.resize(*self.size))
            shown = asyncio.create_task(self._show(terminal))
            pressed = asyncio.create_task(_press(typed, terminal))
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
    def _typed(self) -> Iterator[asyncio.Queue[bytes]]:
        """What is typed, as it comes; b"" at the end of input."""
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
    def _raw(self) -> Iterator[None]:
        before = termios.tcgetattr(self._keys)
        tty.setraw(self._keys)
        try:
            yield
        finally:
            termios.tcsetattr(self._keys, termios.TCSAFLUSH, before)


async def _press(typed: asyncio.Queue[bytes], terminal: Terminal) -> None:
    """Pass keys on until the person leaves."""
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
