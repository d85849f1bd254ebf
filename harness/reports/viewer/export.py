"""Write the pages of many runs into a folder that a web server or `file://` shows without harness.

A further page leads the browser of the user to the viewer, and shows other users of the machine no token.
"""

from __future__ import annotations

import shutil
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from harness.core.errors import HarnessError, UsageError
from harness.core.inputs.files import MAX_DATA_BYTES
from harness.reports.html import render_stored_run
from harness.reports.page_file import encode, generate_page
from harness.reports.run_folder import read_run
from harness.reports.viewer.catalogue import Catalogue
from harness.reports.viewer.run_view import describe_matrix, list_runs
from harness.runs.attempt_index import ATTEMPTS
from harness.runs.run_files import has_run_file, list_run_files, open_run_file
from harness.runs.store import MANIFEST, REPORT, SUMMARY
from harness.runs.transcripts import TRANSCRIPTS

INDEX = "index.html"
"""The page that lists the runs."""

# The newest runs, so that the page that lists them stays below 10 MB.
_MOST_RUNS = 10_000
_WITHOUT_SCRIPT = "This page lists runs with JavaScript. Their folders are beside it."
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>harness view</title>
</head>
<body><p><a href="{url}">Open the viewer</a></p></body>
</html>
"""


def export_pages(catalogue: Catalogue, target: Path) -> Iterator[tuple[str, str | None]]:
    """Write a page for each run and one that lists them. Yield each run, with the reason if it is left out.

    Each run has a folder with its page, its records, its transcripts, its manifest and its summary.

    Raises:
        UsageError: `target` has files already.
        OSError: a file cannot be written.
    """
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"{target}: is not empty", hint="name a new folder for the pages")
    target.mkdir(parents=True, exist_ok=True)
    links: dict[str, str] = {}
    for key, run in catalogue.read_list().runs:
        try:
            _export_run(Path(run.folder), target / key)
        except (HarnessError, OSError) as error:
            shutil.rmtree(target / key, ignore_errors=True)
            yield key, str(error)
        else:
            links[key] = f"{quote(key)}/{REPORT}"
            yield key, None
    with open(target / INDEX, "x", encoding="utf-8") as file:
        file.writelines(_list_runs(catalogue, links))


def _list_runs(catalogue: Catalogue, links: Mapping[str, str]) -> Iterator[str]:
    listed = list_runs(catalogue, number=_MOST_RUNS)
    matrix = describe_matrix(catalogue)
    for row in matrix["rows"]:
        row["cells"] = [cell if cell is not None and cell["key"] in links else None for cell in row["cells"]]
    data = {"runs": [run for run in listed["runs"] if run["key"] in links], "matrix": matrix, "links": links}
    return generate_page(title="runs - harness", without_script=_WITHOUT_SCRIPT, data=[encode(data)])


def _export_run(folder: Path, target: Path) -> None:
    run = read_run(folder)
    (target / TRANSCRIPTS).mkdir(parents=True)
    names = [name for name in (MANIFEST, ATTEMPTS, SUMMARY) if has_run_file(folder, name)]
    if has_run_file(folder, TRANSCRIPTS):
        names += [f"{TRANSCRIPTS}/{name}" for name in list_run_files(folder, TRANSCRIPTS)]
    for name in names:
        with (
            open_run_file(folder, name, max_bytes=MAX_DATA_BYTES) as source,
            open(target / name, "xb") as file,
        ):
            shutil.copyfileobj(source, file)
    with open(target / REPORT, "x", encoding="utf-8") as file:
        file.writelines(render_stored_run(run, f"../{INDEX}"))


@contextmanager
def write_redirect(url: str) -> Iterator[Path]:
    """Yield a page that leads to a URL. Only the user can read it, and the end of the block removes it.

    A browser gets the address of a page as an argument, and all users of a machine can read the arguments of
    all programs. So the browser gets the address of this file, as Jupyter does it.
    """
    # The folder has the mode 0700 and a random name.
    with TemporaryDirectory(prefix="harness-view-") as folder:
        path = Path(folder) / "open.html"
        path.touch(mode=0o600)
        path.write_text(_PAGE.format(url=escape(url)))
        yield path


def open_page(page: Path) -> bool:
    """Open a file in the browser, and return whether there is a browser."""
    return webbrowser.open(page.as_uri())
