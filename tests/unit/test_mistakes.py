"""Command lines with a mistake: each has a message and the next step, and none has a traceback."""

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
    "run -b swebench": "swebench-verified",
    "run -b gpqa": "gpqa-diamond",
    "completion bash": "--install-completion",
    "run -b os": "--filter-category os",
    "run -b my.yaml": "my.yaml",
    "run -b my_benchmark.py": "my_benchmark.py",
    "run -b my tasks": "quote",
    "run -b empty": "task.toml",
    "run -b 'my tasks'": "my tasks: holds no task folder",
    "run -b 'aufgaben ü'": "aufgaben ü: holds no task folder",
    "run -b nowhere/tasks": "no such folder",
    "run -b toml": "bad/task.toml:2: is not TOML",
    "run -b kind": "one/task.toml:3: field 'agent.timeout_sec': must be a number, not \"an hour\"",
    "run -b half": "write the prompt",
    "run -b tasks/hello/task.toml": "name its folder",
    "run -b tasks --build-ca nowhere.pem": "nowhere.pem is not a file",
    "run -b own.yaml": "did you mean 'tags'?",
    "run -b bench.py": "SyntaxError",
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
    "run -b mbpp --data bundled --timeout-seconds 5m": "without a unit",
    "run -b mbpp --data bundled --fail-under 80%": "from 0 to 1: 0.8",
    "run -b mbpp --data bundled --run-budget cost": "cost=5",
    "run -b mbpp --data bundled --base-image ubuntu": "'*=packages'",
    "run -b mbpp --data bundled --option protocol=fc": "mbpp has no options, such as 'protocol'",
    "run -b agentbench --data bundled --option protocol=function": "'own', 'fc' or 'v0.2'",
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
    "run -b mbpp --data bundled --agent lost.py": "install the package that has the module nonesuch",
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
    "run -c colon.yaml": "colon.yaml:2: is not YAML",
    "run -c unit.yaml": '180 to 600 whole seconds, not "5m"',
    "run -c loop.yaml": "leads back to the file itself",
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
    "grade a.jsonl": "grade -b mbpp --samples a.jsonl",
    "grade -b humaneval a.jsonl": "grade -b humaneval --samples a.jsonl",
    "grade -b mbpp --data bundled --samples lines.jsonl": "lines.jsonl:2: broken JSON at column 32",
    "grade -b mbpp --data bundled --samples array.jsonl": "name the file .json",
    "grade -b tasks --samples a.jsonl": "harness run -b FOLDER",
    "grade -b mbpp --data bundled --samples a.jsonl --model m": "harness run",
    "samples import other.jsonl --from lmeval": "lm_eval",
    # Runs.
    "show nothing": "harness runs",
    "show latest": "harness runs",
    "report latest --format pdf": "",
    "report": "harness report --help",
    "compare latest": "harness compare runs/before latest",
    "compare before after --regression-threshold 2%": "from 0 to 1: 0.02",
    "report elsewhere/broken": "the file is damaged",
    "compare a b": "harness runs",
    "run --resume latest": "",
    "run --resume nothing": "harness runs",
    "run -b mbpp --data bundled --retry-failed": "--resume latest",
    "run -b mbpp --data bundled --trust": "--resume latest",
    "rerun": "harness rerun --help",
    "merge": "harness merge --help",
    "export latest": "--to inspect",
    "export latest --to csv": "",
    "export latest --to harbor": "-o jobs",
    "view nothing": "harness runs",
    "view --export tasks": "tasks: is not empty",
    "card": "harness card -b",
    "card -b mbpp -o card.txt": ".html, .md, .json",
    "card --compare card.json --compare card.json": "it lacks the field 'results'",
    "runs --output-dir nowhere": "folder",
    # Sandboxes and the machine.
    "exec": "harness exec FILE.py",
    "exec nothing.py": "nothing.py",
    "exec ''": "the command is missing",
    "exec --timeout 10s c.yaml": "without a unit",
    "exec --language python2 c.yaml": "did you mean 'python'",
    "exec --cpus many c.yaml": "number",
    "shell": "harness shell --help",
    "mcp agentbench": "harness mcp --help",
    "serve -b mbbp": "mbpp",
    "serve --port 99999": "65535",
    "audit mbbp": "mbpp",
    "audit mbpp --attack nothing": "",
    "audit mbpp humaneval": "takes one argument",
    "audit empty": "task.toml",
    "lint": "harness lint path/to/tasks",
    "lint mbpp": "only folders of tasks",
    "lint toml --static": "bad/task.toml:2: is not TOML",
    "calibrate": "harness calibrate tasks",
    "calibrate mbpp": "only folders of tasks",
    "serve mbpp": "serve -b mbpp",
    "serve -b empty": "task.toml",
    "images build rubby": "python",
    "images build --agent nothing": "nothing=FOLDER",
    "doctor --base-url http://localhost:1/v1": "--model",
    "setup -b mbbp": "mbpp",
    "init --agent orcale": "oracle",
    "init -o no/where.yaml": "mkdir -p no",
    "images prune everything": "leave it out",
    "benchmarks mbpp": "",
    "data fetch": "harness data fetch --help",
    "data convert": "harness data convert terminal-bench/tasks harbor-tasks",
    "data convert tasks out": "task.yaml",
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
    "lines.jsonl": json.dumps({"task_id": "9001", "solution": "x"}) + '\n{"task_id": "9001", "solution": \n',
    "array.jsonl": json.dumps([{"task_id": "9001", "solution": "x"}]) + "\n",
    "colon.yaml": "benchmark: mbpp\nmodel: qwen: 7b\n",
    "unit.yaml": "benchmark: mbpp\ntimeout_seconds: 5m\n",
    "loop.yaml": "extends: loop.yaml\nbenchmark: mbpp\n",
    "own.yaml": "name: mine\ntasks: []\n",
    "bench.py": "def f(:\n",
    "lost.py": "import nonesuch\n",
    "card.json": "{}",
    "empty/a.txt": "",
    "my tasks/hello/instruction.md": "Say hello.",
    "aufgaben ü/a.txt": "",
    "half/one/task.toml": 'version = "1.0"\n',
    "toml/bad/task.toml": 'version = "1.0"\n[agent\n',
    "kind/one/task.toml": 'version = "1.0"\n[agent]\ntimeout_sec = "an hour"\n',
    "tasks/hello/task.toml": 'version = "1.0"\n',
    **dict.fromkeys(("toml/bad/instruction.md", "kind/one/instruction.md"), "Say hello."),
    "tasks/hello/instruction.md": "Say hello.",
    "tasks/hello/environment/Dockerfile": "FROM ubuntu:24.04\n",
    "tasks/hello/tests/test.sh": "true\n",
    "elsewhere/broken/manifest.json": "{",
}
BUNDLED = Path(app.__file__).parents[1] / "benchmarks" / "data" / "bundled"


def test_each_mistake_has_a_message_and_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
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
    assert len(MISTAKES) >= 150
    assert bad == [], "\n".join(["", *bad])
