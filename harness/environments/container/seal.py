"""Decide which of an agent's changes reach the machine where a task's tests run.

The seal level of a task names the rules that hold there. Each rule is a property of a path: a tool of the
image could read the file as code or as settings although the work of the task is elsewhere. A rule drops
changes up to one level, and a later level lets them pass. The level belongs to the task, so that a verdict
cannot depend on what the agent did.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from harness.environments.container.scene import (
    LIBRARY_FOLDERS,
    OPTIONAL_MODULES,
    VIRTUAL,
    Change,
    Scene,
    parents,
)
from harness.environments.os.machine_files import LOADERS, SETTINGS, SHARED_MEMORY, below

Level = Literal["artifacts", "work", "tools", "all", "attached", "live", "proxied"]
LEVELS: tuple[Level, ...] = get_args(Level)
# The levels that decide about files, from the strictest on.
_STRICTNESS: tuple[Level, ...] = ("artifacts", "work", "tools", "all")
_FILES_OF: Mapping[Level, Level] = {"attached": "tools", "proxied": "work"}

TESTS, SOLUTION, LOGS, ARTIFACTS = "/tests", "/solution", "/logs", "/logs/artifacts"
# The grader makes these itself, or the kernel does. No file of an agent is ever put there.
_OF_GRADER = (TESTS, SOLUTION, LOGS, "/opt/harness", "/opt/grading", "/proc", "/sys", "/dev")
# Node looks for modules in the folders above the tests, and so at the top.
_ABOVE_TESTS = ("/node_modules",)
# A shell or an interpreter runs these before it does anything else.
_START_UP = (
    *("/etc/profile", "/etc/profile.d", "/etc/environment", "/etc/bash.bashrc", "/etc/apt", "/etc/gitconfig"),
    *(
        "/etc/hosts",
        "/etc/pip.conf",
        "/etc/uv",
        "/etc/curlrc",
        "/etc/wgetrc",
        "/etc/resolv.conf",
        "/etc/zsh",
        "/etc/npmrc",
    ),
)
# Every interpreter of Python runs or follows these, wherever it finds them on its path.
_PYTHON_START_UP = re.compile(
    r"(sitecustomize|usercustomize)(\.\w+)*|.+\.pth|.+\._pth|pyvenv\.cfg|python3\d+\.zip"
)
# pytest and installers look for these names where they start, in the folders above, and in the tree that they
# belong to. A file of locked versions also says where each package comes from.
_FOUND_BY_SEARCH = re.compile(
    r"conftest\.py|pytest\.ini|(?:tox|setup)\.(?:ini|cfg)|(?:pytest|pyproject|uv|poetry|pdm|hatch)\.toml"
    r"|Pipfile|Pipfile\.lock|pylock(?:\.[\w-]+)?\.toml|(?:uv|poetry|pdm)\.lock"
    r"|pip\.conf|npmrc|gitconfig|wgetrc|curlrc|(?:py)?distutils\.cfg"
)
# Interpreters look for modules and packages in these folders.
_MODULES = re.compile(r".*/(?:(?:site|dist)-packages|lib-dynload|node_modules|lib(?:64)?/python3(?:\.\d+)?)")
# A package has a folder or a file of its own here, whose name begins with its command's.
_OWN = re.compile(r"/(?:etc(?:/xdg)?|usr/(?:local/)?(?:etc|lib(?:/[^/]+-linux-gnu)?|libexec|share))/([^/]+)")
_COMMAND = re.compile(r"([A-Za-z]+?)(?:rc|config)?(?![A-Za-z]).*")
# The level `tools` is for new packages of these languages, and for the data of the last two.
_FOR_PACKAGES = frozenset(("java", "node", "nodejs", "php", "python", "R", "ruby", "locale", "man"))
# Libraries of the image load these by themselves.
_PLUGIN = re.compile(
    r".*/libnss_[^/]*|/usr/(?:lib|share)/(?:[^/]+-linux-gnu/)?"
    r"(?:gconv|krb5|sasl2|security|engines|ossl-modules|gio|p11-kit|pkcs11)[^/]*/.*"
)
_LIBRARY = re.compile(r"lib.+\.so(\.[\d.]+)?|ld-.+\.so(\.\d+)?")
# A task that mentions the tool is about its hidden files.
_TOOLS_OF_HIDDEN_FILES = {".git": "git", ".ssh": "ssh", ".vimrc": "vim", ".github": "github"}


@dataclass(frozen=True, slots=True)
class Rule:
    """A reason why a change does not reach the grader's machine, up to a level."""

    reason: str
    up_to: Level
    applies: Callable[[Change, Scene], bool]


def _is_of_grader(change: Change, scene: Scene) -> bool:
    if below(change.path, (SHARED_MEMORY,)):
        return False
    # Nothing of the grader is ever in /solution, and a task may want its answer there by name.
    is_answer = change.path in scene.named and change.path.startswith(f"{SOLUTION}/")
    return below(change.path, _OF_GRADER) and not is_answer


def _is_undeclared(change: Change, scene: Scene) -> bool:
    return not below(change.path, scene.artifacts)


def _belongs_to_tools(change: Change, scene: Scene) -> bool:
    path = change.path
    if not scene.is_tool(path, change.kind):
        return False
    is_named = any(below(path, (each,)) for each in scene.named) or path[1:] in scene.mentioned
    if is_named and path not in scene.image and change.kind != "absent":
        return _shadows_tool(change, scene)
    # The task may be about these, and no program loads code from them.
    return not below(path, SETTINGS) and not (is_named and path.startswith("/etc/"))


def _replaces_tool(change: Change, scene: Scene) -> bool:
    is_new = change.path not in scene.image and change.kind != "absent"
    return scene.is_tool(change.path, change.kind) and not is_new and _belongs_to_tools(change, scene)


def _shadows_tool(change: Change, scene: Scene) -> bool:
    """Return whether a new file in a folder of tools is found in place of a tool that the image has."""
    folder, _, name = change.path.rpartition("/")
    if change.path in scene.image or not scene.is_tool(change.path, change.kind):
        return False
    if folder in scene.search_path and (name in scene.commands or scene.is_called_by_tests(name)):
        return True
    if name in scene.libraries and _LIBRARY.fullmatch(name) is not None:
        return True
    return _is_in_package(change.path, scene)


def _is_in_package(path: str, scene: Scene) -> bool:
    """Return whether a new file is part of a package of the image, or is found in place of one.

    Interpreters prefer some kinds of files. So a folder or a library beside a `.py` of the image replaces it.
    """
    for folder in reversed(parents(path)):
        name = path[len(folder) + 1 :].partition("/")[0]
        if not _MODULES.fullmatch(folder) or _MODULES.fullmatch(f"{folder}/{name}"):
            continue
        if folder in scene.image and name in scene.image[folder].names:
            return True
        if not folder.endswith("/node_modules") and name.partition(".")[0] in scene.modules:
            return True
    return False


def _extends_tool(change: Change, scene: Scene) -> bool:
    """Return whether a new file is where a tool or a library of the image looks for parts and settings.

    Its own folder has its name (/usr/share/git-core), and so have its settings (/etc/tmux.conf), which a task
    may be about. A file below /usr/local is found before the one at the same path below /usr.
    """
    path = change.path
    if path in scene.image or not scene.is_tool(path, change.kind):
        return False
    if below(path, SETTINGS) or below(path, scene.named):
        return False
    if _PLUGIN.fullmatch(path) or _behind_local(path) in scene.image:
        return change.kind != "folder"
    own = _OWN.match(path)
    command = None if own is None else _COMMAND.fullmatch(own[1])
    if command is None or command[1] in _FOR_PACKAGES or command[1] not in scene.commands:
        return False
    return not (path.startswith("/etc/") and command[1].lower() in scene.folded_words)


def _behind_local(path: str) -> str:
    """Return the path that the image has in /usr for one in /usr/local, or else the same path."""
    return f"/usr/{path.removeprefix('/usr/local/')}" if path.startswith("/usr/local/") else path


def _is_loader(change: Change, scene: Scene) -> bool:
    return below(change.path, LOADERS)


def _runs_at_start_up(change: Change, scene: Scene) -> bool:
    name = posixpath.basename(change.path)
    if _PYTHON_START_UP.fullmatch(name) or name == "entry_points.txt":
        return change.path not in scene.named
    return below(change.path, _START_UP) and change.path not in scene.named


def _is_cache(change: Change, scene: Scene) -> bool:
    """Return whether a tool made the file for itself, and would believe it. Without it, the tool works."""
    steps = change.path.lower().split("/")
    if "__pycache__" in steps:
        return True
    return any("cache" in step for step in steps) and not scene.is_work(change.path)


def _is_hidden(change: Change, scene: Scene) -> bool:
    """Return whether a path is hidden or in a hidden folder, and the task is not about it.

    Tools look for their settings in hidden files of home folders, of the folder where they start, and of the
    folders above it. A link or /etc/passwd can make any folder a home, so this holds everywhere.
    """
    path = change.path
    steps = [path, *parents(path)]
    return any(posixpath.basename(step).startswith(".") and not _is_meant(step, scene) for step in steps)


def _is_meant(hidden: str, scene: Scene) -> bool:
    name = posixpath.basename(hidden)
    if hidden in scene.named or name in scene.mentioned:
        return True
    return _TOOLS_OF_HIDDEN_FILES.get(name) in scene.mentioned


def _is_found_by_search(change: Change, scene: Scene) -> bool:
    if below(change.path, _ABOVE_TESTS):
        return True
    folder, _, name = change.path.rpartition("/")
    if not _FOUND_BY_SEARCH.fullmatch(name) or scene.names(change.path):
        return False
    return (folder or "/") in scene.searched_folders or not scene.is_work(change.path)


def _shadows_module(change: Change, scene: Scene) -> bool:
    """Return whether the file is found in place of a module or a library that the image has."""
    folder, _, name = change.path.rpartition("/")
    if folder in scene.start_folders and name in scene.libraries and _LIBRARY.fullmatch(name):
        return True
    module = name.partition(".")[0]
    if module == "__init__":
        # A folder without such a file hides no module of a later folder.
        folder, _, module = folder.rpartition("/")
    elif change.kind != "link" and not name.endswith((".py", ".pyc", ".so")):
        return False
    if (folder or "/") not in scene.start_folders or module not in scene.modules | OPTIONAL_MODULES:
        return False
    return not scene.names(change.path)


def _steers_git(change: Change, scene: Scene) -> bool:
    """Return whether git runs the file, or reads commands from it, because it is in a repository."""
    path = change.path
    for step in (path, *parents(path)):
        folder, _, name = step.rpartition("/")
        is_setting = name in ("config", "config.worktree", "commondir", "gitdir") and step == path
        if (is_setting or name == "hooks") and any(
            scene.has(f"{folder}/{part}") for part in ("objects", "refs")
        ):
            return not scene.names(path)
    return False


def _replaces_program(change: Change, scene: Scene) -> bool:
    """Return whether the image has a program there that the task is not about."""
    found = scene.image.get(change.path)
    return (
        found is not None
        and found.kind == "file"
        and found.mode & 0o111 != 0
        and not scene.is_work(change.path)
    )


# The table of the seal. A rule drops changes at its own level and at every stricter one.
RULES = (
    Rule("folder of the grader", "all", _is_of_grader),
    Rule("not a declared artifact", "artifacts", _is_undeclared),
    Rule("tool of the image", "work", _belongs_to_tools),
    Rule("replaced tool", "tools", _replaces_tool),
    Rule("shadow of a tool", "tools", _shadows_tool),
    Rule("part of a tool", "tools", _extends_tool),
    Rule("loader of libraries", "tools", _is_loader),
    Rule("start-up of a tool", "tools", _runs_at_start_up),
    Rule("cache of a tool", "tools", _is_cache),
    Rule("hidden file", "tools", _is_hidden),
    Rule("settings of a tool", "tools", _is_found_by_search),
    Rule("shadow of a module", "tools", _shadows_module),
    Rule("code of git", "tools", _steers_git),
    Rule("program of the image", "tools", _replaces_program),
)


def find_reason(change: Change, level: Level, scene: Scene) -> str | None:
    """Return why a change does not reach the grader's machine at a level, or None if it does.

    At `artifacts`, a declared artifact passes whatever it is, because the task asks for it.
    """
    if level == "artifacts":
        if change.path == ARTIFACTS or change.path.startswith(f"{ARTIFACTS}/"):
            return None
        rules: Sequence[Rule] = RULES[:2]
    else:
        strictness = _STRICTNESS.index(_FILES_OF.get(level, level))
        rules = [rule for rule in RULES if _STRICTNESS.index(rule.up_to) >= strictness]
    return next((rule.reason for rule in rules if rule.applies(change, scene)), None)


def divide(changes: Iterable[Change], level: Level, scene: Scene) -> tuple[list[Change], Mapping[str, int]]:
    """Return the changes that pass at a level, and the number of the others by reason."""
    carried: list[Change] = []
    dropped: Counter[str] = Counter()
    for change in changes:
        reason = find_reason(change, level, scene)
        if reason is None:
            carried.append(change)
        else:
            dropped[reason] += 1
    return carried, dropped


def paths_to_describe(changes: Iterable[Change], scene: Scene) -> list[str]:
    """Return the paths whose description in the pristine image the rules need."""
    needed = {*scene.search_path, *scene.package_folders, *LIBRARY_FOLDERS, *SETTINGS, *scene.start_folders}
    # One of these may be a link.
    needed.update(step for folder in (*scene.search_path, *scene.start_folders) for step in parents(folder))
    for change in changes:
        needed |= {change.path, _behind_local(change.path)}
        for step in (change.path, *parents(change.path)):
            if posixpath.basename(step) in ("config", "config.worktree", "commondir", "gitdir", "hooks"):
                needed.update(f"{posixpath.dirname(step)}/{part}" for part in ("objects", "refs"))
        needed.update(folder for folder in parents(change.path) if _MODULES.fullmatch(folder))
        needed.update(f"{folder}/{VIRTUAL}" for folder in parents(change.path))
    return sorted(needed)
