"""Tables of options, keys, fields and columns hold what there is, and nothing else."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.docs.pages import blocks, codes, section, table, text
from tests.gateway.certificates import Authority

import headrace.engine
import headrace.gateway
from headrace.contract.limits import DEFAULT_GATEWAY
from headrace.contract.units import parse_duration, parse_size
from headrace.engine.codec import COLUMNS
from headrace.engine.sink import options as sink_options
from headrace.engine.source import options
from headrace.engine.wire import gateway_options
from headrace.gateway import Config, Http, Limits, Log, Paused, Peek, StreamRule, Telemetry, Tls, Token, load_config
from headrace.gateway.core.base.errors import ProtocolError
from headrace.gateway.statuses import reason_name
from headrace.gateway_status import status_document
from headrace.protocol.v1 import admin_pb2, connector_pb2, frame_pb2, source_pb2

SPARK, GATEWAY, PROTOCOL = "docs/write/spark.md", "docs/run/gateway.md", "docs/reference/protocol.md"
STATUS, OPERATE = "docs/reference/status.md", "docs/run/operate.md"


def names(page: str, heading: str) -> list[str]:
    """The names in the first column of a table."""
    return [name for row in table(page, heading) for name in codes(row[0])]


# Spark


def test_spark_options() -> None:
    assert sorted(names(SPARK, "Options")) == sorted(options.NAMES)
    assert sorted(names(SPARK, "Options of the sink")) == sorted(sink_options.NAMES)


def test_defaults_of_spark_options() -> None:
    source, sink = (
        {codes(row[0])[0]: codes(row[1]) for row in table(SPARK, heading)} for heading in ("Options", "Options of the sink")
    )
    for defaults in (source, sink):
        assert parse_duration(defaults["gatewayTimeout"][0]).total_seconds() == gateway_options.DEFAULT_GATEWAY_TIMEOUT_S
    assert source["gateway"] == ["HEADRACE_GATEWAY", DEFAULT_GATEWAY]
    assert parse_size(source["inlineBytes"][0]) == options.DEFAULT_INLINE_BYTES
    assert source["failOnDataLoss"] == ["true"]
    assert parse_duration(source["streamTimeout"][0]).total_seconds() == options.DEFAULT_STREAM_TIMEOUT_S
    assert source["onStreamAway"] == ["fail"]
    assert sink["onOlderCheckpoint"] == sink["onSinkLoss"] == sink["onRefused"] == ["fail"]


def test_spark_columns() -> None:
    documented = [(codes(row[0])[0], row[1].replace("&lt;", "<").replace("&gt;", ">")) for row in table(SPARK, "Columns")]
    types = {field.name: field.dataType.simpleString() for field in headrace.engine.SCHEMA}
    assert [(name, kind.replace(" ", "")) for name, kind in documented] == list(types.items())


def test_columns_of_a_sink() -> None:
    documented = {codes(row[0])[0]: row[1].replace("&lt;", "<").replace("&gt;", ">") for row in table(SPARK, "Writing to a sink")}
    assert documented == {name: wanted for name, (_, wanted) in COLUMNS.items()}


def test_spark_errors() -> None:
    public = {name: getattr(headrace.engine, name) for name in headrace.engine.__all__}
    exported = {name for name, value in public.items() if isinstance(value, type) and issubclass(value, Exception)}
    assert set(names(SPARK, "Errors")) == exported - {"HeadraceError"}


# The gateway

SECTIONS: dict[str, type[BaseModel]] = {
    "`[limits]`": Limits,
    "`[[streams]]`": StreamRule,
    "`[paused]`": Paused,
    "`[peek]`": Peek,
    "`[tls]`": Tls,
    "`[[tokens]]`": Token,
    "`[http]`": Http,
    "`[telemetry]`": Telemetry,
    "`[log]`": Log,
}


@pytest.mark.parametrize("heading", ["Top level", *SECTIONS])
def test_configuration_keys(heading: str) -> None:
    tables = {heading.strip("`[]") for heading in SECTIONS}
    expected = set(SECTIONS[heading].model_fields) if heading in SECTIONS else set(Config.model_fields) - tables
    # A token may also be given as a reference, which the loader turns into its digest.
    expected |= {"token"} if heading == "`[[tokens]]`" else set()
    assert set(names(GATEWAY, heading)) == expected


@pytest.mark.parametrize("heading", ["Top level", "`[limits]`", "`[peek]`", "`[http]`", "`[telemetry]`", "`[log]`"])
def test_defaults_of_configuration_keys(heading: str) -> None:
    lines = "\n".join(f"{codes(row[0])[0]} = {codes(row[1])[0]}" for row in table(GATEWAY, heading))
    if heading == "Top level":
        assert Config.model_validate(tomllib.loads(lines)) == Config()
    else:
        model = SECTIONS[heading]
        assert model.model_validate(tomllib.loads(lines)) == model()


def test_no_section_is_left_out() -> None:
    assert set(Config.model_fields) - set(names(GATEWAY, "Top level")) == {heading.strip("`[]") for heading in SECTIONS}


@pytest.mark.parametrize("page", ["docs/run/cluster.md", "docs/start/guarantees.md"])
def test_example_configurations_are_valid(page: str, tmp_path: Path) -> None:
    Authority(tmp_path, "authority").issue("gateway")
    examples = blocks(page, "toml")
    assert examples
    for example in examples:
        file = tmp_path / "gateway.toml"
        file.write_text(example.text)
        load_config(file, environ={"HEADRACE_TOKEN": "one"})


def test_fields_of_the_status() -> None:
    empty = admin_pb2.GetStatusResponse(
        streams=[admin_pb2.StreamStatus()],
        sessions=[admin_pb2.SessionStatus()],
        pipelines=[admin_pb2.PipelineStatus()],
        sinks=[admin_pb2.SinkStatus()],
        sink_sessions=[admin_pb2.SinkSessionStatus()],
        deployments=[admin_pb2.DeploymentStatus()],
        problems=[admin_pb2.Problem()],
        problems_in_all=1,
    )
    document = status_document("127.0.0.1:7433", empty)
    assert document.pop("problems_in_all") == 1  # type: ignore[misc]  # the page says what it is beside the table
    for name, part in document.items():
        fields: Any = part[0] if isinstance(part, list) else part
        # The page sorts fields by subject. A document begins with the fields of the protocol; its order means nothing.
        assert sorted(names(STATUS, f"`{name}`")) == sorted(fields), name
    process = admin_pb2.DeploymentStatus(processes=[admin_pb2.ProcessState(kind=1, state=1)])  # type: ignore[arg-type]
    (deployment,) = status_document("", admin_pb2.GetStatusResponse(deployments=[process]))["deployments"]
    assert sorted(names(STATUS, "Processes of a deployment")) == sorted(deployment["processes"][0])


def test_events_of_the_log_and_details_of_streams_are_in_the_code() -> None:
    code = "".join(path.read_text() for path in Path(headrace.gateway.__file__).parent.rglob("*.py"))
    events = [span for span in codes(" ".join(section(GATEWAY, "`[log]`").split())) if " " in span]
    assert len(events) > 5
    details = [codes(row[1]) for row in table(OPERATE, "When a stream makes no progress")]
    told = [part for detail in details for text in detail for part in text.split(" NAME")]
    assert len(told) > 5
    assert [text for text in (*events, *told) if text.removeprefix(", ") not in code] == []


def test_states_of_streams() -> None:
    states = {state.removeprefix("STREAM_STATE_").lower() for state in admin_pb2.StreamState.DESCRIPTOR.values_by_name} - {
        "unspecified"
    }
    assert set(names(OPERATE, "When a stream makes no progress")) == states


# The protocol


def test_the_example_frame_is_true() -> None:
    (example,) = blocks(PROTOCOL, "hex")
    written = "".join(re.match(r"((?:[0-9a-f]{2} {1,2})+)", line)[1] for line in example.text.splitlines())  # type: ignore[index]
    payload = bytes.fromhex(written)
    frame = frame_pb2.Frame.FromString(payload)
    assert frame.SerializeToString() == payload
    assert f"these {len(payload)} bytes" in text(PROTOCOL)
    assert (frame.stream_id, frame.first_sequence, frame.count, frame.cursor) == (1, 41, 3, b"45")
    assert (frame.keys, frame.values) == (b"abb", b"hellohi")
    assert [int.from_bytes(frame.sequence_deltas[i : i + 4], "little") for i in (0, 4)] == [1, 3]


def test_fields_of_a_frame() -> None:
    documented = [(codes(row[0])[0], int(row[1])) for row in table(PROTOCOL, "The frame, byte by byte")]
    assert documented == [(field.name, field.number) for field in frame_pb2.Frame.DESCRIPTOR.fields]


def test_every_message_is_explained() -> None:
    explained = set(re.findall(r"\*\*(\w+)\*\*", section(PROTOCOL, "The messages, in the order in which you meet them")))
    for message in (source_pb2.IngestRequest, source_pb2.IngestResponse):
        assert {field.message_type.name for field in message.DESCRIPTOR.fields if field.message_type} <= explained


def test_every_reason_to_reject_is_explained() -> None:
    reasons = {name.removeprefix("REJECT_REASON_") for name in source_pb2.RejectReason.DESCRIPTOR.values_by_name} - {
        "UNSPECIFIED"
    }
    assert set(names(PROTOCOL, "The messages, in the order in which you meet them")) == reasons


def test_every_status_is_explained() -> None:
    # DATA_LOSS ends calls of engines, never a session.
    documented = {codes(row[1])[0] for row in table(PROTOCOL, "Reasons")}
    assert documented == {error.status.name for error in ProtocolError.__subclasses__()} - {"DATA_LOSS"}


def test_every_capability_is_explained() -> None:
    capabilities = {name.removeprefix("CAPABILITY_") for name in source_pb2.Capability.DESCRIPTOR.values_by_name}
    assert set(names(PROTOCOL, "One call")) == capabilities - {"UNSPECIFIED"}


def test_every_reason_is_explained_with_its_status() -> None:
    def reasons(error: type[ProtocolError]) -> Iterator[tuple[str, str]]:
        if error.reason is not None:
            yield reason_name(error.reason), error.status.name
        for kind in error.__subclasses__():
            yield from reasons(kind)

    # That of a call without a token is no error of a session.
    expected = {*reasons(ProtocolError), ("UNAUTHENTICATED", "UNAUTHENTICATED")}
    assert {tuple(codes(row[0]) + codes(row[1])) for row in table(PROTOCOL, "Reasons")} == expected
    assert {reason for reason, _ in expected} == {
        name.removeprefix("ERROR_REASON_") for name in connector_pb2.ErrorReason.DESCRIPTOR.values_by_name
    } - {"UNSPECIFIED"}
