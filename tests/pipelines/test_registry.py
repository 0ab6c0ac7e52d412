"""Values with a schema registry: what is framed can be read, and an outage of the registry loses nothing."""

import base64
import copy
import json
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests.gateway.certificates import Authority
from tests.pipelines.fake_registry import FakeRegistry, fake_registry

from headrace.pipelines import FormatError, GraphError, Message, OnError, Pipeline, StepError, Trial
from headrace.pipelines._errors import Unavailable
from headrace.pipelines.formats import Registry, avro, protobuf
from headrace.pipelines.formats import json as json_format
from headrace.pipelines.formats.misses import Misses
from headrace.protocol.v1.engine_pb2 import DeliveryStart

LINE = {"type": "record", "name": "Line", "fields": [{"name": "article", "type": "string"}, {"name": "count", "type": "long"}]}
NEWER = {**LINE, "fields": [*LINE["fields"], {"name": "note", "type": "string", "default": "none"}]}  # type: ignore[misc]
BASKET = {"type": "record", "name": "Basket", "fields": [{"name": "lines", "type": {"type": "array", "items": "Line"}}]}


@dataclass
class Line:
    article: str
    count: int


@pytest.fixture
def server() -> Iterator[FakeRegistry]:
    with fake_registry() as registry:
        yield registry


def trial_of(url: str, on_error: OnError = OnError.SKIP) -> Trial:
    app = Pipeline("shop", on_error=on_error)
    source = app.source("lines/*", decode=avro(kind=Line, registry=Registry(url, timeout_s=0)))
    source.map(lambda line: f"{line.article} {line.count}").sink("out")
    return Trial(app)


def test_a_record_is_read_with_the_schema_that_its_id_names(server: FakeRegistry) -> None:
    old, new = server.add("lines-value", LINE), server.add("lines-value", NEWER)
    plain = avro(LINE, Line).encoder()(Line("tea", 3))
    newer = avro(NEWER).encoder()({"article": "milk", "count": 1, "note": "cold"})
    trial = trial_of(server.url)
    payloads = [b"\0" + old.to_bytes(4) + plain, b"\0" + new.to_bytes(4) + newer] * 3
    trial.send(*(Message(payload, stream="lines/0") for payload in payloads))
    assert trial.values("out") == [b"tea 3", b"milk 1"] * 3
    assert sorted(server.requests) == ["GET /schemas/ids/1", "GET /schemas/ids/2"], "each schema once"


def test_a_sink_writes_with_the_latest_schema_of_its_subject(server: FakeRegistry) -> None:
    server.add("lines-value", {"type": "string"})
    latest = server.add("lines-value", LINE)
    form = avro(kind=Line, registry=Registry(server.url), subject="lines-value")
    assert form.encoder()(Line("tea", 3)) == b"\0" + latest.to_bytes(4) + avro(LINE, Line).encoder()(Line("tea", 3))
    assert form.decoder()(form.encoder()(Line("tea", 3))) == Line("tea", 3)


def test_a_sink_registers_its_schema_only_if_it_is_told_to(server: FakeRegistry) -> None:
    registry = Registry(server.url)
    without = avro(LINE, Line, registry=registry, subject="copies-{record}")
    with pytest.raises(FormatError, match="subject copies-Line: 404 Schema not found"):
        without.encoder()(Line("tea", 3))
    assert not server.subjects
    registering = avro(LINE, Line, registry=registry, subject="copies-{record}", register=True)
    assert registering.encoder()(Line("tea", 3))[:5] == b"\0\0\0\0\1"
    assert server.subjects == {"copies-Line": [1]}
    assert without.encoder()(Line("tea", 3))[:5] == b"\0\0\0\0\1"
    server.refuses = True
    incompatible = avro("string", registry=registry, subject="copies-Line", register=True)
    with pytest.raises(FormatError, match="subject copies-Line: 409 Schema being registered is incompatible"):
        incompatible.encoder()("tea")


def test_a_schema_is_read_with_those_that_it_refers_to(server: FakeRegistry) -> None:
    server.add("line", LINE)
    basket = server.add("basket", BASKET, [{"name": "Line", "subject": "line", "version": 1}])
    whole = {**BASKET, "fields": [{"name": "lines", "type": {"type": "array", "items": LINE}}]}
    value = {"lines": [{"article": "tea", "count": 3}]}
    payload = b"\0" + basket.to_bytes(4) + avro(whole).encoder()(value)
    assert avro(registry=Registry(server.url)).decoder()(payload) == value


def test_a_reader_with_a_schema_of_its_own_gets_its_defaults(server: FakeRegistry) -> None:
    old = server.add("lines-value", LINE)
    payload = b"\0" + old.to_bytes(4) + avro(LINE, Line).encoder()(Line("tea", 3))
    assert avro(NEWER, registry=Registry(server.url)).decoder()(payload) == {"article": "tea", "count": 3, "note": "none"}


def test_an_error_names_id_subject_and_field(server: FakeRegistry) -> None:
    server.add("lines-value", LINE)
    decode = avro(kind=Line, registry=Registry(server.url)).decoder()
    with pytest.raises(FormatError, match=r"^avro\(Line\): schema 1 of subject lines-value: field count: the payload ends there"):
        decode(b"\0\0\0\0\1\6tea")
    with pytest.raises(FormatError, match=r"^avro\(Line\): registry http://\S+, schema 9: 404 Schema not found"):
        decode(b"\0\0\0\0\x09\6tea\6")
    with pytest.raises(FormatError, match=r"^avro\(Line\): the payload does not begin with the id of a schema"):
        decode(b'{"article": "tea"}')


@pytest.fixture(scope="module")
def decode() -> Iterator[Callable[[bytes], Any]]:
    with fake_registry() as registry:
        registry.add("lines-value", LINE)
        yield avro(kind=Line, registry=Registry(registry.url)).decoder()


@given(st.binary(max_size=20))
def test_any_payload_is_read_or_refused(decode: Callable[[bytes], Any], payload: bytes) -> None:
    for framed in (payload, b"\0\0\0\0\1" + payload):
        try:
            read = decode(framed)
        except FormatError as error:
            read, said = None, str(error)
        assert isinstance(read, Line) or said.startswith("avro(Line): ")


@pytest.mark.parametrize("policy", [OnError.FAIL, OnError.SKIP])
def test_no_message_is_left_out_while_the_registry_is_down(server: FakeRegistry, policy: OnError) -> None:
    server.add("lines-value", LINE)
    payload = b"\0\0\0\0\1" + avro(LINE, Line).encoder()(Line("tea", 3))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        down = trial_of(f"http://127.0.0.1:{taken.getsockname()[1]}", policy)
        with pytest.raises(StepError, match=r"no answer within 0 s.*so it is not left out"):
            down.send(Message(payload, stream="lines/0"))
    for nonsense in ((500, b"{}"), (503, b"<html>"), (200, b"<html>"), (401, b'{"error_code": 401, "message": "no"}')):
        server.answers = [nonsense]
        trial = trial_of(server.url, policy)
        with pytest.raises(StepError, match="no answer within 0 s"):
            trial.send(Message(payload, stream="lines/0"))


def test_a_registry_that_comes_back_is_awaited(server: FakeRegistry) -> None:
    server.add("lines-value", LINE)
    server.answers = [(503, b"{}"), (500, b"")]
    payload = b"\0\0\0\0\1" + avro(LINE, Line).encoder()(Line("tea", 3))
    assert avro(kind=Line, registry=Registry(server.url)).decoder()(payload) == Line("tea", 3)
    assert len(server.requests) == 3


def test_a_slow_registry_is_asked_again_until_the_time_is_over(server: FakeRegistry) -> None:
    server.add("lines-value", LINE)
    server.unanswered = 3
    payload = b"\0\0\0\0\1" + avro(LINE, Line).encoder()(Line("tea", 3))
    slow = {"timeout": 0.05}
    with pytest.raises(Unavailable, match=r"schema 1: no answer within 0 s: \w*Timeout: "):
        avro(kind=Line, registry=Registry(server.url, slow, timeout_s=0)).decoder()(payload)
    assert server.unanswered == 2
    assert avro(kind=Line, registry=Registry(server.url, slow)).decoder()(payload) == Line("tea", 3)
    assert len(server.requests) >= 4


@pytest.mark.parametrize("by_column", [False, True])
def test_an_unknown_schema_is_asked_for_again_ever_more_rarely(server: FakeRegistry, by_column: bool) -> None:
    now = [0.0]
    form = avro(LINE, registry=Registry(server.url, clock=lambda: now[0]))
    payload = b"\0\0\0\0\1" + avro(LINE, Line).encoder()(Line("tea", 3))
    decode, columns = form.decoder(), form.columns()

    def read() -> list[dict[str, Any]]:
        if by_column:
            block = columns.read([payload] * 3)
            assert all("schema 1: 404 Schema not found" in str(error) for error in block.errors.values())
            return block.batch.to_pylist()
        if now[0] == 20:
            return [decode(payload) for _ in range(3)]
        for _ in range(3):
            with pytest.raises(FormatError, match="schema 1: 404 Schema not found"):
                decode(payload)
        return []

    for now[0], requests in ((0, 1), (0.4, 1), (0.5, 2), (1.4, 2), (1.5, 3), (3.4, 3), (3.5, 4), (7.5, 5), (12.4, 5), (12.5, 6)):
        assert read() == []
        assert server.requests == ["GET /schemas/ids/1"] * requests
    server.add("lines-value", LINE)
    now[0] = 17.4
    assert read() == []
    now[0] = 20
    assert read() == [{"article": "tea", "count": 3}] * 3
    assert len(server.requests) == 7


class Asked(RuleBasedStateMachine):
    """Misses of a few keys beside a model: when each may be asked for again, however often it was missing."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.misses = Misses[int](lambda: self.now)
        self.missed: dict[int, tuple[float, int]] = {}

    @rule(seconds=st.sampled_from([0.25, 0.5, 1.0, 3.0, 5.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(key=st.integers(0, 3), is_known=st.booleans())
    def is_asked_for(self, key: int, is_known: bool) -> None:
        at, times = self.missed.get(key, (0.0, 0))
        kept = times and self.now < at + min(0.5 * 2 ** (times - 1), 5.0)
        assert self.misses.error(key) == (f"{key}, {times}" if kept else None)
        if kept:
            return
        if is_known:
            self.missed.pop(key, None)
            self.misses.remove(key)
        else:
            self.missed[key] = self.now, times + 1
            self.misses.add(key, f"{key}, {times + 1}")


TestMisses = Asked.TestCase
TestMisses.settings = settings(max_examples=50, deadline=None)


def test_threads_that_miss_one_schema_at_once_count_as_one_miss() -> None:
    now = [0.0]
    misses = Misses[int](lambda: now[0])
    for _ in range(4):
        misses.add(1, "404")
    now[0] = 0.5
    assert misses.error(1) is None


def test_a_registry_that_several_threads_use_forgets_and_keeps_without_an_error(server: FakeRegistry) -> None:
    registry = Registry(server.url)
    registry._subjects = Guarded(registry._lock)  # type: ignore[assignment]
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(registry.subjects, [1] * 8)) == {""}


class Guarded(dict[int, str]):
    """A cache that is no cache for several threads at once."""

    def __init__(self, lock: threading.Lock) -> None:
        super().__init__()
        self._guard = lock

    def get(self, key: int, default: Any = None) -> Any:
        assert self._guard.locked()
        return super().get(key, default)

    def __setitem__(self, key: int, value: str) -> None:
        assert self._guard.locked()
        super().__setitem__(key, value)


def test_only_some_unknown_schemas_are_remembered(server: FakeRegistry) -> None:
    decode = avro(kind=Line, registry=Registry(server.url, clock=lambda: 0.0)).decoder()
    for number in (*range(1, 1026), 1025, 1):
        with pytest.raises(FormatError, match=f"schema {number}: 404 Schema not found"):
            decode(b"\0" + number.to_bytes(4))
    assert len(server.requests) == 1026, "the first one again"


def test_the_subjects_of_a_schema_are_asked_for_once(server: FakeRegistry) -> None:
    server.add("lines-value", LINE)
    decode = avro(kind=Line, registry=Registry(server.url, clock=lambda: 0.0)).decoder()
    for _ in range(3):
        with pytest.raises(FormatError, match="schema 1 of subject lines-value: field count"):
            decode(b"\0\0\0\0\1\6tea")
    assert server.requests == ["GET /schemas/ids/1", "GET /schemas/ids/1/subjects"]


def test_a_registry_behind_tls_is_read_by_who_trusts_its_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "own")
    issued = authority.issue("registry")
    with fake_registry(issued.cert, issued.key) as server:
        server.add("lines-value", LINE)
        payload = b"\0\0\0\0\1" + avro(LINE, Line).encoder()(Line("tea", 3))
        trusting = Registry(server.url, {"ssl.ca.location": str(authority.cert)})
        for registry in (trusting, pickle.loads(pickle.dumps(trusting))):
            assert avro(kind=Line, registry=registry).decoder()(payload) == Line("tea", 3)
        with pytest.raises(Unavailable, match=r"no answer within 0 s: .*CERTIFICATE_VERIFY_FAILED"):
            avro(kind=Line, registry=Registry(server.url, timeout_s=0)).decoder()(payload)


@pytest.mark.parametrize(
    ("header", "options"),
    [
        ("Basic dXNlcjpwYXNz", {"basic.auth.user.info": "user:pass"}),
        ("Bearer pass", {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": "pass"}),
    ],
)
def test_a_registry_answers_who_has_the_password(server: FakeRegistry, header: str, options: dict[str, str]) -> None:
    bearer = {"bearer.auth.logical.cluster": "c", "bearer.auth.identity.pool.id": "p"} if "Bearer" in header else {}
    server.add("lines-value", LINE)
    server.authorization = header
    payload = b"\0\0\0\0\1" + avro(LINE, Line).encoder()(Line("tea", 3))
    assert avro(kind=Line, registry=Registry(server.url, options | bearer)).decoder()(payload) == Line("tea", 3)
    wrong = {name: value.replace("pass", "secret") for name, value in options.items()}
    with pytest.raises(Unavailable, match="schema 1: no answer within 0 s: 401 Unauthorized") as caught:
        avro(kind=Line, registry=Registry(server.url, wrong | bearer, timeout_s=0)).decoder()(payload)
    assert "secret" not in str(caught.value)


def test_a_registry_crosses_processes(server: FakeRegistry) -> None:
    server.add("lines-value", LINE)
    registry = Registry(server.url)
    for other in (pickle.loads(pickle.dumps(registry)), copy.deepcopy(registry)):
        assert json.loads(other.schema(1).text) == LINE


def test_what_cannot_work_is_refused_when_it_is_made() -> None:
    registry: Any = Registry("http://127.0.0.1:1")
    for arguments, reason in (
        ({}, "needs a schema, or a registry"),
        ({"schema": LINE, "subject": "a"}, "subject and register need a registry"),
        ({"registry": registry, "register": True}, "register needs the schema and its subject"),
        ({"registry": registry, "schema": LINE, "register": True}, "register needs the schema and its subject"),
    ):
        with pytest.raises(GraphError, match=reason):
            avro(**arguments)
    with pytest.raises(GraphError, match="registry nonsense"):
        Registry("nonsense", {"no.such.setting": 1})
    sink = avro(registry=registry)
    with pytest.raises(FormatError, match="a sink needs the subject of its schema"):
        sink.encoder()("tea")


def test_json_is_framed_and_its_class_is_its_schema(server: FakeRegistry) -> None:
    registry = Registry(server.url)
    form = json_format(Line, registry=registry, subject="lines-value", register=True)
    payload = form.encoder()(Line("tea", 3))
    assert payload == b'\0\0\0\0\1{"article":"tea","count":3}'
    assert form.decoder()(payload) == Line("tea", 3)
    assert json_format(registry=registry).decoder()(payload) == {"article": "tea", "count": 3}
    registered = json.loads(server.schemas[0]["schema"])
    assert registered["title"] == "Line"
    assert registered["$defs"]["Line"]["required"] == ["article", "count"]
    latest = json_format(Line, registry=registry, subject="lines-value")
    assert latest.encoder()(Line("tea", 3)) == payload
    other = json_format(schema={"title": "Else"}, registry=registry, subject="of-{record}")
    with pytest.raises(FormatError, match="subject of-Else: 404 Schema not found"):
        other.encoder()({})
    with pytest.raises(
        FormatError, match=r"^json\(Line\): schema 1 of subject lines-value: Expected `int`, got `str` - at `\$.count`"
    ):
        form.decoder()(b'\0\0\0\0\1{"article": "tea", "count": "3"}')


def test_the_class_of_a_message_is_found_in_its_file(server: FakeRegistry) -> None:
    registry = Registry(server.url)
    for kind, value, place in (
        (descriptor_pb2.FileDescriptorSet, descriptor_pb2.FileDescriptorSet(file=[{"name": "a"}]), b"\0"),
        (descriptor_pb2.DescriptorProto, descriptor_pb2.DescriptorProto(name="a"), b"\2\4"),
        (
            descriptor_pb2.DescriptorProto.ExtensionRange,
            descriptor_pb2.DescriptorProto.ExtensionRange(start=1, end=200),
            b"\4\4\0",
        ),
    ):
        form = protobuf(kind, registry=registry, subject="files-{record}", register=True)
        payload = form.encoder()(value)
        assert payload[5:] == place + value.SerializeToString()
        assert form.decoder()(payload) == value
    decode = protobuf(descriptor_pb2.FileDescriptorSet, registry=registry).decoder()
    for wrong, reason in (
        (b"\2\4\2\1a", r"the message is a google\.protobuf\.DescriptorProto"),
        (b"\4\4\x80\x08a", r"its file has no message \(2, 512\)"),
        (b"\2", "the payload ends before its message"),
        (b"\xff\xff\xff\xff\xff\xff", "does not name the message"),
        (b"\1", "does not name the message in its file: -1 numbers"),
        (b"\0\x0a\x7f", "Error parsing message"),
    ):
        with pytest.raises(FormatError, match=rf"^protobuf\(google\.protobuf\.\w+\): schema 1 of subject .*{reason}"):
            decode(b"\0\0\0\0\1" + wrong)


def test_a_sink_writes_messages_as_the_latest_schema_numbers_them(server: FakeRegistry) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="other.proto", package="google.protobuf")
    file.message_type.add(name="Before")
    file.message_type.add(name="FileDescriptorSet")
    server.add("sets-value", base64.b64encode(file.SerializeToString()).decode(), type="PROTOBUF")
    registry, value = Registry(server.url), descriptor_pb2.FileDescriptorSet(file=[{"name": "a"}])
    form = protobuf(descriptor_pb2.FileDescriptorSet, registry=registry, subject="sets-value")
    assert form.encoder()(value) == b"\0\0\0\0\1\2\2" + value.SerializeToString()
    assert form.decoder()(form.encoder()(value)) == value
    absent = protobuf(descriptor_pb2.DescriptorProto, registry=registry, subject="sets-value")
    with pytest.raises(FormatError, match=r"no such message; it has google\.protobuf\.Before, google\.protobuf\.File"):
        absent.encoder()(descriptor_pb2.DescriptorProto())
    # A registry that does not serialize its schemas.
    server.add("source-value", 'syntax = "proto3"; message FileDescriptorSet {}', type="PROTOBUF")
    unknown = protobuf(descriptor_pb2.FileDescriptorSet, registry=registry, subject="source-value")
    assert unknown.encoder()(value) == b"\0\0\0\0\2\0" + value.SerializeToString()
    assert unknown.decoder()(unknown.encoder()(value)) == value


def test_a_class_is_registered_with_the_files_that_it_imports(server: FakeRegistry) -> None:
    form = protobuf(DeliveryStart, registry=Registry(server.url), subject="starts", register=True)
    form.encoder()(DeliveryStart())
    imports = {file.name for file in DeliveryStart.DESCRIPTOR.file.dependencies}
    assert imports < set(server.subjects)
    last = server.schemas[server.subjects["starts"][0] - 1]
    assert last["references"] == [{"name": name, "subject": name, "version": 1} for name in sorted(imports)]
    assert form.decoder()(form.encoder()(DeliveryStart(sink="out"))) == DeliveryStart(sink="out")


def test_a_schema_of_another_type_is_refused(server: FakeRegistry) -> None:
    registry = Registry(server.url)
    server.add("a", LINE)
    server.add("b", {"title": "Line"}, type="JSON")
    for form, payload, reason in (
        (json_format(Line, registry=registry, subject="a"), b"\0\0\0\0\1{}", "of type AVRO"),
        (avro(kind=Line, registry=registry, subject="b"), b"\0\0\0\0\2\0", "of type JSON"),
        (protobuf(descriptor_pb2.DescriptorProto, registry=registry, subject="b"), b"\0\0\0\0\2\0", "of type JSON"),
    ):
        with pytest.raises(FormatError, match=rf"schema \d of subject [ab]: the schema is {reason}"):
            form.decoder()(payload)
        with pytest.raises(FormatError, match=rf"subject [ab]: the schema is {reason}"):
            form.encoder()(Line("tea", 3))


def test_other_formats_refuse_arguments_that_need_others() -> None:
    registry: Any = Registry("http://127.0.0.1:1")
    for made, reason in (
        (lambda: json_format(Line, subject="a"), "subject and register need a registry"),
        (lambda: json_format(Line, schema={}), "schema needs a registry"),
        (lambda: json_format(Line, registry=registry, register=True), "register needs the schema and its subject"),
        (
            lambda: json_format(registry=registry, subject="a", register=True),
            "None has no JSON schema: TypeError: register",
        ),
        (lambda: json_format(registry=registry, schema="{"), "the schema '{' is invalid"),
        (lambda: json_format(registry=registry, schema="[]"), r"the schema '\[\]' is invalid: TypeError: a schema is an object"),
        (lambda: protobuf(DeliveryStart, register=True), "subject and register need a registry"),
    ):
        with pytest.raises(GraphError, match=reason):
            made()
