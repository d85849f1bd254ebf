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
from harness.cli.files import STDIN
from harness.cli.streams import print_error
from harness.core.errors import HarnessError, UsageError
from harness.core.inputs.files import read_input
from harness.core.text import quote_argument
from harness.reports.run_list import RunList, print_runs, read_listed_run
from harness.runs.run import Retry
from harness.runs.run_files import replace_file
from harness.runs.run_starts import ResumedRun, resume_run
from harness.runs.settings import RunConfig

INDEX_VERSION = 1
# Of the exit codes of the runs, the first of these is the command's. After a signal it is the signal's.
_WORST_FIRST = (2, 3, 1)
# The exit codes of a run whose attempts all have verdicts.
_WITH_VERDICTS = (0, 1)
_MOST_INDEX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class MadeMatrix:
    """The runs that a command has made: their folders, and its exit code."""

    folders: list[Path]
    exit_code: int


@dataclass(frozen=True, slots=True)
class ResumedMatrix:
    """How a matrix goes on: its index, and the options of `--resume` for each of its runs."""

    index: Path
    accepted: Sequence[str] = ()
    is_trusted: bool = False
    retry: Retry | None = None


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
    resumed: ResumedMatrix | None = None,
) -> MadeMatrix:
    """Make the runs one after the other. A run that fails does not keep the others from starting.

    Returns the folders of the runs, and the exit code of the command.

    Args:
        configs: the config of each run.
        output: the options that affect only the output.
        locate: returns a context manager that finds the place of a setting that a run does not read.
        values: the settings of each run from the command line.
        resumed: the matrix that goes on, None for a new one. Runs with all their verdicts stay as they are.
            No run starts if a setting of one of them differs.

    Raises:
        UsageError: for an option that makes sense for one run only, an unknown benchmark or option of it, and
            an index that is not the matrix of these benchmarks and models.
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
    index = _Index(configs, is_dry=output.dry_run, path=resumed.index if resumed else None)
    retry = resumed.retry if resumed else None
    starts = _list_starts(configs, index, resumed)
    codes = []
    try:
        for number, (config, given, start) in enumerate(zip(configs, values, starts, strict=True)):
            name = ", ".join(filter(None, (config.benchmark, config.model)))
            if not output.quiet:
                typer.echo(f"run {number + 1} of {len(configs)}: {name}", err=True)
            if start is not None and retry is None and (code := index.read_code(number)) in _WITH_VERDICTS:
                codes.append(code)
                continue
            own, begun = start or (config, None)
            again = retry if start is not None else None
            try:
                with locate(given):
                    made = make_run(own, output, begun, retry=again, on_open=partial(index.open, number))
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


def _list_starts(
    configs: Sequence[RunConfig], index: _Index, resumed: ResumedMatrix | None
) -> list[tuple[RunConfig, ResumedRun] | None]:
    """Return the config and the start of each run that goes on, None for a new one. Raises UsageError.

    A finished run is compared with its config as well, so that a matrix never mixes settings.
    """

    def start(number: int, config: RunConfig) -> tuple[RunConfig, ResumedRun] | None:
        folder = index.find_folder(number)
        if resumed is None or folder is None:
            return None
        return resume_run(folder, lambda recorded: config, resumed.accepted, is_trusted=resumed.is_trusted)

    return [start(number, config) for number, config in enumerate(configs)]


class _Index:
    """The runs of a matrix, in a file beside their folders that is written anew after each of them."""

    def __init__(self, configs: Sequence[RunConfig], *, is_dry: bool, path: Path | None) -> None:
        self._place = Path(configs[0].output_dir)
        name = f"matrix-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}.json"
        self._path = None if is_dry else path or self._place / name
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
        if path is not None:
            self._read(path)

    def _read(self, path: Path) -> None:
        """Take the folders and the exit codes of an index. Raises UsageError unless its cells are these."""
        try:
            runs = json.loads(read_input(path, max_bytes=_MOST_INDEX_BYTES))["runs"]
            recorded = [(run["benchmark"], run["model"]) for run in runs]
            found = [{key: run[key] for key in ("folder", "exit_code", "error")} for run in runs]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise UsageError(
                f"--resume {path}: cannot be read as the index of a matrix: {error}",
                hint="name the file that the command printed as 'index:'; one run needs no -b and --model",
            ) from error
        if recorded != [(cell["benchmark"], cell["model"]) for cell in self._cells]:
            names = "; ".join(", ".join(filter(None, cell)) for cell in recorded)
            raise UsageError(
                f"--resume {path}: its runs are of other benchmarks or models: {names}",
                hint="give the command again as it was, with --resume in addition",
            )
        for cell, values in zip(self._cells, found, strict=True):
            cell |= values

    def find_folder(self, number: int) -> Path | None:
        """Return the folder that a run has already."""
        folder = self._cells[number]["folder"]
        return Path(folder) if isinstance(folder, str) and Path(folder).is_dir() else None

    def read_code(self, number: int) -> int | None:
        """Return the exit code of a run that has ended before."""
        code = self._cells[number]["exit_code"]
        return code if isinstance(code, int) else None

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
            if any(cell["exit_code"] not in _WITH_VERDICTS for cell in self._cells):
                typer.echo(f"resume: the same command with --resume {quote_argument(self._path)}")
