from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from case_checks import each_case

from harness.benchmarks import definitions
from harness.benchmarks.loading import definition_of
from harness.core.discovery import find_declared
from harness.environments import environment_spec, environment_specs, grader_of, graders
from harness.runs.agents import agents, command

# Prints the modules that a command has imported when it ends.
COMMAND = """
import json, sys
from harness.cli import app
sys.stdout, output = sys.stderr, sys.stdout
try:
    app.main()
except SystemExit:
    print(json.dumps(sorted(sys.modules)), file=output)
"""
# Modules that only other runs need, or that a run needs after its attempts.
HEAVY = frozenset(
    {
        "harness.runs.agents.chat",
        "harness.benchmarks.agentbench",
        "harness.benchmarks.livecodebench",
        "harness.environments.db",
        "harness.environments.web",
        "harness.models.client",
        "harness.models.session",
        "harness.reports.html",
        "harness.reports.run_folder",
        "harness.reports.table",
        "datasets",
        "jinja2",
        "openai",
        "rich.live",
        "yaml",
    }
)


def list_imports(*arguments: str) -> set[str]:
    """Return the modules that a command of harness imports."""
    command = [sys.executable, "-c", COMMAND, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_a_run_imports_only_its_own_benchmark_agent_and_environment(tmp_path: Path) -> None:
    run = ("run", "--data", "bundled", "-n", "1", "--output-dir", str(tmp_path), "--dry-run")
    imported = list_imports(*run, "-b", "humaneval", "--agent", "oracle")
    assert "harness.environments.python" in imported
    assert not imported & HEAVY


def test_the_help_imports_neither_the_engine_nor_a_benchmark() -> None:
    imported = list_imports("--help")
    assert "harness.cli.app" in imported
    assert not imported & {"docker", "pydantic", "asyncio", "harness.benchmarks", "harness.runs.run"}


@each_case("name", sorted(definitions()))
def test_the_module_for_the_name_of_a_benchmark_declares_it(name: str) -> None:
    declared = {each.name for each in find_declared("harness.benchmarks", "BENCHMARKS", name)}
    assert name in declared
    assert definition_of(name) is definitions()[name]


def test_the_module_for_the_name_of_an_agent_declares_it() -> None:
    elsewhere = set()
    for name, agent in agents().items():
        declared = dict(find_declared("harness.runs.agents", "AGENTS", name))
        assert declared.get(name, agent) is agent
        if name not in declared:
            elsewhere.add(name)
    # The module of the agent `command` declares the agents of others that it runs.
    assert elsewhere < {name for name, _ in command.AGENTS}


def test_no_module_is_found_for_an_unknown_name() -> None:
    assert find_declared("harness.runs.agents", "AGENTS", "nobody-at-all") == ()


def test_every_environment_has_the_name_of_its_folder() -> None:
    for name, spec in environment_specs().items():
        assert environment_spec(name) is spec


def test_the_grader_of_a_target_does_not_depend_on_what_is_imported() -> None:
    for kind, grader in graders().items():
        target: object = object.__new__(kind)
        assert grader_of(target) is grader
