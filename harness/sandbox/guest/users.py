"""Give each job a user and a folder, and prove at its end that nothing of either is left."""

from __future__ import annotations

import os

from . import files, processes, timestamps

CLEAR_SECONDS = 10.0


class User:
    """A user id and the folder that only it can enter.

    `groups` starts with the main group. Without any, the user is alone in the group of its own number.
    """

    def __init__(self, uid: int, folder: str, groups: tuple[int, ...] = ()) -> None:
        self.uid = uid
        self.folder = folder
        self.groups = groups


class Users:
    """Hands out users. Their ids are random, and none is used twice in the life of a container.

    Neither an id nor the name of a folder reveals how many users there were before.
    """

    def __init__(self, first_uid: int, last_uid: int, work_folder: str, shared_folders: list[str]) -> None:
        self._first_uid = first_uid
        self._number_of_uids = last_uid - first_uid + 1
        self._used: set[int] = set()
        # The number of folders that were made.
        self.folders_made = 0
        self._work_folder = work_folder
        self._shared_folders = shared_folders
        self._timed = timestamps.list_shared_paths(work_folder, shared_folders)

    @property
    def is_running_out(self) -> bool:
        """Whether more than half of the user ids are used, so that another container should follow."""
        return 2 * len(self._used) > self._number_of_uids

    def open(self, name: str | None = None) -> User:
        """Return a new user with an empty folder. Raises OSError if the folder cannot be made.

        The times of shared paths are reset here, so that they reveal nothing of earlier users.
        """
        uid = self.identify()
        folder = os.path.join(self._work_folder, name or str(uid))
        os.mkdir(folder, 0o700)
        self.folders_made += 1
        os.chown(folder, uid, uid)
        timestamps.reset_times(self._timed)
        return User(uid, folder)

    def identify(self) -> int:
        """Return a fresh user id that needs no folder. Raises OSError if none is left."""
        if len(self._used) >= self._number_of_uids:
            raise OSError("this container has used up its user ids")
        while True:
            uid = self._first_uid + int.from_bytes(os.urandom(8), "big") % self._number_of_uids
            if uid not in self._used:
                self._used.add(uid)
                return uid

    def close(self, user: User) -> bool:
        """End every process of the user and remove every file; return whether nothing is left."""
        if not processes.end_processes(frozenset((user.uid,))):
            return False
        if not _remove_if_empty(user.folder) or self._has_left_files(user.uid):
            self._clear(user)
        return _remove_if_empty(user.folder) and not self._has_left_files(user.uid)

    def _clear(self, user: User) -> None:
        try:
            pid = os.fork()
        except BlockingIOError:
            return  # the limit on processes is reached; the caller finds and reports the files that are left
        if pid:
            os.waitpid(pid, 0)
            return
        try:
            limits = {"cpu_seconds": int(CLEAR_SECONDS), "file_bytes": 0, "open_files": 64}
            processes.become(user.uid, "/", limits, [])
            files.clear([user.folder, *self._shared_folders])
        finally:
            os._exit(0)

    def _has_left_files(self, uid: int) -> bool:
        """Return whether the user has left a file in the folders that all users share."""
        for folder in self._shared_folders:
            try:
                names = os.listdir(folder)
            except OSError:
                continue
            for name in names:
                try:
                    if os.lstat(os.path.join(folder, name)).st_uid == uid:
                        return True
                except OSError:
                    continue
        return False


def _remove_if_empty(folder: str) -> bool:
    """Remove the folder if it is empty, and return whether it is gone.

    PID 1 needs no right to enter the folder, because the folder's parent belongs to root.
    """
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
