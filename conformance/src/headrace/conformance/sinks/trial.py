"""The run of one check of a sink."""

import base64
import binascii
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from headrace.conformance.core.changes import Changes
from headrace.conformance.core.errors import CheckFailed, SpecError
from headrace.conformance.core.frames import Message
from headrace.conformance.core.spec import SinkSpec
from headrace.conformance.core.trace import Trace
from headrace.conformance.core.trial import Trial
from headrace.conformance.sinks.session import SinkGateway, SinkSession, key
from headrace.contract.counts import counted
from headrace.protocol.v1 import sink_pb2 as pb

_SHOWN = 4


def transaction(batch: int, pipeline: str = "orders-query", run: str = "") -> pb.Transaction:
    """The transaction of a batch; only a sink with CAPABILITY_RUNS learns its run."""
    return pb.Transaction(pipeline=pipeline, batch=batch, run=run)


def part(of: pb.Transaction, partition: int = 0, attempt: str = "run-1/0") -> pb.Part:
    """A part of a transaction; its attempt has a slash, as every attempt has."""
    return pb.Part(transaction=of, partition=partition, attempt=attempt)


def rows(name: str, count: int = 3) -> list[Message]:
    """Rows whose values everybody can tell apart: `name-0`, `name-1` and so on."""
    return [Message(f"{name}-{index}".encode(), key=b"k%d" % index) for index in range(count)]


class SinkTrial(Trial[SinkSpec, SinkGateway]):
    """The sink that a check acts on."""

    async def session(self) -> SinkSession:
        """As `Trial.session`."""
        session = await super().session()
        assert isinstance(session, SinkSession)
        return session

    async def begin(self) -> SinkSession:
        """Starts the connector; returns its session."""
        await self.start()
        return await self.session()

    async def after_a_crash(self, session: SinkSession) -> SinkSession:
        """Kills the connector, and starts it again; returns its new session."""
        await self.kill()
        await self.until(lambda: session.ended, "the end of the call", must_run=False)
        return await self.begin()

    async def staged(self, session: SinkSession, of: pb.Part, what: Sequence[Message]) -> int:
        """Delivers a part, and waits for Staged; returns its id."""
        number = session.deliver(of, what)
        await self.stages(session, number)
        return number

    async def stages(self, session: SinkSession, number: int) -> pb.Staged:
        """Waits for the Staged of a part whose EndPart was sent."""
        state = session.parts[number]
        await self.until(lambda: state.answered, f"Staged for part {number}")
        self.require(state.failed is None, f"part {number}: Failed, and not Staged: {state.failed}")
        assert state.staged is not None
        return state.staged

    async def votes(self, session: SinkSession, of: pb.Transaction, *parts: pb.Part) -> None:
        """Asks for a vote, and waits for Prepared."""
        session.prepare(of, *parts)
        vote = session.votes[key(of)]
        await self.until(lambda: vote.answered, f"Prepared for batch {of.batch}")
        self.require(vote.failed is None, f"batch {of.batch}: Failed, and not Prepared: {vote.failed}")

    async def commits(self, session: SinkSession, of: pb.Transaction) -> None:
        """Says that a transaction is in the commit log, and waits for Committed."""
        session.commit(of)
        question = session.commits[key(of)]
        await self.until(lambda: question.answered, f"Committed for batch {of.batch}")
        self.require(question.failed is None, f"batch {of.batch}: Failed, and not Committed: {question.failed}")

    async def publish(self, session: SinkSession, of: pb.Transaction, *parts: pb.Part) -> None:
        """Does what makes staged parts visible, in the sink's mode."""
        if self.spec.mode != "at-least-once":
            await self.votes(session, of, *parts)
        if self.spec.mode == "two-phase":
            await self.commits(session, of)

    async def visible(self) -> list[bytes | None]:
        """The values that are visible at the sink.

        Raises:
            SpecError: The command for that failed, or prints something else than JSON lines.
        """
        assert self.spec.read is not None
        output = await self.run("read", self.spec.read)
        return [_value(line) for line in output.decode(errors="replace").splitlines() if line.strip()]

    async def shows(self, expected: Sequence[Message], when: str) -> None:
        """Compares what is visible with what must be, without regard to the order.

        Raises:
            CheckFailed: Something is missing, is there twice, or must not be visible.
        """
        found, wanted = Counter(await self.visible()), Counter(row.value for row in expected)
        if missing := list((wanted - found).elements()):
            raise CheckFailed(f"{when}, {counted(len(missing), 'message', 'is')} not visible: {_some(missing)}")
        if more := list((found - wanted).elements()):
            twice = [value for value in more if value in wanted]
            what = "are visible more than once" if twice else "are visible that must not be"
            raise CheckFailed(f"{when}, {counted(len(more), 'message')} {what}: {_some(twice or more)}")

    async def shows_at_least(self, expected: Sequence[Message], when: str) -> None:
        """As `shows`; what is visible more than once, or besides, is not looked at."""
        found = set(await self.visible())
        missing = [row.value for row in expected if row.value not in found]
        self.require(not missing, f"{when}, {counted(len(missing), 'message', 'is')} not visible: {_some(missing)}")


def new_sink_trial(
    check: str, command: Sequence[str], spec: SinkSpec, work: Path, trace: Trace, changes: Changes, token: str
) -> SinkTrial:
    """The trial of a check, with a gateway of its own."""
    return SinkTrial(check, command, spec, SinkGateway(trace, changes), work, trace, changes, token)


def _some(values: Sequence[bytes | None]) -> str:
    """The first few values, for people."""
    shown = [repr(value if value is None or len(value) <= 60 else value[:57] + b"...") for value in values[:_SHOWN]]
    return ", ".join(shown) + (", ..." if len(values) > _SHOWN else "")


def _value(line: str) -> bytes | None:
    """The value of a message, from a line of the command that reads."""
    try:
        found = json.loads(line)
        if isinstance(found, dict):
            if "value_base64" in found:
                return base64.b64decode(found["value_base64"], validate=True)
            found = found.get("value")
        if found is None or isinstance(found, str):
            return None if found is None else found.encode()
    except (json.JSONDecodeError, binascii.Error, TypeError):
        pass
    raise SpecError(f"read: must print JSON on each line, a text or an object with value or value_base64; found {line[:80]!r}")
