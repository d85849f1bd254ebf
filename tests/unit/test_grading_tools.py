"""The image with the tools that a script of tests installs for itself."""

from __future__ import annotations

from harness.environments.container.images import write_dockerfile

UVX = """#!/bin/bash
apt-get update
apt-get install -y curl git-core
curl -LsSf https://astral.sh/uv/0.9.7/install.sh | sh
source $HOME/.local/bin/env
uvx \\
  --with pytest==8.4.1 \\
  -p 3.13 --with pytest-json-ctrf==0.3.5 \\
  pytest --ctrf /logs/verifier/ctrf.json /tests/test_dns.py -rA
"""
ADD = "uv init\nuv add pytest==8.4.1 numpy\nuv run pytest $TEST_DIR/test_outputs.py -rA"


def test_each_tool_of_a_script_is_installed_once() -> None:
    lines = (write_dockerfile(UVX, "task:1", "app") or "").splitlines()
    assert [line for line in lines if "apt-get install -y curl git-core &&" in line]
    assert [
        line
        for line in lines
        if line.endswith("uvx --with pytest==8.4.1 -p 3.13 --with pytest-json-ctrf==0.3.5 pytest --version")
    ]
    assert lines[-1] == "USER app"
    assert "FROM task:1" in lines
    assert "uv init && uv add numpy pytest==8.4.1 && uv run" in (write_dockerfile(ADD, "task:1", "") or "")
    pip = write_dockerfile("pip3 install -q 'requests>=2' pandas > /x.txt 2>&1 || true", "task:1", "") or ""
    assert "pip3 install --no-cache-dir --break-system-packages pandas 'requests>=2'" in pip


def test_a_script_that_installs_nothing_needs_no_image() -> None:
    assert write_dockerfile("pytest /tests/test_outputs.py -rA\necho uvula pip apt", "task:1", "") is None


def test_no_text_of_a_script_becomes_a_command_of_the_build() -> None:
    script = "apt-get install -y curl$(touch /x) `id`; pip install a;touch b\nuvx --with 'a;b' $TOOL x\n"
    dockerfile = write_dockerfile(script, "task:1", "") or ""
    assert not any(word in dockerfile for word in ("touch", "`", "$(touch", "$TOOL", "id;"))
