"""Rows from the dataset hub through `datasets`, or from files that their publisher serves by URL.

Both are downloaded once, stored as they are, and then read from our copy.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit

from harness.benchmarks.data.download import (
    DownloadObserver,
    download,
    find_mirror,
    hub_endpoint,
    is_intact,
    note_file,
    now,
    offline_switch,
    read_note,
    replace_file,
    unreachable_error,
    why_unreachable,
)
from harness.benchmarks.data.local import Table, parquet_values, quiet, read_file, read_rows
from harness.benchmarks.data.rows import PARQUET, Row, describe
from harness.benchmarks.data.splits import HubDataset
from harness.core.errors import DataError, HarnessError
from harness.core.lock import home_folder

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
            _fetch_file(url, path, observer)
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


def _fetch_file(url: str, path: Path, observer: DownloadObserver) -> None:
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


def load_hub_rows(
    dataset: HubDataset,
    *,
    observer: DownloadObserver,
    cache_dir: Path | None = None,
    table: Table | None = None,
    refresh: bool = False,
) -> tuple[list[Row], str, str]:
    """Return a hub dataset's rows, the SHA-256 of our copy of them, and `repo@commit (config, split)`.

    The first call downloads the rows below `cache_dir`. Later calls use neither `datasets` nor the network,
    unless `refresh` is set. `table` is the layout of CSV files.

    Raises:
        HubUnreachableError: The hub cannot be reached; this takes at most about 3 s.
        DataError: The hub does not have this dataset, or no readable one.
    """
    cache_dir = cache_dir or default_cache_dir()
    if dataset.files:
        urls = [name if "://" in name else f"{HUB_SCHEME}{dataset.repo}/{name}" for name in dataset.files]
        return load_file_rows(
            urls,
            cache_dir=cache_dir,
            observer=observer,
            table=table,
            left_on_disk=dataset.left_on_disk,
            refresh=refresh,
        )
    file = _cached_file(cache_dir, dataset)
    cached = None if refresh else read_cached_rows(file, dataset.origin)
    if cached is None:
        if file.exists() and not refresh:
            observer.note(f"the copy of {dataset} in {file} is damaged; downloading it again")
        endpoint = hub_endpoint()
        _require_hub(dataset, endpoint)
        observer.note(f"fetching {dataset} from {endpoint}")
        values, revision = _fetch(dataset, endpoint, file, observer)
        write_cached_rows(file, values, dataset.origin, revision=revision, endpoint=endpoint)
        # Read the rows back from the file, so that the first run sees the same rows as every later one.
        cached = read_cached_rows(file, dataset.origin)
        if cached is None:
            raise DataError(f"the hub returned no usable rows of {dataset}", path=file)
    return cached.rows, cached.sha256, _location(dataset, cached)


def default_cache_dir() -> Path:
    """Return HARNESS_DATA if it is set, else `~/.harness/data`. Raises UsageError if there is no home."""
    named = os.environ.get("HARNESS_DATA")
    return Path(os.path.expanduser(named)) if named else home_folder("HARNESS_DATA") / ".harness" / "data"


def _cached_file(cache_dir: Path, dataset: HubDataset) -> Path:
    names = [*dataset.repo.split("/"), dataset.config or "default", dataset.split]
    *folders, name = (quote(part, safe="+") for part in names)
    return cache_dir.joinpath("hub", *folders, f"{name}.jsonl")


def _location(dataset: HubDataset, cached: CachedRows) -> str:
    return f"{dataset.repo}@{cached.note.get('revision')}{str(dataset).removeprefix(dataset.repo)}"


def _require_hub(dataset: HubDataset, endpoint: str) -> None:
    switch = offline_switch()
    if switch is not None:
        kept_there = not dataset.files and _in_datasets_cache(dataset)
        reason = None if kept_there else f"{switch} is set"
    else:
        reason = why_unreachable(endpoint)
    if reason is not None:
        raise unreachable_error(endpoint, reason)
    if Path(dataset.repo).exists():
        # `datasets` prefers a local folder of the dataset's name to the dataset on the hub.
        raise DataError(
            "this local folder would be loaded in place of the hub's dataset",
            path=dataset.repo,
            hint="run from another folder",
        )


def _in_datasets_cache(dataset: HubDataset) -> bool:
    """Return whether `datasets` has a copy in its cache, which it reads without the hub."""
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"
    )
    folder = os.environ.get("HF_DATASETS_CACHE") or os.path.join(home, "datasets")
    return os.path.isdir(os.path.join(os.path.expanduser(folder), dataset.repo.replace("/", "___")))


def _fetch(
    dataset: HubDataset, endpoint: str, file: Path, observer: DownloadObserver
) -> tuple[list[dict[str, Any]], str]:
    """Return the rows as plain values, and their commit."""
    try:
        import datasets
        from huggingface_hub import HfApi

        with quiet():
            if offline_switch() is not None:
                return _by_datasets(dataset, None), "offline"
            # Fix the commit, because a new commit during the download would mix two states. `datasets`
            # also asks the dataset viewer, which is another host, unless a commit is named.
            revision = HfApi(endpoint=endpoint).dataset_info(dataset.repo, timeout=30).sha
            values: list[dict[str, Any]] = []
            for config in _configs(dataset):
                builder = datasets.load_dataset_builder(dataset.repo, config, revision=revision)
                found = builder.config.data_files or {}
                missing = [split for split in dataset.split.split("+") if split not in found]
                paths = [path for split in dataset.split.split("+") for path in found.get(split, ())]
                if missing or not all(path.endswith(PARQUET) for path in paths):
                    # `datasets` reads other formats too, and has the error for a missing split.
                    values += _by_datasets(replace(dataset, config=config), revision)
                else:
                    values += _parquet_rows(paths, file, observer)
            return values, revision or "unknown"
    except HarnessError:
        raise
    except Exception as error:
        raise _explain(dataset, endpoint, error) from error


def _parquet_rows(paths: list[str], file: Path, observer: DownloadObserver) -> list[dict[str, Any]]:
    """Return the rows of Parquet files. Our own download resumes; the files are removed afterwards."""
    folder = file.with_name(f"{file.name}.parquet")
    cached = []
    for path in paths:
        # hf://datasets/OWNER/NAME@COMMIT/PATH
        repo, _, rest = path.removeprefix("hf://datasets/").partition("@")
        commit, _, name = rest.partition("/")
        target = folder / quote(f"{commit}/{name}", safe="")
        if not is_intact(target):
            quiet_observer = DownloadObserver(lambda _line: None, observer.progress)
            download(hub_file_url(repo, commit, name), target, published_at=path, observer=quiet_observer)
        cached.append(str(target))
    values = parquet_values(cached)
    shutil.rmtree(folder, ignore_errors=True)
    return values


def _by_datasets(dataset: HubDataset, revision: str | None) -> list[dict[str, Any]]:
    import datasets

    return [
        dict(row)
        for config in _configs(dataset)
        for row in datasets.load_dataset(dataset.repo, config, split=dataset.split, revision=revision)
    ]


def _configs(dataset: HubDataset) -> list[str | None]:
    return [*dataset.config.split("+")] if dataset.config else [None]


def _explain(dataset: HubDataset, endpoint: str, error: Exception) -> DataError:
    text = " ".join(str(error).split())[:400] or type(error).__name__
    if isinstance(error, ImportError):
        return DataError(f"`datasets` cannot be imported: {text}", hint="install it, or use --data PATH")
    if any(_is_connection_failure(cause) for cause in _causes(error)):
        return unreachable_error(endpoint, text)
    refused = getattr(getattr(error, "response", None), "status_code", None) in (401, 403, 404)
    if refused or type(error).__name__ == "DatasetNotFoundError":
        return DataError(
            f"{endpoint} has no dataset {dataset.repo}, or does not let you read it",
            hint="check the name; for a private or gated dataset, set HF_TOKEN",
        )
    return DataError(f"{dataset} cannot be loaded from {endpoint}: {text}")


def _is_connection_failure(error: BaseException) -> bool:
    # The library's HTTP client has changed before. TransportError is the base of the current one's errors.
    named = any(kind.__name__ == "TransportError" for kind in type(error).__mro__)
    return named or isinstance(error, ConnectionError | TimeoutError | socket.gaierror)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@dataclass(frozen=True, slots=True)
class CachedRows:
    """Rows from the cache, the SHA-256 (hex) of their file, and the content of its note."""

    rows: list[Row]
    sha256: str
    note: Mapping[str, Any]


def read_cached_rows(file: Path, origin: Mapping[str, Any]) -> CachedRows | None:
    """Return rows from the cache, or None unless they are exactly those written for this `origin`."""
    note = read_note(file)
    if note is None:
        return None
    try:
        rows, sha256 = read_rows(file)
    except DataError:
        return None
    expected = {**origin, "sha256": sha256, "rows": len(rows)}
    # The note went through JSON, which turns a tuple into a list.
    whole = all(note.get(key) == value for key, value in json.loads(json.dumps(expected)).items())
    return CachedRows(rows, sha256, note) if whole else None


def write_cached_rows(
    file: Path, rows: Iterable[Mapping[str, Any]], origin: Mapping[str, Any], **more: str | None
) -> None:
    """Write rows to the cache, and a note of their origin, `more`, their number and their SHA-256.

    Each file appears whole or not at all. If the two do not match, `read_cached_rows` returns None. Raises
    DataError if a value cannot be JSON or the folder is not writable.
    """
    lines = [json.dumps(row, ensure_ascii=False, default=_refuse) + "\n" for row in rows]
    data = "".join(lines).encode()
    note = {
        **origin,
        **more,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "rows": len(lines),
        "fetched": now(),
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, data)
        replace_file(note_file(file), json.dumps(note, indent=2).encode() + b"\n")
    except OSError as error:
        raise DataError(
            f"cannot be written: {error.strerror or error}",
            path=file,
            hint="set HARNESS_DATA to a writable folder",
        ) from error


def _refuse(value: Any) -> NoReturn:
    raise DataError(f"the dataset holds {describe(value)}, which is not plain data")
