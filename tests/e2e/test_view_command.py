"""`harness view`: the address that it prints, its end, and the runs that it refuses."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
from e2e.command_line import HANG_SECONDS, NO_ENGINE, FinishedRun, Harness


@pytest.fixture
def finished(finished_run: Callable[..., FinishedRun]) -> FinishedRun:
    return finished_run("run", "-b", "gsm8k", "--data", "bundled", "--agent", "null", "-n", "3")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)])
def test_the_printed_address_opens_the_runs_until_a_signal_ends_the_viewer(
    finished: FinishedRun, harness: Harness, number: signal.Signals
) -> None:
    process = harness.start("view", "--output-dir", finished.folder.path.parent, env=NO_ENGINE)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert urlsplit(address).hostname == "127.0.0.1"
    with requests.Session() as browser:
        assert "<title>harness view</title>" in browser.get(address, timeout=60).text
        (run,) = browser.get(address.partition("?")[0] + "api/runs", timeout=60).json()["runs"]
    assert (run["key"], run["finished"], run["is_bundled"]) == (finished.folder.path.name, 3, True)
    assert run["rate"].startswith("0.0 % (0.0 % to ")
    process.send_signal(number)
    rest, errors = process.communicate(timeout=HANG_SECONDS)
    assert (process.returncode, rest, errors) == (128 + number, "", "")


def test_the_browser_gets_a_private_file_whose_link_opens_the_page_once(
    finished: FinishedRun, harness: Harness
) -> None:
    browser, opened = harness.folder / "browser", harness.folder / "opened"
    os.mkfifo(opened)
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{opened}"\n')
    browser.chmod(0o700)
    command = ("view", finished.folder.path, "--open")
    process = harness.start(*command, env={**NO_ENGINE, "BROWSER": str(browser)})
    assert process.stdout is not None
    printed = process.stdout.readline().strip()
    (argument,) = opened.read_text().splitlines()
    page = Path(urlsplit(argument).path)
    assert "token" not in argument
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    match = re.search('url=(.*?)"', page.read_text())
    assert match is not None
    link = match[1]
    assert [requests.get(link, timeout=60).status_code for _ in range(2)] == [200, 401]
    assert [requests.get(printed, timeout=60).status_code for _ in range(2)] == [200, 200]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=HANG_SECONDS)
    assert not page.parent.exists()


def test_only_named_runs_are_shown(finished: FinishedRun, harness: Harness) -> None:
    (harness.folder / "runs").mkdir()
    finished.folder.copy_to(harness.folder / "runs" / "other")
    process = harness.start("view", finished.folder.path, env=NO_ENGINE)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    with requests.Session() as browser:
        browser.get(address, timeout=60)
        listed = browser.get(address.partition("?")[0] + "api/runs", timeout=60).json()["runs"]
    assert [run["key"] for run in listed] == [finished.folder.path.name]


def test_a_port_that_is_taken_is_named(harness: Harness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, error = harness.refused("view", "--port", str(port))
    assert code == 2
    assert f"error: port {port} of 127.0.0.1 cannot be used: Address already in use" in error
    assert "hint: choose another one with --port N" in error


def test_a_folder_that_does_not_exist_is_refused(harness: Harness) -> None:
    assert "no-such-folder" in harness.expect_refusal("view", "--output-dir", "no-such-folder")


def test_static_pages_are_written_and_nothing_is_served(
    finished: FinishedRun, harness: Harness, tmp_path: Path
) -> None:
    runs = ("view", "--output-dir", finished.folder.path.parent, "--export", tmp_path / "pages")
    done = harness(*runs, env=NO_ENGINE)
    assert (done.returncode, done.stdout) == (0, f"1 run: {tmp_path / 'pages' / 'index.html'}\n")
    assert (tmp_path / "pages" / finished.folder.path.name / "report.html").is_file()
    assert "is not empty" in harness(*runs, env=NO_ENGINE).stderr
    assert "serves no page" in harness(*runs, "--port", "1", env=NO_ENGINE).stderr
