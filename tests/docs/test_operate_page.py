"""The pages list every path of the HTTP API, every right, every limit and every kind of problem."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.docs.pages import blocks, codes, table, text

from headrace.gateway import Http, Limits, load_config
from headrace.gateway.core import Gateway, Kind, Problem
from headrace.gateway.http import new_app, server
from headrace.gateway.http.status import health_document
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.observer import MAX_PROBLEMS, Observation
from headrace.gateway.rules import CHANGES, OPEN_PATHS, PATHS
from headrace.gateway_status import ProblemDocument
from headrace.protocol.v1.admin_pb2 import GetStatusResponse

PAGE, API, EVIDENCE = "docs/run/operate.md", "docs/reference/http.md", "docs/internals/evidence.md"


def test_every_path_is_on_the_page_with_the_rights_that_it_needs() -> None:
    documented = {
        path.replace("{name}", "{name:path}"): set(codes(row[1])) for row in table(API, "The HTTP API") for path in codes(row[0])
    }
    assert documented == {path: {right.value for right in needed} for path, needed in PATHS.items()}


def test_every_path_has_a_rule_and_every_rule_a_path() -> None:
    app = new_app(Gateway(Limits()), TokenRegistry([]), Http(), "", loopback=True)
    assert {getattr(route, "path", None) for route in app.routes} == {*PATHS, *CHANGES, *OPEN_PATHS}


@pytest.mark.parametrize("example", blocks(API, "toml"), ids=lambda block: block.heading)
def test_examples_of_configurations_are_valid(example: object, tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(example.text)  # type: ignore[attr-defined]
    load_config(file)


def test_limits_are_what_the_page_says() -> None:
    page = " ".join(text(API).split())
    assert f"has at most {server.MAX_HEADER_BYTES // 1024} KiB of headers" in page
    assert f"longer than {server.REQUEST_TIMEOUT_S:g} s is cut off" in page
    assert f"at most {server.MAX_CONNECTIONS} connections" in page
    assert f"at most {server.MAX_OF_ADDRESS} of one address" in page


def test_every_kind_of_problem_is_explained() -> None:
    assert {codes(row[0])[0] for row in table(PAGE, "What is wrong")} == {kind.value for kind in Kind}


def test_every_fault_names_tests_that_exist() -> None:
    rows, further = table(EVIDENCE, "Faults that health names"), table(EVIDENCE, "Further faults")
    assert (len(rows), len(further)) == (12, 20)
    assert {kind for row in (*rows, *further) for kind in codes(row[0])} <= {kind.value for kind in Kind}
    for row in (*rows, *further):
        assert codes(row[-1])
        for named in codes(row[-1]):
            file, _, test = named.partition("::")
            assert f"def {test}(" in text(file), named


def test_the_example_of_problems_has_the_fields_of_a_problem() -> None:
    (example,) = blocks(PAGE, "json")
    document = json.loads(example.text)
    problem = Problem("gateway", Kind.STOPPING, "", 0, "")
    status = Observation(GetStatusResponse(), [problem], datetime.now(UTC))
    assert document.keys() == health_document(status, with_problems=True).keys()
    for each in document["problems"]:
        assert each.keys() == ProblemDocument.__annotations__.keys()
    assert f"at most {MAX_PROBLEMS:,} problems" in text(PAGE)
