"""The trust in a run folder: what its config would run or contact, and the refusal of an unknown folder."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.benchmarks.loading import definition_of
from harness.benchmarks.options import drop_option_effects, list_option_effects
from harness.core.discovery import names_python_file
from harness.core.errors import UsageError
from harness.core.lock import home_folder
from harness.core.text import escape_terminal, quote_argument
from harness.environments import environment_spec
from harness.environments.workspace import WORKSPACE_LIMITS
from harness.models.endpoint import Endpoint
from harness.models.relay.mcp_servers.settings import McpServer
from harness.models.settings import choose_endpoint
from harness.runs.agents.agent import is_built_in
from harness.runs.model_access import find_judge
from harness.runs.settings import KEYS, RunConfig
from harness.sandbox.limits import Limits

# The key of a signature in a manifest.
SIGNATURE = "signature"
LIMITS = "limits"
_SECRET_BYTES = 32
# An effect is shown whole, because its end could be the part that matters.
_SHOWN = 20_000


def find_secret_file() -> Path | None:
    """Return the file of the user's secret, which may not exist yet. None if the user has no home folder."""
    base = os.environ.get("XDG_STATE_HOME")
    try:
        state = Path(base) if base else home_folder("XDG_STATE_HOME") / ".local" / "state"
    except UsageError:
        return None
    return state / "harness" / "signing-secret"


def sign_run(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest with the signature of its run id and its config.

    It has none if the secret can neither be read nor be written, and the run is then unknown later.
    """
    unsigned = {name: value for name, value in manifest.items() if name != SIGNATURE}
    signature = sign(_describe(unsigned))
    return unsigned if signature is None else {**unsigned, SIGNATURE: signature}


def is_signed(manifest: Mapping[str, Any]) -> bool:
    """Return whether this user started the run of a manifest, with the config that it holds."""
    return is_signature(manifest.get(SIGNATURE), _describe(manifest))


def describe_resume(folder: Path, manifest: Mapping[str, Any]) -> str:
    """Return the command that resumes a run, for a hint. A folder of somebody else needs --trust."""
    command = f"harness run --resume {quote_argument(folder)}"
    return command if is_signed(manifest) else f"{command} --trust, if you accept what its settings do"


def sign(value: Any) -> str | None:
    """Return the signature of a value of JSON, None if the secret can neither be read nor be written."""
    secret = _read_secret() or _create_secret()
    return None if secret is None else _compute(secret, value)


def is_signature(signature: Any, value: Any) -> bool:
    """Return whether `signature` is that of a value of JSON with the secret of this user."""
    secret = _read_secret()
    if secret is None or not isinstance(signature, str):
        return False
    return hmac.compare_digest(signature.encode("utf-8", "replace"), _compute(secret, value).encode())


def explain_unknown() -> str:
    """Return the reason why a run without a valid signature is unknown, as a part of a sentence."""
    path = find_secret_file()
    if path is None:
        return "you have no home folder, so nothing shows which runs you started"
    if _read_secret() is not None:
        return "nothing shows that you started it on this machine"
    problem = "cannot be used" if os.path.lexists(path) else "does not exist"
    return f"{path}, which would show that you started it on this machine, {problem}"


def _describe(manifest: Mapping[str, Any]) -> Any:
    return ["run", manifest.get("run_id"), manifest.get("source"), manifest.get("config")]


def _compute(secret: bytes, value: Any) -> str:
    # A manifest that was read back has other types than one that was not written yet.
    written = json.loads(json.dumps(value))
    text = json.dumps(written, sort_keys=True, separators=(",", ":"))
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()


def _read_secret() -> bytes | None:
    """Return the secret, None if there is none, or if another user may have read or written it."""
    path = find_secret_file()
    if path is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        is_private = status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
        if not stat.S_ISREG(status.st_mode) or not is_private:
            return None
        secret = os.read(descriptor, _SECRET_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return secret if len(secret) == _SECRET_BYTES else None


def _create_secret() -> bytes | None:
    """Write a new secret, unless another process has just done so. Return the one in the file."""
    path = find_secret_file()
    if path is None:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".signing-secret-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_SECRET_BYTES))
                file.flush()
                os.fsync(file.fileno())
            # Unlike a rename, a link never replaces the secret with which another process has signed.
            with contextlib.suppress(FileExistsError):
                os.link(name, path)
        finally:
            os.unlink(name)
    except OSError:
        return None
    return _read_secret()


def require_trust(
    folder: Path,
    manifest: Mapping[str, Any],
    config: RunConfig,
    *,
    is_trusted: bool,
    takes_limits: bool = True,
) -> bool:
    """Return whether the settings of a run folder are the user's own: by its signature, or by `is_trusted`.

    Args:
        folder: the run folder.
        manifest: its manifest.
        config: the config of the run that is made from it.
        is_trusted: whether the user has accepted the folder.
        takes_limits: whether its limits are taken as they are.

    Raises:
        UsageError: for an unknown folder whose settings have an effect outside of sandboxes, with a list of
            these effects.
    """
    if is_trusted or is_signed(manifest):
        return True
    refuse_effects(folder, list_effects(config, takes_limits=takes_limits))
    return False


def require_trusted_file(
    folder: Path, manifest: Mapping[str, Any], config: RunConfig, *, is_trusted: bool
) -> bool:
    """Return whether a folder is the user's own, for a use that loads its benchmark and does nothing else.

    Raises UsageError for an unknown folder whose benchmark is a Python file, or has options with an effect.
    """
    if is_trusted or is_signed(manifest):
        return True
    refuse_effects(folder, list(_list_benchmark(config)))
    return False


def refuse_effects(
    folder: Path, effects: list[str], *, hint: str = "add --trust if you accept all of this"
) -> None:
    """Raise UsageError if there are effects, with all of them."""
    if effects:
        listed = "".join(f"\n- {escape_terminal(effect, _SHOWN)}" for effect in effects)
        raise UsageError(
            f"{folder}: this run is unknown: {explain_unknown()}. Its settings would do this:{listed}",
            hint=hint,
        )


def list_effects(config: RunConfig, *, takes_limits: bool = True) -> list[str]:
    """Return everything that a run of a config does outside of sandboxes, and beyond their default limits.

    Raises UsageError for a config that names an unknown benchmark or an unusable endpoint.
    """
    effects = [*_list_benchmark(config)]
    if not is_built_in(config.agent):
        effects.append(f"run the agent {config.agent} as Python on this machine")
    if config.command.where == "host":
        program = config.command.cmd or f"the program of agent {config.agent}"
        inherited = {name: f"${{{name}}}" for name in config.command.pass_env}
        effects.append(
            f"run on this machine: {program}{_list_variables({**config.command.env, **inherited})}"
        )
    for server in () if config.baseline else config.mcp_servers:
        effects += _list_server(server)
    if config.model is not None:
        endpoint = choose_endpoint(config.model, config.base_url, config.endpoints, config.api)
        effects.append(_describe_endpoint("the model", endpoint))
    if names_python_file(config.benchmark):  # it would have to run before anything else of it is known
        return effects
    definition = definition_of(config.benchmark)
    judge = definition.with_options(drop_option_effects(definition.options, config.options)).judge
    if config.replay_from is None and judge is not None:
        if isinstance(judge, str):
            judge = config.endpoints.get(judge) or find_judge(config, judge)
        effects += [] if judge is None else [_describe_endpoint("the judge", judge)]
    if takes_limits:
        effects += [f"use {name} {value}" for name, value in find_excess(config).items()]
    return effects


def _list_benchmark(config: RunConfig) -> Iterator[str]:
    """Yield the effects of a benchmark and its options, which a use that only loads the data has, too."""
    if names_python_file(config.benchmark):
        yield f"run the benchmark {config.benchmark} as Python on this machine"
    elif config.options:
        yield from list_option_effects(definition_of(config.benchmark).options, config.options)


def _list_server(server: McpServer) -> Iterator[str]:
    name = f"MCP server {server.name}"
    if server.setup_command is not None:
        yield f"run in a shell on this machine, for {name}: {server.setup_command}"
    variables = _list_variables(server.env)
    if server.url is not None:
        yield f"send requests for {name} to {server.url}{_list_headers(server)}"
    elif server.where == "host":
        yield f"run on this machine, as {name}: {' '.join([server.command or '', *server.args])}{variables}"
    elif variables:
        yield f"start {name} in a sandbox{variables}"


def _list_headers(server: McpServer) -> str:
    shown = ", ".join(f"{name}: {value}" for name, value in server.headers.items())
    return f" with the headers {shown}" if shown else ""


def _list_variables(variables: Mapping[str, str]) -> str:
    shown = ", ".join(f"{name}={value}" for name, value in variables.items())
    return f" with the environment variables {shown}" if shown else ""


@dataclass(frozen=True, slots=True)
class Rerun:
    """A run that repeats another one."""

    config: RunConfig
    # Whether the user has started the run, or has accepted its settings.
    is_trusted: bool
    # What the user must know about the config.
    notices: list[str] = field(default_factory=list)


def bound_rerun(folder: Path, manifest: Mapping[str, Any], config: RunConfig, *, is_trusted: bool) -> Rerun:
    """Return a run that repeats another one, without limits of an unknown one beyond the defaults.

    Raises UsageError as `require_trust` does.
    """
    if require_trust(folder, manifest, config, is_trusted=is_trusted, takes_limits=False):
        return Rerun(config, is_trusted=True)
    excess = find_excess(config)
    bounded = drop_excess(config, excess)
    untaken = list_untaken(excess, bounded)
    notices = [f"{describe_untaken(untaken)}; --trust takes them"] if untaken else []
    return Rerun(bounded, is_trusted=False, notices=notices)


def _describe_endpoint(role: str, endpoint: Endpoint) -> str:
    return (
        f"ask {role} {endpoint.model} at {endpoint.base_url} with the key in the environment variable "
        f"{endpoint.api_key_env}"
    )


def find_excess(config: RunConfig, environments: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the settings of a config that let more happen than the defaults of its benchmark's environments.

    The keys are the config's, such as `limits.memory_mb`, `rounds` and `allow_network`. A limit may exceed no
    environment's own, because the config has one value for all of them. `environments` are the benchmark's,
    if it has been loaded.

    Raises UsageError or DataError for a benchmark that cannot be found.
    """
    set_limits = config.limits.model_dump(exclude_unset=True)
    names = definition_of(config.benchmark).environments if environments is None else environments
    specs = [environment_spec(name) for name in names]
    defaults = [WORKSPACE_LIMITS, *(spec.limits for spec in specs if spec.image is not None)]
    excess = {
        f"{LIMITS}.{name}": value
        for name, value in set_limits.items()
        if any(value > getattr(each, name) for each in defaults)
    }
    turns = [spec.turns for spec in specs if spec.turns is not None]
    if config.rounds is not None and turns and config.rounds > min(turns):
        excess["rounds"] = config.rounds
    # The manifest of a run holds the default of its environment. All of them have a small bound.
    longest = max((spec.timeout_seconds for spec in specs), default=None)
    if config.timeout_seconds is not None and longest is not None and config.timeout_seconds > longest:
        excess["timeout_seconds"] = config.timeout_seconds
    if config.isolation == "run":
        # Programs of other tasks could then decide a verdict.
        excess["isolation"] = config.isolation
    default = RunConfig(benchmark=config.benchmark)
    return excess | {
        name: getattr(config, name)
        for name, key in KEYS.items()
        if key.rules.foreign == "refused" and getattr(config, name) != getattr(default, name)
    }


def drop_excess(config: RunConfig, excess: Mapping[str, Any]) -> RunConfig:
    """Return a config with the defaults of its environments for the settings in `excess`."""
    kept = {
        name: value
        for name, value in config.limits.model_dump(exclude_unset=True).items()
        if f"{LIMITS}.{name}" not in excess
    }
    defaults = {
        name: RunConfig.model_fields[name].get_default(call_default_factory=True)
        for name in excess
        if name in RunConfig.model_fields
    }
    return config.model_copy(update={**defaults, LIMITS: Limits.model_validate(kept)})


def list_untaken(excess: Mapping[str, Any], config: RunConfig) -> list[str]:
    """Return the settings in `excess` that a config does not have, each with its recorded value."""
    taken = {
        **{f"{LIMITS}.{name}": value for name, value in config.limits.model_dump(exclude_unset=True).items()},
        **{name: getattr(config, name) for name in excess if name in RunConfig.model_fields},
    }
    return [f"{name} {value}" for name, value in excess.items() if taken.get(name) != value]


def describe_untaken(untaken: list[str]) -> str:
    """Return the notice about settings that were not taken from an unknown run."""
    return (
        "nothing shows that you started the recorded run on this machine, so these of its settings are not "
        f"taken, and results may differ: {', '.join(untaken)}"
    )
