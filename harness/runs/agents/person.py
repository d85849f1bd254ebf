"""The user's terminal, which can be connected to a program in a sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator

from harness.core.errors import UsageError
from harness.sandbox.streaming import Terminal, TerminalEnd

# Ctrl-], the escape key of telnet. It leaves the program at any time.
LEAVE = b"\x1d"
READ_BYTES = 4096


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
