"""Latency by percentile, as an SVG."""

import math
from collections.abc import Sequence
from html import escape

from headrace.laboratory.bench.sources import quantile_ms

Series = dict[str, Sequence[float]]
"""Sorted latencies in seconds, by what was measured."""

_WIDTH, _HEIGHT = 800, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 180, 20, 50
_PERCENTILES = (0.0, 50.0, 90.0, 99.0, 99.9)
_LATENCIES = tuple(digit * 10.0**power for power in range(-3, 8) for digit in (1, 2, 5))
"""What the axis of the latency can show, in milliseconds."""
_STEPS = 240
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""The palette of Okabe and Ito, which colour-blind readers can tell apart."""


def svg(series: Series) -> str:
    """Returns a plot with a line for each series.

    The distance of a percentile from the left is the logarithm of how few messages are slower; the latency's axis is
    logarithmic too.
    """
    lines = {name: _quantiles(values) for name, values in series.items()}
    low, high = _ends([latency for line in lines.values() for _, latency in line])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" font-family="sans-serif" '
        f'font-size="13"><title>Latency by percentile</title><rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>'
    ]
    parts += [_vertical(percentile) for percentile in _PERCENTILES]
    parts += [_horizontal(tick, low, high) for tick in _LATENCIES if low <= tick <= high]
    parts.append(_text(_LEFT + (_WIDTH - _LEFT - _RIGHT) / 2, _HEIGHT - 8, "percentile of messages"))
    middle = _TOP + (_HEIGHT - _TOP - _BOTTOM) / 2
    parts.append(_text(16, middle, "latency, ms", f'transform="rotate(-90 16 {middle:.0f})"'))
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = " ".join(f"{_x(percentile):.1f},{_y(latency, low, high):.1f}" for percentile, latency in line)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = _TOP + 18 * (number + 1)
        parts.append(f'<path d="M{_WIDTH - _RIGHT + 14} {y - 4}h22" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(_WIDTH - _RIGHT + 44, y, name, anchor="start"))
    return "\n".join([*parts, "</svg>\n"])


def _quantiles(latencies: Sequence[float]) -> list[tuple[float, float]]:
    """Returns percentiles and their latencies in milliseconds, at equal distances in the plot."""
    rare = [10 ** (-3 * step / _STEPS) for step in range(_STEPS + 1)]
    return [(100 * (1 - share), max(quantile_ms(latencies, 1 - share), _LATENCIES[0])) for share in rare]


def _ends(latencies: Sequence[float]) -> tuple[float, float]:
    """Returns the ends of the latency's axis."""
    low = max(tick for tick in _LATENCIES if tick <= min(latencies))
    return low, min(tick for tick in _LATENCIES if tick >= max(latencies) and tick > low)


def _vertical(percentile: float) -> str:
    x = _x(percentile)
    line = f'<path d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}" stroke="#ddd"/>'
    return line + _text(x, _HEIGHT - _BOTTOM + 18, f"{percentile:g}")


def _horizontal(latency: float, low: float, high: float) -> str:
    y = _y(latency, low, high)
    line = f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>'
    return line + _text(_LEFT - 8, y + 4, f"{latency:,g}", anchor="end")


def _text(x: float, y: float, text: str, attributes: str = "", *, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#333" {attributes}>{escape(text)}</text>'


def _x(percentile: float) -> float:
    """Returns where a percentile is: 99.9 at the right end."""
    share = -math.log10(1 - percentile / 100) / 3
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(latency: float, low: float, high: float) -> float:
    share = math.log10(latency / low) / math.log10(high / low)
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)
