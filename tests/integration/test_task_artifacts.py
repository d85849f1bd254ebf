"""The artifacts of task folders are kept in the run folder, and no name and no link of them leads out."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

from docker import APIClient

from harness import AttemptContext, run
from harness.reports.run_folder import read_attempt
from harness.reports.table import print_record_details
from harness.sandbox.backends.docker.images import require_image

TOML = """
artifacts = [
  "/app/out",
  {source = "/app/one", destination = "renamed/1"},
  {source = "/app/two", destination = "renamed"},
  "/app/missing",
  "/app/elsewhere/passwd",
]
[[verifier.collect]]
command = "echo late > /logs/artifacts/late"
"""
# Names that are hostile on a terminal or to a program of the host, links, and files that are not data.
ACT = r"""
mkdir -p out/deep && cd out && echo kept > plain && printf x > $'new\nline' && printf y > $'\xff'
printf z > '%2E' && printf long > $(printf 'é%.0s' $(seq 120)) && mkfifo pipe && truncate -s 2G large
ln -s plain inside && ln -s ../out/plain around && ln -s /etc/passwd absolute
ln -s ../../../../etc/passwd out && ln -s deep/../.. through && ln deep/../plain second
cp /bin/true program && chmod 4755 program
cd .. && echo 1 > one && echo 2 > two && ln -s /etc elsewhere
"""


def _read(folder: Path) -> tuple[dict[str, str], dict[str, bytes]]:
    """Return the targets of all links below a folder, and the contents of all files."""
    found = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
    names = {path: path.relative_to(folder).as_posix() for path in found}
    links = {names[path]: os.readlink(path) for path in found if path.is_symlink()}
    return links, {names[path]: path.read_bytes() for path in found if not path.is_symlink()}


async def test_artifacts_are_kept_whatever_their_names_and_links_are(
    client: APIClient, tmp_path: Path
) -> None:
    files = {
        "task.toml": TOML,
        "instruction.md": "Do it.",
        "environment/Dockerfile": f"FROM {require_image(client, 'os')}\nWORKDIR /app\n",
        "tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n",
    }
    for name, text in files.items():
        (tmp_path / "task" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "task" / name).write_text(text)

    async def act(context: AttemptContext) -> str:
        assert context.environment is not None
        seen = await context.environment.call("bash", {"command": ACT})
        assert seen.text == "[exit code 0]", seen
        return "done"

    result = await run(str(tmp_path / "task"), agent=act, output_dir=str(tmp_path / "runs"))
    links, contents = _read(result.folder / "artifacts" / "task-0")
    assert links == {"app/out/inside": "plain", "app/out/around": "../out/plain"}
    long = next(name for name in contents if "é" in name)
    assert len(long.removeprefix("app/out/").encode()) <= 255
    assert contents.pop("app/out/program")[:4] == b"\x7fELF"
    listed = json.loads(contents.pop("manifest.json"))
    assert contents == {
        "app/out/plain": b"kept\n",
        "app/out/second": b"kept\n",
        "app/out/new%0Aline": b"x",
        "app/out/%FF": b"y",
        "app/out/%252E": b"z",
        long: b"long",
        "renamed/1": b"1\n",
        "logs/artifacts/late": b"late\n",
    }
    assert os.stat(result.folder / "artifacts/task-0/app/out/program").st_mode & 0o7111 == 0
    record = read_attempt(result.folder, "task", 0)
    assert record.metrics["artifacts"] == listed
    problems = {each["source"]: each.get("problem") for each in listed}
    assert problems == {
        "/logs/artifacts": None,
        "/app/out": None,
        "/app/one": None,
        "/app/two": "/app/one has the same place",
        "/app/missing": "missing",
        "/app/elsewhere/passwd": "missing",
    }
    # The FIFO, the large file, and three links that lead out.
    assert next(each["left_out"] for each in listed if each["source"] == "/app/out") == 5
    shown = io.StringIO()
    print_record_details(record, folder=result.folder, stream=shown)
    assert "artifacts/task-0/renamed/1 (1 file, 2 bytes)" in shown.getvalue()
