"""Download published files, and list the kept ones with their notes.

A quick probe tells whether the host answers, before `datasets` is imported, because that takes seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import re
import ssl
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.errors import DataError
from harness.core.inputs.files import hash_file, read_input
from harness.core.inputs.json_text import parse_json
from harness.core.lock import exclusive
from harness.core.secret_forms import open_session

if TYPE_CHECKING:
    import requests

DEFAULT_ENDPOINT = "https://huggingface.co"
PROBE_SECONDS = 3.0

_OFFLINE_SWITCHES = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
_GATEWAY_STATUSES = (407, 502, 503, 504)
CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
TRIES = 3
# A broken connection loses at most this many bytes of the download.
CHUNK = 16 * 1024
NOTE_SUFFIX = ".note.json"


class HubUnreachableError(DataError):
    """The publisher's host is unreachable or off limits, and the cache has no copy."""


def unreachable_error(place: str, reason: str) -> HubUnreachableError:
    """Return the error for a host that does not answer."""
    what = "the hub " if place == hub_endpoint() else ""
    return HubUnreachableError(
        f"{what}{place} cannot be reached: {reason}",
        hint="use --data PATH with the benchmark's own file, or --data bundled for a small sample",
    )


def hub_endpoint() -> str:
    """Return the hub's base URL: HF_ENDPOINT, or the public hub."""
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")


def find_mirror(url: str) -> str:
    """Return the URL of a published file on the mirror HARNESS_MIRROR, or the URL itself if that is unset."""
    mirror = os.environ.get("HARNESS_MIRROR", "").rstrip("/")
    return f"{mirror}/{url.partition('://')[2]}" if mirror else url


def offline_switch() -> str | None:
    """Return the name of the environment variable that forbids the hub, if one is set."""
    for name in _OFFLINE_SWITCHES:
        if os.environ.get(name, "").strip().upper() in {"1", "ON", "YES", "TRUE"}:
            return name
    return None


def why_unreachable(endpoint: str, *, within: float = PROBE_SECONDS) -> str | None:
    """Return the reason why the hub does not answer, after at most `within` seconds, or None if it does.

    The request goes through the proxy of the environment. A thread makes it, because a name lookup has no
    timeout.
    """
    reasons: list[str | None] = []
    probe = threading.Thread(target=lambda: reasons.append(_ask(endpoint, within)), daemon=True)
    probe.start()
    probe.join(within)
    return reasons[0] if reasons else f"no answer within {within:g} s"


def _ask(endpoint: str, timeout: float) -> str | None:
    proxies = urllib.request.getproxies()
    for scheme in ("http", "https"):
        if "all" in proxies:
            proxies.setdefault(scheme, proxies["all"])
    if proxies.get(endpoint.partition(":")[0], "").startswith("socks"):
        return None  # The standard library does not support SOCKS, so only `datasets` can find out.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler(proxies), urllib.request.HTTPSHandler(context=_any_certificate()), _Stay
    )
    try:
        opener.open(urllib.request.Request(endpoint, method="HEAD"), timeout=timeout).close()
    except urllib.error.HTTPError as answer:
        return f"its gateway answers {answer.code}" if answer.code in _GATEWAY_STATUSES else None
    except urllib.error.URLError as error:
        return str(getattr(error.reason, "strerror", None) or error.reason)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error) or type(error).__name__
    return None


class _Stay(urllib.request.HTTPRedirectHandler):
    """Accepts a redirect as an answer and does not follow it."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _any_certificate() -> ssl.SSLContext:
    # The probe sends nothing secret, and `datasets` checks the certificate with its own store later.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass(frozen=True, slots=True)
class DownloadObserver:
    """Callbacks that follow a download."""

    note: Callable[[str], None]
    """Gets lines of text."""
    progress: Callable[[str, int, int | None], None] = lambda _name, _done, _total: None
    """Gets a file's name, the bytes so far, and the total number of bytes if it is known."""


def download(url: str, path: Path, *, published_at: str, observer: DownloadObserver) -> dict[str, Any]:
    """Download a file to `path` and return its note: where it was `published_at`, its bytes and SHA-256.

    An interrupted download, also one of an earlier process, resumes where it stopped, as long as the server
    still has the same file. The file appears whole or not at all.

    Raises:
        HubUnreachableError: The connection failed for good.
        DataError: The server refused, the file cannot be written, or the hub names another SHA-256.
    """
    import requests
    from requests.exceptions import ChunkedEncodingError, ContentDecodingError

    cut_off = (requests.ConnectionError, requests.Timeout, ChunkedEncodingError, ContentDecodingError)
    observer.note(f"fetching {published_at}" + ("" if url == published_at else f" from {url}"))
    part, state = path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.json")
    before = read_note(path)
    # The lock keeps two processes from writing to one part.
    lock = f"download-{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    with _report_write_errors(path), exclusive(lock, notify=observer.note), open_session() as session:
        note = read_note(path)
        if note is not None and note != before and is_intact(path):
            return note  # because another process downloaded it while this one waited
        path.parent.mkdir(parents=True, exist_ok=True)
        for tried in range(1, TRIES + 1):
            try:
                facts, wanted = _fetch_rest(session, url, part, state, observer, path.name)
                break
            except cut_off as error:
                if tried == TRIES:
                    raise _cut_off(url, part, error) from error
        with part.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if wanted not in (None, found):
            part.unlink()
            state.unlink(missing_ok=True)
            raise DataError(
                f"{url} has SHA-256 {found}, but the hub names {wanted}",
                hint="a proxy or a mirror changed the file, or has an old one",
            )
        note = {"url": published_at, **facts, "bytes": part.stat().st_size, "sha256": found, "fetched": now()}
        os.replace(part, path)
        replace_file(note_file(path), json.dumps(note, indent=2).encode() + b"\n")
        state.unlink(missing_ok=True)
    return note


def read_note(path: Path) -> dict[str, Any] | None:
    """Return the note of a file, or None if there is none that can be read."""
    try:
        note = parse_json(read_input(note_file(path)))
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) else None


def is_intact(path: Path) -> bool:
    """Return whether a file equals the download that its note describes, byte for byte."""
    note = read_note(path)
    if note is None:
        return False
    try:
        return note.get("sha256") == hash_file(path)
    except OSError:
        return False


def _fetch_rest(
    session: requests.Session, url: str, part: Path, state: Path, observer: DownloadObserver, name: str
) -> tuple[dict[str, str], str | None]:
    """Download the rest of `part`. Return the server's names of this version and its published SHA-256."""
    have, version = _find_part(part, state, url)
    headers = {"Accept-Encoding": "identity", **_authorisation(url)}
    if have:
        # Only a strong ETag guarantees that both parts belong to one version of the file.
        headers |= {"Range": f"bytes={have}-", "If-Range": version}
    answer = session.get(url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, READ_SECONDS))
    with answer:
        if answer.status_code == 416 and have:
            part.unlink()
            return _fetch_rest(session, url, part, state, observer, name)
        if answer.status_code not in (200, 206):
            raise _refusal(url, answer.status_code)
        if answer.status_code == 200:
            have = 0
        facts = _facts(answer)
        state.write_text(json.dumps({"url": url, "version": facts.get("etag", "")}))
        length = answer.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        with part.open("ab" if have else "wb") as stream:
            for chunk in answer.iter_content(CHUNK):
                stream.write(chunk)
                have += len(chunk)
                observer.progress(name, have, total)
            stream.flush()
            os.fsync(stream.fileno())
    if total is not None and have < total:
        import requests

        raise requests.ConnectionError(f"cut off after {have} of {total} bytes")
    return facts, _published_sha256(answer)


def _find_part(part: Path, state: Path, url: str) -> tuple[int, str]:
    """Return the size of the part and its version, or (0, "") if the version is unknown."""
    try:
        known = parse_json(read_input(state))
        version = known["version"] if known["url"] == url else ""
        size = part.stat().st_size
    except (OSError, ValueError, KeyError, TypeError):
        return 0, ""
    strong = isinstance(version, str) and version and not version.startswith("W/")
    return (size, version) if strong else (0, "")


def _facts(answer: requests.Response) -> dict[str, str]:
    facts = {}
    # The hub redirects large files to another host, and only the hub's own answer names the commit.
    for step in (*answer.history, answer):
        if commit := step.headers.get("X-Repo-Commit"):
            facts["revision"] = commit
    if etag := answer.headers.get("ETag"):
        facts["etag"] = etag
    return facts


def _published_sha256(answer: requests.Response) -> str | None:
    """Return the SHA-256 that the hub names for a large file, which another host serves, or None."""
    for step in answer.history:
        named = re.fullmatch(r'"?([0-9a-f]{64})"?', step.headers.get("X-Linked-ETag", ""))
        if named:
            return named[1]
    return None


def _authorisation(url: str) -> dict[str, str]:
    if not url.startswith(f"{hub_endpoint()}/datasets/"):
        return {}
    from huggingface_hub import get_token

    token = get_token()
    # The session removes this header when it is redirected to another host.
    return {"Authorization": f"Bearer {token}"} if token else {}


def _refusal(url: str, status: int) -> DataError:
    hint = "for a private or gated dataset, set HF_TOKEN" if status in (401, 403) else None
    return DataError(f"{url} answers {status}", hint=hint or "check the address")


def _cut_off(url: str, part: Path, error: Exception) -> DataError:
    have = part.stat().st_size if part.exists() else 0
    reason = " ".join(str(error).split())[:300]
    return unreachable_error(url, f"{reason}; {have:,} bytes are stored, and the next download resumes there")


@contextlib.contextmanager
def _report_write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        import requests

        if isinstance(error, requests.RequestException):
            raise DataError(f"cannot be downloaded: {error}", path=path) from error
        raise DataError(
            f"cannot be written: {error.strerror or error}",
            path=path,
            hint="set HARNESS_DATA to a writable folder",
        ) from error


def now() -> str:
    """Return the time in UTC, in the format of notes."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def note_file(file: Path) -> Path:
    """Return the path of a file's note."""
    return file.with_name(f"{file.name}{NOTE_SUFFIX}")


def replace_file(file: Path, data: bytes) -> None:
    """Write a file so that it appears whole or not at all. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with open(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise


class State(StrEnum):
    """`whole` by its size, `verified` byte for byte, `damaged`, or `partial`: an interrupted download."""

    WHOLE = "whole"
    VERIFIED = "verified"
    DAMAGED = "damaged"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file in the cache. `source` is the place where it is published, with the commit if it is known."""

    path: Path
    bytes: int
    state: State
    source: str
    sha256: str | None = None
    rows: int | None = None
    fetched: str | None = None


def list_cached_files(cache_dir: Path, *, verify: bool = False) -> list[CachedFile]:
    """Return the files below a cache folder in the order of their paths; `verify` hashes each of them."""
    found = [*_list_whole(cache_dir, verify), *_list_partial(cache_dir)]
    return sorted(found, key=lambda file: file.path)


def _list_whole(cache_dir: Path, verify: bool) -> Iterator[CachedFile]:
    for note_path in cache_dir.rglob(f"*{NOTE_SUFFIX}"):
        path = note_path.with_name(note_path.name.removesuffix(NOTE_SUFFIX))
        try:
            note = parse_json(read_input(note_path))
            size = path.stat().st_size
        except (OSError, ValueError):
            note, size = None, 0
        if not isinstance(note, dict):
            yield CachedFile(path, size, State.DAMAGED, "the note or the file cannot be read")
            continue
        yield CachedFile(
            path=path,
            bytes=size,
            state=_state(path, size, note, verify),
            source=_source(note),
            sha256=note.get("sha256"),
            rows=note.get("rows"),
            fetched=note.get("fetched"),
        )


def _state(path: Path, size: int, note: dict[str, Any], verify: bool) -> State:
    if note.get("bytes", size) != size:
        return State.DAMAGED
    if not verify:
        return State.WHOLE
    try:
        same = hash_file(path) == note.get("sha256")
    except OSError:
        same = False
    return State.VERIFIED if same else State.DAMAGED


def _source(note: dict[str, Any]) -> str:
    name = str(note.get("url") or note.get("repo") or "?").removeprefix("hf://datasets/")
    commit = f"@{str(note['revision'])[:12]}" if note.get("revision") else ""
    what = ", ".join(str(note[key]) for key in ("config", "split") if note.get(key))
    return f"{name}{commit}" + (f" ({what})" if what else "")


def _list_partial(cache_dir: Path) -> Iterator[CachedFile]:
    for path in cache_dir.rglob("*.part"):
        try:
            url = str(parse_json(read_input(path.with_name(f"{path.name}.json")))["url"])
            size = path.stat().st_size
        except (OSError, ValueError, KeyError, TypeError):
            continue
        yield CachedFile(path, size, State.PARTIAL, url)
