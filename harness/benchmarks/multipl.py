"""The published tests of MultiPL-E as two programs, so that no expected value meets a submission.

Upstream appends tests to a completion, and the exit code of the whole is the verdict. So a completion that
exits with 0 passes, whatever it computes. The tests are generated, and each compares one call with one
expression. Here a program of the submission prints the results of the calls, a program without it prints the
expressions, and the host compares the lines. `show` writes a value on one line in both.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.splits import HubDataset
from harness.benchmarks.options import Options, validate_options
from harness.benchmarks.replies import CodeRule, extract_code, remark_on_code
from harness.core.types import Reference, Submission, Task
from harness.environments.python.printed_values import PrintedValues

MARK = "=>"
"""The start of a line with a value. Other lines are a program's own."""
_RUBY_TEST = re.compile(r"^    assert_equal\((.*?), (candidate\.call\(.*?\))\)$", re.MULTILINE | re.DOTALL)
_CPP_SHOW = r"""
#include <bits/stdc++.h>
struct Shown_ {
    static void show(bool v) { std::cout << (v ? "true" : "false"); }
    static void show(const std::string &v) { std::cout << std::quoted(escape(v)); }
    static void show(const char *v) { show(std::string(v)); }
    static void show(std::nullopt_t) { std::cout << "null"; }
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> static void show(T v) {
        if (std::is_integral_v<T>) std::cout << (long long)v;
        else if (v == std::floor(v) && std::abs(v) < 1e15) std::cout << (long long)v;
        else std::cout << std::setprecision(17) << (double)v;
    }
    template <class T> static void show(const std::vector<T> &v) {
        std::cout << "[";
        for (size_t i = 0; i < v.size(); i++) { if (i) std::cout << ", "; show(v[i]); }
        std::cout << "]";
    }
    template <class T> static void show(const std::optional<T> &v) {
        if (v) show(*v); else show(std::nullopt);
    }
    template <class... T> static void show(const std::tuple<T...> &v) {
        std::cout << "(";
        std::apply([](const auto &...each) { ((show(each), std::cout << ", "), ...); }, v);
        std::cout << ")";
    }
    template <class K, class V> static void show(const std::map<K, V> &v) {
        std::cout << "{";
        for (const auto &[key, value] : v) { show(key); std::cout << ": "; show(value); std::cout << ", "; }
        std::cout << "}";
    }
    static std::string escape(const std::string &v) {
        std::string made;
        for (char c : v) if (c == '\n') made += "\\n"; else made += c;
        return made;
    }
};
"""
_JAVA_SHOW = r"""
    static String show_(Object v) {
        if (v == null) return "null";
        if (v instanceof Float || v instanceof Double) {
            double d = ((Number) v).doubleValue();
            return d == Math.floor(d) && Math.abs(d) < 1e15 ? String.valueOf((long) d) : String.valueOf(d);
        }
        if (v instanceof String) return "\"" + ((String) v).replace("\\", "\\\\").replace("\"", "\\\"")
            .replace("\n", "\\n") + "\"";
        if (v instanceof Optional)
            return ((Optional<?>) v).map(each -> "some(" + show_(each) + ")").orElse("none");
        StringBuilder made = new StringBuilder("[");
        if (v instanceof Map) {
            TreeMap<String, String> all = new TreeMap<>();
            for (Map.Entry<?, ?> each : ((Map<?, ?>) v).entrySet()) all.put(show_(each.getKey()),
                show_(each.getValue()));
            return all.toString();
        }
        if (!(v instanceof Iterable)) return v.toString();
        for (Object each : (Iterable<?>) v) made.append(show_(each)).append(", ");
        return made + "]";
    }
"""
_RUST_SHOW = r"""
trait Show_ { fn show_(&self) -> String; }
macro_rules! show_plain_ { ($($t:ty),*) => { $(impl Show_ for $t {
    fn show_(&self) -> String { format!("{:?}", self) } })* } }
show_plain_!(bool, char, String, &str, isize, usize, i8, i16, i32, i64, i128, u8, u16, u32, u64, u128);
show_plain_!(f32, f64);
impl<T: Show_> Show_ for Vec<T> { fn show_(&self) -> String {
    format!("[{}]", self.iter().map(|each| each.show_()).collect::<Vec<_>>().join(", ")) } }
impl<T: Show_> Show_ for Option<T> { fn show_(&self) -> String {
    match self { Some(each) => format!("Some({})", each.show_()), None => "None".to_string() } } }
impl<A: Show_, B: Show_> Show_ for (A, B) { fn show_(&self) -> String {
    format!("({}, {})", self.0.show_(), self.1.show_()) } }
impl<A: Show_, B: Show_, C: Show_> Show_ for (A, B, C) { fn show_(&self) -> String {
    format!("({}, {}, {})", self.0.show_(), self.1.show_(), self.2.show_()) } }
impl<K: Show_, V: Show_> Show_ for std::collections::HashMap<K, V> { fn show_(&self) -> String {
    let mut all: Vec<String> = self.iter().map(|(k, v)| format!("{}: {}", k.show_(), v.show_())).collect();
    all.sort(); format!("{{{}}}", all.join(", ")) } }
"""
_RUBY_SHOW = r"""
def show__(v)
  case v
  when Float then v.finite? && v == v.floor ? v.to_i.to_s : v.to_s
  when Array then "[" + v.map { |each| show__(each) }.join(", ") + "]"
  when Hash then "{" + v.map { |k, w| show__(k) + " => " + show__(w) }.sort.join(", ") + "}"
  else v.inspect
  end
end
"""
_SCRIPT_SHOW = r"""
const show_ = (value%s) => JSON.stringify(value, (_key%s, each%s) =>
  each === undefined ? null : typeof each === 'number' && !Number.isFinite(each) ? String(each) : each);
"""
# The function that the tests call.
_ENTRY = re.compile(
    r"candidate :?= (?:method\(:)?(\w+)|return (\w+)\(\.\.\."
    r"|^    (\w+) \"\$@\"|^    assert\((?!candidate\()(\w+)\(",
    re.MULTILINE,
)
# The number of published tasks in each language. Upstream leaves out a task that it cannot translate.
_TASKS: Mapping[Name, int] = {
    **dict.fromkeys(("cpp", "js", "php", "rb"), 161),
    "go": 154,
    "java": 158,
    "rs": 156,
    "sh": 158,
    "ts": 159,
}
Name = Literal["cpp", "go", "java", "js", "php", "rb", "rs", "sh", "ts"]


@dataclass(frozen=True, slots=True)
class Form:
    """How the tests of a language are written, and how the two programs are put together."""

    # The language of programs.
    language: str
    # The texts around a call and an expected expression, in their order. `|` is where the call begins.
    opening: str
    middles: tuple[str, ...]
    endings: tuple[str, ...]
    # A line that prints a value, with VALUE for an expression.
    line: str
    # The texts before and after the lines.
    before: str
    after: str
    # Ends the published prompt as a function that no test calls.
    stub: str
    stop: tuple[str, ...]
    # Closes a completion that upstream's stop tokens cut off.
    close: str = ""
    # The end of the prompt's head, and a pattern that every whole program has, with its replacement.
    head: tuple[str, str, str] | None = None
    # The end of a whole program that the lines take the place of.
    tail: str = ""
    # Has the program of expressions compile the calls too, so that it fails if their results cannot be shown.
    never: str = ""
    # Whether an expected expression has the type of the call, which the program of expressions must know.
    typed: bool = False

    def split(self, entry: str, tests: str) -> list[tuple[str, str]]:
        """Return the call and the expected expression of each test. Raises ValueError for other tests."""
        before, _, call = self.opening.partition("|")
        if self.language == "ruby":
            found = [(call, expected) for expected, call in _RUBY_TEST.findall(tests)]
        else:
            opening = before + call.replace("NAME", entry)
            places = [match.start() for match in re.finditer(f"^{re.escape(opening)}", tests, re.MULTILINE)]
            found = [self._read_test(tests, place + len(before), place + len(opening)) for place in places]
        count = tests.count(f"\n{before}")
        if not found or len(found) != count:
            raise ValueError(f"{len(found)} of {count} tests compare a call with an expression")
        return found

    def _read_test(self, tests: str, start: int, after_bracket: int) -> tuple[str, str]:
        end = _find_end(tests, after_bracket)
        for middle, ending in zip(self.middles, self.endings, strict=True):
            if tests.startswith(middle, end) and (close := tests.find(f"{ending}\n", end)) >= 0:
                return tests[start:end], tests[end + len(middle) : close]
        raise ValueError(f"this test does not compare a call: {tests[start : end + 40]!r}")

    def print_calls(self, entry: str, pairs: list[tuple[str, str]]) -> str:
        """Return the end of a program that prints the results of the calls."""
        quotes = '"' if self.language == "bash" else ""
        return self._print(entry, [f"{quotes}{call}{quotes}" for call, _ in pairs])

    def print_expected(self, prompt: str, entry: str, pairs: list[tuple[str, str]]) -> str:
        """Return the program that prints the expected values."""
        values = [
            f"if std::env::args().count() > 0 {{ {value} }} else {{ {call} }}" if self.typed else value
            for call, value in pairs
        ]
        program = f"{self.open(prompt + self.stub + self.close)}\n{self._print(entry, values)}"
        if not self.never:
            return program
        lines = "".join(f"{self.line.replace('VALUE', call)}\n" for call, _ in pairs)
        return program.removesuffix(self.after) + self.never.replace("LINES", lines) + self.after

    def _print(self, entry: str, values: list[str]) -> str:
        lines = "".join(f"{self.line.replace('VALUE', value)}\n" for value in values)
        return self.before.replace("NAME", entry) + lines + self.after

    def open(self, program: str) -> str:
        """Return a program that the lines with calls can follow."""
        if self.head is not None:
            program = re.sub(self.head[1], self.head[2], program, count=1)
        return program.rstrip().removesuffix(self.tail) if self.tail else program

    def give_head(self, prompt: str, program: str) -> str:
        """Return a program with the imports of the prompt, if it is a function alone."""
        if self.head is None or re.search(self.head[1], program) is not None:
            return program
        return prompt[: prompt.index(self.head[0]) + len(self.head[0])] + program + self.tail

    def complete(self, prompt: str, completion: str) -> str:
        """Return the program of a completion, which ends at the first stop token, as upstream has it."""
        ends = [place for token in self.stop if (place := completion.find(token)) >= 0]
        return prompt + completion[: min(ends, default=len(completion))] + self.close


def _find_end(text: str, start: int) -> int:
    """Return the place after the bracket that closes the one before `start`. Texts are skipped."""
    depth, place = 1, start
    while depth and place < len(text):
        if text[place] == '"':
            place = _skip_text(text, place + 1)
        elif text[place] in "()":
            depth += 1 if text[place] == "(" else -1
        place += 1
    return place


def _skip_text(text: str, place: int) -> int:
    while place < len(text) and text[place] != '"':
        place += 2 if text[place] == "\\" else 1
    return place


def _script(language: str, stop: tuple[str, ...], kind: str) -> Form:
    return Form(
        language,
        "  assert.deepEqual(|candidate(",
        (",",),
        (");",),
        f"console.log('\\n{MARK}' + show_(VALUE));",
        (_SCRIPT_SHOW % (kind, kind, kind)) + "{\nconst candidate = NAME;\n",
        "}\n",
        "}\n",
        stop,
    )


FORMS = {
    "cpp": Form(
        "cpp",
        "    assert(|candidate(",
        (" == ",),
        (");",),
        f'    std::cout << "\\n{MARK}"; Shown_::show(VALUE); std::cout << std::endl;',
        _CPP_SHOW + "int main() {\n    auto candidate = NAME; (void)candidate;\n",
        "}\n",
        "    throw 0;",
        ("\n}",),
        close="\n}\n",
        never='    if (std::getenv("NEVER_")) {\nLINES    }\n',
        head=("#include<bits/stdc++.h>\n", "#include", "#include"),
    ),
    "go": Form(
        "go",
        "     { actual: |candidate(",
        (", expected: ",),
        (" },",),
        f'\tfmt.Printf("\\n{MARK}%q\\n", fmt.Sprintf("%v", VALUE))',
        "var _ testing.TB\n\nfunc main() {\n\tcandidate := NAME\n\t_ = candidate\n",
        "}\n",
        '    panic("")\n}\n',
        ("\nfunc", "struct", "\n// "),
        head=(")\n", r"(?m)^package \w+", "package main"),
    ),
    "java": Form(
        "java",
        "    assert(|NAME(",
        (" == ", ".equals("),
        (");", "));"),
        f'    System.out.println("\\n{MARK}" + show_(VALUE));',
        _JAVA_SHOW + "    public static void main(String[] args) throws Exception {\n",
        "    }\n}\n",
        "        throw new RuntimeException();",
        ("\n    }\n",),
        close="\n    }\n}\n",
        head=("class Problem {\n", r"(?m)^(?:public )?(?:final )?class Problem", "class Problem"),
        tail="}",
    ),
    "js": _script("nodejs", ("\nfunction ", "\n/*", "\n//", "\nconsole.log"), ""),
    "php": Form(
        "php",
        "    if (|candidate(",
        (" !== ",),
        (') { throw new Exception("Test failed!"); }',),
        f'echo "\\n{MARK}", json_encode(VALUE, SHOWN_), "\\n";',
        "const SHOWN_ = JSON_PRESERVE_ZERO_FRACTION | JSON_INVALID_UTF8_SUBSTITUTE;\n"
        "function candidate(...$args) {\n    return NAME(...$args);\n}\n",
        "",
        "}\n",
        ("\nfunction", "\n?>", "\n//", "\n#"),
        head=("<?php\n", r"<\?php", "<?php"),
    ),
    "rb": Form(
        "ruby",
        "    assert_equal(|",
        (),
        (),
        f'puts "\\n{MARK}" + show__(VALUE)',
        _RUBY_SHOW + "candidate = method(:NAME)\n",
        "",
        "end\n",
        ("\nclass", "\ndef", "\n#", "\n\n"),
    ),
    "rs": Form(
        "rust",
        "    assert_eq!(|candidate(",
        (", ",),
        (");",),
        f'    {{ let value_ = VALUE; println!("\\n{MARK}{{}}", value_.show_()); }}',
        _RUST_SHOW + "fn main() {\n    let candidate = NAME;\n",
        "}\n",
        "    panic!();",
        ("\n}",),
        close="\n}\n",
        typed=True,
    ),
    "sh": Form(
        "bash",
        "    [[ |$(candidate",
        (" = ",),
        (" ]]",),
        f"printf '\\n{MARK}%q\\n' VALUE",
        'candidate() {\n    NAME "$@"\n}\n',
        "",
        "    :",
        ("\n}",),
        close="\n}\n",
    ),
    "ts": _script("typescript", ("\nfunction ", "\n/*", "\n//", "\nclass"), ": any"),
}


class MultiPLEOptions(Options):
    """The options of the benchmark."""

    language: Name = "cpp"
    """The language, by the name that the published files have."""


@dataclass(frozen=True, slots=True)
class Submit:
    """Returns the program in a text: a completion of the prompt, or a whole program."""

    form: Form

    def __call__(self, task: Task, field: str, text: str) -> Submission:
        program, remark = text, None
        if field == "reply":
            program = extract_code(text, CodeRule.FENCED)
            remark = remark_on_code(text, CodeRule.FENCED, program)
        continues = field == "completion" or (
            field == "reply" and re.search(rf"\b{task.entry_point}\b", program) is None
        )
        prompt = task.prompt if task.statement is None else task.statement
        make_whole = self.form.complete if continues else self.form.give_head
        program = make_whole(prompt, program)
        return Submission(self.form.open(program), agent_output=text, remark=remark)


def _read(language: Name, row: Row) -> tuple[Task, Reference[PrintedValues]] | None:
    """Return the task and reference of a row: name, language, prompt, tests. Raises DataError."""
    if row.text("language").partition("_")[0] != language:
        return None
    form, prompt, tests = FORMS[language], row.text("prompt"), row.text("tests")
    row.optional_text("test")  # the same text under the name that later tools read
    entry = _ENTRY.search(tests)
    if entry is None:
        raise row.error("does not tell which function it tests", field="tests")
    name = next(filter(None, entry.groups()))
    try:
        pairs = form.split(name, tests)
    except ValueError as error:
        raise row.error(str(error), field="tests") from error
    task_id = row.text("name")
    target = PrintedValues(
        form.language,
        form.print_calls(name, pairs),
        form.print_expected(prompt, name, pairs),
        len(pairs),
        MARK,
        loose=language in ("js", "ts"),
    )
    instruction = (
        "Complete the function. Reply with the whole function, and what it needs, "
        f"in one ```{form.language} block."
    )
    task = Task(task_id, "multipl-e", "python", prompt, entry_point=name, instruction=instruction)
    # The published rows contain no solutions.
    solution = row.optional_text("solution") or ""
    return task, Reference(task_id, form.open(form.complete(prompt, solution)), target, solution)


def _configure(definition: Definition, values: Mapping[str, Any]) -> Definition:
    return _choose(definition, validate_options(MultiPLEOptions, values, definition.name).language)


def _choose(definition: Definition, language: Name) -> Definition:
    return replace(
        definition,
        tasks=_TASKS[language],
        hub=HubDataset("nuprl/MultiPL-E", f"humaneval-{language}", "test"),
        read=functools.partial(_read, language),
        submit=Submit(FORMS[language]),
    )


BENCHMARKS = (
    _choose(
        Definition(
            name="multipl-e",
            description="HumanEval in C++, Go, Java, JavaScript, PHP, Ruby, Rust, bash or TypeScript",
            environments=("python",),
            tasks=None,
            licence="MIT",
            missing=dict.fromkeys(("train", "dev"), "it was published with test only"),
            formats=("humaneval-cpp.jsonl and its like", "its rows as JSONL or JSON", "the rows of the hub"),
            hub=None,
            bundled="multipl-e.jsonl",
            reply_rule="the last block of code; without the entry point it continues the prompt",
            read=lambda _row: None,
            submit=lambda _task, _field, text: Submission(text, agent_output=text),
            configure=_configure,
            options=MultiPLEOptions,
        ),
        "cpp",
    ),
)
