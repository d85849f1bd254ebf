"""The scripts in examples/clusters make real shards. Stand-ins for ssh and sbatch run them here."""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from case_checks import each_case
from e2e.command_line import HANG_SECONDS, SCRIPT, Harness, RunFolder, remove_times_and_ids

CLUSTERS = Path(__file__).parents[2] / "examples/clusters"
SCRIPTS = sorted([*CLUSTERS.rglob("*.sh"), *CLUSTERS.rglob("*.sbatch")])
OPTIONS = ("-b", "gsm8k", "--data", "bundled", "-n", "2", "--seed", "1")
# Runs the command in the folder of the "host", without a terminal.
SSH = """#!/bin/sh
[ "$1" != -tt ] || shift
mkdir -p "$HOSTS_FOLDER/$1" && cd "$HOSTS_FOLDER/$1" && shift && exec sh -c "$*"
"""
# Runs each job of an array at once, and prints a job's id as `sbatch --parsable` does.
SBATCH = """#!/bin/sh
last=''
while [ "${1#--}" != "$1" ]; do
    case $1 in --array=1-*) last=${1#--array=1-} ;; --parsable | --output=* | --dependency=afterany:7) ;;
    *) exit 2 ;; esac
    shift
done
for index in $([ -z "$last" ] || seq "$last"); do
    SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=$index sh "$@" >/dev/null || exit
done
[ -n "$last" ] || sh "$@" >&2 || exit
echo '7;cluster'
"""


# Stands in for the command. The process of the tests runs it, because a start of the script imports for long.
COMMAND = """#!{python} -SE
import json, socket, sys, os
with socket.socket(socket.AF_UNIX) as tests:
    tests.connect({place!r})
    tests.sendall(json.dumps([os.getcwd(), *sys.argv[1:]]).encode() + b"\\n")
    code, out, err = json.loads(tests.makefile().read())
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def command(module_harness: Harness) -> Iterator[Path]:
    """Yield the program that stands in for the command."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            folder, *arguments = json.loads(self.rfile.readline())
            ended = module_harness(*arguments, folder=Path(folder))
            reply = [ended.returncode, ended.stdout, ended.stderr]
            self.wfile.write(json.dumps(reply).encode())

    place = str(module_harness.folder / "command.socket")
    path = module_harness.folder / "harness"
    path.write_text(COMMAND.format(python=sys.executable, place=place))
    path.chmod(0o755)
    with socketserver.ThreadingUnixStreamServer(place, Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield path
        server.shutdown()
        thread.join()


def install(harness: Harness, command: Path, name: str, source: str) -> dict[str, str]:
    """Put a stand-in on the PATH, and return the environment of the script."""
    programs = harness.folder / "programs"
    programs.mkdir(exist_ok=True)
    (programs / name).write_text(source)
    (programs / name).chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    return {**harness.environment, "PATH": path, "HARNESS": str(command)}


def start(script: str, *arguments: str | Path, env: dict[str, str], folder: Path) -> tuple[int, str]:
    ended = subprocess.run(
        ["sh", CLUSTERS / script, *arguments],
        env=env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    return ended.returncode, ended.stdout


@pytest.fixture(scope="module")
def one(module_harness: Harness) -> RunFolder:
    module_harness.succeed("run", *OPTIONS, "--output-dir", "one", "--max-concurrent", "1")
    return module_harness.only_run("one")


def assert_equal(merged: Sequence[Path], one: RunFolder) -> None:
    assert len(merged) == 1
    for name in ("attempts.jsonl", "summary.json"):
        texts = [(folder / name).read_text() for folder in (merged[0], one.path)]
        assert remove_times_and_ids(texts[0]) == remove_times_and_ids(texts[1])


@each_case("path", SCRIPTS, ids=lambda path: path.relative_to(CLUSTERS).as_posix())
def test_shellcheck_finds_nothing(path: Path) -> None:
    shellcheck = SCRIPT.with_name("shellcheck")
    found = subprocess.run([shellcheck, path], capture_output=True, text=True, check=False)
    assert (found.stdout, found.returncode) == ("", 0)


def test_the_shards_of_several_hosts_are_merged_into_one_run(
    module_harness: Harness, command: Path, one: RunFolder
) -> None:
    folder = module_harness.folder
    env = install(module_harness, command, "ssh", SSH) | {
        "HOSTS": "alpha beta",
        "HOSTS_FOLDER": str(folder / "hosts"),
        "REMOTE": "it's here",
    }
    code, output = start("ssh/run.sh", folder / "by ssh", *OPTIONS, env=env, folder=folder)
    assert code == 0, output
    assert sorted(path.name for path in (folder / "hosts").iterdir()) == ["alpha", "beta"]
    assert_equal([*(folder / "by ssh/merged").iterdir()], one)


def test_a_failed_host_is_named_and_nothing_is_merged(module_harness: Harness, command: Path) -> None:
    folder = module_harness.folder
    env = install(module_harness, command, "ssh", SSH) | {
        "HOSTS": "alpha",
        "HOSTS_FOLDER": str(folder / "failing"),
    }
    code, output = start("ssh/run.sh", folder / "failed", "-b", "no-such", env=env, folder=folder)
    assert (code, "shard 1 on alpha exited with 2" in output) == (3, True)
    assert "unknown benchmark 'no-such'" in (folder / "failed/1.log").read_text()
    assert not (folder / "failed/merged").exists()


def test_a_slurm_array_is_merged_into_one_run_and_a_shard_started_again_is_not_repeated(
    module_harness: Harness, command: Path, one: RunFolder
) -> None:
    folder = module_harness.folder
    env = install(module_harness, command, "sbatch", SBATCH)
    code, output = start("slurm/submit.sh", "2", folder / "by slurm", *OPTIONS, env=env, folder=folder)
    assert code == 0, output
    assert_equal([*(folder / "by slurm/merged").iterdir()], one)
    code, output = start("shard.sh", "1", "2", folder / "by slurm", *OPTIONS, env=env, folder=folder)
    assert code == 0, output
    (shard,) = (folder / "by slurm/1").iterdir()
    assert len((shard / "attempts.jsonl").read_text().splitlines()) == 1


# Both Jobs end at once with this condition.
KUBECTL = """#!/bin/sh
case $1 in get) echo {condition} ;; *) echo "$*" >>"$0.log" ;; esac
"""


@pytest.mark.parametrize(("condition", "code"), [("Complete", 0), ("FailureTarget Failed", 3)])
def test_the_script_for_kubernetes_merges_only_after_all_shards(
    harness: Harness, command: Path, condition: str, code: int
) -> None:
    environment = install(harness, command, "kubectl", KUBECTL.replace("{condition}", condition))
    ended, output = start("kubernetes/submit.sh", env=environment, folder=harness.folder)
    assert ended == code, output
    calls = (harness.folder / "programs/kubectl.log").read_text()
    assert ("merge.yaml" in calls) == (code == 0)
    assert ("harness-shards failed" in output) == (code != 0)
