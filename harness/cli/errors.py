"""The group of all commands, and the errors of the parser with the words that were meant."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from harness.cli.commands import COMMANDS, EXAMPLES, SECTIONS, load_commands, write_examples
from harness.core.errors import UsageError, unknown_name
from harness.core.invalid_values import describe_requirement

# Typer exports only some errors of its parser, and not their base class.
_ParserError: type[Exception] = typer.BadParameter.__mro__[1]
_EXTRA = "Got unexpected extra argument"
_NO_SUCH_COMMAND = re.compile(r"No such command '(.+?)'\.")
# The error that makes the parser print the help of a group that was called without a command.
_NO_COMMAND = "NoArgsIsHelpError"
# The shells whose completion the parser's library writes.
_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
# Options of other tools and similar names, with the option of harness, beside the settings' own. Not every
# command has that option.
_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("--out", "--output", "--json"), "--results"),
    **dict.fromkeys(("--memory", "--mem"), "--memory-mb"),
    **dict.fromkeys(("--continue", "--retry"), "--resume"),
    **dict.fromkeys(("--environment", "--image"), "--env"),
}
# Commands of other tools, with the command of harness.
_ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("eval", "evaluate", "test", "bench", "start"), "run"),
    **dict.fromkeys(("list", "ls", "ps", "history"), "runs"),
    **dict.fromkeys(("diff", "cmp"), "compare"),
    **dict.fromkeys(("log", "logs", "inspect", "cat"), "show"),
    **dict.fromkeys(("install", "pull", "build"), "setup"),
    **dict.fromkeys(("ui", "web", "open"), "view"),
    **dict.fromkeys(("clean", "prune", "cleanup"), "gc"),
    **dict.fromkeys(("check", "info", "diagnose"), "doctor"),
    **dict.fromkeys(("tasks", "datasets"), "benchmarks"),
    **dict.fromkeys(("completion", "completions"), "--install-completion"),
}


class CommandGroup(TyperGroup):
    """The commands of harness, each imported when it is used, with the parser's errors as UsageError.

    The parser would take the last value of an option that is given twice and takes one, so it is refused.
    """

    def main(self, *args: Any, **extra: Any) -> Any:
        # The messages name the command, also if Python was started with a module or a path.
        return super().main(*args, **{**extra, "prog_name": "harness"})

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands and cmd_name in COMMANDS:
            self.commands[cmd_name] = _prepare(load_commands(COMMANDS[cmd_name][0])[cmd_name], cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<10}", line) for name, (_, line) in commands.items()])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        self.epilog = write_examples("")
        super().format_epilog(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        return super().parse_args(ctx, _correct(args))

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _explain_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _explain_errors(ctx):
            return super().invoke(ctx)


def _correct(args: list[str]) -> list[str]:
    """Return the command line in our own words: `help run` is `run --help`, `version` is `--version`.

    Raises UsageError for a shell without completion. Typer would install the running shell's.
    """
    match args:
        case ["help", *words] if all(word[:1] != "-" for word in words):
            return [*words, "--help"]
        case ["version"]:
            return ["--version"]
        case ["--install-completion" | "--show-completion" as option, str(shell), *_] if shell not in _SHELLS:
            raise UsageError(
                f"{option}: there is no completion for {shell}",
                hint=f"start one of these shells, and run it there: {', '.join(_SHELLS)}",
            )
        case ["--install-completion" | "--show-completion" as option, str(shell)]:
            _complete_in(shell, installs=option == "--install-completion")
    return args


def _complete_in(shell: str, *, installs: bool) -> NoReturn:
    """Install or print the completion of a shell that the user names, and exit."""
    from typer._completion_shared import get_completion_script, install

    names = {"prog_name": "harness", "complete_var": "_HARNESS_COMPLETE", "shell": shell}
    if installs:
        typer.echo(f"{shell} completion installed in {install(**names)[1]}; start a new {shell}")
    else:
        typer.echo(get_completion_script(**names))
    raise typer.Exit


def _prepare(command: Any, path: str) -> Any:
    """Return a command or a group with its examples, and with its options given once."""
    command.epilog = write_examples(path)
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            _prepare(each, f"{path} {name}")
    else:
        _refuse_repeated_options(command)
    return command


def _refuse_repeated_options(command: Any) -> None:
    """Let a command refuse each option that takes one value and is given several times."""
    parse_args = command.parse_args

    def parse_once(ctx: Any, args: list[str]) -> Any:
        if not ctx.resilient_parsing:
            _, _, given = command.make_parser(ctx).parse_args(args=list(args))
            for param, number in Counter(given).items():
                takes_one = param.param_type_name == "option" and not (param.is_flag or param.count)
                if takes_one and not param.multiple and number > 1:
                    name = max(param.opts, key=len)
                    raise UsageError(
                        f"{name} may be given once, but is given {number} times",
                        hint=f"leave out all but one {name}; see: {ctx.command_path} --help",
                    )
        return parse_args(ctx, args)

    command.parse_args = parse_once


@contextlib.contextmanager
def _explain_errors(ctx: Any = None) -> Iterator[None]:
    """Raise the parser's errors as UsageError, but leave the help of a group without a command."""
    try:
        yield
    except _ParserError as error:
        if type(error).__name__ == _NO_COMMAND:
            raise
        raise _explain(error, ctx) from error


def _explain(error: Any, outer: Any) -> UsageError:
    """Return the error that names the fault of the command line, with the likely intended words as a hint."""
    context = error.ctx
    if context is None:
        # The parser names no command if an option lacks its value.
        command = "harness" if outer is None else f"{outer.command_path} {outer.invoked_subcommand}"
        return UsageError(f"{command}: {_plain(error.format_message())}", hint=f"see: {command} --help")
    params = [param for param in context.command.get_params(context) if "--help" not in param.opts]
    options = {name: param for param in params for name in param.opts if name[:1] == "-"}
    option = getattr(error, "option_name", None)
    command = context.command_path
    help_hint = f"see: {command} --help"
    missed = getattr(error.__cause__, "errors", None)
    if missed is not None and error.param is not None:
        name = error.param.opts[-1] if error.param.opts[0][:1] == "-" else f"argument '{error.param.name}'"
        fault = f"{name} {describe_requirement(missed()[0])}"
        return UsageError(fault, hint=advise_number(fault, command) or help_hint)
    if option is not None and hasattr(error, "possibilities"):
        near = _nearest_option(option, command, context.command, options) or help_hint
        return UsageError(f"{command} has no option {option}", hint=near)
    if error.message.startswith(_EXTRA):
        # An empty variable of a shell leaves an option without its value, which then takes the next option.
        for param in params:
            value = context.params.get(param.name)
            values = value if isinstance(value, (list, tuple)) else [value]
            if any(each in options for each in values) and param.opts[0][:1] == "-":
                return UsageError(f"{param.opts[0]} needs a value", hint=help_hint)
    if error.message.startswith(_EXTRA):
        # The parser lists the extra arguments in parentheses at the end.
        extra = error.message.rpartition(" (")[2].removesuffix(")").partition(" ")[0]
        return _explain_extra(extra, context, options)
    unknown = _NO_SUCH_COMMAND.match(error.message)
    if unknown is not None and isinstance(context.command, TyperGroup):
        names = context.command.list_commands(context)
        names += ["help", "version"] if outer is None or context.parent is None else []
        likely = _ELSEWHERE.get(unknown[1])
        found = unknown_name("command", unknown[1], names, likely=likely, lister=f"{command} --help")
        return UsageError(f"{command} has no command '{unknown[1]}'", hint=found.hint)
    fault = _plain(error.format_message())
    examples = EXAMPLES.get(command.removeprefix("harness "))
    if fault.startswith("missing ") and examples:
        help_hint = f"for example: harness {examples[0]}; {help_hint}"
    return UsageError(f"{command}: {fault}", hint=help_hint)


def _explain_extra(extra: str, context: Any, options: dict[str, Any]) -> UsageError:
    """Return the error for an argument that a command does not take, with the option that it may be for."""
    command, given = context.command_path, context.params
    takes = sum(param.param_type_name == "argument" for param in context.command.get_params(context))
    number = ("no argument", "one argument")[takes] if takes < 2 else f"{takes} arguments"
    fault = f"{command} takes {number}, but got '{extra}'{' as another one' if takes else ''}"
    hint = f"leave it out, or quote a name that has spaces; see: {command} --help"
    if "--samples" in options and not given.get("samples") and extra.endswith((".jsonl", ".json", ".gz")):
        option = f"-b {given['benchmark']} --samples" if given.get("benchmark") else "-b mbpp --samples"
        hint = f"name a file of samples with --samples: {command} {option} {extra}"
    elif "--benchmark" in options and not takes and not given.get("benchmark"):
        hint = f"name a benchmark with -b: {command} -b {extra}"
    return UsageError(fault, hint=hint)


def advise_number(fault: str, command: str) -> str | None:
    """Return the hint for a number that was given with its unit, None for another fault."""
    found = re.search(r' number, not "(\d+(?:\.\d+)?)\s*([^\d"]+)"$', fault)
    if found is None:
        return None
    if found[2] == "%" and " whole " not in fault:
        return f"write a share from 0 to 1: {float(found[1]) / 100:g}; see: {command} --help"
    return f"write the number alone, without a unit; its unit is in: {command} --help"


def _plain(message: str) -> str:
    """Return a message of the parser in the form of our own: no capital at its start, no full stop."""
    return f"{message[:1].lower()}{message[1:]}".removesuffix(".")


def _nearest_option(option: str, command: str, parsed: Any, options: dict[str, Any]) -> str | None:
    """Return the hint for an option that a command does not have, None if no option is similar."""
    if option in ("-b", "--benchmark") and any(param.name == "benchmark" for param in parsed.params):
        return f"name the benchmark without an option: {command} mbpp"
    from harness.runs.settings import KEYS

    if option.startswith("--api-key") and option not in options:
        return "a key belongs in the environment: export OPENAI_API_KEY=..."
    key = option[2:].replace("-", "_")
    if key in KEYS and not KEYS[key].options and "--config" in options:
        return f"'{key}' is a key of the config file: {command} --config FILE.yaml"
    if key in KEYS and KEYS[key].options and option not in options:
        return f"{option} is an option of: harness run"
    likely_names = [each.options[0].name for each in KEYS.values() if option in each.aliases]
    likely_names += [_ALIASES[option]] if option in _ALIASES else []
    known = [name for name in likely_names if name in options]
    found = known or difflib.get_close_matches(option, options, n=1, cutoff=0.6)
    if not found:
        return None
    likely = " or ".join(", ".join(options[name].opts) for name in found)
    return f"did you mean {likely}? see: {command} --help"
