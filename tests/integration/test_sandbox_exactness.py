"""Tests of a program in another process have the same results as tests in the program's process."""

from __future__ import annotations

import ast
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import pytest_asyncio
from case_checks import each_case

from harness import Sandbox
from harness.environments.python.client import TestReport, run_tests
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.limits import Limits

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

# Run each case in a process that program and tests share, as in every other grader.
IN_ONE_PROCESS = """
import json, os, sys
def outcome(program, statements):
    namespace = vars(sys.modules.setdefault("candidate", type(sys)("candidate")))
    exec(compile(program, "candidate.py", "exec"), namespace)
    results = []
    for statement in statements:
        try:
            exec(compile(statement, "tests.py", "exec"), namespace)
            results.append(True)
        except BaseException:
            results.append(False)
    return results
answers = []
for program, statements in json.load(sys.stdin):
    read, write = os.pipe()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os.write(write, json.dumps(outcome(program, statements)).encode())
        os._exit(0)
    os.close(write)
    os.wait()
    answers.append(json.loads(os.read(read, 10000) or "null"))
    os.close(read)
print(json.dumps(answers))
"""

# Programs, each followed by its cases: a title behind "##", then tests, which "--" separates.

# Arguments that a call changes in place.

CHANGES = """
from collections import Counter, OrderedDict, defaultdict, deque
def change(x):
    if isinstance(x, list): x.append(9); x[0] = 'new'
    elif isinstance(x, dict): x['new'] = 9; x.pop('old', None)
    elif isinstance(x, set): x.add(9); x.discard(1)
    elif isinstance(x, bytearray): x += b'new'
    elif isinstance(x, deque): x.rotate(1); x.append(9)
def change_inside(x):
    x[0][1]['deep'].append(9)
def clear(x): x.clear()
def same(x): return x
def first(x): return x[0]
def pair(x): return x, [x, x]
def swap(a, b): a[:], b[:] = list(b), list(a)
def link(a, b): a.append(b)
def loop(a): a.append(a)
def put(x, value): x[0] = value
def is_one(a, b): return a is b
def fail_late(x): x.append(9); raise ValueError('late')
def replace(x): x = [9]; return x
def sort(x): x.sort(); return None
def reorder(x): x['first'] = x.pop('first')
def keyword(*, x): x.append(9)
def many(*args): [arg.append(9) for arg in args]
def inside_tuple(x): x[0].append(9)
kept = []
def keep(x): kept.append(x)
def change_kept(): kept[0].append(9)
def change_later(x):
    x.append(9)
    yield
def counter_of(x): return lambda: len(x)
def lend(change): x = [1]; change(x); return x
def lend_in_vain(change):
    x = {}
    try: change(x)
    except Exception as error: return x, type(error).__name__
"""
CHANGES_CASES = r"""
## argument that is kept and changed by a later call
x = [1]
keep(x)
change_kept()
assert x == [1, 9]
## argument that a generator changes
x = [1]
list(change_later(x))
assert x == [1, 9]
## argument that the tests change after the call
x = [1]
count = counter_of(x)
x.append(2)
assert count() == 2
## argument that a function of the tests' changes
assert lend(lambda x: x.append(2)) == [1, 2]
## dictionary that a function of the tests' changes and then fails
def fill(x): x[1] = 2; x[3]
assert lend_in_vain(fill) == ({1: 2}, 'KeyError')
## change of a list
x = [1, 2]
assert change(x) is None
assert x == ['new', 2, 9]
## change of a dictionary
x = {'old': 1}
assert change(x) is None
assert x == {'new': 9}
## change of a set
x = {1, 2}
assert change(x) is None
assert x == {2, 9}
## change of a bytearray
x = bytearray(b'a')
assert change(x) is None
assert x == bytearray(b'anew')
## change of a deque
from collections import deque
x = deque([1, 2, 3], 3)
change(x)
assert list(x) == [1, 2, 9] and x.maxlen == 3
## change of special dictionaries
from collections import *
for x in (OrderedDict(old=1), Counter(old=1), defaultdict(int, old=1)):
    kind = type(x)
    change(x)
    assert x == {'new': 9} and type(x) is kind
--
from collections import *
d = defaultdict(int)
change(d)
assert d['missing'] == 0
## change far inside
x = [[0, {'deep': [1]}]]
inner = x[0][1]['deep']
change_inside(x)
assert inner == [1, 9]
## change inside a tuple
x = ([1],)
inside_tuple(x)
assert x == ([1, 9],)
## clearing
x, y = [1], {1: 2}
clear(x); clear(y)
assert (x, y) == ([], {})
## order of keys
x = {'first': 1, 'second': 2}
reorder(x)
assert list(x) == ['second', 'first']
## sorting in place
x = [3, 1, 2]
assert sort(x) is None and x == [1, 2, 3]
## assigning to the name alone
x = [1]
assert replace(x) == [9] and x == [1]
## change by keyword
x = [1]
keyword(x=x)
assert x == [1, 9]
## change of several
x, y = [1], [2]
many(x, y)
assert (x, y) == ([1, 9], [2, 9])
## change of one given twice
x = [1]
many(x, x)
assert x == [1, 9, 9]
## change before an exception
x = [1]
try: fail_late(x)
except ValueError: pass
assert x == [1, 9]
## result that is an argument
x = [1]
assert same(x) is x
## result that is inside an argument
x = [[1]]
assert first(x) is x[0]
## result that holds an argument
x = [1]
a, (b, c) = pair(x)
assert a is b is c is x
## arguments that are one object
x = [1]
assert is_one(x, x) and not is_one([1], [1])
## arguments that change places
a, b = [1], [2, 3]
swap(a, b)
assert (a, b) == ([2, 3], [1])
## argument put into another
a, b = [1], [2]
link(a, b)
b.append(3)
assert a == [1, [2, 3]]
## argument put into itself
a = [1]
loop(a)
assert a[1] is a
## argument that refers to itself
a = [1]
a.append(a)
put(a, 5)
assert a[0] == 5 and a[1] is a
## changed text keeps no link
x = 'abc'
assert same(x) == 'abc'
"""

# Exceptions of a call.

EXCEPTIONS = """
import builtins
class Plain(Exception): pass
class Deep(Plain): pass
class WithText(ValueError):
    def __init__(self, number):
        self.number = number
    def __str__(self):
        return f'number {self.number}'
class WithArgs(Exception):
    def __init__(self, a, b):
        super().__init__(f'{a} and {b}')
class WithObject(Exception): pass
def fail(kind, *args):
    own = {'Plain': Plain, 'Deep': Deep, 'WithText': WithText, 'WithArgs': WithArgs}
    raise (own.get(kind) or getattr(builtins, kind))(*args)
def divide(a, b): return a / b
def item(x, k): return x[k]
def with_object(): raise WithObject(object())
def leave(code): raise SystemExit(code)
def chain():
    try: 1 / 0
    except ZeroDivisionError as error: raise ValueError('outer') from error
"""
EXCEPTIONS_CASES = r"""
## built-in type and message
try: fail('ValueError', 'm', 3)
except ValueError as e: assert type(e) is ValueError and e.args == ('m', 3)
else: assert False
## text of a missing key
try: item({}, 'k')
except KeyError as e: assert str(e) == "'k'" and e.args == ('k',)
else: assert False
## family of lookups
for x in ({}, []):
    try: item(x, 5)
    except LookupError: pass
    else: assert False
## division
try: divide(1, 0)
except ZeroDivisionError as e: assert str(e) == 'division by zero'
else: assert False
## class of its own
try: fail('Plain', 1, 'two')
except Plain as e: assert e.args == (1, 'two') and type(e).__name__ == 'Plain'
else: assert False
## class of its own as its base
try: fail('Deep', 1)
except Plain as e: assert type(e).__name__ == 'Deep'
else: assert False
## class of its own as Exception
try: fail('Plain')
except Exception as e: assert not e.args
else: assert False
## message of its own making
try: fail('WithArgs', 1, 2)
except Exception as e: assert str(e) == '1 and 2'
else: assert False
## text of its own making
try: fail('WithText', 5)
except ValueError as e: assert str(e) == 'number 5'
else: assert False
## argument that is not plain data
try: with_object()
except Exception as e: assert type(e).__name__ == 'WithObject'
else: assert False
## error number
try: fail('OSError', 2, 'gone')
except FileNotFoundError as e: assert (e.errno, e.strerror) == (2, 'gone')
else: assert False
## decoding error
try: fail('UnicodeDecodeError', 'utf-8', b'\xff', 0, 1, 'bad')
except UnicodeDecodeError as e: assert e.object == b'\xff' and e.end == 1
else: assert False
## end of iteration
try: fail('StopIteration', 3)
except StopIteration as e: assert e.value == 3
else: assert False
## end of the program
try: leave(3)
except SystemExit as e: assert e.code == 3
else: assert False
## wrong arguments
try: divide(1)
except TypeError as e: assert 'missing 1 required positional argument' in str(e)
else: assert False
## second one from the first
try: chain()
except ValueError as e: assert str(e) == 'outer'
else: assert False
## none after one that was caught
try: divide(1, 0)
except ZeroDivisionError: pass
--
assert divide(4, 2) == 2.0
## with unittest
import unittest
with unittest.TestCase().assertRaises(ValueError): fail('ValueError')
"""

# Iterators and generators.

ITERATORS = """
import itertools
log = []
def count(n):
    for number in range(n):
        log.append(number)
        yield number
def logged(): return list(log)
def naturals(): return itertools.count()
def squares(x): return map(lambda v: v * v, x)
def returning():
    yield 1
    return 'end'
def failing():
    yield 1
    raise ValueError('in the middle')
def delegating():
    result = yield from returning()
    yield result
def total(x): return sum(x)
def nested(): return [iter([1, 2]), iter([3])]
def expression(n): return (v for v in range(n) if v % 2)
class Bag:
    def __iter__(self): return iter([1, 2])
def bag(): return Bag()
"""
ITERATORS_CASES = r"""
## object that can be iterated
assert list(bag()) == [1, 2]
## generator runs as far as it is asked
g = count(5)
assert logged() == []
assert next(g) == 0 and next(g) == 1
assert logged() == [0, 1]
## generator as a list
assert list(count(3)) == [0, 1, 2]
--
assert tuple(count(0)) == ()
## generator that has ended
g = count(1)
assert list(g) == [0] and list(g) == []
try: next(g)
except StopIteration: pass
else: assert False
## next with a default
assert next(count(0), 'none') == 'none'
## iterator is its own iterator
g = count(2)
assert iter(g) is g
## endless iterator
import itertools
assert list(itertools.islice(naturals(), 3)) == [0, 1, 2]
## map
assert list(squares([1, 2])) == [1, 4] and not isinstance(squares([]), list)
## value of the end
g = returning()
next(g)
try: next(g)
except StopIteration as e: assert e.value == 'end'
## exception in the middle
g = failing()
assert next(g) == 1
try: next(g)
except ValueError as e: assert str(e) == 'in the middle'
else: assert False
## delegation
assert list(delegating()) == [1, 'end']
## iterator given back
assert total(count(4)) == 6
--
g = count(4)
next(g); next(g)
assert total(g) == 5
## iterators inside a list
a, b = nested()
assert list(a) == [1, 2] and list(b) == [3]
## truth of an iterator
assert count(0)
## iterators are compared by identity
g = count(1)
assert g == g and g != count(1)
## unpacking
a, *b = count(3)
assert (a, b) == (0, [1, 2])
--
assert [*expression(6)] == [1, 3, 5] and 3 in expression(6)
## zip and enumerate
assert list(zip(count(2), 'ab')) == [(0, 'a'), (1, 'b')] and dict(enumerate(count(2))) == {0: 0, 1: 1}
## iterator of the tests'
assert total(iter([1, 2])) == 3
## generator of the tests'
assert total(v for v in [1, 2]) == 3
"""

# State between calls, and ways to call functions.

STATE = """
import functools
def remember(x, seen=[]):
    seen.append(x)
    return list(seen)
calls = 0
def counted():
    global calls
    calls += 1
    return calls
@functools.lru_cache
def cached(x): return counted()
def default(a, b=2, *c, d=4, **e): return a, b, c, d, e
def make(n):
    def inner(x): return n + x
    return inner
def positional(a, b, /): return a - b
CONSTANT = 42
TABLE = {'a': [1, 2], (1, 2): {3}}
NOTHING = None
def table(): return TABLE
twice = lambda x: x * 2
"""
STATE_CASES = r"""
## default list grows
assert remember(1) == [1]
--
assert remember(2) == [1, 2]
## global counts
assert counted() == 1 and counted() == 2
## cache
assert cached(5) == cached(5) != cached(6)
## every kind of argument
assert default(1) == (1, 2, (), 4, {})
--
assert default(1, 3, 5, d=6, x=7) == (1, 3, (5,), 6, {'x': 7})
--
assert default(*[1], **{'b': 0}) == (1, 0, (), 4, {})
## arguments by position only
assert positional(3, 1) == 2
--
try: positional(a=3, b=1)
except TypeError: pass
else: assert False
## function that is returned
add = make(3)
assert add(4) == 7 and make(1)(1) == 2
## constants
assert CONSTANT == 42 and TABLE == {'a': [1, 2], (1, 2): {3}} and NOTHING is None
## lambda
assert twice(2) == 4 and callable(twice)
## table that is returned
assert table()['a'] == [1, 2]
## functions as values
assert [f(2) for f in (twice, make(1))] == [4, 3] and list(map(twice, [1, 2])) == [2, 4]
## function as a key of the tests'
assert sorted([1, 3, 2], key=twice, reverse=True) == [3, 2, 1]
"""

# The surroundings of a program.

INTERPRETER = """
import random, re, sys
ran = False
if __name__ == '__main__':
    ran = True
def name(): return __name__
def depth(n): return 0 if n == 0 else 1 + depth(n - 1)
def deeper(n):
    sys.setrecursionlimit(100_000)
    return depth(n)
def ask(): return input('? ')
def leave(): exit()
def leave_quietly(): quit(0)
def say(): print('said'); print('warned', file=sys.stderr); return True
def match(p, s): return re.match(p, s)
def write(): open('file', 'w').write('kept'); return open('file').read()
def temporary():
    import tempfile
    with tempfile.NamedTemporaryFile('w+') as file:
        file.write('x'); file.seek(0); return file.read()
def run():
    import subprocess
    return subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout
def thread():
    import threading
    found = []
    worker = threading.Thread(target=lambda: found.append(1)); worker.start(); worker.join()
    return found
def pool():
    import concurrent.futures
    with concurrent.futures.ThreadPoolExecutor(2) as executor: return list(executor.map(abs, [-1, -2]))
def process():
    import multiprocessing
    with multiprocessing.Pool(2) as workers: return workers.map(abs, [-1, -2])
def asynchronous():
    import asyncio
    async def work(): await asyncio.sleep(0); return 7
    return asyncio.run(work())
def seeded(): random.seed(5); return random.random()
def annotations(x: int) -> 'list[int]': return [x]
def star(): from math import floor; return floor(2.5)
def big(): return 10 ** 5000
"""
INTERPRETER_CASES = r"""
## main guard
assert name() != '__main__' and ran is False
## recursion
assert depth(900) == 900
## recursion without end
try: depth(-1)
except RecursionError: pass
else: assert False
## recursion with a limit of its own
assert deeper(20_000) == 20_000
## no input
try: ask()
except EOFError: pass
else: assert False
## exit
for f in (leave, leave_quietly):
    try: f()
    except SystemExit: pass
    else: assert False
--
assert name()
## prints
assert say() is True
## match
assert match('a+', 'aab') and not match('b', 'a')
--
assert match('a', 'a') is not None and match('b', 'a') is None
## files of its own
assert write() == 'kept'
## temporary files
assert temporary() == 'x'
## other programs
assert run() == 'hi\n'
## threads
assert thread() == [1] and pool() == [1, 2]
## processes
assert process() == [1, 2]
## asyncio
assert asynchronous() == 7
## seeded randomness
import random
assert seeded() == random.Random(5).random()
## import in a function
assert star() == 2
## large integer
assert big() == 10 ** 5000
## annotations
assert annotations(1) == [1]
"""

# Values that cross the boundary.

VALUES = """
import collections, datetime, decimal, enum, fractions, typing
class Colour(enum.IntEnum):
    RED = 1
Point = collections.namedtuple('Point', 'x y')
class Text(str): pass
def echo(x): return x
def point(): return Point(1, [2])
def colour(): return Colour.RED
def text(): return Text('t')
def types(x): return [type(v).__name__ for v in x]
def keys(x): return x.keys()
def items(x): return x.items()
def flags(): return [True, 1, 1.0]
def minus_zero(): return -0.0
def nan(): return float('nan')
def groups(x):
    found = collections.defaultdict(list)
    for v in x: found[len(v)].append(v)
    return found
def add_to(d, k): d[k] += 1; return d
def frozen(x): return frozenset(x)
def when(): return datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc)
def ratio(): return fractions.Fraction(1, 3)
def money(): return decimal.Decimal('1.10')
"""
VALUES_CASES = r"""
## types stay
names = 'int bool float complex str bytes NoneType list tuple dict set frozenset'
assert ' '.join(types([1, True, 1.0, 1j, '', b'', None, [], (), {}, set(), frozenset()])) == names
## booleans and numbers
assert [type(v) for v in flags()] == [bool, int, float]
## identity of singletons
assert echo(None) is None and echo(True) is True and echo(...) is ...
## signs of zero
import math
assert math.copysign(1, minus_zero()) == -1
## not a number
assert nan() != nan()
## views
assert keys({'a': 1}) == {'a'} and list(items({'a': 1})) == [('a', 1)] and keys({}) | {1} == {1}
## named tuple as a tuple
assert point() == (1, [2]) and point()[0] == 1
## enumeration as a number
assert colour() == 1
## text of its own class
assert text() == 't' and text() + 'x' == 'tx'
## grouping
assert groups(['a', 'b', 'cc']) == {1: ['a', 'b'], 2: ['cc']}
## missing keys of a default dictionary that is returned
assert groups([])[5] == []
## missing keys of a default dictionary that is passed
from collections import defaultdict
assert add_to(defaultdict(int), 'k') == {'k': 1}
## counter that is passed
from collections import Counter
assert add_to(Counter(), 'k') == {'k': 1}
## dates, fractions, decimals
import datetime, decimal, fractions
assert when() == datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc)
assert ratio() == fractions.Fraction(1, 3) and repr(money()) == "Decimal('1.10')"
## frozen sets
assert frozen([1, 1]) == {1} and {frozen([1]): 2}[frozenset([1])] == 2
## odd text
for v in ('\ud800', '\x00', '\U0001f600', 'x' * 100_000): assert echo(v) == v
## deep nesting
v = []
for _ in range(500): v = [v]
assert echo(v) == v
## many items
v = list(range(200_000))
assert echo(v) == v
## function of the tests'
def check(f):
    assert f(1) == 1
    assert f([1]) == [1], 'text'
check(echo)
## test without an assert
if echo(1) != 1: raise AssertionError
## chained comparison
assert 1 == echo(1) == 1 and 0 < echo(1) < 2 and not 1 != echo(1)
## names between tests
kept = echo(5)
--
assert kept == 5
## star import
from math import *
assert echo(pi) == pi
"""

# Known differences.
DIFFERENT = {
    "argument that is kept and changed by a later call": "gap: an argument lives for one call",
    "argument that a generator changes": "gap: an argument lives for one call",
    "argument that the tests change after the call": "gap: an argument lives for one call",
    "end of iteration": "on purpose: raised in a call, it would end a loop of the test's as if all were done",
}


class Case(NamedTuple):
    name: str
    program: str
    statements: list[str]


def cases(program: str, text: str) -> list[Case]:
    """Read the cases of one program."""
    found = []
    for part in text.split("\n## ")[1:]:
        name, _, tests = part.partition("\n")
        found.append(Case(name, program, tests.split("\n--\n")))
    return found


CASES = [
    *cases(CHANGES, CHANGES_CASES),
    *cases(EXCEPTIONS, EXCEPTIONS_CASES),
    *cases(ITERATORS, ITERATORS_CASES),
    *cases(STATE, STATE_CASES),
    *cases(INTERPRETER, INTERPRETER_CASES),
    *cases(VALUES, VALUES_CASES),
    Case("long expression in a test", VALUES, [f"x = {' + '.join('1' * 900)}\nassert echo(x) == 900"]),
    Case("long expression in an assert", VALUES, [f"assert echo(900) == {' + '.join('1' * 900)}"]),
    Case(
        "long chain of conditions in a test",
        VALUES,
        [
            "if x == -1: y = 0\n".join(
                ["x = echo(399)\n", "".join(f"elif x == {n}: y = {n}\n" for n in range(400))]
            )
        ],
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(backend: DockerBackend) -> AsyncIterator[Sandbox]:
    limits = Limits(cpu_seconds=5, wall_seconds=10)
    async with Sandbox.open("python", backend=backend, limits=limits, seccomp="strict") as sandbox:
        yield sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bool]]:
    """Return the results of every case in one process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        IN_ONE_PROCESS,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=tmp_path_factory.mktemp("one-process"),
    )
    order = json.dumps([(case.program, case.statements) for case in CASES]).encode()
    answers, _ = await process.communicate(order)
    return dict(zip([case.name for case in CASES], json.loads(answers), strict=True))


def defined(program: str) -> list[str]:
    """Return the names that a program defines at its top level."""
    names = []
    for node in ast.parse(program).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names


async def report_of(sandbox: Sandbox, program: str, statements: list[str]) -> TestReport:
    exports = {name: name for name in defined(program)}
    return await run_tests(sandbox, program=program, statements=statements, exports=exports)


@each_case("case", CASES, ids=lambda case: case.name)
async def test_a_case_passes_in_one_process(reference: dict[str, list[bool]], case: Case) -> None:
    assert reference[case.name] == [True] * len(case.statements)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=case.name,
            marks=pytest.mark.xfail(strict=True, raises=AssertionError, reason=DIFFERENT[case.name])
            if case.name in DIFFERENT
            else (),
        )
        for case in CASES
    ],
)
async def test_a_case_passes_across_the_boundary(sandbox: Sandbox, case: Case) -> None:
    report = await report_of(sandbox, case.program, case.statements)
    assert report.results == (True,) * len(case.statements), report.evidence


MODULES = """
abc array ast asyncio base64 bisect calendar cmath collections copy csv ctypes dataclasses datetime decimal
difflib enum fnmatch fractions functools glob gzip hashlib heapq html inspect ipaddress itertools json keyword
logging lzma math multiprocessing numbers operator pathlib pickle pprint queue random re secrets shutil signal
sqlite3 statistics string struct subprocess tempfile textwrap threading time tokenize traceback types typing
unicodedata unittest uuid weakref xml zipfile zlib zoneinfo
"""


async def test_the_standard_library_is_available(sandbox: Sandbox) -> None:
    modules = MODULES.split()
    program = "def load(name): __import__(name)\n"
    report = await report_of(sandbox, program, [f"load({module!r})" for module in modules])
    assert [module for module, loaded in zip(modules, report.results, strict=True) if not loaded] == []
