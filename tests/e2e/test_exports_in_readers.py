"""The exports of real runs, read by the projects that they are for."""

from __future__ import annotations

import asyncio
import http.server
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from e2e.command_line import NO_ENGINE, Harness
from export_schemas import ATIF, INSPECT, OTLP
from jsonschema import Draft202012Validator
from model_fixtures import MODEL_KEY
from model_server import ModelServer
from model_solver import Solver
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from readers import HARBOR, NOTEBOOK
from readers import INSPECT as INSPECT_AI

from harness import load_benchmark, run

SCHEMAS = {"atif": ATIF, "inspect": INSPECT, "otlp": OTLP}
READ_TRAJECTORIES = """
import json, sys
from harbor.models.trajectories import Trajectory
for line in open(sys.argv[1]):
    trajectory = Trajectory.model_validate_json(line)
    calls = [call.function_name for step in trajectory.steps for call in step.tool_calls or []]
    results = sum(len(step.observation.results) for step in trajectory.steps if step.observation)
    tools = [tool["function"]["name"] for tool in trajectory.agent.tool_definitions or []]
    print(json.dumps([trajectory.trajectory_id, calls, results, tools]))
"""
READ_JOB = """
import typing, types, typing_extensions
import json, sys
from pathlib import Path
for name in ("override", "TypedDict"):  # the package demands Python 3.12
    setattr(typing, name, getattr(typing_extensions, name))
for name in ("harbor.bridges", "harbor.bridges.base", "harbor.skills"):  # which no result needs
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__getattr__ = lambda _name: None
from harbor.models.job.config import JobConfig
from harbor.models.job.lock import JobLock, TrialLock
from harbor.models.job.result import JobResult, JobStats
from harbor.models.trajectories import Trajectory
from harbor.models.trial.config import TrialConfig
from harbor.models.trial.result import TrialResult
job = Path(sys.argv[1])
read = lambda model, path: model.model_validate_json(path.read_text())
read(JobConfig, job / "config.json")
assert len(read(JobLock, job / "lock.json").trials) == 2
whole = read(JobResult, job / "result.json")
trials = [read(TrialResult, path) for path in sorted(job.glob("*/result.json"))]
for trial in trials:
    folder = job / trial.trial_name
    assert read(TrialConfig, folder / "config.json").trial_name == folder.name
    read(TrialLock, folder / "lock.json")
    read(Trajectory, folder / "agent" / "trajectory.json")
counted = JobStats.from_trial_results(trials, n_total_trials=whole.n_total_trials)
print(json.dumps([[each.task_name, each.verifier_result.rewards, each.reward_valid] for each in trials]))
for stats in (counted, whole.stats):
    print(json.dumps(stats.model_dump(mode="json"), sort_keys=True))
"""
READ_LOG = """
import json, sys
from inspect_ai.log import read_eval_log
head = read_eval_log(sys.argv[1], header_only=True)
assert head.samples is None and head.version == 2
log = read_eval_log(sys.argv[1])
print(json.dumps([log.status, log.eval.task, log.results.scores[0].metrics["accuracy"].value]))
for sample in log.samples:
    asked = [[message.role for message in event.input] for event in sample.events if event.event == "model"]
    print(json.dumps([sample.id, sample.scores["harness"].value, [m.role for m in sample.messages], asked]))
"""
NOTEBOOK_PROGRAM = """
import json, sys, nbformat, nbclient
cells = [
    "import harness\\n"
    f"result = await harness.run('gsm8k', agent='null', data='bundled', output_dir={sys.argv[1]!r})",
    "result",
    "result.to_frame()",
]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
nbclient.NotebookClient(notebook, timeout=300).execute()
print(json.dumps([[output.get("data", {}) for output in cell.outputs] for cell in notebook.cells]))
"""


@pytest.fixture(scope="module", params=["native", pytest.param("text", marks=pytest.mark.thorough)])
def folder(
    request: pytest.FixtureRequest, running_server: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return the folder of a run where a model called tools."""
    benchmark = load_benchmark("agentbench", data="bundled")
    running_server.script = Solver(benchmark, is_native=request.param == "native")
    endpoint = {"model": "scripted", "base_url": running_server.url, "tool_mode": request.param}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", MODEL_KEY)
        result = asyncio.run(
            run(
                "agentbench",
                agent="chat",
                data="bundled",
                model="m",
                endpoints={"m": endpoint},
                task_ids=["os/sample/answers/1", "db/sample/12"],
                output_dir=str(tmp_path_factory.mktemp("runs")),
            )
        )
    assert result.summary.resolved == 2
    return result.folder


def export(harness: Harness, folder: Path, name: str, file: str, *options: str) -> Path:
    path = harness.folder / file
    ended = harness("export", folder, "--to", name, "-o", path, *options, env=NO_ENGINE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", f"wrote {path}\n")
    text = path.read_text()
    for document in [text] if name == "inspect" else text.splitlines():
        Draft202012Validator(SCHEMAS[name]).validate(json.loads(document))
    return path


def test_harbor_reads_the_trajectories(
    harness: Harness, folder: Path, request: pytest.FixtureRequest
) -> None:
    path = export(harness, folder, "atif", "trajectories.jsonl")
    read = [json.loads(line) for line in HARBOR.run(READ_TRAJECTORIES, path).splitlines()]
    assert sorted(name.split("/", 1)[1] for name, *_ in read) == ["db/sample/12/0", "os/sample/answers/1/0"]
    assert all(calls[-1] == "submit" and len(calls) == results for _, calls, results, _ in read)
    # In the text protocol the prompt describes the tools, and no request defines them.
    is_native = request.node.callspec.params["folder"] == "native"
    assert all(set(calls) <= set(tools) if is_native else not tools for _, calls, _, tools in read)


@pytest.mark.thorough
def test_harbor_reads_the_job(harness: Harness, folder: Path) -> None:
    ended = harness("export", folder, "--to", "harbor", "-o", harness.folder / "jobs", env=NO_ENGINE)
    assert ended.returncode == 0, ended.stderr
    trials, counted, whole = HARBOR.run(READ_JOB, harness.folder / "jobs" / folder.name).splitlines()
    names = [["db/sample/12", {"reward": 1.0}, True], ["os/sample/answers/1", {"reward": 1.0}, True]]
    assert sorted(json.loads(trials)) == names
    assert json.loads(whole) == json.loads(counted)


def test_inspect_reads_the_log(harness: Harness, folder: Path) -> None:
    path = export(harness, folder, "inspect", "log.json")
    head, *samples = [json.loads(line) for line in INSPECT_AI.run(READ_LOG, path).splitlines()]
    assert head == ["success", "agentbench", 1.0]
    for _, score, roles, asked in samples:
        assert score == 1.0
        assert roles[:2] == ["user", "assistant"]
        # Each request continues the conversation that the sample has.
        assert all(roles[: len(each)] == each for each in asked)


LIST_LOGS = """
import json, sys
from inspect_ai.log import list_eval_logs
print(json.dumps([[log.task, log.task_id] for log in list_eval_logs(sys.argv[1])]))
"""


def test_inspect_finds_the_log_under_the_name_that_the_export_chooses(harness: Harness, folder: Path) -> None:
    logs = harness.folder / "logs"
    logs.mkdir()
    ended = harness("export", folder, "--to", "inspect", "-o", logs, env=NO_ENGINE)
    (path,) = logs.iterdir()
    assert (ended.stdout, ended.stderr) == ("", f"wrote {path}\n")
    run_id = json.loads((folder / "manifest.json").read_text())["run_id"]
    assert json.loads(INSPECT_AI.run(LIST_LOGS, logs)) == [["agentbench", run_id]]


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes spans as a collector does, and demands a key."""

    taken: ClassVar[list[ExportTraceServiceRequest]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        known = self.path == "/v1/traces" and self.headers["authorization"] == "key"
        if known:
            self.taken.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def collector() -> Iterator[str]:
    Collector.taken.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_collector_gets_the_spans_that_a_file_has(harness: Harness, folder: Path, collector: str) -> None:
    path = export(harness, folder, "otlp", "spans.jsonl", "--content")
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=key"}
    command = ("export", folder, "--to", "otlp", "--content", "--endpoint", collector)
    ended = harness(*command, env={**NO_ENGINE, **headers})
    assert ended.returncode == 0, ended.stderr
    written = {
        span["spanId"]: (span["traceId"], span["name"], span["startTimeUnixNano"], len(span["attributes"]))
        for line in path.read_text().splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for span in resource["scopeSpans"][0]["spans"]
    }
    sent = {
        span.span_id.hex(): (
            span.trace_id.hex(),
            span.name,
            str(span.start_time_unix_nano),
            len(span.attributes),
        )
        for request in Collector.taken
        for resource in request.resource_spans
        for span in resource.scope_spans[0].spans
    }
    assert sent == written
    assert f"sent {len(sent)} spans" in ended.stderr
    roots = [span for span in sent.values() if span[1] == "invoke_agent chat"]
    assert len(roots) == 2


def test_a_collector_that_refuses_spans_ends_the_command(
    harness: Harness, folder: Path, collector: str
) -> None:
    code, _, error = harness.refused("export", folder, "--to", "otlp", "--endpoint", collector)
    assert code == 3
    assert "did not take the spans" in error
    assert "OTEL_EXPORTER_OTLP_HEADERS" in error


def test_a_run_under_way_is_exported_as_far_as_it_is(harness: Harness) -> None:
    running = harness.start_run()
    running.process.send_signal(signal.SIGSTOP)
    ended = harness("export", running.folder.path, "--to", "atif", env=NO_ENGINE)
    assert ended.returncode == 0
    assert "so far" in ended.stderr
    lines = ended.stdout.splitlines()
    assert lines
    for line in lines:
        Draft202012Validator(ATIF).validate(json.loads(line))


def test_options_that_a_format_does_not_read_are_refused(harness: Harness) -> None:
    cases = {
        ("--to", "atif", "--content"): "--content is an option of --to otlp",
        ("--to", "atif", "--endpoint", "http://h"): "--endpoint is an option of --to otlp",
        ("--to", "atif", "--attempt", "0"): "--attempt needs a task",
        ("--to", "inspect", "-o", "log.txt"): "open only files whose name ends in .json",
        ("--to", "harbor"): "name the folder: -o jobs",
        ("--to", "terminus"): "unknown export format 'terminus'",
    }
    for options, message in cases.items():
        code, out, error = harness.refused("export", "latest", *options)
        assert (code, out) == (2, "")
        assert message in error.replace("\n       ", " ")


def test_a_notebook_shows_a_bar_a_result_and_a_frame(tmp_path: Path) -> None:
    bar, result, frame = json.loads(NOTEBOOK.run(NOTEBOOK_PROGRAM, tmp_path))
    assert any("application/vnd.jupyter.widget-view+json" in data for data in bar)
    assert "0.0 % resolved" in result[0]["text/html"]
    assert "task_id" in frame[0]["text/html"]
