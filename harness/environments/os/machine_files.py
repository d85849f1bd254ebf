"""Separate the files that a task is about from the machine's tools: commands, libraries and their settings.

An agent that was root may have changed any file, for instance one next to an interpreter, a header, or the
settings of a library. Therefore checks run in a fresh machine, and this module decides which of the agent's
files that machine gets. From folders of tools it gets only the files that this module allows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from harness.environments.os.file_entries import CopyPlan, FileEntry, list_folders

TOOL_FOLDERS = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/opt/harness", "/proc"),
    *("/sbin", "/sys", "/usr"),
)
# Only this part of a tool folder belongs to programs.
SHARED_MEMORY = "/dev/shm"
COMMAND_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")
# No interpreter looks for such a name in its own folder. It looks for names with a dot, and for folders.
COMMAND_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_+-]*(\.sh)?")
# Interpreters of the image are here and look for these folders next to themselves. A link could be one.
INTERPRETER_FOLDERS = ("/usr/sbin", "/usr/bin")
FOLDERS_OF_INTERPRETERS = frozenset(
    ("Lib", "Modules", "etc", "include", "lib", "lib32", "lib64", "libexec", "libx32", "share")
)
# Tools of the image start these by name, and the image lacks some of them.
STARTED_BY_TOOLS = frozenset(
    (
        *("7z", "brotli", "bzip2", "compress", "cpp", "ed", "gpg", "gpg2", "lbzip2", "lz4", "lzip", "lzma"),
        *("lzop", "mail", "mailx", "pbzip2", "pigz", "pinentry", "pixz", "rmt", "rsh", "sendmail", "ssh"),
        *("ssh-askpass", "unlzma", "unzstd", "xdg-open", "xz", "zstd", "zstdcat"),
    )
)
# These files of /etc describe users and jobs. No program loads code or a library from them.
SETTINGS = (
    *("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/subuid", "/etc/subgid", "/etc/hosts"),
    *("/etc/hostname", "/etc/motd", "/etc/sudoers", "/etc/sudoers.d", "/etc/crontab", "/etc/cron.d"),
    *("/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly"),
)
USERS = "/etc/passwd"
MAX_USERS_BYTES = 1 << 20
# These shells are part of the image, so no agent can have replaced them. Each either runs the commands that
# it gets or fails. `true` and `sync` do neither, so every check that acts as their user would pass.
SHELLS = frozenset(
    (
        *("/bin/sh", "/bin/bash", "/bin/dash", "/bin/rbash", "/bin/false"),
        *("/usr/bin/sh", "/usr/bin/bash", "/usr/bin/dash", "/usr/bin/rbash", "/usr/bin/false"),
        *("/sbin/nologin", "/usr/sbin/nologin"),
    )
)
IDLE_SHELLS = frozenset(("/bin/true", "/usr/bin/true", "/bin/sync", "/usr/bin/sync"))
# Every program loads code or libraries through these. A fresh machine keeps its own, whatever a task names.
LOADERS = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/nsswitch.conf"),
    *("/etc/alternatives", "/etc/pam.conf", "/etc/pam.d", "/etc/perl", "/etc/python3", "/etc/python3.11"),
    *("/etc/security", "/etc/ssl"),
)
# A change here is a sign of tampering, because hardly any task asks for one.
WATCHED = (
    *("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/opt/harness", "/usr/bin", "/usr/sbin"),
    *("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/libexec", "/usr/include"),
    *("/usr/local/bin", "/usr/local/sbin", "/usr/local/lib", "/usr/local/include", *LOADERS),
)
# Programs look for their parts here.
PARTS_OF_PROGRAMS = (
    *("/boot", "/dev", "/lib", "/lib32", "/lib64", "/libx32", "/opt/harness", "/proc", "/sys"),
    *("/usr/include", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/libx32"),
    *("/usr/local/include", "/usr/local/lib", *LOADERS),
)
HOMES = ("/root", "/home")
# A task that mentions the tool is about its hidden files.
_TOOLS_OF_HIDDEN_FILES = {".git": "git", ".gitconfig": "git", ".ssh": "ssh", ".vimrc": "vim", ".npmrc": "npm"}
PATH_IN_TEXT = re.compile(r"(?<![\w.~$}/-])(?:/[\w.+@:-]+)+")
# These top-level folders are links to folders of /usr.
_LINKS = re.compile(r"^/(s?bin|lib(?:32|64|x32)?)(?=/)")
_WORD_IN_TEXT = re.compile(r"[\w.+-]+")


def mentioned_names(texts: Iterable[str]) -> frozenset[str]:
    """Return the words in the texts of a task that can be names of files, because the task is about these."""
    words = {word.rstrip(".") for text in texts for word in _WORD_IN_TEXT.findall(text)}
    return frozenset(words)


def named_tool_paths(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the paths in tool folders that the texts of a task name, because the task is about these."""
    found = {path.rstrip(".:-") for text in texts for path in PATH_IN_TEXT.findall(text)}
    plain = {behind_links(path) for path in found if ".." not in path.split("/")}
    tools = (path for path in plain if _is_tool(path, "unknown"))
    return tuple(sorted(path for path in tools if not below(path, LOADERS)))


def behind_links(path: str) -> str:
    """Return a path without the image's links at the top, as `named_tool_paths` does."""
    return _LINKS.sub(r"/usr/\1", str(PurePosixPath(path)))


def commands_of_checks(
    left: Iterable[FileEntry], task: str, checks: Iterable[str], set_up: Collection[bytes]
) -> frozenset[str]:
    """Return the new commands that the checks mention and that nothing asked the agent to make.

    `left` lists the changed files, `task` is the text that the agent saw, `checks` are the texts that it did
    not see, and `set_up` holds the contents of the files of the set-up. The image lacks these commands, so a
    check that calls one would trust the agent's program.
    """
    unseen = mentioned_names(checks) - mentioned_names((task,))
    folders_and_names = (entry.path.rpartition("/") for entry in left)
    names = {name for folder, _, name in folders_and_names if folder in COMMAND_FOLDERS and name in unseen}
    return frozenset(name for name in names if not any(name.encode() in content for content in set_up))


def login_shells(users: bytes) -> Iterator[tuple[str, str]]:
    """Yield name and login shell of each user in the content of /etc/passwd, as the C library reads it."""
    for line in users.decode("utf-8", "backslashreplace").split("\n"):
        fields = line.split(":", 6)
        if len(fields) == 7:
            yield fields[0], fields[6] or "/bin/sh"


def paths_to_describe(
    named: Sequence[str], set_up: Sequence[str] = (), mentioned: Collection[str] = ()
) -> list[str]:
    """Return the paths whose description in a fresh machine `plan_copy` needs."""
    parents = {str(parent) for path in named for parent in PurePosixPath(path).parents}
    of_set_up = (path for path in set_up if path.rpartition("/")[2] in mentioned)
    return sorted({"/", *COMMAND_FOLDERS, *SETTINGS, *named, *parents, *of_set_up})


def plan_tools(before: Sequence[FileEntry]) -> CopyPlan:
    """Return the plan that copies the tools among the files of the set-up before an agent acted."""
    tools = tuple(entry for entry in before if _is_tool(entry.path, entry.kind))
    return CopyPlan(tools, complete=list_folders(tools))


def plan_copy(
    left: Sequence[FileEntry],
    named: Sequence[str],
    fresh: Mapping[str, FileEntry],
    set_up: Sequence[str],
    mentioned: Collection[str] = (),
    of_checks: Collection[str] = (),
) -> CopyPlan:
    """Return the plan that copies the files of an agent into a fresh machine with the tools of the set-up.

    `left` lists every file that was changed since the machine started. `fresh` describes
    `paths_to_describe(named, set_up, mentioned)` in a machine of the same image. `set_up` are the paths that
    the set-up changed, `mentioned` the words of the task, and `of_checks` the result of `commands_of_checks`.
    """
    listed = {entry.path: entry for entry in left}
    wanted = _Wanted(named, fresh, set_up, mentioned, of_checks)
    entries = [entry for entry in left if wanted.includes(entry)]
    entries += _missing_parents(entries, listed, fresh)
    worldly = tuple(sorted(set(entries), key=lambda entry: entry.path))
    complete = list_folders(entry for entry in worldly if wanted.is_complete(entry.path))
    return CopyPlan(worldly, complete=complete, absent=tuple(_absent(listed, fresh, wanted)))


def changed_tools(
    left: Sequence[FileEntry], plan: CopyPlan, fresh: Mapping[str, FileEntry], since_ns: int
) -> list[str]:
    """Return the paths of the tools that were changed, added or removed since that time."""
    copied = {entry.path for entry in plan.entries}
    changed = [
        entry.path
        for entry in left
        if entry.kind != "folder" and entry.ctime_ns >= since_ns and below(entry.path, WATCHED)
    ]
    return [path for path in changed if path not in copied and "/__pycache__/" not in path] + [
        f"{folder}/{name}"
        for folder in COMMAND_FOLDERS
        for entry in left
        if entry.path == folder and entry.ctime_ns >= since_ns and folder in fresh
        for name in sorted(set(fresh[folder].names).difference(entry.names))
    ]


class _Wanted:
    """Decides which files of an agent its fresh copy gets."""

    def __init__(
        self,
        named: Sequence[str],
        fresh: Mapping[str, FileEntry],
        set_up: Sequence[str],
        mentioned: Collection[str],
        of_checks: Collection[str],
    ) -> None:
        self.set_up = [path for path in set_up if _is_tool(path)]
        self._of_checks = of_checks
        self._of_set_up = frozenset(set_up)
        self._mentioned = mentioned
        opened = [path for path in named if self._may_open(path, fresh.get(path))]
        # A folder of the image, where the set-up made a file, has tools as well.
        of_image = {path for path, entry in fresh.items() if entry.kind == "folder"}
        opened += [path for path in self.set_up if path not in of_image and self._is_named_data(path)]
        self._opened = tuple(opened)
        # The names that the image has in each folder that the task names. /etc holds settings of programs.
        self._image_names = {path: fresh[path].names for path in named if path in fresh and path != "/etc"}
        folders = [fresh[folder].names for folder in COMMAND_FOLDERS if folder in fresh]
        self._commands = {name for names in folders for name in names}
        self._commands.update(PurePosixPath(path).name for path in self.set_up)
        self._commands.update(STARTED_BY_TOOLS)

    @staticmethod
    def _may_open(path: str, entry: FileEntry | None) -> bool:
        """Return whether the task is about this path, which is new or belongs to the settings in /etc."""
        if entry is None:
            return not below(path, ("/dev", "/proc", "/sys", "/opt/harness"))
        return path.startswith("/etc/")

    def includes(self, entry: FileEntry) -> bool:
        path = entry.path
        if not _is_tool(path, entry.kind):
            return not self._is_hidden(path)
        if below(path, LOADERS):
            return False
        if not below(path, TOOL_FOLDERS):
            return path[1:] in self._mentioned or self._is_opened(path)
        folder, _, name = path.rpartition("/")
        if folder in COMMAND_FOLDERS and name in self._of_checks and path not in self._of_set_up:
            return False
        if self._is_opened(path) or self._is_new_command(entry):
            return True
        # A task may name a new file by its folder and its name alone.
        names = self._image_names.get(folder)
        return names is not None and name not in names and entry.kind == "file" and self._is_named_data(path)

    def _is_named_data(self, path: str) -> bool:
        """Return whether the task mentions the name of a file that no program takes for a part of itself."""
        folder, _, name = path.rpartition("/")
        if not name or name not in self._mentioned:
            return False
        return folder not in COMMAND_FOLDERS and not below(path, PARTS_OF_PROGRAMS)

    def _is_hidden(self, path: str) -> bool:
        """Return whether a path is hidden or in a hidden folder, and the task is not about it.

        Programs of the image such as curl, jq, sqlite3 and login shells read their settings there. A link or
        /etc/passwd can make any folder a home, so this holds everywhere.
        """
        steps = (PurePosixPath(path), *PurePosixPath(path).parents)
        return any(step.name.startswith(".") and not self._is_meant(step) for step in steps)

    def _is_meant(self, hidden: PurePosixPath) -> bool:
        """Return whether the set-up made this hidden file, or the task is about it."""
        name = hidden.name
        if str(hidden) in self._of_set_up or name in self._mentioned:
            return True
        if _TOOLS_OF_HIDDEN_FILES.get(name) in self._mentioned:
            return True
        return "hidden" in self._mentioned and not below(str(hidden), HOMES)

    def is_complete(self, path: str) -> bool:
        return not _is_tool(path) or self._is_opened(path)

    def _is_opened(self, path: str) -> bool:
        return below(path, SETTINGS) or below(path, self._opened)

    def _is_new_command(self, entry: FileEntry) -> bool:
        folder, _, name = entry.path.rpartition("/")
        runs = entry.kind == "link" or (entry.kind == "file" and entry.mode & 0o111 != 0)
        if folder not in COMMAND_FOLDERS or not runs or name in self._commands:
            return False
        if entry.kind == "link" and folder in INTERPRETER_FOLDERS and name in FOLDERS_OF_INTERPRETERS:
            return False
        return COMMAND_NAME.fullmatch(name) is not None or name in self._mentioned


def _missing_parents(
    entries: Sequence[FileEntry], listed: Mapping[str, FileEntry], fresh: Mapping[str, FileEntry]
) -> Iterator[FileEntry]:
    """Yield the new folders that contain named files."""
    for entry in entries:
        for parent in PurePosixPath(entry.path).parents:
            found = listed.get(str(parent))
            if found is not None and _is_tool(found.path) and found.path not in fresh:
                yield found


def _absent(
    listed: Mapping[str, FileEntry], fresh: Mapping[str, FileEntry], wanted: _Wanted
) -> Iterator[str]:
    """Yield the files of the image and of the set-up that the agent removed from folders of tools."""
    top = listed.get("/")
    if top is not None and "/" in fresh:
        gone = set(fresh["/"].names).difference(top.names)
        yield from sorted(f"/{name}" for name in gone if not _is_tool(f"/{name}"))
    for path in sorted(fresh):
        folder, _, name = path.rpartition("/")
        parent = listed.get(folder or "/")
        if parent is not None and name not in parent.names and _is_tool(path) and wanted.is_complete(path):
            yield path
    for path in wanted.set_up:
        if path not in listed and wanted.is_complete(path):
            yield path


def _is_tool(path: str, kind: str = "folder") -> bool:
    # A file at the top is one folder above the commands, where an interpreter looks for its settings.
    if path == "/" or (kind != "folder" and path.count("/") == 1):
        return True
    return below(path, TOOL_FOLDERS) and not below(path, (SHARED_MEMORY,))


def below(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is one of these folders or below one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
