"""The server of the viewer: whom it answers, and what it answers about run folders."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case
from starlette.testclient import TestClient
from viewer_fixtures import SCRIPT, add_entries, add_records, make_prompt, make_record, write_run

from harness.core.types import Status
from harness.reports.viewer.app import Access, make_viewer_app
from harness.reports.viewer.catalogue import Catalogue
from harness.runs.progress import STAGES
from harness.runs.store import ATTEMPTS, RunStore

ORIGIN = "http://127.0.0.1:8000"
STATUS_OF = {"b": "failed", "c": "passed"}
ACCESS = Access(token="the-token", session="the-session", path="/view")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "a", [make_record(task, attempt) for attempt in range(2) for task in range(4)])
    return tmp_path


@pytest.fixture
def stranger(runs: Path) -> TestClient:
    return TestClient(make_viewer_app(Catalogue(runs), ACCESS), base_url=ORIGIN)


@pytest.fixture
def client(stranger: TestClient) -> TestClient:
    assert stranger.get("/view/?token=the-token").status_code == 200
    return stranger


def ask(client: TestClient, name: str, **parameters: Any) -> Any:
    response = client.get(f"/view/api/{name}", params=parameters)
    assert response.status_code == 200, response.text
    return response.json()


def fail(client: TestClient, name: str, **parameters: Any) -> tuple[int, str]:
    response = client.get(f"/view/api/{name}", params=parameters)
    return response.status_code, response.json()["error"]


def test_the_token_opens_the_page_and_sets_a_cookie(stranger: TestClient) -> None:
    response = stranger.get("/view/?token=the-token")
    assert response.status_code == 200
    cookie = response.headers["set-cookie"]
    assert cookie == "harness-view=the-session; Path=/view/; HttpOnly; SameSite=Strict"
    assert stranger.get("/view/api/runs").status_code == 200


def test_an_issued_token_opens_the_page_once(runs: Path) -> None:
    access = Access()
    app = make_viewer_app(Catalogue(runs), access)
    first, second = access.issue_url(ORIGIN), access.issue_url(ORIGIN)
    codes = [TestClient(app, base_url=ORIGIN).get(url).status_code for url in (first, first, second)]
    assert codes == [200, 401, 200]
    assert access.token not in first


@each_case("path", ["/view/", "/view/?token=wrong", "/view/x.js", "/view/api/runs", "/", "/x"])
def test_without_token_and_cookie_there_is_no_answer(stranger: TestClient, path: str) -> None:
    response = stranger.get(path)
    assert response.status_code == 401
    assert "set-cookie" not in response.headers


def test_the_token_opens_nothing_but_the_page(stranger: TestClient) -> None:
    assert stranger.get("/view/api/runs?token=the-token").status_code == 401


def test_a_wrong_cookie_is_refused(stranger: TestClient) -> None:
    assert stranger.get("/view/api/runs", headers={"cookie": "harness-view=x"}).status_code == 401
    assert stranger.get("/view/api/runs", headers={b"cookie": b"harness-view=\xe9"}).status_code == 401


@each_case("host", ["evil.example:8000", "127.0.0.1.evil.example:8000", "evil.example", "", "[::1]:1"])
def test_another_host_name_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/view/api/runs", headers={"host": host}).status_code == 421


@each_case("host", ["localhost:9000", "127.0.0.1:9000"])
def test_a_forwarded_port_is_accepted(client: TestClient, host: str) -> None:
    assert client.get("/view/api/runs", headers={"host": host}).status_code == 200


@each_case("site", ["cross-site", "same-site"])
def test_a_request_of_another_site_is_refused(client: TestClient, site: str) -> None:
    headers = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
    assert client.get("/view/api/runs", headers=headers).status_code == 403
    navigation = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
    assert client.get("/view/api/runs", headers=navigation).status_code == 403
    assert client.get("/view/?token=the-token", headers=navigation).status_code == 200


def test_the_page_opens_only_by_a_link(client: TestClient) -> None:
    embedding = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert client.get("/view/?token=the-token", headers=embedding).status_code == 403


@each_case("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_the_viewer_only_reads(stranger: TestClient, method: str) -> None:
    assert stranger.request(method, "/view/api/runs").status_code == 405


def test_every_answer_has_the_headers_of_safety(stranger: TestClient) -> None:
    for path in ("/view/?token=the-token", "/view/api/runs", "/none"):
        headers = stranger.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_the_page_is_one_file_and_its_data_comes_by_requests(client: TestClient) -> None:
    page = client.get("/view/").text
    assert '<script type="application/json" id="data"></script>' in page
    assert "src=" not in page.partition("<script>")[0]
    assert client.get("/view/%2e%2e/app.py").status_code == 404


def test_a_finished_run_is_listed_with_its_result(client: TestClient) -> None:
    (run,) = ask(client, "runs")["runs"]
    assert (run["key"], run["state"], run["is_bundled"]) == ("a", "finished", False)
    assert (run["rate"], run["passed"]) == ("25.0 % (4.6 % to 69.9 %)", "2/8")


def test_the_runs_come_by_range_and_search(client: TestClient, runs: Path) -> None:
    for name in ("b", "c"):
        write_run(runs / name, [make_record(0)], agent=f"agent of {name}")
    page = ask(client, "runs", first=1, number=1)
    assert ([run["key"] for run in page["runs"]], page["found"], page["all"]) == (["b"], 3, 3)
    page = ask(client, "runs", search="AGENT c")
    assert ([run["key"] for run in page["runs"]], page["found"], page["all"]) == (["c"], 1, 3)


def test_the_runs_are_sorted_and_those_without_the_value_come_last(client: TestClient, runs: Path) -> None:
    write_run(runs / "b", [make_record(0)], started_at="2026-08-02T10:00:00Z")
    write_run(runs / "c", [make_record(1)], planned=2, is_finished=False)
    for sort, descending, expected in (
        ("started", 1, "b"),
        ("rate", 1, "bac"),
        ("rate", 0, "abc"),
        ("run", 1, "cba"),
    ):
        page = ask(client, "runs", sort=sort, descending=descending)
        assert "".join(run["key"] for run in page["runs"]).startswith(expected), (sort, descending)
    assert fail(client, "runs", sort="x")[0] == 400


def test_the_models_by_benchmarks_have_the_newest_finished_run(client: TestClient, runs: Path) -> None:
    newer = [make_record(0), make_record(1)]
    write_run(runs / "b", newer, started_at="2026-08-02T10:00:00Z")
    write_run(runs / "c", [make_record(1)], planned=2, is_finished=False)
    config = {"benchmark": "gsm8k", "model": "another"}
    write_run(runs / "d", [make_record(0)], benchmark="gsm8k", config=config)
    found = ask(client, "matrix")
    assert found["benchmarks"] == ["gsm8k", "mbpp"]
    cells = {
        row["model"]: [cell and (cell["key"], cell["runs"]) for cell in row["cells"]] for row in found["rows"]
    }
    assert cells == {"another": [("d", 1), None], "some-model": [None, ("b", 2)]}


def test_the_attempts_of_one_task_are_found_by_its_id_alone(client: TestClient, runs: Path) -> None:
    write_run(runs / "b", [make_record(1, task_id=name) for name in ("x", "x/1", "\ud800")])
    for task, number in (("x", 1), ("\\ud800", 1), ("y", 0)):
        assert ask(client, "attempts", run="b", task=task)["found"] == number, task


def test_only_a_run_whose_files_have_changed_is_read_again(
    client: TestClient, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        write_run(runs / f"run-{number}", [make_record(0)])
    ask(client, "runs")
    opened = []

    def note(path: Any, *arguments: Any, **options: Any) -> int:
        opened.append(str(path))
        return open_file(path, *arguments, **options)

    open_file = os.open
    monkeypatch.setattr(os, "open", note)
    ask(client, "runs")
    assert [path for path in opened if path.endswith((".json", ".jsonl"))] == []
    add_records(runs / "run-7", make_record(1))
    ask(client, "runs")
    assert opened.count("manifest.json") == 1


def test_a_broken_run_is_listed_with_the_reason(client: TestClient, runs: Path) -> None:
    (runs / "b").mkdir()
    (runs / "b" / "manifest.json").write_text("{")
    broken = next(run for run in ask(client, "runs")["runs"] if run["key"] == "b")
    assert broken["state"] == "broken"
    assert "is not JSON" in broken["reason"]


def test_the_page_of_a_run_begins_with_its_headline(client: TestClient) -> None:
    run = ask(client, "run", run="a")
    assert run["headline"][0] == "25.0 % resolved"
    assert run["statuses"] == {"passed": 2, "failed": 2, "timeout": 2, "memory_limit": 2}
    assert [row["name"] for row in run["categories"]] == ["graphs", "strings"]
    assert run["index"]["is_complete"]


def test_a_live_run_counts_attempts_to_come_and_has_the_ages_of_those_under_way(
    client: TestClient, runs: Path
) -> None:
    live = write_run(runs / "live", [make_record(task) for task in range(3)], planned=9, is_finished=False)
    path = add_entries(live, 1, {**make_prompt("solve it"), "time": time.time() - 100}, attempt=1)
    os.utime(path, (time.time() - 40,) * 2)
    with closing(RunStore(live)):
        run = ask(client, "run", run="live")
    assert [(each["label"], each["number"]) for each in run["status_counts"]] == [
        *(("passed", 1), ("failed", 1), ("timeout", 1), ("to come", 6))
    ]
    (under_way,) = run["under_way"]
    assert 100 <= under_way["seconds"] < 200
    assert 40 <= under_way["quiet_seconds"] < 140


def test_a_live_run_has_the_stages_of_its_attempts(client: TestClient, runs: Path) -> None:
    live = write_run(runs / "live", [make_record(task) for task in range(3)], planned=9, is_finished=False)
    for attempt in (1, 2):
        add_entries(live, 1, make_prompt("solve it"), attempt=attempt)
    with closing(RunStore(live)):
        entry = {"task_id": "Task/1", "attempt": 1, "stage": "grading", "place": SCRIPT}
        stages = {"counts": {"grading": 1, "queued": 4}, "attempts": [entry]}
        (live / STAGES).write_text(json.dumps(stages))
        run = ask(client, "run", run="live")
        states = [ask(client, "attempt", run="live", task="Task/1", attempt=each)["state"] for each in (1, 2)]
    assert [each["stage"] for each in run["under_way"]] == [f"grading on {SCRIPT}", ""]
    assert run["stages"] == [["grading", 1], ["queued", 4]]
    assert states == [f"under way, grading on {SCRIPT}", "under way"]


def test_a_killed_run_has_no_stages(client: TestClient, runs: Path) -> None:
    killed = write_run(runs / "killed", [make_record(0)], planned=9, is_finished=False)
    add_entries(killed, 0, make_prompt("solve it"), attempt=1)
    entry = {"task_id": "Task/0", "attempt": 1, "stage": "grading"}
    (killed / STAGES).write_text(json.dumps({"counts": {"grading": 1}, "attempts": [entry]}))
    run = ask(client, "run", run="killed")
    assert (run["state"], run["stages"], run["under_way"]) == ("interrupted", [], [])
    assert ask(client, "attempt", run="killed", task="Task/0", attempt=1)["state"] == "interrupted"


def test_a_transcript_that_cannot_be_read_has_no_age(client: TestClient, runs: Path) -> None:
    live = write_run(runs / "live", [make_record(task) for task in range(3)], planned=9, is_finished=False)
    add_entries(live, 1, attempt=1).write_text("not JSON")
    with closing(RunStore(live)):
        (under_way,) = ask(client, "run", run="live")["under_way"]
    assert under_way["seconds"] is None


def test_a_run_whose_tasks_have_no_category_says_so(client: TestClient, runs: Path) -> None:
    write_run(runs / "plain", [make_record(0, category=None)])
    assert not ask(client, "run", run="plain")["has_categories"]
    assert ask(client, "run", run="a")["has_categories"]


def test_attempts_come_by_range(client: TestClient) -> None:
    found = ask(client, "attempts", run="a", sort="task", descending="0", first=2, number=3)
    assert [(row["task_id"], row["attempt"]) for row in found["rows"]] == [
        ("Task/1", 0),
        ("Task/1", 1),
        ("Task/2", 0),
    ]
    assert (found["found"], found["all"]) == (8, 8)
    assert ask(client, "attempts", run="a", first=99)["rows"] == []
    assert ask(client, "attempts", run="a", status="failed", category="graphs")["found"] == 2


@each_case("wrong", [{"sort": "x"}, {"status": "x"}, {"first": "-1"}, {"number": "1e3"}, {"first": "9" * 30}])
def test_a_wrong_parameter_is_named(client: TestClient, wrong: dict[str, str]) -> None:
    status, error = fail(client, "attempts", run="a", **wrong)
    assert status == 400
    assert repr(next(iter(wrong.values())))[:20].rstrip("'") in error


@each_case("key", ["..", "/etc", "b", "a/../a", "\x00"])
def test_only_runs_of_the_list_can_be_named(client: TestClient, key: str) -> None:
    assert fail(client, "run", run=key) == (404, "the list has no such run")


def test_an_attempt_has_its_texts_and_figures(client: TestClient) -> None:
    found = ask(client, "attempt", run="a", task="Task/1", attempt=1)
    texts = {each["label"]: each["text"] for each in found["texts"]}
    assert texts["program or answer"] == f"program 1 {SCRIPT}"
    assert texts["evidence"].startswith("assert 1 == 42")
    assert ["rounds", "1"] in found["facts"]
    assert fail(client, "attempt", run="a", task="Task/99")[0] == 404


def test_a_run_under_way_shows_the_attempts_that_have_begun(client: TestClient, runs: Path) -> None:
    running = write_run(runs / "live", [make_record(0), make_record(1)], planned=4, is_finished=False)
    manifest = json.loads((running / "manifest.json").read_text())
    manifest["planned"]["task_ids"] = [f"Task/{task}" for task in range(4)]
    (running / "manifest.json").write_text(json.dumps(manifest))
    with closing(RunStore(running)):
        add_entries(running, 1, make_prompt("ended"))
        add_entries(running, 2, make_prompt("solve it"))
        run = ask(client, "run", run="live")
        assert run["state"] == "running"
        assert run["headline"][0] == "running: 2 of 4 attempts"
        assert [each["task_id"] for each in run["under_way"]] == ["Task/2"]
        assert ask(client, "attempt", run="live", task="Task/2")["status"] is None
        transcript = ask(client, "transcript", run="live", task="Task/2", first=0, generation=0)
        assert transcript["blocks"][0]["text"] == "solve it"
        add_records(running, make_record(2))
        assert ask(client, "attempt", run="live", task="Task/2")["status"] == "timeout"
        assert ask(client, "run", run="live")["under_way"] == []
    assert ask(client, "run", run="live")["state"] == "interrupted"


def test_an_attempt_without_a_verdict_may_begin_again(client: TestClient, runs: Path) -> None:
    record = make_record(0, status=Status.INFRA_ERROR)
    running = write_run(runs / "live", [record], is_finished=False)
    with closing(RunStore(running)):
        add_entries(running, 0, make_prompt("again"))
        assert [each["task_id"] for each in ask(client, "run", run="live")["under_way"]] == ["Task/0"]


def test_a_removed_run_is_gone_and_the_others_stay(client: TestClient, runs: Path) -> None:
    write_run(runs / "b", [make_record(1)])
    assert len(ask(client, "runs")["runs"]) == 2
    shutil.rmtree(runs / "b")
    assert fail(client, "run", run="b") == (410, "the folder of this run was removed")
    assert [run["key"] for run in ask(client, "runs")["runs"]] == ["a"]


def test_a_line_that_is_no_record_is_reported_with_its_number(client: TestClient, runs: Path) -> None:
    with open(runs / "a" / ATTEMPTS, "a") as file:
        file.write("no record\n")
    for problem in ask(client, "run", run="a")["problems"]:
        assert f"{ATTEMPTS}:9: is not an attempt record" in problem


def test_two_runs_are_compared_by_task(client: TestClient, runs: Path) -> None:
    write_run(runs / "b", [make_record(task, status=Status.PASSED) for task in range(4)])
    found = ask(client, "comparison", baseline="a", candidate="b")
    tasks = {each["label"]: [task["task_id"] for task in each["tasks"]] for each in found["tasks"]}
    assert tasks["gained"] == ["Task/1", "Task/2", "Task/3"]
    assert found["difference"] == 0.75
    assert fail(client, "comparison", baseline="a", candidate="a")[0] == 400


def test_half_a_surrogate_pair_in_a_task_id_breaks_no_page(client: TestClient, runs: Path) -> None:
    for name in ("b", "c"):
        write_run(runs / name, [make_record(1, task_id="\ud800", status=Status(STATUS_OF[name]))])
    (row,) = ask(client, "attempts", run="b")["rows"]
    found = ask(client, "attempt", run="b", task=row["task_id"])
    assert (row["name"], found["status"]) == (r"\ud800", "failed")
    tasks = ask(client, "comparison", baseline="b", candidate="c")["tasks"]
    assert [task["name"] for each in tasks for task in each["tasks"]] == [r"\ud800"]


def test_the_manifest_is_listed_by_path(client: TestClient) -> None:
    assert ["data.location", SCRIPT] in ask(client, "manifest", run="a")


def test_an_audit_has_its_conclusion_and_its_runs(client: TestClient, runs: Path) -> None:
    audit = runs / "an-audit"
    write_run(audit / "one", [make_record(0)])
    (audit / "audit.json").write_text("{}")
    assert ask(client, "runs")["audits"] == [{"key": "an-audit", "runs": 1}]
    assert ask(client, "audit", audit="an-audit")["conclusion"] is None
    assert ask(client, "run", run="an-audit/one")["state"] == "finished"
    attempt = {
        "task_id": "Task/0",
        "attack": "frames",
        "class": "lying",
        "forged": True,
        "failed": False,
        "status": "passed",
        "error": SCRIPT,
    }
    names = ("forged", "guessed", "failed_references", "unfinished", "containers_left", "attacked_tasks")
    summary = {**dict.fromkeys((*names, "attacks"), 0), "forged": 1}
    results = {"audit": {"benchmark": "mbpp"}, "summary": summary, "attempts": [attempt]}
    (audit / "results.json").write_text(json.dumps(results))
    found = ask(client, "audit", audit="an-audit")
    assert found["is_sound"] is False
    assert found["wrong"][0]["reason"] == "forged"
    (audit / "results.json").write_text('{"audit": 1}')
    assert "is not the result of an audit" in fail(client, "audit", audit="an-audit")[1]
