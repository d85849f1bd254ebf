"""`harness init`: every example is valid, as it is and with all that its comments show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from case_checks import each_case

from harness.benchmarks import definitions
from harness.core.errors import UsageError
from harness.core.inputs.yaml_text import parse_yaml
from harness.environments import environment_spec
from harness.runs.agents import agents
from harness.runs.config import RunConfig, read_config
from harness.runs.config_guide import write_example_config
from harness.runs.unread import list_unread

AGENTS = sorted(agents())


def read(tmp_path: Path, text: str) -> RunConfig:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    found = read_config(path, {})
    assert found.problems == []
    assert found.config is not None
    return found.config


def uncomment(text: str) -> str:
    """Return the example with every key that stands in a comment."""
    return re.sub(r"^#(?! )|^#(?=  )(?!  \w+ \w)", "", text, flags=re.MULTILINE)


@each_case("agent", AGENTS)
@each_case("benchmark", ["mbpp", "agentbench", "gsm8k", "livecodebench"])
def test_an_example_sets_nothing_that_is_refused(tmp_path: Path, benchmark: str, agent: str) -> None:
    definition = definitions()[benchmark]
    text = write_example_config(definition, agent, benchmark=benchmark)
    specs = [environment_spec(name) for name in definition.environments]
    needs_image = any(spec.image is not None for spec in specs)
    for each in (text, uncomment(text)):
        config = read(tmp_path, each)
        assert (config.benchmark, config.agent) == (benchmark, agent)
        unread = list_unread(config, agents()[agent], definition, specs, [], needs_image=needs_image)
        assert [setting.key for setting in unread] == []


def test_the_comments_show_further_keys() -> None:
    text = write_example_config(definitions()["agentbench"], "chat", benchmark="agentbench")
    active, whole = parse_yaml(text), parse_yaml(uncomment(text))
    assert {"benchmark", "agent", "model", "sample_size"} <= active.keys() < whole.keys()
    assert {
        "filter_category",
        "options",
        "rounds",
        "agent_prompt",
        "mcp_servers",
    } <= whole.keys() - active.keys()


@each_case("benchmark", sorted(definitions()))
def test_options_of_an_example_are_taken_by_the_benchmark(benchmark: str) -> None:
    definition = definitions()[benchmark]
    whole = parse_yaml(uncomment(write_example_config(definition, "oracle", benchmark=benchmark)))
    definition.with_options(whole.get("options", {}))


def test_an_unknown_agent_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown agent 'oracel'"):
        write_example_config(definitions()["mbpp"], "oracel", benchmark="mbpp")
