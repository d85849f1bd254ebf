"""The sandboxes where the programs of agents and servers run: their images, and what they share."""

from __future__ import annotations

from typing import Any

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.environments import environment_spec
from harness.models.relay.mcp_servers.settings import McpServer
from harness.runs.agents.agent import WorkspaceNeeds
from harness.runs.workspaces import WORKSPACE, Workspaces, add_workspace_limits
from harness.sandbox.limits import Limits

OS, PYTHON = environment_spec("os"), environment_spec("python")


def server(name: str = "files", **changes: Any) -> McpServer:
    return McpServer.model_validate({"name": name, "command": "x", "where": "sandbox", **changes})


@each_case(
    ("servers", "environment", "images"),
    [
        ([server(image="files")], OS, {"os+files"}),
        ([server(image="files")], PYTHON, {"python+files"}),
        ([server(image="files", machine="own")], OS, {"python+files"}),
        ([server("a"), server("b", image="files")], OS, {"os+files"}),
        ([server("a"), server("b", image="files")], PYTHON, {"python", "python+files"}),
        ([McpServer(name="host", command="x")], OS, set()),
    ],
)
def test_the_images_of_servers_follow_their_places(
    servers: list[McpServer], environment: Any, images: set[str]
) -> None:
    assert Workspaces(None, tuple(servers), environment).list_images() == images


def test_a_baseline_has_the_same_machine_and_no_sandbox_for_a_server_alone() -> None:
    servers = (server("a", image="files"), server("b", machine="own"))
    whole = Workspaces(None, servers, OS)
    baseline = whole.without_servers_apart()
    assert whole.list_images() == {"os+files", "python"}
    assert baseline.list_images() == {"os+files"}
    settings = baseline.environment_settings({})
    assert settings == whole.environment_settings({})
    assert settings is not None
    assert (settings.image, settings.relay) == ("os+files", True)


def test_servers_apart_leave_the_machine_of_the_task_as_it_is() -> None:
    assert Workspaces(None, (server(machine="own"),), OS).environment_settings({}) is None


def test_two_images_in_one_machine_are_refused() -> None:
    needs = WorkspaceNeeds("tiny", relays=True)
    with pytest.raises(UsageError, match=r"mcp_servers.files needs image 'files', and the agent needs image"):
        Workspaces(needs, (server(image="files"),), OS).find_layer()
    with pytest.raises(
        UsageError, match=r"mcp_servers.a needs image 'one', and mcp_servers.b needs image 'two'"
    ):
        Workspaces(None, (server("a", image="one"), server("b", image="two")), OS).find_layer()
    assert Workspaces(needs, (server(image="tiny"),), OS).find_layer() == "tiny"
    assert Workspaces(needs, (server(image="files", machine="own"),), OS).find_layer() == "tiny"


def test_limits_apply_to_sandboxes_of_servers() -> None:
    alone = [Workspaces(None, (server(),), PYTHON)]
    limits = add_workspace_limits({}, alone, Limits.model_validate({"memory_mb": 512}))
    assert limits[WORKSPACE].memory_mb == 512
    assert add_workspace_limits({}, [Workspaces(None, (server(),), OS)], Limits()) == {}
