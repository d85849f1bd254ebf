"""The runs that a service cannot grade are refused before a connection is made."""

from __future__ import annotations

from typing import Any

import pytest
from case_checks import each_case

from harness.client import connect
from harness.client.remote import refuse_unsupported
from harness.core.errors import UsageError
from harness.reports.remarks import list_conditions
from harness.runs.config import RunConfig
from harness.runs.grading_service import SERVICE
from harness.runs.manifest import list_differences
from harness.runs.selection import Selection, select

# No service is there, so a refusal that needed one would be another error.
REMOTE = connect("http://127.0.0.1:1/token")


def make_selection(**settings: Any) -> Selection:
    config = RunConfig(**{"benchmark": "mbpp", "data": "bundled", **settings})
    return select(config, notify=lambda _note: None)


@each_case(
    "settings",
    [
        {"executor": "ray"},
        {"ray_address": "auto"},
        {"runtime": "runsc"},
        {"isolation": "attempt"},
        {"limits": {"memory_mb": 64}},
        {"max_sandboxes": 1},
    ],
    ids=lambda settings: next(iter(settings)),
)
async def test_a_setting_of_the_service_is_refused(settings: dict[str, Any]) -> None:
    name = next(iter(settings))
    with pytest.raises(UsageError, match=f"{name} has no effect on a run at a service"):
        await REMOTE.run("mbpp", data="bundled", agent="oracle", **settings)


async def test_a_run_needs_a_benchmark_or_a_run_to_resume() -> None:
    with pytest.raises(UsageError, match="needs a benchmark, or a run to resume"):
        await REMOTE.run()


def test_an_agent_with_a_sandbox_is_refused_by_name() -> None:
    selection = make_selection(agent="command", command={"cmd": "true"})
    with pytest.raises(UsageError, match="agent 'command' needs a sandbox"):
        refuse_unsupported(selection)


def test_a_benchmark_in_which_agents_act_is_refused_by_name() -> None:
    selection = make_selection(benchmark="agentbench", agent="oracle", filter_category=["os"])
    with pytest.raises(UsageError, match="agentbench has tasks in the environment 'os'"):
        refuse_unsupported(selection)


def test_servers_of_tools_are_refused() -> None:
    servers = [{"name": "files", "command": "true"}]
    selection = make_selection(agent="chat", model="m", base_url="http://127.0.0.1:1/v1", mcp_servers=servers)
    with pytest.raises(UsageError, match="mcp_servers"):
        refuse_unsupported(selection)


def test_a_timeout_that_leaves_no_time_for_the_queue_is_refused() -> None:
    with pytest.raises(UsageError, match="timeout_seconds may be at most 300 at a service, not 400"):
        refuse_unsupported(make_selection(agent="oracle", timeout_seconds=400))


def test_a_run_with_text_alone_is_not_refused() -> None:
    refuse_unsupported(make_selection(agent="oracle", n_samples=2))


def test_reports_name_the_service() -> None:
    assert list(list_conditions({SERVICE: {"harness_version": "1.2.3"}})) == [
        ("graded by", "a service with harness 1.2.3")
    ]


def test_a_comparison_names_the_service() -> None:
    base: dict[str, Any] = {"data": {"sha256": "0"}, "config": {}}
    graded = {**base, SERVICE: {"harness_version": "1.2.3"}}
    (difference,) = list_differences([base], [graded])
    assert (difference.name, difference.is_unfair) == ("service.harness_version", False)
