"""The manifest: everything that decides the result of a run, so that it can be repeated and compared."""

from __future__ import annotations

import json
import platform
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import psutil

from harness.core.errors import UsageError
from harness.core.inputs.files import hash_file
from harness.core.version import __version__
from harness.runs.records import describe_planned
from harness.runs.run_files import SCHEMA_VERSION

if TYPE_CHECKING:
    from harness.benchmarks.benchmark import Benchmark
    from harness.runs.run_starts import Opening
    from harness.runs.selection import Selection
    from harness.runs.settings import RunConfig

# The key of the tool mode, which is null until an agent asks for it.
TOOL_MODE = "tool_mode"
# The key of the id of the run that `harness rerun` repeats.
REPEATED = "rerun_of"
# The key of a manifest with the number of verdicts that retries have superseded.
SUPERSEDED_VERDICTS = "superseded_verdicts"
# The key of the isolation that each environment with sandboxes had in the run.
ISOLATION = "isolation"
# The key of the version of the benchmark's grading.
GRADING_VERSION = "grading_version"
# A difference in one of these, or in a field below it, means that the runs did not face the same tasks under
# the same rules.
CONDITIONS = (
    *("split", GRADING_VERSION, "definition_sha256", "data.sha256", "planned.tasks", "unsound_references"),
    *("judge", "timeouts", "limits", "isolation", "image_tags", "superseded_verdicts"),
)
SEED = "seed"
# The fields of a manifest that are compared, beside the settings of the config.
_COMPARED = (
    *("harness_version", "git_revision", "split", "definition_sha256", "agent", "agent_sha256"),
    *("samples_sha256", "judge", SEED, "tool_mode", "timeouts", "isolation", "limits", "image_tags"),
    *("python_version", "superseded_verdicts", "service"),
)


@dataclass(frozen=True, slots=True)
class Origin:
    """The code of harness and the system where it runs, which only other programs can report."""

    # The revision of the checkout, with `-dirty` if it has changes, None outside of a checkout.
    git_revision: str | None
    system: str


def correct_superseded_verdicts(manifest: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a manifest with the number of superseded verdicts that the records have, none for 0."""
    rest = {name: value for name, value in manifest.items() if name != SUPERSEDED_VERDICTS}
    return {**manifest, SUPERSEDED_VERDICTS: number} if number else rest


def find_origin() -> Origin:
    """Return the origin of a run. It starts two programs, so call it while the run waits for the engine."""
    return Origin(read_git_revision(), platform.platform())


def build_manifest(opening: Opening, config: RunConfig, origin: Origin) -> dict[str, Any]:
    """Return the manifest of a run that starts now, with the config that a resumed run reads back."""
    selection, facts = opening.selection, opening.engine.facts
    benchmark, judge, recording = selection.benchmark, selection.judge, selection.recording
    tasks = {planned.task.id: planned.task for planned in selection.plan}.values()
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": opening.run_id,
        "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "harness_version": __version__,
        "git_revision": origin.git_revision,
        "benchmark": benchmark.name,
        "split": benchmark.split,
        GRADING_VERSION: benchmark.definition.grading_version,
        "definition_sha256": hash_definition(benchmark),
        "agent": config.agent,
        "agent_sha256": selection.agent_sha256,
        "source": benchmark.source.kind,
        "data": asdict(benchmark.source),
        "samples_sha256": hash_samples(config),
        "judge": None if judge is None else judge.model_dump(mode="json"),
        "replay": None if recording is None else recording.describe(),
        "seed": config.seed,
        "planned": describe_planned(selection.plan),
        "config": config.model_dump(mode="json"),
        TOOL_MODE: None,
        **describe_conditions(selection),
        "images": {} if facts is None else dict(facts.images),
        "image_tags": {} if facts is None else dict(facts.image_tags),
        "unsound_references": dict(opening.unsound),
        # The reasons by task id. The tests of these tasks may stop or branch by an answer of the program, and
        # the tests of these let the program decide comparisons.
        "own_sandboxes": benchmark.list_own_sandboxes(tasks),
        "weak_tests": benchmark.list_weak_tests(tasks),
        "python_version": platform.python_version(),
        "engine": None if facts is None else facts.engine,
        "runtime": None if facts is None else facts.runtime,
        "host": {
            "system": origin.system,
            "machine": platform.machine(),
            "cores": psutil.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
        },
    }


def describe_conditions(selection: Selection) -> dict[str, Any]:
    """Return the fields of a manifest about the conditions of attempts, which follow from the config."""
    seconds, environments = selection.timeout_seconds, selection.environments
    return {
        "timeouts": {
            spec.name: seconds or spec.timeout_seconds
            for spec in environments
            if seconds or not spec.tasks_set_timeouts
        },
        ISOLATION: {
            spec.name: spec.choose_isolation(selection.config.isolation)
            for spec in environments
            if spec.image is not None
        },
        "limits": {name: each.model_dump() for name, each in selection.all_limits.items()},
    }


def describe_start(manifest: Mapping[str, Any], folder: Path, *, is_resumed: bool) -> str:
    """Return the line with which the log of a run begins."""
    data, model = manifest["data"], manifest["config"].get("model")
    return (
        f"harness {__version__} {'resumes' if is_resumed else 'starts'} run {manifest['run_id']}: "
        f"benchmark {manifest['benchmark']} ({data['kind']}: {data['location']}), agent {manifest['agent']}, "
        + ("no model" if model is None else f"model {model}")
        + f", folder {folder}"
    )


def read_tool_mode(manifest: Mapping[str, Any]) -> Literal["native", "text"] | None:
    """Return how the model of a run called tools, None if no agent has asked for it."""
    mode = manifest.get(TOOL_MODE)
    return mode if mode in ("native", "text") else None


def read_model_name(config: Mapping[str, Any]) -> str | None:
    """Return the name that the model of a recorded config has at its server, None without a model.

    The config may name an endpoint instead. Endpoints of two configs may share a name, such as `local`.
    """
    model = config.get("model")
    found = _find_endpoint(config).get("model", model)
    return found if isinstance(found, str) else None


def read_api(config: Mapping[str, Any]) -> str:
    """Return the API of the server of a recorded config's model, `chat` if the config names none."""
    found = _find_endpoint(config).get("api", config.get("api"))
    return found if isinstance(found, str) else "chat"


def _find_endpoint(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the endpoint of a recorded config's model, {} if the model is no name of one."""
    model, endpoints = config.get("model"), config.get("endpoints")
    named = endpoints.get(model) if isinstance(endpoints, dict) and isinstance(model, str) else None
    return named if isinstance(named, dict) else {}


def read_grading_version(manifest: Mapping[str, Any]) -> int:
    """Return the version of the grading of a run. The manifests before there were versions have the first."""
    found = manifest.get(GRADING_VERSION, 1)
    return found if type(found) is int else 0


def describe_isolation(manifest: Mapping[str, Any]) -> str | None:
    """Return the environments whose tasks shared sandboxes, as a text for people. None if none did."""
    found = manifest.get(ISOLATION)
    if not isinstance(found, dict):
        return None
    shared = sorted(str(name) for name, level in found.items() if level == "run")
    return f"run: tasks shared sandboxes ({', '.join(shared)})" if shared else None


def hash_definition(benchmark: Benchmark) -> str | None:
    """Return the SHA-256 of the file that defines a user's own benchmark, None for a built-in one."""
    if benchmark.definition.source is None:
        return None
    return _sha256(benchmark.definition.source)


def hash_samples(config: RunConfig) -> str | None:
    """Return the SHA-256 of the samples file, None for a run without samples."""
    if config.samples is None:
        return None
    return _sha256(config.samples)


def _sha256(path: str) -> str:
    try:
        return hash_file(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def read_git_revision() -> str | None:
    """Return the revision of this checkout, with `-dirty` if it has changes, None outside of a checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        described = subprocess.run(
            # Take no lock on the user's index, because a killed run would leave it behind.
            ["git", "--no-optional-locks", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of the manifests in which the runs differ."""

    # The path of the field, such as `config.generation.temperature`.
    name: str
    # The different values of each side as JSON, in the order of its runs.
    baseline: tuple[str, ...]
    candidate: tuple[str, ...]
    # Whether the difference makes the comparison unfair.
    is_unfair: bool


def list_differences(
    baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> list[Difference]:
    """Return the differences between the manifests of two sides, those that are unfair first.

    A condition that differs is unfair. So is a setting that differs between the runs of one side, because
    they are no repetitions then. Repetitions may have different seeds.
    """
    sides = [[dict(_flatten_compared(manifest)) for manifest in side] for side in (baseline, candidate)]
    names = dict.fromkeys(name for side in sides for values in side for name in values)
    found = []
    for name in names:
        before, after = ([values.get(name, "null") for values in side] for side in sides)
        if len({*before, *after}) == 1:
            continue
        if name == SEED:
            is_unfair = before[0] != after[0]
        else:
            is_repetition = len({*before}) == 1 and len({*after}) == 1
            is_unfair = _is_condition(name) or not is_repetition
        found.append(Difference(name, tuple(dict.fromkeys(before)), tuple(dict.fromkeys(after)), is_unfair))
    return sorted(found, key=lambda each: not each.is_unfair)


def _is_condition(name: str) -> bool:
    from harness.runs.settings import KEYS  # here, because a list of runs reads manifests and no settings

    settings = (f"config.{key.name}" for key in KEYS.values() if key.rules.difference == "unfair")
    conditions = (*CONDITIONS, *settings)
    return any(name == condition or name.startswith(f"{condition}.") for condition in conditions)


def _flatten_compared(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from harness.runs.settings import KEYS

    for name in _COMPARED:
        yield from _flatten(name, manifest.get(name))
    yield GRADING_VERSION, str(read_grading_version(manifest))
    # One value, because a list of the tasks would hide all other differences.
    yield "unsound_references", json.dumps(manifest.get("unsound_references"), sort_keys=True)
    yield "data.sha256", json.dumps(manifest["data"].get("sha256"))
    planned = manifest.get("planned")
    yield "planned.tasks", json.dumps(planned.get("tasks") if isinstance(planned, dict) else None)
    for name, value in manifest["config"].items():
        # Another version may have had other keys.
        if name not in KEYS or KEYS[name].rules.difference != "hidden":
            yield from _flatten(f"config.{name}", value)


def _flatten(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield each value below a field with its path, as JSON. An empty group has none."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flatten(f"{name}.{key}", inner)
    else:
        yield name, json.dumps(value)
