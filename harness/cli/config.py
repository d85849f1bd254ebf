"""`harness init` writes an example of a config, and `harness config` shows and checks configs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import agent_names, complete_agent, complete_benchmark

if TYPE_CHECKING:
    from harness.runs.config_file import ConfigFile

app = typer.Typer()

STDOUT = Path("-")
INVALID = 2
File = Annotated[Path, typer.Argument(metavar="FILE", help="A YAML config.")]
Benchmark = Annotated[
    str | None,
    typer.Option(
        "-b",
        "--benchmark",
        metavar="NAME",
        help="As in harness run. A file without a benchmark needs it.",
        autocompletion=complete_benchmark,
    ),
]
_config = typer.Typer(name="config", help="Show and check config files.", no_args_is_help=True)


@app.command()
def init(
    benchmark: Annotated[
        str,
        typer.Option(
            "-b",
            "--benchmark",
            metavar="NAME",
            help="A name from `harness benchmarks`, or your own .yaml or .py.",
            autocompletion=complete_benchmark,
        ),
    ] = "mbpp",
    agent: Annotated[
        str,
        typer.Option(
            "--agent", metavar="NAME", help=", ".join(agent_names()) + ".", autocompletion=complete_agent
        ),
    ] = "chat",
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write, - to print it.")
    ] = Path("config.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write an example config with a comment on each key."""
    from harness.benchmarks.loading import definition_of
    from harness.cli.files import open_export
    from harness.runs.config_guide import write_example_config

    is_file = output != STDOUT
    name = str(output) if is_file else "FILE"
    text = write_example_config(definition_of(benchmark), agent, benchmark=benchmark, file=name)
    with open_export(output if is_file else None, force=force) as file:
        file.write(text)
    if is_file:
        typer.echo(f"{output}: written; edit it, then: harness config validate {output}")


app.add_typer(_config)


@_config.command()
def show(
    file: File,
    benchmark: Benchmark = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Also show the settings that the file does not set.")
    ] = False,
    origins: Annotated[
        bool, typer.Option("--origins", help="Show the file and line of each value instead.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print a config as a run would use it: with the files that it extends, and with its variables.

    Secrets are shown as [key].
    """
    import json

    from harness.core.errors import UsageError
    from harness.core.inputs.yaml_text import write_yaml
    from harness.runs.config import load_config
    from harness.runs.config_file import read_config_file

    config = load_config(file, {} if benchmark is None else {"benchmark": benchmark})
    if origins:
        if defaults or as_json:
            raise UsageError("--origins cannot be combined with --defaults or --json")
        for line in _list_origins(read_config_file(file)):
            typer.echo(line)
        return
    values = _hide_secrets(config.model_dump(mode="json", exclude_unset=not defaults))
    typer.echo(json.dumps(values, indent=2) if as_json else write_yaml(values).rstrip("\n"))


@_config.command()
def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="YAML configs.")],
    benchmark: Benchmark = None,
) -> None:
    """Report every problem of configs that shows without a run. The exit code is 2 if there is one.

    Keys, values, options of the benchmark, the agent, settings that nothing reads, and the tasks of local
    data are checked. Nothing is downloaded, and no engine and no model is asked. A program that is not on
    this machine, of an agent or an MCP server, is a warning.
    """
    from harness.cli.streams import format_block, print_error
    from harness.runs.config_check import check_config

    overrides = {} if benchmark is None else {"benchmark": benchmark}
    is_valid = True
    for file in files:
        checked = check_config(file, overrides)
        for problem in checked.problems:
            print_error(problem.message, problem.hint)
        for warning in checked.warnings:
            typer.echo(format_block("warning", warning), err=True)
        is_valid = is_valid and not checked.problems
        typer.echo(f"{file}: {_describe(len(checked.problems), checked.unchecked)}")
    if not is_valid:
        raise typer.Exit(INVALID)


def _describe(problems: int, unchecked: str | None) -> str:
    outcome = "valid" if not problems else "1 problem" if problems == 1 else f"{problems} problems"
    return outcome if unchecked is None else f"{outcome}; its tasks were not checked, because {unchecked}"


@_config.command()
def schema() -> None:
    """Print the JSON schema of a config. Editors complete and check its keys by it."""
    import json

    from harness.runs.config_guide import build_config_schema

    typer.echo(json.dumps(build_config_schema(), indent=2))


def _hide_secrets(value: Any, name: str = "") -> Any:
    """Return a value without the texts whose name says that they are secrets, and without those in URLs.

    A text that is an environment variable, as `${NAME}`, stays.
    """
    from harness.core.secret_forms import HIDDEN_KEY, hide_url_secrets, names_secret
    from harness.models.relay.mcp_servers.settings import VARIABLE

    if isinstance(value, dict):
        return {key: _hide_secrets(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_hide_secrets(inner, name) for inner in value]
    if not isinstance(value, str):
        return value
    if names_secret(name) and not VARIABLE.search(value):
        return HIDDEN_KEY
    return hide_url_secrets(value)


def _list_origins(file: ConfigFile) -> list[str]:
    """Return a line for each value of a file and of those that it extends: `file:line  key: value`.

    Variables are shown by their names.
    """
    import json

    from harness.runs.config_file import is_secret

    lines: list[tuple[str, str]] = []

    def walk(value: Any, keys: tuple[str | int, ...]) -> None:
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                walk(inner, (*keys, str(key)))
            return
        if isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
            for place, inner in enumerate(value):
                walk(inner, (*keys, place))
            return
        shown = '"..."' if is_secret(keys) else json.dumps(value, default=str)
        lines.append((file.locate(keys), f"{'.'.join(map(str, keys))}: {shown}"))

    walk(_hide_secrets(file.values), ())
    width = max((len(place) for place, _ in lines), default=0)
    return [f"{place:<{width}}  {text}" for place, text in lines]
