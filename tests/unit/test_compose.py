"""How a compose file of a task is read, and which parts of it are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.errors import DataError
from harness.environments.container.compose import Build, Compose, read_compose
from harness.environments.container.images import lay_out_build
from harness.environments.container.services import tests_name_service as name_service

Read = Callable[[str], Compose]
SHORT = """
version: '3'
x-note: ignored
services:
  main: {depends_on: [web]}
  web:
    build: ./web
    command: serve --port '80 1' $$HOME
    environment: [A=1, GIVEN, 'C=$GIVEN!']
    healthcheck: {test: 'curl x', interval: 1m30s, timeout: 500ms}
    volumes: [./web:/web:ro, data:/data, /tmp/x]
    mem_limit: 1g
    cpus: 0.5
    ports: ['80:80']
    networks: [default]
    restart: on-failure:3
"""
LONG = """
services:
  main: {depends_on: {web: {condition: service_started, restart: true}}}
  web:
    build: {context: web}
    command: [serve, --port, 80 1, $$HOME]
    environment: {A: 1, GIVEN: , C: '${GIVEN}!'}
    healthcheck: {test: [CMD-SHELL, curl x], interval: 90s, timeout: 0.5s}
    volumes:
      - {type: bind, source: ./web, target: /./web/, read_only: true}
      - {type: volume, source: data, target: /data}
      - {type: volume, target: //tmp/y/../x}
    deploy: {resources: {limits: {memory: 1024m, cpus: '0.5'}}}
    networks: {default: }
    restart: on-failure:3
volumes: {data: }
networks: {default: {driver: bridge}}
"""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that reads a compose file beside a Dockerfile and a file of tests."""
    folder = tmp_path / "task/environment"
    (folder / "web").mkdir(parents=True)
    (folder / "web/Dockerfile").write_text("FROM a\n")
    (tmp_path / "task/tests").mkdir()
    (tmp_path / "task/tests/test.sh").write_text("exit 0\n")
    (folder / "out").symlink_to(tmp_path / "task/tests")

    def read_one(text: str) -> Compose:
        (folder / "docker-compose.yaml").write_text(text)
        return read_compose(folder / "docker-compose.yaml", {"GIVEN": "a value", "EMPTY": ""}.get)

    return read_one


def test_short_and_long_forms_mean_the_same(read: Read) -> None:
    short, long = read(SHORT), read(LONG)
    web = short.services["web"]
    assert web.limits == long.services["web"].limits == {"memory_mb": 1024, "cpus": 0.5}
    left_out = {"mem_limit", "cpus", "deploy", "build", "networks"}
    assert web.model_dump(exclude=left_out) == long.services["web"].model_dump(exclude=left_out)
    assert web.environment == {"A": "1", "GIVEN": "a value", "C": "a value!"}
    assert web.command == ("serve", "--port", "80 1", "$HOME")
    assert short.order() == long.order() == ["web", "main"]


def test_anchors_merges_and_files_of_variables_are_filled_in(read: Read, tmp_path: Path) -> None:
    (tmp_path / "task/environment/web.env").write_text(
        "# a comment\nexport A=file\nB='$HOME # x'\nC=\"a b\" # why\nD=${GIVEN} # why\nGIVEN\n\n"
    )
    compose = read("""
x-common: &common
  image: a
  restart: always
  environment: &variables {A: common, E: 1}
services:
  one: {<<: *common, restart: "no", env_file: [web.env, {path: gone, required: false}]}
  two: {<<: [*common], environment: {<<: *variables, A: two}}
  three: *common
""")
    one, two, three = (compose.services[name] for name in ("one", "two", "three"))
    assert one.environment == {
        "A": "common",
        "B": "$HOME # x",
        "C": "a b",
        "D": "a value",
        "GIVEN": "a value",
        "E": "1",
    }
    assert two.environment == {"A": "two", "E": "1"}
    assert (one.restart, two.restart, three.restart, three.image) == ("no", "always", "always", "a")


def test_everything_else_is_refused_by_its_line(read: Read) -> None:
    web = "services:\n  web:\n    image: a\n"
    wrong = []
    for text, message in (
        *(
            (f"{web}    {key}: {value}\n", f":4: field 'services.web.{key}': is not supported")
            for key, value in (
                *(("privileged", "true"), ("cap_add", "[SYS_ADMIN]"), ("network_mode", "host")),
                *(("devices", "[/dev/kvm]"), ("pid", "host"), ("ipc", "host"), ("extra_hosts", "['a:1']")),
                *(("security_opt", "[seccomp:unconfined]"), ("secrets", "[a]"), ("volumes_from", "[main]")),
                *(("tty", "true"), ("stdin_open", "true"), ("sysctls", "[a=1]"), ("userns_mode", "host")),
                *(("cgroup_parent", "/"), ("runtime", "runc"), ("unknown", "1"), ("configs", "[a]")),
            )
        ),
        (f"{web}    volumes: [/var/run/docker.sock:/s]\n", "is not a file or a folder in environment/"),
        (
            f"{web}    volumes:\n    - ../tests:/t\n",
            ":5: field 'services.web.volumes.0': '../tests' is not a file",
        ),
        (f"{web}    volumes: [./out:/t]\n", "is not a file or a folder in environment/"),
        (f"{web}    volumes: [./gone:/t]\n", "is not a file or a folder in environment/"),
        (f"{web}    volumes: ['./web:/t:rslave']\n", "the mode 'rslave'"),
        (
            f"{web}    volumes: ['a:/t']\n  b: {{image: a, volumes: ['a:/t']}}\n",
            "web uses the volume 'a' as well",
        ),
        (f"{web}volumes: {{a: {{driver_opts: {{device: /}}}}}}\n", ":4: field 'volumes.a': has options"),
        (f"{web}    networks: [back]\n", "'services.web.networks': differs from the networks of main"),
        (f"{web}networks: {{default: {{driver: host}}}}\n", "must be 'bridge'"),
        (f"{web}    depends_on: [gone]\n", "'services.web.depends_on.gone': is not a service"),
        (f"{web}    depends_on: [web]\n", "web depend on each other"),
        (
            f"{web}  main: {{depends_on: {{web: {{condition: service_healthy}}}}}}\n",
            "needs a healthcheck of web",
        ),
        (f"{web}    healthcheck: {{test: [curl, x]}}\n", "test must begin with CMD"),
        (f"{web}    healthcheck: {{test: x, interval: 5}}\n", "must be a duration"),
        (
            f"{web}    environment: [NOT_GIVEN]\n",
            "needs the variable NOT_GIVEN, which the run does not pass on",
        ),
        (f"{web}    environment: ['A=${{NOT_GIVEN:?no}}']\n", "has a '$' that is not supported"),
        (f"{web}    hostname: 'a b'\n", "must be the name of a host"),
        (f"{web}configs: {{a: {{file: /etc/passwd}}}}\n", ":4: field 'configs': is not supported"),
        (f"{web}include: [/etc/a.yaml]\n", ":4: field 'include': is not supported"),
        ("services: {web: {build: ../tests}}\n", "needs a Dockerfile in this folder"),
        ("services: {web: {build: https://evil.example/x.git}}\n", "needs a Dockerfile in this folder"),
        ("services: {web: {build: {context: web, dockerfile: ../../tests/test.sh}}}\n", "needs a Dockerfile"),
        ("services: {web: {build: {context: web, network: host}}}\n", "is not supported"),
        ("services: {web: }\n", ":1: field 'services.web': needs a build or an image"),
        ("services:\n  main: {user: root}\n", ":2: field 'services.main.user': is not supported for main"),
        ("services:\n  main: {command: [run, x]}\n", "is not supported for main, whose process only waits"),
        ("a: b\n", ":1: needs services"),
        ("services: &a {web: *a}\n", "has no anchor before it"),
        (
            f"{web}    env_file: ../tests/test.sh\n",
            "'services.web.env_file': '../tests/test.sh' is not a file",
        ),
        (f"{web}    env_file: [{{path: gone}}]\n", "'services.web.env_file': 'gone' is not a file"),
        (
            f"x-0: &a0 [{', '.join('a' * 100)}]\n"
            + "".join(f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 100)}]\n" for n in (1, 2))
            + web,
            "more than 100,000 values",
        ),
        (
            "x-0: &a0 [a]\n" + "".join(f"x-{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 40)) + web,
            "levels deep",
        ),
    ):
        try:
            read(text)
        except DataError as error:
            if message not in str(error) or "docker-compose.yaml" not in str(error):
                wrong.append((text, str(error)))
        else:
            wrong.append((text, "accepted"))
    assert wrong == []


def test_a_build_has_its_arguments_and_ends_with_its_stage(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    text = "ARG V=1\nFROM a:$V AS one\nARG W\nRUN one\nFROM one AS two\nRUN two\n"
    (tmp_path / "web/Other").write_text(text)
    build = Build(context="web", dockerfile="Other", args={"V": "2", "W": "3"}, target="one")
    with lay_out_build(tmp_path, build, "web") as place:
        assert (place / "Dockerfile").read_text() == 'ARG V="2"\nFROM a:$V AS one\nARG W="3"\nRUN one\n'
        assert (place / "Other").read_text() == text
    with (
        pytest.raises(DataError, match="has no stage 'gone'"),
        lay_out_build(tmp_path, build.model_copy(update={"target": "gone"}), "web"),
    ):
        pass


def test_tests_need_a_service_that_they_name_as_a_host(read: Read, tmp_path: Path) -> None:
    compose = read("services: {app: {image: a, hostname: backend}}\n")
    wrong = []
    for text, needs in (
        ("requests.get('http://app:8000/x')", True),
        ('connect(host="app")', True),
        ("psql postgres://u:p@backend/db", True),
        ("curl app:8000", True),
        ("nc -z app 8000", True),
        ("redis-cli -h app ping", True),
        ("open('/app/items.json')", False),
        ("from app import main", False),
        ("an application", False),
    ):
        (tmp_path / "tests").mkdir(exist_ok=True)
        (tmp_path / "tests/test_it.py").write_text(text)
        if name_service(compose, tmp_path / "tests") is not needs:
            wrong.append(text)
    assert wrong == []
