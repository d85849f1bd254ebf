"""The Kubernetes manifests in examples/clusters agree with the published schema, and with each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from case_checks import each_case

CLUSTERS = Path(__file__).parents[2] / "examples/clusters"
MANIFESTS = sorted((CLUSTERS / "kubernetes").glob("*.yaml"))


def read(name: str) -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.safe_load((CLUSTERS / "kubernetes" / name).read_text())
    return manifest


def pod(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = read(name)["spec"]["template"]["spec"]
    return spec


@each_case("path", MANIFESTS, ids=lambda path: path.name)
@each_case("version", ["1.33", "1.37"])
def test_every_manifest_has_the_published_schema(path: Path, version: str) -> None:
    kubernetes_validate.validate(yaml.safe_load(path.read_text()), version, strict=True)


@each_case("name", ["shards.yaml", "merge.yaml"])
def test_every_mounted_volume_exists(name: str) -> None:
    spec = pod(name)
    volumes = {volume["name"] for volume in spec["volumes"]}
    containers = [*spec["containers"], *spec.get("initContainers", [])]
    assert {mount["name"] for each in containers for mount in each["volumeMounts"]} == volumes


def test_the_claim_of_both_jobs_is_that_of_the_volume() -> None:
    claim = {"claimName": read("volume.yaml")["metadata"]["name"]}
    for name in ("shards.yaml", "merge.yaml"):
        assert claim in [volume.get("persistentVolumeClaim") for volume in pod(name)["volumes"]]


def test_each_completion_is_one_shard_of_that_number() -> None:
    spec = read("shards.yaml")["spec"]
    script = pod("shards.yaml")["containers"][0]["args"][0]
    assert f'"$((JOB_COMPLETION_INDEX + 1))" {spec["completions"]} /runs' in script


def test_only_the_engine_is_privileged_and_shares_its_socket() -> None:
    spec = pod("shards.yaml")
    engine, harness = spec["initContainers"][0], spec["containers"][0]
    assert engine["securityContext"] == {"privileged": True}
    assert "securityContext" not in harness
    assert harness["env"][0]["value"] == engine["args"][1].removeprefix("--host=")
