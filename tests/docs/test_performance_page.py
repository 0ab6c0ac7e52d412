"""Figures of the page about performance come from the JSON of named runs, and what other pages state follows from these."""

import json
import re

import pytest
from scripts import generate_performance_page
from scripts.generate_performance_page import PAGE, RUNS, filled, without_figures
from tests.docs.pages import ROOT

from headrace.gateway.config import Limits

_CAPACITY = re.compile(
    r"(\d+) sessions of five streams and a full buffer of (\d+) MiB need about (\d+) MB, and (\d+) descriptors\n"
    r"\(\[measured\]\(\.\./internals/performance\.md#capacity\)\)"
)
_STREAMS = 5
_TOLERANCE = 0.15


def test_the_figures_are_those_of_the_runs() -> None:
    assert not generate_performance_page.stale(), "run python -m scripts.generate_performance_page"


def test_each_run_is_on_the_page() -> None:
    named = [path.stem for path in RUNS.glob("*.json")]
    assert named
    assert [name for name in named if not re.search(f"<!--( \\w+: {name} |{name}:[^ ]+)-->", PAGE.read_text())] == []


def test_no_figure_of_a_list_is_typed() -> None:
    items = re.findall(
        r"^- (?:\*\*.*?\*\*[^:]*|`[^`]*`|[^:`]*): (.*(?:\n  .*)*)", without_figures(PAGE.read_text()), re.MULTILINE
    )
    assert len(items) > 40
    numbers = {item: re.findall(r"\d[\d.,]*", re.sub(r"`[^`]*`|99th|batches of [\d,]+", "", item)) for item in items}
    assert {item: found for item, found in numbers.items() if found} == {}


def test_the_page_names_each_run_whose_json_was_not_kept() -> None:
    typed = [path.stem for path in sorted(RUNS.glob("*.json")) if json.loads(path.read_text())["conditions"].get("typed")]
    assert f"typed: {', '.join(typed)}.\n" in PAGE.read_text() if typed else "typed:" not in PAGE.read_text()


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("7<!--capacity:memory_of_a_session--> kB", "88<!--capacity:memory_of_a_session--> kB"),
        ("1,234.5<!--scrape:series_1000_streams-->", "4,600<!--scrape:series_1000_streams-->"),
        (
            "9<!--restart:start_s--> of 9<!--restart:start_s/baseline-->",
            "9.0<!--restart:start_s--> of 15<!--restart:start_s/baseline-->",
        ),
    ],
)
def test_a_figure_that_is_typed_into_a_sentence_is_replaced(typed: str, shown: str) -> None:
    assert filled(typed) == shown
    assert filled(shown) == shown


def test_a_figure_that_its_run_lacks_is_named() -> None:
    with pytest.raises(LookupError, match=r"runs/capacity.json has nothing for <!--capacity:no_such_figure-->"):
        filled("7<!--capacity:no_such_figure-->")


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
