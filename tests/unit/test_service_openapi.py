"""The description of the service in OpenAPI."""

from __future__ import annotations

from typing import Any

from case_checks import each_case

from harness.service.openapi import describe_operations, make_description_operations
from harness.service.operations import Operation, RawReply
from harness.service.server import list_operations

DOCUMENT = describe_operations(list_operations())


def list_references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [each for inner in value.values() for each in list_references(inner)]
    return [each for inner in value for each in list_references(inner)] if isinstance(value, list) else []


@each_case("operation", list_operations(), ids=lambda each: f"{each.method} {each.path}")
def test_every_operation_is_described(operation: Operation) -> None:
    described = DOCUMENT["paths"][operation.path.replace(":file", "")][operation.method.lower()]
    assert described["summary"] == operation.summary
    assert ("requestBody" in described) == (operation.request is not None or operation.takes_bytes)


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


async def test_the_page_asks_nothing_of_any_other_host() -> None:
    operations = {each.path: each for each in make_description_operations(list_operations())}
    page = await operations["/docs"].handle(None, None)  # type: ignore[arg-type]
    assert isinstance(page, RawReply)
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert b"<script" not in page.content
    assert b"http://" not in page.content
    assert b"https://" not in page.content


async def test_the_page_has_every_type_and_the_paths_that_are_no_operations() -> None:
    operations = {each.path: each for each in make_description_operations(list_operations())}
    # `harness serve` prints the URL of `/`.
    page = await operations["/"].handle(None, None)  # type: ignore[arg-type]
    assert isinstance(page, RawReply)
    shown = [f"<summary>{name}</summary>" for name in DOCUMENT["components"]["schemas"]]
    assert all(each.encode() in page.content for each in [*shown, "/mcp", "/ws", "/terminal"])
