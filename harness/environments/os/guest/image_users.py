"""Look up users in the lists of an image, as container engines do. The image may lack the tools for that."""

from __future__ import annotations

import os

from harness.sandbox.guest.users import User

USERS, GROUPS = "/etc/passwd", "/etc/group"
MAX_LIST_BYTES = 1 << 20
MOST_GROUPS = 1000
ROOT_HOME, NO_HOME = "/root", "/"


class ImageUser:
    """A user of the machine, with its home and its name, which is empty if the list has no such number."""

    def __init__(self, user: User, name: str) -> None:
        self.user = user
        self.name = name

    def describe(self) -> dict[str, str]:
        """Return the variables that name the user."""
        named = {"USER": self.name, "LOGNAME": self.name} if self.name else {}
        return {"HOME": self.user.folder, **named}


def find_user(text: str) -> ImageUser:
    """Return the user for `user` or `user:group`, each a name or a number; empty text means root.

    Raises ValueError for a name that the machine does not have.
    """
    user, _, group = text.partition(":")
    user = user or "0"
    name, uid, gid, home = _find_entry(user)
    groups = [gid]
    if group:
        groups = [_find_group(group)]
    elif name:
        of_user = (_to_id(parts[2]) for parts in _read(GROUPS, 4) if name in parts[3].split(","))
        groups += [each for each in of_user if each is not None and each != gid]
    return ImageUser(User(uid, home, tuple(groups[:MOST_GROUPS])), name)


def _find_entry(user: str) -> tuple[str, int, int, str]:
    for parts in _read(USERS, 7):
        uid, gid = _to_id(parts[2]), _to_id(parts[3])
        if uid is not None and gid is not None and (parts[0] == user or str(uid) == user):
            return parts[0], uid, gid, parts[5] or NO_HOME
    # An image without a list of users has root nevertheless.
    number = 0 if user == "root" else _to_id(user)
    if number is None:
        raise ValueError(f"the image has no user '{user}'")
    return "", number, 0, ROOT_HOME if number == 0 else NO_HOME


def _find_group(group: str) -> int:
    for parts in _read(GROUPS, 4):
        gid = _to_id(parts[2])
        if gid is not None and (parts[0] == group or str(gid) == group):
            return gid
    number = _to_id(group)
    if number is None:
        raise ValueError(f"the image has no group '{group}'")
    return number


def _read(path: str, fields: int) -> list[list[str]]:
    """Return the lines of a list of users or groups, split into their fields. Other lines are left out."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        text = os.read(descriptor, MAX_LIST_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return []
    finally:
        os.close(descriptor)
    lines = (line.split(":") for line in text.splitlines())
    return [parts for parts in lines if len(parts) >= fields]


def _to_id(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 11 else None
