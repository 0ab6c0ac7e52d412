"""The pages of the connectors hold what connectors declare."""

import re
from pathlib import Path

import pytest
from scripts import generate_connector_pages
from tests.docs.pages import ROOT, blocks, codes, table, text

from headrace.connectors import CONNECTORS
from headrace.connectors.configuration import load_connector

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/reference/connectors").glob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_current(page: str) -> None:
    assert not generate_connector_pages.stale(ROOT / page), "run python -m scripts.generate_connector_pages"


def test_every_connector_has_its_table() -> None:
    tables = [name for page in PAGES for name in re.findall(r"<!-- parameters: ([\w-]+) -->", text(page))]
    assert sorted(tables) == sorted(known.name for known in CONNECTORS)


@pytest.mark.parametrize("page", PAGES)
def test_configuration_files_on_the_pages_are_valid(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number, block in enumerate(blocks(page, "toml")):
        path = tmp_path / f"{number}.toml"
        path.write_text(block.text)
        variables = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "given")
        load_connector(str(path), variables)


def test_the_overview_explains_what_the_tables_leave_out() -> None:
    rows = table("docs/reference/connectors/README.md", "What all of them have")
    assert sorted(name for row in rows for name in codes(row[0])) == sorted(generate_connector_pages.LEFT_OUT)


def test_a_stale_table_is_filled() -> None:
    page = "before\n<!-- parameters: stdout-sink -->\nold\n<!-- end -->\nafter\n"
    filled = generate_connector_pages.filled(page)
    assert "- `json` (Boolean; `false`): Print the message" in filled
    assert "old" not in filled
    assert generate_connector_pages.filled(filled) == filled
    with pytest.raises(LookupError, match="there is no connector nothing"):
        generate_connector_pages.filled(page.replace("stdout-sink", "nothing"))


def test_parameters_that_connectors_share_are_in_one_table() -> None:
    names = ("nats nats-sink", "nats-consumer nats", "nats", "nats-consumer")
    kinds = ("shared parameters", "shared parameters", "parameters", "parameters")
    page = "".join(f"<!-- {kind}: {name} -->\n<!-- end -->\n" for kind, name in zip(kinds, names, strict=True))
    first, sources, one, other = generate_connector_pages.filled(page).split("<!-- end -->")[:-1]
    assert "`servers`" in first
    assert "`servers`" not in one
    assert "`servers`" in sources, "nats-consumer is not in the first group"
    assert "`servers`" not in other
    assert "`stream`" in sources
    assert "`stream`" not in one + other
    assert "`start`" in one
    assert "`consumer`" in other
