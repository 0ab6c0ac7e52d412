"""Tables of the page about performance come from the JSON of named runs, and what other pages state follows from these."""

import json
import re

import pytest
from scripts import generate_performance_page
from scripts.generate_performance_page import PAGE, RUNS, filled
from tests.docs.pages import ROOT

from headrace.gateway.config import Limits

_CAPACITY = re.compile(
    r"(\d+) sessions of five streams and a full buffer of (\d+) MiB need about (\d+) MB, and (\d+) descriptors\n"
    r"\(\[measured\]\(\.\./internals/performance\.md#capacity\)\)"
)
_STREAMS = 5
_TOLERANCE = 0.15


def test_the_tables_are_those_of_the_runs() -> None:
    assert not generate_performance_page.stale(), "run python -m scripts.generate_performance_page"


def test_each_run_has_a_table() -> None:
    named = [path.stem for path in RUNS.glob("*.json")]
    assert named
    assert [name for name in named if f": {name} -->" not in PAGE.read_text()] == []


@pytest.mark.parametrize("kind", ["figures", "profile"])
def test_a_figure_that_is_typed_into_a_table_is_replaced(kind: str) -> None:
    table = f"<!-- {kind}: profile -->\n| typed | 1 |\n<!-- end -->\n"
    assert "typed" not in filled(table)
    assert filled(filled(table)) == filled(table)


def test_the_capacity_that_the_page_of_production_states_follows_from_the_measured_one() -> None:
    found = _CAPACITY.search((ROOT / "docs" / "run" / "production.md").read_text())
    assert found is not None
    sessions, buffer_mib, stated_mb, stated_descriptors = map(int, found.groups())
    measured = {figure["name"]: figure["value"] for figure in json.loads((RUNS / "capacity.json").read_text())["figures"]}
    of_sessions_mb = sessions * (measured["memory_of_a_session"] + _STREAMS * measured["memory_of_a_stream"]) / 1e3
    buffer_mb = (buffer_mib << 20) * measured["memory_of_a_buffered_byte"] / 1e6
    assert stated_mb == pytest.approx(measured["gateway_memory_idle"] + of_sessions_mb + buffer_mb, rel=_TOLERANCE)
    descriptors = measured["gateway_descriptors_idle"] + sessions * measured["descriptors_of_a_session"]
    assert stated_descriptors == pytest.approx(descriptors, rel=_TOLERANCE)
    assert buffer_mib << 20 == Limits().buffer_bytes
