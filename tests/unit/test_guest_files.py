"""Files of a job: regular ones only, never through a link, and removal of one user's files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from case_checks import each_case

from harness.sandbox.guest import files
from harness.sandbox.guest.files import FileRefused


def test_a_written_file_replaces_a_longer_one_and_is_read_back(tmp_path: Path) -> None:
    for data in (b"long text", b"\x00\xff"):
        files.write(str(tmp_path / "new/folder/file"), data, 0o644)
        assert files.read(str(tmp_path / "new/folder/file"), 100) == data


@each_case("mode", [0o600, 0o755, 0o444])
def test_the_mode_does_not_depend_on_the_umask(tmp_path: Path, mode: int) -> None:
    previous = os.umask(0o077)
    try:
        files.write(str(tmp_path / "file"), b"", mode)
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"mine")
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(OSError, match="symbolic links"):
        files.write(str(tmp_path / "link"), b"theirs", 0o644)
    assert (tmp_path / "target").read_bytes() == b"mine"


def test_a_link_is_not_read_through(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"secret")
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(OSError, match="symbolic links"):
        files.read(str(tmp_path / "link"), 100)


def test_a_pipe_without_another_end_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileRefused, match="not a regular file"):
        files.read(str(tmp_path / "pipe"), 100)
    with pytest.raises(OSError, match="No such device"):
        files.write(str(tmp_path / "pipe"), b"x", 0o644)


def test_a_pipe_with_a_reader_is_not_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(FileRefused, match="not a regular file"):
            files.write(str(tmp_path / "pipe"), b"x", 0o644)
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


@each_case("path", ["/dev/zero", "/", "/dev/null"])
def test_an_irregular_file_is_not_read(path: str) -> None:
    with pytest.raises(FileRefused, match="not a regular file"):
        files.read(path, 100)


def test_a_file_is_read_up_to_the_limit_and_a_sparse_terabyte_is_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert files.read(str(tmp_path / "file"), 5) == b"12345"
    for size in (6, 1 << 40):
        os.truncate(tmp_path / "file", size)
        with pytest.raises(FileRefused, match="larger than 5 bytes"):
            files.read(str(tmp_path / "file"), 5)


def test_no_descriptor_is_left_open_by_a_refusal(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for path in ("/dev/zero", str(tmp_path), "/dev/null"):
        with pytest.raises(FileRefused):
            files.read(path, 1)
    assert os.listdir("/proc/self/fd") == before


def test_clearing_leaves_the_folder_and_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("x")
    (tmp_path / "a/dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / ".pipe")
    (tmp_path / "a/b").chmod(0o000)
    files.clear([str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


def test_clearing_does_not_follow_a_link_to_a_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("x")
    (tmp_path / "mine/link").symlink_to(tmp_path / "other")
    files.clear([str(tmp_path / "mine")])
    assert (tmp_path / "other/file").exists()
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to others")
def test_clearing_leaves_files_of_other_users(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    (tmp_path / "theirs").write_text("x")
    os.chown(tmp_path / "theirs", 12345, 12345)
    files.clear([str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_clearing_a_folder_that_is_gone_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    files.clear([str(tmp_path / "gone"), str(tmp_path)])
    assert list(tmp_path.iterdir()) == []
