"""The connectors of the benchmarks, each in a separate process: `python -m headrace.laboratory.bench.sources KIND ...`.

When it ends, a connector prints one JSON object with its measurements, which are based on acknowledgements.
"""

import argparse
import asyncio
import gc
import json
import statistics
import sys
import time
from array import array
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

import uvloop

from headrace.sdk import AsyncSource, Batch, FrameTarget, Headers, Message, Packed, Position, Settings, Source, run, serve

MESSAGE_BYTES = 61
VALUE = b"m" * MESSAGE_BYTES
TICK_S = 0.002
STEADY_S = 0.5


def packed(count: int, size: int = MESSAGE_BYTES) -> Packed:
    """Returns a column of `count` values of `size` bytes."""
    return Packed(b"m" * (count * size), array("I", [size]) * count)


def traceparents(count: int, sampled: float) -> list[Headers]:
    """Returns the headers of `count` messages, of which a share is sampled: a `traceparent` each."""
    every = round(1 / sampled)
    flags = ["00" if n % every else "01" for n in range(count)]
    return [[("traceparent", f"00-{n + 1:032x}-{n + 1:016x}-{flag}".encode())] for n, flag in enumerate(flags)]


@dataclass
class Acknowledgements:
    """The times and numbers of acknowledged messages."""

    moments: list[tuple[float, int]] = field(default_factory=list)

    def begin(self) -> None:
        """Records that nothing is acknowledged when the first message is sent, so that one acknowledgement gives a rate."""
        if not self.moments:
            self.note(0)

    def note(self, messages: int) -> None:
        """Records the number of messages that are acknowledged by now."""
        self.moments.append((time.time(), messages))


class Fast(Source):
    """Sends `total` messages over some partitions, as fast as they are accepted."""

    name = "bench"

    def __init__(self, total: int, partitions: int, batch: int, single: bool, headers: Sequence[Headers] | None = None) -> None:
        self.total = total // partitions
        self.names = [str(n) for n in range(partitions)]
        self.batch = batch
        self.single = single
        self.values = packed(batch)
        self.headers = headers
        self.acknowledgements = Acknowledgements()
        self.done = dict.fromkeys(self.names, 0)

    def partitions(self) -> Sequence[str]:
        """Returns all partitions, from the start."""
        return self.names

    def read(self, partition: str, position: Position | None) -> Iterator[Message | Batch | None]:
        """Yields numbered messages."""
        self.acknowledgements.begin()
        at = position.sequence + 1 if position else 0
        while at < self.total:
            end = min(at + self.batch, self.total)
            if self.single:
                for sequence in range(at, end):
                    yield Message(VALUE, sequence=sequence)
            else:
                values = self.values if end - at == self.batch else packed(end - at)
                yield Batch(values, sequences=range(at, end), headers=self.headers and self.headers[: end - at])
            at = end

    def acknowledged(self, partition: str, position: Position) -> None:
        """Counts acknowledged messages."""
        self.done[partition] = position.sequence + 1
        self.acknowledgements.note(sum(self.done.values()))


class Paced(AsyncSource):
    """Sends messages at a steady rate for some seconds, and measures the time from sending each to its acknowledgement."""

    def __init__(self, name: str, per_second: float, seconds: float, skip_seconds: float, latencies: "array[float]") -> None:
        self.name = name
        self.per_second = per_second
        self.total = int(per_second * seconds)
        self.skip = int(per_second * skip_seconds)
        self.latencies = latencies
        self.given = array("d")
        self.settled = 0

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | Batch | None]:
        """Yields the messages that are due. Latency counts from the due time, so it includes delays of the source."""
        begun = time.perf_counter()
        while len(self.given) < self.total:
            due = min(int((time.perf_counter() - begun) * self.per_second), self.total)
            at = len(self.given)
            if due > at:
                self.given.extend(begun + n / self.per_second for n in range(at + 1, due + 1))
                if due == at + 1:
                    yield Message(VALUE, sequence=at)
                else:
                    yield Batch(packed(due - at), sequences=range(at, due))
            next_due = begun + (len(self.given) + 1) / self.per_second
            await asyncio.sleep(max(TICK_S, next_due - time.perf_counter()))

    async def acknowledged(self, partition: str, position: Position) -> None:
        """Measures every message that is newly acknowledged."""
        now, end = time.perf_counter(), position.sequence + 1
        self.latencies.extend(now - moment for moment in self.given[max(self.settled, self.skip) : end])
        self.settled = end


class Steady(AsyncSource):
    """Sends a batch of each of some partitions twice a second, so that all of these streams change."""

    def __init__(self, name: str, partitions: int, batch: int) -> None:
        self.name = name
        self.names = [str(n) for n in range(partitions)]
        self.values = packed(batch)
        self.batch = batch

    async def partitions(self) -> Sequence[str]:
        """Returns all partitions, from the start."""
        return self.names

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | Batch | None]:
        """Yields batches until the connector is killed."""
        at = position.sequence + 1 if position else 0
        while True:
            yield Batch(self.values, sequences=range(at, at + self.batch))
            at += self.batch
            await asyncio.sleep(STEADY_S)


class Stamped(AsyncSource):
    """Sends messages at a steady rate, each of which contains its due time as text."""

    name = "bench"

    def __init__(self, per_second: float, seconds: float) -> None:
        self.per_second = per_second
        self.total = int(per_second * seconds)

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | Batch | None]:
        """Yields the messages that are due, with their times on the wall clock."""
        at = position.sequence + 1 if position else 0
        begun = time.time() - at / self.per_second
        while at < self.total:
            due = min(int((time.time() - begun) * self.per_second), self.total)
            if due > at:
                stamps = (begun + n / self.per_second for n in range(at + 1, due + 1))
                text = "".join(f"{stamp:<{MESSAGE_BYTES}.6f}" for stamp in stamps).encode()
                yield Batch(Packed(text, array("I", [MESSAGE_BYTES]) * (due - at)), sequences=range(at, due))
                at = due
            await asyncio.sleep(max(TICK_S, begun + (at + 1) / self.per_second - time.time()))


def quantile_ms(sorted_s: Sequence[float], q: float) -> float:
    """Returns a quantile of sorted times, in milliseconds.

    Raises:
        StatisticsError: There is no time.
    """
    if not sorted_s:
        raise statistics.StatisticsError("no time was measured")
    return sorted_s[min(len(sorted_s) - 1, int(len(sorted_s) * q))] * 1000


def fast(arguments: argparse.Namespace) -> dict[str, object]:
    """Runs a fast source to its end."""
    headers = traceparents(arguments.batch, arguments.sampled) if arguments.sampled else None
    source = Fast(arguments.messages, arguments.partitions, arguments.batch, arguments.single, headers)
    settings = Settings(frame=FrameTarget(messages=arguments.frame)) if arguments.frame else Settings()
    run(source, gateway=arguments.gateway, settings=settings)
    return {"acknowledged": source.acknowledgements.moments}


def paced(arguments: argparse.Namespace) -> dict[str, object]:
    """Runs one paced source for each session, all in this process."""
    latencies = array("d")
    gc.disable()  # A collection would stop a thousand connectors at once, unlike on separate machines.

    async def crowd() -> None:
        sources = [
            Paced(f"bench{n}", arguments.rate, arguments.seconds, arguments.skip, latencies)
            for n in range(arguments.first, arguments.first + arguments.sessions)
        ]
        await asyncio.gather(*(serve(source, gateway=arguments.gateway) for source in sources))

    uvloop.run(crowd())
    ordered = sorted(latencies)
    return {
        "messages": len(ordered),
        "p50_ms": quantile_ms(ordered, 0.50),
        "p99_ms": quantile_ms(ordered, 0.99),
        "max_ms": ordered[-1] * 1000,
    }


def steady(arguments: argparse.Namespace) -> dict[str, object]:
    """Runs steady sources, one for each session, all in this process, until it is killed."""

    async def crowd() -> None:
        sources = [Steady(f"bench{n}", arguments.partitions, arguments.batch) for n in range(arguments.sessions)]
        await asyncio.gather(*(serve(source, gateway=arguments.gateway) for source in sources))

    uvloop.run(crowd())
    return {}


def stamped(arguments: argparse.Namespace) -> dict[str, object]:
    """Runs a source of stamped messages to its end."""
    run(Stamped(arguments.rate, arguments.seconds), gateway=arguments.gateway)
    return {"messages": int(arguments.rate * arguments.seconds)}


KINDS = {"fast": fast, "paced": paced, "steady": steady, "stamped": stamped}


def main() -> None:
    """Runs a connector, and prints its measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=[*KINDS])
    parser.add_argument("--gateway", required=True)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--frame", type=int, default=0)
    parser.add_argument("--single", action="store_true")
    parser.add_argument("--sampled", type=float, default=0)
    parser.add_argument("--rate", type=float, default=10_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--skip", type=float, default=3)
    parser.add_argument("--sessions", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    json.dump(KINDS[arguments.kind](arguments), sys.stdout)


if __name__ == "__main__":
    main()
