"""Shards: which attempts each of them makes, and the manifest of a run that is merged from them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.core.types import Task
from harness.runs.config import load_config
from harness.runs.filters import select_shard
from harness.runs.records import PlannedAttempt
from harness.runs.resume import ACCEPTED
from harness.runs.shards import MERGED, merge_manifests

PLAN = [
    PlannedAttempt(Task(id=f"t/{task}", benchmark="b", environment="python", prompt=""), number, None, 7)
    for task in range(7)
    for number in range(2)
]


def test_the_shards_of_a_plan_are_disjoint_and_complete() -> None:
    shards = [select_shard(PLAN, f"{number}/3") for number in (1, 2, 3)]
    keys = [planned.key for shard in shards for planned in shard]
    assert sorted(keys) == sorted(planned.key for planned in PLAN)


def test_all_attempts_at_a_task_are_in_one_shard() -> None:
    assert [planned.key for planned in select_shard(PLAN, "3/3")] == [
        ("t/2", 0),
        ("t/2", 1),
        ("t/5", 0),
        ("t/5", 1),
    ]


def test_an_attempt_has_the_same_seed_in_its_shard() -> None:
    seeds = {planned.key: planned.seed for planned in PLAN}
    assert all(seeds[planned.key] == planned.seed for planned in select_shard(PLAN, "2/3"))


def test_one_shard_is_the_whole_plan() -> None:
    assert select_shard(PLAN, "1/1") == PLAN


@each_case("shard", ["1/8", "8/8"])
def test_more_shards_than_tasks_are_refused_in_every_shard(shard: str) -> None:
    with pytest.raises(UsageError, match="the run selects 7 tasks, too few for 8 shards") as caught:
        select_shard(PLAN, shard)
    assert caught.value.hint == "divide it into at most 7 shards, for example --shard 1/7"


@each_case("text", ["0/3", "4/3", "1", "1/0", "a/b", "1/3/3", " 1/3", "-1/3", "1/1000000"])
def test_a_shard_that_is_no_part_of_the_run_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_config(None, {"benchmark": "mbpp", "shard": text})
    assert caught.value.message == f'--shard must be I/N with I from 1 to N, such as 1/8, not "{text}"'


# --- the merged manifest


def manifest(shard: str, **fields: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "run_id": f"id of {shard}",
        "started_at": f"2026-01-0{shard[0]}T00:00:00Z",
        "harness_version": "1",
        "benchmark": "mbpp",
        "agent": "oracle",
        "agent_sha256": None,
        "definition_sha256": None,
        "source": "hub",
        "data": {"kind": "hub", "location": "x", "sha256": "aa", "rows": 9},
        "config": {"benchmark": "mbpp", "agent": "oracle", "shard": shard, "timeout_seconds": 180, "seed": 0},
        "tool_mode": None,
        "timeouts": {"python": 180},
        "limits": {"python": {"memory_bytes": 1}},
        "isolation": {"python": "task"},
        "images": {"python": f"sha256:{shard}"},
        "image_tags": {"python": "harness/python:0"},
        "unsound_references": {},
        "own_sandboxes": {},
        "weak_tests": {},
        "host": {"cores": int(shard[0])},
        **fields,
    }


def merge(*manifests: dict[str, Any], accepted: tuple[str, ...] = ()) -> dict[str, Any]:
    return merge_manifests([(Path(f"runs/{place}"), each) for place, each in enumerate(manifests)], accepted)


def test_a_merged_manifest_names_its_shards() -> None:
    merged = merge(manifest("2/2"), manifest("1/2"))
    assert [each["shard"] for each in merged[MERGED]] == ["2/2", "1/2"]
    assert merged[MERGED][0] == {
        "shard": "2/2",
        "run_id": "id of 2/2",
        "started_at": "2026-01-02T00:00:00Z",
        "host": {"cores": 2},
    }


def test_a_merged_run_began_with_its_first_shard() -> None:
    assert merge(manifest("2/2"), manifest("1/2"))["started_at"] == "2026-01-01T00:00:00Z"


def test_environments_of_which_only_some_shards_have_tasks_are_joined() -> None:
    other = manifest("2/2", timeouts={"db": 300}, limits={"db": {}}, image_tags={"db": "harness/db:1"})
    other["config"]["timeout_seconds"] = 300
    merged = merge(manifest("1/2"), other)
    assert merged["timeouts"] == {"db": 300, "python": 180}
    assert merged["image_tags"] == {"db": "harness/db:1", "python": "harness/python:0"}
    assert merged["config"]["timeout_seconds"] is None


def test_the_tool_mode_is_that_of_the_shards_that_needed_one() -> None:
    assert merge(manifest("1/2"), manifest("2/2", tool_mode="text"))["tool_mode"] == "text"


DIFFERENT: dict[str, dict[str, Any]] = {
    "harness_version": {"harness_version": "2"},
    "data.sha256": {"data": {"sha256": "bb"}},
    "image_tags.python": {"image_tags": {"python": "harness/python:1"}},
    "limits.python.memory_bytes": {"limits": {"python": {"memory_bytes": 2}}},
    "config.seed": {"config": {**manifest("2/2")["config"], "seed": 3}},
}


@each_case("field", DIFFERENT)
def test_shards_that_differ_are_refused_with_field_both_values_and_option(field: str) -> None:
    with pytest.raises(UsageError) as caught:
        merge(manifest("1/2"), manifest("2/2", **copy.deepcopy(DIFFERENT[field])))
    assert f"the shards differ in {field}: it is " in caught.value.message
    assert " in runs/0, and " in caught.value.message
    assert caught.value.message.endswith(" in runs/1")
    assert caught.value.hint == f"repeat the shard that is wrong, or add: --accept {field}"


@each_case("accepted", ["image_tags", "image_tags.python"])
def test_an_accepted_difference_stays_in_the_manifest(accepted: str) -> None:
    other = manifest("2/2", image_tags={"python": "harness/python:1"})
    (kept,) = merge(manifest("1/2"), other, accepted=(accepted,))[ACCEPTED]
    assert kept.pop("accepted_at")
    assert kept == {
        "field": "image_tags.python",
        "before": "harness/python:0",
        "after": "harness/python:1",
    }


def test_machines_paths_and_images_of_other_builds_may_differ() -> None:
    other = manifest("2/2", engine={"version": "x"}, source="path", data={"sha256": "aa", "location": "y"})
    other["config"]["data"] = "/elsewhere"
    assert ACCEPTED not in merge(manifest("1/2"), other)


def test_an_accepted_field_that_no_manifest_has_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown field for --accept 'image_tag'") as caught:
        merge(manifest("1/2"), manifest("2/2"), accepted=("image_tag",))
    assert (caught.value.hint or "").startswith("did you mean 'image_tags'?")
