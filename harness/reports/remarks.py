"""The figures that only some runs have: further scores, strict verdicts, quarantined tasks, a used budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.core.invalid_values import quote_value
from harness.core.text import escape_terminal, escape_text
from harness.core.types import Status, Summary
from harness.reports.attempt_figures import UNKNOWN, describe_cost
from harness.reports.figures import count, duration, percent
from harness.runs.grading_service import SERVICE
from harness.runs.manifest import read_grading_version
from harness.runs.resume import ACCEPTED

# The tools of one server that a report names.
MOST_TOOLS = 8


# The seal levels of task folders that are called otherwise.
_LEVELS = {"live": "unsealed", "same_process": "of them same_process"}
_FILTERS = ("filter_category", "filter_difficulty", "filter_tags")
_MOST_CHANGES = 10
_SHOWN = 300
_SAMPLES = {
    # The data may have fewer.
    "first": "at most {} of the tasks, the first ones",
    "random": "at most {} of the tasks, drawn at random",
    "stratified": "at most {} of the tasks, drawn at random from each {}",
}
BUNDLED_NOTICE = (
    "bundled sample: a few problems of our own in the benchmark's format. These figures are not a result"
)
"""The notice of every report on a run with the bundled sample."""


def list_lost(summary: Summary) -> Iterator[tuple[Status, str]]:
    """Yield each status without a verdict with a text, because the rate counts its attempts as failed."""
    lost = {Status.INFRA_ERROR: "ended in an infra error", Status.GRADER_ERROR: "met broken tests"}
    for status, how in lost.items():
        if number := summary.statuses.get(status):
            yield status, f"{count(number, 'attempt')} {how}: no verdict, but counted as unresolved"


def list_remarks(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield each figure as a label and a text of one line. Most benchmarks have none."""
    for name, score in summary.scores.get("categories", {}).items():
        yield f"score {name}", f"{_figure(score['score'])}  ({score['measure']}{_kinds(score)})"
    overall = summary.scores.get("overall")
    if overall:
        yield "score overall", _overall(overall)
    if sealed := summary.scores.get("sealed"):
        named = ((escape_terminal(str(level)), number) for level, number in sealed.items())
        yield "sealed", ", ".join(f"{number:,} {_LEVELS.get(level, level)}" for level, number in named)
    for name, share in summary.scores.get("figures", {}).items():
        yield name, percent(share)
    strict = summary.resolved_strict
    if strict:
        differ = strict["differ"]
        yield (
            "strictly",
            f"{strict['resolved_strict']:,} of {count(strict['tasks'], 'task')} graded by a text in the "
            f"answer; the published rule resolves {strict['resolved']:,}"
            + (f"; {differ:,} {'differs' if differ == 1 else 'differ'}" if differ else ""),
        )
    if summary.replay:
        yield "replay", _describe_replay(summary.replay)
        if (first := summary.replay["first_difference"]) is not None:
            attempt = f" #{first['attempt']}" if first["attempt"] else ""
            task_id = escape_terminal(first["task_id"], 200)
            yield "", f"first difference: {task_id}{attempt}, {escape_terminal(first['text'])}"
    if summary.superseded:
        yield "retried", describe_repeated(summary.superseded)
    if summary.quarantined:
        names = ", ".join(summary.quarantined)
        tasks = count(len(summary.quarantined), "task")
        yield "quarantined", f"{tasks} that no grader can rely on: {names}"


def describe_repeated(superseded: Mapping[str, int]) -> str:
    """Return the number of repeated attempts, and of those that passed then, as a text of one line."""
    attempts = count(superseded["attempts"], "attempt")
    resolved = f"{superseded['resolved']:,} of them passed then"
    return f"{attempts} had a verdict and were repeated; {resolved}"


def list_model_remarks(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield each figure about the model of a run as a label and a text of one line. Most runs have none."""
    asking = summary.asking
    if asking and asking["attempts"] and not asking["asked"]:
        yield "agent", f"the agent asked the model in 0 of {count(asking['attempts'], 'attempt')}"
    if summary.budget:
        yield "budget", "; ".join(_describe_limit(*each) for each in summary.budget.items())
    if cuts := summary.model.get("context_truncated"):
        times = count(int(cuts), "time")
        yield "context", f"the server cut it {times} without an error; give the server a larger context"
    if cut := summary.model.get("cut_replies"):
        replies = f"{int(cut):,} {'reply' if cut == 1 else 'replies'}"
        yield "cut off", f"{replies} ended at the token limit, before the model was done; raise --max-tokens"
    for server, figures in summary.mcp.items():
        yield f"mcp {server}", _describe_server(figures)


def _describe_server(figures: Mapping[str, Any]) -> str:
    """Return the use of an MCP server, its tools with the most calls first."""
    used = [(name, use) for name, use in figures["tools"].items() if use["calls"]]
    used.sort(key=lambda each: (-each[1]["calls"], each[0]))
    shown = [_describe_tool(escape_text(name), use) for name, use in used[:MOST_TOOLS]]
    if len(used) > MOST_TOOLS:
        shown.append(f"and {count(len(used) - MOST_TOOLS, 'more tool')}")
    if failed := figures["failed_starts"]:
        reason = figures.get("start_error")
        because = "" if reason is None else f" (the first: {escape_text(reason)})"
        shown.insert(0, f"{count(failed, 'failed start')}{because}")
    return "; ".join(shown) or "no calls"


def _describe_tool(name: str, use: Mapping[str, Any]) -> str:
    errors = f" ({count(use['errors'], 'error')})" if use["errors"] else ""
    return f"{name} {count(use['calls'], 'call')}{errors}, {duration(use['seconds'])}"


def _describe_limit(name: str, limit: Mapping[str, float | None]) -> str:
    allowed, used = limit["allowed"] or 0, limit["used"]
    if name == "cost":
        text = f"cost {describe_cost(allowed)}, used {describe_cost(used)}"
    else:
        text = f"{allowed:,.0f} {name.replace('_', ' ')}, used {UNKNOWN if used is None else f'{used:,.0f}'}"
    # The money is spent when a reply arrives, so an abort of the request would save nothing.
    return text + (" (requests under way are not cut off)" if used is not None and used > allowed else "")


def _describe_replay(replay: Mapping[str, Any]) -> str:
    attempts, observations = replay["attempts"], replay["observations"]
    incomplete = f", {replay['incomplete']:,} incomplete" if replay["incomplete"] else ""
    return (
        f"replayed {count(attempts, 'attempt')}: {replay['equal']:,} equal, {replay['different']:,} different"
        f"{incomplete}; {replay['observations_differing']:,} of {count(observations, 'observation')} "
        f"{'differs' if replay['observations_differing'] == 1 else 'differ'}; "
        f"{replay['same_verdicts']:,} of {count(attempts, 'verdict')} as recorded"
    )


def _overall(overall: Mapping[str, Any]) -> str:
    score = overall["score"]
    if score is None:
        return "none"
    if overall["method"] == "weighted":
        return f"{score:.2f}  (weighted as in the paper)"
    return f"{score:.2f}  (partial, because these did not run: {', '.join(overall.get('missing', ()))})"


def _kinds(score: Mapping[str, Any]) -> str:
    kinds = [f"{kind} {percent(each['score'])}" for kind, each in score.get("kinds", {}).items()]
    missing = [f"no {kind}" for kind in score.get("missing_kinds", ())]
    return f": {', '.join(kinds + missing)}" if kinds else ""


def _figure(score: float | None) -> str:
    return "none" if score is None else percent(score)


def list_conditions(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each condition as a label and a text of one line.

    A whole run of this machine with the default seed has none, unless its benchmark grows.
    """
    data = manifest.get("data")
    if isinstance(data, dict) and data.get("window") is not None:
        yield "window", _quote(data["window"], bare=True)
    if (grading := read_grading_version(manifest)) != 1:
        yield "grading", f"version {grading}"
    config = manifest.get("config")
    if isinstance(config, dict):
        if selection := describe_selection(config):
            yield "selected", selection
        if (seed := config.get("seed")) or (seed is not None and config.get("sample_size") is not None):
            yield "seed", _quote(seed)
        if config.get("grading_network") == "on":
            yield "graded", "with a network, so that verdicts depend on other machines"
    service = manifest.get(SERVICE)
    if isinstance(service, dict):
        yield "graded by", f"a service with harness {_quote(service.get('harness_version'), bare=True)}"
    changes = list(_list_changes(manifest))
    if changes:
        left_out = count(len(changes) - _MOST_CHANGES, "more change")
        more = [f"and {left_out}, in manifest.json"] if len(changes) > _MOST_CHANGES else []
        yield "accepted", "; ".join(changes[:_MOST_CHANGES] + more)


def describe_selection(config: Mapping[str, Any]) -> str:
    """Return the part of the benchmark's tasks that a run has, "" for all of them. `config` is recorded."""
    parts: list[str] = []
    if names := config.get("task_ids"):
        parts.append(f"{count(len(names), 'named task')}" if isinstance(names, list) else _quote(names))
    parts += [f"{name} {_quote(config[name])}" for name in _FILTERS if config.get(name)]
    if (size := config.get("sample_size")) is not None:
        pattern = _SAMPLES.get(str(config.get("sampling", "random")), "{} of the tasks")
        parts.append(pattern.format(_quote(size), _quote(config.get("stratify_by") or "category", bare=True)))
    if config.get("include_quarantined"):
        parts.append("with the quarantined tasks")
    if (shard := config.get("shard")) is not None:
        parts.append(f"only shard {_quote(shard, bare=True)}, which is not the whole run")
    return "; ".join(parts)


def describe_changes(manifest: Mapping[str, Any]) -> str:
    """Return all changes of a run's inputs that its user has accepted, "" without one."""
    return "; ".join(_list_changes(manifest))


def _list_changes(manifest: Mapping[str, Any]) -> Iterator[str]:
    changes = manifest.get(ACCEPTED)
    for change in changes if isinstance(changes, list) else ():
        if isinstance(change, dict):
            before, after = _quote(change.get("before")), _quote(change.get("after"))
            yield f"{_quote(change.get('field'), bare=True)} from {before} to {after}"


def _quote(value: Any, *, bare: bool = False) -> str:
    return escape_terminal(value if bare and isinstance(value, str) else quote_value(value), _SHOWN)
