"""A hundred command lines with a mistake: each has a message and the next step, and none has a traceback."""

from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from harness.cli import app

# By the words of the command line: a part of the error or the hint that a user needs to see.
MISTAKES = {
    # The words that people try first.
    "hepl": "help",
    "verson": "version",
    "eval -b mbpp": "run",
    "list": "harness --help",
    "--verison": "--version",
    "--install-completion tcsh": "bash, zsh, fish",
    "--show-completion csh": "bash, zsh, fish",
    "images": "",
    "images bild": "build",
    "data": "",
    "config check c.yaml": "validate",
    # The benchmark.
    "run": "-b mbpp",
    "run mbpp": "-b mbpp",
    "run -b": "harness run --help",
    "run -b mbbp": "mbpp",
    "run -b MBPP": "mbpp",
    "run -b human-eval": "humaneval",
    "run -b mbpp,humaneval": "-b mbpp -b humaneval",
    "run -b mbpp -b mbpp": "given twice",
    "run -b swebench": "agentbench",
    "run -b os": "--filter-category os",
    "run -b my.yaml": "my.yaml",
    "run -b my_benchmark.py": "my_benchmark.py",
    "run --bench mbpp": "--benchmark",
    "run --task mbpp": "-b mbpp",
    # Options.
    "run -b mbpp --modle m": "--model",
    "run -b mbpp --data bundled --limit 5": "-n",
    "run -b mbpp --data bundled -n five": "whole number",
    "run -b mbpp --data bundled -n 0": "at least 1",
    "run -b mbpp --data bundled -n -3": "at least 1",
    "run -b mbpp --data bundled --seed x": "whole number",
    "run -b mbpp --data bundled --temperature hot --model m": "number",
    "run -b mbpp --data bundled --temperature 0.2": "model",
    "run -b mbpp --data bundled --timeout-seconds 5": "180",
    "run -b mbpp --data bundled --timeout-seconds 86400": "600",
    "run -b mbpp --data bundled --k 5": "--n-samples",
    "run -b mbpp --data bundled --k 0": "at least 1",
    "run -b mbpp --data bundled --n-samples 0": "at least 1",
    "run -b mbpp --data bundled --seed 1 --seed 2": "leave out all but one",
    "run -b mbpp --data bundled --max-concurrent 0": "at least 1",
    "run -b mbpp --data bundled --isolation none": "attempt",
    "run -b mbpp --data bundled --sampling rand": "random",
    "run -b mbpp --data bundled --shard 9/8": "shard",
    "run -b mbpp --data bundled --shard half": "1/8",
    "run -b mbpp --data bundled --option release=v1": "option",
    "run -b mbpp --data bundled --option release": "NAME=VALUE",
    "run -b livecodebench --data bundled --option relase=v1": "release",
    "run -b mbpp --data bundled --fail-under 80": "1",
    "run -b mbpp --data bundled --out results.json": "--results",
    "run -b mbpp --data bundled -o .": "name a file",
    "run -b mbpp --data bundled -o there/is/none.json": "mkdir",
    "run -b mbpp --data bundled -o c.yaml": "--force",
    "exec --memory 512 x.py": "--memory-mb",
    "run -b mbpp --data bundled --split dev": "split",
    "run -b mbpp --data bundled --filter-category easy": "category",
    "run -b mbpp --data bundled --task 99": "9001",
    # Data.
    "run -b mbpp --data nowhere.json": "no such file",
    "run -b mbpp --data humaneval.jsonl.gz": "-b humaneval",
    "run -b humaneval --data mbpp.json": "-b mbpp",
    "run -b gsm8k --data humaneval.jsonl.gz": "-b humaneval",
    "run -b mbpp --data c.yaml": ".jsonl",
    "run -b mbpp --data broken.json": "JSON",
    "run -b mbpp --data empty.json": "empty.json",
    "run -b mbpp --data https://example.org/mbpp.json": "",
    "run -b agentbench --data mbpp.json": "-b mbpp",
    # Agents and models.
    "run -b mbpp --data bundled --agent orcale": "oracle",
    "run -b mbpp --data bundled --agent gpt-5": "--model",
    "run -b mbpp --data bundled --agent chat": "--model",
    "run -b mbpp --data bundled --agent agent.py": "agent.py",
    "run -b mbpp --data bundled --agent predictions": "--samples",
    "run -b mbpp --data bundled --agent command": "cmd",
    "run -b mbpp --data bundled --agent oracle --model m": "chat",
    "run -b mbpp --data bundled --model m": "OPENAI_API_KEY",
    "run -b mbpp --data bundled --model m --model m": "given twice",
    "run -b mbpp --data bundled --model m --base-url localhost:8000": "http://",
    "run -b mbpp --data bundled --model m --base-url ftp://localhost/v1": "http",
    "run -b mbpp --data bundled --model m --api gemini": "messages",
    "run -b mbpp --data bundled --base-url http://localhost:1/v1": "--model",
    "run -b mbpp --data bundled --model m --api-key sk-1234567890": "OPENAI_API_KEY",
    # Configs.
    "run -c nowhere.yaml": "nowhere.yaml",
    "run -c key.yaml": "OPENAI_API_KEY",
    "run -c typo.yaml": "did you mean 'max_concurrent'? the nearest of",
    "run -c twice.yaml": "twice",
    "run -c tabs.yaml": "tabs.yaml:",
    "run -c list.yaml": "keys and values",
    "run -c kind.yaml": "whole number",
    "run mbpp.json": "-b",
    "config validate": "FILE",
    "config show nowhere.yaml": "nowhere.yaml",
    # Samples.
    "grade": "--samples",
    "grade -b mbpp": "--samples",
    "grade -b mbpp --data bundled --samples nowhere.jsonl": "nowhere.jsonl",
    "grade -b mbpp --data bundled --samples other.jsonl": "9001",
    "grade -b mbpp --data bundled --samples fields.jsonl": "completion",
    "grade -b mbpp --data bundled --samples c.yaml": "",
    "grade -b mbpp --data bundled --samples a.jsonl --model m": "harness run",
    "samples import other.jsonl --from lmeval": "lm_eval",
    # Runs.
    "show nothing": "harness runs",
    "show latest": "harness runs",
    "report latest --format pdf": "",
    "report": "harness report --help",
    "compare latest": "candidate",
    "compare a b": "harness runs",
    "run --resume latest": "",
    "run --resume nothing": "harness runs",
    "run -b mbpp --data bundled --retry-failed": "--resume latest",
    "run -b mbpp --data bundled --trust": "--resume latest",
    "rerun": "harness rerun --help",
    "merge": "harness merge --help",
    "export latest --to csv": "",
    "view nothing": "harness runs",
    "runs --output-dir nowhere": "folder",
    # Sandboxes and the machine.
    "exec": "harness exec FILE.py",
    "exec nothing.py": "nothing.py",
    "exec --cpus many c.yaml": "number",
    "shell": "harness shell --help",
    "mcp agentbench": "harness mcp --help",
    "serve -b mbbp": "mbpp",
    "serve --port 99999": "65535",
    "audit mbbp": "mbpp",
    "audit mbpp --attack nothing": "",
    "images build rubby": "python",
    "images build --agent nothing": "nothing=FOLDER",
    "doctor --base-url http://localhost:1/v1": "--model",
    "setup -b mbbp": "mbpp",
    "init --agent orcale": "oracle",
    "benchmarks mbpp": "",
    "data fetch": "harness data fetch --help",
    "data show mbpp --data bundled --index 999": "",
}
FILES = {
    "c.yaml": "benchmark: mbpp\n",
    "key.yaml": "benchmark: mbpp\napi_key: sk-0123456789\n",
    "typo.yaml": "benchmark: mbpp\nmax_concurent: 3\n",
    "twice.yaml": "benchmark: mbpp\nbenchmark: gsm8k\n",
    "tabs.yaml": "benchmark: mbpp\noptions:\n\ta: b\n",
    "list.yaml": "- mbpp\n- humaneval\n",
    "kind.yaml": "benchmark: mbpp\nsample_size: many\n",
    "broken.json": '[{"task_id": 1,',
    "empty.json": "",
    "other.jsonl": json.dumps({"task_id": "HumanEval/3", "solution": "x"}) + "\n",
    "fields.jsonl": json.dumps({"task_id": "9001", "code": "x"}) + "\n",
    "a.jsonl": json.dumps({"task_id": "9001", "solution": "x"}) + "\n",
}
BUNDLED = Path(app.__file__).parents[1] / "benchmarks" / "data" / "bundled"


def test_each_mistake_has_a_message_and_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "mbpp.json").write_bytes((BUNDLED / "mbpp.json").read_bytes())
    with gzip.open(tmp_path / "humaneval.jsonl.gz", "wb") as file:
        file.write((BUNDLED / "humaneval.jsonl").read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    whole: Any = typer.main.get_command(app.app)  # once, because it takes long to make
    monkeypatch.setattr(app, "app", whole.main)
    bad = []
    for typed, needed in MISTAKES.items():
        monkeypatch.setattr("sys.argv", ["harness", *shlex.split(typed)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        shown = capsys.readouterr()
        text = shown.out + shown.err
        is_help = text.startswith("Usage:")
        if ended.value.code != 2 or "Traceback" in text or needed not in text:
            bad.append(f"$ harness {typed}   [{ended.value.code}, needs {needed!r}]\n{text[-600:]}")
        elif not is_help and not ("error: " in shown.err and "\nhint: " in shown.err):
            bad.append(f"$ harness {typed}   [no hint]\n{text[-600:]}")
    assert len(MISTAKES) >= 100
    assert bad == [], "\n".join(["", *bad])
