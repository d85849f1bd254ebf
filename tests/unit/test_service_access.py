"""The token of the service, as a header and as a part of the path."""

from __future__ import annotations

import pytest
from case_checks import each_case

from harness.core.errors import UsageError
from harness.service.app import admit, make_token, require_usable_token
from harness.service.errors import ServiceError
from harness.service.operations import require_own_origin

TOKEN = "a-token-of-forty-three-characters-0123456789"


@each_case(
    ("path", "headers"),
    [
        ("/run_code", {"authorization": f"Bearer {TOKEN}"}),
        (f"/{TOKEN}/run_code", {}),
        (f"/{TOKEN}/run_code", {"authorization": f"bearer {TOKEN}"}),
    ],
    ids=["header", "path", "both"],
)
def test_a_header_or_the_first_part_of_the_path_admits(path: str, headers: dict[str, str]) -> None:
    assert admit(TOKEN, path, headers, "a").path == "/run_code"


@each_case(
    ("path", "inner"),
    [
        (f"/{TOKEN}//run_code", "/run_code"),
        (f"//{TOKEN}//v1/grade", "/v1/grade"),
        (f"/{TOKEN}//v1/sandboxes/1/files//etc/hosts", "/v1/sandboxes/1/files//etc/hosts"),
        (f"/{TOKEN}/", "/"),
        (f"/{TOKEN}", "/"),
    ],
)
def test_further_slashes_around_the_token_do_not_count(path: str, inner: str) -> None:
    assert admit(TOKEN, path, {}, "a").path == inner
    behind = path.replace(TOKEN, "")
    assert admit(TOKEN, behind, {"authorization": f"Bearer {TOKEN}"}, "a").path == inner


@each_case(
    ("path", "headers"),
    [
        ("/run_code", {}),
        ("/run_code", {"authorization": "Bearer "}),
        ("/run_code", {"authorization": "Bearer wrong"}),
        ("/run_code", {"authorization": f"Basic {TOKEN}"}),
        ("/run_code", {"authorization": f"Bearer {TOKEN}x"}),
        (f"/{TOKEN[:-1]}/run_code", {}),
        (f"/run_code/{TOKEN}", {}),
        ("/\udcff/run_code", {"authorization": "Bearer \udcff"}),
        ("", {}),
    ],
)
def test_a_request_without_the_token_is_refused(path: str, headers: dict[str, str]) -> None:
    with pytest.raises(ServiceError, match="missing or wrong") as refused:
        admit(TOKEN, path, headers, "a")
    assert refused.value.status == 401


def test_a_random_token_is_usable() -> None:
    require_usable_token(make_token())


@each_case("token", ["", "short", "with/slash-and-more-characters", "with space and more text"])
def test_a_weak_or_unsendable_token_is_refused(token: str) -> None:
    with pytest.raises(UsageError, match="the token has"):
        require_usable_token(token)


@each_case("origin", ["https://elsewhere.example", "null", "", "http://host:8600.evil.example"])
def test_a_page_of_another_site_opens_no_web_socket(origin: str) -> None:
    with pytest.raises(ServiceError) as refused:
        require_own_origin({"host": "host:8600", "origin": origin})
    assert refused.value.status == 403


@each_case("headers", [{}, {"origin": "http://host:8600"}], ids=["no page", "own page"])
def test_a_program_and_an_own_page_open_web_sockets(headers: dict[str, str]) -> None:
    require_own_origin({"host": "host:8600", **headers})
