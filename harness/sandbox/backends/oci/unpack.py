"""Unpack one layer of an image from stdin into a folder, which becomes the root of this process.

It runs as a process of its own, because a hostile archive could have links that lead out of the folder. It
uses the standard library only, and can import nothing once it has changed its root, because the modules there
are the image's.
"""

from __future__ import annotations

import bz2  # noqa: F401
import contextlib
import encodings.idna  # noqa: F401
import gzip  # noqa: F401
import lzma  # noqa: F401
import os
import shutil
import stat
import sys
import tarfile

WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"


def unpack(archive: tarfile.TarFile) -> None:
    """Add the members of a layer to the root, with the owners and modes that they have in the archive."""
    folders: dict[str, tarfile.TarInfo] = {}
    for member in archive:
        path = os.path.normpath("/" + member.name)
        parent, name = os.path.split(path)
        if name == OPAQUE:
            for other in os.listdir(parent) if os.path.isdir(parent) else []:
                if os.path.join(parent, other) not in folders:
                    remove(os.path.join(parent, other))
            continue
        if name.startswith(WHITEOUT):
            remove(os.path.join(parent, name.removeprefix(WHITEOUT)))
            continue
        if path != "/" and not (member.isdir() and is_folder(path)):
            remove(path)
        os.makedirs(parent, exist_ok=True)
        if member.islnk():
            member.linkname = os.path.normpath("/" + member.linkname)
            os.link(member.linkname, path, follow_symlinks=False)
            continue
        member.name = path
        if member.isdir():
            folders[path] = member
            os.makedirs(path, exist_ok=True)
            os.chown(path, member.uid, member.gid)
            os.chmod(path, member.mode)
            continue
        if member.ischr() or member.isblk():
            # No sandbox has devices of its image.
            continue
        archive._extract_member(member, path, numeric_owner=True)
    for path, member in folders.items():
        with contextlib.suppress(OSError):
            os.utime(path, (member.mtime, member.mtime))


def is_folder(path: str) -> bool:
    """Return whether there is a folder, and no link to one."""
    with contextlib.suppress(OSError):
        return stat.S_ISDIR(os.lstat(path).st_mode)
    return False


def remove(path: str) -> None:
    """Remove a file or a folder, if there is one."""
    if is_folder(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)


def main() -> None:
    os.umask(0o022)
    os.chroot(sys.argv[1])
    os.chdir("/")
    os.chown("/", 0, 0)
    sys.meta_path.clear()
    try:
        with tarfile.open(fileobj=sys.stdin.buffer, mode="r|*") as archive:
            unpack(archive)
    except BaseException as error:
        # A traceback would read the sources, and import the codecs that these name.
        os.write(2, ascii(error).encode())
        os._exit(1)


if __name__ == "__main__":
    main()
