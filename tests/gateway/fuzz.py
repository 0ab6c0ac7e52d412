"""Calls that nobody should make: random, half-right and broken messages for every method that the gateway serves."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from tests.gateway.wire import frame

from headrace.protocol.v1 import admin_pb2, engine_pb2, sink_pb2, source_pb2
from headrace.protocol.v1.frame_pb2 import Frame

FILES = (admin_pb2, engine_pb2, sink_pb2, source_pb2, health_pb2, reflection_pb2)
METHODS: dict[str, MethodDescriptor] = {
    f"/{service.full_name}/{method.name}": method
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    # It ends the sessions of all, which is what it is for.
    if method.name != "Drain"
}

# No pattern among them reaches the names of callers who behave, not even with a byte changed.
STREAMS = ["fuzz/0", "fuzz/1", "fuzz/2", "fuzz.a/x"]
PATTERNS = ["fuzz/*", "fuzz/0", "f*zz/1", "fuzz.a/x*", "f*u*z*z*/0*"]
NAMES = ["fuzz-p", "fuzz-q", "fuzz-sink", "fuzz-sink", "r1", "r1/a", "r2/b", "i", "j", "1"]
WRONG = ["", "ü/0", "a/b/c", "fuzz", "\n", "f" * 300, "f*" * 120, "\u2028", "fuzz/" + "0" * 250]
INTEGERS = [0, 1, 2, 3, 7, 10, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1]
INSTANCES = ["i", "j", "k", "l", "m", "n"]
MAX_BYTES = 20_000


@dataclass(frozen=True)
class Call:
    """One call: what it sends, and whether its sender waits a moment for answers in between."""

    method: str
    requests: tuple[bytes, ...]

    def __str__(self) -> str:
        shown = [f"{request[:500].hex()} ({len(request)} bytes)" for request in self.requests]
        return f"{self.method} {shown}"


def calls(seed: str) -> Iterator[Call]:
    """Calls without end, the same for the same seed."""
    rng = random.Random(seed)
    while True:
        name = rng.choice(list(METHODS))
        method = METHODS[name]
        script = SCRIPTS.get(name)
        if script is not None and rng.random() < 0.7:
            messages = [message.SerializeToString() for message in script(rng)]
        else:
            count = rng.choice([0, 1, 1, 2, 5, 20]) if method.client_streaming else 1
            messages = [random_message(rng, method.input_type.full_name).SerializeToString() for _ in range(count)]
        if messages and rng.random() < 0.5:
            at = rng.randrange(len(messages))
            messages[at] = mutated(rng, messages[at])
        yield Call(name, tuple(disordered(rng, messages, method.client_streaming and rng.random() < 0.3)))


def disordered(rng: random.Random, requests: list[bytes], streams: bool) -> list[bytes]:
    """Sometimes with one left out, one sent twice, or two in each other's place."""
    if streams and requests:
        at = rng.randrange(len(requests))
        match rng.randrange(3):
            case 0:
                del requests[at]
            case 1:
                requests.insert(rng.randrange(len(requests) + 1), requests[at])
            case 2:
                other = rng.randrange(len(requests))
                requests[at], requests[other] = requests[other], requests[at]
    return requests


def mutated(rng: random.Random, data: bytes) -> bytes:
    """With bytes changed, cut off, added or repeated."""
    broken = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 3, 10])):
        at = rng.randrange(len(broken) + 1)
        match rng.randrange(5):
            case 0 if at < len(broken):
                broken[at] = rng.randrange(256)
            case 1 if at < len(broken):
                broken[at] ^= 1 << rng.randrange(8)
            case 2:
                broken[at:at] = rng.randbytes(rng.choice([1, 2, 8]))
            case 3:
                del broken[at : at + rng.choice([1, 4, 100])]
            case _:
                broken += broken[at : at + 50]
    return bytes(broken)


# Single messages


def random_message(rng: random.Random, full_name: str, depth: int = 0) -> Message:
    """A message of a type, with fields that are right, wrong, or absent."""
    message: Message = message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName(full_name))()
    fields = list(message.DESCRIPTOR.fields)
    for field in rng.sample(fields, rng.randint(min(1, len(fields)), len(fields))):
        if field.message_type is not None:
            if depth < 4:
                fill(rng, message, field, lambda name=field.message_type.full_name: random_message(rng, name, depth + 1))
        elif field.enum_type is not None:
            fill(rng, message, field, lambda: rng.choice([0, 1, 2, 3, 4, 99]))
        else:
            fill(rng, message, field, lambda kind=field.type: VALUES[kind](rng))
    return message


def fill(rng: random.Random, message: Message, field: FieldDescriptor, value: Callable[[], Any]) -> None:
    """Sets a field."""
    if field.is_repeated:
        for _ in range(rng.choice([0, 1, 1, 2, 3, 30])):
            if field.message_type is not None:
                getattr(message, field.name).add().CopyFrom(value())
            else:
                getattr(message, field.name).append(value())
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(value())
    else:
        setattr(message, field.name, value())


def number(bits: int) -> Callable[[random.Random], int]:
    return lambda rng: rng.choice(INTEGERS) % 2**bits if rng.random() < 0.8 else rng.getrandbits(bits)


def text(rng: random.Random) -> str:
    if rng.random() < 0.8:
        return rng.choice(STREAMS + PATTERNS + NAMES)
    return rng.choice(WRONG) if rng.random() < 0.8 else "".join(rng.choices("abü/._-0", k=rng.randrange(20)))


def data(rng: random.Random) -> bytes:
    size = rng.choice([0, 0, 1, 4, 8, 12, 40, 1000, MAX_BYTES])
    return rng.choice([bytes(size), b"\xff" * size, b"\x01\0\0\0" * (size // 4), rng.randbytes(size)])


VALUES: dict[int, Callable[[random.Random], Any]] = {
    FieldDescriptor.TYPE_UINT32: number(32),
    FieldDescriptor.TYPE_UINT64: number(64),
    FieldDescriptor.TYPE_INT32: number(31),
    FieldDescriptor.TYPE_INT64: number(63),
    FieldDescriptor.TYPE_SINT32: number(31),
    FieldDescriptor.TYPE_DOUBLE: lambda rng: rng.choice([0.0, -1.0, 1.5, 1e300, math.inf, -math.inf, math.nan]),
    FieldDescriptor.TYPE_BOOL: lambda rng: rng.random() < 0.5,
    FieldDescriptor.TYPE_STRING: text,
    FieldDescriptor.TYPE_BYTES: data,
}


# Sequences that begin as they should


def some_frame(rng: random.Random, first: int, odd: float = 0.3) -> Frame:
    """A frame that is right, or nearly."""
    values = [rng.randbytes(rng.choice([0, 1, 10, 300])) for _ in range(rng.choice([1, 1, 2, 10, 100]))]
    made = frame(
        1 if rng.random() >= odd else rng.choice([2, 9]), first, values, step=rng.choice([1, 1, 1, 3]) if len(values) > 1 else 1
    )
    if rng.random() < 0.2:
        made.cursor = rng.randbytes(rng.choice([0, 8, 4096] if rng.random() >= odd else [70_000]))
    if rng.random() < odd:
        field = rng.choice(list(made.DESCRIPTOR.fields))
        setattr(made, field.name, VALUES[field.type](rng))
    return made


def ingest(rng: random.Random) -> Iterator[Message]:
    request = source_pb2.IngestRequest
    yield request(hello=source_pb2.Hello(protocol_version=1, connector="fuzz", instance=rng.choice(INSTANCES)))
    for stream_id in range(1, rng.choice([2, 3])):
        kind = source_pb2.SOURCE_KIND_REPLAYABLE if rng.random() < 0.8 else source_pb2.SOURCE_KIND_REDELIVERING
        starts = rng.random() < 0.05
        yield request(
            open_stream=source_pb2.OpenStream(stream_id=stream_id, stream=rng.choice(STREAMS), kind=kind, chooses_start=starts)
        )
    sequence = rng.choice([0, 1, 1, 50])
    odd = rng.choice([0, 0.05, 0.3])
    for _ in range(rng.randrange(30)):
        if rng.random() >= odd:
            made = some_frame(rng, sequence, odd)
            yield request(frame=made)
            sequence = min(sequence + made.count * 3, 2**63 - 1)
        else:
            yield random_message(rng, request.DESCRIPTOR.full_name)


def serve_sink(rng: random.Random) -> Iterator[Message]:
    request = sink_pb2.SinkServiceAttachRequest
    hello = sink_pb2.SinkHello(
        protocol_version=1,
        connector="fuzz",
        sink="fuzz-sink",
        instance=rng.choice(INSTANCES),
        mode=rng.choice([1, 1, 1, 1, 2, 3]),
    )
    for _ in range(rng.choice([0, 0, 2])):
        hello.staged.add().CopyFrom(some_part(rng))
        hello.prepared.add().CopyFrom(some_part(rng).transaction)
        hello.committed.add(pipeline="fuzz-q", batch=rng.choice(INTEGERS) % 2**63)
    yield request(hello=hello)
    for n in range(1, rng.choice([1, 1, 1, 3, 12])):
        match rng.randrange(6):
            case 0 | 1:
                yield request(staged=sink_pb2.Staged(id=n))
            case 2:
                yield request(prepared=sink_pb2.Prepared(transaction=some_part(rng).transaction))
            case 3:
                yield request(committed=sink_pb2.Committed(transaction=some_part(rng).transaction))
            case 4:
                yield request(busy=sink_pb2.SinkBusy())
            case _:
                yield random_message(rng, request.DESCRIPTOR.full_name)


def answers(rng: random.Random, told: sink_pb2.SinkServiceAttachResponse) -> Iterator[Message]:
    """How a sink answers its requests: mostly as it should."""
    request = sink_pb2.SinkServiceAttachRequest
    if rng.random() < 0.05:
        yield random_message(rng, request.DESCRIPTOR.full_name)
    match told.WhichOneof("message"):
        case "end_part":
            staged = sink_pb2.Staged(id=told.end_part.id)
            for _ in range(rng.choice([0, 0, 0, 1, 3])):
                staged.refused.add(sequence=rng.randrange(told.end_part.messages + 1), reason="odd")
            yield request(staged=staged)
        case "prepare" if rng.random() < 0.8:
            yield request(prepared=sink_pb2.Prepared(transaction=told.prepare.transaction))
        case "prepare":
            yield request(failed=sink_pb2.Failed(transaction=told.prepare.transaction, reason="no"))
        case "commit":
            yield request(committed=sink_pb2.Committed(transaction=told.commit.transaction))
        case "start_part" if rng.random() < 0.1:
            yield request(failed=sink_pb2.Failed(part_id=told.start_part.id, reason="no"))


def some_run(rng: random.Random) -> int:
    """The number of a run."""
    return rng.choice([1, 1, 1, 1, 1, 0, 2])


def some_part(rng: random.Random) -> sink_pb2.Part:
    transaction = sink_pb2.Transaction(pipeline=rng.choice(["fuzz-q", "fuzz-r"]), batch=rng.choice([0, 0, 1, 2, 2**63 - 1]))
    return sink_pb2.Part(
        transaction=transaction, partition=rng.choice([0, 0, 1, 2**32 - 1]), attempt=rng.choice(["r1/a", "r1/a", "r2/b"])
    )


def deliver(rng: random.Random) -> Iterator[Message]:
    request = engine_pb2.DeliverRequest
    start = engine_pb2.DeliveryStart(sink="fuzz-sink", part=some_part(rng), accept_older=True, run_number=some_run(rng))
    yield request(start=start)
    sent = 0
    for _ in range(rng.randrange(4)):
        made = some_frame(rng, sent, rng.choice([0, 0, 0.5]))
        sent += made.count
        yield request(frame=made)
    yield request(end=engine_pb2.DeliveryEnd(messages=sent % 2**63))


def vote(rng: random.Random) -> Iterator[Message]:
    parts = [some_part(rng) for _ in range(rng.choice([1, 1, 2]))]
    if rng.random() < 0.8:
        parts = [part for part in parts if part.transaction == parts[0].transaction]
    request = engine_pb2.VoteRequest(sink="fuzz-sink", transaction=parts[0].transaction, parts=parts, run_number=some_run(rng))
    request.instances.extend(rng.choice(["i", "j"]) for _ in range(rng.choice([0, 0, len(parts), 5])))
    yield request


def report(rng: random.Random) -> Iterator[Message]:
    request = random_message(rng, engine_pb2.ReportCommitsRequest.DESCRIPTOR.full_name)
    request.ClearField("run_number")
    pipeline, run = rng.choice(["fuzz-q", "fuzz-r"]), rng.choice(["r1", "r1", "r2"])
    request.MergeFrom(engine_pb2.ReportCommitsRequest(pipeline=pipeline, run=run, run_number=some_run(rng)))
    del request.sinks[:]  # type: ignore[attr-defined]
    request.sinks.append("fuzz-sink")  # type: ignore[attr-defined]
    yield request


def some_pipeline(rng: random.Random) -> engine_pb2.Pipeline:
    patterns = rng.sample(PATTERNS, rng.choice([1, 2]))
    return engine_pb2.Pipeline(name="fuzz-p", run=rng.choice([1, 1, 2]), streams=patterns, skip_lost=rng.random() < 0.5)


def with_pipeline(request: type[Any]) -> Callable[[random.Random], Iterator[Message]]:
    def make(rng: random.Random) -> Iterator[Message]:
        message = random_message(rng, request.DESCRIPTOR.full_name)
        message.pipeline.CopyFrom(some_pipeline(rng))  # type: ignore[attr-defined]
        yield message

    return make


_V1 = "/headrace.protocol.v1."
SCRIPTS: dict[str, Callable[[random.Random], Iterator[Message]]] = {
    f"{_V1}SourceService/Ingest": ingest,
    f"{_V1}SinkService/Attach": serve_sink,
    f"{_V1}EngineService/Deliver": deliver,
    f"{_V1}EngineService/Vote": vote,
    f"{_V1}EngineService/ReportCommits": report,
    f"{_V1}EngineService/Attach": with_pipeline(engine_pb2.AttachRequest),
    f"{_V1}EngineService/Plan": with_pipeline(engine_pb2.PlanRequest),
    f"{_V1}EngineService/Fetch": with_pipeline(engine_pb2.FetchRequest),
    f"{_V1}EngineService/Detach": with_pipeline(engine_pb2.DetachRequest),
}
