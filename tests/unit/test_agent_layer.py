"""The layer of a prepared agent: its files belong to root, and nothing reaches beyond the agent's folder."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.sandbox.machine.agent_layer import hash_folder, pack_archive, pack_folder, require_agent_name


def list_members(file: io.BytesIO) -> list[tarfile.TarInfo]:
    file.seek(0)
    with tarfile.open(fileobj=file) as tar:
        return tar.getmembers()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, 0o6777
    made.uid = made.gid = 1000
    return made


def pack(*members: tarfile.TarInfo) -> list[tarfile.TarInfo]:
    archive, layer = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for each in members:
            tar.addfile(each)
    archive.seek(0)
    pack_archive(archive, layer, source="Dockerfile")
    return list_members(layer)


def test_the_files_of_a_folder_belong_to_root_and_have_no_privileges(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir(mode=0o777)
    (tmp_path / "bin" / "agent").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "agent").chmod(0o6777)
    (tmp_path / "notes").write_text("")
    (tmp_path / "link").symlink_to("bin/agent")
    layer = io.BytesIO()
    pack_folder(tmp_path, layer)
    found = {each.name: (oct(each.mode), each.uid, each.gid, each.mtime) for each in list_members(layer)}
    assert found == {
        "bin": ("0o755", 0, 0, 0),
        "bin/agent": ("0o755", 0, 0, 0),
        "link": ("0o777", 0, 0, 0),
        "notes": ("0o644", 0, 0, 0),
    }


@each_case(
    ("name", "mode", "is_there"),
    [
        ("bin/agent", 0o755, True),
        ("bin/agent", 0o644, False),
        ("agent", 0o755, False),
        ("bin/lib/agent", 0o755, False),
    ],
)
def test_only_an_executable_file_in_bin_is_on_the_path(
    tmp_path: Path, name: str, mode: int, is_there: bool
) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(mode)
    assert pack_folder(tmp_path, io.BytesIO()) is is_there


def test_an_archive_loses_its_top_folder_its_owners_and_its_privileges() -> None:
    found = pack(
        member("agent", tarfile.DIRTYPE),
        member("agent/run"),
        member("agent/again", tarfile.LNKTYPE, "agent/run"),
    )
    assert [(each.name, each.linkname, each.mode, each.uid) for each in found] == [
        ("run", "", 0o755, 0),
        ("again", "run", 0o755, 0),
    ]


@each_case(
    "members",
    [
        pytest.param([member("agent/../../usr/bin/python3")], id="above"),
        pytest.param([member("agent//usr/bin/python3")], id="absolute"),
        pytest.param(
            [member("agent/a", tarfile.SYMTYPE, "/usr/bin"), member("agent/a/python3")], id="below a link"
        ),
        pytest.param(
            [member("agent/a", tarfile.SYMTYPE, "/usr/bin/python3"), member("agent/a")], id="through a link"
        ),
        pytest.param([member("agent/a", tarfile.LNKTYPE, "agent/../../etc/passwd")], id="hard link"),
        pytest.param([member("agent/a", tarfile.CHRTYPE)], id="device"),
        pytest.param([member("agent/a", tarfile.FIFOTYPE)], id="pipe"),
        pytest.param([member("agent", tarfile.DIRTYPE)], id="nothing"),
    ],
)
def test_an_archive_that_reaches_beyond_the_agents_folder_is_refused(members: list[tarfile.TarInfo]) -> None:
    with pytest.raises(UsageError, match="Dockerfile: "):
        pack(*members)


def test_the_hash_follows_names_contents_and_executable_bits(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    hashes = [hash_folder(tmp_path)]
    os.utime(file, (1, 1))
    assert hash_folder(tmp_path) == hashes[0]
    file.write_text("2")
    hashes.append(hash_folder(tmp_path))
    file.chmod(0o755)
    hashes.append(hash_folder(tmp_path))
    file.rename(tmp_path / "b")
    hashes.append(hash_folder(tmp_path))
    assert len(set(hashes)) == 4


@each_case("name", ["", "Upper", "a/b", "a:b", "-a", "a..b", "a+b", "x" * 61])
def test_a_name_that_no_image_can_have_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of an agent"):
        require_agent_name(name)
