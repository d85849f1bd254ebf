"""The description of the service in OpenAPI."""

from __future__ import annotations

from typing import Any

from case_checks import each_case
from fastapi import Response

from harness.service.app import describe, describe_operations
from harness.service.operations import OperationRoute
from harness.service.server import list_operations

DOCUMENT = describe_operations(list_operations())


def list_references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [each for inner in value.values() for each in list_references(inner)]
    return [each for inner in value for each in list_references(inner)] if isinstance(value, list) else []


@each_case("operation", list_operations(), ids=lambda each: each.unique_id)
def test_every_operation_is_described(operation: OperationRoute) -> None:
    for method in operation.methods or ():
        described = DOCUMENT["paths"][operation.path.replace(":file", "")][method.lower()]
        assert described["summary"] == operation.summary
        assert ("requestBody" in described) == (
            method in ("POST", "PUT") and "keepalive" not in operation.path
        )


def test_streams_and_parameters_are_described() -> None:
    paths = DOCUMENT["paths"]
    exec_reply = paths["/v1/sandboxes/{id}/exec"]["post"]["responses"]["200"]
    assert set(exec_reply["content"]) == {"application/json", "text/event-stream"}
    assert "application/x-ndjson" in paths["/v1/grade"]["post"]["responses"]["200"]["content"]
    parameters = paths["/v1/sandboxes/{id}/files/{path}"]["put"]["parameters"]
    assert [each["name"] for each in parameters if each["in"] == "query"] == ["mode"]


def test_every_reference_leads_to_a_schema() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    references = list_references(DOCUMENT)
    assert references
    assert {each.removeprefix("#/components/schemas/") for each in references} <= set(schemas)


def test_only_public_operations_need_no_token() -> None:
    public = {
        path for path, methods in DOCUMENT["paths"].items() for each in methods.values() if "security" in each
    }
    assert public == {"/health"}


async def show(path: str) -> Response:
    """Return the page at a path."""
    operations = {each.path: each for each in describe(list_operations())}
    page = await operations[path].endpoint(call=None)
    assert isinstance(page, Response)
    return page


async def test_the_page_asks_nothing_of_any_other_host() -> None:
    page = await show("/docs")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert b"<script" not in page.body
    assert b"http://" not in page.body
    assert b"https://" not in page.body


async def test_the_page_has_every_type_and_the_paths_that_are_no_operations() -> None:
    # `harness serve` prints the URL of `/`.
    page = await show("/")
    shown = [f"<summary>{name}</summary>" for name in DOCUMENT["components"]["schemas"]]
    assert all(each.encode() in page.body for each in [*shown, "/mcp", "/ws", "/terminal"])
