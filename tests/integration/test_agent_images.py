"""Images with a prepared agent, on a real engine: they differ from others in the agent's folder alone."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import APIClient

from harness.core.errors import ImageMissingError, UsageError
from harness.sandbox.backends.docker.engine import connect
from harness.sandbox.backends.docker.images import require_build
from harness.sandbox.machine.agent_images import AgentSource, build_agent_images, read_agent_source
from harness.sandbox.machine.images import list_images
from harness.sandbox.sandbox import Sandbox

# It replaces the Python of PID 1, its modules and its settings, and leaves a file that raises privileges.
HOSTILE = """\
ARG BASE
FROM ${BASE}
RUN mkdir -p /opt/agents/NAME/bin && cd /opt/agents/NAME/bin \\
 && printf '#!/bin/sh\\necho prepared\\n' > tool && chmod 4777 tool \\
 && echo 'raise SystemExit("replaced")' > /usr/lib/python3.11/json/__init__.py \\
 && echo 'raise SystemExit("replaced")' > /opt/harness/harness/sandbox/guest/main.py \\
 && touch /etc/ld.so.preload /planted && rm /usr/bin/python3
ENV PYTHONPATH=/opt/agents LD_PRELOAD=/planted
USER nobody
ENTRYPOINT ["/bin/false"]
"""


@pytest.fixture(scope="module")
def client() -> Iterator[APIClient]:
    client = connect()
    yield client
    client.close()


@pytest.fixture
def name(client: APIClient) -> Iterator[str]:
    """Yield the name of an agent that no other test has, and remove its images."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    for image in list_images(client):
        if image.name.endswith(f"+{name}"):
            client.remove_image(image.tag or image.id)


def write_agent(folder: Path, text: str) -> Path:
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    tool = folder / "bin" / "tool"
    tool.write_text(f"#!/bin/sh\necho {text}\n")
    tool.chmod(0o777)
    return folder


async def test_a_prepared_agent_is_read_only_for_the_agents_user(
    client: APIClient, name: str, tmp_path: Path
) -> None:
    build_agent_images(
        client, read_agent_source(name, write_agent(tmp_path, "hello")), ("python",), notify=print
    )
    async with Sandbox.open(f"python+{name}") as sandbox:
        tool = f"/opt/agents/{name}/bin/tool"
        script = f"{tool}; echo x >> {tool}; rm -f {tool}; touch /opt/agents/{name}/x; stat -c '%u %a' {tool}"
        result = await sandbox.exec(["sh", "-c", script])
    assert str(result.stdout) == "hello\n0 755\n"


def test_images_are_built_again_only_if_the_files_have_changed(
    client: APIClient, name: str, tmp_path: Path
) -> None:
    source = read_agent_source(name, write_agent(tmp_path, "one"))
    (first,) = build_agent_images(client, source, ("python",), notify=print)
    notes: list[str] = []
    (same,) = build_agent_images(client, source, ("python",), notify=notes.append)
    assert (same, notes) == (first, [])
    write_agent(tmp_path, "two")
    (changed,) = build_agent_images(client, source, ("python",), notify=print)
    assert (changed.tag, changed.id != first.id, changed.sources != first.sources) == (first.tag, True, True)
    listed = [image for image in list_images(client) if image.name == f"python+{name}"]
    assert [(image.id, image.current) for image in listed if image.current] == [(changed.id, True)]


async def test_packages_are_not_installed_again_for_another_base(client: APIClient, name: str) -> None:
    installed: list[Path] = []

    def install(folder: Path) -> None:
        installed.append(write_agent(folder, "installed"))

    source = AgentSource(name, recipe=(install, f"recipe of {name}"))
    build_agent_images(client, source, ("python",), notify=print)
    build_agent_images(client, source, ("os",), notify=print)
    assert len(installed) == 1
    async with Sandbox.open(f"os+{name}") as sandbox:
        result = await sandbox.exec([f"/opt/agents/{name}/bin/tool"])
    assert str(result.stdout) == "installed\n"
    build_agent_images(client, source, ("python",), notify=print, force=True)
    assert len(installed) == 2


def test_an_agent_without_a_program_on_the_path_is_built_with_a_warning(
    client: APIClient, name: str, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text("print(1)\n")
    notes: list[str] = []
    build_agent_images(client, read_agent_source(name, tmp_path), ("python",), notify=notes.append)
    (warning,) = (note for note in notes if note.startswith("warning: "))
    assert f"no executable file in /opt/agents/{name}/bin" in warning


async def test_a_dockerfile_adds_its_agent_and_replaces_nothing(
    client: APIClient, name: str, tmp_path: Path
) -> None:
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text(HOSTILE.replace("NAME", name))
    build_agent_images(client, read_agent_source(name, dockerfile), ("python",), notify=print)
    environment = client.inspect_image(require_build(client, "python").id)  # type: ignore[no-untyped-call]
    prepared = client.inspect_image(require_build(client, f"python+{name}").id)  # type: ignore[no-untyped-call]
    for setting in ("Env", "User", "Entrypoint", "Cmd"):
        assert prepared["Config"].get(setting) == environment["Config"].get(setting)
    # One layer more, and none of the others has changed.
    assert prepared["RootFS"]["Layers"][:-1] == environment["RootFS"]["Layers"]
    async with Sandbox.open(f"python+{name}") as sandbox:
        tool = f"/opt/agents/{name}/bin/tool"
        script = f"{tool}; stat -c %a {tool}; ls /planted; python3 -c 'import json; print(json.dumps(1))'"
        result = await sandbox.exec(["sh", "-c", script])
    assert str(result.stdout) == "prepared\n755\n1\n"


def test_a_dockerfile_without_the_agents_folder_is_refused(
    client: APIClient, name: str, tmp_path: Path
) -> None:
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("ARG BASE\nFROM ${BASE}\n")
    with pytest.raises(UsageError, match=f"makes no folder /opt/agents/{name}"):
        build_agent_images(client, read_agent_source(name, dockerfile), ("python",), notify=print)


def test_an_agent_that_is_not_prepared_is_an_error_that_names_the_command(
    client: APIClient, name: str
) -> None:
    with pytest.raises(ImageMissingError) as caught:
        require_build(client, f"python+{name}")
    assert f"harness images build --agent {name}" in str(caught.value.hint)
