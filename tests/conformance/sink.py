"""A small sink on the raw protocol that keeps every rule, in each of the three modes; subclasses break one rule each.

Visible messages are in the folder `out`, a file for each transaction, with an object for each message on a line. A two-phase sink
has its parts in `staged`, and its votes in `prepared`; each file is written under another name first, and then renamed.
"""

import argparse
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio
from tests.conformance.connector import Connector

from headrace.contract.columns import NULL_LENGTH
from headrace.protocol.v1 import frame_pb2
from headrace.protocol.v1 import sink_pb2 as pb
from headrace.protocol.v1.sink_pb2_grpc import SinkServiceStub
from headrace.protocol.v1.source_pb2 import CAPABILITY_HEARTBEAT, CAPABILITY_RUNS

MODES = {
    "two-phase": pb.SINK_MODE_TWO_PHASE,
    "batch-idempotent": pb.SINK_MODE_BATCH_IDEMPOTENT,
    "at-least-once": pb.SINK_MODE_AT_LEAST_ONCE,
}
REFUSED = "refused"
"""The value that it refuses."""


@dataclass(eq=False)
class Arriving:
    """A part that is being received."""

    part: pb.Part
    values: list[str | None] = field(default_factory=list)
    refused: list[pb.Staged.Refused] = field(default_factory=list)
    count: int = 0


def values_of(frame: frame_pb2.Frame) -> Iterator[str | None]:
    """The values of a frame, as text."""
    at = 0
    for (length,) in struct.iter_unpack("<I", frame.value_lengths):
        if length == NULL_LENGTH:
            yield None
        else:
            yield frame.values[at : at + length].decode()
            at += length


class Sink(Connector):
    """The sink."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.folder = Path(options.folder)
        self.two_phase = options.mode == "two-phase"
        self.idempotent = options.mode == "batch-idempotent"
        for name in ("staged", "prepared", "out"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.memory: dict[str, tuple[pb.Part, list[str | None]]] = {}
        """The parts that a batch-idempotent sink has, by name."""

    # Its storage

    def name(self, what: pb.Part | pb.Transaction) -> str:
        """A file name for something, whatever characters it has."""
        return hashlib.sha256(what.SerializeToString(deterministic=True)).hexdigest()[:24]

    def write(self, folder: str, name: str, document: object) -> None:
        """Writes a file as a whole."""
        path = self.folder / folder / f".{name}"
        path.write_text(json.dumps(document))
        path.rename(self.folder / folder / name)

    def stored(self, folder: str) -> list[Any]:
        """The content of a folder's files."""
        return [json.loads(path.read_text()) for path in sorted((self.folder / folder).glob("[!.]*"))]

    def parts_of(self, transaction: pb.Transaction) -> list[pb.Part]:
        """The staged parts of a transaction."""
        if not self.two_phase:
            return [part for part, _ in self.memory.values() if part.transaction == transaction]
        parts = [pb.Part.FromString(bytes.fromhex(document["part"])) for document in self.stored("staged")]
        return [part for part in parts if part.transaction == transaction]

    def values_staged(self, part: pb.Part) -> list[str | None]:
        """The values of a staged part."""
        if not self.two_phase:
            return self.memory[self.name(part)][1]
        found: list[str | None] = json.loads((self.folder / "staged" / self.name(part)).read_text())["values"]
        return found

    def keep(self, part: pb.Part, values: list[str | None]) -> None:
        """Stages a part, as the mode promises it."""
        if self.two_phase:
            self.write("staged", self.name(part), {"part": part.SerializeToString().hex(), "values": values})
        elif self.idempotent:
            self.memory[self.name(part)] = (part, values)
        else:
            with (self.folder / "out" / "all").open("a") as out:
                out.write("".join(json.dumps({"value": value}) + "\n" for value in values))

    def discard(self, part: pb.Part) -> None:
        """Forgets a staged part."""
        self.memory.pop(self.name(part), None)
        (self.folder / "staged" / self.name(part)).unlink(missing_ok=True)

    def is_visible(self, transaction: pb.Transaction) -> bool:
        return (self.folder / "out" / self.name(transaction)).exists()

    def publish(self, transaction: pb.Transaction, parts: list[pb.Part]) -> None:
        """Makes parts visible, all at once."""
        rows = [{"value": value} for part in parts for value in self.values_staged(part)]
        path = self.folder / "out" / f".{self.name(transaction)}"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        path.rename(self.folder / "out" / self.name(transaction))

    def last(self) -> dict[str, int]:
        """The last committed batch of each pipeline."""
        file = self.folder / "committed"
        return dict(json.loads(file.read_text())) if file.exists() else {}

    def note_committed(self, transaction: pb.Transaction) -> None:
        last = self.last()
        last[transaction.pipeline] = max(transaction.batch, last.get(transaction.pipeline, 0))
        temporary = self.folder / f"committed.{os.getpid()}"
        temporary.write_text(json.dumps(last))
        temporary.rename(self.folder / "committed")

    # Sessions

    def dial(self, channel: grpc.aio.Channel) -> Any:
        return SinkServiceStub(channel).Attach(metadata=self.metadata())

    def hello(self) -> pb.SinkHello:
        hello = pb.SinkHello(
            protocol_version=1,
            connector="raw-sink",
            connector_version="1",
            sink="raw",
            instance=self.instance,
            mode=MODES[self.options.mode],
            capabilities=[CAPABILITY_HEARTBEAT, *([CAPABILITY_RUNS] if self.two_phase else [])],
        )
        if self.two_phase:
            hello.staged.extend(pb.Part.FromString(bytes.fromhex(document["part"])) for document in self.stored("staged"))
            hello.prepared.extend(self.prepared())
            hello.committed.extend(pb.Transaction(pipeline=name, batch=batch) for name, batch in self.last().items())
        return hello

    def prepared(self) -> list[pb.Transaction]:
        return [pb.Transaction.FromString(bytes.fromhex(document["transaction"])) for document in self.stored("prepared")]

    async def begin(self) -> None:
        self.arriving: dict[int, Arriving] = {}
        await self.send(hello=self.hello())

    def welcomed(self, response: pb.SinkServiceAttachResponse) -> None:
        self.read_timeout = response.welcome.read_timeout_ms / 1000

    async def step(self) -> bool:
        return False

    async def goodbye(self, reason: str) -> None:
        await self.send(goodbye=pb.SinkGoodbye(reason=reason))
        await self.to_the_end()

    async def send(self, **message: object) -> None:
        async with self.writing:  # A heartbeat and an answer may be due at once, and a call takes one at a time.
            await self.call.write(pb.SinkServiceAttachRequest(**message))  # type: ignore[arg-type]

    async def take(self, response: pb.SinkServiceAttachResponse) -> None:
        match response.WhichOneof("message"):
            case "start_part":
                self.arriving[response.start_part.id] = Arriving(response.start_part.part)
            case "frame":
                await self.rows(response.frame.id, response.frame.frame)
            case "end_part":
                await self.end(response.end_part.id)
            case "drop_part":
                await self.drop(response.drop_part.id)
            case "prepare":
                await self.prepare(response.prepare.transaction, list(response.prepare.parts))
            case "commit":
                await self.commit(response.commit.transaction)
            case "abort":
                await self.abort(response.abort.transaction)
            case "drain":
                self.drained(response.drain)
            case _:
                self.unknown()

    # Parts

    async def rows(self, number: int, frame: frame_pb2.Frame) -> None:
        arriving = self.arriving.get(number)
        if arriving is None:
            return
        for value in values_of(frame):
            if self.refuses(value):
                arriving.refused.append(pb.Staged.Refused(sequence=arriving.count, reason="it refuses itself"))
            else:
                arriving.values.append(value)
            arriving.count += 1

    def refuses(self, value: str | None) -> bool:
        return value == REFUSED

    async def end(self, number: int) -> None:
        arriving = self.arriving.get(number)
        if arriving is not None:
            self.keep(arriving.part, arriving.values)
            await self.send(staged=pb.Staged(id=number, refused=arriving.refused))

    async def drop(self, number: int) -> None:
        arriving = self.arriving.pop(number, None)
        if arriving is not None:
            self.discard(arriving.part)

    # The vote and the decision

    async def prepare(self, transaction: pb.Transaction, parts: list[pb.Part]) -> None:
        if not self.two_phase and not self.idempotent:
            await self.send(prepared=pb.Prepared(transaction=transaction))
            return
        staged = self.parts_of(transaction)
        if self.lacks(parts, staged):
            reason = "a part is missing"
            await self.send(failed=pb.Failed(transaction=transaction, reason=reason))
            return
        for other in staged:
            if other not in parts:
                self.leave_out(other)
        if self.idempotent:
            self.write_once(transaction, parts)
        else:
            names = [part.SerializeToString().hex() for part in parts]
            self.write("prepared", self.name(transaction), {"transaction": transaction.SerializeToString().hex(), "parts": names})
        await self.send(prepared=pb.Prepared(transaction=transaction))

    def lacks(self, parts: list[pb.Part], staged: list[pb.Part]) -> bool:
        return any(part not in staged for part in parts)

    def leave_out(self, part: pb.Part) -> None:
        self.discard(part)

    def write_once(self, transaction: pb.Transaction, parts: list[pb.Part]) -> None:
        """Writes a batch-idempotent transaction, unless it is there."""
        if not self.is_visible(transaction):
            self.publish(transaction, parts)
        for part in parts:
            self.discard(part)

    async def commit(self, transaction: pb.Transaction) -> None:
        if transaction in self.prepared():
            if not self.is_visible(transaction):
                self.publish(transaction, self.named(transaction))
            self.note_committed(transaction)
            self.forget(transaction)
        elif not self.is_visible(transaction):
            await self.send(failed=pb.Failed(transaction=transaction, reason="unknown"))
            return
        await self.send(committed=pb.Committed(transaction=transaction))

    def named(self, transaction: pb.Transaction) -> list[pb.Part]:
        """The parts that Prepare has named."""
        document = json.loads((self.folder / "prepared" / self.name(transaction)).read_text())
        return [pb.Part.FromString(bytes.fromhex(part)) for part in document["parts"]]

    def forget(self, transaction: pb.Transaction) -> None:
        """Removes everything that is undecided of a transaction."""
        for part in self.parts_of(transaction):
            self.discard(part)
        (self.folder / "prepared" / self.name(transaction)).unlink(missing_ok=True)

    async def abort(self, transaction: pb.Transaction) -> None:
        for number in [number for number, arriving in self.arriving.items() if arriving.part.transaction == transaction]:
            del self.arriving[number]
        self.forget(transaction)
