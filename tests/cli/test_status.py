import json
import re
import socket
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result
from tests.cli.goldens import expected
from tests.cli.json_shape import result_of
from tests.cli.statuses import BUSY, gateway_that_says

from headrace.cli import cli
from headrace.gateway_status.document import NO_FAULTS
from headrace.protocol.v1.admin_pb2 import GatewayStatus, GetStatusResponse


def status(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, ["status", *arguments], env={"HEADRACE_GATEWAY": None, "HEADRACE_TOKEN": None, **(env or {})})


@pytest.fixture(scope="module")
def busy() -> Result:
    with gateway_that_says(BUSY) as address:
        result = status("--gateway", address, "--json")
        result.stdout_bytes = result.stdout_bytes.replace(address.encode(), b"127.0.0.1:7433")
    return result


def test_the_json_document_is_stable(busy: Result) -> None:
    assert busy.exit_code == 0
    found = result_of(busy.stdout)
    for problem in found["problems"]:
        assert datetime.fromisoformat(problem["since"].replace("Z", "+00:00")) <= datetime.now(UTC)
        problem["since"] = "2026-11-23T20:10:29Z"
    (error,) = [one["last_error"] for one in found["sessions"] if one["last_error"]]
    assert datetime.fromisoformat(error["at"].replace("Z", "+00:00")) <= datetime.now(UTC)
    error["at"] = "2026-11-23T20:10:29Z"
    assert found == json.loads(expected("status.json", json.dumps(found, indent=2)))


def test_numbers_are_numbers_beyond_53_bits_too(busy: Result) -> None:
    document = result_of(busy.stdout)
    assert document["streams"][0]["received"]["sequence"] == 9_007_199_254_740_993
    assert document["pipelines"][0]["run"] == 1_795_000_000_000_000_123


@pytest.mark.parametrize(
    ("golden", "charset", "status_response"),
    [
        ("status.txt", "utf-8", BUSY),
        ("status-ascii.txt", "ascii", BUSY),
        ("status-empty.txt", "utf-8", GetStatusResponse(gateway=GatewayStatus(version="0.1.0", buffer_limit_bytes=2**27))),
    ],
)
def test_the_tables_are_as_they_were(golden: str, charset: str, status_response: GetStatusResponse) -> None:
    with gateway_that_says(status_response) as address:
        result = CliRunner(charset=charset).invoke(cli, ["status", "--gateway", address], env={"COLUMNS": None})
    assert result.exit_code == 0, result.output
    found = result.output_bytes.decode(charset).replace(address, "127.0.0.1:7433")
    # The time between the answer and its print may count.
    found = re.sub(r"for (\dm 0)\ds:", r"for \g<1>5s:", found)
    # The hour depends on when this runs.
    found = re.sub(r"ago \(\d\d:\d\d:\d\d\)", "ago (12:00:00)", found)
    assert "".join(f"{line.rstrip()}\n" for line in found.splitlines()) == expected(golden, found)


def test_check_says_by_its_exit_code_whether_all_is_well() -> None:
    well = GetStatusResponse(gateway=GatewayStatus(version="0.1.0"), problems_in_all=0)
    waits = GetStatusResponse(gateway=GatewayStatus(version="0.1.0"), problems_in_all=2)
    for kind in NO_FAULTS:
        waits.problems.add(part=f"pipeline {kind}", root=f"pipeline {kind}", kind=kind)
    for answer, code in ((BUSY, 1), (well, 0), (waits, 0)):
        with gateway_that_says(answer) as address:
            assert status("--gateway", address).exit_code == 0
            checked = status("--gateway", address, "--check", "--json")
        assert (checked.exit_code, len(result_of(checked.stdout)["problems"])) == (code, len(answer.problems))


def test_check_and_watch_exclude_each_other() -> None:
    assert status("--check", "--watch").exit_code == 2


def test_the_gateway_can_come_from_the_environment() -> None:
    with gateway_that_says(BUSY) as address:
        result = status("--json", env={"HEADRACE_GATEWAY": address})
    assert result_of(result.stdout)["gateway"]["address"] == address


def test_no_gateway_is_one_clear_line() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        result = status("--gateway", address, "--json")
        plain = status("--gateway", address)

    assert result.exit_code == plain.exit_code == 1
    assert result.stderr == ""
    document, text = json.loads(result.stdout), f"nothing listens at {address}: "
    text += "start a gateway with headrace gateway, or name another with --gateway"
    assert document == {"command": "status", "ok": False, "summary": text, "result": None, "error": text}
    assert plain.stdout == ""
    assert plain.stderr == f"Error: {text}\n"


def test_forgetting_a_pipeline_prints_one_object() -> None:
    with gateway_that_says(BUSY) as address:
        done = CliRunner().invoke(cli, ["forget", "old", "--json", "--gateway", address])
        refused = CliRunner().invoke(cli, ["forget", "market", "--json", "--gateway", address])
        plain = CliRunner().invoke(cli, ["forget", "market", "--gateway", address])
        forced = CliRunner().invoke(cli, ["forget", "market", "--force", "--gateway", address])

    assert done.exit_code == 0
    assert json.loads(done.stdout) == {
        "command": "forget",
        "ok": True,
        "summary": "old is forgotten",
        "result": {"pipeline": "old"},
        "error": None,
    }
    assert (forced.exit_code, forced.stdout) == (0, "market is forgotten\n")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout) == {
        "command": "forget",
        "ok": False,
        "summary": "market is not forgotten",
        "result": None,
        "error": "pipeline 'market' is attached; stop its query first",
    }
    assert (plain.exit_code, plain.stderr) == (1, "Error: pipeline 'market' is attached; stop its query first\n")
