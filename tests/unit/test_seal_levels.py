"""Which changes reach the machine where a task's tests run, by level."""

from __future__ import annotations

from collections.abc import Mapping

from harness.environments.container.changes import set_apart
from harness.environments.container.scene import Change, ImageFile, Scene, find_optional
from harness.environments.container.seal import Level, find_reason, paths_to_describe
from harness.environments.os.file_entries import FileEntry

INSTRUCTION = """
Fix the program in /workspace/app and write the answer to /results/answer.txt. The service reads
/etc/service/service.conf. The site is in /usr/share/nginx/html. Install a command /usr/local/bin/report.
Create the pre-commit check.
"""
IMAGE: Mapping[str, ImageFile] = {
    "/usr/bin": ImageFile(
        "folder", 0o755, frozenset(("python3", "bash", "git", "curl", "perl", "locale", "cron"))
    ),
    "/usr/lib/python3.12": ImageFile("folder", 0o755, frozenset(("json", "os.py"))),
    "/usr/lib/node_modules": ImageFile("folder", 0o755, frozenset(("npm",))),
    "/usr/include/stdio.h": ImageFile("file", 0o644),
    "/workspace/venv/pyvenv.cfg": ImageFile("file", 0o644),
    "/workspace/venv/bin/flask": ImageFile("file", 0o755),
    "/usr/bin/python3": ImageFile("file", 0o755),
    "/usr/bin/curl": ImageFile("file", 0o755),
    "/usr/lib/x86_64-linux-gnu": ImageFile("folder", 0o755, frozenset(("libc.so.6",))),
    "/usr/local/lib/python3.12/dist-packages": ImageFile("folder", 0o755, frozenset(("pytest", "pandas"))),
    "/usr/local/lib/python3.12/dist-packages/pytest/__init__.py": ImageFile("file", 0o644),
    "/etc/service/service.conf": ImageFile("file", 0o644),
    "/opt/venv/lib/python3.12/site-packages": ImageFile("folder", 0o755, frozenset(("flask",))),
    "/srv/run.sh": ImageFile("file", 0o755),
    "/workspace/run.sh": ImageFile("file", 0o755),
}
SCENE = Scene(
    INSTRUCTION,
    workdir="/workspace",
    script="cd /workspace/app\npython3 -m pytest /tests\ncd $SUB && pushd 'deep'",
    environment={
        "PATH": "/opt/venv/bin:/usr/local/bin:/usr/bin",
        "PYTHONPATH": "/workspace/lib",
        "SUB": "sub",
    },
    artifacts=("/results",),
    image=IMAGE,
    changed=frozenset(("/workspace/r.git/objects", "/workspace/r.git/config")),
    links={
        "/workspace/app": "../real/app",
        "/usr/local/lib/python3.11": "/workspace/packages",
        "/workspace/loop": "loop",
        "/workspace/lib": "l1",
        **{f"/workspace/l{n}": f"l{n + 1}" for n in range(1, 20)},
    },
)
NEVER, ALL, TOOLS, WORK, ARTIFACTS = "never", "all", "tools", "work", "artifacts"
# The strictest level at which each change is carried.
CASES = (
    # The work of the task.
    ("/workspace/app/main.py", "file", WORK),
    ("/workspace/run.sh", "file", WORK),
    ("/workspace/notes", "folder", WORK),
    ("/workspace/app/pipe", "fifo", WORK),
    ("/workspace/app/old.py", "absent", WORK),
    ("/workspace/app/pkg/json.py", "file", WORK),
    ("/workspace/app/code/part.py", "file", WORK),
    ("/workspace/app/Cargo.lock", "file", WORK),
    ("/workspace/node_modules/part/index.js", "file", WORK),
    ("/workspace/na\udcffme\nx", "file", WORK),
    ("/results/answer.txt", "file", ARTIFACTS),
    ("/var/lib/service/data.db", "file", WORK),
    ("/tmp/out.txt", "file", WORK),
    ("/dev/shm/segment", "file", WORK),
    ("/etc/service/service.conf", "file", WORK),
    ("/etc/passwd", "file", WORK),
    ("/etc/cron.d/job", "file", WORK),
    ("/usr/share/nginx/html/index.html", "file", WORK),
    ("/usr/local/bin/report", "file", WORK),
    ("/workspace/r.git/hooks/pre-commit", "file", WORK),
    # New parts of tools.
    ("/usr/local/lib/python3.12/dist-packages/requests/api.py", "file", TOOLS),
    ("/usr/local/bin/helper", "file", TOOLS),
    ("/usr/lib/x86_64-linux-gnu/libnew.so.1", "file", TOOLS),
    ("/etc/nginx/nginx.conf", "file", TOOLS),
    # Replaced tools, and files that are found in their place.
    ("/usr/bin/python3", "file", ALL),
    ("/usr/bin/curl", "absent", ALL),
    ("/usr/local/bin/curl", "file", ALL),
    ("/usr/local/bin/uv", "file", TOOLS),
    ("/usr/local/bin/pytest", "file", ALL),
    ("/etc/hosts", "file", ALL),
    ("/opt/venv/bin/bash", "link", ALL),
    ("/opt/venv/lib/python3.12/site-packages/pytest/__init__.py", "file", ALL),
    ("/opt/venv/lib/python3.12/site-packages/json/__init__.py", "file", ALL),
    ("/usr/local/lib/python3.12/dist-packages/pytest/__init__.py", "file", ALL),
    ("/usr/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v3/libc.so.6", "file", ALL),
    ("/var/lib/dpkg/status.d/new", "file", TOOLS),
    ("/srv/run.sh", "file", ALL),
    # Parts of the image's tools.
    ("/usr/lib/python3.12/pytest.py", "file", ALL),
    ("/usr/lib/python3.12/pytest/__init__.py", "file", ALL),
    ("/usr/lib/python3.12/os.cpython-312-x86_64-linux-gnu.so", "file", ALL),
    ("/usr/lib/python3.12/json/decoder.cpython-312-x86_64-linux-gnu.so", "file", ALL),
    ("/usr/local/lib/python3.12/dist-packages/pytest/__init__.abi3.so", "file", ALL),
    ("/usr/lib/node_modules/npm/lib/node_modules/semver/index.js", "file", ALL),
    ("/usr/share/git-core/templates/hooks/post-checkout", "file", ALL),
    ("/usr/share/perl5/strict.pm", "file", ALL),
    ("/usr/local/share/perl/5.36.0/strict.pm", "file", ALL),
    ("/usr/local/include/stdio.h", "file", ALL),
    ("/usr/lib/x86_64-linux-gnu/libnss_new.so.2", "file", ALL),
    ("/usr/lib/x86_64-linux-gnu/gconv/gconv-modules.d/x.conf", "file", ALL),
    ("/usr/share/p11-kit/modules/x.module", "file", ALL),
    ("/etc/curl.conf", "file", ALL),
    ("/workspace/venv/bin/flask", "file", ALL),
    ("/workspace/venv/bin/pytest", "file", TOOLS),
    ("/workspace/venv/lib/python3.12/site-packages/pytest/__init__.py", "file", ALL),
    ("/workspace/venv/lib/python3.12/site-packages/new/__init__.py", "file", TOOLS),
    ("/usr/lib/node_modules/glob/index.js", "file", TOOLS),
    ("/usr/include/python3.12/opcode.h", "file", TOOLS),
    ("/usr/share/doc/new/README", "file", TOOLS),
    ("/usr/lib/locale/locale-archive", "file", TOOLS),
    # Files that are found in place of others by the way of a link, or from a folder that the tests enter.
    ("/workspace/json", "link", ALL),
    ("/workspace/part", "link", WORK),
    ("/real/app/json.py", "file", ALL),
    ("/workspace/packages/dist-packages/pytest.py", "file", ALL),
    ("/workspace/packages/dist-packages/pytest", "link", ALL),
    ("/workspace/app/sub/json.py", "file", ALL),
    ("/workspace/app/sub/deep/json.py", "file", ALL),
    ("/workspace/l20/json.py", "file", ALL),
    ("/workspace/lib/libc.so.6", "file", ALL),
    ("/workspace/lib/libown.so", "file", WORK),
    # Code and settings that tools look for by themselves.
    ("/usr/lib/python3.12/sitecustomize.py", "file", ALL),
    ("/workspace/sitecustomize.py", "file", ALL),
    ("/usr/local/lib/python3.12/dist-packages/evil.pth", "file", ALL),
    ("/usr/local/lib/python3.12/dist-packages/evil-1.dist-info/entry_points.txt", "file", ALL),
    ("/usr/lib/python312.zip", "file", ALL),
    ("/workspace/app/venv/pyvenv.cfg", "file", ALL),
    ("/root/.local/lib/python3.12/site-packages/pytest.py", "file", ALL),
    ("/root/.bashrc", "file", ALL),
    ("/root/.config/pip/pip.conf", "file", ALL),
    ("/home/user/.gitconfig", "file", ALL),
    ("/root/.cargo/bin/uv", "file", ALL),
    ("/workspace/.pytest.ini", "file", ALL),
    ("/pytest.ini", "file", ALL),
    ("/conftest.py", "file", ALL),
    ("/workspace/conftest.py", "file", ALL),
    ("/workspace/app/pyproject.toml", "file", ALL),
    ("/srv/setup.cfg", "file", ALL),
    ("/workspace/uv.lock", "file", ALL),
    ("/usr/pip.conf", "file", ALL),
    ("/usr/local/etc/npmrc", "file", ALL),
    ("/workspace/simplejson.py", "file", ALL),
    ("/workspace/app/Pipfile", "file", ALL),
    ("/node_modules/chai/index.js", "file", ALL),
    ("/workspace/json.py", "file", ALL),
    ("/workspace/json/__init__.py", "file", ALL),
    ("/workspace/app/subprocess.py", "file", ALL),
    ("/workspace/lib/pandas.py", "file", ALL),
    ("/requests.py", "file", TOOLS),
    ("/json/__init__.py", "file", ALL),
    ("/workspace/app/__pycache__/main.cpython-312.pyc", "file", ALL),
    ("/tmp/v8-compile-cache-0/code.blob", "file", ALL),
    ("/workspace/r.git/config", "file", ALL),
    ("/workspace/r.git/hooks/post-checkout", "file", ALL),
    ("/etc/ld.so.preload", "file", ALL),
    ("/etc/profile.d/evil.sh", "file", ALL),
    ("/etc/environment", "file", ALL),
    ("/etc/apt/sources.list.d/mirror.list", "file", ALL),
    ("/etc/ssl/certs/new.pem", "file", ALL),
    # The grader's own folders.
    ("/tests/conftest.py", "file", NEVER),
    ("/tests", "link", NEVER),
    ("/solution/solve.sh", "file", NEVER),
    ("/logs/verifier/reward.json", "file", NEVER),
    ("/logs", "link", NEVER),
    ("/logs/artifacts/out.txt", "file", ARTIFACTS),
    ("/proc/self", "link", NEVER),
    ("/opt/harness/python3", "file", NEVER),
)
ORDER: tuple[Level, ...] = ("artifacts", "work", "tools", "all")


def test_each_change_is_carried_from_its_level_on() -> None:
    wrong = []
    for path, kind, strictest in CASES:
        carried = [level for level in ORDER if find_reason(Change(path, kind), level, SCENE) is None]
        if strictest == ARTIFACTS:
            expected = ["artifacts"] if path.startswith("/logs") else list(ORDER)
        else:
            expected = [] if strictest == NEVER else list(ORDER[ORDER.index(strictest) :])
        if carried != expected:
            reasons = {level: find_reason(Change(path, kind), level, SCENE) for level in ORDER}
            wrong.append((path, kind, expected, reasons))
    assert not wrong


def test_attached_takes_the_files_of_tools() -> None:
    changes = [Change(path, kind) for path, kind, _ in CASES]
    tools = [find_reason(change, "tools", SCENE) for change in changes]
    assert [find_reason(change, "attached", SCENE) for change in changes] == tools


def test_a_working_folder_at_the_top_or_at_home_opens_no_hidden_file() -> None:
    for workdir in ("/", "/root"):
        scene = Scene("Write a file.", workdir=workdir)
        for path in ("/root/.bashrc", "/conftest.py", "/.env", "/root/.local/bin/pytest"):
            assert find_reason(Change(path, "file"), "work", scene), (workdir, path)


def test_a_repository_is_carried_if_the_task_is_about_git_without_its_code() -> None:
    scene = Scene(
        "Repair the git repository.", workdir="/app", image={"/app/.git/objects": ImageFile("folder")}
    )
    assert find_reason(Change("/app/.git/refs/heads/main", "file"), "work", scene) is None
    assert find_reason(Change("/app/.git/hooks/post-checkout", "file"), "tools", scene) == "code of git"
    assert find_reason(Change("/app/.git/config", "file"), "tools", scene) == "code of git"
    assert "/app/.git/objects" in paths_to_describe([Change("/app/.git/config", "file")], scene)


def test_the_folders_where_tools_start_are_described_so_that_links_are_known() -> None:
    scene = Scene("", workdir="/current/app", environment={"PATH": "/opt/cuda/bin"})
    assert {"/current", "/current/app", "/opt/cuda", "/opt/cuda/bin"} <= {*paths_to_describe([], scene)}


def test_modules_that_packages_import_if_found_are_known() -> None:
    metadata = """Metadata-Version: 2.1
Name: tables
Keywords: fast
Provides-Extra: speed
Requires-Dist: num-core>=1.2
Requires-Dist: PyArrow (>=7) ; extra == "speed"
Requires-Dist: sphinx ; extra == "docs"

A library.
License: the text
"""
    names = find_optional([metadata, "plain\n[socks]\nPySocks!=1.5\n"])
    assert {"num_core", "pyarrow", "plain", "pysocks"} <= names
    assert not names & {"sphinx", "fast", "tables", "License", "A", "socks"}
    scene = Scene("Write a file.", workdir="/app", optional=names)
    assert find_reason(Change("/app/pyarrow.py", "file"), "tools", scene) == "shadow of a module"
    assert find_reason(Change("/app/other.py", "file"), "tools", scene) is None


def test_no_attribute_opens_the_files_that_are_set_apart() -> None:
    attributes = (("system.posix_acl_access", "AA=="), ("security.capability", "AA=="), ("user.note", "AA=="))
    for kind in ("file", "folder"):
        entry = FileEntry("/app/x", kind, 0o777, 0, 0, 0, 0, xattrs=attributes)
        assert set_apart(entry).xattrs == attributes[2:]
