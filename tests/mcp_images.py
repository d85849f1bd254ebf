"""The images of the tests that run MCP servers in a sandbox: a layer with the servers and the package mcp."""

from __future__ import annotations

import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest
from docker import APIClient
from packaging.requirements import Requirement

from harness.sandbox.machine.agent_images import build_agent_images, read_agent_source

SERVERS = Path(__file__).parent / "mcp_servers"
NAME = "test-mcp-servers"
FOLDER = f"/opt/agents/{NAME}"
# The Python of the images, for which the compiled files of packages are made.
PYTHON_OF_IMAGES = (3, 11)


def build_server_images(client: APIClient, folder: Path) -> str:
    """Return the name of a prepared agent with the servers of these tests, and with the package mcp.

    It is built from the packages that the tests run with, so that no registry is needed. `folder` is empty.
    """
    if sys.version_info[:2] != PYTHON_OF_IMAGES:
        pytest.skip("the installed package mcp is compiled for another Python than that of the images")
    copy_package("mcp", folder / "lib", set())
    for server in SERVERS.glob("*.py"):
        shutil.copy(server, folder / server.name)
    build_agent_images(client, read_agent_source(NAME, folder), ("os", "python"), notify=print)
    return NAME


def copy_package(name: str, target: Path, copied: set[str], extras: frozenset[str] = frozenset()) -> None:
    """Copy an installed package and all packages that it requires, also those of its `extras`."""
    key = f"{name}[{','.join(sorted(extras))}]"
    if key in copied:
        return
    copied.add(key)
    package = metadata.distribution(name)
    for file in package.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.locate(), target / file)
    for text in package.requires or ():
        required = Requirement(text)
        wanted = [{"extra": extra} for extra in ("", *extras)]
        if required.marker is None or any(required.marker.evaluate(each) for each in wanted):
            copy_package(required.name.lower(), target, copied, frozenset(required.extras))
