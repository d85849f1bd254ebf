"""The Docker engine: the connection, its errors as our own, and its facts."""

from __future__ import annotations

import os
import platform
import pwd
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.core.errors import EngineUnavailableError, SandboxError, UsageError
from harness.sandbox.time_factor import extend_wait

if TYPE_CHECKING:
    from docker import APIClient
    from docker.errors import APIError

# An engine that does not run refuses at once. One on a busy machine may need seconds for its first answer.
CONNECT_SECONDS = 10
# A socket of systemd accepts before Podman runs, because the first request starts it.
START_SECONDS = 60
PING_SECONDS = 2
CALL_SECONDS = 60
# One connection for each sandbox that is in use at once. With docker-py's default of 10, the client would
# reconnect all the time.
POOL_SIZE = 64
# A part of an engine's message, and the repair of its cause on the engine's machine.
REPAIRS = {
    "apparmor_parser": "install AppArmor's tools where the engine runs: sudo apt-get install -y apparmor",
    "no space left on device": "make room where the engine runs: harness images prune, docker system df",
}
PODMAN = "Podman"
# Codes of HTTP.
NOT_FOUND, CONFLICT, INTERNAL_ERROR = 404, 409, 500


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The facts that an engine reports. `cpus` and `memory_bytes` describe the engine's machine."""

    # "Docker", or "Podman" behind its socket that understands Docker's requests.
    name: str
    version: str
    api_version: str
    operating_system: str
    kernel: str
    architecture: str
    cgroup_version: int
    cgroup_driver: str
    storage_driver: str
    runc_version: str | None
    runtimes: tuple[str, ...]
    default_runtime: str
    security_options: tuple[str, ...]
    cpus: int
    memory_bytes: int


def connect() -> APIClient:
    """Return a client of the environment's engine.

    That is the engine of DOCKER_HOST, else of the docker context, else of the local socket, else Podman's
    socket. Threads may share the client. Raises EngineUnavailableError within seconds, without a retry.
    """
    try:
        return _connect(_endpoint)
    except EngineUnavailableError as error:
        podman = None if find_chosen_endpoint() else find_podman()
        if podman is None:
            raise
        try:
            return _connect(lambda: {"base_url": f"unix://{podman}"})
        except EngineUnavailableError:
            raise error from None


def _connect(find_endpoint: Callable[[], dict[str, Any]]) -> APIClient:
    from docker import APIClient
    from docker.errors import DockerException
    from requests import RequestException

    endpoint: dict[str, Any] = {}
    try:
        endpoint = find_endpoint()
        client = APIClient(
            **endpoint, version="auto", timeout=_first_answer_seconds(endpoint), max_pool_size=POOL_SIZE
        )
    except (DockerException, RequestException, OSError, ValueError) as error:
        # docker-py parses and resolves addresses, and does not catch the errors of that.
        raise _unavailable(error, _first_answer_seconds(endpoint)) from error
    client.timeout = round(extend_wait(CALL_SECONDS))
    if client.base_url.startswith("http+docker://"):
        # Without this, every call reads .netrc and the proxy variables, which mean nothing to a local socket.
        client.trust_env = False
    return client


def engine_answers(client: APIClient) -> bool:
    """Return whether the engine answers one request within PING_SECONDS. Raises nothing."""
    from requests import RequestException

    try:
        return client.get(f"{client.base_url}/_ping", timeout=extend_wait(PING_SECONDS)).ok
    except (RequestException, OSError):
        return False


@contextmanager
def engine_errors(action: str) -> Iterator[None]:
    """Raise the errors of docker-py and its transport as SandboxError, with `outside` set."""
    from docker.errors import APIError, DockerException
    from requests import RequestException

    try:
        yield
    except APIError as error:
        message = f"cannot {action}: {error.explanation or error}"
        repair = next((repair for part, repair in REPAIRS.items() if part in message), None)
        raise SandboxError(message, hint=repair, outside=True) from error
    except (DockerException, RequestException) as error:
        raise SandboxError(
            f"cannot {action}: {error}",
            hint="check whether the engine still answers: harness doctor",
            outside=True,
        ) from error


def is_gone(error: APIError) -> bool:
    """Return whether the engine answers that it has no such container or image."""
    return error.status_code == NOT_FOUND


def is_going(error: APIError) -> bool:
    """Return whether the engine answers that it is removing a container already, or still uses an image."""
    return error.status_code == CONFLICT


@dataclass(frozen=True, slots=True)
class EngineReplies:
    """The replies of an engine to the two questions about itself. Each takes it about 10 ms."""

    info: Mapping[str, Any]
    version: Mapping[str, Any]


def ask_engine(client: APIClient) -> EngineReplies:
    """Return the replies of the engine about itself. Raises SandboxError if it does not answer."""
    with engine_errors("ask the engine about itself"), ThreadPoolExecutor(1) as thread:
        version = thread.submit(client.version)
        return EngineReplies(client.info(), version.result())


def engine_facts(client: APIClient) -> EngineFacts:
    """Return the facts of the engine. Raises SandboxError if it does not answer."""
    return read_engine_facts(ask_engine(client))


def read_engine_facts(replies: EngineReplies) -> EngineFacts:
    """Return the facts in the replies of the engine."""
    info, version = replies.info, replies.version
    return EngineFacts(
        name=PODMAN if _component_version(version, "Podman Engine") else "Docker",
        version=version["Version"],
        api_version=version["ApiVersion"],
        operating_system=info["OperatingSystem"],
        kernel=info["KernelVersion"],
        architecture=info["Architecture"],
        # Engines before 20.10 do not report the version, and support only version 1.
        cgroup_version=int(info.get("CgroupVersion") or 1),
        cgroup_driver=info.get("CgroupDriver", ""),
        storage_driver=info["Driver"],
        runc_version=_component_version(version, "runc") or _component_version(version, "OCI Runtime (runc)"),
        runtimes=tuple(sorted(info.get("Runtimes") or ())),
        default_runtime=info.get("DefaultRuntime", ""),
        security_options=tuple(info.get("SecurityOptions") or ()),
        cpus=info["NCPU"],
        memory_bytes=info["MemTotal"],
    )


def require_runtime(facts: EngineFacts, runtime: str) -> None:
    """Raise UsageError, with a hint, if the engine does not know `runtime` (runc, runsc, ...).

    Podman starts every container of its socket with its default runtime, so `runc` means that one there.
    """
    if facts.name == PODMAN and runtime not in ("runc", facts.default_runtime):
        raise UsageError(
            f"Podman uses the runtime '{facts.default_runtime}' for all containers, and not '{runtime}'",
            hint=f'set runtime = "{runtime}" in containers.conf of Podman, or use Docker',
        )
    if runtime in facts.runtimes:
        return
    hint = f"known: {', '.join(facts.runtimes)}"
    if runtime == "runsc":
        hint += "\nrun: harness setup --runtime runsc   (installs gVisor and adds it to the engine)"
    raise UsageError(f"the engine does not know the runtime '{runtime}'", hint=hint)


def image_details(client: APIClient, reference: str) -> dict[str, Any] | None:
    """Return the engine's details of an image (tag or id); None if the engine has no such image."""
    from docker.errors import ImageNotFound

    with engine_errors(f"look for image {reference}"):
        try:
            details: dict[str, Any] = client.inspect_image(reference)  # type: ignore[no-untyped-call]
        except ImageNotFound:
            return None
    return details


def is_debian_family() -> bool:
    """Return whether this machine runs Debian, Ubuntu or a system that names one of them in ID_LIKE."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return False
    return not {"debian", "ubuntu"}.isdisjoint([release.get("ID", ""), *release.get("ID_LIKE", "").split()])


def can_install_packages() -> bool:
    """Return whether this process may install Debian packages, which takes root on Debian or Ubuntu."""
    return os.geteuid() == 0 and is_debian_family()


def system_path() -> str:
    """Return PATH with the folders of system programs, which users, and root after `su`, may lack in it."""
    return ":".join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def find_chosen_endpoint() -> str | None:
    """Return the endpoint that the user chose ("DOCKER_HOST=...", a docker context); None for the default."""
    for variable in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        if os.environ.get(variable):
            return f"{variable}={os.environ[variable]}"
    name = _configured_context()
    return None if name == "default" else f"docker context {name}"


def find_podman() -> str | None:
    """Return the path of the socket where this user's Podman, or the machine's, answers Docker's requests.

    A socket of another user is left alone (`su` keeps XDG_RUNTIME_DIR), because an engine can forge verdicts.
    """
    own = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    places = (f"{own}/podman/podman.sock", "/run/podman/podman.sock")
    return next(
        (
            place
            for place in places
            if os.access(place, os.R_OK | os.W_OK) and os.stat(place).st_uid in (0, os.geteuid())
        ),
        None,
    )


def find_podman_socket(client: APIClient) -> str | None:
    """Return the path of the socket that a client uses, None if it is not Podman's."""
    path = getattr(client.get_adapter(client.base_url), "socket_path", "")
    return path if path == find_podman() else None


def _configured_context() -> str:
    from docker.context.config import get_current_context_name

    return str(get_current_context_name())


def _endpoint() -> dict[str, Any]:
    """Return the arguments of APIClient for the engine, with the precedence of the docker command line."""
    from docker.context import ContextAPI
    from docker.errors import ContextException
    from docker.utils import kwargs_from_env

    environment = dict(kwargs_from_env())
    if "base_url" in environment:
        return environment
    name = os.environ.get("DOCKER_CONTEXT") or _configured_context()
    if name == "default":
        return environment
    context = ContextAPI.get_context(name)
    if context is None:
        raise ContextException(f"docker context '{name}' does not exist")
    return {"base_url": context.Host, "tls": context.TLSConfig}


def _hint_at_group() -> str:
    """Return how this user gets access to the engine. A container may run as a user that has no name."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()} has no name here: give this process the group of the engine's socket"
    return f"run: sudo usermod -aG docker {name}   then log in again"


def _component_version(version: Mapping[str, Any], name: str) -> str | None:
    for component in version.get("Components") or ():
        if component.get("Name") == name:
            # Podman reports all that a runtime prints about its version.
            return str(component.get("Version")).partition("\n")[0].rpartition(" ")[2]
    return None


def _first_answer_seconds(endpoint: Mapping[str, Any]) -> int:
    slow = "podman" in str(endpoint.get("base_url"))
    return round(extend_wait(START_SECONDS if slow else CONNECT_SECONDS))


def _unavailable(error: BaseException, seconds: int) -> EngineUnavailableError:
    causes = list(_causes(error))
    denied = any(isinstance(cause, PermissionError) for cause in causes)
    if denied:
        reason = "permission denied on its socket"
    elif any(isinstance(cause, FileNotFoundError) for cause in causes):
        reason = "there is no socket"
    elif any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        reason = "nothing listens there"
    elif any(isinstance(cause, TimeoutError) for cause in causes):
        reason = f"no answer in {seconds} s"
    else:
        reason = str(error)
    where = find_chosen_endpoint()
    return EngineUnavailableError(
        f"no Docker engine answers at {where or 'the local socket'}: {reason}", hint=_hint(where, denied)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, because docker-py, requests and urllib3 wrap OSError."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def _hint(endpoint: str | None, denied: bool) -> str:
    """Return the command that starts or installs an engine here."""
    if endpoint is not None and not denied:
        return f"start the engine behind {endpoint}, or choose another one (DOCKER_HOST, docker context use)"
    if denied:
        return _hint_at_group()
    if can_install_packages():
        return "run: harness setup   (installs Docker if it is missing, starts it, builds the images)"
    if sys.platform == "darwin":
        return "start Docker Desktop, or run: colima start"
    if shutil.which("dockerd", path=system_path()):
        systemd = os.path.isdir("/run/systemd/system")
        return f"run: {'sudo systemctl start docker' if systemd else 'sudo dockerd &'}"
    if is_debian_family():
        return "run: sudo apt-get install -y docker.io && sudo usermod -aG docker $USER   then log in again"
    return "install Docker Engine 20.10 or newer (https://docs.docker.com/engine/install/) and start it"
