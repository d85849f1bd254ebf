"""The data of tau2: its layout, its splits, its references, and the figures of a run."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from model_server import Asked, ModelServer, completion

from harness.api import run
from harness.benchmarks import load_benchmark
from harness.benchmarks.benchmark import TaskResult
from harness.benchmarks.data.source import BUNDLED
from harness.core.errors import DataError, UsageError
from harness.core.scoring.metrics import mean_pass_hat_k
from harness.core.types import Status
from harness.runs.agents import AttemptContext

MOCK = BUNDLED / "tau2" / "domains" / "mock"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the bundled sample."""
    return Path(shutil.copytree(BUNDLED / "tau2", tmp_path / "tau2"))


def test_train_and_test_are_parts_of_base(folder: Path) -> None:
    ids = {
        split: [task.id for task in load_benchmark("tau2", data=str(folder), split=split).tasks]
        for split in ("base", "train", "test")
    }
    assert ids["train"] + ids["test"] == ids["base"]
    assert ids["test"] == ["mock/both", "mock/go_on"]


def test_broken_data_are_told_with_their_place(folder: Path) -> None:
    tasks = folder / "domains" / "mock" / "tasks.json"
    for broken, told in (
        ('[{"id": "a"}]', "user_scenario"),
        (
            '[{"id": "a", "user_scenario": {"instructions": "x"}, '
            '"evaluation_criteria": {"reward_basis": ["X"]}}]',
            "reward_basis",
        ),
        ("{", "tasks.json"),
    ):
        tasks.write_text(broken)
        (folder / "domains" / "mock" / "split_tasks.json").write_text("{}")
        with pytest.raises(DataError) as caught:
            load_benchmark("tau2", data=str(folder))
        assert told in str(caught.value)
    with pytest.raises(DataError, match="no tasks of airline"):
        load_benchmark("tau2", data=str(folder), domain="airline")


def test_a_task_whose_reference_does_not_pass_is_quarantined(folder: Path) -> None:
    tasks = json.loads((MOCK / "tasks.json").read_text())
    tasks[1]["evaluation_criteria"]["actions"] = []
    (folder / "domains" / "mock" / "tasks.json").write_text(json.dumps(tasks))
    loaded = load_benchmark("tau2", data=str(folder))
    assert [*loaded.quarantined] == ["mock/complete"]


def test_the_published_references_pass_on_every_basis_without_a_judge(shared_data: Path) -> None:
    archive = shared_data / "tasks" / "tau2" / "tau2-data-from-inspect-evals.tar.gz"
    if not archive.exists():
        pytest.skip(f"no {archive}")
    loaded = load_benchmark("tau2", data=str(archive))
    assert Counter(task.category for task in loaded.tasks) == {
        "airline": 50,
        "retail": 114,
        "telecom": 114,
    }
    assert loaded.quarantined == {}
    results = dict.fromkeys(loaded.references, TaskResult(True, 1.0, judged=1, passed=1))
    named = loaded.scores(results)["passed_untouched"]
    untouched = Counter(task_id.partition("/")[0] for task_id in named)
    assert untouched == {"airline": 19, "retail": 7}
    # The only check of this task follows a call that it does not list as an action.
    mock = load_benchmark("tau2", data=str(archive), domain="mock")
    assert [*mock.quarantined] == ["mock/update_task_with_history_and_env_assertions"]


def test_pass_hat_k_is_the_share_of_choices_of_k_attempts_that_all_pass() -> None:
    counts = [(4, 4), (4, 2), (4, 0)]
    assert [mean_pass_hat_k(counts, k) for k in (1, 2, 5)] == [
        pytest.approx(0.5),
        pytest.approx((1 + 1 / 6) / 3),
        None,
    ]


def play_ada(asked: Asked) -> dict[str, Any]:
    """Reply as the user of the task `create`."""
    said = [message["content"] for message in asked.messages if message["role"] == "user"]
    return completion("Please add 'Paint the door' for ada." if len(said) == 1 else "Thanks! ###STOP###")


async def create(context: AttemptContext) -> str:
    desk = context.environment
    assert desk is not None
    await desk.call("respond", {"message": "Hi! How can I help you today?"})
    title = "Paint the door" if context.number == 0 else "Paint it"
    await desk.call("create_task", {"user_id": "ada", "title": title})
    await desk.call("respond", {"message": "It is task_3."})
    return "done"


async def test_a_run_reports_pass_hat_k_and_the_users_use_and_a_replay_asks_nobody(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_REPLY_CACHE", str(tmp_path / "replies"))
    server.script = play_ada
    result = await run(
        "tau2",
        agent=create,
        data="bundled",
        task_ids=["mock/create"],
        n_samples=2,
        options={"user": {"model": "scripted", "base_url": server.url}},
        output_dir=str(tmp_path),
    )
    assert [record.status for record in result.attempts] == [Status.PASSED, Status.FAILED]
    assert result.summary.scores["figures"] == {
        "pass^1": 0.5,
        "pass^2": 0.0,
        "an agent that does nothing": 0.0,
    }
    assert result.attempts[0].metrics["judge_requests"] == 2
    asked = len(server.asked)
    again = await run("tau2", replay_from=str(result.folder), output_dir=str(tmp_path))
    assert (again.summary.replay["equal"], len(server.asked)) == (2, asked)


async def test_an_agent_that_needs_a_user_is_refused_without_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a model for its environment") as caught:
        await run("tau2", agent=create, data="bundled", output_dir=str(tmp_path))
    assert "--option user=NAME" in (caught.value.hint or "")
