"""Write the page of a soak test from its records, with plots as SVG files beside it.

python tests/chaos/soak_page.py FOLDER docs/soak.md
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# The programs of one request.
BATCH = 16
# The windows of the plots.
WINDOWS = 20
WIDTH, HEIGHT, LEFT, BOTTOM = 640, 180, 48, 24
COLOURS = ("#2f7ed8", "#d9822b")
HEAD = """\
# Soak test

`make soak` asks a service for verdicts on programs whose verdict is known, while it kills the service, its
engine, containers and clients at random. A killed service or client is started again at once, and clients
repeat their requests. In the second half the service itself lives on, so that its memory shows a leak. This
page is the result of one run. Its engine is a private one on the same machine.
"""
Line = Sequence[tuple[float, float]]


def write_page(folder: Path, output: Path) -> None:
    """Write the page of the records in a folder, and its plots into `pictures` beside it."""
    batches = sorted(
        (batch for log in folder.glob("client-*.log") for batch in _read(log)), key=lambda batch: batch["at"]
    )
    looks, deeds, (end,) = _read(folder / "looks.log"), _read(folder / "deeds.log"), _read(folder / "end.log")
    start, seconds = batches[0]["at"], looks[-1]["at"] - batches[0]["at"]

    def minutes(record: Mapping[str, Any]) -> float:
        return float(record["at"] - start) / 60

    plots = {
        "verdicts": _plot_verdicts(batches, start, seconds),
        "latency": draw_plot("Seconds of a request", _collect_latency(batches, start, seconds)),
        "memory": draw_plot(
            "Memory of the service in MiB", {"memory": [(minutes(look), look["memory"]) for look in looks]}
        ),
        "resources": draw_plot(
            "What the service holds",
            {
                "open files": [(minutes(look), look["open_files"]) for look in looks],
                "containers": [(minutes(look), look["containers"]) for look in looks],
            },
        ),
    }
    facts = _collect_facts(batches, looks, deeds, end, seconds)
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    pictures = output.parent / "pictures"
    pictures.mkdir(exist_ok=True)
    shown = []
    for name, (title, drawn) in plots.items():
        (pictures / f"soak-{name}.svg").write_text(f"{drawn}\n")
        shown.append(f"![{title}](pictures/soak-{name}.svg)")
    body = "\n\n".join([f"| | |\n| --- | --- |\n{rows}", *shown])
    output.write_text(f"{HEAD}\n{body}\n")


def is_false(wanted: str, got: str) -> bool:
    """Return whether a verdict is false that is not the expected one.

    A program that takes all memory or processes takes time for it, so that its time limit may come first.
    """
    return not (got == "timeout" and wanted in ("memory_limit", "output_limit", "process_limit"))


def _read(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def _count(batches: Sequence[Mapping[str, Any]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for batch in batches:
        counts.update(batch["statuses"])
    return counts


def _collect_facts(
    batches: Sequence[Mapping[str, Any]],
    looks: Sequence[Mapping[str, Any]],
    deeds: Sequence[Mapping[str, Any]],
    end: Mapping[str, Any],
    seconds: float,
) -> dict[str, str]:
    counts = _count(batches)
    lost = counts.pop("none", 0)
    others = Counter((wanted, got) for batch in batches for _, wanted, got in batch["others"])
    false = sum(count for pair, count in others.items() if is_false(*pair))
    times = [batch["seconds"] for batch in batches]
    kills = Counter(deed["deed"] for deed in deeds if deed["deed"] != "nothing")
    last = [look for look in looks if look["pid"] == looks[-1]["pid"]]
    lived = (last[-1]["at"] - last[0]["at"]) / 60
    load = statistics.median(look["load"] for look in looks)
    return {
        "duration": f"{seconds / 60:.0f} minutes, {end['clients']} clients",
        "machine": f"{os.cpu_count()} cores, shared with other work (median load average {load:.0f})",
        "verdicts": f"{counts.total():,} ({counts.total() / seconds:.1f} a second)",
        "false verdicts": f"{false}",
        "programs whose time limit came before the expected one": f"{others.total() - false}",
        "statuses": ", ".join(f"`{name}` {count:,}" for name, count in counts.most_common()),
        "programs without a verdict": f"{lost:,}",
        f"seconds of a request with {BATCH} programs": f"median {_rank(times, 0.5):.1f}, "
        f"99th percentile {_rank(times, 0.99):.1f}, longest {max(times):.1f}",
        "kills": ", ".join(f"{name} {count}" for name, count in sorted(kills.items())),
        "the last service": f"lived for {lived:.0f} minutes; "
        f"memory {last[0]['memory']:.0f} MiB at first, {last[-1]['memory']:.0f} MiB at last; "
        f"open files {last[0]['open_files']} and {last[-1]['open_files']}",
        "most containers at once": str(max(look["containers"] for look in looks)),
        "containers, processes, mounts and temporary files at the end": "; ".join(
            fault for fault in end["faults"] if "left" in fault
        )
        or "none left",
    }


def _rank(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def _split(
    batches: Sequence[Mapping[str, Any]], start: float, seconds: float
) -> list[tuple[float, list[Mapping[str, Any]]]]:
    """Return the batches that ended in each window, with the minute of its middle."""
    width = seconds / WINDOWS
    windows: list[list[Mapping[str, Any]]] = [[] for _ in range(WINDOWS)]
    for batch in batches:
        windows[min(int((batch["at"] + batch["seconds"] - start) / width), WINDOWS - 1)].append(batch)
    return [((place + 0.5) * width / 60, window) for place, window in enumerate(windows)]


def _plot_verdicts(batches: Sequence[Mapping[str, Any]], start: float, seconds: float) -> tuple[str, str]:
    done, lost = [], []
    for at, window in _split(batches, start, seconds):
        counts = _count(window)
        none = counts.pop("none", 0)
        done.append((at, counts.total() * 60 * WINDOWS / seconds))
        lost.append((at, none * 60 * WINDOWS / seconds))
    return draw_plot("Programs a minute", {"verdicts": done, "without one": lost})


def _collect_latency(
    batches: Sequence[Mapping[str, Any]], start: float, seconds: float
) -> dict[str, list[tuple[float, float]]]:
    times = [
        (at, [batch["seconds"] for batch in window])
        for at, window in _split(batches, start, seconds)
        if window
    ]
    return {
        "median": [(at, _rank(each, 0.5)) for at, each in times],
        "99th percentile": [(at, _rank(each, 0.99)) for at, each in times],
    }


def draw_plot(title: str, lines: Mapping[str, Line]) -> tuple[str, str]:
    """Return the title of a plot over minutes, and its SVG, in colours that suit light and dark pages."""
    points = [point for line in lines.values() for point in line]
    most_x = max((x for x, _ in points), default=1.0) or 1.0
    most_y = max((y for _, y in points), default=1.0) or 1.0

    def place(x: float, y: float) -> str:
        across = LEFT + x / most_x * (WIDTH - LEFT - 8)
        return f"{across:.1f},{HEIGHT - BOTTOM - y / most_y * (HEIGHT - BOTTOM - 34):.1f}"

    drawn = [f'<text x="4" y="14" fill="#888" font-weight="bold">{title}</text>']
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number]
        shape = " ".join(place(x, y) for x, y in sorted(line))
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{shape}"/>')
        drawn.append(f'<text x="{LEFT + 252 + 110 * number}" y="14" fill="{colour}">{name}</text>')
    drawn.append(f'<path d="M{LEFT},30V{HEIGHT - BOTTOM}H{WIDTH - 8}" fill="none" stroke="#888"/>')
    drawn.append(f'<text x="4" y="38" fill="#888">{most_y:.4g}</text>')
    drawn.append(f'<text x="4" y="{HEIGHT - BOTTOM}" fill="#888">0</text>')
    drawn.append(f'<text x="{WIDTH - 90}" y="{HEIGHT - 6}" fill="#888">{most_x:.0f} minutes</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'font-family="sans-serif" font-size="11">'
    )
    return title, "\n".join([head, *drawn, "</svg>"])


if __name__ == "__main__":
    write_page(Path(sys.argv[1]), Path(sys.argv[2]))
