"""Draws the spans of one trace, as a test's collector has received them: `python -m scripts.draw_trace SPANS OUT.svg`.

SPANS is a file with a line of JSON for each span, as `tests/telemetry/collector.py` writes it.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 880, 300, 70, 30, 46
_COLORS = {"receive": "#3b7dd8", "process": "#2f9e6e", "send": "#c9782b", "settle": "#8a5cc4"}
_MIN_WIDTH = 3.0


def drawn(spans: Sequence[Mapping[str, Any]]) -> str:
    """Returns the picture of the spans, each with a row, by the time at which they began."""
    ordered = sorted(spans, key=lambda span: span["begun_ns"])
    begun, ended = ordered[0]["begun_ns"], max(span["ended_ns"] for span in ordered)
    scale = (_WIDTH - _LEFT - _RIGHT) / max(1, ended - begun)
    height = _TOP + _ROW * len(ordered) + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="13">',
        "<title>The spans of one message, by time</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="24" fill="#555555">trace {escape(ordered[0]["trace"])}, {(ended - begun) / 1e6:,.0f} ms</text>',
    ]
    for row, span in enumerate(ordered):
        y = _TOP + row * _ROW
        x = _LEFT + (span["begun_ns"] - begun) * scale
        took = span["ended_ns"] - span["begun_ns"]
        width = max(_MIN_WIDTH, took * scale)
        color = _COLORS[span["attributes"]["messaging.operation.name"]]
        service = span["service"].removeprefix("headrace-")
        lines += [
            f'<line x1="16" x2="{_WIDTH - 16}" y1="{y}" y2="{y}" stroke="#eeeeee"/>',
            f'<text class="span" x="16" y="{y + 20}" fill="#222222">{escape(span["name"])}</text>',
            f'<text x="{_LEFT - 16}" y="{y + 20}" fill="#777777" text-anchor="end">{escape(service)}</text>',
            f'<rect x="{x:.1f}" y="{y + 7}" width="{width:.1f}" height="16" rx="2" fill="{color}"/>',
            f'<text x="{x + width + 6:.1f}" y="{y + 20}" fill="#555555">{took / 1e6:,.1f} ms</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def main(spans: Path, out: Path) -> None:
    """Draws the trace that has most of the spans."""
    found = [json.loads(line) for line in spans.read_text().splitlines()]
    traces = [span["trace"] for span in found]
    trace = max(dict.fromkeys(traces), key=traces.count)
    out.write_text(drawn([span for span in found if span["trace"] == trace]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
