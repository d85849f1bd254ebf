"""Rows from files that their publisher serves by URL. We store them unchanged and read them ourselves."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

from harness.benchmarks.data.download import DownloadObserver, download, is_intact, read_note
from harness.benchmarks.data.formats import Table, read_file
from harness.benchmarks.data.hub_probe import (
    find_mirror,
    hub_endpoint,
    offline_switch,
    unreachable_error,
    why_unreachable,
)
from harness.benchmarks.data.rows import Row
from harness.core.errors import DataError

HUB_SCHEME = "hf://datasets/"


def load_file_rows(
    urls: Sequence[str],
    *,
    cache_dir: Path,
    observer: DownloadObserver,
    table: Table | None = None,
    left_on_disk: Collection[str] = (),
    refresh: bool = False,
) -> tuple[list[Row], str, str]:
    """Return the rows of all files, in order, a SHA-256 over the files, and their sources.

    Each URL is `https://...`, or `hf://datasets/OWNER/NAME/PATH` for a file on the hub. A file is downloaded
    below `cache_dir` the first time, and again if its copy is damaged. Raises HubUnreachableError, DataError.
    """
    rows: list[Row] = []
    hashes: list[str] = []
    for url in urls:
        path = cached_path(url, cache_dir)
        cached = None if refresh else _read_cached(path, table, left_on_disk)
        if cached is None:
            if path.exists() and not refresh:
                observer.note(f"the copy of {url} in {path} is damaged; downloading it again")
            _fetch(url, path, observer)
            cached = read_file(path, table, left_on_disk)
        read, sha256 = cached
        rows += read
        hashes.append(sha256)
    whole = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    return rows, whole, ", ".join(_name_source(url, cache_dir) for url in urls)


def cached_path(url: str, cache_dir: Path) -> Path:
    """Return the path of a URL's copy in the cache."""
    parts = urlsplit(url)
    host = parts.netloc if parts.scheme != "hf" else "hf"
    folders = [quote(part, safe="+") for part in parts.path.split("/") if part not in ("", ".", "..")]
    if parts.query:  # the URLs of two files may differ in the query only
        folders.insert(-1, hashlib.sha256(parts.query.encode()).hexdigest()[:12])
    return cache_dir.joinpath("files", quote(host, safe=""), *folders)


def _read_cached(
    path: Path, table: Table | None, left_on_disk: Collection[str]
) -> tuple[list[Row], str] | None:
    """Return the rows and the SHA-256 of a copy, or None unless it equals the download byte for byte."""
    note = read_note(path)
    if note is None or not path.exists():
        return None
    try:
        rows, sha256 = read_file(path, table, left_on_disk)
    except DataError:
        if is_intact(path):
            raise  # another download would not help, because the file was published like this
        return None
    return (rows, sha256) if sha256 == note.get("sha256") else None


def _fetch(url: str, path: Path, observer: DownloadObserver) -> None:
    source = _source(url)
    switch = offline_switch()
    reason = f"{switch} is set" if switch else why_unreachable(_origin(source))
    if reason is not None:
        raise unreachable_error(_origin(source), reason)
    download(source, path, published_at=url, observer=observer)


def _name_source(url: str, cache_dir: Path) -> str:
    """Return a URL, with the commit if it is a file on the hub."""
    note = read_note(cached_path(url, cache_dir)) or {}
    return f"{url.removeprefix(HUB_SCHEME)}@{note['revision']}" if "revision" in note else url


def _source(url: str) -> str:
    """Return the URL to download from: the hub's own for hf://, otherwise the mirror's."""
    if not url.startswith(HUB_SCHEME):
        return find_mirror(url)
    owner, name, *path = url.removeprefix(HUB_SCHEME).split("/")
    return hub_file_url(f"{owner}/{name}", "main", "/".join(path))


def hub_file_url(repo: str, revision: str, path: str) -> str:
    """Return the hub's URL of a file of a dataset."""
    from huggingface_hub import hf_hub_url

    return hf_hub_url(repo, path, repo_type="dataset", revision=revision, endpoint=hub_endpoint())


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
