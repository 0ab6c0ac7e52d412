"""Generates the figures of docs/internals/performance.md from what runs of benchmarks have printed with --json.

A run is the `result` of one command, in docs/internals/runs/NAME.json. A table is between `<!-- figures: NAME -->`, or
`<!-- profile: NAME -->`, and `<!-- end -->`. In a sentence, a number stands before `<!--NAME:FIGURE-->`, a ratio before
`<!--NAME:FIGURE/ratio-->`, and a baseline before `<!--NAME:FIGURE/baseline-->`. Nobody types a figure into the page. A run whose
JSON was not kept has `typed` among its conditions, and `<!-- typed -->` names all of these. With --check, fails if the page is
stale.
"""

import json
import math
import re
import sys
from typing import Any

from scripts.generated_page import ROOT, generate, is_stale

from headrace.laboratory.bench.profile.parts import PARTS

PAGE = ROOT / "docs" / "internals" / "performance.md"
RUNS = PAGE.parent / "runs"
_TABLE = re.compile(r"(<!-- (figures|profile): ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_NUMBER = re.compile(r"\d[\d.,]*(?P<source><!--(?P<run>[\w-]+):(?P<figure>[\w.]+)(?:/(?P<field>ratio|baseline))?-->)")
_TYPED = re.compile(r"(<!-- typed -->\n).*?(<!-- end -->)", re.DOTALL)
_BY_FRAME = "small_frames"
"""The case whose frames cost more than its messages."""
_SMALL = 0.07
"""The share of a case below which a part has no row of its own."""


def filled(text: str) -> str:
    """Returns the page with all its figures up to date."""
    runs = {path.stem: json.loads(path.read_text()) for path in sorted(RUNS.glob("*.json"))}

    def table(match: re.Match[str]) -> str:
        run = runs[match[3]]
        rows = figures(run) if match[2] == "figures" else profile(run)
        return "\n".join([match[1] + conditions(run), "", *rows, "", match[4]])

    def number(match: re.Match[str]) -> str:
        found = {figure["name"]: figure for figure in runs[match["run"]]["figures"]}
        value = found.get(match["figure"], {}).get(match["field"] or "value")
        if value is None:
            raise LookupError(f"runs/{match['run']}.json has nothing for {match['source']}: run its benchmark with that part")
        return f"{_rounded(value)}{match['source']}"

    typed = ", ".join(name for name, run in runs.items() if run["conditions"].get("typed"))
    return _TYPED.sub(lambda match: f"{match[1]}{_typed(typed)}{match[2]}", _NUMBER.sub(number, _TABLE.sub(table, text)))


def without_figures(text: str) -> str:
    """Returns the page without what this script writes: what is left was typed."""
    return _NUMBER.sub("", _TYPED.sub("", _TABLE.sub("", text)))


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


def _rounded(value: float) -> str:
    """Returns a number of a sentence: a count as it is, and a measurement with two or three digits that count."""
    if isinstance(value, int) and value < 1_000:
        return str(value)
    if value >= 1_000:
        return f"{round(value, 2 - math.floor(math.log10(value))):,.0f}"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"


def _typed(names: str) -> str:
    return f"The JSON of earlier runs was not kept; their figures were typed: {names}.\n" if names else ""


def stale() -> bool:
    """Whether a figure of the page is out of date."""
    return is_stale(PAGE, filled)


if __name__ == "__main__":
    sys.exit(generate({PAGE: filled}, "scripts.generate_performance_page", __doc__))
