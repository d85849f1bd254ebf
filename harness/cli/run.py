"""`harness run`, which evaluates an agent on a benchmark, and `harness grade`, which grades samples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.completion import agent_names, complete_agent, complete_run
from harness.cli.run_options import (
    Accept,
    AgentCmd,
    AgentImage,
    AgentWhere,
    BaseUrl,
    Benchmark,
    Benchmarks,
    Categories,
    ClusterBy,
    Concurrent,
    Config,
    Data,
    Difficulties,
    DryRun,
    DurationsFrom,
    Executor,
    Extract,
    FailOnDifference,
    FailUnder,
    Force,
    Isolation,
    Ks,
    MaxTokens,
    ModelApi,
    Models,
    Options,
    OutputDir,
    Quarantined,
    Quiet,
    RayAddress,
    ReasoningEffort,
    ReplayFrom,
    Results,
    RunBudget,
    Runtime,
    Samples,
    SampleSize,
    Sampling,
    Seed,
    Shard,
    Split,
    StratifyBy,
    Tags,
    TaskIds,
    Temperature,
    Timeout,
    Trust,
    Verbose,
)

if TYPE_CHECKING:
    from harness.runs.changes import Change

app = typer.Typer()


@app.command()
def run(
    benchmark: Benchmarks = None,
    config: Config = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            metavar="NAME",
            help=f"{', '.join(agent_names())}, FILE.py, or module:Name.",
            autocompletion=complete_agent,
        ),
    ] = None,
    agent_cmd: AgentCmd = None,
    agent_image: AgentImage = None,
    agent_where: AgentWhere = None,
    replay_from: ReplayFrom = None,
    model: Models = None,
    base_url: BaseUrl = None,
    api: ModelApi = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    reasoning_effort: ReasoningEffort = None,
    run_budget: RunBudget = None,
    sample_size: SampleSize = None,
    sampling: Sampling = None,
    stratify_by: StratifyBy = None,
    task_ids: TaskIds = None,
    filter_category: Categories = None,
    filter_difficulty: Difficulties = None,
    filter_tags: Tags = None,
    include_quarantined: Quarantined = False,
    shard: Shard = None,
    data: Data = None,
    split: Split = None,
    option: Options = None,
    samples: Samples = None,
    extract: Extract = None,
    n_samples: Annotated[
        int | None, typer.Option("--n-samples", metavar="N", help="Attempts at each task. Default: 1.")
    ] = None,
    k: Ks = None,
    cluster_by: ClusterBy = None,
    timeout_seconds: Timeout = None,
    max_concurrent: Concurrent = None,
    durations_from: DurationsFrom = None,
    seed: Seed = None,
    runtime: Runtime = None,
    isolation: Isolation = None,
    executor: Executor = None,
    ray_address: RayAddress = None,
    baseline: Annotated[
        bool,
        typer.Option("--baseline", help="Leave out the MCP servers of the config, for a comparison."),
    ] = False,
    output_dir: OutputDir = None,
    results: Results = None,
    force: Force = False,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="RUN",
            help="Resume this run: a folder, a name in --output-dir, or latest.",
            autocompletion=complete_run,
        ),
    ] = None,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed", help="With --resume: repeat only attempts with a verdict, not passed."
        ),
    ] = False,
    retry_infra: Annotated[
        bool,
        typer.Option("--retry-infra", help="With --resume: repeat only attempts that ended in infra errors."),
    ] = False,
    accept: Accept = None,
    trust: Trust = False,
    fail_under: FailUnder = None,
    fail_on_difference: FailOnDifference = False,
    dry_run: DryRun = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Run an agent on a benchmark, and grade its submissions.

    Several benchmarks or models are a matrix: one run for each pair, one table, and one index of the runs.
    """
    from functools import partial

    from harness.cli.carry_out import OutputOptions, carry_out
    from harness.cli.matrix import carry_out_matrix, list_cells
    from harness.core.errors import UsageError
    from harness.runs.config import load_config
    from harness.runs.recorded_run import add_recorded_settings
    from harness.runs.resume import change_resumed_config, read_resumed_config
    from harness.runs.retry import Retry
    from harness.runs.run_names import find_run
    from harness.runs.run_starts import ResumedRun
    from harness.runs.store import read_manifest
    from harness.runs.trust import require_trust
    from harness.runs.unread import locate_unread

    cells = list_cells(benchmark, model)
    given = _drop_unset(
        agent=agent,
        replay_from=replay_from,
        base_url=base_url,
        api=api,
        **_merge_section(
            config,
            "generation",
            temperature=temperature,
            max_tokens=max_tokens,
            reasoning_effort=reasoning_effort,
        ),
        **_merge_section(
            config,
            "command",
            cmd=agent_cmd,
            image=agent_image,
            where=agent_where,
        ),
        sample_size=sample_size,
        sampling=sampling,
        stratify_by=stratify_by,
        task_ids=task_ids,
        filter_category=filter_category,
        filter_difficulty=filter_difficulty,
        filter_tags=filter_tags,
        include_quarantined=include_quarantined or None,
        shard=shard,
        data=data,
        split=split,
        options=_parse_options(option),
        samples=samples and str(samples),
        extract=extract,
        n_samples=n_samples,
        k=k,
        cluster_by=cluster_by,
        timeout_seconds=timeout_seconds,
        durations_from=durations_from,
        seed=seed,
        runtime=runtime,
        isolation=isolation,
        executor=executor,
        ray_address=ray_address,
        baseline=baseline or None,
    )
    output = OutputOptions(results, force, fail_under, dry_run, verbose, quiet, fail_on_difference)
    # A resumed run may change these.
    changeable = _drop_unset(
        max_concurrent=max_concurrent, run_budget=_parse_options(run_budget, "--run-budget")
    )
    if resume is None:
        for name, is_given in {
            "--retry-failed": retry_failed,
            "--retry-infra": retry_infra,
            "--accept": accept,
            "--trust": trust,
        }.items():
            if is_given:
                raise UsageError(f"{name} needs a run to resume", hint=f"add it: --resume latest {name}")
        given |= _drop_unset(output_dir=output_dir and str(output_dir))
        # All configs are read before the first run starts.
        values = [{**given, **changeable, **cell} for cell in cells]
        loaded = [load_config(config, each, add_settings=add_recorded_settings) for each in values]
        if len(cells) > 1:
            carry_out_matrix(loaded, output, partial(locate_unread, config), values)
            return
        with locate_unread(config, values[0]):
            carry_out(loaded[0], output)
        return
    if len(cells) > 1:
        raise UsageError(
            "--resume continues one run, and several benchmarks or models are named",
            hint="resume each run of the matrix: harness run --resume RUN",
        )
    given |= cells[0]
    folder = find_run(resume, output_dir)
    manifest = read_manifest(folder)
    recorded = read_resumed_config(folder, manifest)
    changed: list[Change] = []
    if given or changeable or config:
        own = {} if config else {"benchmark": recorded.benchmark, "agent": recorded.agent}
        settings = load_config(config, {**own, **given, **changeable})
        recorded, changed = change_resumed_config(folder, recorded, settings, accept or [])
    is_trusted = require_trust(folder, manifest, recorded, is_trusted=trust)
    retry = Retry(retry_failed, retry_infra) if retry_failed or retry_infra else None
    start = ResumedRun(folder, accept or [], changed, is_trusted)
    carry_out(recorded, output, start, retry=retry)


@app.command()
def grade(
    benchmark: Benchmark = None,
    config: Config = None,
    samples: Samples = None,
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Grade again what this run submitted: a folder, a name in --output-dir, or latest.",
            autocompletion=complete_run,
        ),
    ] = None,
    extract: Extract = None,
    sample_size: SampleSize = None,
    sampling: Sampling = None,
    stratify_by: StratifyBy = None,
    task_ids: TaskIds = None,
    filter_category: Categories = None,
    filter_difficulty: Difficulties = None,
    filter_tags: Tags = None,
    include_quarantined: Quarantined = False,
    shard: Shard = None,
    data: Data = None,
    split: Split = None,
    option: Options = None,
    k: Ks = None,
    cluster_by: ClusterBy = None,
    timeout_seconds: Timeout = None,
    max_concurrent: Concurrent = None,
    durations_from: DurationsFrom = None,
    seed: Seed = None,
    runtime: Runtime = None,
    isolation: Isolation = None,
    executor: Executor = None,
    ray_address: RayAddress = None,
    output_dir: OutputDir = None,
    results: Results = None,
    force: Force = False,
    fail_under: FailUnder = None,
    dry_run: DryRun = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
) -> None:
    """Grade samples from a file, or what a run submitted. No model is asked."""
    from harness.cli.carry_out import OutputOptions, carry_out
    from harness.core.errors import UsageError
    from harness.runs.config import load_config
    from harness.runs.recorded_run import add_recorded_settings
    from harness.runs.unread import locate_unread

    if run is not None and samples is not None:
        raise UsageError("--run and --samples both name what is graded", hint="leave out one of them")
    hint = f"harness grade -b {benchmark or 'mbpp'} --samples FILE.jsonl"
    missing = [name for name, value in (("a benchmark", benchmark), ("samples", samples)) if value is None]
    if run is None and config is None and missing:
        raise UsageError(f"grade needs {' and '.join(missing)}", hint=hint)
    given = _drop_unset(
        benchmark=benchmark,
        samples=samples and str(samples),
        extract=extract,
        sample_size=sample_size,
        sampling=sampling,
        stratify_by=stratify_by,
        task_ids=task_ids,
        filter_category=filter_category,
        filter_difficulty=filter_difficulty,
        filter_tags=filter_tags,
        include_quarantined=include_quarantined or None,
        shard=shard,
        data=data,
        split=split,
        options=_parse_options(option),
        k=k,
        cluster_by=cluster_by,
        timeout_seconds=timeout_seconds,
        durations_from=durations_from,
        max_concurrent=max_concurrent,
        seed=seed,
        runtime=runtime,
        isolation=isolation,
        executor=executor,
        ray_address=ray_address,
        output_dir=output_dir and str(output_dir),
    )
    output = OutputOptions(results, force, fail_under, dry_run, verbose, quiet)
    if run is not None:
        # A replay submits what the run submitted, after the recorded actions where a state is graded.
        values = {**given, "replay_from": str(run)}
        loaded = load_config(config, values, add_settings=add_recorded_settings)
        with locate_unread(config, values):
            carry_out(loaded, output)
        return
    loaded = load_config(config, given)
    if loaded.samples is None:
        raise UsageError(f"{config}: grade needs samples", hint=hint)
    if loaded.agent != "predictions":
        raise UsageError(
            f"{config}: grade runs no agent, but the config names '{loaded.agent}'",
            hint="leave out 'agent', or use: harness run",
        )
    with locate_unread(config, given):
        carry_out(loaded, output)


def _parse_options(texts: list[str] | None, option: str = "--option") -> dict[str, Any] | None:
    from harness.benchmarks.options import parse_options

    return parse_options(texts, option=option) if texts else None


def _merge_section(config: Path | None, section: str, **given: Any) -> dict[str, Any]:
    """Return a group of settings from the command line, over those of the config file."""
    from harness.runs.config import read_section

    given = _drop_unset(**given)
    return {section: {**read_section(config, section), **given}} if given else {}


def _drop_unset(**options: Any) -> dict[str, Any]:
    """Return the options that are set. An option that is None does not override the config."""
    return {name: value for name, value in options.items() if value is not None}
