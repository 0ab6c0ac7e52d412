"""The page about the conformance kit holds what the kit declares."""

import tomllib

import click
import pytest
from scripts import generate_lists
from tests.docs.pages import blocks, codes, table, text

from headrace.conformance import conformance
from headrace.conformance.core.spec import SinkSpec, SourceSpec
from headrace.conformance.sinks import SINK_CHECKS
from headrace.conformance.sources import SOURCE_CHECKS

PAGE = "docs/write/conformance.md"


def test_its_lists_and_the_list_of_metrics_are_current() -> None:
    assert generate_lists.stale() == [], "run python -m scripts.generate_lists"


@pytest.mark.parametrize("checks", [SOURCE_CHECKS, SINK_CHECKS], ids=["source", "sink"])
def test_every_rule_of_a_check_is_on_the_page_of_the_protocol(checks: tuple) -> None:  # type: ignore[type-arg]
    protocol = text("docs/reference/protocol.md")
    assert len({check.name for check in checks}) == len(checks)
    for check in checks:
        assert check.rules, check.name
        assert all(f'<a id="{rule.lower()}"></a>**{rule}**' in protocol for rule in check.rules), check.name
        assert check.fault.endswith("."), check.name


def test_examples_of_specifications_are_valid() -> None:
    source, sink = (tomllib.loads(block.text) for block in blocks(PAGE, "toml"))
    SourceSpec.model_validate(source)
    SinkSpec.model_validate(sink)


def test_every_option_is_on_the_page() -> None:
    documented = {codes(row[0])[0].split()[0] for row in table(PAGE, "Options")}
    for command in conformance.commands.values():
        options = {option for parameter in command.params if isinstance(parameter, click.Option) for option in parameter.opts}
        assert documented == options
