"""The common part of the commands that make a run: run the plan, show the result, choose the exit code."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from harness.cli.files import STDIN, check_results_path, store_stdin_samples
from harness.cli.streams import print_error
from harness.cli.work import run_until_signal, show_log
from harness.core.errors import DataError, UsageError
from harness.core.text import escape_terminal, quote_argument
from harness.core.types import Status
from harness.reports.console import LONG
from harness.reports.figures import count
from harness.reports.progress import progress_display
from harness.runs.manifest import describe_isolation, read_tool_mode
from harness.runs.records import list_task_ids
from harness.runs.resume import read_unsound_references
from harness.runs.run import Retry, Run, begin_retry, list_remaining, open_run
from harness.runs.run_files import StorageError
from harness.runs.run_names import RUNS, find_run
from harness.runs.run_secrets import make_log_filter
from harness.runs.run_starts import NewRun, ResumedRun, RunStart
from harness.runs.selection import Selection, select
from harness.runs.settings import RunConfig
from harness.runs.settings.agents import DEFAULT_AGENT
from harness.runs.store import read_results
from harness.runs.stored_result import describe_difference, list_absent_servers

# The numbers of objects, and of younger collections, that make each generation be collected.
COLLECTION_THRESHOLDS = (10_000, 20, 20)
# The ids of tasks that a dry run prints.
_SHOWN_IDS = 20


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The options that affect the output and the exit code of a command, but not the run."""

    results: Path | None = None
    force: bool = False
    fail_under: float | None = None
    dry_run: bool = False
    verbosity: int = 0
    quiet: bool = False
    fail_on_difference: bool = False


@dataclass(frozen=True, slots=True)
class MadeRun:
    """A run that has ended, or a plan that was shown."""

    exit_code: int
    # None if nothing was started.
    folder: Path | None = None

    def leave(self) -> None:
        """Raise typer.Exit if the exit code is not 0."""
        if self.exit_code:
            raise typer.Exit(self.exit_code)


def make_run(
    config: RunConfig,
    output: OutputOptions,
    start: RunStart | None = None,
    *,
    retry: Retry | None = None,
    notices: Sequence[str] = (),
    serves_client: bool = False,
    on_open: Callable[[Path], None] = lambda folder: None,
) -> MadeRun:
    """Run `config` to its end, and return its folder and the exit code.

    Raises typer.Exit after a signal.

    Args:
        config: the config of the run.
        output: the options that affect only the output.
        start: how the run starts, None for a new run.
        retry: the attempts that a resumed run repeats, None for all without a verdict.
        notices: what the user must know about the config.
        serves_client: whether an MCP client has started this process to act in a task.
        on_open: gets the run folder before the first attempt.
    """
    start = start or NewRun()
    if isinstance(start, NewRun):
        start.keep_samples = config.samples == STDIN
    display = progress_display(sys.stderr, quiet=output.quiet)
    with (
        show_log(output.verbosity, display.note, make_log_filter(config)),
        store_stdin_samples(config) as readable,
    ):
        _require_usable(config, output)
        for notice in notices:
            display.note(notice)
        selection = _select(readable, start, display.note, serves_client=serves_client)
        if output.dry_run:
            _describe_run(selection, output, display.note)
            _print_plan(selection, start, retry)
            return MadeRun(0)
        _shorten_garbage_collection(selection)

        async def run_and_finish() -> MadeRun:
            async with open_run(selection, start, notify=display.note) as run:
                on_open(run.folder)
                _describe_run(selection, output, display.note)
                try:
                    attempts = None if retry is None else begin_retry(run, retry)
                    if attempts is not None and not attempts:
                        display.note("no attempt is repeated, because none ended in such a way")
                    await run.execute(display, attempts)
                except BaseException as error:
                    if not run.is_refused(error):
                        with contextlib.suppress(StorageError):  # only the first error is reported
                            _finish(run, output)
                    raise
                _finish(run, output)
                return MadeRun(_exit_code(run, output), run.folder)

        return run_until_signal(run_and_finish())


def _require_usable(config: RunConfig, output: OutputOptions) -> None:
    if output.results is not None:
        check_results_path(output.results, force=output.force)
    if output.fail_on_difference and config.replay_from is None:
        raise UsageError(
            "--fail-on-difference applies only to a replay, and this run repeats none",
            hint="name the recorded run: --from RUN, such as --from latest",
        )


def _select(
    config: RunConfig, start: RunStart, notify: Callable[[str], None], *, serves_client: bool
) -> Selection:
    try:
        return select(config, notify=notify, resumed=start.is_recorded, serves_client=serves_client)
    except DataError as error:
        from harness.reports.imports import hint_at_format

        raise hint_at_format(error, config.samples, config.benchmark) from error


def _describe_run(selection: Selection, output: OutputOptions, notify: Callable[[str], None]) -> None:
    """Report what may surprise a user: the default agent, and tests that cost more or prove less."""
    config = selection.config
    if output.quiet:
        return
    if config.agent == DEFAULT_AGENT and "agent" not in config.model_fields_set:
        # A user without a model may expect one.
        notify(f"no model is set: running the reference solutions (agent {DEFAULT_AGENT})")
    for line in selection.describe_tests():
        notify(line)


def carry_out_merge(
    runs: Sequence[Path],
    output_dir: Path | None,
    output: OutputOptions,
    *,
    data: str | None,
    accepted: Collection[str],
    allow_unfinished: bool,
    is_trusted: bool,
) -> None:
    """Merge the shards that `runs` name. Raises typer.Exit if the exit code is not 0."""
    from harness.runs.merge import choose_shards, open_merged_run

    if output.results is not None:
        check_results_path(output.results, force=output.force)
    display = progress_display(sys.stderr, quiet=output.quiet)
    with open_merged_run(
        choose_shards([find_run(run, output_dir) for run in runs], display.note),
        output_dir or RUNS,
        data=data,
        accepted=accepted,
        allow_unfinished=allow_unfinished,
        is_trusted=is_trusted,
        notify=display.note,
    ) as merged:
        try:
            _finish(merged, output)
        except StorageError as error:
            # The merged run itself is complete.
            hint = error.hint or f"make room, then run: harness run --resume {quote_argument(merged.folder)}"
            raise StorageError(error.message, hint=hint) from error
        code = _exit_code(merged, output)
    if code:
        raise typer.Exit(code)


def _shorten_garbage_collection(selection: Selection) -> None:
    """Exempt all that is loaded from garbage collection, and collect less often.

    Hundreds of attempts share one core, and each full collection walks through every object for a tenth of a
    second. It belongs in the command alone, because a program that calls `harness.run` has its own objects.
    """
    if selection.endpoint is not None:
        from harness.models.connection import load_library

        load_library()
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)


def _finish(run: Run, output: OutputOptions) -> None:
    # The reports are imported after the attempts, because the first container need not wait for them.
    from harness.reports.html import write_report

    try:
        write_report(run)
        if output.results is not None:
            run.write_results(output.results)
    finally:
        _show(run, output)


def _show(run: Run, output: OutputOptions) -> None:
    from harness.reports.remarks import list_conditions
    from harness.reports.table import print_record_details, print_summary, title_run

    config = run.selection.config
    unfinished = sum(not run.store.is_finished(planned.key) for planned in run.selection.plan)
    notes = (
        [f"{count(unfinished, 'attempt')} unfinished: harness run --resume {quote_argument(run.folder)}"]
        if unfinished
        else []
    )
    if config.shard is not None:
        notes.append(f"this is shard {config.shard}: harness merge joins all shards to one run")
    if output.verbosity:
        for record in run.records():
            print_record_details(record, folder=run.folder, stream=sys.stderr, limit=LONG)
    print_summary(
        run.summary,
        title=title_run(
            run.selection.benchmark.name, config.agent, config.model, is_baseline=config.baseline
        ),
        source=run.selection.benchmark.source,
        duration_seconds=run.duration_seconds,
        stream=sys.stdout,
        notes=notes,
        run_dir=run.folder,
        attempts=run.records(),
        tool_mode=read_tool_mode(run.manifest),
        isolation=describe_isolation(run.manifest),
        conditions=list_conditions(run.manifest),
    )


def _exit_code(run: Run, output: OutputOptions) -> int:
    summary = run.summary
    if without := sum(number for status, number in summary.statuses.items() if not status.has_score):
        verb = "has" if without == 1 else "have"
        broken = summary.statuses.get(Status.GRADER_ERROR, 0)
        reason = f"; {broken:,} of these, because the tests of the task are broken" if broken else ""
        resume = f"make the rest: harness run --resume {quote_argument(run.folder)}"
        print_error(
            f"{count(without, 'attempt')} of {summary.attempts:,} {verb} no verdict{reason}",
            f"mend the tests, then {resume} --accept data.sha256" if broken == without else resume,
        )
        return 3
    if absent := list_absent_servers(summary.mcp):
        print_error(f"the MCP server '{absent[0]}' started in no attempt, so the agent has acted without it")
        return 3
    if output.fail_under is not None and summary.rate < output.fail_under:
        from harness.reports.figures import describe_rate_interval

        spread = describe_rate_interval(summary)
        shown = f"{summary.rate} ({spread})" if spread else f"{summary.rate}"
        print_error(f"the rate {shown} is below --fail-under {output.fail_under}")
        return 1
    if output.fail_on_difference and (difference := describe_difference(summary.replay)) is not None:
        print_error(difference)
        return 1
    return 0


def _print_plan(selection: Selection, start: RunStart, retry: Retry | None) -> None:
    """Print the plan, and the attempts that a resumed run still makes."""
    remaining = None
    if isinstance(start, ResumedRun):
        selection = selection.without(read_unsound_references(start.folder))
        remaining = list_remaining(selection.plan, read_results(start.folder), retry)
    source = selection.benchmark.source
    tasks = {planned.task.id for planned in selection.plan}
    typer.echo(f"benchmark  {selection.benchmark.name} ({source.kind}: {source.location})")
    typer.echo(f"split      {selection.benchmark.split}")
    typer.echo(f"agent      {selection.config.agent}")
    if selection.endpoint is not None:
        endpoint = selection.endpoint
        shown = escape_terminal(f"{endpoint.model} at {endpoint.base_url} (api: {endpoint.api})")
        typer.echo(f"model      {shown}")
    typer.echo(f"tasks      {len(tasks)} of {len(selection.benchmark.tasks)}")
    typer.echo(f"attempts   {len(selection.plan)}")
    _print_choice(selection.config, list_task_ids(selection.plan))
    if remaining is not None:
        typer.echo(f"finished   {len(selection.plan) - len(remaining)}")
        typer.echo(f"remaining  {len(remaining)}")
    typer.echo("dry run: nothing was started")


def _print_choice(config: RunConfig, task_ids: Sequence[str]) -> None:
    """Print how the tasks were sampled, and the ids of the first ones."""
    if config.sample_size is not None:
        strata = "" if config.stratify_by is None else f", strata by {config.stratify_by}"
        typer.echo(f"sampling   {config.sampling}, seed {config.seed}{strata}")
    shown = ", ".join(task_ids[:_SHOWN_IDS])
    more = f", and {len(task_ids) - _SHOWN_IDS:,} more" if len(task_ids) > _SHOWN_IDS else ""
    typer.echo(f"ids        {escape_terminal(shown, LONG)}{more}")
