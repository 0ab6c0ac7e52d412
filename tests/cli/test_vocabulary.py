"""One vocabulary: `headrace ps`, `status`, `top` and `why` show states in the words of the documents, which the console shows.

tests/gateway/test_conditions.py tests what a part does, its condition, and tests/console/test_words.py the page of the console.
"""

import io
from typing import Any, get_args

import pytest
from click.testing import CliRunner
from rich.console import Console
from tests.cli.statuses import gateway_that_says

from headrace.cli import cli
from headrace.gateway_cli.live.rows import Shown
from headrace.gateway_cli.message_lines import message_lines
from headrace.gateway_cli.status_tables import status_tables
from headrace.gateway_status import message_document, status_document, timeline_document
from headrace.gateway_status.timeline import MESSAGE_STATES
from headrace.protocol.v1 import admin_documents as document
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.connector_pb2 import ConnectorState


def words(enum: Any, prefix: str) -> dict[int, str]:
    """The words of an enum of the protocol, by their numbers."""
    return {number: name.removeprefix(prefix).lower().replace("_", "-") for name, number in enum.items() if number}


STREAMS = words(pb.StreamState, "STREAM_STATE_")
PIPELINES = words(pb.PipelineState, "PIPELINE_STATE_")
CONNECTORS = words(ConnectorState, "CONNECTOR_STATE_")
PROCESSES = words(pb.ProcessStateKind, "PROCESS_STATE_KIND_")
MESSAGES = words(pb.MessageState, "MESSAGE_STATE_")


def shown(status: pb.GetStatusResponse) -> list[list[str]]:
    """The lines of `headrace status`, in words."""
    text = io.StringIO()
    Console(file=text, width=400).print(status_tables(status_document("here", status)))
    return [line.split() for line in text.getvalue().splitlines()]


def test_the_documents_have_the_words_of_the_protocol() -> None:
    of_documents = (document.StreamState, document.PipelineState, document.ConnectorState, document.ProcessStateKind)
    for states, found in zip((STREAMS, PIPELINES, CONNECTORS, PROCESSES), of_documents, strict=True):
        assert set(states.values()) == set(get_args(found))
    assert set(MESSAGES.values()) == set(MESSAGE_STATES)


@pytest.mark.parametrize(("state", "word"), PROCESSES.items(), ids=PROCESSES.values())
def test_ps_shows_what_a_process_does(state: Any, word: str) -> None:
    status = pb.GetStatusResponse(gateway=pb.GatewayStatus(version="0.1.0"), problems_in_all=0)
    process = status.deployments.add(deployment="deploy.toml").processes.add(name="orders", kind=pb.PROCESS_KIND_CONNECTOR)
    process.state, process.state_age_ms = state, 65_000
    with gateway_that_says(status) as address:
        done = CliRunner().invoke(cli, ["ps", "--gateway", address])
    assert done.exit_code == 0, done.output
    (line,) = [line.split() for line in done.stdout.splitlines() if line.startswith("orders")]
    assert line[:5] == ["orders", "connector", word, "1m", "05s"]


@pytest.mark.parametrize(("state", "word"), STREAMS.items(), ids=STREAMS.values())
def test_status_shows_the_state_of_a_stream(state: Any, word: str) -> None:
    status = pb.GetStatusResponse(gateway=pb.GatewayStatus(version="0.1.0"), problems_in_all=0)
    status.streams.add(stream="orders/0", state=state)
    assert any({"orders/0", word} <= {*line} for line in shown(status))


@pytest.mark.parametrize(("state", "word"), PIPELINES.items(), ids=PIPELINES.values())
def test_status_shows_the_state_of_a_pipeline(state: Any, word: str) -> None:
    status = pb.GetStatusResponse(gateway=pb.GatewayStatus(version="0.1.0"), problems_in_all=0)
    status.pipelines.add(pipeline="totals", state=state, attached=state == pb.PIPELINE_STATE_ATTACHED)
    assert any({"totals", word} <= {*line} for line in shown(status))


@pytest.mark.parametrize(("state", "word"), CONNECTORS.items(), ids=CONNECTORS.values())
def test_status_shows_what_a_connector_reports(state: Any, word: str) -> None:
    status = pb.GetStatusResponse(gateway=pb.GatewayStatus(version="0.1.0"), problems_in_all=0)
    for add, of in ((status.sessions.add, {"session": "s-1"}), (status.sink_sessions.add, {"session": "k-1", "sink": "out"})):
        add(**of, instance="orders-0", reported=pb.ReportedStatus(state=state))
    for session in ("s-1", "k-1"):
        assert any({session, "orders-0", word} <= {*line} for line in shown(status))


@pytest.mark.parametrize(("state", "word"), MESSAGES.items(), ids=MESSAGES.values())
def test_why_says_what_a_message_does(state: Any, word: str) -> None:
    answer = pb.LocateMessageResponse(state=state)
    answer.message.stream, answer.message.position.sequence = "orders/0", 7
    answer.readers.add(pipeline="totals", state=state)
    found = message_document(answer)
    assert found["state"] == word
    first, reader = (line.plain for line in message_lines(found))
    assert first == f"orders/0 7 {MESSAGE_STATES[word]}"
    assert reader == f"  pipeline totals: {MESSAGE_STATES[word]}"


LATER: Any = 99
"""A value that no enum of this release has."""


def test_what_only_a_later_release_knows_is_shown_as_unknown() -> None:
    status = pb.GetStatusResponse(gateway=pb.GatewayStatus(version="0.9.0"))
    status.streams.add(stream="orders/0", state=LATER, condition=LATER).holders.add(pipeline="totals", state=LATER)
    status.sessions.add(session="s-1", condition=LATER, reported=pb.ReportedStatus(state=LATER))
    status.pipelines.add(pipeline="totals", state=LATER, condition=LATER)
    status.sinks.add(sink="out", mode=LATER, condition=LATER)
    status.sink_sessions.add(session="k-1", sink="out", condition=LATER, reported=pb.ReportedStatus(state=LATER))
    status.deployments.add(deployment="deploy.toml").processes.add(name="orders", kind=LATER, state=LATER)
    for name in ("orders/0", "s-1", "totals", "out", "k-1"):
        assert any({name, "unknown"} <= {*line} for line in shown(status)), name
    rows = [
        row for view in ("streams", "connectors", "pipelines", "sinks") for row in Shown(status_document("x", status)).rows(view)
    ]
    assert {row["state"] for row in rows} == {"unknown"}
    with gateway_that_says(status) as address:
        done = CliRunner().invoke(cli, ["ps", "--gateway", address])
    assert [line.split()[:3] for line in done.stdout.splitlines() if line.startswith("orders")] == [
        ["orders", "unknown", "unknown"]
    ]

    answer = pb.LocateMessageResponse(state=LATER)
    answer.readers.add(pipeline="totals", state=LATER, stage=LATER)
    assert all("that this release does not know" in line.plain for line in message_lines(message_document(answer)))
    batch = pb.BatchStatus(
        stages=[pb.BatchStageTime(stage=LATER, at_ms=1), pb.BatchStageTime(stage=pb.BATCH_STAGE_READ, at_ms=2)]
    )
    assert [*timeline_document(pb.ListBatchesResponse(batches=[batch]))["batches"][0]["stages"]] == ["read"]
