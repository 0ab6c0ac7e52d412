"""The votes of the instances of a query's sinks, stored in the query's checkpoint.

A gateway that has restarted has no votes, and neither has a sink that has lost its storage. The driver sends them from here.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from headrace.contract import clock
from headrace.engine._errors import CheckpointError, SinkLost
from headrace.protocol.v1 import engine_pb2 as pb

WRITE_INTERVAL_S = 10.0
"""How often, in seconds, a later batch of a known instance is written: any of its batches is enough to detect lost storage."""

VOTES = "headrace-votes.json"
"""The name of the file in the checkpoint."""

log = logging.getLogger("headrace.engine")


@dataclass(frozen=True, order=True)
class Vote:
    """The last batch in the commit log that an instance of a sink has voted for."""

    sink: str
    instance: str
    batch: int

    def to_proto(self) -> pb.SinkVote:
        """The wire form."""
        return pb.SinkVote(sink=self.sink, instance=self.instance, batch=self.batch)

    @classmethod
    def from_proto(cls, vote: pb.SinkVote) -> "Vote":
        """The vote of a wire message."""
        return cls(vote.sink, vote.instance, vote.batch)


class Votes:
    """The votes of one query, in memory and in its checkpoint."""

    def __init__(
        self, read: Callable[[], str | None], write: Callable[[str], None], fields: Mapping[str, object] | None = None
    ) -> None:
        """Starts without votes; `load` reads the votes of the checkpoint.

        Args:
            read: Returns the content of the file in the checkpoint; None if it does not exist.
            write: Replaces the file.
            fields: The fields of log lines.
        """
        self._fields = fields or {}
        self._read = read
        self._write = write
        self._votes: tuple[Vote, ...] = ()
        self._written: tuple[Vote, ...] = ()
        self._due = 0.0
        self._losses: tuple[Vote, ...] = ()

    def load(self) -> None:
        """Reads the votes from the checkpoint.

        Raises:
            CheckpointError: The file is invalid.
        """
        text = self._read()
        try:
            self._votes = self._written = tuple(Vote(**each) for each in json.loads(text)) if text else ()
        except (ValueError, TypeError) as error:
            raise CheckpointError(
                f"the checkpoint's {VOTES} is invalid ({error}): restore it, or delete it if no sink has lost data"
            ) from None

    def for_sinks(self, sinks: Sequence[str], committed: int | None) -> list[pb.SinkVote]:
        """The votes of these sinks up to the last committed batch: an older checkpoint may have been restored."""
        if committed is None:
            return []
        return [vote.to_proto() for vote in self._votes if vote.sink in sinks and vote.batch <= committed]

    def update(self, response: pb.ReportCommitsResponse) -> None:
        """Takes over the votes from the gateway's response, and writes them from time to time."""
        self._votes = tuple(sorted(map(Vote.from_proto, response.votes)))
        lost = tuple(map(Vote.from_proto, response.lost))
        for vote in lost:
            if vote not in self._losses:
                fields = {**self._fields, "sink": vote.sink, "instance": vote.instance, "batch": vote.batch}
                log.error("%s", _sentence(vote), extra=fields)
        self._losses = lost
        is_new = {(v.sink, v.instance) for v in self._votes} != {(v.sink, v.instance) for v in self._written}
        if is_new or clock.monotonic() >= self._due:
            self.save()

    def save(self) -> None:
        """Writes the votes to the checkpoint."""
        self._due = clock.monotonic() + WRITE_INTERVAL_S
        if self._votes == self._written:
            return
        try:
            self._write(json.dumps([asdict(vote) for vote in self._votes]))
        except Exception as error:
            log.warning("the votes of the sinks could not be written to the checkpoint: %s", error, extra=self._fields)
        else:
            self._written = self._votes

    def check(self) -> None:
        """Checks that no instance has lost what it voted for, as far as the gateway knows.

        Raises:
            SinkLost: An instance has restarted without it.
        """
        if self._losses:
            raise SinkLost(f"{_sentence(self._losses[0])}. {WHAT_TO_DO}")


WHAT_TO_DO = "Restore what the sink had stored and restart the query, or set onSinkLoss to accept to continue without it"


def _sentence(vote: Vote) -> str:
    return (
        f"sink {vote.sink} has lost rows: its instance {vote.instance} voted for batch {vote.batch}, which is in the commit log, "
        "and has come back without it"
    )
