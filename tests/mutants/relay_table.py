"""The mutants of the relay, of the programs that use it, and of the user's MCP servers."""

from __future__ import annotations

UNIT = "tests/unit"
CLIENTS, BOUNDS = f"{UNIT}/test_relay_clients.py", f"{UNIT}/test_relay_bounds.py"
CREDITS, REWRITING = f"{UNIT}/test_relay_credits.py", f"{UNIT}/test_relay_rewriting.py"
SERVERS, TOOLS = f"{UNIT}/test_mcp_servers.py", f"{UNIT}/test_mcp_server.py"
PROGRAMS = f"{UNIT}/test_command_program.py"
RULES, APP, TUNNEL = (
    "harness/models/relay/rules.py",
    "harness/models/relay/app.py",
    "harness/sandbox/relay.py",
)

# The file, the old text, the new text and the test.
RELAY = (
    (
        APP,
        "if not matches or not all(matches):",
        "if not matches:",
        f"{CLIENTS}::test_a_wrong_token_is_refused_in_the_form_of_the_api",
    ),
    (
        APP,
        "if not matches or not all(matches):",
        "if not any(matches):",
        f"{BOUNDS}::test_tricks_with_the_head_are_refused",
    ),
    (
        APP,
        'hmac.compare_digest(each.encode("utf-8"), self._token)',
        'self._token.startswith(each.encode("utf-8"))',
        f"{CLIENTS}::test_a_wrong_token_is_refused_in_the_form_of_the_api",
    ),
    (
        "harness/models/relay/serving.py",
        "            connection.transport.abort()\n",
        "            pass\n",
        f"{BOUNDS}::test_nothing_answers_after_the_end_of_the_block",
    ),
    (
        "harness/models/relay/serving.py",
        "len(self._state.connections) + len(self._starting) >= self._most",
        "len(self._state.connections) >= self._most",
        f"{BOUNDS}::test_connections_beyond_the_bound_are_closed",
    ),
    (
        RULES,
        'return isinstance(url, str) and url[:5].lower() == "data:"',
        'return isinstance(url, str) and "data:" in url.lower()',
        f"{REWRITING}::test_no_address_in_a_place_of_media_passes",
    ),
    (
        RULES,
        '    for name in ("previous_response_id", "conversation"):',
        '    for name in ("previous_response_id",):',
        f"{CLIENTS}::test_a_request_that_needs_a_state_of_the_server_is_refused",
    ),
    (
        "harness/models/forwarding.py",
        "raw = map_texts(read_server_json(text), self.hide_key)",
        "raw = read_server_json(text)",
        f"{CLIENTS}::test_a_key_that_the_server_repeats_reaches_no_client",
    ),
    (
        "harness/models/connection.py",
        "for name, value in request.headers.items() if name in SENT_HEADERS}",
        "for name, value in request.headers.items()}",
        f"{UNIT}/test_model_client.py::test_a_request_says_nothing_about_this_machine",
    ),
    (
        "harness/core/inputs/json_text.py",
        "        self._is_inside ^= len(parts) % 2 == 0\n",
        "        self._is_inside = False\n",
        f"{UNIT}/test_inputs.py::test_the_count_is_the_same_however_a_text_is_cut",
    ),
    (
        APP,
        ", most_values=MAX_CALL_VALUES",
        "",
        f"{BOUNDS}::test_the_tools_get_no_message_with_many_values",
    ),
    (
        "harness/models/streamed_replies.py",
        "        if values.total > MAX_REPLY_VALUES:\n",
        "        if False:\n",
        f"{UNIT}/test_model_client.py::test_a_reply_with_too_many_values_is_not_parsed",
    ),
    (
        "harness/models/relay/mcp_streams.py",
        "    if count_values(line) > MAX_MESSAGE_VALUES:\n",
        "    if False:\n",
        f"{SERVERS}::test_a_broken_call_is_an_error",
    ),
    (
        "harness/models/relay/mcp_servers/host_process.py",
        '            response.headers["content-type"] = _EVENTS\n',
        "            pass\n",
        f"{UNIT}/test_mcp_http_bounds.py"
        "::test_the_encoding_of_events_is_that_in_which_their_values_are_counted",
    ),
    (
        "harness/models/relay/mcp_servers/tool_names.py",
        "if counts[alias] == 1 and alias not in used",
        "if alias not in used",
        f"{UNIT}/test_mcp_tool_names.py::test_a_long_name_that_two_tools_share_leads_to_neither",
    ),
    (
        TUNNEL,
        "        if number > self._last_number:\n",
        "        if False:\n",
        f"{CREDITS}::test_a_guest_that_breaks_a_rule_breaks_the_stream",
    ),
    (
        TUNNEL,
        '                self._relay.send(self._number, "seen", self._taken)\n',
        '                self._relay.send(self._number, "seen", 2 * self._taken)\n',
        f"{CREDITS}::test_the_host_acknowledges_what_its_program_has_taken_and_no_more",
    ),
    (
        "harness/sandbox/guest/relay.py",
        "if self._host_ended or len(self._waiting) + self._taken + len(data) > self._relay.window:",
        "if self._host_ended:",
        f"{CREDITS}::test_the_guest_refuses_more_bytes_than_its_window",
    ),
)
