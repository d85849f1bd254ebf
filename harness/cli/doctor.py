"""`harness doctor`: check whether this machine isolates sandboxes, or what a model's server can do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from harness.cli.options import BACKEND_HELP, is_on_command_line
from harness.cli.streams import print_error

if TYPE_CHECKING:
    from harness.sandbox.selfcheck.check import Check

FAILED = 2
FOUND_LIMIT = 400
FIX_LIMIT = 1000
COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "bold red"}
NAME_WIDTH = 18

app = typer.Typer()


@app.command()
def doctor(
    context: typer.Context,
    runtime: Annotated[
        str, typer.Option("--runtime", metavar="NAME", help="runc or runsc (gVisor).")
    ] = "runc",
    backend: Annotated[str, typer.Option("--backend", metavar="NAME", help=BACKEND_HELP)] = "auto",
    output_dir: Annotated[Path, typer.Option("--output-dir", help="Folder of the run folders.")] = Path(
        "runs"
    ),
    model: Annotated[
        str | None, typer.Option("--model", help="Probe this model instead of the machine.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="URL of the model's server, up to /v1.")
    ] = None,
    api: Annotated[
        Literal["chat", "responses", "messages"] | None,
        typer.Option("--api", help="API of the model's server. Default: chat."),
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option("--api-key-env", help="Environment variable that holds the key.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("-c", "--config", metavar="FILE", help="YAML config whose endpoint --model names."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts about the model as JSON.")] = False,
) -> None:
    """Check this machine, or probe the server of a model.

    Without --model, the command tests every limit of a sandbox. Each check prints ok, warn or FAIL, and the
    exit code is 2 if a check fails. With --model, the exit code is 0 if the model can be used, 2 if the
    server refuses the key or the model, and 3 if the server does not answer.
    """
    if model is not None:
        _refuse_options(context, ("runtime", "backend", "output_dir"), "is not read with --model")
        _probe_model(model, base_url, api, api_key_env, config, as_json=as_json)
        return
    _refuse_options(context, ("base_url", "api", "api_key_env", "config", "as_json"), "needs --model")
    _diagnose_machine(backend, runtime, output_dir)


def _diagnose_machine(name: str, runtime: str, output_dir: Path) -> None:
    from harness.cli.work import run_until_signal
    from harness.core.errors import EngineUnavailableError
    from harness.reports.console import show_waiting
    from harness.runs.faults import default_concurrency
    from harness.sandbox.backends import connect_backend
    from harness.sandbox.backends.docker.backend import DockerBackend
    from harness.sandbox.limits import Limits
    from harness.sandbox.machine.checks.diagnosis import diagnose, diagnose_oci
    from harness.sandbox.selfcheck.check import Check, Level

    try:
        # The checks try every promise, also those that a run would refuse to do without.
        backend = connect_backend(name, allow_weaker=True, notify=typer.echo)
    except EngineUnavailableError as error:
        _show(Check("engine", Level.FAIL, error.message, error.hint))
        _fail(["engine"])
    if isinstance(backend, DockerBackend):
        checking = diagnose(
            backend,
            runtime=runtime,
            runs_folder=output_dir,
            concurrency=default_concurrency(Limits()),
            notify=_show,
        )
    else:
        checking = diagnose_oci(backend, runtime=runtime, notify=_show)
    with show_waiting("checking this machine"):
        checks = run_until_signal(checking)
    if failed := [check.name for check in checks if check.level is Level.FAIL]:
        _fail(failed)


def _probe_model(
    model: str,
    base_url: str | None,
    api: Literal["chat", "responses", "messages"] | None,
    api_key_env: str | None,
    config: Path | None,
    *,
    as_json: bool,
) -> None:
    import dataclasses
    import json

    from harness.cli.work import run_until_signal
    from harness.models.probe import describe_facts, probe_model
    from harness.models.settings import choose_endpoint
    from harness.reports.console import show_waiting
    from harness.runs.config import read_endpoints
    from harness.sandbox.selfcheck.check import Check, Level

    endpoint = choose_endpoint(model, base_url, {} if config is None else read_endpoints(config), api)
    if api_key_env is not None:
        endpoint = endpoint.model_copy(update={"api_key_env": api_key_env})
    with show_waiting(f"asking the server of model {model}"):
        facts = run_until_signal(probe_model(endpoint))
    findings = describe_facts(facts)
    if as_json:
        advice = {each.name: each.advice for each in findings if each.advice is not None}
        print(
            json.dumps(
                {
                    "model": model,
                    "base_url": endpoint.base_url,
                    "api": endpoint.api,
                    **dataclasses.asdict(facts),
                    "advice": advice,
                },
                indent=2,
            )
        )
        return
    for each in findings:
        _show(Check(each.name, Level.OK if each.advice is None else Level.WARN, each.found, each.advice))


def _refuse_options(context: typer.Context, parameters: Sequence[str], reason: str) -> None:
    """Raise UsageError if the command line has one of the options of these parameters."""
    from harness.core.errors import UsageError

    for param in context.command.params:
        if param.name in parameters and is_on_command_line(context, param.name):
            option = max(param.opts, key=len)
            raise UsageError(f"harness doctor: {option} {reason}", hint="see: harness doctor --help")


def _fail(names: Sequence[str]) -> NoReturn:
    """Print the names of the failed checks, and exit."""
    from harness.reports.figures import count

    print_error(f"{count(len(names), 'check')} failed: {', '.join(names)}")
    raise typer.Exit(FAILED)


def _show(check: Check) -> None:
    """Print a check on one line, and its fix below."""
    from rich.text import Text

    from harness.core.text import escape_terminal, escape_unencodable
    from harness.reports.console import open_console

    console = open_console(sys.stdout)
    found = escape_unencodable(escape_terminal(check.found, FOUND_LIMIT), sys.stdout)
    level = (f"{check.level:4}", COLOURS[check.level])
    console.print(Text.assemble(level, f"  {check.name:{NAME_WIDTH}}  {found}"), soft_wrap=True)
    if check.fix is not None:
        fix = escape_unencodable(escape_terminal(check.fix, FIX_LIMIT, multiline=True), sys.stdout)
        margin = " " * (NAME_WIDTH + 8)
        console.print(Text(f"{margin}fix: " + fix.replace("\n", f"\n{margin}     ")), soft_wrap=True)
