"""Try the audit's attacks on graders of other projects and on ours: `make calibrate`.

The packages come from PyPI, and run in sandboxes only. The results are stored, so that an interrupted
calibration continues where it stopped, and tries again only the attacks and graders that have changed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

import typer
from graders import OUR_NAMES, SECONDS, Grade, Grader, our_graders, peer_grader, solves
from page import as_section, as_text, rewrite, tables
from peers import PeerUnavailableError, known_peers, packed
from results import Outcome, Result, Store
from tasks import OWN_ON_CALLS, OWN_ON_STDIN, CalibrationTask, public_tasks

from harness.audit.attack import Kind
from harness.audit.attack_kinds import ProgramAttack
from harness.audit.suite import list_attacks, list_attacks_on
from harness.sandbox.backends.docker.backend import DockerBackend
from harness.sandbox.backends.docker.engine import connect
from harness.sandbox.backends.docker.images import require_image

WRONG = "def {function}(*arguments):\n    return -987654321\n"
WRONG_ON_STDIN = "print(-987654321)\n"
SHARED = Path(os.environ.get("HARNESS_SHARED_DATA", "../shared/data"))
FOLDER = Path(".calibration")
# The exit codes if one of our graders was forged, and if a grader of another project could not be tried.
FORGED, UNAVAILABLE = 1, 3


@dataclass(frozen=True, slots=True)
class Trial:
    """One attack on one grader, with the tasks that fit both."""

    grader: Grader
    attack: ProgramAttack
    on_stdin: bool
    tasks: tuple[CalibrationTask, ...]

    def key(self, task: CalibrationTask) -> str:
        """Return a digest of everything on which the outcome on this task depends."""
        programs = self.attack.write_programs(task.as_task())
        parts = [self.grader.name, self.grader.identity, repr(task), str(SECONDS), *programs]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def main(
    peers: Annotated[
        list[str] | None, typer.Option("--peer", help="A grader to try; repeat the option for more.")
    ] = None,
    attacks: Annotated[
        list[str] | None, typer.Option("--attack", help="An attack to make; repeat the option for more.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--task", help="A task to attack; repeat the option for more.")
    ] = None,
    public: Annotated[
        int, typer.Option(min=0, help="The number of tasks of HumanEval, and of MBPP, besides our own.")
    ] = 1,
    data: Annotated[Path, typer.Option(help="Folder with humaneval/ and mbpp/.")] = SHARED,
    code_eval: Annotated[
        Path | None,
        typer.Option(help="Folder with code_eval.py and execute.py of Hugging Face's `evaluate`."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Attacks at the same time.")] = 2,
    folder: Annotated[Path, typer.Option(help="The folder for packages and results.")] = FOLDER,
    fresh: Annotated[bool, typer.Option("--fresh", help="Try everything again.")] = False,
    kept_only: Annotated[
        bool, typer.Option("--kept", help="Try nothing, and show the stored results.")
    ] = False,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the results as JSON.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="A page of Markdown. The part between its marks is replaced.")
    ] = None,
) -> None:
    """Try the audit's attacks on graders of other projects, in sandboxes, and on ours."""
    path = folder / "results.jsonl"
    if fresh:
        path.unlink(missing_ok=True)
    store = Store(path)
    graders, missing = _graders(peers, code_eval, folder / "wheels")
    every = (*OWN_ON_CALLS, *OWN_ON_STDIN, *public_tasks(data, public))
    tasks = [task for task in every if not only or task.name in only]
    trials = [trial for grader in graders for trial in _trials(grader, tasks, attacks or [])]
    unfit: list[str] = []
    if not kept_only:
        unfit = asyncio.run(_calibrate(trials, tasks, store, workers))
    results = [result for trial in trials if (result := _known(trial, store)) is not None]
    names = [grader.name for grader in graders]
    _print_tables(results, names)
    missing += [f"{each}: its controls failed" for each in unfit]
    for line in missing:
        print(f"not tried: {line}")
    if json_path is not None:
        content = {
            "graders": {grader.name: grader.version for grader in graders},
            "tasks": [task.name for task in tasks],
            "not_tried": missing,
            "results": [{**asdict(result), "outcome": result.outcome} for result in results],
        }
        json_path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if page is not None:
        rewrite(page, _shown(graders, tasks, results, names))
    if any(each.outcome is Outcome.FORGED and each.grader in OUR_NAMES for each in results):
        raise typer.Exit(FORGED)
    if missing:
        raise typer.Exit(UNAVAILABLE)


def _graders(
    names: Sequence[str] | None, code_eval: Path | None, wheels: Path
) -> tuple[list[Grader], list[str]]:
    """Return the graders with these names, by default all, and a line for each that is not available."""
    peers = known_peers(code_eval)
    ours = our_graders(_digest_of_package())
    known = [*(peer.name for peer in peers), *OUR_NAMES]
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise typer.BadParameter(f"no grader is called {', '.join(unknown)}; there are {', '.join(known)}")
    graders, missing = [], []
    for peer in peers:
        if names and peer.name not in names:
            continue
        try:
            package = packed(peer, wheels)
        except PeerUnavailableError as error:
            missing.append(f"{peer.name}: {error}")
            continue
        graders.append(peer_grader(peer, package, hashlib.sha256(package).hexdigest()))
    return graders + [each for each in ours if not names or each.name in names], missing


def _digest_of_package() -> str:
    """Return a digest of our source, on which the verdicts of ours depend."""
    root = Path(__file__).resolve().parents[2] / "harness"
    digest = hashlib.sha256()
    for part in ("grading", "sandbox"):
        for path in sorted((root / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


async def _calibrate(
    trials: Sequence[Trial], tasks: Sequence[CalibrationTask], store: Store, workers: int
) -> list[str]:
    """Make each trial that is not in the store, and return a line for each control that failed."""
    untried = {trial.grader.name: trial.grader for trial in trials if _known(trial, store) is None}
    client = connect()
    try:
        require_image(client, "python")
        backend = DockerBackend(client)
        gate = asyncio.Semaphore(workers)
        failed = await asyncio.gather(
            *(_failed_controls(backend, grader, tasks, gate) for grader in untried.values())
        )
        unsound = {name for name, lines in zip(untried, failed, strict=True) if lines}
        # The costly attacks come last.
        ordered = sorted(trials, key=lambda trial: trial.attack.kind is Kind.EXHAUSTING)
        await asyncio.gather(
            *(_tried(backend, trial, store, gate) for trial in ordered if trial.grader.name not in unsound)
        )
    finally:
        client.close()
    return [line for lines in failed for line in lines]


def _trials(grader: Grader, tasks: Sequence[CalibrationTask], names: Sequence[str]) -> list[Trial]:
    trials = []
    for target, stdin in (("ProgramTests", False), ("StdinTests", True)):
        fitting = tuple(task for task in tasks if (task.function is None) is stdin and grader.fits(task))
        # An attack that exhausts resources does so on any task, and takes the whole time limit each time.
        trials += [
            Trial(grader, attack, stdin, fitting[:1] if attack.kind is Kind.EXHAUSTING else fitting)
            for attack in list_attacks_on(target)
            if fitting and isinstance(attack, ProgramAttack) and (not names or attack.name in names)
        ]
    return trials


async def _failed_controls(
    backend: DockerBackend, grader: Grader, tasks: Sequence[CalibrationTask], gate: asyncio.Semaphore
) -> list[str]:
    """Return a line for each task for which the grader fails a right program or passes a wrong one."""
    failed = []
    async with gate, grader.open(backend) as grade:
        for task in filter(grader.fits, tasks):
            wrong = WRONG_ON_STDIN if task.function is None else WRONG.format(function=task.function)
            verdicts = await grade(task, [task.right, wrong, ""])
            if verdicts != [True, False, False]:
                failed.append(f"{grader.name} on {task.name} ({verdicts})")
    return failed


def _known(trial: Trial, store: Store) -> Result | None:
    """Return the result of a trial, up to the first forged task, or None if the store lacks a part of it."""
    outcomes: dict[str, Outcome] = {}
    for task in trial.tasks:
        outcome = store.get(trial.key(task))
        if outcome is None:
            return None
        outcomes[task.name] = outcome
        if outcome is Outcome.FORGED:
            break
    return _result(trial, outcomes)


def _result(trial: Trial, outcomes: dict[str, Outcome]) -> Result:
    return Result(trial.grader.name, trial.attack.name, trial.attack.kind, trial.on_stdin, outcomes)


async def _tried(backend: DockerBackend, trial: Trial, store: Store, gate: asyncio.Semaphore) -> Result:
    """Return the result of a trial. Tasks whose outcome is in the store are not tried again."""
    known = _known(trial, store)
    if known is not None:
        return known
    outcomes: dict[str, Outcome] = {}
    async with gate, trial.grader.open(backend) as grade:
        for task in trial.tasks:
            key, started = trial.key(task), time.monotonic()
            outcome = store.get(key)
            if outcome is None:
                outcome = await _outcome(backend, grade, task, trial.attack)
                facts = {"grader": trial.grader.name, "attack": trial.attack.name, "task": task.name}
                store.add(key, outcome, **facts, seconds=round(time.monotonic() - started, 1))
            outcomes[task.name] = outcome
            if outcome is Outcome.FORGED:
                break
    result = _result(trial, outcomes)
    print(f"{result.outcome:6}  {result.grader:14}  {result.attack}", file=sys.stderr)
    return result


async def _outcome(
    backend: DockerBackend, grade: Grade, task: CalibrationTask, attack: ProgramAttack
) -> Outcome:
    """Return the outcome of all samples of an attack on a task, submitted one after the other.

    The right program comes first, as if another user had submitted it, because some attacks look for its
    answers.
    """
    programs = attack.write_programs(task.as_task())
    verdicts = await grade(task, [task.right, *programs])
    lost = verdicts is None
    if verdicts is None and len(programs) > 1:
        # One sample ended the run of all, and another one may forge, so each is tried alone.
        each = [await grade(task, [program]) for program in programs]
        verdicts = [False, *(bool(verdict and verdict[0]) for verdict in each)]
    for program, passed in zip(programs, (verdicts or [False])[1:], strict=False):
        if passed and not await solves(backend, task, program):
            return Outcome.FORGED
    return Outcome.LOST if lost else Outcome.HELD


def _print_tables(results: Sequence[Result], graders: Sequence[str]) -> None:
    for table in tables(results, graders):
        print(f"\n{table.title}: forged/tried\n{as_text(table.by_class())}")


def _shown(
    graders: Sequence[Grader],
    tasks: Sequence[CalibrationTask],
    results: Sequence[Result],
    names: Sequence[str],
) -> str:
    """Return the tables as Markdown, with the date and the versions."""
    versions = ", ".join(f"{grader.name} {grader.version}" for grader in graders if grader.version)
    return as_section(
        tables(results, names),
        head=f"Measured on {date.today()} with {versions}, on the tasks {', '.join(t.name for t in tasks)}.",
        ours=[grader.name for grader in graders if not grader.version],
        descriptions={attack.name: attack.description for attack in list_attacks()},
    )


if __name__ == "__main__":
    typer.run(main)
