"""Several benchmarks or models in one command: a run for each pair, one table, and one index of the runs."""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer

from harness.benchmarks.loading import definition_of
from harness.cli.carry_out import OutputOptions, make_run
from harness.cli.error_lines import print_error
from harness.cli.stdin_samples import STDIN
from harness.core.errors import HarnessError, UsageError
from harness.core.text import quote_argument
from harness.reports.run_list import RunList, print_runs, read_listed_run
from harness.runs.config import RunConfig
from harness.runs.run_files import replace_file

INDEX_VERSION = 1
# Of the exit codes of the runs, the first of these is the command's. After a signal it is the signal's.
_WORST_FIRST = (2, 3, 1)


@dataclass(frozen=True, slots=True)
class MadeMatrix:
    """The runs that a command has made: their folders, and its exit code."""

    folders: list[Path]
    exit_code: int


def list_cells(benchmarks: Sequence[str] | None, models: Sequence[str] | None) -> list[dict[str, str]]:
    """Return the settings of each run: every benchmark with every model, or one run without either.

    Raises UsageError for a name that is given twice.
    """
    for option, names in (("--benchmark", benchmarks), ("--model", models)):
        for name in names or ():
            if (names or ()).count(name) > 1:
                hint = "name it once; --n-samples N makes further attempts"
                raise UsageError(f"{option} {name} is given twice", hint=hint)
    axes = [
        [{key: name} for name in names or ()] or [{}]
        for key, names in (("benchmark", benchmarks), ("model", models))
    ]
    return [first | second for first, second in itertools.product(*axes)]


def carry_out_matrix(
    configs: Sequence[RunConfig],
    output: OutputOptions,
    locate: Callable[[Mapping[str, Any]], contextlib.AbstractContextManager[None]],
    values: Sequence[Mapping[str, Any]],
) -> MadeMatrix:
    """Make the runs one after the other. A run that fails does not keep the others from starting.

    Returns the folders of the runs, and the exit code of the command.

    Args:
        configs: the config of each run.
        output: the options that affect only the output.
        locate: returns a context manager that finds the place of a setting that a run does not read.
        values: the settings of each run from the command line.

    Raises:
        UsageError: for an option that makes sense for one run only, an unknown benchmark, and an option
            that a benchmark does not take.
    """
    if output.results is not None:
        raise UsageError(
            f"-o {output.results} takes the results of one run, and this command makes {len(configs)}",
            hint="leave it out; the index names the run folders, and harness report RUN -o FILE writes each",
        )
    if any(config.samples == STDIN for config in configs):
        raise UsageError(
            f"--samples {STDIN} can be read once, and this command makes {len(configs)} runs",
            hint="write the samples to a file",
        )
    for config in configs:
        definition_of(config.benchmark).with_options(config.options)
    index = _Index(configs, is_dry=output.dry_run)
    codes = []
    try:
        for number, (config, given) in enumerate(zip(configs, values, strict=True)):
            name = ", ".join(filter(None, (config.benchmark, config.model)))
            if not output.quiet:
                typer.echo(f"run {number + 1} of {len(configs)}: {name}", err=True)
            try:
                with locate(given):
                    made = make_run(config, output, on_open=partial(index.open, number))
            except HarnessError as error:
                print_error(f"{name}: {error.message}", error.hint)
                codes.append(error.exit_code)
                index.end(number, error.exit_code, error.message)
            else:
                codes.append(made.exit_code)
                index.end(number, made.exit_code)
    finally:
        if not output.dry_run:
            index.print()
    worst = next((code for code in (*_WORST_FIRST, *codes) if code and code in codes), 0)
    return MadeMatrix(index.list_folders(), worst)


class _Index:
    """The runs of a matrix, in a file beside their folders that is written anew after each of them."""

    def __init__(self, configs: Sequence[RunConfig], *, is_dry: bool) -> None:
        self._place = Path(configs[0].output_dir)
        name = f"matrix-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}.json"
        self._path = None if is_dry else self._place / name
        self._cells: list[dict[str, Any]] = [
            {
                "benchmark": config.benchmark,
                "model": config.model,
                "folder": None,
                "exit_code": None,
                "error": None,
            }
            for config in configs
        ]

    def open(self, number: int, folder: Path) -> None:
        """Note the folder of a run that begins."""
        self._cells[number]["folder"] = str(folder)
        self._write()

    def end(self, number: int, exit_code: int, error: str | None = None) -> None:
        """Note the end of a run."""
        cell = self._cells[number]
        if cell["folder"] is not None and not Path(cell["folder"]).is_dir():
            cell["folder"] = None  # a run that has recorded nothing leaves no folder
        cell |= {"exit_code": exit_code, "error": error}
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        self._place.mkdir(parents=True, exist_ok=True)
        runs = [
            {**cell, "run": None if cell["folder"] is None else asdict(read_listed_run(Path(cell["folder"])))}
            for cell in self._cells
        ]
        with replace_file(self._path) as file:
            json.dump({"schema_version": INDEX_VERSION, "runs": runs}, file, indent=2)
            file.write("\n")

    def list_folders(self) -> list[Path]:
        """Return the folders of the runs that have one."""
        return [Path(cell["folder"]) for cell in self._cells if cell["folder"] is not None]

    def print(self) -> None:
        """Print one table of all runs that have a folder, and the path of the index."""
        listed = [read_listed_run(folder) for folder in self.list_folders()]
        typer.echo("")
        print_runs(RunList(self._place, len(listed), listed), stream=sys.stdout)
        if self._path is not None and self._path.is_file():
            typer.echo(f"index: {quote_argument(self._path)}")
