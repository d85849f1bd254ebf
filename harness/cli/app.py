"""The command `harness`: all groups of commands, and the report of an error to the user."""

from __future__ import annotations

import errno
import itertools
import os
import sys
from collections.abc import Callable
from typing import Annotated, NoReturn

import typer

from harness.cli.commands import EXAMPLES
from harness.cli.errors import CommandGroup, advise_number
from harness.cli.streams import print_error
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.text import quote_argument
from harness.core.version import __version__

INTERRUPTED = 130
INTERNAL_ERROR = 3
# Python's words, which a library may raise for a user id without a name.
NO_HOME = "Could not determine home directory."

# Without Rich, because it would take most of the time of `--help`.
app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"harness {__version__}")
        raise typer.Exit


@app.callback()
def _harness(
    version: Annotated[
        bool,
        typer.Option("-V", "--version", callback=_print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Evaluate agents and model-written code in hardened Docker containers."""


def main(was_interrupted: Callable[[], bool] = lambda: False) -> None:
    """Run the command line, and exit with one of the exit codes of docs/usage.md.

    An error is printed as `error: ...` and `hint: ...`. With -vv or HARNESS_TRACEBACK=1 its traceback comes
    first. `was_interrupted` returns whether the user pressed Ctrl-C, because a library may turn the
    KeyboardInterrupt into its own error.
    """
    try:
        try:
            app()
        except SystemExit:
            sys.stdout.flush()  # an error in it can still be printed here
            raise
    except HarnessError as error:
        _fail(error, error.message, error.hint or _name_next_step(error), error.exit_code)
    except KeyboardInterrupt as error:
        _fail(error, "interrupted", None, INTERRUPTED)
    except Exception as error:
        if was_interrupted():
            _fail(error, "interrupted", None, INTERRUPTED)
        _fail_unforeseen(error)


def _name_next_step(error: HarnessError) -> str | None:
    """Return the hint for a mistake whose error has none, by the command line."""
    if isinstance(error, DataError):
        return "mend the file, or name another one"
    if error.exit_code != UsageError.exit_code:
        return None
    words = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    for option in ("-c", "--config"):
        if option in words[:-1]:
            file = quote_argument(words[words.index(option) + 1])
            return f"harness config validate {file} lists every problem"
    commands = list(itertools.takewhile(lambda word: word[:1] != "-", words))
    path = next((each for each in (" ".join(commands[:2]), *commands[:1]) if each in EXAMPLES), "")
    command = " ".join(filter(None, ("harness", path)))
    return advise_number(error.message, command) or f"see: {command} --help"


def _fail_unforeseen(error: Exception) -> NoReturn:
    rerun = "run it again with HARNESS_TRACEBACK=1 to see the traceback"
    if isinstance(error, MemoryError):
        _fail(
            error,
            "not enough memory",
            f"use less data or a machine with more memory; {rerun}",
            INTERNAL_ERROR,
        )
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "free some disk space, then run it again" if full else rerun
        _fail(error, f"{place}{error.strerror}", hint, INTERNAL_ERROR)
    if isinstance(error, RuntimeError) and str(error) == NO_HOME:
        _fail(error, "this user has no home folder", "set HOME to a folder", UsageError.exit_code)
    hint = "this is a bug in harness; run it again with HARNESS_TRACEBACK=1 and report the traceback"
    _fail(error, f"{type(error).__name__}: {error}", hint, INTERNAL_ERROR)


def _fail(error: BaseException, message: str, hint: str | None, exit_code: int) -> NoReturn:
    if _wants_traceback():
        print(_format_traceback(error), file=sys.stderr)
    print_error(message, hint)
    sys.exit(exit_code)


def _format_traceback(error: BaseException) -> str:
    """Return the traceback without secrets, and with escapes, because messages quote untrusted programs."""
    import traceback

    from harness.core.text import escape_text
    from harness.runs.run_secrets import make_log_filter

    text = "".join(traceback.format_exception(error)).rstrip("\n")
    return escape_text(make_log_filter().remove_from_log(text), multiline=True)


def _wants_traceback() -> bool:
    own = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    return "-vv" in own or os.environ.get("HARNESS_TRACEBACK") == "1"
