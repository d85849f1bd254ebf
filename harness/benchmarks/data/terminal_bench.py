"""Convert task folders of Terminal-Bench 1 into Harbor's form.

A folder of Terminal-Bench 1 holds task.yaml, run-tests.sh, docker-compose.yaml with the service `client`, its
build context, tests/ and solution.sh. Source: `terminal_bench/handlers/trial_handler.py` and
`terminal_bench/parsers/` of terminal-bench 0.2.18, and `harbor/mappers/terminal_bench.py` of harbor 0.26.0.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.inputs.files import hash_file
from harness.core.inputs.yaml_text import read_yaml, write_yaml
from harness.environments.container.task_folder import (
    COMPOSE,
    DOCKERFILE,
    ENVIRONMENT,
    INSTRUCTION,
    SOLUTION,
    SOLVE_SCRIPT,
    TASK_TOML,
    TEST_SCRIPT,
    TESTS,
)

TASK_YAML = "task.yaml"
# Raised with every change of the converted files, which the cache keeps.
VERSION = 1

_RUN_TESTS = "run-tests.sh"
# The files beside the build context.
_OWN_FILES = frozenset((TASK_YAML, _RUN_TESTS, COMPOSE, "solution.sh", "solution.yaml", TESTS))
# The keys of the service `client` that need no compose file, and the values that the runner sets.
_PLAIN_KEYS = frozenset(
    ("build", "image", "container_name", "command", "environment", "volumes", "working_dir")
)
_RUNNERS = re.compile(r"\$\{T_BENCH_\w+\}")
_COPIES = re.compile(r"^\s*(?:COPY|ADD)\s+.*?(?:\./)?\b(tests/|tests\s|solution\.(?:sh|yaml))", re.I | re.M)

_HEAD = """\
#!/bin/bash
# Runs the tests of Terminal-Bench 1, and writes their reward.
export TEST_DIR=/tests
mkdir -p /logs/verifier
"""
_BY_EXIT_CODE = """\
bash /tests/run-tests.sh
code=$?
if [ "$code" -eq 0 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
exit "$code"
"""
# The runner of SWE-bench prints its verdict, and its exit code has another meaning.
_BY_BLOCK = """\
bash /tests/run-tests.sh > /logs/verifier/run-tests.txt 2>&1
cat /logs/verifier/run-tests.txt
block=$(sed -n '/SWEBench results starts here/,/SWEBench results ends here/p' /logs/verifier/run-tests.txt)
if printf '%s\\n' "$block" | grep -q '^PASSED$' && ! printf '%s\\n' "$block" | grep -q '^FAILED$'; then
    echo 1
else
    echo 0
fi > /logs/verifier/reward.txt
"""


def is_terminal_bench_folder(path: Path) -> bool:
    """Return whether a path is a folder with a task.yaml."""
    return (path / TASK_YAML).is_file()


def convert_cached(source: Path, cache_dir: Path) -> Path:
    """Return the converted form of a folder in a cache, and make it if it is missing. Raises as `convert`."""
    digest = _hash_tree(source)
    folder = cache_dir / "task-folders" / f"terminal-bench-{VERSION}-{digest[:32]}" / source.resolve().name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        convert(source, folder)
    return folder


def convert(source: Path, destination: Path) -> None:
    """Write the task of a folder of Terminal-Bench 1 to a new folder in Harbor's form.

    Raises DataError, with the reason, for a task that cannot be converted, and UsageError for a destination
    that exists.
    """
    if destination.exists():
        raise UsageError(f"{destination}: exists already", hint="name a new folder")
    source = source.resolve()
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".convert-") as made:
        folder = Path(made, "task")
        try:
            _write(source, folder)
            os.rename(folder, destination)
        except UsageError as error:
            raise DataError(error.message, hint=error.hint) from error
        except (OSError, shutil.Error) as error:
            if not destination.is_dir():  # Another process has made the same folder.
                raise DataError(f"cannot be converted: {error}", path=source) from error


def _write(source: Path, folder: Path) -> None:
    task = _read_mapping(source / TASK_YAML)
    instruction = task.get("instruction")
    if not isinstance(instruction, str) or not instruction.strip():
        raise DataError("needs a text", path=source / TASK_YAML, field="instruction")
    compose = _read_mapping(source / COMPOSE) if (source / COMPOSE).is_file() else {}
    services = compose.get("services") or {"client": {"build": "."}}
    client = services.get("client") if isinstance(services, dict) else None
    if not isinstance(client, dict):
        raise DataError("has no service 'client'", path=source / COMPOSE)
    _write_tests(source, folder, parser=str(task.get("parser_name", "pytest")))
    if (source / "solution.sh").is_file():
        _copy(source / "solution.sh", folder / SOLUTION / SOLVE_SCRIPT)
    image = _write_machine(source, folder, client)
    if set(services) != {"client"} or not _is_plain(client):
        (folder / ENVIRONMENT / COMPOSE).write_text(write_yaml(_make_compose(compose, services, client)))
    (folder / INSTRUCTION).write_text(instruction.rstrip("\n") + "\n")
    (folder / TASK_TOML).write_text(_make_toml(task, client, image, source))


def _read_mapping(path: Path) -> dict[str, Any]:
    value = read_yaml(path)
    if not isinstance(value, dict):
        raise DataError("needs keys and values", path=path)
    return value


def _write_tests(source: Path, folder: Path, *, parser: str) -> None:
    script = source / _RUN_TESTS
    if not script.is_file():
        raise DataError("is missing, so that nothing could be graded", path=script)
    tests = source / TESTS
    has_tests = tests.is_dir() and any(each.is_file() for each in tests.rglob("*"))
    text = script.read_text("utf-8", "replace")
    if not has_tests and ("TEST_DIR" in text or "/tests" in text):
        raise DataError("holds no files, and run-tests.sh needs them", path=tests)
    if has_tests:
        shutil.copytree(tests, folder / TESTS, symlinks=True)
    _copy(script, folder / TESTS / _RUN_TESTS)
    written = folder / TESTS / TEST_SCRIPT
    written.write_text(_HEAD + (_BY_BLOCK if parser == "swebench" else _BY_EXIT_CODE))
    written.chmod(0o755)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _write_machine(source: Path, folder: Path, client: Mapping[str, Any]) -> str | None:
    """Write the build context. Return the image instead if the service builds none."""
    build = client.get("build")
    if build is None and isinstance(client.get("image"), str):
        (folder / ENVIRONMENT).mkdir()
        return str(client["image"])
    build = {"context": build} if isinstance(build, str) else build if isinstance(build, dict) else {}
    context = (source / str(build.get("context", "."))).resolve()
    if not context.is_dir() or not context.is_relative_to(source):
        raise DataError(
            f"the build context '{build.get('context')}' is not in the folder", path=source / COMPOSE
        )
    dockerfile = context / str(build.get("dockerfile", DOCKERFILE))
    if not dockerfile.is_file():
        raise DataError("is missing", path=dockerfile)
    if context == source and (copied := _COPIES.search(dockerfile.read_text("utf-8", "replace"))):
        raise DataError(f"copies {copied[1].strip()} into the agent's machine", path=dockerfile)

    def leave_out(place: str, names: list[str]) -> set[str]:
        return {*_OWN_FILES.intersection(names)} if Path(place) == source else set()

    shutil.copytree(context, folder / ENVIRONMENT, symlinks=True, ignore=leave_out)
    if dockerfile != context / DOCKERFILE:
        _copy(dockerfile, folder / ENVIRONMENT / DOCKERFILE)
    return None


def _is_plain(client: Mapping[str, Any]) -> bool:
    """Return whether a service needs nothing but its image, variables and a working folder."""
    build = client.get("build")
    plain_build = not isinstance(build, dict) or {*build} <= {"context", "dockerfile"}
    volumes = client.get("volumes") or []
    return {*client} <= _PLAIN_KEYS and plain_build and all("T_BENCH_" in str(each) for each in volumes)


def _make_compose(
    compose: Mapping[str, Any], services: Mapping[str, Any], client: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the compose file in Harbor's form, whose service `main` is the agent's."""
    dropped = ("image", "container_name", "command", "volumes", "environment", "working_dir")
    main = {key: value for key, value in client.items() if key not in dropped}
    others = {name: value for name, value in services.items() if name != "client"}
    return {**{k: v for k, v in compose.items() if k != "version"}, "services": {"main": main, **others}}


def _read_variables(client: Mapping[str, Any]) -> dict[str, str]:
    given = client.get("environment") or {}
    pairs = given.items() if isinstance(given, dict) else (str(each).partition("=")[::2] for each in given)
    return {str(k): str(v) for k, v in pairs if v is not None and not _RUNNERS.search(str(v))}


def _make_toml(task: Mapping[str, Any], client: Mapping[str, Any], image: str | None, source: Path) -> str:
    kept = (
        *("author_name", "author_email", "difficulty", "category", "tags", "parser_name"),
        *("expert_time_estimate_min", "junior_time_estimate_min", "estimated_duration_sec"),
    )
    machine: dict[str, Any] = {} if image is None else {"docker_image": image}
    workdir = client.get("working_dir")
    if isinstance(workdir, str) and not _RUNNERS.search(workdir):
        machine["workdir"] = workdir
    tables: dict[str, dict[str, Any]] = {
        "metadata": {key: task[key] for key in kept if task.get(key) is not None},
        "agent": {"timeout_sec": _read_seconds(task, "max_agent_timeout_sec", 360.0, source)},
        "verifier": {"timeout_sec": _read_seconds(task, "max_test_timeout_sec", 60.0, source)},
        "verifier.env": {"TEST_DIR": "/tests"},
        "environment": machine,
        "environment.env": _read_variables(client),
    }
    lines = ['schema_version = "1.4"', 'source = "terminal-bench-1"']
    for name, values in tables.items():
        lines += ["", f"[{name}]", *(f"{json.dumps(key)} = {_as_toml(v)}" for key, v in values.items())]
    return "\n".join(lines) + "\n"


def _read_seconds(task: Mapping[str, Any], key: str, default: float, source: Path) -> float:
    value = task.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise DataError("must be a number of seconds", path=source / TASK_YAML, field=key)
    return float(value)


def _as_toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_as_toml, value))}]"
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _hash_tree(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        kind = f"link {os.readlink(path)}" if path.is_symlink() else ""
        if path.is_file() and not kind:
            try:
                kind = f"{path.stat().st_mode & 0o111:o} {hash_file(path)}"
            except OSError as error:
                raise DataError(f"cannot be read: {error.strerror}", path=path) from error
        whole.update(f"{name}\0{kind}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def convert_all(source: Path, destination: Path) -> tuple[list[str], dict[str, str]]:
    """Convert a folder of Terminal-Bench 1, or the folders in it, and return the names and the failures.

    A single folder becomes `destination` itself, and each of several one in it. The failures are reasons by
    name. Raises UsageError if there is no such folder.
    """
    if is_terminal_bench_folder(source):
        convert(source, destination)
        return [source.resolve().name], {}
    parents = (source, source / "tasks")
    folders = [each for parent in parents if parent.is_dir() for each in sorted(parent.iterdir())]
    folders = [each for each in folders if is_terminal_bench_folder(each)]
    if not folders:
        raise UsageError(
            f"{source}: holds no folder with a {TASK_YAML}", hint="name a folder of tasks of Terminal-Bench 1"
        )
    destination.mkdir(parents=True, exist_ok=True)
    converted, failures = [], {}
    for folder in folders:
        try:
            convert(folder, destination / folder.name)
            converted.append(folder.name)
        except HarnessError as error:
            failures[folder.name] = error.message
    return converted, failures
