"""Decide which of an agent's changes reach the machine where a task's tests run.

The seal level of a task names the rules that hold there. Each rule is a property of a path: a tool of the
image could read the file as code or as settings although the work of the task is elsewhere. A rule drops
changes up to one level, and a later level lets them pass. The level belongs to the task, so that a verdict
cannot depend on what the agent did.
"""

from __future__ import annotations

import functools
import posixpath
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from harness.environments.os.machine_files import (
    COMMAND_FOLDERS,
    LOADERS,
    SETTINGS,
    SHARED_MEMORY,
    STARTED_BY_TOOLS,
    TOOL_FOLDERS,
    behind_links,
    mentioned_names,
)

Level = Literal["artifacts", "work", "tools", "all", "attached", "live", "proxied"]
LEVELS: tuple[Level, ...] = get_args(Level)
# The levels that decide about files, from the strictest on.
_STRICTNESS: tuple[Level, ...] = ("artifacts", "work", "tools", "all")
_FILES_OF: Mapping[Level, Level] = {"attached": "tools", "proxied": "work"}

TESTS, SOLUTION, LOGS, ARTIFACTS = "/tests", "/solution", "/logs", "/logs/artifacts"
# The grader makes these itself, or the kernel does. No file of an agent is ever put there.
_OF_GRADER = (TESTS, SOLUTION, LOGS, "/opt/harness", "/opt/grading", "/proc", "/sys", "/dev")
# Package managers believe these files about what is installed and where more of it comes from.
_PACKAGE_DATA = ("/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm", "/var/lib/pacman", "/var/cache")
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
# pytest imports these if they are there, and most images lack some of them.
_IMPORTED_IF_FOUND = frozenset(
    (
        *("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "tomli"),
        *("argcomplete", "attr", "py", "xdist", "colorama", "setuptools", "pkg_resources", "numpy", "pip"),
    )
)
# Well-known packages import these if they are there. No module of a task has such a name by chance.
_OPTIONAL_MODULES = frozenset(
    (
        *(
            "simplejson",
            "chardet",
            "cchardet",
            "socks",
            "brotli",
            "zstandard",
            "h2",
            "_yaml",
            "IPython",
            "ipdb",
        ),
        *("numexpr", "bottleneck", "mkl", "threadpoolctl", "hypothesis", "coverage", "gevent", "uvloop"),
    )
)
_PACKAGES = re.compile(r"(?P<folder>.*/(?:site|dist)-packages)/(?P<name>[^/]+)(?P<rest>/.*)?")
_LIBRARY = re.compile(r"lib.+\.so(\.[\d.]+)?|ld-.+\.so(\.\d+)?")
_VERSIONS = tuple(f"python3.{minor}" for minor in range(6, 16))
_LIBRARY_FOLDERS = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"),
    *("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"),
)
# A file that a task names there does not make the whole folder the task's.
_SHARED_FOLDERS = frozenset(("/", "/tmp", "/var", "/var/tmp", "/home", "/root", "/opt", "/srv", "/mnt"))
_PATH_IN_TEXT = re.compile(r"(?<![\w.~$}/-])(?:/[\w.+@:-]+)+")
_CHANGE_OF_FOLDER = re.compile(r"\bcd\s+[\"']?(/[\w./+@-]*)")
_PLAIN_WORD = re.compile(r"[A-Za-z]+")
# A task that mentions the tool is about its hidden files.
_TOOLS_OF_HIDDEN_FILES = {".git": "git", ".ssh": "ssh", ".vimrc": "vim", ".github": "github"}


@dataclass(frozen=True, slots=True)
class ImageFile:
    """A file of the pristine image. `names` are the names in a folder."""

    kind: str
    mode: int = 0
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Change:
    """A changed path and its kind: `folder`, `file`, `link`, `fifo`, or `absent` if it was removed."""

    path: str
    kind: str


@dataclass(frozen=True)
class Scene:
    """The facts that the rules look at: the texts of the task, its artifacts, and its image."""

    # Every text that the agent was given.
    instruction: str
    # The folder where tools and tests start.
    workdir: str = "/"
    # The text of test.sh.
    script: str = ""
    # The environment of the image, with the task's own variables.
    environment: Mapping[str, str] = field(default_factory=dict)
    # The sources of the declared artifacts.
    artifacts: tuple[str, ...] = ()
    # The files that `paths_to_describe` asks for, as far as the image has them.
    image: Mapping[str, ImageFile] = field(default_factory=dict)
    # All changed paths.
    changed: frozenset[str] = frozenset()

    @functools.cached_property
    def mentioned(self) -> frozenset[str]:
        return mentioned_names((self.instruction,))

    @functools.cached_property
    def named(self) -> frozenset[str]:
        """The absolute paths in the instruction."""
        found = (path.rstrip(".:-") for path in _PATH_IN_TEXT.findall(self.instruction))
        return frozenset(behind_links(path) for path in found if ".." not in path.split("/"))

    @functools.cached_property
    def search_path(self) -> tuple[str, ...]:
        """The folders where the image looks for commands."""
        folders = self.environment.get("PATH", "").split(":")
        return tuple(dict.fromkeys((*filter(None, map(_tidy, folders)), *COMMAND_FOLDERS)))

    @functools.cached_property
    def tool_folders(self) -> tuple[str, ...]:
        """The folders that belong to tools: the usual ones, and those next to commands of the image."""
        trees = [
            posixpath.dirname(folder) if posixpath.basename(folder) in ("bin", "sbin") else folder
            for folder in self.search_path
        ]
        own = [tree for tree in trees if tree not in ("/", self.workdir)]
        files = (
            self.environment.get(name, "") for name in ("BASH_ENV", "ENV", "LD_PRELOAD", "PYTHONSTARTUP")
        )
        return (*TOOL_FOLDERS, *_PACKAGE_DATA, *self.search_path, *own, *filter(None, files))

    @functools.cached_property
    def start_folders(self) -> tuple[str, ...]:
        """The folders where an interpreter looks for modules first."""
        listed = (
            value for name, value in self.environment.items() if name.endswith("PATH") and name != "PATH"
        )
        named = (folder for value in listed for folder in value.split(":"))
        moved = _CHANGE_OF_FOLDER.findall(self.script)
        return tuple(dict.fromkeys(("/", self.workdir, *filter(None, map(_tidy, (*named, *moved))))))

    @functools.cached_property
    def package_folders(self) -> tuple[str, ...]:
        """The folders where the image may have modules of Python."""
        trees = (
            "/usr",
            "/usr/local",
            *(folder for folder in self.tool_folders if folder not in TOOL_FOLDERS),
        )
        libraries = [f"{tree}/lib/{version}" for tree in dict.fromkeys(trees) for version in _VERSIONS]
        kinds = ("", "/site-packages", "/dist-packages", "/lib-dynload")
        return (
            "/usr/lib/python3/dist-packages",
            *(library + kind for library in libraries for kind in kinds),
        )

    @functools.cached_property
    def modules(self) -> frozenset[str]:
        """The names of modules that the image or its standard library has."""
        names = self._names_in(self.package_folders)
        return frozenset(
            sys.stdlib_module_names | _IMPORTED_IF_FOUND | {name.partition(".")[0] for name in names}
        )

    @functools.cached_property
    def commands(self) -> frozenset[str]:
        return self._names_in(self.search_path) | STARTED_BY_TOOLS

    def is_called_by_tests(self, command: str) -> bool:
        """Return whether the tests may call a command that the task does not ask for."""
        return command in mentioned_names((self.script,)) and command not in self.mentioned

    @functools.cached_property
    def libraries(self) -> frozenset[str]:
        return self._names_in(_LIBRARY_FOLDERS)

    def _names_in(self, folders: Iterable[str]) -> frozenset[str]:
        return frozenset(
            name for folder in folders if folder in self.image for name in self.image[folder].names
        )

    def has(self, path: str) -> bool:
        """Return whether the path exists in the image or among the changes."""
        return path in self.changed or path in self.image

    def names(self, path: str) -> bool:
        """Return whether the instruction names this very path, or its name if that is not a plain word."""
        name = posixpath.basename(path)
        if path in self.named:
            return True
        if _PLAIN_WORD.fullmatch(name):
            relative = posixpath.relpath(path, self.workdir)
            return "/" in relative and relative in self.instruction
        return name in self.mentioned

    def is_work(self, path: str) -> bool:
        """Return whether a path is in the folders that the task is about."""
        return _below(path, self.work_folders)

    @functools.cached_property
    def work_folders(self) -> tuple[str, ...]:
        folders = {posixpath.dirname(path) if _is_file(path) else path for path in self.named}
        folders = {self.workdir, *self.named, *folders} - _SHARED_FOLDERS
        return tuple(sorted(folder for folder in folders if not self.is_tool(folder)))

    def is_tool(self, path: str, kind: str = "folder") -> bool:
        """Return whether a path belongs to tools of the image. A file at the top is above the commands."""
        if kind != "folder" and path.count("/") == 1:
            return True
        return _below(path, self.tool_folders) and not _below(path, (SHARED_MEMORY,))


@dataclass(frozen=True, slots=True)
class Rule:
    """A reason why a change does not reach the grader's machine, up to a level."""

    reason: str
    up_to: Level
    applies: Callable[[Change, Scene], bool]


def _is_of_grader(change: Change, scene: Scene) -> bool:
    if _below(change.path, (SHARED_MEMORY,)):
        return False
    # Nothing of the grader is ever in /solution, and a task may want its answer there by name.
    is_answer = change.path in scene.named and change.path.startswith(f"{SOLUTION}/")
    return _below(change.path, _OF_GRADER) and not is_answer


def _is_undeclared(change: Change, scene: Scene) -> bool:
    return not _below(change.path, scene.artifacts)


def _belongs_to_tools(change: Change, scene: Scene) -> bool:
    path = change.path
    if not scene.is_tool(path, change.kind):
        return False
    is_named = any(_below(path, (each,)) for each in scene.named) or path[1:] in scene.mentioned
    if is_named and path not in scene.image and change.kind != "absent":
        return _shadows_tool(change, scene)
    # The task may be about these, and no program loads code from them.
    return not _below(path, SETTINGS) and not (is_named and path.startswith("/etc/"))


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
    packages = _PACKAGES.fullmatch(change.path)
    if packages is None or packages["folder"] not in scene.image:
        return packages is not None and packages["name"].partition(".")[0] in scene.modules
    known = scene.image[packages["folder"]].names
    return packages["name"] not in known and packages["name"].partition(".")[0] in scene.modules


def _is_loader(change: Change, scene: Scene) -> bool:
    return _below(change.path, LOADERS)


def _runs_at_start_up(change: Change, scene: Scene) -> bool:
    name = posixpath.basename(change.path)
    if _PYTHON_START_UP.fullmatch(name) or name == "entry_points.txt":
        return change.path not in scene.named
    return _below(change.path, _START_UP) and change.path not in scene.named


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
    steps = [path, *_parents(path)]
    return any(posixpath.basename(step).startswith(".") and not _is_meant(step, scene) for step in steps)


def _is_meant(hidden: str, scene: Scene) -> bool:
    name = posixpath.basename(hidden)
    if hidden in scene.named or name in scene.mentioned:
        return True
    return _TOOLS_OF_HIDDEN_FILES.get(name) in scene.mentioned


def _is_found_by_search(change: Change, scene: Scene) -> bool:
    if _below(change.path, _ABOVE_TESTS):
        return True
    folder, _, name = change.path.rpartition("/")
    if not _FOUND_BY_SEARCH.fullmatch(name) or scene.names(change.path):
        return False
    return (folder or "/") in scene.start_folders or not scene.is_work(change.path)


def _shadows_module(change: Change, scene: Scene) -> bool:
    """Return whether Python would import the file in place of a module that the image has."""
    folder, _, name = change.path.rpartition("/")
    module = name.partition(".")[0]
    if module == "__init__":
        # A folder without such a file hides no module of a later folder.
        folder, _, module = folder.rpartition("/")
    elif not name.endswith((".py", ".pyc", ".so")):
        return False
    if (folder or "/") not in scene.start_folders or module not in scene.modules | _OPTIONAL_MODULES:
        return False
    return not scene.names(change.path)


def _steers_git(change: Change, scene: Scene) -> bool:
    """Return whether git runs the file, or reads commands from it, because it is in a repository."""
    path = change.path
    for step in (path, *_parents(path)):
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
    needed = {*scene.search_path, *scene.package_folders, *_LIBRARY_FOLDERS, *SETTINGS}
    for change in changes:
        needed.add(change.path)
        for step in (change.path, *_parents(change.path)):
            if posixpath.basename(step) in ("config", "config.worktree", "commondir", "gitdir", "hooks"):
                needed.update(f"{posixpath.dirname(step)}/{part}" for part in ("objects", "refs"))
        if (packages := _PACKAGES.fullmatch(change.path)) is not None:
            needed.add(packages["folder"])
    return sorted(needed)


def _tidy(path: str) -> str:
    """Return an absolute path in its plain form, or nothing."""
    return behind_links(posixpath.normpath(path)) if path.startswith("/") else ""


def _is_file(path: str) -> bool:
    """Return whether a path in a text looks like a file's rather than a folder's."""
    return "." in posixpath.basename(path).lstrip(".")


def _parents(path: str) -> list[str]:
    """Return the folders above a path but the top, from the nearest on."""
    found = []
    while (path := posixpath.dirname(path)) != "/":
        found.append(path)
    return found


def _below(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is one of these folders or below one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
