"""What the instances of a query's sinks have voted for, as the query's checkpoint keeps it.

A gateway that has restarted knows of no votes, and a sink that has lost its storage neither. The checkpoint tells them.
"""

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from headrace.engine._errors import CheckpointError, SinkLost
from headrace.protocol.v1 import engine_pb2 as pb

WRITE_INTERVAL_S = 10.0
"""A new batch of an instance that is known already is written down no more often: any batch shows that its storage is gone."""

VOTES = "headrace-votes.json"
"""The file in the checkpoint."""

log = logging.getLogger("headrace.engine")


@dataclass(frozen=True, order=True)
class Vote:
    """The last batch in the commit log that an instance of a sink has voted for."""

    sink: str
    instance: str
    batch: int

    def to_proto(self) -> pb.SinkVote:
        """As the gateway knows it."""
        return pb.SinkVote(sink=self.sink, instance=self.instance, batch=self.batch)

    @classmethod
    def from_proto(cls, vote: pb.SinkVote) -> "Vote":
        """As the gateway says it."""
        return cls(vote.sink, vote.instance, vote.batch)


class Votes:
    """The votes of one query, in memory and in its checkpoint."""

    def __init__(self, read: Callable[[], str | None], write: Callable[[str], None]) -> None:
        """Knows of none.

        Args:
            read: The text in the checkpoint; None where there is none.
            write: Puts it there.
        """
        self._read = read
        self._write = write
        self._votes: tuple[Vote, ...] = ()
        self._written: tuple[Vote, ...] = ()
        self._due = 0.0
        self._lost: tuple[Vote, ...] = ()

    def recall(self) -> None:
        """Learns what the checkpoint says.

        Raises:
            CheckpointError: it is not what is written there.
        """
        text = self._read()
        try:
            self._votes = self._written = tuple(Vote(**each) for each in json.loads(text)) if text else ()
        except (ValueError, TypeError) as error:
            raise CheckpointError(
                f"the checkpoint's {VOTES} is not what Headrace writes ({error}): restore it, or remove it where no sink has "
                "lost anything"
            ) from None

    def of(self, sinks: Sequence[str], committed: int | None) -> list[pb.SinkVote]:
        """Those that concern these sinks, and a commit log that ends with a batch: a checkpoint may have been set back."""
        if committed is None:
            return []
        return [vote.to_proto() for vote in self._votes if vote.sink in sinks and vote.batch <= committed]

    def take(self, response: pb.SettleResponse) -> None:
        """Learns what the gateway says, and writes it down now and then."""
        self._votes = tuple(sorted(map(Vote.from_proto, response.votes)))
        lost = tuple(map(Vote.from_proto, response.lost))
        for vote in lost:
            if vote not in self._lost:
                log.error("%s", _sentence(vote))
        self._lost = lost
        is_new = {(v.sink, v.instance) for v in self._votes} != {(v.sink, v.instance) for v in self._written}
        if is_new or time.monotonic() >= self._due:
            self.save()

    def save(self) -> None:
        """Writes down what is known."""
        self._due = time.monotonic() + WRITE_INTERVAL_S
        if self._votes == self._written:
            return
        try:
            self._write(json.dumps([asdict(vote) for vote in self._votes]))
        except Exception as error:
            log.warning("what sinks have voted for could not be written to the checkpoint: %s", error)
        else:
            self._written = self._votes

    def check(self) -> None:
        """Checks that every instance has what it voted for, as far as the gateway knows.

        Raises:
            SinkLost: one has come back without it.
        """
        if self._lost:
            raise SinkLost(f"{_sentence(self._lost[0])}. {WHAT_TO_DO}")


WHAT_TO_DO = "Restore what the sink had stored and restart the query, or set onSinkLoss to accept to go on without it"


def _sentence(vote: Vote) -> str:
    return (
        f"sink {vote.sink} has lost rows: its instance {vote.instance} voted for batch {vote.batch}, which is in the commit log, "
        "and has come back without it"
    )
