"""Find the task folders that a path names: a folder of them, a dataset.toml or a registry.json."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.benchmarks.data.terminal_bench import TASK_YAML, is_terminal_bench_folder
from harness.core.errors import DataError, UsageError, unknown_name
from harness.core.inputs.files import read_input
from harness.core.inputs.json_text import BrokenJSONError, parse_json
from harness.core.invalid_values import describe_first_error
from harness.environments.container.task_folder import TASK_TOML, is_task_folder

DATASET_TOML, REGISTRY_JSON, TASKS = "dataset.toml", "registry.json", "tasks"
_GIT_SECONDS = 600
# Other protocols of git can run programs.
_GIT_PROTOCOLS = "https:http:ssh:git:file"


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """A task folder, and what a dataset or a registry says about it."""

    path: Path
    # The name and the digest that the folder must have, None if nothing says so.
    name: str | None = None
    digest: str | None = None


def holds_task(path: Path) -> bool:
    """Return whether a path is a task folder, of Harbor's or of Terminal-Bench 1's form."""
    return is_task_folder(path) or is_terminal_bench_folder(path)


def find_task_folders(
    path: Path, *, dataset: str | None, cache_dir: Path, notify: Callable[[str], None]
) -> list[FoundFolder]:
    """Return the task folders of a path, at least one, in the order of their names.

    Args:
        path: a task folder, a folder of such, a dataset.toml, or a registry.json.
        dataset: the dataset of a registry, as `name` or `name@version`. None for its only one.
        cache_dir: the folder that keeps what git has fetched.
        notify: gets notes about folders that are left out.

    Raises UsageError if there is none, and DataError for a file that cannot be used.
    """
    if path.is_file():
        if path.name.endswith(REGISTRY_JSON):
            return [*_read_registry(path, dataset, cache_dir)]
        if path.name == DATASET_TOML:
            return _read_dataset(path, notify)
    if dataset is not None:
        raise UsageError(f"{path}: only a {REGISTRY_JSON} has datasets", hint="leave out --option dataset")
    if holds_task(path):
        return [FoundFolder(path)]
    if (path / DATASET_TOML).is_file():
        return _read_dataset(path / DATASET_TOML, notify)
    if found := list_children(path):
        return [FoundFolder(each) for each in found]
    raise nothing_found(path)


def list_children(path: Path) -> list[Path]:
    """Return the task folders in a folder, or in `tasks/` of it, sorted."""
    for parent in (path, path / TASKS):
        try:
            found = sorted(each for each in parent.iterdir() if holds_task(each))
        except OSError:
            continue
        if found:
            return found
    return []


def nothing_found(path: Path) -> UsageError:
    """Return the error for a path that was to hold task folders."""
    if not path.exists():
        return UsageError(f"{path}: no such folder", hint="-b takes a benchmark's name, or a folder of tasks")
    hint = f"a task folder has a {TASK_TOML} (Harbor) or a {TASK_YAML} (Terminal-Bench 1)"
    if path.is_dir():
        inner = [each for each in sorted(path.iterdir()) if each.is_dir()][:200]
        near = next((each for each in inner if list_children(each)), None)
        hint = f"did you mean {near}? {hint}" if near else hint
    elif path.name in (TASK_TOML, TASK_YAML):
        hint = f"name its folder: {path.parent}"
    return UsageError(f"{path}: holds no task folder", hint=hint)


class _DatasetTask(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    digest: Annotated[str, Field(pattern=r"^sha256:[a-f0-9]{64}$")]


class _Dataset(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    tasks: tuple[_DatasetTask, ...] = ()


def _read_dataset(path: Path, notify: Callable[[str], None]) -> list[FoundFolder]:
    """Return the folders beside a dataset.toml that it lists, with the digests that they must have."""
    values = _read_file(path, lambda data: tomllib.loads(data.decode()))
    listed = {each.name: each.digest for each in _validate(_Dataset, values, path).tasks}
    folders = {_read_name(each): each for each in list_children(path.parent)}
    if not listed:
        return [FoundFolder(each) for each in folders.values()] or _fail(nothing_found(path.parent))
    if missing := [name for name in listed if name not in folders]:
        raise DataError(
            f"{len(missing)} of {len(listed)} tasks are not in the folder, such as {missing[0]}",
            path=path,
            hint="download the whole dataset into this folder; packages of a hosted store are not fetched",
        )
    if unlisted := [name for name in folders if name not in listed]:
        notify(f"{path}: {len(unlisted)} folders are not listed and left out, such as {unlisted[0]}")
    return [FoundFolder(folders[name], name, digest) for name, digest in listed.items()]


def _read_name(folder: Path) -> str:
    """Return the name of a task without checking its folder."""
    try:
        name = tomllib.loads(read_input(folder / TASK_TOML).decode())["task"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return folder.name
    return name if isinstance(name, str) else folder.name


class _RegistryTask(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    git_url: str | None = None
    git_commit_id: str | None = None
    path: str


class _RegistryDataset(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    version: str = ""
    tasks: tuple[_RegistryTask, ...]


def _read_registry(path: Path, dataset: str | None, cache_dir: Path) -> Iterator[FoundFolder]:
    """Yield the folders of one dataset of a registry. Relative paths begin at the registry's folder."""
    values = _read_file(path, parse_json)
    if isinstance(values, dict) and isinstance(values.get("recipes"), list):  # The form of Harbor's cookbook.
        source = {"git_url": values.get("git_url")}
        tasks = [{**source, **each} for each in values["recipes"] if isinstance(each, dict)]
        values = [{"name": path.parent.name, "tasks": tasks}]
    if not isinstance(values, list):
        raise DataError("needs a list of datasets", path=path)
    datasets = [_validate(_RegistryDataset, each, path) for each in values]
    chosen = _choose_dataset(datasets, dataset, path)
    for task in chosen.tasks:
        local = next((each for each in _list_local(path.parent, task) if holds_task(each)), None)
        if local is None and task.git_url is None:
            raise DataError(f"task {task.name}: '{task.path}' is not a task folder", path=path)
        if local is None:
            checkout = _fetch(task.git_url or "", task.git_commit_id, cache_dir)
            local = (checkout / task.path).resolve()
            if not local.is_relative_to(checkout.resolve()) or not holds_task(local):
                raise DataError(f"task {task.name}: {task.git_url} has no task at '{task.path}'", path=path)
        yield FoundFolder(local)


def _list_local(folder: Path, task: _RegistryTask) -> Iterator[Path]:
    """Yield where a task may be beside the registry, which may be in a checkout."""
    if task.git_commit_id is None:
        yield folder / task.path
        if task.git_url is not None:
            yield folder / Path(task.path).name


def _choose_dataset(datasets: list[_RegistryDataset], wanted: str | None, path: Path) -> _RegistryDataset:
    known = {f"{each.name}@{each.version}" if each.version else each.name: each for each in datasets}
    found = [each for name, each in known.items() if wanted in (None, name, each.name)]
    if len(found) == 1:
        return found[0]
    if wanted is not None and not found:
        unknown = unknown_name("dataset", wanted, known)
        raise UsageError(f"{path}: {unknown.message}", hint=unknown.hint)
    raise UsageError(
        f"{path}: has {len(found)} datasets of this name" if wanted else f"{path}: has {len(found)} datasets",
        hint=f"choose one with --option dataset=NAME: {', '.join(sorted(known)[:20])}",
    )


def _fetch(url: str, commit: str | None, cache_dir: Path) -> Path:
    """Return a checkout of a commit, by default of the newest one, which is fetched each time.

    Raises DataError with git's message.
    """
    if url.startswith("-") or (commit is not None and not re.fullmatch(r"[0-9A-Za-z._/][\w./-]*", commit)):
        raise DataError(f"cannot fetch commit '{commit}' of '{url}'")
    key = hashlib.sha256(f"{url}\0{commit}".encode()).hexdigest()[:32]
    folder = cache_dir / "task-folders" / f"git-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / ".git" / "harness-fetched"
    with FileLock(f"{folder}.lock"):
        if commit is None or not done.exists():
            _git(folder, "init", "--quiet", url=url)
            _git(folder, "fetch", "--quiet", "--depth", "1", url, commit or "HEAD", url=url)
            _git(folder, "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD", url=url)
            done.touch()
    return folder


def _git(folder: Path, *arguments: str, url: str) -> None:
    environment = {**os.environ, "GIT_ALLOW_PROTOCOL": _GIT_PROTOCOLS, "GIT_TERMINAL_PROMPT": "0"}
    command = ["git", "-c", "core.hooksPath=/dev/null", *arguments]
    try:
        subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except FileNotFoundError as error:
        raise DataError(f"git is not installed, and {url} needs it", hint="install git") from error
    except subprocess.TimeoutExpired as error:
        raise DataError(f"git took longer than {_GIT_SECONDS} s for {url}") from error
    except subprocess.CalledProcessError as error:
        message = " ".join(error.stderr.split())[-300:]
        raise DataError(
            f"git cannot fetch {url}: {message}", hint="or clone it yourself, and name the folder with -b"
        ) from error


def _read_file(path: Path, parse: Callable[[bytes], Any]) -> Any:
    try:
        return parse(read_input(path))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from error
    except BrokenJSONError as error:
        raise DataError(str(error), path=path, line=error.line) from error
    except ValueError as error:
        raise DataError(f"cannot be read: {error}", path=path) from error


def _validate(model: type[Any], values: Mapping[str, Any], path: Path) -> Any:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise DataError(describe_first_error(error), path=path) from error


def _fail(error: Exception) -> Any:
    raise error
