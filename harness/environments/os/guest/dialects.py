"""The shells that the guest knows to talk to: bash, and the plain sh of images without bash."""

from __future__ import annotations

import os

# The history must not show the guest's own commands, neither now nor in a file later.
HISTORY = b"\\builtin set +o history; \\builtin history -c\n"


class Dialect:
    """A shell's program, its word before commands of the guest, and its own descriptors.

    No function or alias that the agent defines replaces a command behind the word. The descriptors are the
    output of commands, their empty input, and the marks. Scripts use other numbers.
    """

    def __init__(
        self,
        path: str,
        word: bytes,
        first_descriptor: int,
        *,
        first: tuple[str, ...] = (),
        later: tuple[str, ...] = (),
        greeting: bytes = b"",
        forgets_input: bool = False,
    ) -> None:
        self.path = path
        self.word = word
        self.out, self.input, self.mark = range(first_descriptor, first_descriptor + 3)
        # The first lines that the shell reads.
        self.greeting = greeting
        # Whether an interrupt makes it forget the lines that it has read ahead.
        self.forgets_input = forgets_input
        self._first = first
        self._later = later

    def make_argv(self, *, first: bool) -> list[str]:
        """Return the command of the first shell, or of a later one.

        A later one reads no start-up files, because the agent may have changed them.
        """
        return [self.path, *(self._first if first else self._later), "-i"]


def speak_bash(path: str, *, login: bool) -> Dialect:
    """Return the dialect of a bash. A login reads more start-up files, which may set another PATH."""
    return Dialect(
        path,
        b"\\builtin",
        187,
        first=("--noediting", *(("--login",) if login else ())),
        later=("--noediting", "--noprofile", "--norc"),
        greeting=HISTORY,
    )


LOGIN = speak_bash("/bin/bash", login=True)


def find_dialect(shells: list[str]) -> Dialect | None:
    """Return the dialect of the first of these shells that the image has, None if it has none."""
    path = next((each for each in shells if os.path.exists(each)), None)
    if path is None or path.endswith("bash"):
        return None if path is None else speak_bash(path, login=False)
    # A plain sh knows descriptors of one digit alone.
    return Dialect(path, b"\\command", 7, forgets_input=True)
