"""The base images of Dockerfiles are found and replaced, and the lines of instructions stay known."""

from __future__ import annotations

import textwrap

from harness.sandbox.machine.dockerfile import choose_base, read_dockerfile

TEXT = textwrap.dedent(
    """\
    # escape=`
    # A comment.
    ARG VERSION=24.04
    ARG REGISTRY

    FROM --platform=linux/amd64 ubuntu:${VERSION} AS Build
    RUN apt-get update `
      # A comment inside.
      && true
    FROM ${REGISTRY:-docker.io}/python AS python
    COPY --from=build /a /a
    COPY --chown=1:1 --from=busybox:1.36 /bin/busybox /bin/
    COPY --from=0 /b /b
    FROM build
    FROM scratch
    RUN last"""
)


def test_each_image_of_a_registry_is_found_with_its_line() -> None:
    bases = read_dockerfile(TEXT).list_bases()
    assert bases == [(6, "ubuntu:24.04"), (10, "docker.io/python"), (12, "busybox:1.36")]


def test_only_images_are_replaced() -> None:
    replaced = read_dockerfile(TEXT).replace_bases(
        lambda base: {"docker.io/python": "ours/python:1"}.get(base, base)
    )
    assert replaced.render() == "\n".join(
        [
            "# escape=`",
            "ARG VERSION=24.04",
            "ARG REGISTRY",
            "FROM --platform=linux/amd64 ubuntu:${VERSION} AS Build",
            "RUN apt-get update `",
            "  && true",
            "FROM ours/python:1 AS python",
            "COPY --from=build /a /a",
            "COPY --chown=1:1 --from=busybox:1.36 /bin/busybox /bin/",
            "COPY --from=0 /b /b",
            "FROM build",
            "FROM scratch",
            "RUN last",
            "",
        ]
    )
    assert [each.line for each in replaced.instructions][-2:] == [15, 16]


def test_added_instructions_are_in_each_stage_with_a_base() -> None:
    added = read_dockerfile("FROM a\nRUN b\nFROM scratch\nFROM a AS c\n").add_to_stages(["ARG d"])
    assert added.render() == "FROM a\nARG d\nRUN b\nFROM scratch\nFROM a AS c\nARG d\n"


def test_the_first_pattern_that_matches_chooses_the_image() -> None:
    rules = {"ubuntu:2*": "first", "ubuntu:*": "second", "*/t-bench/*": "third", "debian:latest": "fourth"}
    names = (
        "ubuntu:24.04",
        "ubuntu",
        "ubuntu:latest",
        "ghcr.io/x/t-bench/y:1",
        "debian",
        "a.b:5000/debian",
        "mine",
    )
    assert [choose_base(name, rules) for name in names] == [
        *("first", "second", "second", "third", "fourth", None, None)
    ]


def test_several_files_are_copied_to_a_folder_as_buildkit_does() -> None:
    text = 'FROM a\nCOPY --chown=b a \\\n b .\nADD a b c/\nCOPY a \\\n d\nCOPY ["a", "b", "c"]\nRUN a b c\n'
    assert read_dockerfile(text).end_folders().render() == text.replace(" b .\n", " b ./\n")
