"""Sinks that break one rule each, by the name of the check that must catch them."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import grpc.aio
from tests.conformance.connector import Ended, parser
from tests.conformance.session_faults import CLOSE_FAULTS, SESSION_FAULTS
from tests.conformance.sink import Sink

from headrace.protocol.v1 import frame_pb2
from headrace.protocol.v1 import sink_pb2 as pb


class GreetsTwice(Sink):
    async def begin(self) -> None:
        await super().begin()
        await super().begin()


class SaysAnotherMode(Sink):
    def hello(self) -> pb.SinkHello:
        hello = super().hello()
        hello.mode = pb.SINK_MODE_AT_LEAST_ONCE if self.two_phase else pb.SINK_MODE_TWO_PHASE
        return hello


class RefusesOrdinaryMessages(Sink):
    def refuses(self, value: str | None) -> bool:
        return super().refuses(value) or value == "two-1"


class SkipsEmptyParts(Sink):
    async def end(self, number: int) -> None:
        if number not in self.arriving or self.arriving[number].count:
            await super().end(number)


class AnswersTwice(Sink):
    async def end(self, number: int) -> None:
        await super().end(number)
        if number in self.arriving:
            await self.send(staged=pb.Staged(id=number, refused=self.arriving[number].refused))


class KnowsOnePartAtATime(Sink):
    latest = 0

    async def take(self, response: pb.SinkServiceAttachResponse) -> None:
        if response.HasField("start_part"):
            self.latest = response.start_part.id
        await super().take(response)

    async def rows(self, number: int, frame: frame_pb2.Frame) -> None:
        if number == self.latest:
            await super().rows(number, frame)


class NeedsKeys(Sink):
    async def rows(self, number: int, frame: frame_pb2.Frame) -> None:
        if not frame.keys and frame.count < 3 and number in self.arriving:
            return
        await super().rows(number, frame)


class TakesSmallMessages(Sink):
    def channel_options(self) -> list[tuple[str, int]]:
        return [*super().channel_options()[:-1], ("grpc.max_receive_message_length", 3 << 20)]


class ReadsAttempts(Sink):
    def name(self, what: pb.Part | pb.Transaction) -> str:
        number = int(what.attempt.split("/")[1]) % 1000 if isinstance(what, pb.Part) else 0
        return f"{super().name(what)}-{number}"


class TakesShortNames(Sink):
    async def end(self, number: int) -> None:
        if number in self.arriving and len(self.arriving[number].part.attempt) > 100:
            await self.send(failed=pb.Failed(part_id=number, reason="File name too long"))
        else:
            await super().end(number)


class MiscountsRefusals(Sink):
    async def rows(self, number: int, frame: frame_pb2.Frame) -> None:
        arriving = self.arriving.get(number)
        if arriving is not None:
            before = len(arriving.refused)
            arriving.count = 0
            await super().rows(number, frame)
            for refused in arriving.refused[before:]:
                refused.reason = "by its place in the frame"


class KeepsDroppedParts(Sink):
    async def drop(self, number: int) -> None:
        pass


class AnswersDrops(Sink):
    async def drop(self, number: int) -> None:
        known = number in self.arriving
        await super().drop(number)
        if not known:
            await self.send(failed=pb.Failed(transaction=pb.Transaction(pipeline="?"), reason="no such part"))


class StopsReading(Sink):
    stuck = False

    async def rows(self, number: int, frame: frame_pb2.Frame) -> None:
        await super().rows(number, frame)
        if number in self.arriving and self.arriving[number].count == 512:
            self.stuck = True
            await asyncio.sleep(3)
            self.stuck = False

    async def beat(self) -> None:
        if not self.stuck:
            await super().beat()


class LeavesWithoutAnAnswer(Sink):
    async def end(self, number: int) -> None:
        async def late() -> None:
            await asyncio.sleep(0.3)
            await Sink.end(self, number)

        self.answering = asyncio.create_task(late())


class NeverVotes(Sink):
    async def prepare(self, transaction: pb.Transaction, parts: list[pb.Part]) -> None:
        if len(parts) == 3:
            await self.send(failed=pb.Failed(transaction=transaction, reason="three are too many"))
        else:
            await super().prepare(transaction, parts)


class KeepsWhatIsLeftOut(Sink):
    def leave_out(self, part: pb.Part) -> None:
        pass

    def named(self, transaction: pb.Transaction) -> list[pb.Part]:
        return self.parts_of(transaction)


class VotesForWhatItHas(Sink):
    def lacks(self, parts: list[pb.Part], staged: list[pb.Part]) -> bool:
        return not any(part in staged for part in parts)


class ShowsAtPrepare(Sink):
    async def prepare(self, transaction: pb.Transaction, parts: list[pb.Part]) -> None:
        if transaction.pipeline == "orders-query" and not self.lacks(parts, self.parts_of(transaction)):
            lines = [json.dumps({"value": value}) for part in parts for value in self.values_staged(part)]
            self.early(transaction).write_text("\n".join(lines) + "\n")
        await super().prepare(transaction, parts)

    def early(self, transaction: pb.Transaction) -> Path:
        return self.folder / "out" / f"{self.name(transaction)}-early"

    def forget(self, transaction: pb.Transaction) -> None:
        self.early(transaction).unlink(missing_ok=True)
        super().forget(transaction)


class ShowsLater(Sink):
    def publish(self, transaction: pb.Transaction, parts: list[pb.Part]) -> None:
        rows = [(part, self.values_staged(part)) for part in parts]
        if transaction.batch != 2 or transaction.pipeline != "orders-query":
            super().publish(transaction, parts)
            return

        def later() -> None:
            path = self.folder / "out" / self.name(transaction)
            path.write_text("".join(json.dumps({"value": value}) + "\n" for _, values in rows for value in values))

        asyncio.get_running_loop().call_later(5, later)


class KnowsOnePipeline(Sink):
    def name(self, what: pb.Part | pb.Transaction) -> str:
        if isinstance(what, pb.Transaction) and what.pipeline in ("first", "second") and what.batch == 4:
            return super().name(pb.Transaction(pipeline="any", batch=what.batch))
        return super().name(what)


class ShowsTwice(Sink):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.done: list[pb.Transaction] = []

    async def commit(self, transaction: pb.Transaction) -> None:
        if transaction in self.done:
            path = self.folder / "out" / self.name(transaction)
            (path.parent / f"{path.name}-{time.monotonic_ns()}").write_text(path.read_text())
        self.done.append(transaction)
        await super().commit(transaction)


class CommitsWhatItNeverHad(Sink):
    async def commit(self, transaction: pb.Transaction) -> None:
        if transaction in self.prepared() or self.is_visible(transaction):
            await super().commit(transaction)
        else:
            await self.send(committed=pb.Committed(transaction=transaction))


class AnswersAfterAbort(Sink):
    async def abort(self, transaction: pb.Transaction) -> None:
        arriving = dict(self.arriving)
        await super().abort(transaction)
        self.arriving = arriving


class KeepsAbortedVotes(Sink):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.kept: list[pb.Part] = []

    async def abort(self, transaction: pb.Transaction) -> None:
        if transaction in self.prepared() and transaction.pipeline == "orders-query":
            self.kept += self.named(transaction)
        else:
            await super().abort(transaction)

    def leave_out(self, part: pb.Part) -> None:
        if part not in self.kept:
            super().leave_out(part)

    def named(self, transaction: pb.Transaction) -> list[pb.Part]:
        return [*super().named(transaction), *(part for part in self.kept if part.transaction == transaction)]


class WritesAgain(Sink):
    def publish(self, transaction: pb.Transaction, parts: list[pb.Part]) -> None:
        before = self.folder / "out" / self.name(transaction)
        if before.exists():
            (before.parent / f"{before.name}-{time.monotonic_ns()}").write_text(before.read_text())
        super().publish(transaction, parts)

    def write_once(self, transaction: pb.Transaction, parts: list[pb.Part]) -> None:
        self.publish(transaction, parts)
        for part in parts:
            self.discard(part)


class InventsACommit(Sink):
    def hello(self) -> pb.SinkHello:
        hello = super().hello()
        if self.two_phase and not hello.committed:
            hello.committed.add(pipeline="none", batch=0)
        return hello


class ListsOnePart(Sink):
    def hello(self) -> pb.SinkHello:
        hello = super().hello()
        if len(hello.staged) == 2 and hello.staged[0].transaction == hello.staged[1].transaction:
            del hello.staged[1:]
        return hello


class VotesOnlyForItsSession(Sink):
    async def prepare(self, transaction: pb.Transaction, parts: list[pb.Part]) -> None:
        arrived = [arriving.part for arriving in self.arriving.values()]
        if any(part not in arrived for part in parts):
            await self.send(failed=pb.Failed(transaction=transaction, reason="not of this session"))
        else:
            await super().prepare(transaction, parts)


class DoesNotListPartsOfVotes(Sink):
    def hello(self) -> pb.SinkHello:
        hello = super().hello()
        staged = [part for part in hello.staged if part.transaction not in hello.prepared]
        del hello.staged[:]
        hello.staged.extend(staged)
        return hello


class ForgetsVotesInACrash(Sink):
    """It lists them still, and cannot commit them unless it has begun to."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.voted: list[pb.Transaction] = []

    async def prepare(self, transaction: pb.Transaction, parts: list[pb.Part]) -> None:
        self.voted.append(transaction)
        await super().prepare(transaction, parts)

    async def commit(self, transaction: pb.Transaction) -> None:
        begun = self.folder / "begun"
        if transaction in self.prepared() and transaction not in self.voted and not begun.exists():
            await self.send(failed=pb.Failed(transaction=transaction, reason="its rows are lost"))
            return
        begun.touch()
        await super().commit(transaction)


class ForgetsTheVoteBeforeItShows(Sink):
    async def commit(self, transaction: pb.Transaction) -> None:
        if transaction in self.prepared():
            vote = self.folder / "prepared" / self.name(transaction)
            text = vote.read_text()
            vote.unlink()
            await asyncio.sleep(1)
            vote.write_text(text)
        await super().commit(transaction)


class ListsOneCommit(Sink):
    def hello(self) -> pb.SinkHello:
        hello = super().hello()
        del hello.committed[1:]
        return hello


class AbortsOnlyWhatArrived(Sink):
    async def abort(self, transaction: pb.Transaction) -> None:
        if transaction in self.known:
            await super().abort(transaction)

    async def begin(self) -> None:
        await super().begin()
        self.known: list[pb.Transaction] = []

    async def end(self, number: int) -> None:
        if number in self.arriving:
            self.known.append(self.arriving[number].part.transaction)
        await super().end(number)


class BeginsItsFileAnew(Sink):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        (self.folder / "out" / "all").unlink(missing_ok=True)


class GivesUpWhereTheConnectionBreaks(Sink):
    def transient(self, error: grpc.aio.AioRpcError) -> bool:
        return super().transient(error) and "failed to connect" not in str(error.details())


class LeavesAnIdleGateway(Sink):
    def welcomed(self, response: pb.SinkServiceAttachResponse) -> None:
        super().welcomed(response)
        self.welcomed_at = time.monotonic()

    async def step(self) -> bool:
        if not self.arriving and time.monotonic() - self.welcomed_at > 1:
            raise Ended
        return await super().step()


class MixesRuns(Sink):
    async def abort(self, transaction: pb.Transaction) -> None:
        await super().abort(transaction)
        for other in self.prepared():
            if (other.pipeline, other.batch) == (transaction.pipeline, transaction.batch):
                self.forget(other)


FAULTS: dict[str, type[Sink]] = {
    **{name: type(fault.__name__, (fault, Sink), {}) for name, fault in SESSION_FAULTS.items()},
    "hello": GreetsTwice,
    "mode": SaysAnotherMode,
    "staged": RefusesOrdinaryMessages,
    "empty-part": SkipsEmptyParts,
    "answers": AnswersTwice,
    "interleaved": KnowsOnePartAtATime,
    "columns": NeedsKeys,
    "large-part": TakesSmallMessages,
    "attempt-names": ReadsAttempts,
    "long-names": TakesShortNames,
    "refusals": MiscountsRefusals,
    "drop-part": KeepsDroppedParts,
    "discard-unknown": AnswersDrops,
    "back-pressure": StopsReading,
    "drain": LeavesWithoutAnAnswer,
    "prepare": NeverVotes,
    "left-out": KeepsWhatIsLeftOut,
    "missing-part": VotesForWhatItHas,
    "early": ShowsAtPrepare,
    "visible": ShowsLater,
    "pipelines": KnowsOnePipeline,
    "commit-again": ShowsTwice,
    "commit-unknown": CommitsWhatItNeverHad,
    "abort-staged": AnswersAfterAbort,
    "abort-prepared": KeepsAbortedVotes,
    "batch-again": WritesAgain,
    "fresh": InventsACommit,
    "lists-staged": ListsOnePart,
    "vote-after-crash": VotesOnlyForItsSession,
    "lists-prepared": DoesNotListPartsOfVotes,
    "commit-after-crash": ForgetsVotesInACrash,
    "crash-in-commit": ForgetsTheVoteBeforeItShows,
    "lists-committed": ListsOneCommit,
    "abort-after-crash": AbortsOnlyWhatArrived,
    "runs": MixesRuns,
    "staged-survives": BeginsItsFileAnew,
    "gateway-restart": GivesUpWhereTheConnectionBreaks,
    "idle-gateway": LeavesAnIdleGateway,
}
"""A fault for each check."""

MORE_FAULTS: dict[str, type[Sink]] = {name: type(fault.__name__, (fault, Sink), {}) for name, fault in CLOSE_FAULTS.items()}
"""Further faults, after the name of the check that must catch it."""


def connector(words: Sequence[str] | None = None) -> Sink:
    """The sink that a command line describes."""
    options = parser()
    options.add_argument("--mode", default="two-phase")
    given = options.parse_args(words)
    return (FAULTS | MORE_FAULTS).get(given.fault, Sink)(given)


if __name__ == "__main__":
    sys.exit(asyncio.run(connector().run_as_program()))
