"""The result of an audit of the relay as text for a terminal or a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from harness.reports.console import cell, grid, open_console, print_heading, print_line, print_section, write
from harness.reports.figures import count

if TYPE_CHECKING:
    from harness.audit.relay.run import RelayAudit

_GOOD, _BAD = "green", "bold red"


def print_relay_audit(audit: RelayAudit, *, stream: TextIO) -> None:
    """Print the outcome of each attack, each broken rule, and a conclusion."""
    console = open_console(stream)
    table = grid("attack", ">broken rules", ">let through", ">neighbour", ">memory", ">time")
    for outcome in audit.outcomes:
        table.add_row(
            cell(outcome.attack),
            cell(f"{len(outcome.broken):,}"),
            cell(f"{outcome.requests:,}"),
            cell(f"{outcome.neighbour_seconds:.2f} s"),
            cell(f"{outcome.memory_mib:+.0f} MiB"),
            cell(f"{outcome.seconds:.1f} s"),
            style=_BAD if outcome.broken else "",
        )
    with console.capture() as capture:
        print_heading(console, "relay - audit", bundled=False)
        print_section(console, table)
        console.print()
        for outcome in audit.outcomes:
            for sentence in outcome.broken:
                print_line(console, f"{outcome.attack}: {sentence}", _BAD)
        print_line(
            console,
            f"The slowest request of a neighbour took {audit.undisturbed_seconds:.2f} s without an attack.",
        )
        print_line(console, conclude(audit), _GOOD if audit.sound else _BAD)
    write(capture.get(), stream)


def conclude(audit: RelayAudit) -> str:
    """Return the line that concludes an audit of the relay."""
    broken = sum(bool(outcome.broken) for outcome in audit.outcomes)
    attacks = count(len(audit.outcomes), "attack")
    verdict = f"{broken} of {attacks} broke a rule" if broken else f"{attacks} broke no rule"
    return f"{verdict}; {count(audit.containers_left, 'container')} left"
