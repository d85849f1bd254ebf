"""tau2-bench (Barres et al. 2025, arXiv 2506.07982): an agent serves a user whom a model plays."""

from __future__ import annotations

import hashlib
import tomllib
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError, field_validator

from harness.benchmarks.benchmark import Benchmark, Definition, TaskResult
from harness.benchmarks.data.rows import Row, parse_data
from harness.benchmarks.data.splits import Split
from harness.benchmarks.data.tree import MAX_BYTES, Tree, read_tree
from harness.benchmarks.options import NO_EFFECT, Options, validate_options
from harness.core.errors import DataError, UsageError, unknown_name
from harness.core.scoring.answers import drop_thoughts
from harness.core.scoring.metrics import mean_pass_hat_k
from harness.core.types import Reference, Submission, Task
from harness.environments.base import Environment
from harness.environments.tau2.conversation import (
    DOMAINS,
    GREETING,
    Basis,
    Check,
    DomainName,
    ServiceTask,
    describe_user_tools,
    load_domain,
)
from harness.environments.tau2.environment import ServiceDesk, find_contradiction, passes_untouched, solve
from harness.environments.tau2.world import Call, Requestor
from harness.models.endpoint import Endpoint

# The largest k of pass^k that a run reports.
_MOST_K = 8
_PROMPT = """\
You are a customer service agent. Help the user by the policy below.

Talk to the user with the tool `respond`. Its first call opens the conversation: the user already has \
{opening} and you get the answer. Use the other tools to look things up and to change them. The conversation \
ends when the user ends it. `submit` ends it from your side, and its text does not count.

<policy>
{policy}
</policy>
"""
_GUIDELINES = """\
You play a customer who talks to a customer service agent. Write one message at a time, as a customer would.
Follow the scenario below, in your own words. Tell a fact when the agent needs it, and never all at once. \
Never invent a fact that the scenario does not have: you do not know it.
When your request is done, write ###STOP### to end the conversation. When the agent transfers you to \
somebody else, write ###TRANSFER###. When the scenario does not say enough to go on, \
write ###OUT-OF-SCOPE###."""
_TEXTS = (".md", ".txt")
_STEMS = ("policy", "main_policy", "tech_support_manual")
_SIMULATORS = ("simulation_guidelines", "simulation_guidelines_tools")


@dataclass(frozen=True, slots=True)
class _Files:
    """The parts of a domain that all its tasks share."""

    domain: DomainName
    database: Mapping[str, Any]
    policy: str
    guidelines: str
    """The instructions to the model that plays the user, with its tools."""


class _GivenCall(BaseModel):
    requestor: Requestor = "assistant"
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    compare_args: list[str] | None = None


class _GivenFunction(BaseModel):
    env_type: Requestor = "assistant"
    func_name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    assert_value: bool = True


class _GivenMessage(BaseModel):
    role: str
    content: str | None = None
    tool_calls: list[_GivenCall] | None = None


class _Criteria(BaseModel):
    actions: list[_GivenCall] | None = None
    env_assertions: list[_GivenFunction] | None = None
    communicate_info: list[str] | None = None
    nl_assertions: list[str] | None = None
    reward_basis: list[Basis] = ["DB", "COMMUNICATE"]


class _InitialData(BaseModel):
    agent_data: dict[str, Any] | None = None
    user_data: dict[str, Any] | None = None


class _InitialState(BaseModel):
    initialization_data: _InitialData | None = None
    initialization_actions: list[_GivenFunction] | None = None
    message_history: list[_GivenMessage] | None = None


class _Scenario(BaseModel):
    persona: str | None = None
    instructions: str | dict[str, str | None]


class _GivenTask(BaseModel):
    id: str
    user_scenario: _Scenario
    initial_state: _InitialState | None = None
    evaluation_criteria: _Criteria | None = None


class Tau2Options(Options):
    """The options of tau2."""

    # The domain whose tasks are read: airline, retail, telecom or mock. None reads the first three, and mock
    # if the data have none of them.
    domain: DomainName | None = None
    # The model that plays the user: the name of an endpoint of the config, or an endpoint such as
    # {model: NAME, base_url: URL, api_key_env: VARIABLE}.
    # A run lists its effect with the endpoint of the judge.
    user: Annotated[str | Endpoint | None, NO_EFFECT] = None

    @field_validator("user", mode="before")
    @classmethod
    def _read_endpoint(cls, user: Any) -> Any:
        """Read an endpoint here, because the error about a union of types would name neither.

        Raises UsageError for an unknown key without its value, because the value may be a secret.
        """
        for name in user if isinstance(user, dict) else ():
            if name not in Endpoint.model_fields:
                raise unknown_name("key of user", str(name), Endpoint.model_fields)
        return Endpoint.model_validate(user) if isinstance(user, dict) else user


def gather(
    path: Path, notify: Callable[[str], None], domain: DomainName | None = None
) -> tuple[list[Row], str]:
    """Return the rows of the split `base` in a folder or archive of tau2's layout, and their SHA-256.

    Raises DataError.
    """
    tree = read_tree(path, lambda name: _split_name(path, name) is not None)
    found: dict[str, dict[str, str]] = {}
    for name in tree.contents:
        folder, file = _split_name(path, name) or ("", "")
        found.setdefault(folder, {})[file] = name
    present = [each for each in DOMAINS if "tasks.json" in found.get(each, {})]
    chosen = [each for each in present if each == domain or (domain is None and each != "mock")]
    chosen = chosen or [each for each in present if each == domain or domain is None]
    if not chosen:
        raise DataError(
            f"has no tasks of {domain or 'a domain of tau2'}",
            path=path,
            hint="a domain is a folder such as domains/airline with tasks.json, db.json and policy.md",
        )
    digest = hashlib.sha256()
    rows: list[Row] = []
    for each in chosen:
        rows += _read_domain(each, tree, found[each], found.get("user_simulator", {}), digest.update)
    return rows, digest.hexdigest()


def _split_name(root: Path, name: str) -> tuple[str, str] | None:
    """Return the folder of a file, and its name without `.gz`, for a file that is read, else None."""
    path = PurePosixPath(name.removesuffix(".gz"))
    folder = path.parent.name or root.name
    data = ("tasks.json", "split_tasks.json", "db.json", "db.toml", "user_db.json", "user_db.toml")
    if folder in DOMAINS and (path.name in data or (path.stem in _STEMS and path.suffix in _TEXTS)):
        return folder, path.name
    if folder == "user_simulator" and path.stem in _SIMULATORS and path.suffix in _TEXTS:
        return folder, path.name
    return None


def _read_domain(
    domain: DomainName,
    tree: Tree,
    names: Mapping[str, str],
    simulator: Mapping[str, str],
    note: Callable[[bytes], None],
) -> Iterator[Row]:
    def read(file: str, among: Mapping[str, str] = names) -> bytes | None:
        name = among.get(file)
        if name is None:
            return None
        content = tree.contents[name]
        if name.endswith(".gz"):
            content = _unpack(content, tree.places[name])
        note(content)
        return content

    def read_text(stem: str, among: Mapping[str, str] = names) -> str | None:
        content = next((found for end in _TEXTS if (found := read(stem + end, among)) is not None), None)
        return None if content is None else content.decode("utf-8", "replace").strip()

    def read_data(stem: str) -> Any:
        place = tree.places.get(
            names.get(f"{stem}.json") or names.get(f"{stem}.toml") or "", PurePath(domain)
        )
        try:
            if (content := read(f"{stem}.json")) is not None:
                return parse_data(content)
            content = read(f"{stem}.toml")
            return None if content is None else tomllib.loads(content.decode())
        except ValueError as error:
            raise DataError(f"cannot be read: {error}", path=place) from error

    database, policy, tasks = read_data("db"), _join_policy(read_text), read_data("tasks")
    own, splits = read_data("user_db") or {}, read_data("split_tasks") or {}
    place = tree.places[names["tasks.json"]]
    objects = (database, own, splits)
    if policy is None or not isinstance(tasks, list) or not all(isinstance(each, dict) for each in objects):
        raise DataError(
            "needs a list of tasks, and beside it a policy and objects in db.json or db.toml", path=place
        )
    functions = load_domain(domain)
    guidelines = read_text(_SIMULATORS[bool(functions.user_tools)], simulator) or _GUIDELINES
    guidelines += describe_user_tools(functions)
    shared = _Files(domain, {**database, **own}, policy, guidelines)
    for item, values in enumerate(tasks, 1):
        task_id = values.get("id") if isinstance(values, dict) else None
        held = [name for name, ids in splits.items() if isinstance(ids, list) and task_id in ids]
        if isinstance(values, dict) and ("base" in held or "base" not in splits):
            yield Row({**values, "shared": shared, "splits": held}, str(place), item=item)


def _unpack(content: bytes, place: PurePath) -> bytes:
    try:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        found = unpacker.decompress(content, MAX_BYTES)
    except zlib.error as error:
        raise DataError(f"broken gzip data: {error}", path=place) from error
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise DataError(f"is cut short, or holds more than {MAX_BYTES:,} bytes", path=place)
    return found


def _join_policy(read_text: Callable[[str], str | None]) -> str | None:
    """Return the policy of a domain. The policy of telecom has a manual beside it."""
    main, manual = read_text("main_policy"), read_text("tech_support_manual")
    if main is None or manual is None:
        return read_text("policy")
    return f"<main_policy>\n{main}\n</main_policy>\n<tech_support_policy>\n{manual}\n</tech_support_policy>"


def read(row: Row) -> tuple[Task, Reference]:
    """Return the task and the reference of a row: a task as published, with the files of its domain."""
    shared: _Files = row.value("shared")
    try:
        given = _GivenTask.model_validate({name: row.values[name] for name in row.values})
    except ValidationError as error:
        first = error.errors()[0]
        raise row.error(first["msg"], field=".".join(map(str, first["loc"]))) from error
    criteria, initial = given.evaluation_criteria or _Criteria(), given.initial_state or _InitialState()
    messages = initial.message_history or []
    history = tuple(
        (_author(row, each.role), each.content) for each in messages if each.role != "tool" and each.content
    )
    setup = [
        Call(each.env_type, each.func_name, each.arguments) for each in initial.initialization_actions or ()
    ]
    setup += [
        Call(_author(row, message.role), call.name, call.arguments)
        for message in messages
        for call in message.tool_calls or ()
    ]
    data = initial.initialization_data or _InitialData()
    database = _merge(_merge(shared.database, data.agent_data or {}), data.user_data or {})
    target = ServiceTask(
        domain=shared.domain,
        database=database,
        setup=tuple(setup),
        history=history,
        user_prompt=_write_user_prompt(shared, given.user_scenario),
        actions=tuple(
            Call(
                each.requestor,
                each.name,
                each.arguments,
                None if each.compare_args is None else tuple(each.compare_args),
            )
            for each in criteria.actions or ()
        ),
        checks=tuple(
            Check(each.func_name, each.arguments, each.assert_value) for each in criteria.env_assertions or ()
        ),
        communicate=tuple(criteria.communicate_info or ()),
        assertions=tuple(criteria.nl_assertions or ()),
        basis=tuple(criteria.reward_basis),
    )
    target = replace(target, needs_nothing=passes_untouched(target))
    task_id = f"{shared.domain}/{given.id}"
    expected = "; ".join([*(each.name for each in target.actions), *target.communicate]) or "no change"
    task = Task(task_id, "tau2", "tau2", _write_prompt(shared.policy, history), category=shared.domain)
    return task, Reference(task_id, "done", target, expected)


def _author(row: Row, role: str) -> Requestor:
    if role not in ("assistant", "user"):
        raise row.error(f"'{role[:50]}' is not the role of an author", field="message_history")
    return "assistant" if role == "assistant" else "user"


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a mapping with changes in it, or the same object without any. Parts that are mappings merge."""
    merged = {
        name: _merge(base[name], value) if isinstance(value, Mapping) and name in base else value
        for name, value in changes.items()
    }
    return {**base, **merged} if merged else base


def _write_prompt(policy: str, history: tuple[tuple[Requestor, str], ...]) -> str:
    if not history:
        return _PROMPT.format(opening=f'your message "{GREETING}"', policy=policy)
    earlier = "\n".join(f"{'you' if author == 'assistant' else 'user'}: {text}" for author, text in history)
    prompt = _PROMPT.format(opening="the last message below", policy=policy)
    return f"{prompt}\nThe conversation so far:\n{earlier}\n"


def _write_user_prompt(shared: _Files, scenario: _Scenario) -> str:
    given = scenario.instructions
    parts = {"persona": scenario.persona, **({"instructions": given} if isinstance(given, str) else given)}
    lines = [f"{name.replace('_', ' ').capitalize()}: {text.strip()}" for name, text in parts.items() if text]
    return f"{shared.guidelines}\n\n<scenario>\n" + "\n".join(lines) + "\n</scenario>"


def submit(task: Task, field: str, text: str) -> Submission:
    """Return the submission. Its text does not count, because the conversation is graded."""
    return Submission(drop_thoughts(text).strip() if field == "reply" else text, agent_output=text)


async def play(task: Task, reference: Reference, environment: Environment) -> Submission:
    """Replay the reference in the environment and return the submission. Raises SandboxError."""
    if not isinstance(environment, ServiceDesk) or not isinstance(reference.target, ServiceTask):
        raise UsageError(f"{task.id} is not a conversation of tau2")
    await solve(environment, reference.target)
    if environment.submitted is None:
        await environment.submit(reference.solution)
    return Submission(reference.solution, agent_output=reference.solution)


def _why_unsound(reference: Reference) -> str | None:
    return find_contradiction(reference.target) if isinstance(reference.target, ServiceTask) else None


def scores(benchmark: Benchmark, results: Mapping[str, TaskResult]) -> Mapping[str, Any]:
    """Return pass^k for each k that all tasks have, and the score of an agent that does nothing."""
    if not results:
        return {}
    counts = [(each.judged, each.passed) for each in results.values()]
    figures = {
        f"pass^{k}": value for k in range(1, _MOST_K + 1) if (value := mean_pass_hat_k(counts, k)) is not None
    }
    targets = {task_id: benchmark.references[task_id].target for task_id in results}
    untouched = [
        task_id
        for task_id, target in targets.items()
        if isinstance(target, ServiceTask) and target.needs_nothing
    ]
    figures["an agent that does nothing"] = len(untouched) / len(results)
    return {"figures": figures, "passed_untouched": untouched}


def _configure(definition: Definition, values: Mapping[str, Any]) -> Definition:
    options = validate_options(Tau2Options, values, definition.name)
    return replace(definition, gather=partial(gather, domain=options.domain), judge=options.user)


def _in_split(name: str, tasks: int) -> Split:
    return Split(None, tasks, holds=lambda row: name in row.texts("splits"))


BENCHMARKS = (
    Definition(
        name="tau2",
        description="serve a user at the desk of an airline, a shop or a carrier",
        environments=("tau2",),
        tasks=278,
        licence="MIT",
        split="base",
        splits={"train": _in_split("train", 178), "test": _in_split("test", 100)},
        names_tell_splits=False,
        formats=("a folder or archive of upstream's layout",),
        hub=None,
        bundled="tau2",
        read=read,
        submit=submit,
        reply_rule="the whole reply, which does not count",
        play=play,
        categories=DOMAINS,
        gather=gather,
        why_unsound=_why_unsound,
        scores=scores,
        options=Tau2Options,
        configure=_configure,
        judge_hint="name the model that plays the user with --option user=NAME, where NAME is in the "
        "`endpoints` of the config; the agents oracle and null need none",
    ),
)
