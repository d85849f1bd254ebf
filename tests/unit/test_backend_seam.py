"""The seam between a sandbox and its backend."""

from __future__ import annotations

import inspect
import pickle

from harness.sandbox.backends.base import Backend, SandboxSpec
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits


def methods(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(value)
        for name, value in vars(kind).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }


def test_a_spec_travels_as_plain_data() -> None:
    spec = SandboxSpec("python", Limits(cpus=0.5), name="a", labels={"harness.run": "r"}, terminals=True)
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_docker_has_every_method_of_the_protocol_as_it_is_declared() -> None:
    docker = methods(DockerBackend)
    assert {name: docker.get(name) for name in methods(Backend)} == methods(Backend)
