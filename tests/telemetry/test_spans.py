"""A message with a `traceparent` travels from its source to a sink, and a collector receives its spans."""

import re
from pathlib import Path

import pytest
from scripts.draw_trace import drawn
from tests.gateway.processes import gateway_process
from tests.telemetry.collector import Collector, Span, collector
from tests.telemetry.world import Kept, Numbers, connected, running, wait_until

from headrace.telemetry.spans import SCHEMA_URL

PICTURE = Path(__file__).parents[2] / "docs" / "run" / "trace.svg"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECOND_TRACE, SECOND_PARENT = "1af7651916cd43dd8448eb211c80319c", "c7ad6b7169203331"
UNSAMPLED = "2af7651916cd43dd8448eb211c80319c"
PAYLOAD, HEADER, TOKEN = "planted-payload", "planted-header", "planted-token-0123456789abcdef"
CLIENT, CONSUMER = 3, 5
"""The kinds of spans, as OTLP numbers them."""


def traceparent(trace: str, parent: str, sampled: bool = True) -> tuple[str, bytes]:
    return "traceparent", f"00-{trace}-{parent}-{'01' if sampled else '00'}".encode()


MESSAGES = [
    None,
    [traceparent(UNSAMPLED, PARENT, sampled=False)],
    [("private", HEADER.encode()), traceparent(TRACE, PARENT)],
    [traceparent(SECOND_TRACE, SECOND_PARENT)],
]


def names_in(picture: str) -> set[str]:
    return set(re.findall(r'class="span"[^>]*>([^<]+)<', picture))


def travel(folder: Path, config: str, environ: dict[str, str], *options: str, collector: Collector | None) -> Kept:
    """Sends the messages through, until all are acknowledged and their spans have come, if there is a collector."""
    file = folder / "gateway.toml"
    file.write_text(config)
    source, sink = Numbers(MESSAGES, PAYLOAD), Kept()
    with (
        gateway_process("--config", file) as gateway,
        running(gateway.address, folder, {**environ, "HEADRACE_TOKEN": TOKEN}, *options),
        connected(gateway.address, source, sink, token=TOKEN),
    ):
        wait_until("all is received", lambda: len(sink.received) == len(MESSAGES), folder)
        wait_until("all is acknowledged", lambda: source.acknowledged_up_to == len(MESSAGES), folder)
        if collector is not None:
            collector.wait_for("receive n/0", "process n/0", "process counting", "send out", "settle n/0")
        gateway.process.terminate()
        assert gateway.wait() == 0
        assert "Traceback" not in gateway.log
    return sink


@pytest.mark.parametrize("options", [(), ("--real-time", "--trigger-interval", "200ms")], ids=["micro-batches", "real-time"])
def test_a_message_has_its_spans_in_its_own_trace(tmp_path: Path, options: tuple[str, ...]) -> None:
    with collector(tmp_path / "collector") as there:
        config = f'[telemetry]\notlp_endpoint = "{there.url}"\n'
        sink = travel(tmp_path, config, {"OTEL_EXPORTER_OTLP_ENDPOINT": there.url}, *options, collector=there)
        spans, raw = there.spans(), there.raw
    assert sorted(map(tuple, sink.received.values())) == sorted(tuple(headers or ()) for headers in MESSAGES)
    contexts = {(TRACE, PARENT), (SECOND_TRACE, SECOND_PARENT)}
    by_name: dict[str, list[Span]] = {}
    for span in spans:
        by_name.setdefault(span.name, []).append(span)
        # Messages of several traces share a frame, and its span: the first one is the parent, and all are linked.
        assert (span.trace, span.parent) == span.links[0]
        assert set(span.links) <= contexts
        assert span.schema == SCHEMA_URL
        assert span.attributes["messaging.system"] == "headrace"
        assert span.attributes["messaging.operation.type"] == span.operation
        assert span.name == f"{span.operation} {span.attributes['messaging.destination.name']}"
        assert span.kind == (CONSUMER if span.operation == "process" else CLIENT)
        assert span.status == 0
        assert span.service == ("headrace-engine" if span.operation == "process" else "headrace-gateway")
    for name, found in by_name.items():
        assert {link for span in found for link in span.links} == contexts, name
    assert set(by_name) == {"receive n/0", "process n/0", "process counting", "send out", "settle n/0"}
    if not options:
        # The picture on the page about tracing was made from this trace; its times differ from run to run.
        assert names_in(PICTURE.read_text()) == names_in(drawn([vars(span) for span in spans]))
    first = {name: min(span.begun_ns for span in found) for name, found in by_name.items()}
    assert first["receive n/0"] < first["process n/0"] < first["process counting"]
    assert first["receive n/0"] < first["settle n/0"]
    for planted in (PAYLOAD, HEADER, TOKEN, UNSAMPLED):
        assert planted.encode() not in raw
    assert bytes.fromhex(UNSAMPLED) not in raw


def test_nothing_is_exported_unless_an_endpoint_is_configured_and_a_collector_that_is_away_harms_nothing(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:1"
    config = f'[telemetry]\notlp_endpoint = "{nowhere}"\n'
    sink = travel(tmp_path, config, {"OTEL_EXPORTER_OTLP_ENDPOINT": nowhere}, collector=None)
    assert len(sink.received) == len(MESSAGES)
