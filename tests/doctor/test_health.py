"""`headrace doctor` and the health of a gateway that runs: what its `/readyz` names, each part with its remedy."""

import datetime
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.statuses import gateway_that_says
from tests.doctor.examining import findings
from tests.gateway.certificates import Authority
from tests.gateway.processes import DEADLINE_S, gateway_process

from headrace.cli import cli
from headrace.conformance.core import certificates
from headrace.doctor import Finding, Level
from headrace.doctor.gateway import MAX_COUNT
from headrace.gateway.core import Kind, Problem
from headrace.gateway_status.document import NO_FAULTS
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.terminal import EXIT_FAILED, Connection

TOKENS = """
[[tokens]]
name = "source"
token = "${SOURCE}"
sources = ["orders/*"]
"""
WELL = pb.GatewayStatus(version="0.1.0")


def until(connection: Connection, holds: Callable[[list[Finding]], bool]) -> list[Finding]:
    """The findings, once a condition holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds(found := findings("health", connection)):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def about(part: str) -> Callable[[list[Finding]], bool]:
    return lambda found: any(finding.text.startswith(f"{part} for ") for finding in found)


def test_a_file_that_becomes_invalid_is_listed_with_its_remedy_until_it_is_valid(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text("")
    part = f"file {config}"
    with gateway_process("--config", config) as gateway:
        connection = Connection(gateway.address)
        config.write_text("[nonsense]\na = 1\n")
        found = until(connection, about(part))
        (finding,) = [one for one in found if one.text.startswith(part)]
        assert (finding.level, finding.exit_code) == (Level.FAILED, EXIT_FAILED)
        assert "nonsense" in finding.text
        assert "stays in effect" in finding.fix

        done = CliRunner().invoke(cli, ["doctor", "--json", "--gateway", gateway.address])
        document = json.loads(done.stdout)
        (listed,) = [one for one in document["result"]["checks"] if one["check"] == "health" and part in one["finding"]]
        assert (listed["level"], listed["fix"]) == ("failed", finding.fix)
        assert "health" in document["error"]
        assert done.exit_code != 0

        config.write_text("")
        until(connection, lambda found: not about(part)(found))


def test_a_certificate_that_expires_is_listed_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "_VALID", datetime.timedelta(days=10))
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("gateway")
    with gateway_process("--tls-cert", pair.cert, "--tls-key", pair.key) as gateway:
        found = until(Connection(gateway.address, tls_ca=authority.cert), about(f"file {pair.cert}"))
    (finding,) = [one for one in found if one.text.startswith(f"file {pair.cert}")]
    assert finding.level is Level.FAILED
    assert "the certificate expires on" in finding.text
    assert finding.fix.startswith("replace it")


def test_a_gateway_that_is_away_is_named_by_the_check_of_the_gateway_alone() -> None:
    (finding,) = findings("health", Connection("127.0.0.1:1"))
    assert (finding.level, finding.text) == (Level.SKIPPED, "no gateway answers at 127.0.0.1:1")
    (finding,) = findings("health", Connection("nowhere"))
    assert finding.level is Level.SKIPPED


def test_a_token_that_may_not_read_the_status_is_told_which_right_it_lacks(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text(TOKENS)
    with gateway_process("--config", config, environ={"SOURCE": "s-secret"}) as gateway:
        (finding,) = findings("health", Connection(gateway.address, "s-secret"))
    assert (finding.level, finding.text) == (Level.SKIPPED, "the token may not read the status")
    assert "right admin" in finding.fix


def test_parts_that_wait_for_another_are_counted_there() -> None:
    cause = {"kind": "sink-away", "cause": "no connector serves it", "root": "sink out", "age_ms": 65_000, "remedy": "start it"}
    problems = [pb.Problem(part=part, **cause) for part in ("sink out", "pipeline totals", "stream orders/0")]
    with gateway_that_says(pb.GetStatusResponse(gateway=WELL, problems=problems, problems_in_all=3)) as address:
        (finding,) = findings("health", Connection(address))
        assert finding.text == "sink out for 1m 05s: no connector serves it; 2 more parts wait for it"
        assert finding.fix == "start it"
    # Where the cause itself is not listed, each part names it.
    with gateway_that_says(pb.GetStatusResponse(gateway=WELL, problems=problems[1:], problems_in_all=2)) as address:
        assert [finding.text.partition(": ")[2] for finding in findings("health", Connection(address))] == [
            "sink out: no connector serves it"
        ] * 2


def test_a_part_with_which_nothing_is_wrong_is_listed_and_fails_nothing() -> None:
    problems = [pb.Problem(part=f"pipeline {kind}", root=f"pipeline {kind}", kind=kind, remedy="wait") for kind in NO_FAULTS]
    with gateway_that_says(pb.GetStatusResponse(gateway=WELL, problems=problems, problems_in_all=len(NO_FAULTS))) as address:
        assert [(finding.level, finding.fix) for finding in findings("health", Connection(address))] == [
            (Level.OK, "wait")
        ] * len(NO_FAULTS)


def test_the_kinds_that_are_no_faults_are_those_of_the_gateway() -> None:
    assert {str(kind) for kind in Kind if not Problem("", kind, "", 0, "").is_fault} == NO_FAULTS


def test_many_parts_are_counted() -> None:
    parts = [f"stream orders/{n}" for n in range(MAX_COUNT + 3)]
    problems = [pb.Problem(part=part, root=part, kind="not-read", remedy="start the query") for part in parts]
    with gateway_that_says(pb.GetStatusResponse(gateway=WELL, problems=problems, problems_in_all=len(parts))) as address:
        *listed, last = findings("health", Connection(address))
    assert len(listed) == MAX_COUNT
    assert (last.text, last.fix) == ("degraded, too: 3 more parts", "list all: headrace status")


def test_all_is_well() -> None:
    with gateway_that_says(pb.GetStatusResponse(gateway=WELL, problems_in_all=0)) as address:
        assert findings("health", Connection(address)) == [Finding(Level.OK, "all is well")]
