"""The mutants of the viewer: of its guard, and of what it reads from run folders."""

from __future__ import annotations

UNIT = "tests/unit"
SERVER, INDEX = f"{UNIT}/test_viewer_app.py", f"{UNIT}/test_viewer_index.py"
TRANSCRIPTS = f"{UNIT}/test_viewer_transcripts.py"
ACCESS, INDEXING = "harness/reports/viewer/app.py", "harness/runs/followed_index.py"
COLUMNS = "harness/runs/records.py"

# The file, the old text, the new text and the test.
VIEWER = (
    (
        ACCESS,
        'headers["host"].rpartition(":")[0] not in _HOSTS',
        "False",
        f"{SERVER}::test_another_host_name_is_refused",
    ),
    (
        ACCESS,
        'headers["host"].rpartition(":")[0] not in _HOSTS',
        'not headers["host"].startswith(tuple(_HOSTS))',
        f"{SERVER}::test_another_host_name_is_refused",
    ),
    (
        ACCESS,
        'elif scope["method"] not in ("GET", "HEAD"):',
        "elif False:",
        f"{SERVER}::test_the_viewer_only_reads",
    ),
    (
        ACCESS,
        'headers.get("sec-fetch-mode") == "navigate" and scope["path"]',
        'scope["path"]',
        f"{SERVER}::test_the_page_opens_only_by_a_link",
    ),
    (
        ACCESS,
        'headers.get("sec-fetch-site", "none") not in _OWN_SITES',
        'headers.get("sec-fetch-site", "none") == "cross-site"',
        f"{SERVER}::test_a_request_of_another_site_is_refused",
    ),
    (
        ACCESS,
        '        if scope["path"] != f"{self._access.path}/":\n            return False\n',
        "",
        f"{SERVER}::test_the_token_opens_nothing_but_the_page",
    ),
    (
        ACCESS,
        "hmac.compare_digest(given.encode(), secret.encode())",
        "secret.startswith(given)",
        f"{SERVER}::test_without_token_and_cookie_there_is_no_answer",
    ),
    (
        ACCESS,
        "self._unused.difference_update(used)",
        "pass",
        f"{SERVER}::test_an_issued_token_opens_the_page_once",
    ),
    (
        ACCESS,
        "; HttpOnly; SameSite=Strict",
        "; SameSite=Strict",
        f"{SERVER}::test_the_token_opens_the_page_and_sets_a_cookie",
    ),
    (
        "harness/reports/viewer/catalogue.py",
        '            raise UnknownRunError("the list has no such run")',
        "            folder = self.output_dir / key",
        f"{SERVER}::test_only_runs_of_the_list_can_be_named",
    ),
    (
        INDEXING,
        "if self.end and (is_cut or",
        "if self.end and (",
        f"{INDEX}::test_a_file_that_was_cut_is_read_again",
    ),
    (
        INDEXING,
        "(is_cut or identity != self.identity)",
        "is_cut",
        f"{INDEX}::test_a_file_that_was_replaced_is_read_again",
    ),
    (
        "harness/runs/attempt_index.py",
        " ON CONFLICT DO UPDATE SET {_SET}",
        " ON CONFLICT DO NOTHING",
        f"{INDEX}::test_the_last_record_of_a_repeated_attempt_counts",
    ),
    (
        INDEXING,
        "if found != known or ",
        "if ",
        f"{INDEX}::test_a_kept_table_serves_only_the_file_that_it_was_made_of",
    ),
    (
        "harness/reports/page_values.py",
        "escape_text(text[:limit], multiline=True)",
        "text[:limit]",
        f"{TRANSCRIPTS}::test_invisible_characters_are_shown_as_escapes",
    ),
    (
        "harness/reports/page_file.py",
        '.replace("<", "\\\\u003c")',
        "",
        f"{UNIT}/test_reports_html.py::test_hostile_text_changes_nothing_but_text",
    ),
    (
        "harness/reports/page_values.py",
        "else [escape_text(node.content, multiline=True)]",
        "else [node.content]",
        f"{UNIT}/test_page_text.py::test_markdown_has_only_elements_of_the_list_and_classes_of_ours",
    ),
    (
        COLUMNS,
        "_DEEP), MAX_DEPTH - 1)",
        "_DEEP), MAX_DEPTH + 50)",
        f"{INDEX}::test_the_index_holds_exactly_the_records_of_the_strict_parser",
    ),
    (
        COLUMNS,
        "is_plain = math.isfinite(value)",
        "is_plain = True",
        f"{INDEX}::test_the_index_holds_exactly_the_records_of_the_strict_parser",
    ),
    (
        COLUMNS,
        "        require_record(values)\n        if",
        "        if",
        f"{INDEX}::test_the_index_holds_exactly_the_records_of_the_strict_parser",
    ),
    (
        "harness/models/relay/serving.py",
        "(is_full and not self._make_room())",
        "is_full",
        f"{UNIT}/test_relay_bounds.py::test_a_full_server_closes_the_connection_that_has_waited_longest",
    ),
)
