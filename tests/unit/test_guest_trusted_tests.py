"""The trusted tests with a peer that sends arbitrary bytes: silence, noise and forgery never pass."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import warnings
from collections.abc import Sequence
from typing import Any

from case_checks import each_case
from hypothesis import given
from hypothesis import strategies as st

from harness.environments.python.guest import (
    assert_calls,
    compiled_tests,
    conversation,
    encoding,
    exceptions,
    peer,
    trusted_tests,
    values,
)

SECRET = "the-expected-value-8471"
EXPECTED = f"assert f([1]) == {SECRET!r}"
REPLY_LETTERS = (conversation.VALUE, conversation.CHANGED, conversation.RAISED, conversation.STOPPED)


class Handle:
    """An object that is encoded as a handle of the peer's."""

    def __init__(self, kind: int, number: int = 0) -> None:
        self.kind = kind
        self.number = number

    def __repr__(self) -> str:
        return f"Handle({self.kind}, {self.number})"


def handle_of(value: Any) -> tuple[int, int, object]:
    return value.kind, value.number, None


def described(
    base: str,
    own: tuple[str, int | None] | None = None,
    args: object = (),
    text: object = "",
    attributes: object = None,
    cause: object = None,
    context: object = None,
    suppressed: object = False,
    members: object = None,
) -> tuple[object, ...]:
    """Return the description of an exception, as a program sends it."""
    classes = (base,) if own is None else (base, (own[0], (0,), own[1], None))
    attributes = {} if attributes is None else attributes
    return classes, args, text, attributes, cause, context, suppressed, members


NESTED = described("ValueError")
for _ in range(50):
    NESTED = described("ValueError", cause=NESTED)


def message(letter: bytes, value: object) -> bytes:
    payload = encoding.Encoder(handle_of).encode(value)
    return len(payload).to_bytes(4, "big") + letter + payload


def returned(value: object) -> bytes:
    return message(conversation.VALUE, value)


def raising(description: object) -> bytes:
    return message(conversation.RAISED, description)


LOADED = returned(None)
FUNCTION = returned((Handle(values.CALLABLE), None))


def say(theirs: socket.socket, said: bytes) -> None:
    with contextlib.suppress(OSError):  # The tests need not read to the end.
        theirs.sendall(said)
        theirs.shutdown(socket.SHUT_WR)


def make_request(statements: Sequence[str], setup: str = "") -> dict[str, Any]:
    return {
        "preamble": "",
        "program": "pass",
        "setup": setup,
        "statements": list(statements),
        "compiled_setup": compiled_tests.compile_setup_ahead(setup),
        "compiled": [compiled_tests.compile_ahead(each, with_classes=False) for each in statements],
        "beginning": compiled_tests.compile_beginning_ahead(tuple(statements), frozenset("f")),
        "exports": {"f": "f"},
        "classes": {},
    }


def run(said: bytes, statements: Sequence[str] = (EXPECTED,), setup: str = "") -> dict[str, Any]:
    """Run tests against a peer that has sent these messages in advance, and then hangs up."""
    ours, theirs = socket.socketpair()
    speaker = threading.Thread(target=say, args=(theirs, said))
    with theirs:
        speaker.start()
        with ours:
            report = trusted_tests.run(
                ours.fileno(), make_request(statements, setup), lambda _candidate: None
            )
        speaker.join()
    assert json.loads(json.dumps(report)) == report
    return report


def answering(*replies: bytes, statements: Sequence[str] = (EXPECTED,)) -> dict[str, Any]:
    """Run tests against a peer that loads, hands out a function, and answers calls with `replies`."""
    return run(LOADED + FUNCTION + b"".join(replies), statements)


def test_the_right_answer_passes() -> None:
    report = answering(returned(SECRET))
    nothing = dict.fromkeys(("evidence", "error", "breach", "lost", "broken")) | {
        "large": False,
        "objects": [],
    }
    assert report == {"results": ["passed"], **nothing}


def test_a_report_names_the_kinds_of_objects_that_crossed() -> None:
    answers = [(Handle(values.ITERATOR, 5), [Handle(values.OPAQUE, 6)]), Handle(values.CALLABLE, 0), "plain"]
    report = answering(*(returned(answer) for answer in answers), statements=[EXPECTED] * 3)
    assert report["results"] == ["failed"] * 3
    assert report["objects"] == ["object", "iterator"]


def test_every_kind_of_object_has_one_of_the_names() -> None:
    kinds = {*peer.STAND_INS.values(), *peer.STAND_INS_WITH_ATTRIBUTES.values()}
    assert {peer.KIND_NAMES[kind] for kind in kinds} < set(values.OBJECT_KINDS)


def test_a_wrong_answer_fails_and_the_next_test_still_counts() -> None:
    report = answering(returned("no"), returned(SECRET), statements=[EXPECTED, EXPECTED])
    assert report["results"] == ["failed", "passed"]


def test_a_call_that_raises_stop_iteration_ends_no_loop_of_the_tests() -> None:
    error = raising(described("StopIteration", args=(), text=""))
    report = answering(error, statements=["for answer in map(f, [1, 2]):\n    assert answer == 3"])
    assert (report["results"], report["error"]) == (["failed"], "RaisedStopIteration")


def test_a_test_goes_on_after_an_assert_that_failed() -> None:
    """Another call must not reveal that the last answer was right."""
    replies = [returned(answer) for answer in ("no", "no", SECRET)]
    asserts = [f"    {EXPECTED}"] * 3
    report = answering(*replies, statements=["\n".join(["def check():", *asserts, "check()"]), EXPECTED])
    assert report["lost"] == "the program's process ended before the tests did"
    assert report["results"] == ["failed", "failed"]


@each_case("right", [0, 1, 2])
def test_one_failed_assert_of_several_fails_the_test(right: int) -> None:
    replies = [returned(SECRET if place != right else "no") for place in range(3)]
    report = answering(*replies, statements=["\n".join([EXPECTED] * 3)])
    assert (report["results"], report["lost"]) == (["failed"], None)


def test_the_evidence_is_of_the_first_assert_that_failed() -> None:
    replies = [returned(answer) for answer in (1, 2, 3)]
    report = answering(*replies, statements=["assert f(7) == 1\nassert f(8) == 0\nassert f(9) == 0"])
    assert report["evidence"] == (
        "test 1: assert f(8) == 0: AssertionError; left is 2, right is 0; the last call, with (8), returned 2"
    )


@each_case("comparison", ["==", "is", "==  1 =="])
def test_a_message_is_evaluated_only_if_its_assert_fails(comparison: str) -> None:
    statement = f"def told(): raise KeyError('asked')\nassert f(1) {comparison} 1, told()"
    assert answering(returned(1), statements=[statement])["results"] == ["passed"]
    report = answering(returned(2), statements=[statement])
    assert report["error"] == "AssertionError"
    assert "(its message raised KeyError)" in report["evidence"]


@each_case("claim", ["f(1) == 0", "f(1) != 2", "f(1) < 2", "f(1) == 2 == 3", "not f(1)"])
def test_the_evidence_gives_line_and_message_of_any_kind_of_assert(claim: str) -> None:
    statement = f"x = 1\nassert {claim}, 'said'\nx = 3"
    report = answering(returned(2), statements=[statement])
    assert report["evidence"].startswith(f"test 1: assert {claim}, 'said': AssertionError: said")


def test_an_assert_uses_the_equality_of_the_tests() -> None:
    statement = (
        "class Near(float):\n    def __eq__(self, other): return abs(self - other) < 1\n"
        "    __hash__ = None\n    def __ne__(self, other): return True\nassert Near(2.5) == f(1)"
    )
    assert answering(returned(2), statements=[statement])["results"] == ["passed"]


def test_a_test_too_long_to_be_compiled_ahead_is_run_all_the_same() -> None:
    statement = EXPECTED + " " * compiled_tests.MAX_SOURCE
    assert compiled_tests.compile_ahead(statement, with_classes=False) is None
    assert answering(returned(SECRET), statements=[statement])["results"] == ["passed"]


def test_compiling_ahead_emits_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            compiled_tests.compile_ahead("assert f(1) is 'never compiled before'", with_classes=False)
            is not None
        )


def test_an_assert_that_a_test_catches_itself_is_raised() -> None:
    statement = "try:\n    assert f(1) == 2\nexcept AssertionError:\n    caught = True\nassert caught"
    assert answering(returned(3), statements=[statement])["results"] == ["passed"]


def test_an_assert_after_one_that_a_test_catches_itself_goes_on() -> None:
    statement = "try:\n    pass\nexcept ValueError:\n    pass\nelse:\n    assert f(1) == 2\nassert f(1) == 3"
    replies = [returned(0), returned(3)]
    report = answering(*replies, statements=[statement])
    assert (report["results"], report["lost"]) == (["failed"], None)


def test_the_evidence_names_the_test_its_line_the_arguments_and_the_result() -> None:
    report = answering(returned("wrong"), statements=["pass", "x = [2]\nassert f(x, k=3) == 4\n"])
    assert report["evidence"] == (
        "test 2: assert f(x, k=3) == 4: AssertionError; left is 'wrong', right is 4; "
        "the last call, with ([2], k=3), returned 'wrong'"
    )


def test_silence_fails() -> None:
    report = run(b"")
    assert (report["results"], report["error"]) == (["failed"], "CandidateLost")


def test_a_program_that_does_not_load_fails_every_test() -> None:
    error = described("SyntaxError", args=("bad",), text="bad")
    report = run(raising(error), ["pass", "pass"])
    assert report["results"] == ["failed", "failed"]
    assert report["evidence"] == "the program failed to load: SyntaxError: bad"


def test_a_syntax_error_names_its_line_and_not_its_text() -> None:
    args = ("invalid syntax", ("candidate.py", 3, 7, "def f(:", 3, 8))
    report = run(raising(described("SyntaxError", args=args, text="invalid syntax")), ["pass"])
    assert report["evidence"] == "the program failed to load: SyntaxError: invalid syntax (line 3)"


def test_a_peer_that_hangs_up_in_a_test_fails_it_and_names_no_later_one() -> None:
    report = answering(statements=["pass", "f(1)", "pass"])
    assert report["results"] == ["passed", "failed"]
    assert report["lost"] == "the program's process ended before the tests did"


def test_no_test_can_swallow_the_loss_of_the_candidate() -> None:
    report = answering(statements=["try:\n    f(1)\nexcept BaseException:\n    pass", "pass"])
    assert report["results"] == ["failed"]


def test_answers_after_a_breach_are_ignored() -> None:
    report = answering(message(b"?", SECRET), returned(SECRET), statements=[EXPECTED] * 2)
    assert "passed" not in report["results"]


@given(st.binary(max_size=80))
def test_noise_instead_of_a_program_never_passes(noise: bytes) -> None:
    assert "passed" not in run(noise)["results"]


@given(st.binary(max_size=80))
def test_noise_instead_of_an_answer_never_passes(noise: bytes) -> None:
    assert "passed" not in answering(noise)["results"]


@given(letter=st.sampled_from([*REPLY_LETTERS, b"L", b"\0"]), payload=st.binary(max_size=40))
def test_a_framed_payload_of_noise_never_passes(letter: bytes, payload: bytes) -> None:
    assert "passed" not in answering(len(payload).to_bytes(4, "big") + letter + payload)["results"]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
) | st.builds(Handle, st.integers(0, 3), st.integers(0, 3))


@given(letter=st.sampled_from(REPLY_LETTERS), value=PLAIN)
def test_a_wellformed_reply_of_another_kind_never_passes(letter: bytes, value: object) -> None:
    assert "passed" not in answering(message(letter, value))["results"]


@given(letter=st.sampled_from(REPLY_LETTERS), result=PLAIN, after=PLAIN)
def test_forged_changes_of_arguments_never_pass(letter: bytes, result: object, after: object) -> None:
    assert "passed" not in answering(message(conversation.CHANGED, (letter, result, after)))["results"]


@given(
    base=st.sampled_from(sorted(exceptions.BUILTIN)),
    own=st.sampled_from(["Own", "CandidateLost", "not a name", "__class__", "None"]) | st.text(max_size=5),
    args=st.none() | st.lists(PLAIN, max_size=5).map(tuple),
    text=st.text(st.characters(), max_size=5),
    number=st.none() | st.integers(0, 3),
    attributes=st.dictionaries(
        st.text(max_size=5) | st.sampled_from(["__class__", "args"]), PLAIN, max_size=3
    ),
)
def test_a_forged_exception_never_passes(
    base: str, own: str, args: object, text: str, number: int | None, attributes: object
) -> None:
    raised = raising(described(base, (own, number), args, text, attributes))
    assert "passed" not in answering(raised)["results"]


@each_case("base", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "StopIteration"])
def test_an_exception_that_ends_programs_ends_one_test_only(base: str) -> None:
    raised = raising(described(base, args=(0,), text="0"))
    report = answering(raised, returned(SECRET), statements=[EXPECTED, EXPECTED])
    assert report["results"] == ["failed", "passed"]


@each_case("name", ["object", "type", "eval", "__import__", "CandidateLost", "int", ""])
def test_a_base_that_is_no_builtin_exception_becomes_a_plain_exception(name: str) -> None:
    statement = "try:\n    f(1)\nexcept Exception as error:\n    assert type(error).__bases__ == (Exception,)"
    report = answering(raising(described(name, ("Own", None))), statements=[statement])
    assert report["results"] == ["passed"]


ABOUT_VALUES = [
    "f(1) == 1",
    "1 == f(1)",
    "not (f(1) != 1)",
    "f(1) in [1, 2]",
    "f(1) is True",
    "f(1) > 0",
    "f(1) + 1 == 2",
    "len(f(1)) == 1",
    "isinstance(f(1), (int, str, list, dict, set, float, tuple, bytes))",
    "f(1)[0] == 1",
    "f(1).value == 1",
    "str(f(1)) == '1'",
    "int(f(1)) == 1",
    "abs(f(1) - 1) < 1e-6",
    "f'{f(1)}' == '1'",
]


@each_case(
    "kind",
    [values.OPAQUE, values.ITERATOR, values.CALLABLE, values.COROUTINE],
    ids=["opaque", "iterator", "callable", "coroutine"],
)
def test_a_handle_has_no_property_that_a_test_could_take_for_a_value(kind: int) -> None:
    reply = returned(Handle(kind, 7))
    found = {test: answering(reply, reply, statements=[f"assert {test}"])["results"] for test in ABOUT_VALUES}
    assert {test: results for test, results in found.items() if results != ["failed"]} == {}


@each_case("forged", [1, "True", [1], None, Handle(values.OPAQUE, 9)], ids=repr)
def test_only_a_boolean_is_the_truth_of_an_object(forged: object) -> None:
    object_ = returned(Handle(values.OPAQUE, 5))
    report = answering(object_, returned(forged), statements=["assert f(1)"])
    assert report["results"] == ["failed"]


def test_an_oversized_length_is_a_breach_before_anything_of_it_is_read() -> None:
    report = answering(b"\xff\xff\xff\xff" + conversation.VALUE)
    assert report["breach"] is not None
    assert "announced" in report["breach"]


@each_case(
    ("letter", "value"),
    [
        (b"?", 1),
        (conversation.STOPPED, 1),
        (conversation.RAISED, None),
        (conversation.RAISED, 7),
        (conversation.RAISED, True),
        (conversation.RAISED, described("ValueError")[:-1]),
        (conversation.RAISED, described("ValueError", text=b"")),
        (conversation.RAISED, described("ValueError", attributes=())),
        (conversation.RAISED, described("ValueError", cause=1)),
        (conversation.RAISED, described("ValueError", context=())),
        (conversation.RAISED, described("ValueError", suppressed=None)),
        (conversation.RAISED, described("ExceptionGroup", members=(None,))),
        (conversation.RAISED, NESTED),
        (conversation.CHANGED, None),
        (conversation.CHANGED, (conversation.VALUE, 1)),
        (conversation.CHANGED, (conversation.VALUE, 1, [])),
        (conversation.CHANGED, (conversation.CHANGED, 1, ())),
        (conversation.CHANGED, ("v", 1, ())),
        (conversation.CHANGED, (conversation.VALUE, 1, ((), (), ()))),
        (conversation.CHANGED, (conversation.VALUE, 1, (None,))),
        (conversation.CHANGED, (conversation.VALUE, 1, (b"",))),
        (conversation.VALUE, Handle(values.CALLBACK, 0)),
        (conversation.VALUE, Handle(values.BUILTIN, 0)),
        (conversation.VALUE, Handle(99, 0)),
        (conversation.CALLBACK, (0, 0, (), {})),
        (conversation.CALLBACK, None),
        (conversation.CALLBACK, (0, 0, [], {})),
        (conversation.CALLBACK, ([], 0, (), {})),
    ],
    ids=lambda part: repr(part).partition(" at 0x")[0],
)
def test_a_reply_of_a_wrong_shape_is_a_breach(letter: bytes, value: object) -> None:
    assert answering(message(letter, value))["breach"] is not None


def test_a_set_refuses_an_unhashable_element() -> None:
    forged = message(conversation.CHANGED, (conversation.VALUE, None, (([1],),)))
    assert answering(forged, statements=["f({1})"])["breach"] is not None


@each_case(
    "value",
    ["x" * 1_000_000, 7**100_000, "\ud800\x1b[2J" * 1000, [0] * 100_000],
    ids=["text", "integer", "escapes", "list"],
)
def test_the_evidence_is_bounded_whatever_the_answer(value: object) -> None:
    report = answering(returned(value), statements=["assert f(1) == 2"])
    assert len(report["evidence"]) <= assert_calls.MAX_EVIDENCE


def test_the_evidence_survives_an_answer_too_deep_to_be_shown() -> None:
    deep: list[Any] = []
    for _ in range(20_000):
        deep = [deep]
    report = answering(returned(deep), statements=["assert f(1) == 2"])
    assert "left is [[[[" in report["evidence"]


def test_a_long_message_of_an_exception_is_bounded() -> None:
    raised = raising(described("ValueError", args=None, text="m" * 10_000))
    assert len(answering(raised)["evidence"]) <= assert_calls.MAX_EVIDENCE


# Each case has the tests' set-up and their statements.
BROKEN = {
    "a set-up that raises": ("1/0", ["assert f(1) == 3"]),
    "a set-up that is not Python": ("def", ["assert f(1) == 3"]),
    "a set-up that ends Python": ("import sys; sys.exit(0)", ["assert f(1) == 3"]),
    "a set-up that works only once": (
        "import sys\nassert not hasattr(sys, 'seen_by_set_up')\nsys.seen_by_set_up = 1",
        ["assert f(1) == 3"],
    ),
    "an import before the test": ("", ["import nowhere\nassert f(1) == 3"]),
    "an import in the test's function": (
        "",
        ["def check(g):\n    import nowhere\n    assert g(1)\ncheck(f)"],
    ),
    "an import in a method of the tests": (
        "",
        ["class T:\n    def test(self):\n        import nowhere\n        assert f(1)\nT().test()"],
    ),
    "an import of a name that is not there": ("", ["from math import nothing\nassert f(1) == 3"]),
    "an import in a later test": ("", ["assert f(1) == 3", "import nowhere\nassert f(1) == 3"]),
    "data that cannot be computed": ("", ["wanted = [1][3]\nassert f(1) == wanted"]),
    "a helper that raises": ("", ["def make(): return {}['x']\nwanted = make()\nassert f(1) == wanted"]),
    "a helper without its module": ("", ["wanted = math.pi\nassert f(1) == wanted"]),
    "a test that is not Python": ("", ["assert f(1) == 3", "assert ("]),
    "a test nested too deeply": ("", [f"assert {'(' * 2000}1{')' * 2000}"]),
}
# Here the program decides, or nothing is wrong.
SOUND = {
    "an import that may fail": ("", ["try:\n    import nowhere\nexcept ImportError:\n    pass\nassert f(1)"]),
    "an import on one version alone": ("", ["import sys\nif sys.version_info < (3, 0):\n    import nowhere"]),
    "a helper that calls the program": ("", ["def call(): return f(1)\nresult = call()\nassert result == 3"]),
    "a helper of a helper": ("", ["def a(): return f(1)\ndef b(): return a()\nx = b()\nassert x"]),
    "a class with a call in its body": ("", ["class A:\n    x = f(1)\nassert A.x"]),
    "a function in a table": ("", ["table = {'f': f}\nx = table['f'](1)\nassert x"]),
    "a name found at run time": ("", ["x = globals()['f'](1)\nassert x"]),
    "a decorator that calls": ("", ["def now(g): return g()\n@now\ndef x(): return f(1)\nassert x"]),
    "a function that a decorator keeps": (
        "",
        [
            "kept = []\ndef keep(g):\n    kept.append(g)\n    return g\n@keep\ndef case(): return f(1)\n"
            "x = kept[0]()\nassert x"
        ],
    ),
    "a test runner": (
        "",
        [
            "import io, unittest\nclass T(unittest.TestCase):\n    def test(self): "
            "self.assertEqual(f(1), 3)\nresult = unittest.TextTestRunner(stream=io.StringIO()).run("
            "unittest.TestLoader().loadTestsFromTestCase(T))\nassert result.wasSuccessful()"
        ],
    ),
    "an assert on the tests' own data": ("", ["assert 1 == 2"]),
    "an index into an answer": ("", ["x = f(1)[5]\nassert x"]),
}


def test_tests_that_fail_by_themselves_are_broken_whatever_the_program_does() -> None:
    wrong = {}
    for what, (setup, statements) in BROKEN.items():
        for said in (LOADED + FUNCTION + returned(SECRET), b""):
            report = run(said, statements, setup=setup)
            if report["broken"] is None or report["results"]:
                wrong[what] = report
    assert not wrong


def test_a_failure_that_may_be_the_programs_does_not_break_the_tests() -> None:
    said = LOADED + FUNCTION + returned(SECRET)
    reports = {what: run(said, statements, setup=setup) for what, (setup, statements) in SOUND.items()}
    assert {what: each["broken"] for what, each in reports.items() if each["broken"] is not None} == {}


def test_the_evidence_of_broken_tests_names_their_failure() -> None:
    report = run(LOADED + FUNCTION, ["pass", "pass"], setup="1/0")
    assert report["broken"] == "the tests' own set-up failed: ZeroDivisionError: division by zero"


def test_a_helper_of_the_set_up_does_not_stand_in_for_the_program() -> None:
    missing = raising(described("NameError", args=("no f",), text="no f"))
    report = run(LOADED + missing, ["assert f() == 1"], setup="def f(): return 1")
    assert report["results"] == ["failed"]


def test_without_tests_nothing_has_passed() -> None:
    assert answering(statements=[])["results"] == []


@each_case(
    "classes",
    [
        "ValueError",
        (),
        ([],),
        ("ValueError", ("Own", [0], 1, None)),
        (("Own", (), 1, None),),
        (("Own", (0,), 1, None),),
        ("ValueError", ("Own", (0.0,), 1, None)),
        ("ValueError", (2, (0,), 1, None)),
        ("ValueError", ("Own", (0,), [], None)),
        ("ValueError",) * 1000,
    ],
    ids=[
        "text",
        "nothing",
        "base that is not a name",
        "no tuple of bases",
        "class without a base",
        "class that is its own base",
        "place that is a fraction",
        "class without a name",
        "number that is a list",
        "too many classes",
    ],
)
def test_a_forged_exception_class_passes_nothing(classes: object) -> None:
    report = run(LOADED + returned((Handle(values.CLASS, 1), classes)), ["pass"])
    assert report["results"] == ["failed"]
    assert "an exception class" in report["breach"]


def test_a_class_whose_bases_have_no_order_gets_its_first_base() -> None:
    classes = ("Exception", "ValueError", ("Own", (0, 1), 1, None))
    report = run(LOADED + returned((Handle(values.CLASS, 1), classes)), ["assert f.__mro__[1] is Exception"])
    assert report["results"] == ["passed"]


@each_case("module", ["unittest.case", "harness.environments.python.guest.peer", "tests"])
def test_a_class_of_another_module_is_never_the_one_that_this_module_has(module: str) -> None:
    raised = message(
        conversation.RAISED, (("Exception", ("SkipTest", (0,), None, module)), *described("")[1:])
    )
    test = "import unittest\ntry: f(1)\nexcept unittest.SkipTest: pass"
    assert answering(raised, statements=[test])["results"] == ["failed"]


def test_an_exception_of_the_tests_is_known_only_after_it_was_reported() -> None:
    number = raising(2)
    assert answering(number, statements=["try: f(1)\nexcept Exception: pass"])["breach"] is not None
