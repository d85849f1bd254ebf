"""Folders and archives as trees of files: their contents, and the refusal of hostile archives."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from case_checks import each_case

from harness.benchmarks.data.tree import Tree, read_tree
from harness.core.errors import DataError

FILES = {"a.json": b"[1]", "b/c.json": b"[2]", "b/d.txt": b"text"}


def everything(_name: str) -> bool:
    return True


def folder(path: Path, files: dict[str, bytes] = FILES) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def tar(path: Path, files: dict[str, bytes] = FILES, *more: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as archive:
        for member in more:
            archive.addfile(member)
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def zipped(path: Path, files: dict[str, bytes] = FILES) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


MAKERS: dict[str, Callable[[Path], Path]] = {"folder": folder, "x.tar.gz": tar, "x.tgz": tar, "x.tar": tar}
MAKERS["x.zip"] = zipped


@each_case("name", MAKERS)
def test_the_same_files_are_found_in_a_folder_and_in_every_archive(tmp_path: Path, name: str) -> None:
    tree = read_tree(MAKERS[name](tmp_path / name), lambda name: name.endswith(".json"))
    assert list(tree.names) == sorted(FILES)
    assert tree.contents == {"a.json": b"[1]", "b/c.json": b"[2]"}


def test_an_error_can_name_the_archive_and_the_member(tmp_path: Path) -> None:
    path = tar(tmp_path / "x.tgz")
    assert str(read_tree(path, everything).places["b/c.json"]) == f"{path}: b/c.json"


def test_names_are_plain_for_every_packer(tmp_path: Path) -> None:
    assert list(read_tree(tar(tmp_path / "x.tar", {"./b//c.json": b""}), everything).names) == ["b/c.json"]


def test_files_of_the_operating_system_in_archives_are_left_out(tmp_path: Path) -> None:
    files = {"._a.json": b"", "__MACOSX/a.json": b"", ".git/x": b"", "a.json": b""}
    assert list(read_tree(zipped(tmp_path / "x.zip", files), everything).names) == ["a.json"]


@each_case("name", ["../a.json", "/etc/a.json", "b/../../a.json", "..\\a.json"])
@each_case("archive", ["x.tar", "x.zip"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, archive: str, name: str) -> None:
    with pytest.raises(DataError, match="leads out of the archive"):
        read_tree(MAKERS[archive](tmp_path / archive, {name: b"[]"}), everything)  # type: ignore[call-arg]


@each_case("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_a_link_or_device_for_a_wanted_file_is_refused(tmp_path: Path, kind: bytes) -> None:
    path = tar(tmp_path / "x.tar", {}, link("a.json", "/etc/passwd", kind))
    with pytest.raises(DataError, match=r"x\.tar: a\.json: is not a plain file"):
        read_tree(path, everything)


def test_a_link_that_nobody_wants_is_left_out(tmp_path: Path) -> None:
    path = tar(tmp_path / "x.tar", FILES, link("l.txt", "/etc/passwd"))
    assert "l.txt" not in read_tree(path, lambda name: name.endswith(".json")).names


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    member = zipfile.ZipInfo("a.json")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(DataError, match="is not a plain file"):
        read_tree(tmp_path / "x.zip", everything)


def test_a_member_given_twice_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("a.json"))
        archive.addfile(tarfile.TarInfo("./a.json"))
    with pytest.raises(DataError, match="twice"):
        read_tree(tmp_path / "x.tar", everything)


@each_case("name", ["x.tgz", "x.zip"])
@each_case("wanted", [True, False])
def test_a_bomb_is_refused(tmp_path: Path, name: str, wanted: bool) -> None:
    path = MAKERS[name](tmp_path / name, {"a.json": bytes(3_000_000)})  # type: ignore[call-arg]
    assert path.stat().st_size < 10_000
    if name.endswith("zip") and not wanted:
        assert (
            read_tree(path, lambda _: wanted, max_bytes=1_000_000).contents == {}
        )  # The bomb is never unpacked.
        return
    with pytest.raises(DataError, match="more than 1,000,000 bytes"):
        read_tree(path, lambda _: wanted, max_bytes=1_000_000)


def test_a_header_that_claims_more_than_there_is_is_refused(tmp_path: Path) -> None:
    member = tarfile.TarInfo("a.json")
    member.size = 1 << 50
    (tmp_path / "x.tgz").write_bytes(gzip.compress(member.tobuf() + bytes(1024)))
    with pytest.raises(DataError):
        read_tree(tmp_path / "x.tgz", everything)


def test_a_sparse_file_is_refused(tmp_path: Path) -> None:
    member = tarfile.TarInfo("a.json")
    member.type = tarfile.GNUTYPE_SPARSE
    with pytest.raises(DataError):
        read_tree(tar(tmp_path / "x.tar", {}, member), everything)


@each_case("name", MAKERS)
def test_too_many_files_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="more than 2 files"):
        read_tree(MAKERS[name](tmp_path / name), everything, max_files=2)


def test_a_folder_is_bounded_in_bytes_too(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="more than 5 bytes"):
        read_tree(folder(tmp_path), everything, max_bytes=5)


@each_case("name", ["x.tar.gz", "x.tar", "x.zip"])
def test_a_damaged_archive_is_refused(tmp_path: Path, name: str) -> None:
    path = MAKERS[name](tmp_path / name)
    path.write_bytes(path.read_bytes()[: 60 if name != "x.tar" else 700])
    with pytest.raises(DataError, match="damaged archive"):
        read_tree(path, everything)


def test_a_folder_that_holds_itself_is_read_once(tmp_path: Path) -> None:
    folder(tmp_path / "f")
    (tmp_path / "f" / "loop").symlink_to(tmp_path / "f")
    assert list(read_tree(tmp_path / "f", everything).names) == sorted(FILES)


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        read_tree(tmp_path / "x.zip", everything)


def test_renamed_files_keep_their_origin(tmp_path: Path) -> None:
    tree: Tree = read_tree(folder(tmp_path), everything).rename(lambda name: f"z/{name}")
    assert tree.contents["z/a.json"] == b"[1]"
    assert tree.places["z/a.json"] == tmp_path / "a.json"
