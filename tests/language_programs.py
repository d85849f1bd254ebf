"""Small programs in every language of `/run_code`: the same tasks in each, and programs that must fail.

A body uses `a`, the numbers of the input, their count `n`, and the variables r, s, i, j and t, which are 0.
It consists of assignments, `while (...) {`, `if (...) {`, `} else {` and `}`. The translators write it in
each language, and every program prints `r` at its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# The task, its body, and its tests.
TASKS: dict[str, tuple[str, tuple[tuple[str, int], ...]]] = {
    "sum": ("while (i < n) { r += a[i]; i += 1; }", (("1 2 3", 6), ("-5 5 9", 9))),
    "count": ("r = n;", (("4 4 4 4", 4), ("7", 1))),
    "first": ("r = a[0];", (("8 1", 8), ("-3", -3))),
    "last": ("r = a[n - 1];", (("8 1", 1), ("-3", -3))),
    "product": ("r = 1; while (i < n) { r = r * a[i]; i += 1; }", (("2 3 7", 42), ("5 0", 0))),
    "maximum": (
        "r = a[0]; while (i < n) { if (a[i] > r) { r = a[i]; } i += 1; }",
        (("3 9 2", 9), ("-4 -2 -8", -2)),
    ),
    "minimum": ("r = a[0]; while (i < n) { if (a[i] < r) { r = a[i]; } i += 1; }", (("3 9 2", 2), ("5", 5))),
    "even": ("while (i < n) { if (a[i] % 2 == 0) { r += 1; } i += 1; }", (("1 2 4 5", 2), ("3", 0))),
    "squares": ("while (i < n) { r += a[i] * a[i]; i += 1; }", (("3 4", 25), ("-2", 4))),
    "alternating": (
        "s = 1; while (i < n) { r += s * a[i]; s = 0 - s; i += 1; }",
        (("9 4 1", 6), ("1 2", -1)),
    ),
    "gcd": (
        "r = a[0]; s = a[1]; while (s > 0) { t = r % s; r = s; s = t; }",
        (("12 18", 6), ("17 5", 1)),
    ),
    "fibonacci": (
        "s = 1; while (i < a[0]) { t = r + s; r = s; s = t; i += 1; }",
        (("10", 55), ("50", 12586269025)),
    ),
    "factorial": ("r = 1; while (i < a[0]) { i += 1; r = r * i; }", (("5", 120), ("15", 1307674368000))),
    "power": (
        "r = 1; while (i < a[1]) { r = r * a[0] % 1000007; i += 1; }",
        (("2 10", 1024), ("3 1000", pow(3, 1000, 1000007))),
    ),
    "digits": (
        "s = a[0]; while (s > 0) { t = s % 10; r += t; s = (s - t) / 10; }",
        (("987", 24), ("1000000007", 8)),
    ),
    "primes": (
        "i = 2; while (i <= a[0]) { t = 1; j = 2; "
        "while (j * j <= i) { if (i % j == 0) { t = 0; } j += 1; } r += t; i += 1; }",
        (("10", 4), ("500", 95)),
    ),
    "collatz": (
        "s = a[0]; while (s > 1) { if (s % 2 == 0) { s = s / 2; } else { s = 3 * s + 1; } r += 1; }",
        (("6", 8), ("27", 111)),
    ),
    "inversions": (
        "while (i < n) { j = i + 1; while (j < n) { if (a[i] > a[j]) { r += 1; } j += 1; } i += 1; }",
        (("3 1 2", 2), ("5 4 3 2 1", 10)),
    ),
    "zeros": (
        "while (i < n) { if (a[i] == 0) { s += 1; if (s > r) { r = s; } } else { s = 0; } i += 1; }",
        (("0 1 0 0", 2), ("4", 0)),
    ),
    "millions": ("while (i < a[0]) { i += 1; r += i % 7; }", (("100000", 300000), ("7", 21))),
}
# Texts in place of a body's own: a right program of one test, and programs that are wrong in each language.
WRONG_BODIES = {
    "one too many": ("sum", "while (i < n) { r += a[i]; i += 1; } r += 1;"),
    "one too few": ("sum", "while (i < n - 1) { r += a[i]; i += 1; }"),
    "a constant": ("sum", "r = 6;"),
    "nothing": ("sum", ""),
    "another task": ("sum", "r = n;"),
    "sign": ("minimum", "r = 0; while (i < n) { if (a[i] < r) { r = a[i]; } i += 1; }"),
    "endless": ("sum", "s = 1; while (s > 0) { s = s * 3 % 1000003; r = s + r % 7; }"),
    "slow": (
        "count",
        "s = 1; while (i < 2000000000) { i += 1; s = s * 3 % 1000003; } r = n; if (s == 0) { r = 0; }",
    ),
}


def _braces(body: str) -> str:
    return body


def _go(body: str) -> str:
    return (
        body.replace("while (", "for (").replace(";", "\n").replace("} ", "}\n").replace("}\nelse", "} else")
    )


def _rust(body: str) -> str:
    return re.sub(r"a\[([^]]*)\]", r"a[(\1) as usize]", body)


def _php(body: str) -> str:
    return re.sub(r"\b([arsijtn])\b", r"$\1", body)


def _words(body: str, opened: dict[str, str], line: Callable[[str], str]) -> str:
    """Return a body with words in place of braces: `opened` has the text around each condition."""
    written, ends = [], []
    for piece in re.findall(r"(?:while|if) \(.*?\) \{|\} else \{|\}|[^;{}]+;", body):
        word = piece.split(" ", 1)[0]
        if word in opened:
            before, after, end = opened[word].split("|")
            written.append(before + piece[len(word) + 2 : -3] + after)
            ends.append(end)
        elif piece == "} else {":
            written.append("else")
        else:
            written.append(ends.pop() if piece == "}" else line(piece.strip(" ;")))
    return "\n".join(written)


def _ruby(body: str) -> str:
    return _words(body, {"while": "while |  |end", "if": "if |  |end"}, str)


def _bash(body: str) -> str:
    return _words(
        body,
        {"while": "while (( | )); do|done", "if": "if (( | )); then|fi"},
        lambda text: f"(( {text} )) || true",
    )


# Each language: its translator, and a program around BODY.
WHOLE: dict[str, tuple[Callable[[str], str], str]] = {
    "bash": (_bash, 'read -ra a\nn=${#a[@]} r=0 s=0 i=0 j=0 t=0\nBODY\necho "$r"\n'),
    "cpp": (
        _braces,
        "#include <bits/stdc++.h>\nusing namespace std;\nint main() {\n"
        "vector<long long> a; long long r = 0, s = 0, i = 0, j = 0, t = 0;\n"
        "while (cin >> t) a.push_back(t);\nt = 0; long long n = a.size(); (void)n; (void)j; (void)s;\n"
        "BODY\ncout << r << endl;\n}\n",
    ),
    "go": (
        _go,
        'package main\nimport ("fmt"; "os"; "bufio"; "syscall"; "os/exec"; "time")\n'
        "var _ = syscall.Getpid\nvar _ = exec.Command\nvar _ = time.Now\nvar _ = os.Exit\n"
        "func main() {\nvar a []int\nn, r, s, i, j, t := 0, 0, 0, 0, 0, 0\nin := bufio.NewReader(os.Stdin)\n"
        "for {\nif _, err := fmt.Fscan(in, &t); err != nil { break }\na = append(a, t)\n}\n"
        "n = len(a); t = 0; _, _, _, _, _ = n, s, i, j, t\nBODY\nfmt.Println(r)\n}\n",
    ),
    "java": (
        _braces,
        "import java.util.*;\npublic class Main {\npublic static void main(String[] v) throws Exception {\n"
        'Scanner in = new Scanner(System.in); long[] a = Arrays.stream(in.nextLine().split(" "))'
        ".mapToLong(Long::parseLong).toArray();\nlong r = 0, s = 0, t = 0; int n = a.length, i = 0, j = 0;\n"
        "BODY\nSystem.out.println(r);\n}\n}\n",
    ),
    "nodejs": (
        _braces,
        "const a = require('fs').readFileSync(0, 'utf8').trim().split(' ').map(Number);\n"
        "let n = a.length, r = 0, s = 0, i = 0, j = 0, t = 0;\nBODY\nconsole.log(String(r));\n",
    ),
    "php": (
        _php,
        "<?php\n$a = array_map('intval', explode(' ', trim(fgets(STDIN))));\n"
        '$n = count($a); $r = $s = $i = $j = $t = 0;\nBODY\necho $r, "\\n";\n',
    ),
    "ruby": (_ruby, "a = gets.split.map(&:to_i)\nn = a.size\nr = s = i = j = t = 0\nBODY\nputs r\n"),
    "rust": (
        _rust,
        "#![allow(unused, unused_parens)]\nuse std::io::{Read, Write};\nfn main() {\n"
        "let mut text = String::new(); std::io::stdin().read_to_string(&mut text).unwrap();\n"
        "let a: Vec<i64> = text.split_whitespace().map(|w| w.parse().unwrap()).collect();\n"
        "let n = a.len() as i64; let (mut r, mut s, mut i, mut j, mut t) = (0i64, 0i64, 0i64, 0i64, 0i64);\n"
        'BODY\nprintln!("{}", r);\n}\n',
    ),
    "typescript": (
        _braces,
        "import * as fs from 'fs';\n"
        "const a: number[] = fs.readFileSync(0, 'utf8').trim().split(' ').map(Number);\n"
        "let n: number = a.length, r = 0, s = 0, i = 0, j = 0, t = 0;\nBODY\nconsole.log(String(r));\n",
    ),
}
_NODE = {
    "exits early": "process.exit(0);",
    "crashes": "throw new Error('wrong');",
    "kills itself": "process.kill(process.pid, 'SIGKILL'); while (true) {}",
    "takes memory": "const all = []; while (true) all.push(Buffer.alloc(1 << 24, 1));",
    "floods its output": "while (true) require('fs').writeSync(1, 'x'.repeat(1 << 20));",
    "starts processes": "while (true) require('child_process').spawn('sleep', ['60']);",
    "sleeps": "require('child_process').execSync('sleep 100');",
    "kills others": "try { process.kill(-1, 'SIGKILL'); } catch (e) {} process.exit(1);",
    "looks for the tests": "require('child_process').execSync("
    "'cat /work/*/* /tmp/* /proc/1/environ 2>&1 || true', {stdio: 'inherit'}); process.exit(0);",
}
# Statements that take the place of the body. Each program must fail the tests of `sum`.
WRONG_STATEMENTS: dict[str, dict[str, str]] = {
    "bash": {
        "exits early": "exit 0",
        "crashes": "exit 3",
        "kills itself": "kill -9 $$",
        "takes memory": 'x=xxxxxxxx; while true; do x="$x$x"; done',
        "floods its output": "yes",
        "starts processes": "f() { f | f & }; f; while true; do f; done",
        "sleeps": "sleep 100",
        "kills others": "kill -9 -1; exit 1",
        "looks for the tests": "cat /work/*/* /tmp/* /proc/1/environ; exit 0",
    },
    "cpp": {
        "exits early": "exit(0);",
        "crashes": "throw 1;",
        "kills itself": "raise(9);",
        "takes memory": "while (true) { char *p = (char *)malloc(1 << 24); if (p) memset(p, 1, 1 << 24); }",
        "floods its output": 'while (true) puts("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");',
        "starts processes": "while (true) fork();",
        "sleeps": "sleep(100);",
        "kills others": "kill(-1, 9); exit(1);",
        "looks for the tests": 'system("cat /work/*/* /tmp/* /proc/1/environ"); exit(0);',
    },
    "go": {
        "exits early": "os.Exit(0)",
        "crashes": 'panic("wrong")',
        "kills itself": "syscall.Kill(os.Getpid(), 9); for {}",
        "takes memory": "var all [][]byte\nfor { b := make([]byte, 1<<24); for k := range b { b[k] = 1 }; "
        "all = append(all, b) }",
        "floods its output": 'for { fmt.Println("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx") }',
        "starts processes": 'for { exec.Command("sleep", "60").Start() }',
        "sleeps": "time.Sleep(100 * time.Second)",
        "kills others": "syscall.Kill(-1, 9); os.Exit(1)",
        "looks for the tests": 'b, _ := exec.Command("sh", "-c", "cat /work/*/* /proc/1/environ").Output(); '
        "os.Stdout.Write(b); os.Exit(0)",
    },
    "java": {
        "exits early": "System.exit(0);",
        "crashes": 'if (true) throw new RuntimeException("wrong");',
        "kills itself": 'String me = "" + ProcessHandle.current().pid(); '
        'new ProcessBuilder("kill", "-9", me).start().waitFor(); while (n > 0) {}',
        "takes memory": "List<byte[]> all = new ArrayList<>(); while (n > 0) all.add(new byte[1 << 24]);",
        "floods its output": 'while (n > 0) System.out.println("xxxxxxxxxxxxxxxxxxxxxxxxxxxxx");',
        "starts processes": 'while (n > 0) new ProcessBuilder("sleep", "60").start();',
        "sleeps": "Thread.sleep(100000);",
        "kills others": 'new ProcessBuilder("kill", "-9", "-1").start().waitFor(); System.exit(1);',
        "looks for the tests": 'new ProcessBuilder("sh", "-c", "cat /work/*/* /tmp/* /proc/1/environ")'
        ".inheritIO().start().waitFor(); System.exit(0);",
    },
    "nodejs": _NODE,
    "typescript": _NODE,
    "php": {
        "exits early": "exit(0);",
        "crashes": 'throw new Exception("wrong");',
        "kills itself": 'exec("kill -9 " . getmypid()); while (true) {}',
        "takes memory": "ini_set('memory_limit', '-1'); $all = []; "
        "while (true) $all[] = str_repeat('x', 1 << 24);",
        "floods its output": "while (true) echo str_repeat('x', 1 << 20);",
        "starts processes": "while (true) exec('sleep 60 > /dev/null 2>&1 &');",
        "sleeps": "sleep(100);",
        "kills others": "exec('kill -9 -1'); exit(1);",
        "looks for the tests": "passthru('cat /work/*/* /tmp/* /proc/1/environ'); exit(0);",
    },
    "ruby": {
        "exits early": "exit 0",
        "crashes": "raise 'wrong'",
        "kills itself": "Process.kill 9, $$",
        "takes memory": "all = []\nwhile true do all << 'x' * (1 << 24) end",
        "floods its output": "while true do puts 'x' * (1 << 20) end",
        "starts processes": "while true do fork end",
        "sleeps": "sleep 100",
        "kills others": "Process.kill 9, -1\nexit 1",
        "looks for the tests": "system('cat /work/*/* /tmp/* /proc/1/environ')\nexit 0",
    },
    "rust": {
        "exits early": "std::process::exit(0);",
        "crashes": 'panic!("wrong");',
        "kills itself": "let me = std::process::id().to_string(); "
        'std::process::Command::new("kill").arg("-9").arg(me).status(); loop {}',
        "takes memory": "let mut all = Vec::new(); loop { all.push(vec![1u8; 1 << 24]); }",
        "floods its output": "loop { std::io::stdout().write_all(&[120u8; 1 << 16]); }",
        "starts processes": 'loop { std::process::Command::new("sleep").arg("60").spawn(); }',
        "sleeps": "std::thread::sleep(std::time::Duration::from_secs(100));",
        "kills others": 'std::process::Command::new("kill").args(["-9", "-1"]).status(); '
        "std::process::exit(1);",
        "looks for the tests": 'std::process::Command::new("sh").args(["-c", '
        '"cat /work/*/* /tmp/* /proc/1/environ"]).status(); std::process::exit(0);',
    },
}
# Text that no compiler and no interpreter accepts.
NONSENSE = "<?php ((( ' \" { ` end while (( nothing"
# A right program that ends with an error or prints more than its result, in place of its last line.
LAST_LINES: dict[str, tuple[str, str]] = {
    "bash": ('echo "$r"', 'echo "$r"; exit 1'),
    "cpp": ("endl;", "endl; return 1;"),
    "go": ("Println(r)", "Println(r); os.Exit(1)"),
    "java": ("println(r);", "println(r); System.exit(1);"),
    "nodejs": ("log(String(r));", "log(String(r)); process.exitCode = 1;"),
    "php": ('echo $r, "\\n";', 'echo $r, "\\n"; exit(1);'),
    "ruby": ("puts r", "puts r\nexit 1"),
    "rust": ('println!("{}", r);', 'println!("{}", r); std::process::exit(1);'),
    "typescript": ("log(String(r));", "log(String(r)); process.exitCode = 1;"),
}


def write_program(language: str, body: str) -> str:
    """Return a program in a language that prints `r` after a body."""
    translate, whole = WHOLE[language]
    return whole.replace("BODY", translate(body))


def list_right(language: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return right programs as name, program and tests."""
    return [
        (task, write_program(language, body), [(f"{given}\n", f"{result}\n") for given, result in tests])
        for task, (body, tests) in TASKS.items()
    ]


def list_wrong(language: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return programs that must fail as name, program and tests."""
    tests = {name: programs for name, _, programs in list_right(language)}
    whole = WHOLE[language][1]
    right = write_program(language, TASKS["sum"][0])
    line, changed = LAST_LINES[language]
    rows = [(name, write_program(language, body), tests[task]) for name, (task, body) in WRONG_BODIES.items()]
    rows += [
        (name, whole.replace("BODY", statement), tests["sum"])
        for name, statement in WRONG_STATEMENTS[language].items()
    ]
    rows.append(("does not compile", NONSENSE, tests["sum"]))
    rows.append(("is empty", "", tests["sum"]))
    rows.append(("ends with an error", right.replace(line, changed), tests["sum"]))
    return rows
