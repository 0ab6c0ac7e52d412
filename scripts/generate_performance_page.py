"""Generates tables in docs/internals/performance.md from what runs of benchmarks have printed with --json.

A run is the `result` of one command, in docs/internals/runs/NAME.json. A table is between `<!-- figures: NAME -->`, or
`<!-- profile: NAME -->`, and `<!-- end -->`; nobody types a figure into it. With --check, fails if a table is stale.
"""

import json
import re
import sys
from typing import Any

from scripts.generated_page import ROOT, generate, is_stale

from headrace.laboratory.bench.profile.parts import PARTS

PAGE = ROOT / "docs" / "internals" / "performance.md"
RUNS = PAGE.parent / "runs"
_TABLE = re.compile(r"(<!-- (figures|profile): ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_BY_FRAME = "small_frames"
"""The case whose frames cost more than its messages."""
_SMALL = 0.07
"""The share of a case below which a part has no row of its own."""


def filled(text: str) -> str:
    """Returns the page with all its tables up to date."""

    def table(match: re.Match[str]) -> str:
        run = json.loads((RUNS / f"{match[3]}.json").read_text())
        rows = figures(run) if match[2] == "figures" else profile(run)
        return "\n".join([match[1] + conditions(run), "", *rows, "", match[4]])

    return _TABLE.sub(table, text)


def conditions(run: dict[str, Any]) -> str:
    """Returns in what conditions a run has measured."""
    told = run["conditions"]
    return f"Load average before the run: {told['load_average_before']:.1f}, on {told['cores']} cores."


def figures(run: dict[str, Any]) -> list[str]:
    """Returns the figures of a run as a list, each with its baseline and its target."""
    rows = []
    for figure in run["figures"]:
        baseline = "" if figure["baseline"] is None else f"; compared with {_number(figure['baseline'])} {figure['unit']}"
        met = "" if figure["met"] is None else f"; target {figure['target']}: {'met' if figure['met'] else 'missed'}"
        rows.append(f"- `{figure['name']}`: {_number(figure['value'])} {figure['unit']}{baseline}{met}")
    return rows


def profile(run: dict[str, Any]) -> list[str]:
    """Returns the parts of each case of a profile: the mean of its two measurements; small parts are one row."""
    cases = run["conditions"]["profile"]
    heads = [f"{case['what']}: µs for each {'frame' if name == _BY_FRAME else 'message'}" for name, case in cases.items()]
    wholes = [_mean(case) * _times(name, case) for name, case in cases.items()]
    parts = {part: [_cell(name, case, part) for name, case in cases.items()] for part in PARTS}
    large = {
        part: cells
        for part, cells in parts.items()
        if any(cell >= _SMALL * whole for cell, whole in zip(cells, wholes, strict=True))
    }
    shown = [sum(cells) for cells in zip(*large.values(), strict=True)]
    large["other parts"] = [whole - cell for whole, cell in zip(wholes, shown, strict=True)]
    lines = [f"- {part}: {'; '.join(f'{cell:.2f}' for cell in cells)}" for part, cells in [*large.items(), ("all", wholes)]]
    return [f"In this order: {'; '.join(heads)}.", "", *lines]


def _cell(name: str, case: dict[str, Any], part: str) -> float:
    return sum(_mean(one) * _times(name, case) for one in case["parts"] if one["part"] == part)


def _mean(one: dict[str, Any]) -> float:
    return float(one["us_per_message"] + one["again"]) / 2


def _times(name: str, case: dict[str, Any]) -> float:
    return float(case["messages_of_a_frame"]) if name == _BY_FRAME else 1.0


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def stale() -> bool:
    """Whether a table of the page is out of date."""
    return is_stale(PAGE, filled)


if __name__ == "__main__":
    sys.exit(generate({PAGE: filled}, "scripts.generate_performance_page", __doc__))
