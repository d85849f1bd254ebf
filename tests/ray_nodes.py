"""A Ray cluster of this machine for tests, whose nodes have a private Docker engine each."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psutil
from docker import APIClient
from private_engine import PrivateEngine, find_obstacle

# No engine listens there, so that the head of the cluster makes no attempts.
NO_ENGINE = "tcp://127.0.0.1:1"
STORE_BYTES = 80 * 1024 * 1024
# Ray takes this long to see that a node has died. Its default is half a minute. It also starts workers only
# when they are needed. Otherwise each command would start some that it does not use.
SYSTEM_CONFIG = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 3000,
    "health_check_failure_threshold": 3,
    "prestart_worker_first_driver": False,
}

# The start of a cluster takes about as long as all of the tests of one of these files.
SHARE_CLUSTER = ("tests/e2e/test_ray_runs.py", "tests/e2e/test_ray_service.py")


def shares_cluster(nodeid: str) -> bool:
    """Return whether a test is in one of the files that share a cluster."""
    return nodeid.partition("::")[0] in SHARE_CLUSTER


def find_ray_obstacle() -> str | None:
    """Return why there can be no cluster for tests on this machine; None if there can be one."""
    try:
        import ray  # noqa: F401
    except ImportError:
        return "the package ray is not installed"
    return find_obstacle()


@dataclass
class RayNodes:
    """The head of a cluster, which has no engine, and nodes with an engine each."""

    cluster: Any
    engines: list[PrivateEngine]
    nodes: list[Any] = field(default_factory=list)

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    @property
    def options(self) -> tuple[str, ...]:
        """The options of a command that uses the cluster."""
        return ("--executor", "ray", "--ray-address", self.address)

    def add_node(self, number: int) -> None:
        """Start the node of an engine, or start it again."""
        node = self.cluster.add_node(
            num_cpus=1,
            object_store_memory=STORE_BYTES,
            include_log_monitor=False,
            env_vars={"DOCKER_HOST": self.engines[number].address},
        )
        if number < len(self.nodes):
            self.nodes[number] = node
        else:
            self.nodes.append(node)

    def kill_node(self, number: int) -> None:
        """Kill every process of a node at once, as a loss of power would. Its engine runs on."""
        node = self.nodes[number]
        daemons = [info.process.pid for infos in node.all_processes.values() for info in infos]
        processes = [psutil.Process(pid) for pid in daemons]
        workers = [
            worker
            for process in processes
            for worker in process.children(recursive=True)
            if worker.ppid() == process.pid
        ]
        for process in processes + workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        self.cluster.remove_node(node, allow_graceful=False)

    def actors(self) -> list[int]:
        """Return the processes of the nodes that work for a run or a service."""
        found = []
        for node in self.nodes:
            for daemon in (info.process.pid for infos in node.all_processes.values() for info in infos):
                with contextlib.suppress(psutil.NoSuchProcess):
                    found += [each.pid for each in psutil.Process(daemon).children() if _is_actor(each)]
        return found

    def containers(self) -> list[str]:
        """Return the containers on all engines."""
        return [container for engine in self.engines for container in engine.containers()]


@contextlib.contextmanager
def start_ray_nodes(client: APIClient, *, nodes: int = 2) -> Iterator[RayNodes]:
    """Yield a cluster with this many nodes. Their engines have no image yet, except the first one."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    logging.getLogger("ray").setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        # Ray replaces the handler, and would keep pytest from ending by the signal.
        stack.callback(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))
        engines = []
        for _ in range(nodes):
            engine = PrivateEngine()
            stack.callback(engine.close)
            engine.start()
            engines.append(engine)
        engines[0].take_image(client)
        cluster = Cluster(
            initialize_head=True,
            shutdown_at_exit=True,
            head_node_args={
                "num_cpus": 0,
                "include_dashboard": False,
                "object_store_memory": STORE_BYTES,
                "env_vars": {"DOCKER_HOST": NO_ENGINE},
                "_system_config": SYSTEM_CONFIG,
                "include_log_monitor": False,
            },
        )
        stack.callback(cluster.shutdown)
        started = RayNodes(cluster, engines)
        for number in range(nodes):
            started.add_node(number)
        yield started


def _is_actor(process: psutil.Process) -> bool:
    try:
        title = " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return False
    return title.startswith(("ray::Node", "ray::ServiceNode"))
