"""Draw lines over time as SVG inside of Markdown, in colours that suit light and dark pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 180, 48, 24
COLOURS = ("#2f7ed8", "#d9822b")


def draw_plot(title: str, lines: Mapping[str, Sequence[tuple[float, float]]], unit: str) -> str:
    """Return a plot of some lines of points (x, y), both from 0."""
    points = [point for line in lines.values() for point in line]
    most_x = max((x for x, _ in points), default=1.0) or 1.0
    most_y = max((y for _, y in points), default=1.0) or 1.0

    def place(x: float, y: float) -> str:
        across = LEFT + x / most_x * (WIDTH - LEFT - 8)
        return f"{across:.1f},{HEIGHT - BOTTOM - y / most_y * (HEIGHT - BOTTOM - 12):.1f}"

    drawn = []
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        shape = " ".join(place(x, y) for x, y in sorted(line))
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{shape}"/>')
        drawn.append(f'<text x="{LEFT + 8 + 110 * number}" y="12" fill="{colour}">{name}</text>')
    axes = f'<path d="M{LEFT},8V{HEIGHT - BOTTOM}H{WIDTH - 8}" fill="none" stroke="#888"/>'
    labels = (
        f'<text x="4" y="18" fill="#888">{most_y:.4g}</text>'
        f'<text x="4" y="{HEIGHT - BOTTOM}" fill="#888">0</text>'
        f'<text x="{WIDTH - 90}" y="{HEIGHT - 6}" fill="#888">{most_x:.0f} {unit}</text>'
    )
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img" aria-label="{title}" font-size="11">'
    return f"**{title}**\n\n{head}{axes}{labels}{''.join(drawn)}</svg>"
