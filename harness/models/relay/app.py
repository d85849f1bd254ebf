"""The one app of an attempt: it checks the token and the head of a request, and finds its route."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from harness.models.relay.errors import RelayError, encode_error
from harness.models.relay.exchange import Answer, BodyBudget, read_headers, repeat_body
from harness.models.relay.mcp_server import MAX_CALL_VALUES, MAX_MESSAGE_BYTES
from harness.models.relay.model_routes import API_OF_PATH, ModelRoutes

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from harness.models.endpoint import Api
    from harness.models.session import ModelSession


# More would only wait at the endpoint.
MOST_REQUESTS = 256
# The memory of the bodies of all requests under way, parsed values included.
MOST_BODY_BYTES = 64 * 1024 * 1024
_MCP_PATH = "/mcp"


def make_relay_app(token: str, *, model: ModelSession | None, mcp: ASGIApp | None) -> ASGIApp:
    """Return the app that the programs of one attempt reach the model and the tools through.

    Args:
        token: the key that a program sends, as `Authorization: Bearer` or as `x-api-key`.
        model: the attempt's access to the model, None for an attempt without one.
        mcp: the app that answers at `/mcp`, None without one. It need not check the token.
    """
    if not token:
        raise ValueError("the token of an attempt must not be empty")
    return _RelayApp(token, model, mcp)


class _RelayApp:
    def __init__(self, token: str, model: ModelSession | None, mcp: ASGIApp | None) -> None:
        self._token = token.encode()
        self._bodies = BodyBudget(MOST_BODY_BYTES)
        self._routes = None if model is None else ModelRoutes(model, self._bodies)
        self._mcp = mcp
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = Answer(send)
        # A path that would have to be decoded, joined or cut first is not a path of the relay.
        path = scope["raw_path"].decode("latin-1")
        api = API_OF_PATH.get(path)
        self._under_way += 1
        try:
            headers = read_headers(scope)
            self._check_token(headers)
            if self._under_way > MOST_REQUESTS:
                raise RelayError(
                    429, "too_many_requests", f"more than {MOST_REQUESTS} requests are under way"
                )
            if path == _MCP_PATH and self._mcp is not None:
                async with self._bodies.read(
                    headers, receive, most=MAX_MESSAGE_BYTES, most_values=MAX_CALL_VALUES
                ) as content:
                    await self._mcp(scope, repeat_body(content, receive), answer.pass_on)
            elif self._routes is not None and self._routes.has(path):
                await self._routes.answer(scope["method"], path, headers, receive, answer)
            else:
                raise RelayError(404, "unknown_path", f"the relay has no path {path}")
        except RelayError as error:
            if answer.has_begun:
                raise
            await _refuse(answer, api, error)
        except TimeoutError:
            # The client takes nothing, so the server closes the connection.
            raise
        except Exception as error:
            if self._routes is not None:
                self._routes.note_defect(error)
            if answer.has_begun:
                raise
            await _refuse(answer, api, RelayError(500, "internal_error", "the relay has failed"))
        finally:
            self._under_way -= 1

    def _check_token(self, headers: dict[str, str]) -> None:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = [headers["x-api-key"]] if "x-api-key" in headers else []
        if "authorization" in headers:
            given.append(bearer.strip() if scheme.lower() == "bearer" else "")
        # Each comparison takes the same time for every token, and none is left out.
        matches = [hmac.compare_digest(each.encode("utf-8"), self._token) for each in given]
        if not matches or not all(matches):
            raise RelayError(401, "invalid_api_key", "the API key is not the token of this attempt")


async def _refuse(answer: Answer, api: Api | None, error: RelayError) -> None:
    headers = [(b"x-should-retry", b"true" if error.status == 429 else b"false")]
    if error.status == 429:
        headers.append((b"retry-after", b"1"))
    # The rest of the body is not read, so the connection cannot be used again.
    headers.append((b"connection", b"close"))
    await answer.send_whole(error.status, encode_error(api, error), headers)
