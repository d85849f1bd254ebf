"""Rows from the dataset hub through `datasets`, fetched once and then read from our own copy."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.data.hub_probe import hub_endpoint, offline_switch, why_unreachable
from harness.data.kept import KeptRows, read_kept, write_kept
from harness.data.rows import Row
from harness.errors import DataError


@dataclass(frozen=True, slots=True)
class HubDataset:
    """Splits of a dataset on the hub; `split` may join several, in their order: `test+train`."""

    repo: str
    config: str | None
    split: str

    def __str__(self) -> str:
        return f"{self.repo} ({f'{self.config}, ' if self.config else ''}{self.split})"


class HubUnreachableError(DataError):
    """The hub does not answer or must not be asked, and no copy of the dataset is kept here."""


def load_hub_rows(
    dataset: HubDataset,
    *,
    cache_dir: Path | None = None,
    notify: Callable[[str], None],
    refresh: bool = False,
) -> tuple[list[Row], str, str]:
    """Return a hub dataset's rows, the SHA-256 of our copy of them, and `repo@commit (config, split)`.

    The first time they are fetched and kept under `cache_dir`; from then on neither `datasets` nor
    the network is touched, unless `refresh` asks for it. Raises HubUnreachableError within about
    3 s where the hub cannot be asked, DataError where it cannot give this dataset.
    """
    file = _kept_file(cache_dir or default_cache_dir(), dataset)
    kept = None if refresh else read_kept(file, asdict(dataset))
    if kept is None:
        if file.exists() and not refresh:
            notify(f"the copy of {dataset} in {file} is damaged; it is fetched again")
        endpoint = hub_endpoint()
        _require_hub(dataset, endpoint)
        notify(f"fetching {dataset} from {endpoint}")
        values, revision = _fetch(dataset, endpoint)
        write_kept(file, values, asdict(dataset), revision=revision, endpoint=endpoint)
        # Read back even now, so that the first run sees what every later one will see.
        kept = read_kept(file, asdict(dataset))
        if kept is None:
            raise DataError(f"the hub gave no usable rows of {dataset}", path=file)
    return kept.rows, kept.sha256, _location(dataset, kept)


def default_cache_dir() -> Path:
    """Return HARNESS_DATA if it is set, else `~/.harness/data`. Raises DataError without a home."""
    try:
        return Path(os.environ.get("HARNESS_DATA") or "~/.harness/data").expanduser()
    except RuntimeError as error:
        raise DataError("no home folder to keep data in", hint="set HARNESS_DATA to a folder") from error


def _kept_file(cache_dir: Path, dataset: HubDataset) -> Path:
    names = [*dataset.repo.split("/"), dataset.config or "default", dataset.split]
    *folders, name = (quote(part, safe="+") for part in names)
    return cache_dir.joinpath("hub", *folders, f"{name}.jsonl")


def _location(dataset: HubDataset, kept: KeptRows) -> str:
    return f"{dataset.repo}@{kept.note.get('revision')}{str(dataset).removeprefix(dataset.repo)}"


def _require_hub(dataset: HubDataset, endpoint: str) -> None:
    switch = offline_switch()
    if switch is not None:
        reason = None if _in_datasets_cache(dataset) else f"{switch} is set"
    else:
        reason = why_unreachable(endpoint)
    if reason is not None:
        raise _unreachable(endpoint, reason)
    if Path(dataset.repo).exists():
        # `datasets` would take a folder of the dataset's name for the dataset.
        raise DataError(
            "this local folder would be loaded in place of the hub's dataset",
            path=dataset.repo,
            hint="run from another folder",
        )


def _in_datasets_cache(dataset: HubDataset) -> bool:
    """Tell whether `datasets` keeps a copy of its own, which it reads without the hub."""
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"
    )
    folder = os.environ.get("HF_DATASETS_CACHE") or os.path.join(home, "datasets")
    return os.path.isdir(os.path.join(os.path.expanduser(folder), dataset.repo.replace("/", "___")))


def _fetch(dataset: HubDataset, endpoint: str) -> tuple[list[dict[str, Any]], str]:
    """Return the rows as plain values, and the commit they are from."""
    try:
        import datasets
        from huggingface_hub import HfApi

        with _quiet():
            # A fixed commit, so that no commit in between mixes two states; and for one that is
            # named `datasets` does not ask the dataset viewer, another host, about it.
            revision = None
            if offline_switch() is None:
                revision = HfApi(endpoint=endpoint).dataset_info(dataset.repo, timeout=30).sha
            rows = datasets.load_dataset(dataset.repo, dataset.config, split=dataset.split, revision=revision)
            return [dict(row) for row in rows], revision or "offline"
    except Exception as error:
        raise _explain(dataset, endpoint, error) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep `datasets` and its client off the terminal, which is ours, and off every host but the hub."""
    import datasets
    import huggingface_hub.utils as hub

    logs = (datasets.utils.logging, hub.logging)
    levels = [log.get_verbosity() for log in logs]
    bars = (datasets, hub)
    shown = [not bar.are_progress_bars_disabled() for bar in bars]
    counts = datasets.config.HF_UPDATE_DOWNLOAD_COUNTS
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False  # This asks a host of Amazon's.
    for log in logs:
        log.set_verbosity_error()
    for bar in bars:
        bar.disable_progress_bars()
    try:
        yield
    finally:
        datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = counts
        for log, level in zip(logs, levels, strict=True):
            log.set_verbosity(level)
        for bar, was_shown in zip(bars, shown, strict=True):
            if was_shown:
                bar.enable_progress_bars()


def _explain(dataset: HubDataset, endpoint: str, error: Exception) -> DataError:
    text = " ".join(str(error).split())[:400] or type(error).__name__
    if isinstance(error, ImportError):
        return DataError(f"`datasets` cannot be imported: {text}", hint="install it, or use --data PATH")
    if any(_is_connection_failure(cause) for cause in _causes(error)):
        return _unreachable(endpoint, text)
    refused = getattr(getattr(error, "response", None), "status_code", None) in (401, 403, 404)
    if refused or type(error).__name__ == "DatasetNotFoundError":
        return DataError(
            f"{endpoint} has no dataset {dataset.repo} that may be read from here",
            hint="check the name; for a private or gated one, set HF_TOKEN",
        )
    return DataError(f"{dataset} cannot be loaded from {endpoint}: {text}")


def _is_connection_failure(error: BaseException) -> bool:
    # TransportError is the base of the HTTP client's own, a client that has changed before.
    named = any(kind.__name__ == "TransportError" for kind in type(error).__mro__)
    return named or isinstance(error, ConnectionError | TimeoutError | socket.gaierror)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _unreachable(endpoint: str, reason: str) -> HubUnreachableError:
    return HubUnreachableError(
        f"the hub {endpoint} cannot be reached: {reason}",
        hint="use --data PATH with the benchmark's own file, or --data bundled for a small sample",
    )
