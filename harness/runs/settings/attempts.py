"""The settings of attempts, of their grading, and of the machines that make them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from harness.core.invalid_values import quote_value
from harness.core.setting import Aliases, Example, Keys, Option, Panel, Setting, Text, Useless
from harness.sandbox.backends import BackendName
from harness.sandbox.limits import Isolation, Limits

if TYPE_CHECKING:
    from harness.benchmarks.benchmark import Definition

MIN_TIMEOUT_SECONDS = 180
MAX_TIMEOUT_SECONDS = 600
MAX_TASK_SECONDS = 24 * 3600
"""The longest wall limit of a task that sets its own."""
# The reader of YAML refuses integers beyond this bound, too.
MAX_SEED = 2**63
ExecutorName = Literal["local", "ray"]
# The members of harness.benchmarks.replies.CodeRule, whose import takes long.
ExtractRule = Literal["none", "fenced", "between_last_fences", "first_block", "last_block", "all_blocks"]


def _show_seconds(definition: Definition) -> int | None:
    from harness.environments import environment_spec

    specs = [environment_spec(name) for name in definition.environments]
    if any(spec.tasks_set_timeouts for spec in specs):
        return None
    return max((spec.timeout_seconds for spec in specs), default=180)


def _check_timeout(seconds: int, info: ValidationInfo) -> int:
    from harness.benchmarks.custom import names_task_folders

    low, high = MIN_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS
    if not low <= seconds <= high and names_task_folders(info.data.get("benchmark", "")):
        low, high = 1, MAX_TASK_SECONDS
    if not low <= seconds <= high:
        raise ValueError(f"must be {low} to {high} whole seconds, not {quote_value(seconds)}")
    return seconds


class GradingKeys(Keys):
    """The samples, and the figures that are computed from verdicts."""

    panel: ClassVar[Panel] = "Grading"

    samples: Annotated[
        str | None,
        Setting(
            on_resume="fixed",
            difference="hidden",
            read_by="agent",
            differs_in_shards=True,
            foreign="harmless",
        ),
        Option(
            "JSONL with task_id and completion, solution, answer or reply. - reads standard input.",
            "FILE",
            is_path=True,
        ),
        Aliases("--predictions", "--completions", "--input"),
        Example("samples.jsonl", is_set=True, agent="predictions"),
    ] = None
    """The JSONL file of samples to grade."""
    extract: Annotated[
        ExtractRule | None,
        Setting(on_resume="fixed", difference="unfair", read_by="agent", foreign="harmless"),
        Option(
            "Extract programs from samples and replies by this rule: none, fenced, between_last_fences, "
            "first_block, last_block or all_blocks.",
            "RULE",
        ),
    ] = None
    """The rule that takes the program out of a text. Default: the benchmark's own."""
    k: Annotated[
        list[int],
        Setting(on_resume="fixed", difference="hidden", differs_in_shards=True, foreign="harmless"),
        Option("k of pass@k (repeatable).", "K"),
        Aliases("--pass-at-k", "--pass-k", "-k"),
    ] = Field(default_factory=lambda: [1])
    """Each k of pass@k."""
    cluster_by: Annotated[
        Text | None,
        Setting(on_resume="fixed", difference="hidden", foreign="harmless"),
        Option(
            "Cluster the rate's interval by category, difficulty or the kind of a label. Default: task.",
            "KIND",
        ),
    ] = None
    """The field whose values cluster the tasks for the interval of the rate: `category`, `difficulty`, or the
    kind of a label. Default: each task is a cluster of its own."""


class AttemptKeys(Keys):
    """The attempts, their order and their folder."""

    panel: ClassVar[Panel] = "Attempts"

    timeout_seconds: Annotated[
        Annotated[
            int,
            Field(json_schema_extra={"minimum": MIN_TIMEOUT_SECONDS, "maximum": MAX_TASK_SECONDS}),
            AfterValidator(_check_timeout),
        ]
        | None,
        Setting(
            on_resume="ask", difference="hidden", differs_in_shards=True, is_replayed=True, foreign="examined"
        ),
        Option("Time limit of an attempt, 180 to 600 s. Task folders: up to 24 h.", "S"),
        Aliases("--timeout", "--time-limit"),
        Example(_show_seconds, is_set=True),
    ] = None
    """The wall limit in seconds, once for the agent in an attempt and once for its grading. Default: that of
    the task folder or of the task's environment."""
    timeout_multiplier: Annotated[
        float,
        Field(gt=0, allow_inf_nan=False),
        Setting(on_resume="ask", difference="unfair", read_by="task timeouts", is_replayed=True),
        Option("Multiply the time limits that task folders set by this.", "X"),
        Useless(
            lambda config: config.timeout_seconds is not None,
            "has no effect beside --timeout-seconds",
            "leave out one of them",
        ),
    ] = 1.0
    """The factor on the time limits that task folders set."""
    max_concurrent: Annotated[
        int | None,
        Field(ge=1, le=1024),
        Setting(on_resume="free", difference="hidden", differs_in_shards=True, foreign="harmless"),
        Option("Attempts at once. Default: 1024, or by cores if the agent never waits.", "N"),
        Aliases("--concurrency", "--workers", "--jobs", "--parallel", "-j"),
        Example(8),
    ] = None
    """The number of attempts under way, which mostly wait for a model. Default: 1024, or a number that
    follows from the cores if the agent never waits."""
    durations_from: Annotated[
        Text | None,
        Setting(on_resume="free", difference="hidden", differs_in_shards=True, foreign="harmless"),
        Option("Start the tasks first that took longest in this run.", "RUN", completes="run"),
    ] = None
    """An earlier run: a folder, a name in `output_dir`, or `latest`. The tasks that took longest there start
    first, so that the run ends sooner. Verdicts do not depend on it."""
    seed: Annotated[
        int,
        Field(gt=-MAX_SEED, lt=MAX_SEED),
        Setting(on_resume="fixed", difference="hidden", is_replayed=True, foreign="harmless"),
        Option("Random seed of the run. Default: 0.", "N"),
        Example(0),
    ] = 0
    """The random seed of the run."""
    output_dir: Annotated[
        str,
        Setting(on_resume="fixed", difference="hidden", differs_in_shards=True, foreign="harmless"),
        Option("Folder of the run folders. Default: runs.", "DIR", is_path=True),
        Example("runs"),
    ] = "runs"
    """The folder of the run folders."""


class SandboxKeys(Keys):
    """The sandboxes and the machines. A service decides them for the runs of its clients."""

    panel: ClassVar[Panel] = "Sandboxes"

    max_sandboxes: Annotated[
        int | None,
        Field(ge=1, le=1024),
        Setting(
            on_resume="free",
            difference="hidden",
            read_by="sandbox",
            differs_in_shards=True,
            foreign="harmless",
        ),
        Example(4),
    ] = None
    """The number of sandboxes that live at once. Default: as many as fit into memory."""
    limits: Annotated[
        Limits,
        Setting(
            on_resume="ask", difference="hidden", read_by="own sandbox", is_replayed=True, foreign="examined"
        ),
        Example({"memory_mb": 2048}),
    ] = Field(default_factory=Limits)
    """The limits of sandboxes. Only those that are set here override the limits of the environment."""
    runtime: Annotated[
        Literal["runc", "runsc"],
        Setting(
            on_resume="ask", difference="unfair", read_by="sandbox", is_replayed=True, foreign="harmless"
        ),
        Option("runc or runsc (gVisor).", "NAME"),
        Example("runc"),
    ] = "runc"
    """The runtime of containers: `runsc` is gVisor."""
    backend: Annotated[
        BackendName,
        Setting(
            on_resume="free",
            difference="shown",
            read_by="sandbox",
            differs_in_shards=True,
            foreign="harmless",
        ),
        Option("docker, or oci: a runtime without an engine. Default: the first that is there.", "NAME"),
        Example("auto"),
    ] = "auto"
    """The starter of sandboxes: `docker`, or `oci`, which runs an OCI runtime without an engine. `auto` takes
    Docker if its engine answers, else Podman, and otherwise `oci`. Verdicts do not depend on it."""
    allow_weaker: Annotated[
        bool,
        Setting(on_resume="ask", difference="shown", read_by="sandbox", differs_in_shards=True),
        Option("Start sandboxes also without the limits that the backend oci cannot enforce here."),
    ] = False
    """Whether sandboxes may start without the limits that the backend `oci` cannot enforce on this machine,
    which the manifest names. Otherwise such a run is refused."""
    isolation: Annotated[
        Isolation,
        Setting(
            on_resume="ask", difference="hidden", read_by="sandbox", is_replayed=True, foreign="examined"
        ),
        Option(
            "task: attempts at a task share a grading container. attempt: each has its own. "
            "run: tasks share it too, for programs that users and processes are enough to separate.",
            "LEVEL",
        ),
    ] = "task"
    """The attempts that share a grading container: with `task` those at a task, with `attempt` none, with
    `run` those at all tasks, as long as the container is provably clean. Agents never act in such a one."""
    base_images: Annotated[
        dict[str, str],
        Setting(on_resume="fixed", difference="unfair", read_by="task image", is_replayed=True),
        Option(
            "Build tasks on IMAGE instead of base images that match PATTERN (repeatable). `packages` is made "
            "from Debian's packages.",
            "PATTERN=IMAGE",
            name="--base-image",
        ),
        Example({"ubuntu:*": "packages"}),
    ] = Field(default_factory=dict)
    """The images that replace base images of tasks, by patterns such as `ubuntu:*`. The image `packages` is
    made from Debian's packages."""
    build_ca: Annotated[
        Text | None,
        Setting(on_resume="free", difference="hidden", read_by="task image", differs_in_shards=True),
        Option("A certificate (PEM) that builds of tasks trust.", "FILE", is_path=True),
    ] = None
    """The file of a certificate that builds of images trust, such as a proxy's."""
    allow_network: Annotated[
        bool,
        Setting(on_resume="ask", difference="unfair", read_by="task image", is_replayed=True),
        Option("Give agents a network in tasks that ask for one."),
    ] = False
    """Whether the machines of agents get a network if their tasks ask for one. Other tasks are refused."""
    network: Annotated[
        Literal["none"] | None,
        Setting(
            on_resume="ask", difference="unfair", read_by="task image", is_replayed=True, foreign="harmless"
        ),
        Option("none: run tasks that ask for a network without one.", "MODE"),
        Useless(lambda config: config.allow_network, "excludes --allow-network", "leave out --allow-network"),
    ] = None
    """With `none`, tasks that ask for a network run without one, and their metrics say so."""
    seal: Annotated[
        Literal["artifacts", "proxied", "work", "tools", "all", "attached", "live"] | None,
        Setting(on_resume="fixed", difference="unfair", read_by="task image", is_replayed=True),
        Option(
            "Which changes of an agent the tests of a task folder see, and how: artifacts, proxied, work, "
            "tools, all, attached or live. Default: what the task's reference proves.",
            "LEVEL",
        ),
    ] = None
    """The seal level of every task, instead of the first where its reference passes: `artifacts`,
    `proxied`, `work`, `tools`, `all`, `attached` or `live`."""
    grading_network: Annotated[
        Literal["on"] | None,
        # YAML reads `on` as true.
        BeforeValidator(lambda given: "on" if given is True else given),
        Setting(on_resume="fixed", difference="unfair", read_by="task image", is_replayed=True),
        Option("on: give the tests of task folders a network, where they install their tools.", "MODE"),
    ] = None
    """With `on`, the machines where tests of task folders run get a network instead of prepared tools.
    Reports say so, because verdicts then depend on other machines."""
    executor: Annotated[
        ExecutorName,
        Setting(on_resume="free", difference="shown", foreign="harmless"),
        Option(
            "Make the attempts here (local) or on the nodes of a Ray cluster (ray). Default: local.", "NAME"
        ),
    ] = "local"
    """Where attempts are made: in this process, or on the nodes of a Ray cluster. Verdicts do not depend on
    it."""
    ray_address: Annotated[
        Text | None,
        Setting(on_resume="free", difference="shown"),
        Option("The Ray cluster: HOST:PORT, auto or local. Default: auto.", "ADDRESS"),
        Useless(
            lambda config: config.executor != "ray",
            "has no effect on attempts of this machine",
            "add --executor ray",
        ),
    ] = None
    """The Ray cluster: HOST:PORT, `auto` for this machine's, or `local`. Default: `auto`."""
