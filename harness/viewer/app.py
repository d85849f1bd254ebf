"""The app of the viewer: one page, its files, and the values that the page asks for as JSON."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import reports
from harness.errors import HarnessError, UsageError, describe_installation
from harness.evaluation.transcripts import find_transcript
from harness.types import Status
from harness.viewer.access import Access, Guard
from harness.viewer.attempt_query import MOST_ROWS, Query, describe_rows, find_attempts
from harness.viewer.attempt_view import describe_attempt
from harness.viewer.audit_view import describe_audit
from harness.viewer.catalogue import Catalogue, RemovedRunError, UnknownRunError
from harness.viewer.comparison_view import describe_comparison
from harness.viewer.run_view import MOST_RUNS, describe_run, list_facts, list_runs
from harness.viewer.transcript_follower import TranscriptFollowers

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

_PAGE = Path(__file__).with_name("page")
# The viewer and the HTML report look the same.
_SHARED_STYLE = Path(reports.__file__).with_name("templates") / "report.css"
_STATUSES: Mapping[type[Exception], int] = {UnknownRunError: 404, RemovedRunError: 410}
_LOG = logging.getLogger(__name__)


def make_viewer_app(catalogue: Catalogue, access: Access) -> ASGIApp:
    """Return the app of the viewer.

    Raises UsageError if the packages of the extra `view` are not installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.responses import FileResponse
        from starlette.routing import Mount, Route
    except ImportError as error:
        raise UsageError(
            f"the viewer needs the packages starlette and uvicorn: {error}",
            hint=describe_installation("view"),
        ) from error
    views = _Views(catalogue)

    def serve_file(path: Path) -> Callable[[Request], Any]:
        async def serve(_request: Request) -> Response:
            return FileResponse(path)

        return serve

    files = {"/": _PAGE / "index.html", "/report.css": _SHARED_STYLE}
    files |= {f"/{path.name}": path for path in sorted(_PAGE.glob("*.[cjs][sv]*"))}
    routes = [Route(path, serve_file(file)) for path, file in files.items()]
    routes += [Route(f"/api/{name}", _serve_values(view)) for name, view in views.by_name().items()]
    return Guard(Starlette(routes=[Mount(access.path, routes=routes)]), access)


def _serve_values(view: Callable[[Mapping[str, str]], Any]) -> Callable[[Request], Any]:
    """Return the endpoint of a view, which runs on a thread because it reads files."""
    from starlette.responses import Response

    def answer(parameters: Mapping[str, str]) -> tuple[int, str]:
        try:
            return 200, _encode(view(parameters))
        except HarnessError as error:
            return _STATUSES.get(type(error), 400), _encode({"error": error.message, "hint": error.hint})
        except OSError as error:
            text = f"the run folder cannot be read: {error.strerror or error}"
            return 409, _encode({"error": text, "hint": None})
        except Exception:
            _LOG.exception("the viewer failed")
            return 500, _encode({"error": "the viewer failed; its terminal has the traceback", "hint": None})

    async def serve(request: Request) -> Response:
        status, body = await asyncio.to_thread(answer, request.query_params)
        return Response(body, status_code=status, media_type="application/json")

    return serve


def _encode(values: Any) -> str:
    # In ASCII, because half a surrogate pair in an id has no encoding in UTF-8.
    return json.dumps(values, allow_nan=False)


class _Views:
    """The views of one viewer. Each gets the parameters of a request, and returns plain values."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._followers = TranscriptFollowers()

    def by_name(self) -> dict[str, Callable[[Mapping[str, str]], Any]]:
        return {
            "runs": self._list_runs,
            "run": lambda parameters: describe_run(self._catalogue, _read(parameters, "run")),
            "manifest": lambda parameters: list_facts(self._find(parameters)),
            "attempts": self._list_attempts,
            "attempt": self._describe_attempt,
            "transcript": self._read_transcript,
            "comparison": lambda parameters: describe_comparison(
                self._find(parameters, "baseline"), self._find(parameters, "candidate")
            ),
            "audit": lambda parameters: describe_audit(
                self._catalogue.find_audit(_read(parameters, "audit"))
            ),
        }

    def _find(self, parameters: Mapping[str, str], name: str = "run") -> Path:
        return self._catalogue.find_run(_read(parameters, name))

    def _list_runs(self, parameters: Mapping[str, str]) -> dict[str, Any]:
        first, number = (
            _read_number(parameters, name, default) for name, default in (("first", 0), ("number", MOST_RUNS))
        )
        return list_runs(self._catalogue, parameters.get("search", "")[:200], first, number)

    def _list_attempts(self, parameters: Mapping[str, str]) -> dict[str, Any]:
        index, indexed = self._catalogue.read_attempts(self._find(parameters))
        rows = find_attempts(indexed, read_query(parameters))
        first = _read_number(parameters, "first", 0)
        number = min(_read_number(parameters, "number", 100), MOST_ROWS)
        return {
            "all": len(indexed.latest),
            "found": len(rows),
            "first": first,
            "is_complete": index.is_complete,
            "rows": describe_rows(indexed, rows[first : first + number].tolist()),
        }

    def _describe_attempt(self, parameters: Mapping[str, str]) -> dict[str, Any]:
        folder = self._find(parameters)
        index, indexed = self._catalogue.read_attempts(folder)
        task_id, attempt = _read(parameters, "task"), _read_number(parameters, "attempt", 0)
        return describe_attempt(folder, index, indexed, task_id, attempt)

    def _read_transcript(self, parameters: Mapping[str, str]) -> dict[str, Any]:
        task_id, attempt = _read(parameters, "task"), _read_number(parameters, "attempt", 0)
        path = find_transcript(self._find(parameters), task_id, attempt)
        first = _read_number(parameters, "first", 0)
        return self._followers.find(path).read(first, _read_number(parameters, "generation", 0))


def read_query(parameters: Mapping[str, str]) -> Query:
    """Return the query of a request for attempts. Raises UsageError for a value that cannot be used."""
    status = parameters.get("status") or None
    if status is not None and status not in set(Status):
        raise UsageError(f"{status!r} is not a status", hint=f"use one of {', '.join(Status)}")
    return Query(
        status=None if status is None else Status(status),
        category=parameters.get("category"),
        search=parameters.get("search", "")[:200],
        sort=parameters.get("sort") or "ended",
        descending=parameters.get("descending", "1") == "1",
    )


def _read(parameters: Mapping[str, str], name: str) -> str:
    if name not in parameters:
        raise UsageError(f"the parameter {name!r} is missing")
    return parameters[name]


def _read_number(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name, str(default))
    if not (text.isdecimal() and text.isascii() and len(text) < 16):
        raise UsageError(f"the parameter {name!r} must be a whole number from 0 on, not {text[:40]!r}")
    return int(text)
