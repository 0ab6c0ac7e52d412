"""A flame graph as an SVG: what calls what, each as wide as its share of the processor time."""

from collections.abc import Mapping
from html import escape

_WIDTH, _ROW, _TOP = 1200, 17, 30
_MIN_SHARE = 0.0015
"""Functions with a smaller share of the whole are left out."""
_CHARACTER = 6.4
_COLOURS = ("#f2a65a", "#eec170", "#f58549", "#f7b267", "#f4845f", "#f9c784")


class _Node:
    """A function with all its calls in one place of the stacks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.children: dict[str, _Node] = {}


def svg(title: str, stacks: Mapping[tuple[str, ...], float], per: float, unit: str) -> str:
    """Returns a flame graph.

    Args:
        title: Its title.
        stacks: The seconds of each stack, from the outermost function.
        per: By what to divide: the messages, or the frames.
        unit: One of these.
    """
    root = _Node()
    for names, seconds in stacks.items():
        root.seconds += seconds
        node = root
        for name in names:
            node = node.children.setdefault(name, _Node())
            node.seconds += seconds
    whole = root.seconds or 1.0
    height = _TOP + _ROW * (_depth(root, _MIN_SHARE * whole) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="monospace" font-size="11">'
        f"<title>{escape(title)}</title>"
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/><text x="8" y="20">{escape(title)}</text>'
    ]

    def draw(node: _Node, left: float, row: int) -> None:
        for name, child in sorted(node.children.items()):
            width = child.seconds / whole * _WIDTH
            if child.seconds >= _MIN_SHARE * whole:
                told = f"{name}: {child.seconds / per * 1e6:.3f} us/{unit}, {100 * child.seconds / whole:.1f} %"
                parts.append(_box(name, told, left, _TOP + row * _ROW, width))
                draw(child, left, row + 1)
            left += width

    draw(root, 0.0, 0)
    return "\n".join([*parts, "</svg>\n"])


def _depth(node: _Node, least: float) -> int:
    return max((1 + _depth(child, least) for child in node.children.values() if child.seconds >= least), default=0)


def _box(name: str, told: str, left: float, top: int, width: float) -> str:
    short = name.rpartition(":")[2] if ":" in name else name
    room = int(width / _CHARACTER) - 1
    text = f'<text x="{left + 3:.1f}" y="{top + 12}">{escape(short[:room])}</text>' if room > 2 else ""
    colour = _COLOURS[sum(name.encode()) % len(_COLOURS)]
    box = f'<rect x="{left:.2f}" y="{top}" width="{max(width - 0.4, 0.1):.2f}" height="{_ROW - 1}" fill="{colour}"/>'
    return f"<g><title>{escape(told)}</title>{box}{text}</g>"
