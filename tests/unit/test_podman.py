"""Podman behind its socket for Docker is recognised, and gets the same promises by other means."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import UsageError
from harness.sandbox.backends.docker import engine
from harness.sandbox.backends.docker.engine import (
    EngineReplies,
    find_podman,
    read_engine_facts,
    require_runtime,
)
from harness.sandbox.backends.docker.podman import adapt_to_podman
from harness.sandbox.backends.docker.runtimes import read_runtime_facts

# The parts of the replies of Podman 4.3.1 that harness reads.
INFO = {
    "OperatingSystem": "debian",
    "KernelVersion": "6.1.0-56-cloud-amd64",
    "Architecture": "amd64",
    "CgroupVersion": "2",
    "CgroupDriver": "systemd",
    "Driver": "overlay",
    "Runtimes": {"crun": {"path": "/no/such/crun"}, "runc": {"path": "/no/such/runc"}},
    "DefaultRuntime": "crun",
    "SecurityOptions": ["name=seccomp,profile=default"],
    "NCPU": 2,
    "MemTotal": 1 << 32,
}


def replies(runtime: str = "crun") -> EngineReplies:
    components = [
        {"Name": "Podman Engine", "Version": "4.3.1"},
        {"Name": f"OCI Runtime ({runtime})", "Version": f"{runtime} version 1.1.5+ds1\ncommit: 1"},
    ]
    version = {"Version": "4.3.1", "ApiVersion": "1.41", "Components": components}
    return EngineReplies({**INFO, "DefaultRuntime": runtime}, version)


def test_podman_is_named_with_the_version_of_its_runtime() -> None:
    facts = read_engine_facts(replies("runc"))
    assert (facts.name, facts.version, facts.runc_version) == ("Podman", "4.3.1", "1.1.5+ds1")
    assert read_engine_facts(replies()).runc_version is None


def test_the_runtime_that_podman_really_uses_is_reported_and_no_other_is_accepted() -> None:
    facts = read_engine_facts(replies())
    for runtime in ("runc", "crun"):
        require_runtime(facts, runtime)
    with pytest.raises(UsageError, match="uses the runtime 'crun'"):
        require_runtime(facts, "runsc")
    found = read_runtime_facts(replies(), "runc")
    assert (found.name, list(found.limits_not_enforced)) == ("crun", ["inodes"])


def test_no_promise_is_lost_in_the_configuration_for_podman(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    profile = json.dumps({"defaultAction": "SCMP_ACT_ERRNO"})
    host: dict[str, Any] = {
        "MaskedPaths": ["/proc/keys"],
        "ReadonlyPaths": ["/proc/1/sched"],
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={profile}"],
        "ReadonlyRootfs": True,
        "Tmpfs": {"/tmp": "size=2m,nr_inodes=64,mode=1777"},
        "Ulimits": [{"Name": "msgqueue", "Soft": 0, "Hard": 0}],
        "PidsLimit": 7,
    }
    adapted = adapt_to_podman({"image": "sha256:1", "host_config": host})
    its = adapted["host_config"]
    privileges, seccomp, mask = its["SecurityOpt"]
    assert privileges == "no-new-privileges:true"
    assert Path(seccomp.removeprefix("seccomp=")).read_text() == profile
    assert mask == "mask=/proc/keys:/proc/1/sched"
    assert its["Tmpfs"] == {"/run": "ro,size=4k", "/var/tmp": "ro,size=4k", "/tmp": "size=2m,mode=1777"}
    assert {each["Name"] for each in its["Ulimits"]} == {"msgqueue", "nofile", "nproc"}
    assert (adapted["image"], its["PidsLimit"]) == ("sha256:1", 7)
    assert "MaskedPaths" in host


def test_a_socket_of_podman_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    socket = tmp_path / "podman" / "podman.sock"
    socket.parent.mkdir()
    socket.touch()
    assert find_podman() == str(socket)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_a_socket_of_another_user_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    place = tmp_path / "podman" / "podman.sock"
    place.parent.mkdir()
    place.touch()
    assert engine.find_podman() == str(place)
    os.chown(place, 12345, 12345)
    assert engine.find_podman() != str(place)
