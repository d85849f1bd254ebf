"""Files that a task is about are distinguished from tools and from files that steer tools."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from case_checks import each_case

from harness.core.errors import SandboxError
from harness.environments.os.file_entries import FileEntry, file_entries
from harness.environments.os.machine_files import (
    IDLE_SHELLS,
    SHELLS,
    changed_tools,
    commands_of_checks,
    login_shells,
    mentioned_names,
    named_tool_paths,
    plan_copy,
    plan_tools,
)

BEGAN = 100


def entry(path: str, kind: str = "file", *names: str, mode: int = 0o644, changed: int = BEGAN) -> FileEntry:
    return FileEntry(path, kind, mode, 0, 0, 0, changed, names=names)  # type: ignore[arg-type]


FRESH = {
    each.path: each
    for each in (
        entry("/", "folder", "home", "srv", "usr", "etc"),
        entry("/usr", "folder", "bin", "local"),
        entry("/usr/bin", "folder", "wc", "python3"),
        entry("/usr/local/bin", "folder"),
        entry("/etc", "folder", "passwd", "motd", "profile"),
        entry("/etc/passwd"),
        entry("/etc/motd"),
    )
}


def copied(
    *left: FileEntry,
    named: tuple[str, ...] = (),
    set_up: tuple[str, ...] = (),
    mentioned: tuple[str, ...] = (),
    of_checks: tuple[str, ...] = (),
) -> list[str]:
    return [each.path for each in plan_copy(left, named, FRESH, set_up, mentioned, of_checks).entries]


COPIED = (
    *("/root/x", "/home/jack/x/bashrc", "/tmp/x", "/var/log/x", "/data/x", "/dev/shm/x", "/opt/x"),
    *("/etc/passwd", "/etc/cron.d/job", "/srv/pyvenv.cfg"),
)
NEAR_TOOLS = (
    *("/pyvenv.cfg", "/usr/pyvenv.cfg", "/usr/bin/pyvenv.cfg", "/usr/bin/python3._pth", "/usr/bin/re.py"),
    *("/usr/bin/lib/python3.11/os.py", "/etc/profile", "/etc/ld.so.preload", "/etc/pam.d/su", "/dev/null"),
    *("/opt/harness/harness/sandbox/guest/main.py", "/boot/x", "/lib/x", "/.profile"),
)


def test_files_of_programs_and_settings_about_users_are_copied() -> None:
    assert copied(*map(entry, COPIED)) == sorted(COPIED)


def test_other_files_near_tools_are_not_copied() -> None:
    assert copied(*(entry(path, mode=0o755) for path in NEAR_TOOLS)) == []


def test_a_new_command_is_copied_and_one_that_hides_another_is_not() -> None:
    left = [entry(f"/usr/local/bin/{name}", mode=0o755) for name in ("calc", "wc", "count.sh", "as.py")]
    assert copied(*left) == ["/usr/local/bin/calc", "/usr/local/bin/count.sh"]


CALC, SCRIPT = "/usr/local/bin/calc", "/usr/local/bin/three.py"


@each_case(
    ("path", "mode", "facts"),
    [
        pytest.param(CALC, 0o644, {}, id="it cannot be run"),
        pytest.param(CALC, 0o755, {"set_up": (CALC,)}, id="it is a command of the set-up"),
        pytest.param(CALC, 0o755, {"of_checks": ("calc",)}, id="the checks alone mention it"),
        pytest.param(CALC, 0o755, {"of_checks": ("calc",), "named": (CALC,)}, id="the checks name its path"),
        pytest.param("/usr/local/bin/zstd", 0o755, {}, id="tools start it by themselves"),
        pytest.param(SCRIPT, 0o755, {}, id="its name is strange"),
    ],
)
def test_these_commands_are_not_copied(path: str, mode: int, facts: dict[str, tuple[str, ...]]) -> None:
    assert copied(entry(path, mode=mode), **facts) == []


@each_case(
    ("path", "hidden"),
    [
        ("/root/.curlrc", "/root/.curlrc"),
        ("/home/jack/.config/x/y", "/home/jack/.config"),
        # A home that is named by a link or by /etc/passwd.
        ("/srv/anywhere/.profile", "/srv/anywhere/.profile"),
        ("/tmp/.x/y", "/tmp/.x"),
    ],
)
def test_hidden_files_are_not_copied_unless_the_task_is_about_them(path: str, hidden: str) -> None:
    assert copied(entry(path)) == []
    assert copied(entry(path), mentioned=(hidden.rpartition("/")[2],)) == [path]
    assert copied(entry(path), set_up=(hidden,)) == [path]


@each_case(
    ("path", "mentioned"),
    [
        ("/data/.x", "hidden"),
        # The settings of a tool.
        ("/root/.gitconfig", "git"),
        # A command with a strange name, and a file at the top.
        (SCRIPT, "three.py"),
        ("/answer.txt", "answer.txt"),
    ],
)
def test_a_file_that_the_task_mentions_is_copied(path: str, mentioned: str) -> None:
    assert copied(entry(path, mode=0o755), mentioned=(mentioned,)) == [path]


def test_a_task_about_hidden_files_gets_none_of_homes() -> None:
    assert copied(entry("/home/jack/.x"), mentioned=("hidden",)) == []


def test_a_link_that_replaces_a_folder_of_tools_is_never_copied() -> None:
    for name in ("bin", "lib", "etc", "usr"):
        assert copied(entry(f"/{name}", "link"), mentioned=(name,), named=(f"/{name}/grep",)) == []
    # An interpreter would take these for its folders of modules.
    assert copied(*(entry(f"/usr/bin/{name}", "link") for name in ("lib", "Modules", "share"))) == []


def test_words_of_a_task_are_found() -> None:
    assert {".bashrc", "answer.txt", "git"} <= mentioned_names(["Put it in ~/.bashrc; answer.txt. Use git."])


def test_a_path_through_a_link_of_the_image_is_that_of_its_target() -> None:
    assert named_tool_paths(["ls /lib/systemd/system/a.service /bin/x"]) == (
        "/usr/bin/x",
        "/usr/lib/systemd/system/a.service",
    )


@each_case(
    ("line", "shell"),
    [
        ("root:x:0:0:root:/root:/bin/bash", "/bin/bash"),
        ("root:x:0:0::/root:", "/bin/sh"),
        # Other line separators, blanks and further colons are parts of a field.
        ("root:x:0:0:a\x0cb\x85c:/root:/root/x", "/root/x"),
        ("root:x:0:0::/root:/bin/bash ", "/bin/bash "),
        ("root:x:0:0::/root:/bin/bash:x", "/bin/bash:x"),
    ],
)
def test_login_shells_are_read_as_the_c_library_reads_them(line: str, shell: str) -> None:
    assert list(login_shells(f"broken\n{line}\n".encode())) == [("root", shell)]


def test_paths_that_a_task_names_are_found() -> None:
    text = "Copy '/etc/app.conf' to /usr/share/app/, not to ~/etc/x or $HOME/usr/x; see http://a.b/usr/c."
    assert named_tool_paths([text]) == ("/etc/app.conf", "/usr/share/app")


def test_a_task_can_name_nothing_that_code_is_loaded_from() -> None:
    assert named_tool_paths(["cat /etc/ld.so.preload /etc/pam.d/su /usr/../etc/ssl/x"]) == ()


def test_files_that_code_is_loaded_from_are_not_copied_though_named() -> None:
    assert copied(entry("/etc/ssl/openssl.cnf"), named=("/etc/ssl/openssl.cnf",)) == []


def test_a_named_new_file_comes_with_the_folders_that_it_lies_in() -> None:
    left = (entry("/usr/share/app", "folder", "x", "y"), entry("/usr/share/app/x"), entry("/usr/share/app/y"))
    assert copied(*left, named=("/usr/share/app/x",)) == ["/usr/share/app", "/usr/share/app/x"]


def test_a_file_of_the_set_up_may_be_named_without_its_folder() -> None:
    left = (entry("/usr/stock.log"), entry("/usr/other.log"), entry("/usr/lib/stock.log"))
    set_up = tuple(each.path for each in left)
    assert copied(*left, mentioned=("stock.log", ""), set_up=set_up) == ["/usr/stock.log"]


def test_a_new_file_may_be_named_by_its_folder_and_its_name_apart() -> None:
    left = (entry("/usr/bin/new"), entry("/usr/new"), entry("/usr/other"))
    assert copied(*left, mentioned=("new",), named=("/usr", "/usr/bin")) == ["/usr/new"]
    assert copied(*left, mentioned=("new",)) == []


def test_a_named_folder_of_the_image_opens_nothing_that_lies_in_it() -> None:
    assert copied(entry("/usr/bin/pyvenv.cfg"), named=("/usr/bin", "/usr/bin/wc")) == []


def test_a_mentioned_folder_of_the_image_opens_nothing_though_the_set_up_changed_it() -> None:
    left = (entry("/usr/bin/new.py", mode=0o755), entry("/usr/bin/wc", mode=0o755), entry("/usr/local/x"))
    assert copied(*left, set_up=("/usr", "/usr/bin"), mentioned=("usr", "bin")) == []
    assert copied(entry("/usr/made/x"), set_up=("/usr/made",), mentioned=("made",)) == ["/usr/made/x"]


def test_only_complete_folders_lose_files() -> None:
    left = (entry("/srv", "folder"), entry("/usr/bin", "folder"), entry("/etc/cron.d", "folder"))
    assert plan_copy(left, (), FRESH, ()).complete == {"/srv", "/etc/cron.d"}


def test_removed_files_are_absent() -> None:
    left = (entry("/", "folder", "home", "usr", "etc"), entry("/etc", "folder", "motd", "profile"))
    plan = plan_copy(left, ("/usr/stock.log",), FRESH, ("/usr/stock.log",))
    assert plan.absent == ("/srv", "/etc/passwd", "/usr/stock.log")


def test_tools_of_the_set_up_are_distinguished_from_its_other_files() -> None:
    before = (entry("/root/x"), entry("/usr/bin", "folder", "wc"), entry("/usr/bin/wc"))
    plan = plan_tools(before)
    assert [each.path for each in plan.entries] == ["/usr/bin", "/usr/bin/wc"]
    assert plan.complete == {"/usr/bin"}


def test_changed_and_removed_tools_are_reported() -> None:
    left = [entry("/usr/bin", "folder", "python3"), entry("/usr/bin/python3"), entry("/usr/share/x")]
    left.append(replace(entry("/usr/lib/old"), ctime_ns=BEGAN - 1))
    plan = plan_copy(left, (), FRESH, ())
    assert changed_tools(left, plan, FRESH, BEGAN) == ["/usr/bin/python3", "/usr/bin/wc"]


GOOD = {"path": "/a", "kind": "file", "mode": 0o644, "uid": 0, "gid": 0, "mtime_ns": 1, "ctime_ns": 1}


@each_case(
    "wrong",
    [
        *({"path": path} for path in ("a", "/a/../b", "/a/", "//a", "/a\0b", "", 1)),
        *({"mode": 0o10000}, {"mode": -1}, {"size": -1}, {"size": 1 << 50}, {"kind": "device"}, {"names": 1}),
    ],
    ids=str,
)
def test_a_malformed_listing_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SandboxError, match="the guest sent no listing of files"):
        file_entries(json.dumps([{**GOOD, **wrong}]).encode())


@each_case("listing", [b"", b"{}", b"[" * 100_000, b"[1]", b'[{"path": "/a"}]', b"\xff"])
def test_arbitrary_data_is_refused_as_a_listing(listing: bytes) -> None:
    with pytest.raises(SandboxError, match="the guest sent no listing of files"):
        file_entries(listing)


def test_names_that_are_not_text_are_kept() -> None:
    listing = json.dumps([{**GOOD, "path": "/\udcff"}]).encode()
    assert file_entries(listing)[0].path == "/\udcff"


COMMAND = entry("/usr/local/bin/xmllint", mode=0o755)


@each_case(
    ("task", "set_up", "names"),
    [
        pytest.param("Write valid XML.", [], {"xmllint"}, id="only the check knows it"),
        pytest.param("Write a command xmllint.", [], set(), id="the task asks for it"),
        pytest.param("Do the job.", [b"We need xmllint."], set(), id="a file of the set-up asks for it"),
    ],
)
def test_a_command_that_only_a_check_mentions_belongs_to_the_tools_of_the_check(
    task: str, set_up: list[bytes], names: set[str]
) -> None:
    checks = ["xmllint --noout /root/x.xml"]
    assert commands_of_checks([COMMAND, entry("/root/other")], task, checks, set_up) == names


def test_no_shell_that_anybody_may_get_ends_well_without_running_its_command() -> None:
    assert not SHELLS & IDLE_SHELLS
    assert not any(shell.endswith(("/true", "/sync", "/:")) for shell in SHELLS)
