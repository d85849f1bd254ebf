"""Describe a task and its image to the rules of the seal: folders of tools, and folders of the work."""

from __future__ import annotations

import functools
import posixpath
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harness.environments.os.machine_files import (
    COMMAND_FOLDERS,
    PATH_IN_TEXT,
    SHARED_MEMORY,
    STARTED_BY_TOOLS,
    TOOL_FOLDERS,
    behind_links,
    below,
    mentioned_names,
)

# Package managers believe these files about what is installed and where more of it comes from.
_PACKAGE_DATA = ("/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm", "/var/lib/pacman", "/var/cache")
# pytest imports these if they are there, and most images lack some of them.
_IMPORTED_IF_FOUND = frozenset(
    (
        *("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "tomli"),
        *("argcomplete", "attr", "py", "xdist", "colorama", "setuptools", "pkg_resources", "numpy", "pip"),
    )
)
# Well-known packages import these if they are there. No module of a task has such a name by chance.
OPTIONAL_MODULES = frozenset(
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
_VERSIONS = tuple(f"python3.{minor}" for minor in range(6, 16))
LIBRARY_FOLDERS = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"),
    *("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"),
)
# A file that a task names there does not make the whole folder the task's.
_SHARED_FOLDERS = frozenset(("/", "/tmp", "/var", "/var/tmp", "/home", "/root", "/opt", "/srv", "/mnt"))
# A line of METADATA, or of requires.txt. Other lines of METADATA have a colon or begin with a blank.
_REQUIRED = re.compile(r"(?:Requires-Dist:\s*)?([A-Za-z][\w.-]*)(?![\w.-]*:)(?=\s*(?:[\[(;<>=!~]|$))")
_DEVELOPMENT = re.compile(r"extra\s*==\s*[\"']\w*(?:test|dev|doc|lint|build|typing|check|cover)")
# A virtual environment of Python has this file at its top.
VIRTUAL = "pyvenv.cfg"
_MOST_FOLDERS = 200
# The kernel follows no more.
_MOST_LINKS = 40
_CHANGE_OF_FOLDER = re.compile(r"\b(?:cd|pushd)\s+(?:--\s+)?[\"']?([\w./+@${}-]+)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_PLAIN_WORD = re.compile(r"[A-Za-z]+")


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
    # The names of packages that the image's packages import if they are there (`find_optional`).
    optional: frozenset[str] = frozenset()
    # All changed paths.
    changed: frozenset[str] = frozenset()
    # The links among the changes, and the image's links that lead to its own folders, with their targets.
    links: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def mentioned(self) -> frozenset[str]:
        return mentioned_names((self.instruction,))

    @functools.cached_property
    def named(self) -> frozenset[str]:
        """The absolute paths in the instruction."""
        found = (path.rstrip(".:-") for path in PATH_IN_TEXT.findall(self.instruction))
        return frozenset(behind_links(path) for path in found if ".." not in path.split("/"))

    @functools.cached_property
    def search_path(self) -> tuple[str, ...]:
        """The folders where the image looks for commands."""
        folders = map(_tidy, self.environment.get("PATH", "").split(":"))
        return self._with_targets((*filter(None, folders), *COMMAND_FOLDERS))

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
    def start_folders(self) -> frozenset[str]:
        """The folders where an interpreter looks for modules first, also by the way of an agent's links."""
        listed = (
            value for name, value in self.environment.items() if name.endswith("PATH") and name != "PATH"
        )
        named = (folder for value in listed for folder in value.split(":"))
        folders = ["/", self.workdir, *filter(None, map(_tidy, named))]
        for text in _CHANGE_OF_FOLDER.findall(self.script):
            moved = _VARIABLE.sub(lambda found: self.environment.get(found[1] or found[2], ""), text)
            folders += [_tidy(posixpath.join(folder, moved)) for folder in (folders if moved else ())]
            folders = list(dict.fromkeys(folders))[:_MOST_FOLDERS]
        led = {self.follow(folder) for folder in self.package_folders}.difference(self.package_folders)
        return frozenset(self._with_targets((*folders, *led)))

    @functools.cached_property
    def searched_folders(self) -> frozenset[str]:
        """The folders where a tool looks for its settings: where it starts, and above."""
        return frozenset(step for folder in self.start_folders for step in (folder, *parents(folder)))

    def _with_targets(self, folders: Iterable[str]) -> tuple[str, ...]:
        both = (each for folder in folders for each in (folder, self.follow(folder)))
        return tuple(dict.fromkeys(both))

    def follow(self, path: str) -> str:
        """Return where a path leads by the known links."""
        for _link in range(_MOST_LINKS):
            for step in (path, *parents(path)):
                if step in self.links:
                    rest = path[len(step) :].lstrip("/")
                    path = _tidy(posixpath.join(posixpath.dirname(step), self.links[step], rest))
                    break
            else:
                break
        return path

    @functools.cached_property
    def package_folders(self) -> tuple[str, ...]:
        """The folders where the image may have modules of Python."""
        own = (folder for folder in self.tool_folders if folder not in TOOL_FOLDERS)
        trees = ("/usr", "/usr/local", *own, *self.virtual_environments)
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
            sys.stdlib_module_names
            | _IMPORTED_IF_FOUND
            | self.optional
            | {name.partition(".")[0] for name in names}
        )

    @property
    def lists_of_packages(self) -> list[str]:
        """The files where the packages of the image may name the packages that they use."""
        return [
            f"{folder}/{name}/{file}"
            for folder in self.package_folders
            for name in sorted(self.image[folder].names if folder in self.image else ())
            for suffix, file in ((".dist-info", "METADATA"), (".egg-info", "requires.txt"))
            if name.endswith(suffix)
        ]

    @functools.cached_property
    def commands(self) -> frozenset[str]:
        return self._names_in(self.search_path) | STARTED_BY_TOOLS

    def is_called_by_tests(self, command: str) -> bool:
        """Return whether the tests may call a command that the task does not ask for."""
        return command in mentioned_names((self.script,)) and command not in self.mentioned

    @functools.cached_property
    def folded_words(self) -> frozenset[str]:
        """The words in the instruction, in small letters."""
        return frozenset(word.lower() for word in self.mentioned)

    @functools.cached_property
    def libraries(self) -> frozenset[str]:
        return self._names_in(LIBRARY_FOLDERS)

    def _names_in(self, folders: Iterable[str]) -> frozenset[str]:
        return frozenset(
            name for folder in folders if folder in self.image for name in self.image[folder].names
        )

    @functools.cached_property
    def virtual_environments(self) -> tuple[str, ...]:
        """The virtual environments of Python that the image has, unless the task starts in one."""
        found = (posixpath.dirname(path) for path in self.image if path.endswith(f"/{VIRTUAL}"))
        return tuple(folder for folder in found if not below(self.workdir, (folder,)))

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
        return below(path, self.work_folders)

    @functools.cached_property
    def work_folders(self) -> tuple[str, ...]:
        folders = {posixpath.dirname(path) if _is_file(path) else path for path in self.named}
        folders = {self.workdir, *self.named, *folders} - _SHARED_FOLDERS
        return tuple(sorted(folder for folder in folders if not self.is_tool(folder)))

    def is_tool(self, path: str, kind: str = "folder") -> bool:
        """Return whether a path belongs to tools of the image. A file at the top is above the commands."""
        if kind != "folder" and path.count("/") == 1:
            return True
        return below(path, self._all_tool_folders) and not below(path, (SHARED_MEMORY,))

    @functools.cached_property
    def _all_tool_folders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.tool_folders, *self.virtual_environments)))


def find_optional(lists: Iterable[str]) -> frozenset[str]:
    """Return the names of modules that packages use, from the texts of `lists_of_packages`.

    Those for the development of a package are left out, because its users import none of them.
    """
    found = set()
    for line in "\n".join(lists).splitlines():
        named = _REQUIRED.match(line)
        if named is not None and not _DEVELOPMENT.search(line):
            found.add(re.sub(r"[-.]", "_", named[1]))
    return frozenset(found | {name.lower() for name in found})


def _tidy(path: str) -> str:
    """Return an absolute path in its plain form, or nothing."""
    return behind_links(posixpath.normpath(path)) if path.startswith("/") else ""


def _is_file(path: str) -> bool:
    """Return whether a path in a text looks like a file's rather than a folder's."""
    return "." in posixpath.basename(path).lstrip(".")


def parents(path: str) -> list[str]:
    """Return the folders above a path but the top, from the nearest on."""
    found = []
    while (path := posixpath.dirname(path)) != "/":
        found.append(path)
    return found
